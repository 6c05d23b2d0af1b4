"""Functions compiled without Numba: each returns what Python returns; others are refused."""

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest

from minitorch_backends.kernels import code_library, jit
from minitorch_backends.kernels.code_types import UnsupportedError
from minitorch_backends.kernels.record import Address, Count, Record


class Pair(NamedTuple):
    first: int
    second: float


class Sizes(Record):
    rows: Count
    columns: Count


class Matrix(Record):
    place: Address
    sizes: Sizes


@jit.njit
def integers(a, b):
    return (
        a + b,
        a - b,
        a * b,
        a // b,
        a % b,
        a & b,
        a | b,
        a ^ b,
        a << 3,
        a >> 2,
        -a,
        abs(b),
        a // 8,
        a % 8,
        a // 7,
        a % -7,
    )


@jit.njit
def floats(x, y, n):
    quotient = x / y
    return (
        x + y,
        x - y,
        x * n,
        quotient,
        x % y,
        -x,
        abs(x),
        n / 4,
        np.floor(x),
        np.rint(x),
        np.trunc(x),
        math.sqrt(abs(y)),
    )


@jit.njit
def comparisons(a, b, x):
    both = a < b and b < 10
    one = a == b or x > 1
    return both, one, not a, a < b <= x, min(a, b, 3), max(x, a), a in (1, 2, 3), (max(b, a)), x != x


@jit.njit
def loops(first, last, step):
    total = 0
    for i in range(first, last, step):
        if i == 5:
            continue
        if total > 1000:
            break
        total += i
    count = 0
    while count < 3:
        count += 1
    for index, item in enumerate((first, last)):
        total += index * item
    for number in range(2):
        total -= number
    return total, count, number


@jit.subroutine
def swap(pair):
    return Pair(pair.second, pair.first)


@jit.njit
def tuples(pair, rest, index):
    first, (second, third) = pair.first, rest
    swapped = swap(pair)
    many = (*rest, first)
    a, b = second, third
    a, b = b, a
    return a, b, swapped.first, swapped.second, many[2], (first, 2, 3)[index], len(many)


@jit.njit
def wider(n):
    total = 0
    for i in range(n):
        total += i * 0.5
    chosen = 1 if n > 2 else 2.5
    return total, chosen


@jit.njit
def arrays(x, y, i):
    part, row = x[i:, 1:-1], x[-1]
    y[1:3] = 7.0
    y[-1] += row[0]
    total = 0.0
    for k in range(part.shape[0]):
        for m in range(part.shape[1]):
            total += part[k, m]
    return total, x.shape, part.shape, row.size, len(x), x[i][2], x[i, -1], y[i]


@jit.subroutine
def numbers_to(n):
    found = np.arange(n)
    found[0] = 5
    return found


@jit.njit
def memory(n):
    first, second = numbers_to(n), np.zeros((2, n))
    second[1, 0] = 2.0
    total = 0.0
    for i in range(n):
        total += first[i] + second[0, i] + second[1, i]
    return total


@jit.njit
def records(matrix, n):
    made = Matrix(place=n, sizes=Sizes(rows=1, columns=2))
    made.place += 1
    return matrix.place + made.place, matrix.sizes.columns, made.sizes.columns


@jit.njit
def bits(x, n):
    return (
        np.float32(x).view(np.uint32) & np.uint32(n),
        np.int32(n),
        np.uint32(n) >> np.uint32(1),
        np.float32(x) * np.float32(x),
    )


@jit.njit
def nothing(x, flag):
    if x is None:
        return 1
    if flag:
        return 2
    return 3


INTEGERS = (-(2**62), -17, -8, -1, 1, 3, 8, 1000003)


def test_integers_as_in_python():
    for a, b in itertools.product(INTEGERS, INTEGERS):
        expected = tuple((each + 2**63) % 2**64 - 2**63 for each in integers.py_func(a, b))
        assert integers(a, b) == expected, (a, b)
    assert integers(5, 0)[3:5] == (0, 0)
    assert integers(-(2**63), -1)[3] == 0


def test_floats_as_in_python():
    for x, y, n in itertools.product((-7.5, 0.3, 2.0), (-2.5, 3.0), (-3, 4)):
        assert floats(x, y, n) == floats.py_func(x, y, n)
    assert floats(1.0, 0.0, 1)[3] == math.inf
    assert str(floats(-4.0, 2.0, 1)[4]) == "0.0"


def test_comparisons_as_in_python():
    for a, b, x in itertools.product((-1, 0, 2), (0, 2, 12), (0.5, 30.0)):
        assert comparisons(a, b, x) == comparisons.py_func(a, b, x)
    found = comparisons(1, 2, math.nan)
    assert found[3] is False
    assert math.isnan(found[5])
    assert found[8] is True


@pytest.mark.parametrize("span", [(0, 10, 1), (10, 0, -3), (3, 3, 1), (0, 100000, 7), (-5, 6, 2)])
def test_loops_as_in_python(span):
    assert loops(*span) == loops.py_func(*span)


def test_tuples_as_in_python(monkeypatch):
    expected = {}
    with monkeypatch.context() as patch:
        patch.setitem(globals(), "swap", swap.py_func)
        for index in range(3):
            expected[index] = tuples.py_func(Pair(3, 2.5), (1.5, 7), index)
    for index in range(3):
        assert tuples(Pair(3, 2.5), (1.5, 7), index) == expected[index]


def test_a_variable_takes_the_wider_type():
    for n in (0, 2, 5):
        assert wider(n) == wider.py_func(n)


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_as_in_numpy(order):
    x, results = np.array(np.arange(20.0).reshape(4, 5), order=order), []
    for function in (arrays, arrays.py_func):
        y = np.arange(5.0)
        results.append((function(x, y, 1), y.tolist()))
    assert results[0] == results[1]


def test_allocated_memory():
    assert memory(6) == 5 + 15 + 2


def test_records():
    matrix = Matrix(place=Address(40), sizes=Sizes(rows=Count(3), columns=Count(4)))
    assert records(matrix, 1) == (42, 4, 2)


def test_bits_of_numbers():
    expected = int(np.float32(1.5).view(np.uint32)) & 0xFFFF0000
    assert bits(1.5, -65536)[:1] == (expected,)
    assert bits(1.5, 7) == (int(np.float32(1.5).view(np.uint32)) & 7, 7, 3, 2.25)


def test_a_branch_on_none_is_chosen_by_its_type():
    assert nothing(None, True) == 1
    assert [nothing(1, flag) for flag in (True, False)] == [2, 3]


@jit.njit
def compiled_by_numba(x):
    return x**2


def test_a_function_outside_the_subset_is_named():
    with pytest.raises(UnsupportedError, match=r"test_code.compiled_by_numba, line \d+: a power"):
        code_library.translate(compiled_by_numba, ("int64",))
    assert compiled_by_numba(3) == 9
