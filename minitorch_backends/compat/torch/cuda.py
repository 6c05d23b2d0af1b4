"""`torch.cuda`, as torch without CUDA has it: no device is available, and functions that need one raise AssertionError.

As in torch without CUDA, seeds, caches and memory statistics have no effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn


def is_available() -> bool:
    """Whether there is a CUDA device: False."""
    return False


def is_initialized() -> bool:
    """Whether CUDA runs: False."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether a CUDA device computes with bfloat16: False. `backends` has the flags for products on the CPU."""
    return False


def device_count() -> int:
    """The number of CUDA devices: 0."""
    return 0


def get_arch_list() -> list[str]:
    """The architectures of compiled CUDA kernels: none."""
    return []


def get_rng_state_all() -> list[Any]:
    """The states of all devices' generators: none."""
    return []


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Statistics of a device's memory: none."""
    return {}


def _without_effect(name: str) -> Callable[..., None]:
    def function(*args: Any, **named: Any) -> None:
        """Without effect, as in torch without CUDA."""

    function.__name__ = function.__qualname__ = name
    return function


def _none(name: str) -> Callable[..., int]:
    def function(device: Any = None) -> int:
        """Bytes of a device's memory: 0."""
        return 0

    function.__name__ = function.__qualname__ = name
    return function


def _refusal(name: str) -> Callable[..., NoReturn]:
    def function(*args: Any, **named: Any) -> NoReturn:
        """Raises AssertionError, as torch without CUDA does."""
        raise AssertionError(f"cuda.{name}(): no CUDA device is available; check cuda.is_available() first")

    function.__name__ = function.__qualname__ = name
    return function


class Stream:
    """Raises AssertionError, as torch without CUDA does."""

    __init__ = _refusal("Stream")


class Event:
    """Raises AssertionError, as torch without CUDA does."""

    __init__ = _refusal("Event")


class device:
    """Make a CUDA device current: no effect for None and negative indices, as in torch."""

    def __init__(self, device: Any) -> None:
        index = getattr(device, "index", device)
        if index is not None and not (isinstance(index, int) and index < 0):
            _refusal("device")()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


class stream(device):
    """Make a stream current: no effect for None."""


def _tensor_class(name: str) -> type:
    def refuse(self: Any, *args: Any, **named: Any) -> NoReturn:
        """Raises TypeError, as torch without CUDA does."""
        raise TypeError(f"cuda.{name}(): no CUDA device is available; use torch.{name}")

    return type(name, (), {"__init__": refuse, "__doc__": "A class without instances."})


_WITHOUT_EFFECT = """empty_cache manual_seed manual_seed_all seed seed_all reset_peak_memory_stats
    reset_max_memory_allocated set_rng_state_all"""
_BYTES = "memory_allocated max_memory_allocated memory_reserved max_memory_reserved"
_REFUSED = """current_device current_stream default_stream get_device_capability get_device_name
    get_device_properties get_rng_state init mem_get_info memory_summary set_device set_rng_state synchronize"""

_TENSORS = """BFloat16Tensor BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor
    ShortTensor"""

_MAKERS = {_TENSORS: _tensor_class, _WITHOUT_EFFECT: _without_effect, _BYTES: _none, _REFUSED: _refusal}

for _names, _make in _MAKERS.items():
    globals().update({_name: _make(_name) for _name in _names.split()})
