"""The searches of `ggml` for scales of sub-blocks: sums of float32 in ggml's order, without fused steps.

Importing this module imports Numba.
"""

from __future__ import annotations

import numpy as np

from ..runtime.jit import njit, subroutine
from ..runtime.raw_memory import allocate, free

_LEAST = np.float32(1e-15)
"""Largest magnitude that ggml treats as zero (GROUP_MAX_EPS)."""

_SHIFT = np.float32(12582912.0)


@subroutine
def _nearest(value):
    """To a whole number, ties to even, of magnitudes below 2**22."""
    return np.float32(np.float32(np.float32(value) + _SHIFT) - _SHIFT)


@subroutine
def _clip(value, low, high):
    return np.float32(max(np.float32(low), min(np.float32(high), _nearest(value))))


@subroutine
def _weights(x, weights):
    """Root mean square plus magnitude, of 32 numbers."""
    total = np.float32(0)
    for i in range(32):
        total = np.float32(total + np.float32(x[i] * x[i]))
    mean = np.float32(np.sqrt(np.float32(total / np.float32(32))))
    for i in range(32):
        weights[i] = np.float32(mean + abs(x[i]))


@subroutine
def _error(x, weights, trial, scale, least):
    """The weighted squared error of codes."""
    total = np.float32(0)
    for i in range(32):
        difference = np.float32(np.float32(np.float32(scale * trial[i]) + least) - x[i])
        total = np.float32(total + np.float32(weights[i] * np.float32(difference * difference)))
    return total


@subroutine
def _fit(x, weights, trial, inverse, least, greatest, sums):
    """Codes at an inverse scale, and the scale and offset that fit them best by least squares; scale 0 if none do."""
    of_weights, of_x = sums
    ones, squares, products = np.float32(0), np.float32(0), np.float32(0)
    for i in range(32):
        code = _clip(np.float32(inverse * np.float32(x[i] - least)), 0, greatest)
        trial[i] = code
        weighted = np.float32(weights[i] * code)
        ones = np.float32(ones + weighted)
        squares = np.float32(squares + np.float32(weighted * code))
        products = np.float32(products + np.float32(weighted * x[i]))
    determinant = np.float32(np.float32(of_weights * squares) - np.float32(ones * ones))
    if not determinant > 0:
        return False, np.float32(0), np.float32(0)
    scale = np.float32(np.float32(np.float32(of_weights * products) - np.float32(of_x * ones)) / determinant)
    offset = np.float32(np.float32(np.float32(squares * of_x) - np.float32(ones * products)) / determinant)
    if offset > 0:
        return True, np.float32(products / squares), np.float32(0)
    return True, scale, offset


@subroutine
def _search_32(x, weights, codes, trial, bits):
    """ggml's make_qkx2_quants: the scale and minus the offset of 32 numbers, and their codes."""
    greatest = np.float32((1 << bits) - 1)
    least, most, of_weights = x[0], x[0], weights[0]
    of_x = np.float32(of_weights * x[0])
    for i in range(1, 32):
        least, most = min(least, x[i]), max(most, x[i])
        of_weights = np.float32(of_weights + weights[i])
        of_x = np.float32(of_x + np.float32(weights[i] * x[i]))
    least = min(least, np.float32(0))
    if most == least:
        for i in range(32):
            codes[i] = 0
        return np.float32(0), np.float32(-least)
    span = np.float32(most - least)
    inverse = np.float32(greatest / span)
    scale = np.float32(np.float32(1) / inverse)
    for i in range(32):
        trial[i] = _clip(np.float32(inverse * np.float32(x[i] - least)), 0, greatest)
        codes[i] = np.uint8(trial[i])
    best = _error(x, weights, trial, scale, least)
    start, offset = np.float32(-1.0) if bits == 4 else np.float32(-0.5), least
    for step in range(21 if bits == 4 else 16):
        further = np.float32(np.float32(start + np.float32(np.float32(0.1) * np.float32(step))) + greatest)
        fits, new_scale, new_offset = _fit(
            x, weights, trial, np.float32(further / span), offset, greatest, (of_weights, of_x)
        )
        if fits:
            error = _error(x, weights, trial, new_scale, new_offset)
            if error < best:
                for i in range(32):
                    codes[i] = np.uint8(trial[i])
                best, scale, offset = error, new_scale, new_offset
                span = np.float32(most - offset)
                span = np.float32(most - offset)
    return scale, np.float32(-offset)


@subroutine
def _round_scales(scales, numbers):
    """The scales or offsets of 8 sub-blocks in 6 bits, relative to the largest; returns the scale of those."""
    top = np.float32(0)
    for j in range(8):
        top = max(top, scales[j])
    inverse = np.float32(np.float32(63) / top) if top > 0 else np.float32(0)
    for j in range(8):
        numbers[j] = np.uint8(min(np.int64(63), np.int64(_nearest(np.float32(inverse * scales[j]))) & 255))
    return np.float32(top / np.float32(63))


@subroutine
def _recode(x, codes, scale, offset, greatest):
    if scale != 0:
        for i in range(32):
            codes[i] = np.uint8(_clip(np.float32(np.float32(x[i] + offset) / scale), 0, greatest))


@subroutine
def _as_half(value):
    """A float32 that is not negative rounded to float16, ties to even."""
    if value >= np.float32(65520):
        return np.float32(np.inf)
    bits = np.int32(np.float32(value).view(np.uint32) >> np.uint32(23)) - np.int32(127)
    unit = np.float32(2.0 ** (max(bits, -14) - 10))
    counted = np.float32(value / unit)
    return np.float32(np.float32(np.float32(counted + np.float32(2**23)) - np.float32(2**23)) * unit)


@njit
def search_affine(x, codes, tops, numbers, bits):
    """Codes (count, 256) of q4_k or q5_k for x (count, 256); the scales of scales and of offsets (count, 2), before
    they are float16, and both in 6 bits (count, 2, 8)."""
    weights, trial = allocate(32, np.float32(0)), allocate(32, np.float32(0))
    scales, offsets = allocate(8, np.float32(0)), allocate(8, np.float32(0))
    greatest = np.float32((1 << bits) - 1)
    for row in range(x.shape[0]):
        for j in range(8):
            part = x[row, 32 * j : 32 * j + 32]
            _weights(part, weights)
            scales[j], offsets[j] = _search_32(part, weights, codes[row, 32 * j : 32 * j + 32], trial, bits)
        tops[row, 0], tops[row, 1] = _round_scales(scales, numbers[row, 0]), _round_scales(offsets, numbers[row, 1])
        scale, offset = _as_half(tops[row, 0]), _as_half(tops[row, 1])
        for j in range(8):
            step = np.float32(scale * np.float32(numbers[row, 0, j]))
            least = np.float32(offset * np.float32(numbers[row, 1, j]))
            _recode(x[row, 32 * j : 32 * j + 32], codes[row, 32 * j : 32 * j + 32], step, least, greatest)
    free(weights)
    free(trial)
    free(scales)
    free(offsets)


@subroutine
def _try_symmetric(x, inverse):
    """The sums of w * x * code and w * code**2, w being x**2, of 16 numbers."""
    products, squares = np.float32(0), np.float32(0)
    for i in range(16):
        code = _clip(np.float32(inverse * x[i]), -32, 31)
        weight = np.float32(x[i] * x[i])
        products = np.float32(products + np.float32(np.float32(weight * x[i]) * code))
        squares = np.float32(squares + np.float32(np.float32(weight * code) * code))
    return products, squares


@subroutine
def _search_16(x, codes):
    """ggml's make_qx_quants: the scale of 16 numbers, and their codes from 0 to 63."""
    largest = np.float32(0)
    for i in range(16):
        largest = x[i] if abs(x[i]) > abs(largest) else largest
    if abs(largest) < _LEAST:
        for i in range(16):
            codes[i] = 0
        return np.float32(0)
    inverse = np.float32(np.float32(-32) / largest)
    products, squares = _try_symmetric(x, inverse)
    scale = np.float32(products / squares) if squares != 0 else np.float32(0)
    best, chosen = np.float32(scale * products), inverse
    for step in range(-9, 10):
        if step != 0:
            further = np.float32(np.float32(32) + np.float32(np.float32(0.1) * np.float32(step)))
            inverse = np.float32(-further / largest)
            products, squares = _try_symmetric(x, inverse)
            if squares > 0 and np.float32(products * products) > np.float32(best * squares):
                scale, chosen = np.float32(products / squares), inverse
                best = np.float32(scale * products)
    for i in range(16):
        codes[i] = np.uint8(np.int64(_clip(np.float32(chosen * x[i]), -32, 31)) + 32)
    return scale


@njit
def search_symmetric(x, codes, heads, scales):
    """Codes (count, 256) of q6_k for x (count, 256), the scale of scales (count), before it is float16, and scales of
    16 numbers in 8 bits (count, 16)."""
    found = allocate(16, np.float32(0))
    for row in range(x.shape[0]):
        top = np.float32(0)
        for j in range(16):
            found[j] = _search_16(x[row, 16 * j : 16 * j + 16], codes[row, 16 * j : 16 * j + 16])
            top = found[j] if abs(found[j]) > abs(top) else top
        if abs(top) < _LEAST:
            heads[row] = 0
            for j in range(16):
                scales[row, j] = 0
            for i in range(256):
                codes[row, i] = 0
            continue
        inverse = np.float32(np.float32(-128) / top)
        heads[row] = np.float32(np.float32(1) / inverse)
        head = np.float32(np.copysign(_as_half(abs(heads[row])), heads[row]))
        for j in range(16):
            number = np.int64(min(np.float32(127), _nearest(np.float32(inverse * found[j]))))
            scales[row, j] = np.int8(number)
            step = np.float32(head * np.float32(number))
            if step != 0:
                for i in range(16 * j, 16 * j + 16):
                    codes[row, i] = np.uint8(np.int64(_clip(np.float32(x[row, i] / step), -32, 31)) + 32)
    free(found)
