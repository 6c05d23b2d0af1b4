"""Machine code as functions of Python: how arguments are read, and which types are rejected."""

import gc
import subprocess
import sys
import weakref
from typing import NamedTuple

import numpy as np
import pytest

from minitorch_backends.kernels.runtime import jit, native


class Pair(NamedTuple):
    first: int
    rest: tuple


class Other(NamedTuple):
    first: int
    rest: tuple


@jit.njit
def describe(x, numbers, pair, scale):
    total = x.shape[0] * 100.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            total += x[i, j] * scale
    return numbers, total, pair.first > 0, pair.rest[0] + pair.rest[1]


X = np.arange(6, dtype=np.float32).reshape(2, 3)
PAIR = Pair(1, (2.5, 0.25))


def test_values_of_every_kind():
    scale = np.float32(2)
    assert describe(X, -5, PAIR, scale) == (-5, 230.0, True, 2.75)
    assert describe(X[:, ::2], 2**62, Pair(-1, (0.0, 1.0)), scale) == (2**62, 220.0, False, 1.0)
    assert describe(X.T, 0, PAIR, scale) == (0, 330.0, True, 2.75)
    assert len(describe.signatures) == 2, "arrays that are not contiguous are of one kind"
    assert describe(np.require(X, requirements="W").view(np.ndarray), 0, PAIR, scale)[1] == 230.0


def test_what_python_and_numpy_take_for_equal_is_taken_too():
    """NumPy's 64-bit scalars, subclasses of arrays, and dtypes that are equal but another object."""

    class Mine(np.ndarray):
        pass

    other = X.astype(np.dtype(np.float32, metadata={"unit": "m"}))
    before = len(describe.signatures)
    for x in (X, X.view(Mine), other):
        found = describe(x, np.int64(3), Pair(np.int64(1), (np.float64(2.5), 0.25)), np.float32(2))
        assert found == (3, 230.0, True, 2.75)
    assert len(describe.signatures) <= max(before, 1)


def test_code_checks_what_it_is_given():
    describe(X, 1, PAIR, np.float32(1))
    code = describe.code((native.Array("float32", 2, True), "int64", native.kind_of(PAIR), "numpy.float32"))
    right = (X, 1, PAIR, np.float32(1))
    wrong = [
        (X.astype(np.float64), X[:1, ::2], X[0], [1.0], None),
        (1.0, True, np.int32(1), "1"),
        (Other(*PAIR), tuple(PAIR), Pair(1, (2, 0.25)), Pair(1, [2.5, 0.25]), Pair(1, (2.5, 0.25, 1.0))),
        (1.0, np.float64(1)),
    ]
    assert code(*right) == describe(*right)
    for place, others in enumerate(wrong):
        for other in others:
            assert code(*right[:place], other, *right[place + 1 :]) is NotImplemented, (place, other)
    assert code(*right[:-1]) is NotImplemented
    with pytest.raises(OverflowError):
        code(X, 2**63, *right[2:])


def test_arguments_without_a_kind_are_refused():
    with pytest.raises(TypeError, match=r"compiled code takes no list: \[1\]"):
        describe(X, [1], PAIR, np.float32(1))


def test_a_call_keeps_no_argument():
    x = X.copy()
    seen = weakref.ref(x)
    for _ in range(3):
        describe(x, 1, PAIR, np.float32(1))
    del x
    gc.collect()
    assert seen() is None


def test_what_needs_numba_at_every_call_is_not_compiled():
    """An object file that called Numba's runtime would end a process without it."""
    reshape = jit.njit(cache=False)(lambda x, n: x[1:].reshape(n, n).sum())
    with pytest.raises(TypeError, match="numba_attempt_nocopy_reshape"):
        reshape(np.ones((5, 1))[:, :1].T[0], 2)


def test_a_failure_is_an_error_and_division_by_zero_is_none():
    def fail(x):
        if x > 1:
            raise ValueError("no text of Numba's gets here")
        return 1 / x

    failing = jit.njit(cache=False)(fail)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="a compiled kernel failed"):
            failing(2)
    assert failing(0) == np.inf


WITHOUT_NUMBA = """
import sys
import numpy as np
import minitorch_backends as mt
from minitorch_backends.kernels.runtime import store
from minitorch_backends.nn import functional as F
def new(*shape):
    return mt.tensor(np.random.default_rng(0).normal(size=shape).astype(np.float32))
square = new(300, 300)
square @ square
mt.linalg.solve(square, new(300, 2))
F.conv2d(new(2, 32, 28, 28), new(32, 32, 3, 3), padding=1)
F.scaled_dot_product_attention(*(new(2, 4, 128, 64) for _ in range(3)))
mt.fft.rfft(new(8, 1000))
print(store.activity.compiled, store.activity.loaded > 8, "numba" in sys.modules)
"""


def test_kept_code_runs_without_numba():
    """What types and lowers nothing does not import what does."""
    subprocess.run([sys.executable, "-c", WITHOUT_NUMBA], check=True, capture_output=True)
    found = subprocess.run([sys.executable, "-c", WITHOUT_NUMBA], check=True, capture_output=True, text=True)
    assert found.stdout.split() == ["0", "True", "False"]
