"""The parameters of a convolution call besides its arrays: one object, made once, as the key of cached calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..gemm.compiled import computed_by_panels
from ..precisions.products import acting_rounding
from .geometry import Task
from .shapes import Steps, steps


def three(values: tuple[int, ...], fill: int) -> tuple[int, ...]:
    """Values for the spatial dimensions of a convolution as those for three."""
    return (fill,) * (3 - len(values)) + tuple(values)


class Setting(NamedTuple):
    kind: str
    """"forward", or with respect to what the gradient is: "input" or "weight"."""
    size: tuple[int, ...]
    """The spatial sizes that the arrays do not tell: of the input, or of the weight, whose gradient it is."""
    at: Steps
    groups: int
    precision: str
    rounding: str
    relu: bool

    @property
    def gradient(self) -> bool:
        """Whether it is the gradient with respect to the input, which reads a weight as the convolution itself does."""
        return self.kind == "input"

    def kernel(self, second: tuple[int, ...]) -> tuple[int, ...]:
        """The spatial sizes of the weight, where the second array has this shape."""
        return self.size if self.kind == "weight" else second[2:]

    def task(self, first: tuple[int, ...], second: tuple[int, ...]) -> Task:
        """The convolution without its channels, of arrays of these shapes."""
        size = self.size if self.kind == "input" else first[2:]
        stride, padding, dilation = self.at
        return Task(
            first[0], three(size, 1), three(self.kernel(second), 1), three(stride, 1), three(padding, 0),
            three(dilation, 1),
        )  # fmt: skip

    def conversion(self, isa: str, dtype: np.dtype) -> tuple[str, str | None]:
        """What loops for these instructions compute, and how they round: a key of `packing.CONVERSIONS`."""
        inner = computed_by_panels(isa, dtype, self.precision)
        assert inner is not None
        return inner, acting_rounding(inner, self.rounding)


def setting_of(
    kind: str, dims: int, *, stride: Sequence[int] = (), padding: Sequence[int] = (), dilation: Sequence[int] = (),
    groups: int = 1, precision: str = "ieee", rounding: str = "rna", relu: bool = False, input_size: Sequence[int] = (),
    kernel_size: Sequence[int] = (),
) -> Setting:  # fmt: skip
    """The setting of a call of one of the three kernels, of so many spatial dimensions, from its keywords."""
    at = steps(dims, stride, padding, dilation)
    return Setting(kind, tuple(input_size or kernel_size), at, groups, precision, rounding, relu)
