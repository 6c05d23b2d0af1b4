"""Winograd's convolutions: what is done once for a shape, and the transform of the weights."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..block.loops import leaf_address
from ..block.tuning import tuning
from ..gemm.compiled import vector_isa
from ..registry import Refused
from ..runtime import cpu, threading
from ..runtime.workspace import Workspace, address_of, empty
from . import winograd_loops as loops
from .input_layout import is_channels_last, result_array
from .packed_weight import form_of

_G = np.array(((1, 0, 0), (1 / 2, 1 / 2, 1 / 2), (1 / 2, -1 / 2, 1 / 2), (0, 0, 1)))
"""The transform of the weights."""

_SUMS_PART = 5 / 8
"""Of the L2 cache, for the sums of some panels of outputs, beside the values of a block of tiles."""

_FARTHEST = (1 << 31) - 1


def _transform_weight(weight: np.ndarray, turned: bool) -> np.ndarray:
    """The weights (O, C, 3, 3) as (16, O, C), transformed in float64 and rounded once; `turned` are those with which
    the gradient with respect to the input is a convolution."""
    weight = weight.transpose(1, 0, 2, 3)[..., ::-1, ::-1] if turned else weight
    values = np.einsum("ir,ocrs,js->ijoc", _G, weight.astype(np.float64), _G, optimize=True)
    return np.ascontiguousarray(values.reshape(-1, *weight.shape[:2]).astype(np.float32))


def _panels(values: np.ndarray, kernel: Any) -> np.ndarray:
    """Transformed weights as panels (places, panels, C, a microkernel's row)."""
    places, outputs, channels = values.shape
    panels = -(-outputs // kernel.mr)
    found = empty((places, panels, channels, kernel.a_bytes // 4), values.dtype)
    found[...] = 0
    for panel in range(panels):
        rows = values[:, panel * kernel.mr : (panel + 1) * kernel.mr]
        found[:, panel, :, : rows.shape[1]] = rows.transpose(0, 2, 1)
    return found


def _kernel(isa: str) -> Any:
    return loops.Avx512() if isa == "avx512" else loops.Avx2()


class _Plan(NamedTuple):
    """All that does not depend on addresses and values."""

    tasks: int
    record: Any
    kept: tuple[Any, ...]


def _places(
    exists: np.ndarray, image: np.ndarray, corner: tuple[np.ndarray, np.ndarray], side: int, size: Sequence[int],
    strides: Sequence[int],
) -> tuple[np.ndarray, np.ndarray] | None:  # fmt: skip
    """The offsets of the corners of tiles in bytes, and for each 16 tiles and each place of a square of this side a bit
    for each tile that has it."""
    top, left = corner
    offsets = np.where(exists, image * strides[0] + top * strides[2] + left * strides[3], 0)
    if np.abs(offsets).max() > _FARTHEST:
        return None
    masks = np.empty((exists.size // 16, side, side), np.uint16)
    bits = 1 << np.arange(16)
    for i, j in np.ndindex(side, side):
        y, x = top + i, left + j
        inside = exists & (y >= 0) & (y < size[0]) & (x >= 0) & (x < size[1])
        masks[:, i, j] = (inside.reshape(-1, 16) * bits).sum(axis=1)
    return offsets.astype(np.int32), masks


@functools.lru_cache(256)
def _plan(
    isa: str, shape: tuple[int, ...], strides: tuple[int, ...], out_shape: tuple[int, ...],
    out_strides: tuple[int, ...], before: tuple[int, ...], relu: bool, threads: int,
) -> _Plan | None:  # fmt: skip
    """The plan of a convolution of an array with these shape and strides, `before` zeros in front of it; None where an
    array reaches too far."""
    kernel, results, places = _kernel(isa), loops.RESULTS, loops.SIDE**2
    (images, channels), (outputs, *size) = shape[:2], out_shape[1:]
    down, across = (-(-each // results) for each in size)
    blocks, panels, chunks = -(-images * down * across // kernel.nr), -(-outputs // kernel.mr), 1
    while blocks * chunks < 8 * threads and blocks * chunks % threads and panels > 2 * chunks:
        chunks *= 2  # tasks of a part of the outputs, so that threads have equal shares
    chunks = -(-panels // -(-panels // chunks))
    image, rest = np.divmod(np.arange(blocks * kernel.nr), down * across)
    row, column = (each * results for each in np.divmod(rest, across))
    exists, corner = image < images, (row - before[0], column - before[1])
    read = _places(exists, image, corner, loops.SIDE, shape[2:], strides)
    written = _places(exists, image, (row, column), results, size, out_strides)
    if read is None or written is None:
        return None
    line = 4 * kernel.nr
    sums = int(_SUMS_PART * tuning(vector_isa()).cache_bytes)
    panel_chunk = max(1, min(panels, sums // (places * kernel.mr * line)))
    value_bytes = channels * line + 64  # one cache line more: equal addresses of places would share a set
    sum_bytes = panel_chunk * kernel.mr * line + 64
    record = loops.Winograd(
        leaf=leaf_address(loops.Tiles(kernel)), channels=channels, outputs=outputs, panels=panels,
        panel_chunk=panel_chunk, chunks=chunks, x_channel=strides[1], x_row=strides[2], x_column=strides[3],
        out_channel=out_strides[1], out_row=out_strides[2], out_column=out_strides[3],
        read_offsets=address_of(read[0]), read_masks=address_of(read[1]),
        write_offsets=address_of(written[0]), write_masks=address_of(written[1]), value_bytes=value_bytes,
        sum_bytes=sum_bytes, worker_bytes=places * (value_bytes + sum_bytes), relu=int(relu),
    )  # fmt: skip
    return _Plan(blocks * chunks, record, (read, written))


def convolve(
    x: np.ndarray, weight: Any, bias: np.ndarray | None, turned: bool, before: Sequence[int],
    size: Sequence[int], relu: bool,
) -> np.ndarray:  # fmt: skip
    """The convolution of x with transformed weights, `before` zeros in front of it, to results of spatial `size`."""
    isa = "avx512" if cpu.refusal("avx512") is None else "avx2"
    panels = form_of(
        weight, ("winograd2", isa, turned), lambda array: _panels(_transform_weight(array, turned), _kernel(isa))
    )
    outputs = weight.shape[1 if turned else 0]
    y = result_array((len(x), outputs, *size), x.dtype, is_channels_last(x.shape, x.strides, 4))
    pool, threads = threading.pool()
    plan = _plan(isa, x.shape, x.strides, y.shape, y.strides, tuple(before), relu, threads)
    if plan is None:
        raise Refused(f"an array of shape {list(x.shape)} reaches too far for offsets of 32 bits")
    added = np.zeros(outputs, x.dtype) if bias is None else np.ascontiguousarray(bias, x.dtype)
    with Workspace(threads * plan.record.worker_bytes) as memory:
        loops.run(
            pool, threads, plan.tasks, plan.record, address_of(x), address_of(y), address_of(panels),
            address_of(added), memory,
        )  # fmt: skip
    return y
