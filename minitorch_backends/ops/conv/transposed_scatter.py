"""Transposed convolutions whose stride is beyond the reach of the kernel: what one value makes meets nothing that
another makes. They are computed at a stride as far as the kernel reaches, and the blocks are put where they belong: one
pass over the result, which would be as many convolutions as a stride has phases, most of them of no tap."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

_LEAST_PHASES = 64


class Apart(NamedTuple):
    """How a transposed convolution is computed, and where its blocks go; spatial dimensions.

    Attributes:
        size, stride, padding: of the convolution that is computed.
        blocks: how many there are along a dimension, and the numbers of each.
        steps: between the blocks in the result.
        cut: numbers before the result.
        whole: sizes of the result.
    """

    size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    blocks: tuple[tuple[int, int], ...]
    steps: tuple[int, ...]
    cut: tuple[int, ...]
    whole: tuple[int, ...]

    @classmethod
    def of(
        cls,
        values: tuple[int, ...],
        kernel: tuple[int, ...],
        size: tuple[int, ...],
        *,
        stride: tuple[int, ...],
        padding: tuple[int, ...],
        dilation: tuple[int, ...],
        **_: Any,
    ) -> Apart | None:
        """For spatial sizes of what is transposed, of the kernel and of the result; None where blocks meet, or where
        there are few phases."""
        reach = [(taps - 1) * step + 1 for taps, step in zip(kernel, dilation, strict=True)]
        far = [step > each for step, each in zip(stride, reach, strict=True)]
        if not any(far) or math.prod(map(min, stride, size)) <= _LEAST_PHASES or 0 in values:
            return None
        columns = []
        for each in zip(far, values, reach, size, stride, padding, strict=True):
            apart, count, extent, length, step, pad = each
            if apart:
                columns.append((count * extent, extent, 0, (count, extent), step, pad, length))
            else:
                columns.append((length, step, pad, (1, length), length, 0, length))
        return cls(*map(tuple, zip(*columns, strict=True)))

    def place(self, computed: np.ndarray) -> np.ndarray:
        """The result: what was computed, block by block, among zeros."""
        ends = [(count - 1) * step + extent for (count, extent), step in zip(self.blocks, self.steps, strict=True)]
        room = [max(end, cut + size) for end, cut, size in zip(ends, self.cut, self.whole, strict=True)]
        out = np.zeros((*computed.shape[:2], *room), computed.dtype)
        shape, strides = list(computed.shape[:2]), list(out.strides[:2])
        for (count, extent), step, stride in zip(self.blocks, self.steps, out.strides[2:], strict=True):
            shape, strides = [*shape, count, extent], [*strides, step * stride, stride]
        np.lib.stride_tricks.as_strided(out, shape, strides)[...] = computed.reshape(shape)
        kept: list[Any] = [slice(cut, cut + size) for cut, size in zip(self.cut, self.whole, strict=True)]
        return np.ascontiguousarray(out[(..., *kept)])
