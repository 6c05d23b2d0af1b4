"""The loops of `products`: rows of a times strips of columns of b, block after block of K, by a rule of `rules`.

Numbers are float64, in which every rule is exact, so that the bits of results depend neither on the vectors that LLVM
makes of these loops nor on the threads. a and b come with the powers of two of their exponents (`rules.powers`).
"""

from __future__ import annotations

import numpy as np

from ..runtime.jit import carray, njit, subroutine
from ..runtime.launch import launch, task
from ..runtime.raw_memory import address, allocate, free, pointer

ALIGNED, HALVES, EXACT, TREE, TWO_STAGE, TWO_STAGE_APART, CHAIN, TILES = range(8)
KEPT = {"rz32": 0, "rz22": 1, "rne32": 2, "rne16": 3}

_ROWS = 16
"""Rows of a task."""

_COLUMNS = 64
"""Columns of a task: what a block of K has of them, 32 KiB for 16 places, stays in the L1 cache."""

_EXPONENT = np.int64(0x7FF0000000000000)
_FP32 = np.int64(-1 << 29)
_FP22 = np.int64(-1 << 39)
_LEAST_NORMAL = 2.0**-126
_LEAST_HALF = 2.0**-14


@subroutine
def _numbers(base, index, count):
    """`count` float64 from number `index` on."""
    return carray(pointer(base + index * 8, 0.0), count)


@subroutine
def _four_rows(base, row, column, n, count):
    """A part of each of four rows of n numbers. Blocks are multiples of four places."""
    at = row * n + column
    first, second = _numbers(base, at, count), _numbers(base, at + n, count)
    return first, second, _numbers(base, at + 2 * n, count), _numbers(base, at + 3 * n, count)


@subroutine
def _store(values, out, kept):
    """Round `values` for storage into `out` while it is finite; an overflowed sum stays."""
    bits = values.view(np.int64)
    mask = _FP32 if kept == 0 else _FP22
    least = 2.0**-149 if kept == 0 else 2.0**-139
    for j in range(len(out)):
        x, size = values[j], abs(values[j])
        if kept <= 1:
            bits[j] &= mask
            cut = values[j] if size >= _LEAST_NORMAL else np.trunc(x / least) * least
            cut = cut if size < 2.0**128 else x * np.inf
        elif kept == 2:
            cut = np.float64(np.float32(x))
        else:
            bits[j] &= _EXPONENT
            step = max(values[j], _LEAST_HALF) * 2.0**-10
            cut = np.rint(x / step) * step
            cut = cut if abs(cut) < 65520.0 else x * np.inf
        out[j] = cut if abs(out[j]) < np.inf else out[j]


@subroutine
def _exponents(c, top, least):
    """Into `top` the powers of two of numbers of fp32, `least` where these are zero or less."""
    bits = top.view(np.int64)
    for j in range(len(c)):
        top[j] = c[j]
        bits[j] &= _EXPONENT
        power = max(top[j], _LEAST_NORMAL) if c[j] != 0.0 else 0.0
        top[j] = max(power, least)


@subroutine
def _greatest(job, row, column, k, length, top):
    """Raise `top` to the greatest power of two of a block's products."""
    powers = _numbers(job.a_powers, row * job.depth + k, length)
    for place in range(length):
        x = powers[place]
        if x != 0.0:
            y = _numbers(job.b_powers, (k + place) * job.n + column, len(top))
            for j in range(len(top)):
                power = x * y[j]
                top[j] = max(top[j], power)


@subroutine
def _sum(job, row, column, k, length, scale, sums):
    """Add the products of a block to `sums`, each times `scale` and cut to an integer."""
    x = _numbers(job.a, row * job.depth + k, length)
    for place in range(0, length, 4):
        p, q, r, s = x[place], x[place + 1], x[place + 2], x[place + 3]
        t, u, v, w = _four_rows(job.b, k + place, column, job.n, len(sums))
        for j in range(len(sums)):
            one = np.trunc(p * t[j] * scale[j]) + np.trunc(q * u[j] * scale[j])
            sums[j] += one + (np.trunc(r * v[j] * scale[j]) + np.trunc(s * w[j] * scale[j]))


@subroutine
def _sum_aligned(job, row, column, k, length, c, work, kept):
    top, scale, sums = work[0, : len(c)], work[1, : len(c)], work[2, : len(c)]
    _exponents(c, top, job.least)
    _greatest(job, row, column, k, length, top)
    for j in range(len(c)):
        scale[j] = job.unit / top[j]
        sums[j] = np.trunc(c[j] * scale[j]) if abs(c[j]) < np.inf else 0.0
    _sum(job, row, column, k, length, scale, sums)
    for j in range(len(c)):
        sums[j] /= scale[j]
    _store(sums, c, kept)


@subroutine
def _halves(job, row, column, k, c, work):
    """The first half of the packed block holds the places that are summed first."""
    half, total = job.length // 2, work[3, : len(c)]
    for j in range(len(c)):
        total[j] = 0.0
    kept = job.kept if job.kept == 3 else 0
    _sum_aligned(job, row, column, k, half, total, work, kept)
    _sum_aligned(job, row, column, k + half, half, total, work, kept)
    for j in range(len(c)):
        total[j] += c[j]
    _store(total, c, 3 if job.kept == 3 else 2)


@subroutine
def _two_stage(job, row, column, k, c, work):
    """In `apart`, the first half of the packed block holds the even places."""
    groups = 2 if job.kind == TWO_STAGE_APART else 1
    length, unit = job.length // groups, job.unit
    for group in range(groups):
        top, sums = work[2 * group, : len(c)], work[2 * group + 1, : len(c)]
        scale = work[4, : len(c)]
        for j in range(len(c)):
            top[j], sums[j] = job.least, 0.0
        _greatest(job, row, column, k + group * length, length, top)
        for j in range(len(c)):
            scale[j] = unit / top[j]
        _sum(job, row, column, k + group * length, length, scale, sums)
    power = work[4, : len(c)]
    _exponents(c, power, 0.0)
    total = work[1, : len(c)]
    for j in range(len(c)):
        value = total[j] * (work[0, j] / unit)
        top, start = work[0, j], c[j]
        if groups == 2:
            top = max(top, work[2, j])
            fine, coarse = unit / top, top / unit
            other = work[3, j] * (work[2, j] / unit)
            value = np.floor(value * fine) * coarse + np.floor(other * fine) * coarse
        both = max(top, power[j])
        if groups == 2 and power[j] < both * 2.0**-25:
            start = 0.0
        start = start if abs(start) < np.inf else 0.0
        wide, narrow = job.joint / both, unit / both
        total[j] = np.floor(value * wide) / wide + np.floor(start * narrow) / narrow
    _store(total, c, 2)


@subroutine
def _flush(x):
    rounded = np.float64(np.float32(x))
    return rounded if abs(rounded) >= _LEAST_NORMAL else rounded * 0.0


@subroutine
def _tree(job, row, column, k, c, work):
    """Operands are flushed before; products in pairs, or in pairs of pairs."""
    a = _numbers(job.a, row * job.depth + k, job.length)
    for j in range(len(c)):
        pairs = 0.0
        for place in range(0, job.length, 2):
            first = a[place] * _numbers(job.b, (k + place) * job.n + column, len(c))[j]
            second = a[place + 1] * _numbers(job.b, (k + place + 1) * job.n + column, len(c))[j]
            pair = _flush(_flush(first) + _flush(second))
            pairs = pair if place == 0 else _flush(pairs + pair)
        start = c[j] if abs(c[j]) >= _LEAST_NORMAL else 0.0
        c[j] = _flush(start + pairs)


@subroutine
def _exact(job, row, column, k, c, work):
    """The sum of float64 numbers rounded once, after passes that leave the errors of additions in their places (S. M.
    Rump, T. Ogita, S. Oishi, SIAM Journal on Scientific Computing 31:189): the last is the sum, what is left its error.
    """
    a = _numbers(job.a, row * job.depth + k, job.length)
    terms, bits = allocate(job.length + 1, 0.0), allocate(1, 0)
    for j in range(len(c)):
        for place in range(job.length):
            terms[place] = a[place] * _numbers(job.b, (k + place) * job.n + column, len(c))[j]
        terms[job.length] = c[j] if abs(c[j]) < np.inf else 0.0
        for _ in range(job.length):
            for place in range(job.length):
                x, y = terms[place], terms[place + 1]
                total = x + y
                part = total - x
                terms[place] = (x - (total - part)) + (y - part)
                terms[place + 1] = total
        error = 0.0
        for place in range(job.length):
            error = terms[place] if terms[place] != 0.0 else error
        total = terms[job.length : job.length + 1]
        bits[0] = total.view(np.int64)[0]
        if error != 0.0 and bits[0] & 1 == 0:  # to odd, from which rounding again is right
            bits[0] += 1 if (error > 0.0) == (total[0] > 0.0) else -1
        _store(bits.view(np.float64), c[j : j + 1], job.kept)
    free(terms)
    free(bits)


@subroutine
def _chain(job, row, column, k, length, c, work):
    """Products one by one, each sum by way of round-to-odd. `unit` is 1 where products are rounded before, `joint`
    where subnormal sums become zero."""
    a, sums, errors = _numbers(job.a, row * job.depth + k, length), work[0, : len(c)], work[1, : len(c)]
    bits = sums.view(np.int64)
    for place in range(length):
        b = _numbers(job.b, (k + place) * job.n + column, len(c))
        for j in range(len(c)):
            product = a[place] * b[j]
            product = np.float64(np.float32(product)) if job.unit == 1.0 else product
            sums[j] = c[j] + product
            part = sums[j] - c[j]
            errors[j] = (c[j] - (sums[j] - part)) + (product - part)
        for j in range(len(c)):
            if errors[j] != 0.0 and abs(sums[j]) < np.inf and bits[j] & 1 == 0:
                bits[j] += 1 if (errors[j] > 0.0) == (sums[j] > 0.0) else -1
        _store(sums, c, job.kept)
        for j in range(len(c) if job.joint == 1.0 else 0):
            c[j] = c[j] if abs(c[j]) >= _LEAST_NORMAL else c[j] * 0.0


@subroutine
def _tiles(job, row, column, k, c, work):
    """The first half of the packed block holds the even places."""
    half, even, odd = job.length // 2, work[2, : len(c)], work[3, : len(c)]
    for j in range(len(c)):
        even[j], odd[j] = 0.0, 0.0
    _chain(job, row, column, k, half, even, work)
    _chain(job, row, column, k + half, half, odd, work)
    for j in range(len(c)):
        c[j] = _flush(_flush(c[j]) + _flush(even[j] + odd[j]))


@subroutine
def _block(job, row, column, k, c, work):
    if job.kind == ALIGNED:
        _sum_aligned(job, row, column, k, job.length, c, work, job.kept)
    elif job.kind == HALVES:
        _halves(job, row, column, k, c, work)
    elif job.kind == TREE:
        _tree(job, row, column, k, c, work)
    elif job.kind == EXACT:
        _exact(job, row, column, k, c, work)
    elif job.kind == CHAIN:
        _chain(job, row, column, k, job.length, c, work)
    elif job.kind == TILES:
        _tiles(job, row, column, k, c, work)
    else:
        _two_stage(job, row, column, k, c, work)


@task("a a_powers b b_powers out m n depth promote kind length kept least unit joint")
def _strip(task, worker, job):
    strips = (job.n + _COLUMNS - 1) // _COLUMNS
    first, column = task // strips * _ROWS, task % strips * _COLUMNS
    width, memory = min(_COLUMNS, job.n - column), allocate(6 * _COLUMNS, 0.0)
    work = carray(pointer(address(memory), 0.0), (6, _COLUMNS))
    part, apart = work[5, :width], job.promote > 0
    every = job.promote if apart else job.depth
    for row in range(first, min(first + _ROWS, job.m)):
        out = _numbers(job.out, row * job.n + column, width)
        for start in range(0, job.depth, every):
            for j in range(width if apart else 0):
                part[j] = 0.0
            for k in range(start, min(start + every, job.depth), job.length):
                if apart:
                    _block(job, row, column, k, part, work)
                else:
                    _block(job, row, column, k, out, work)
            for j in range(width if apart else 0):
                out[j] = np.float64(np.float32(out[j] + part[j]))
    free(memory)


@njit
def multiply(pool, threads, arrays, sizes, rule, numbers):
    """Add products to `out` (m, n): of a (m, depth) and b (depth, n), with their powers, at the addresses `arrays`.

    `sizes` are m, n, depth and the number of places after which sums are added to an fp32 number outside the unit, or
    0. `rule` is its kind, the length of its blocks and the format of its sums. `numbers` are the smallest power of two
    that terms are aligned to, and the kept bits below the largest exponent, as 2**bits, of products and of sums.
    """
    tasks = ((sizes[0] + _ROWS - 1) // _ROWS) * ((sizes[1] + _COLUMNS - 1) // _COLUMNS)
    launch(pool, threads, tasks, _strip(*arrays, *sizes, *rule, *numbers))
