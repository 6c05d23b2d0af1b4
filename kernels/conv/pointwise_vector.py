"""Convolutions of one tap: products of the channels of all positions with the weights, in either layout.

Channels that are neighbours in memory are the rows of a left operand, all positions after one another; the weights are
the right one. Where positions are neighbours, the weights are the left operand of a product for each image. The
weight's gradient is one product, whose sums run over positions: those of some positions at a time are computed in
parallel, and added in their order.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..block import plans
from ..block.tuning import memoise, tuning
from ..block.unpacked_strips import LEAST_ROWS
from ..gemm import unpacked
from ..gemm.compiled import pairs_multiply, vector_isa
from ..gemm.product import Packed, product
from ..runtime import threading
from ..runtime.workspace import address_of, result
from .input_layout import are_neighbours, is_channels_last, is_one_row, result_array
from .packed_weight import Kept, array_of, form_of
from .params import Setting
from .shapes import lay_out_weight

_ONE = 0x3FF0000000000000
"""Bits of 1 in float64."""

_ZEROS = np.zeros(1)


def _is_one_tap(setting: Setting, kernel: tuple[int, ...]) -> bool:
    """Whether each position uses one tap, and channels form one group."""
    stride, padding, _ = setting.at
    return max(kernel) == setting.groups == max(stride) == 1 and max(padding) == 0


def _is_last(shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> bool:
    """Whether channels are neighbours, and positions are consecutive."""
    return is_channels_last(shape, strides, item) and is_one_row(shape, strides, item)


def _is_planes(shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> bool:
    """Whether the positions of a channel are neighbours."""
    positions = math.prod(shape[2:])
    return tuning(vector_isa()).tap_positions <= positions <= strides[1] // item and are_neighbours(
        shape, strides, item
    )


def _isa(setting: Setting, dtype: np.dtype) -> str:
    """Of the product: of pairs where they are faster, of vectors elsewhere."""
    return "avx512_bf16" if pairs_multiply(dtype, setting.precision) else vector_isa()


def _plan(setting: Setting, dtype: np.dtype, isa: str) -> plans.Plan:
    precision, rounding = setting.conversion(isa, dtype)
    return plans.plan_for(isa, precision, rounding or "rna", 8 if dtype.itemsize == 8 else 4)


class _Call(NamedTuple):
    """What does not depend on addresses.

    Attributes:
        last: whether channels are neighbours.
        ready: None where operands are packed by `product`.
        offsets: rows of `unpacked.multiply` for operands at address 0.
    """

    last: bool
    out_shape: tuple[int, ...]
    how: dict[str, Any]
    ready: unpacked.Prepared | None
    offsets: np.ndarray


@memoise
def _call(
    setting: Setting, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype,
    of_weight: tuple[tuple[int, ...], tuple[int, ...]], kept: bool, biased: bool, threads: int,
) -> _Call | None:  # fmt: skip
    """The product that is a convolution; None where it does not apply."""
    w_shape, w_strides = of_weight
    if not _is_one_tap(setting, w_shape[2:]) or 0 in shape:
        return None
    isa, item = _isa(setting, dtype), dtype.itemsize
    precision, rounding = setting.conversion(isa, dtype)
    how = {"isa": isa, "precision": precision, "rounding": rounding or "rna"}
    outputs, channels = w_shape[:2][:: -1 if setting.gradient else 1]
    of_output, of_channel = w_strides[:2][:: -1 if setting.gradient else 1]
    images, positions = shape[0], math.prod(shape[2:])
    last = _is_last(shape, strides, item)
    if last and item == 2 and isa == "avx512_bf16" and channels % 2 == 0:
        return None  # `implicit` is faster, also where it copies (4-64 at 56: 146 us for 198)
    if last:
        count, ending = 1, (0, item)
        sizes = unpacked.Shape(
            images * positions, channels, outputs, channels * item, item, of_channel, of_output, outputs * item,
            packed=kept,
        )  # fmt: skip
    elif _is_planes(shape, strides, item):
        count, ending = images, (item, 0)
        sizes = unpacked.Shape(
            outputs, channels, positions, of_output, of_channel, strides[1], item, positions * item, images, 1,
            images == 1,
        )  # fmt: skip
    else:
        return None
    finish = unpacked.Finish(_ONE, _ONE, *(ending if biased else (0, 0)), setting.relu)
    if not biased and not setting.relu:
        finish = None
    ready = unpacked.prepare(_plan(setting, dtype, isa), dtype, sizes, finish, threads)
    if ready is None and not last and isa == vector_isa():
        return None
    offsets, image = np.zeros((5, count), np.int64), np.arange(count)
    offsets[2] = channels
    if not last:
        offsets[1], offsets[3] = image * strides[0], image * outputs * positions * item
    return _Call(last, (images, outputs, *shape[2:]), how, ready, offsets)


def _call_of(setting: Setting, x: np.ndarray, w: np.ndarray | Kept, biased: bool, threads: int) -> _Call | None:
    array = array_of(w)
    kept = isinstance(w, Kept)
    return _call(setting, x.shape, x.strides, x.dtype, (array.shape, array.strides), kept, biased, threads)


def takes(setting: Setting, x: np.ndarray, w: np.ndarray | Kept) -> bool:
    """Whether `convolve` takes the call."""
    return _call_of(setting, x, w, False, 1) is not None


def convolve(
    setting: Setting, x: np.ndarray, w: np.ndarray | Kept, bias: np.ndarray | None = None
) -> np.ndarray | None:
    """`implicit.convolve`, or None where it does not apply."""
    pool, threads = threading.pool()
    call = _call_of(setting, x, w, bias is not None, threads)
    if call is None:
        return None
    weights: np.ndarray | Packed = array_of(w)
    addend = _ZEROS if bias is None else np.ascontiguousarray(bias, x.dtype)
    if call.last and isinstance(w, Kept):
        key = "one tap", *call.how.values(), setting.gradient
        weights = form_of(w, key, lambda array: Packed(_right(setting, array), **call.how))
    if call.ready is None and not call.last:
        matrix = weights.reshape(weights.shape[:2])
        added = None if bias is None else addend[:, None]
        left = matrix.T if setting.gradient else matrix
        out = product(left, x.reshape(*x.shape[:2], -1), addend=added, relu=setting.relu, **call.how)
        return out.reshape(call.out_shape)
    if call.ready is None:
        rows = np.moveaxis(x, 1, -1)
        right = weights if isinstance(weights, Packed) else _right(setting, weights)
        added = None if bias is None else addend
        out = product(rows.reshape(-1, rows.shape[-1]), right, addend=added, relu=setting.relu, **call.how)
        return np.moveaxis(out.reshape(*rows.shape[:-1], -1), -1, 1)
    packed = weights.address if isinstance(weights, Packed) else 0
    out = result_array(call.out_shape, x.dtype, call.last)
    operands = [address_of(x), packed or address_of(weights)][:: 1 if call.last else -1]
    places = call.offsets + np.array((*operands, 0, address_of(out), address_of(addend)))[:, None]
    unpacked.multiply(call.ready, pool, places, places.shape[1], packed)
    return out


def _right(setting: Setting, array: np.ndarray) -> np.ndarray:
    """The weights as the right operand of a product of rows of channels."""
    matrix = array.reshape(array.shape[:2])
    return matrix if setting.gradient else matrix.T


class _Gradient(NamedTuple):
    """What does not depend on addresses of a weight's gradient.

    Attributes:
        transposed: whether the left operand is x, so that the product is the gradient transposed.
        parts: sums that are added at the end.
        offsets: as `_Call` has them.
    """

    transposed: bool
    parts: int
    offsets: np.ndarray
    ready: unpacked.Prepared


def _cost(m: int, n: int, positions: int, packs: bool, transposed: bool) -> float:
    """Cycles for each position of a product of m rows with n columns, with those of packing columns and of transposing
    the result."""
    product, pack, turn = tuning(vector_isa()).tap_cycles
    return m * plans.up(n, 16) * product + pack * n * packs + turn * m * n / positions * transposed


def _segments(images: int, positions: int, step: int) -> tuple[int, list[tuple[int, int, int]]]:
    """How many sums are computed apart, and the terms of all: the image, its first position, and how many."""
    row = tuning(vector_isa())
    most = max(1, min(row.tap_gradient_parts_most, images * positions // row.tap_gradient_positions))
    if images >= most:
        parts, depth = max(part for part in range(1, most + 1) if images % part == 0), positions
    else:
        parts, depth = images, plans.up(-(-positions // (most // images)), step)
    firsts = range(0, positions, depth)
    return parts * len(firsts), [(image, at, min(depth, positions - at)) for image in range(images) for at in firsts]


@memoise
def _gradient(
    setting: Setting, of_x: tuple[tuple[int, ...], tuple[int, ...]], of_g: tuple[tuple[int, ...], tuple[int, ...]],
    dtype: np.dtype, threads: int,
) -> _Gradient | None:  # fmt: skip
    """The product that is a gradient of x and g of these shapes and strides; None where it does not apply."""
    (x_shape, x_strides), (g_shape, g_strides), item = of_x, of_g, dtype.itemsize
    if not _is_one_tap(setting, setting.size) or 0 in x_shape or dtype.kind != "f":
        return None
    images, positions, channels, outputs = x_shape[0], math.prod(x_shape[2:]), x_shape[1], g_shape[1]
    if _is_last(*of_x, item) and _is_last(*of_g, item):
        images, positions = 1, images * positions
        lines = (item, outputs * item), (item, channels * item)
    elif _is_planes(*of_x, item) and _is_planes(*of_g, item):
        lines = (g_strides[1], item), (x_strides[1], item)
    else:
        return None
    packs, every = lines[0][0] != item, images * positions
    transposed = _cost(channels, outputs, every, packs, True) < _cost(outputs, channels, every, packs, False)
    if min(outputs, channels) < LEAST_ROWS:
        transposed = channels > outputs
    order = -1 if transposed else 1
    (m, n), ((a_row, a_k), (b_column, b_k)) = (outputs, channels)[::order], lines[::order]
    plan = _plan(setting, dtype, vector_isa())
    parts, segments = _segments(images, positions, plan.scheme.kc)
    image, first, depth = np.array(segments).T
    shape = unpacked.Shape(
        m, int(depth.max()), n, a_row, a_k, b_k, b_column, n * item, parts, len(segments) // parts, shared=False
    )
    ready = unpacked.prepare(plan, dtype, shape, None, threads)
    if ready is None:
        return None
    offsets = np.zeros((5, image.size), np.int64)
    at_g, at_x = image * g_strides[0] + first * lines[0][1], image * x_strides[0] + first * lines[1][1]
    offsets[0], offsets[1], offsets[2] = *(at_g, at_x)[::order], depth
    offsets[3, :parts] = np.arange(parts) * m * n * item
    return _Gradient(transposed, parts, offsets, ready)


def _gradient_by_pairs(setting: Setting, x: np.ndarray, g: np.ndarray) -> np.ndarray | None:
    """The gradient as a product of pairs of rows of channels."""
    if not _is_one_tap(setting, setting.size) or not all(_is_last(a.shape, a.strides, a.itemsize) for a in (x, g)):
        return None
    rows, columns = (np.moveaxis(each, 1, -1).reshape(-1, each.shape[1]) for each in (g, x))
    precision, _ = setting.conversion("avx512_bf16", x.dtype)
    found = product(rows.T, columns, isa="avx512_bf16", precision=precision, rounding=setting.rounding)
    return lay_out_weight(found.reshape(*found.shape, *setting.size), x)


def weight_gradient(setting: Setting, x: np.ndarray, g: np.ndarray) -> np.ndarray | None:
    """`weight_implicit.weight_gradient`, or None where it does not apply."""
    if pairs_multiply(x.dtype, setting.precision):
        return _gradient_by_pairs(setting, x, g)
    pool, threads = threading.pool()
    found = _gradient(setting, (x.shape, x.strides), (g.shape, g.strides), x.dtype, threads)
    if found is None:
        return None
    channels, order = (g.shape[1], x.shape[1]), -1 if found.transposed else 1
    sums = result((found.parts, *channels[::order]), x.dtype)
    operands = (address_of(g), address_of(x))[::order]
    places = found.offsets + np.array((*operands, 0, address_of(sums), 0))[:, None]
    unpacked.multiply(found.ready, pool, places, found.parts)
    out = sums[0] if found.parts == 1 else np.add.reduce(sums, axis=0)
    return lay_out_weight((out.T if found.transposed else out).reshape(*channels, *setting.size), x)
