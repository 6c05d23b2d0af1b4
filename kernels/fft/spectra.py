"""Between the spectrum of m complex numbers and half of that of 2m real ones, in vector registers;
`real_split.py` has the formulas.

A row is a vector of `width` neighbouring frequencies for each of the transforms that share it, and the rows of a
transform follow one another. The mirrors of a row's frequencies are then the last numbers of one row from its end on,
after the first number of the next.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..block.emit import I32, vector, zero
from ..runtime.jit import ir
from .butterflies import Arithmetic, Complex


def combine_mirrors(a: Arithmetic, x: Complex, y: Complex, root: Complex) -> tuple[Complex, Complex]:
    """What becomes of the numbers x at some frequencies and y at their mirrors, with roots -i w^k."""
    even = Complex(a.plus(x.re, y.re), a.minus(x.im, y.im))
    odd = a.multiply(Complex(a.minus(x.re, y.re), a.plus(x.im, y.im)), root)
    return a.add(even, odd), Complex(a.minus(even.re, odd.re), a.minus(odd.im, even.im))


def real_ends(a: Arithmetic, value: Complex, there: ir.Value) -> Complex:
    """Without the imaginary parts of the lanes that are frequency 0, or its mirror."""
    return Complex(value.re, a.builder.select(there, zero(value.im.type), value.im))


def _mirrors(a: Arithmetic, row: Complex, following: Complex, places: list[tuple[int, int]]) -> Complex:
    width = 1 + max(number for _, number in places)
    order = [
        places.index((transform, width - number)) if number else a.lanes + lane
        for lane, (transform, number) in enumerate(places)
    ]
    mask = ir.Constant(vector(I32, a.lanes), order)
    return Complex(*[a.builder.shuffle_vector(*parts, mask) for parts in zip(row, following, strict=True)])


def spectrum(
    a: Arithmetic, rows: list[Complex], roots: list[Complex], places: list[tuple[int, int]]
) -> Iterator[tuple[int, Complex]]:
    """The rows of the spectrum of the real numbers with their numbers, as they are computed, and a row that begins with
    frequency m. `roots` are those of the first half of the rows, `places` the transform and the frequency in a row that
    each lane has. A frequency and its mirror are computed together; m / 2 is its own, and of an odd number of rows the
    one in the middle has its own mirrors."""
    half, odd, last = len(rows) // 2, len(rows) % 2, list[Complex]()
    first = ir.Constant(vector(ir.IntType(1), a.lanes), [number == 0 for _, number in places])
    for r in range(half + odd):
        lower, mirrored = combine_mirrors(a, rows[r], _mirrors(a, rows[-1 - r], rows[-r], places), roots[r])
        yield r, real_ends(a, lower, first) if r == 0 else lower
        yield len(rows) - r, _mirrors(a, last[-1], mirrored, places) if last else mirrored
        last.append(mirrored)
    if odd:
        return
    middle = Complex(a.times(rows[half].re, a.constant(2.0)), a.times(rows[half].im, a.constant(-2.0)))
    yield half, _mirrors(a, last[-1], middle, places)
