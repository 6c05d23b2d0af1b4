"""Householder QR in the compact WY form, compiled; workers share strips of columns as `strips.py` says.

H_1 H_2 ... H_k = I - V T V.T, where the columns of V are the vectors and T is upper triangular (R. Schreiber, C. Van
Loan, "A storage-efficient WY representation for products of Householder transformations", SIAM J. Sci. Stat. Comput.,
1989). Vectors and taus are those of LAPACK's geqrf. Blocks of `WIDE` columns, whose products are deep enough to be
fast, are made of panels of `PANEL`, whose vectors one thread finds in the cache.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..block.transpose import copy_transposed
from ..runtime.jit import carray, njit, subroutine
from ..runtime.launch import launch, task
from ..runtime.raw_memory import free, pointer
from .few_sides import dot
from .squares import copy
from .strips import finish, progress, take
from .updates import alone, multiply, multiply_packed, pack_left, subtract, subtract_packed

PANEL = 32
"""Columns of a panel. Half of it doubles the products of little depth, twice of it what one thread does alone."""

WIDE = 96
"""Columns of a block, a multiple of `PANEL`."""

_ORDER = {"reassoc", "contract"}


class Memory(NamedTuple):
    """What the compiled code writes to, and its addresses.

    triangles: (blocks, WIDE, WIDE), T of each block. panel: PANEL columns. vectors: (m, WIDE), V of a block. gram:
    (WIDE, WIDE). work, turned: (threads, WIDE, WIDE). At `at_packed` are V.T and V of each block, packed; the first
    takes `turned_bytes` and both `block_bytes`.
    """

    triangles: object
    panel: object
    vectors: object
    gram: object
    turned_bytes: int
    block_bytes: int
    at_triangles: int
    at_panel: int
    at_vectors: int
    at_gram: int
    at_work: int
    at_turned: int
    at_packed: int


@subroutine
def _alone(p, memory, worker):
    """The products and the memory of one worker, within a task."""
    own = worker * WIDE * WIDE * p.size
    return alone(p, worker), Memory(
        memory.triangles, memory.panel, memory.vectors, memory.gram, memory.turned_bytes, memory.block_bytes,
        memory.at_triangles, memory.at_panel, memory.at_vectors, memory.at_gram, memory.at_work + own,
        memory.at_turned + own, memory.at_packed,
    )  # fmt: skip


# Slices that begin at 0 and are contiguous are what LLVM makes vectors of.


@subroutine(fastmath=_ORDER)
def _reflect_one(below, other, head, tau):
    along = tau * (head + dot(below, other))
    for i in range(below.shape[0]):
        other[i] -= along * below[i]
    return along


@subroutine(fastmath=_ORDER)
def _reflect_four(panel, k, c, below, start, tau):
    """I - tau v v.T applied to four columns, so that each number of v is loaded once for four."""
    x, y, z, w = panel[c, start:], panel[c + 1, start:], panel[c + 2, start:], panel[c + 3, start:]
    zero = panel.dtype.type(0)
    p, q, r, s = zero, zero, zero, zero
    for i in range(below.shape[0]):
        v = below[i]
        p += v * x[i]
        q += v * y[i]
        r += v * z[i]
        s += v * w[i]
    p, q = tau * (p + panel[c, k]), tau * (q + panel[c + 1, k])
    r, s = tau * (r + panel[c + 2, k]), tau * (s + panel[c + 3, k])
    panel[c, k] -= p
    panel[c + 1, k] -= q
    panel[c + 2, k] -= r
    panel[c + 3, k] -= s
    for i in range(below.shape[0]):
        v = below[i]
        x[i] -= p * v
        y[i] -= q * v
        z[i] -= r * v
        w[i] -= s * v


@subroutine(fastmath={"nnan", "nsz"})  # or no vectors; of NaN, any answer will do
def _greatest(values):
    found = values.dtype.type(0)
    for i in range(values.shape[0]):
        found = max(found, abs(values[i]))
    return found


@subroutine
def _reflector(column):
    """The Householder vector of a column, its first place 1 by convention, below the new first value; and tau."""
    below, zero, unit = column[1:], column.dtype.type(0), column.dtype.type(1)
    scale = _greatest(below)
    if not scale > 0:
        return zero
    scale = max(scale, abs(column[0]))
    if 1e-15 < scale < 1e15:  # the squares of others float32 may not hold, nor what they are divided by
        scale = unit
    else:
        for i in range(column.shape[0]):
            column[i] /= scale
    beta = -np.copysign(np.sqrt(dot(column, column)), column[0])
    tau, divisor = (beta - column[0]) / beta, column[0] - beta
    for i in range(below.shape[0]):
        below[i] /= divisor
    column[0] = beta * scale
    return tau


@subroutine
def _panel(panel, taus):
    """Vectors of a panel with a column in each row of the array: R above and on the diagonal, the vectors below it."""
    columns = panel.shape[0]
    for k in range(columns):
        tau = _reflector(panel[k, k:])
        taus[k] = tau
        if tau == 0:
            continue
        below, c = panel[k, k + 1 :], k + 1
        while c + 4 <= columns:
            _reflect_four(panel, k, c, below, k + 1, tau)
            c += 4
        while c < columns:
            panel[c, k] -= _reflect_one(below, panel[c, k + 1 :], panel[c, k], tau)
            c += 1


@subroutine
def _ones_and_zeros(vectors, shift, count):
    """The upper triangle of V, of vectors that begin at row `shift`, and the rows above."""
    zero, one = vectors.dtype.type(0), vectors.dtype.type(1)
    for i in range(min(shift + count, vectors.shape[0])):
        for c in range(max(i - shift, 0), count):
            vectors[i, shift + c] = one if i == shift + c else zero


@subroutine
def _load_vectors(p, at, row, rows, count, memory):
    """V of `count` vectors that stand below the diagonal at the address."""
    for i in range(rows):
        copy(p.tag, min(i, count), at + i * row, memory.at_vectors + i * WIDE * p.size)
    _ones_and_zeros(memory.vectors[:rows], 0, count)


@subroutine
def _panel_triangle(p, memory, rows, shift, taus, triangle):
    """T of the vectors of a panel, in columns `shift` on of V: its inverse is the strict upper triangle of V.T V, with
    1 / tau on the diagonal (C. Puglisi, SIAM J. Sci. Stat. Comput. 13, 1992), solved column by column."""
    count, row, gram = taus.shape[0], WIDE * p.size, memory.gram
    at = memory.at_vectors + shift * (row + p.size)
    multiply(p, count, count, rows - shift, at, p.size, row, at, row, p.size, memory.at_gram, row)
    for k in range(count):
        for i in range(k):
            triangle[i, k] = -taus[k] * dot(triangle[i, i:k], gram[k, i:k])
        triangle[k, k] = taus[k]
        for j in range(k):
            triangle[k, j] = 0


@subroutine
def _merge(p, memory, rows, first, middle, last, triangle, at):
    """T of the vectors first to last from those of its halves: T12 = -T1 V1.T V2 T2."""
    row, size, left, right = WIDE * p.size, p.size, middle - first, last - middle
    below = memory.at_vectors + middle * row  # V2 is zero above
    v1, v2 = below + first * size, below + middle * size
    multiply(p, left, right, rows - middle, v1, size, row, v2, row, size, memory.at_gram, row)
    second = at + middle * (row + size)
    multiply(p, left, right, right, memory.at_gram, row, size, second, row, size, memory.at_work, row)
    for i in range(first, middle):
        for j in range(middle, last):
            triangle[i, j] = 0
            triangle[j, i] = 0
    target = at + first * row + middle * size
    subtract(p, left, right, left, at + first * (row + size), row, size, memory.at_work, row, size, target, row)


@subroutine
def _add_triangle(p, memory, rows, shift, taus, triangle, at):
    """T of one more panel, merged with those before it in the order of a binary counter. Returns the number of columns
    for which T is then complete."""
    _panel_triangle(p, memory, rows, shift, taus, triangle[shift : shift + taus.shape[0], shift:])
    panel, last, done = shift // PANEL + 1, shift + taus.shape[0], 1
    while panel & done == 0:
        begin = (panel - 2 * done) * PANEL
        _merge(p, memory, rows, begin, begin + done * PANEL, last, triangle, at)
        done *= 2
    return done


@subroutine
def _whole_triangle(p, memory, rows, count, triangle, at):
    """T of all vectors of a block from those of its parts."""
    panels = (count + PANEL - 1) // PANEL
    done = panels & -panels
    while done < panels:
        left = (panels - done) & -(panels - done)
        begin = (panels - done - left) * PANEL
        _merge(p, memory, rows, begin, begin + left * PANEL, count, triangle, at)
        done += left


@subroutine
def _apply(p, memory, rows, shift, count, at_triangle, transposed, width, c, c_row):
    """C (rows, width) = (I - V T V.T) C, with T.T if `transposed`, for vectors in columns `shift` on of V, which are
    zero above row `shift`; so C begins there."""
    size, v_row, w_row = p.size, WIDE * p.size, width * p.size
    v, at = memory.at_vectors + shift * (v_row + size), at_triangle + shift * (v_row + size)
    multiply(p, count, width, rows, v, size, v_row, c, c_row, size, memory.at_work, w_row)
    t_row, t_column = (size, v_row) if transposed else (v_row, size)
    multiply(p, count, width, count, at, t_row, t_column, memory.at_work, w_row, size, memory.at_turned, w_row)
    subtract(p, rows, width, count, v, v_row, size, memory.at_turned, w_row, size, c, c_row)


@subroutine
def _pack_vectors(p, rows, count, memory, begin):
    """Keep V of the block that begins at this column, and its transpose, packed."""
    at, row = memory.at_packed + begin // WIDE * memory.block_bytes, WIDE * p.size
    pack_left(p, count, rows, memory.at_vectors, p.size, row, at)
    pack_left(p, rows, count, memory.at_vectors, row, p.size, at + memory.turned_bytes)


@subroutine
def _apply_packed(p, memory, begin, count, rows, transposed, width, c, c_row):
    """The same as `_apply`, of a whole block, whose V is packed, for at most WIDE columns of C."""
    size, row, work, turned = p.size, WIDE * p.size, memory.at_work, memory.at_turned
    packed, at = memory.at_packed + begin // WIDE * memory.block_bytes, memory.at_triangles + begin * row
    multiply_packed(p, count, width, rows, packed, c, c_row, size, work, row)
    t_row, t_column = (size, row) if transposed else (row, size)
    multiply(p, count, width, count, at, t_row, t_column, work, row, size, turned, row)
    subtract_packed(p, rows, width, count, packed + memory.turned_bytes, turned, row, size, c, c_row)


@subroutine
def _block(p, begin, end, m, at, row, taus, memory, triangle, at_triangle):
    """Factor the columns begin to end, the panels in the order of a binary counter: when the last power of two of them
    is done, as many that follow are updated by it (E. Elmroth, F. Gustavson, "Applying recursion to serial and parallel
    QR factorization", IBM J. Res. Dev. 44, 2000, without recursive calls)."""
    size, rows = p.size, m - begin
    for first in range(begin, end, PANEL):
        last, height, shift = min(first + PANEL, end), m - first, first - begin
        start = pointer(memory.panel.ctypes.data, memory.panel.dtype.type(0))
        panel = carray(start, (last - first, height))  # `reshape` is a function of Numba's
        here, vectors = at + first * (row + size), memory.at_vectors + shift * (WIDE + 1) * size
        copy_transposed(p.tag, height, last - first, here, row, memory.at_panel, height * size)
        _panel(panel, taus[first:last])
        copy_transposed(p.tag, last - first, height, memory.at_panel, height * size, here, row)
        copy_transposed(p.tag, last - first, height, memory.at_panel, height * size, vectors, WIDE * size)
        _ones_and_zeros(memory.vectors[:rows], shift, last - first)
        done = _add_triangle(p, memory, rows, shift, taus[first:last], triangle, at_triangle) * PANEL
        ahead, start = min(done, end - last), last - done
        if ahead > 0:
            right = at + start * row + last * size
            _apply(p, memory, m - start, start - begin, done, at_triangle, True, ahead, right, row)
    _whole_triangle(p, memory, rows, end - begin, triangle, at_triangle)


@subroutine
def _update(p, memory, job, block, start, width):
    """Apply a block to at most WIDE columns right of it."""
    begin = block * WIDE
    c, count = job.at + begin * job.row + start * p.size, min(WIDE, job.columns - begin)
    if width > 0:
        _apply_packed(p, memory, begin, count, job.m - begin, True, width, c, job.row)


@subroutine
def _factor(p, memory, job, block):
    """Factor a strip of columns that is up to date."""
    begin = block * WIDE
    end, at_triangle = min(begin + WIDE, job.columns), memory.at_triangles + begin * WIDE * p.size
    _block(p, begin, end, job.m, job.at, job.row, job.taus, memory, memory.triangles[block], at_triangle)
    _pack_vectors(p, job.m - begin, end - begin, memory, begin)
    _update(p, memory, job, block, end, min(begin + WIDE, job.n) - end)  # where less than the strip is to be factored


@task("p memory m n columns at row taus state")
def _work_task(task, worker, job):
    """The first `columns` columns of the m x n matrix are factored, in strips; one worker at a time does so."""
    p, memory = _alone(job.p, job.memory, worker)
    strips, blocks = (job.n + WIDE - 1) // WIDE, (job.columns + WIDE - 1) // WIDE
    while True:
        strip, first, last = take(job.state, strips, blocks, blocks, False, worker, False)
        if strip < 0:
            return
        if first == strip:
            _factor(p, memory, job, strip)
        else:
            _update(p, memory, job, first, strip * WIDE, min(WIDE, job.n - strip * WIDE))
        finish(job.state, strip, first, last)


@njit
def householder(p, m, n, at, row, columns, taus, memory):
    """Factor the first `columns` (at most m) columns of the m x n matrix at the address `at`, in place; the others
    become Q.T times what they were. taus: `columns` numbers. The V and T of each block stay in `memory`."""
    state = progress((n + WIDE - 1) // WIDE)
    job = _work_task(p, memory, m, n, columns, at, row, taus, state)
    _factor(p, memory, job, 0)
    launch(p.pool, p.threads, p.threads, job)
    free(state)


@njit
def load_reflections(p, m, at, row, taus, memory):
    """The V and T of each block, from vectors below the diagonal at the address, and taus."""
    count = taus.shape[0]
    for begin in range(0, count, WIDE):
        end, rows = min(begin + WIDE, count), m - begin
        triangle, at_triangle = memory.triangles[begin // WIDE], memory.at_triangles + begin * WIDE * p.size
        _load_vectors(p, at + begin * (row + p.size), row, rows, end - begin, memory)
        for first in range(begin, end, PANEL):
            last = min(first + PANEL, end)
            _add_triangle(p, memory, rows, first - begin, taus[first:last], triangle, at_triangle)
        _whole_triangle(p, memory, rows, end - begin, triangle, at_triangle)
        _pack_vectors(p, rows, end - begin, memory, begin)


@task("p memory m k count transposed upper at row")
def _apply_task(task, worker, job):
    p, memory = _alone(job.p, job.memory, worker)
    blocks, last = (job.count + WIDE - 1) // WIDE, min((task + 1) * WIDE, job.k)
    for index in range(blocks):
        begin = (index if job.transposed else blocks - 1 - index) * WIDE
        first = max(task * WIDE, begin if job.upper else 0)
        if first < last:
            count, target = min(WIDE, job.count - begin), job.at + begin * job.row + first * p.size
            _apply_packed(p, memory, begin, count, job.m - begin, job.transposed, last - first, target, job.row)


@njit
def apply_reflections(p, m, k, count, transposed, upper, at, row, memory):
    """C (m, k), at the address, becomes H_1 ... H_count C or, if `transposed`, H_count ... H_1 C, by the V and T in
    `memory`; each worker takes some columns through all blocks. `upper`: rows of C have zeros before the diagonal, and
    keep them, as when Q is made."""
    job = _apply_task(p, memory, m, k, count, transposed, upper, at, row)
    launch(p.pool, p.threads, (k + WIDE - 1) // WIDE, job)
