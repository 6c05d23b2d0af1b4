"""Padding of the last dimensions, as modules."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import ClassVar

from ..tensor.tensor import Tensor
from . import functional as F
from .module import Module

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d",
    "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


class _Pad(Module):
    """`functional.pad` of the last dimensions, by `padding`: one number for all sides, or (before, after) of the last
    dimension, then of the one before it, and so on."""

    _dims: ClassVar[int] = 0
    _mode: ClassVar[str] = "constant"
    value: float | None = None

    def __init_subclass__(cls, dims: int | None = None, mode: str | None = None) -> None:
        super().__init_subclass__()
        cls._dims, cls._mode = dims or cls._dims, mode or cls._mode

    def __init__(self, padding: int | Sequence[int]) -> None:
        count = 2 * self._dims
        self.padding = tuple(padding) if isinstance(padding, Sequence) else (index(padding),) * count
        if len(self.padding) != count:
            raise ValueError(f"{type(self).__name__}: expected padding to be one number or {count}, got {padding}")

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self._mode, self.value)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class CircularPad1d(_Pad, dims=1, mode="circular"):
    """Pad (N, C, L), or (C, L), with its own values, as if it were a ring."""


class CircularPad2d(_Pad, dims=2, mode="circular"):
    """Pad images (N, C, H, W), or (C, H, W), with its own values, as if it were a ring."""


class CircularPad3d(_Pad, dims=3, mode="circular"):
    """Pad volumes (N, C, D, H, W), or (C, D, H, W), with its own values, as if it were a ring."""


class ReflectionPad1d(_Pad, dims=1, mode="reflect"):
    """Pad (N, C, L), or (C, L), with its own values, mirrored at the outermost one."""


class ReflectionPad2d(_Pad, dims=2, mode="reflect"):
    """Pad images (N, C, H, W), or (C, H, W), with its own values, mirrored at the outermost one."""


class ReflectionPad3d(_Pad, dims=3, mode="reflect"):
    """Pad volumes (N, C, D, H, W), or (C, D, H, W), with its own values, mirrored at the outermost one."""


class ReplicationPad1d(_Pad, dims=1, mode="replicate"):
    """Pad (N, C, L), or (C, L), with its outermost values."""


class ReplicationPad2d(_Pad, dims=2, mode="replicate"):
    """Pad images (N, C, H, W), or (C, H, W), with its outermost values."""


class ReplicationPad3d(_Pad, dims=3, mode="replicate"):
    """Pad volumes (N, C, D, H, W), or (C, D, H, W), with its outermost values."""


class _ConstantPad(_Pad):
    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad, dims=1):
    """Pad (N, C, L), or (C, L), with one value."""


class ConstantPad2d(_ConstantPad, dims=2):
    """Pad images (N, C, H, W), or (C, H, W), with one value."""


class ConstantPad3d(_ConstantPad, dims=3):
    """Pad volumes (N, C, D, H, W), or (C, D, H, W), with one value."""


class ZeroPad1d(_Pad, dims=1):
    """Pad (N, C, L), or (C, L), with zeros."""


class ZeroPad2d(_Pad, dims=2):
    """Pad images (N, C, H, W), or (C, H, W), with zeros."""


class ZeroPad3d(_Pad, dims=3):
    """Pad volumes (N, C, D, H, W), or (C, D, H, W), with zeros."""
