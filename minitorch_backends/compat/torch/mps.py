"""`torch.mps`: no Metal device is available."""

from __future__ import annotations

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "seed"]


def is_available() -> bool:
    """Whether there is a Metal device: False."""
    return False


def device_count() -> int:
    """The number of Metal devices: 0."""
    return 0


def empty_cache() -> None:
    """Without effect."""


def manual_seed(seed: int) -> None:
    """Without effect."""


def seed() -> None:
    """Without effect."""
