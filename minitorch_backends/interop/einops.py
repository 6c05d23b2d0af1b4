"""einops on tensors: `einops.rearrange(x, ...)` and its relatives, and the layers `Rearrange` and `Reduce`.

einops looks for backends among the subclasses of `AbstractBackend`; this module is imported with einops.
"""

from __future__ import annotations

from typing import Any

from einops._backends import AbstractBackend
from einops.layers import RearrangeMixin, ReduceMixin

from .. import nn
from ..ops import names as ops
from ..tensor.tensor import Tensor
from . import array_api


class Rearrange(RearrangeMixin, nn.Module):
    """`einops.rearrange` as a module."""

    def forward(self, input: Tensor) -> Tensor:
        return self._apply_recipe(input)


class Reduce(ReduceMixin, nn.Module):
    """`einops.reduce` as a module."""

    def forward(self, input: Tensor) -> Tensor:
        return self._apply_recipe(input)


class Backend(AbstractBackend):
    """How einops handles our tensors."""

    framework_name = __name__.partition(".")[0]

    def is_appropriate_type(self, tensor: Any) -> bool:
        return isinstance(tensor, Tensor)

    def from_numpy(self, x: Any) -> Tensor:
        made = ops.from_numpy(x)
        return made.requires_grad_() if self.is_float_type(made) else made

    def to_numpy(self, x: Tensor) -> Any:
        return x.detach().numpy()

    def arange(self, start: int, stop: int) -> Tensor:
        return ops.arange(start, stop)

    def reduce(self, x: Tensor, operation: str, axes: tuple[int, ...]) -> Tensor:
        return getattr(array_api, operation)(x, axis=tuple(axes))

    def transpose(self, x: Tensor, axes: tuple[int, ...]) -> Tensor:
        return x.permute(axes)

    def stack_on_zeroth_dimension(self, tensors: list[Tensor]) -> Tensor:
        return ops.stack(tensors)

    def add_axis(self, x: Tensor, new_position: int) -> Tensor:
        return ops.unsqueeze(x, new_position)

    def add_axes(self, x: Tensor, n_axes: int, pos2len: dict[int, int]) -> Tensor:
        repeats = [-1] * n_axes
        for position, length in pos2len.items():
            x = self.add_axis(x, position)
            repeats[position] = length
        return x.expand(repeats)

    def tile(self, x: Tensor, repeats: tuple[int, ...]) -> Tensor:
        return ops.tile(x, repeats)

    def concat(self, tensors: list[Tensor], axis: int) -> Tensor:
        return ops.cat(tensors, axis)

    def is_float_type(self, x: Tensor) -> bool:
        return x.is_floating_point()

    def einsum(self, pattern: str, *x: Tensor) -> Tensor:
        return ops.einsum(pattern, *x)
