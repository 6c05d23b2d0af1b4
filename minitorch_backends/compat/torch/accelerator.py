"""`torch.accelerator`, which reports that no accelerator is present."""

from __future__ import annotations

from typing import Any, NoReturn

from ...tensor.memory import device

__all__ = [
    "current_accelerator", "current_device_idx", "current_device_index", "device_count", "empty_cache",
    "is_available", "set_device_idx", "set_device_index", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """Whether there is an accelerator: False."""
    return False


def current_accelerator(check_available: bool = False) -> device | None:
    """The accelerator: None."""
    return None


def device_count() -> int:
    """The number of accelerators: 0."""
    return 0


def empty_cache() -> None:
    """No effect: memory returns to the system by itself."""


def _refuse(name: str) -> NoReturn:
    raise RuntimeError(f"accelerator.{name}(): no accelerator is available; check accelerator.is_available() first")


def current_device_index() -> int:
    """Raises RuntimeError: no accelerator is available."""
    _refuse("current_device_index")


def set_device_index(device: Any, /) -> None:
    """Raises RuntimeError: no accelerator is available."""
    _refuse("set_device_index")


def synchronize(device: Any = None, /) -> None:
    """Raises RuntimeError: no accelerator is available."""
    _refuse("synchronize")


current_device_idx, set_device_idx = current_device_index, set_device_index
