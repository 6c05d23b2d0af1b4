"""Comparisons for tests: what passes, what does not, and what is said."""

from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import backends
from minitorch_backends.testing import assert_close

T = mt.tensor


@pytest.mark.parametrize(
    ("actual", "expected", "options"),
    [
        (T([1.0, 2.0]), T([1.0, 2.000001]), {}),
        (T([1.0]), T([1.1]), {"rtol": 0.0, "atol": 0.2}),
        (T([1, 2]), T([1, 2]), {}),
        (T([1, 2]), T([1, 3]), {"rtol": 0.0, "atol": 1.0}),
        (T([float("nan"), float("inf")]), T([float("nan"), float("inf")]), {"equal_nan": True}),
        (T([1.0]).double(), T([1.0]), {"check_dtype": False}),
        ([1.0, {"a": T([2.0])}], (1.0, {"a": T([2.0])}), {}),
        (np.ones(2, np.float32), T([1.0, 1.0]), {}),
        (T([1.0], dtype=mt.bfloat16), T([1.01], dtype=mt.bfloat16), {}),
        (T([1 + 1e-9j], dtype=mt.complex64), T([1 + 0j], dtype=mt.complex64), {}),
        (mt.zeros(0), mt.zeros(0), {}),
        (mt.zeros(0), mt.zeros(0), {"k": 5}),
    ],
)
def test_what_is_close(actual: Any, expected: Any, options: Any) -> None:
    assert_close(actual, expected, **options)


@pytest.mark.parametrize(
    ("actual", "expected", "options", "says"),
    [
        (
            T([1.0, 2.0, 3.0]), T([1.0, 2.1, 3.0]), {},
            (r"1 of 3 .*\n.*absolute difference: 0\.1 at \[1\]; allowed are 1e-05\. Found 2\.0 there, expected 2\.\d+\."
            r"\n.*relative difference: 0\.0476 at \[1\]; allowed are 1\.3e-06\."),
        ),
        (1.0, 2.0, {}, r"Largest absolute difference: 1; allowed"),
        (T([float("nan")]), T([float("nan")]), {}, "1 of 1 elements differ"),
        (T([float("inf")]), T([1.0]), {}, "Largest absolute difference: inf"),
        (T([1.0]), T([float("inf")]), {}, "1 of 1 elements differ"),
        (T([True]), T([False]), {}, "1 of 1 elements"),
        (mt.ones(2), mt.ones(3), {}, r"The shapes differ: \[2\] is not \[3\]"),
        (mt.ones(2), mt.ones(2).double(), {}, r"mt\.float32 is not mt\.float64"),
        (mt.ones(2, 3).mT.contiguous().mT, mt.ones(2, 3), {"check_stride": True}, "The strides differ"),
        ([T([1.0]), {"a": 1}], [T([1.0]), {"a": 2}], {}, r"This is item \[1\]\['a'\]\."),
        ([1.0], [1.0, 2.0], {}, "different lengths: 1 and 2"),
        ({"a": 1}, {"b": 1}, {}, r"different keys: \['a'\] and \['b'\]"),
        (1.0, 2.0, {"msg": "mine"}, "^mine$"),
        (1.0, 2.0, {"msg": lambda text: text.upper()}, "DIFFER BY MORE"),
    ],
)  # fmt: skip
def test_what_is_not(actual: Any, expected: Any, options: Any, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        assert_close(actual, expected, **options)


@pytest.mark.parametrize(
    ("error", "says", "call"),
    [
        (ValueError, "given together", lambda: assert_close(1.0, 1.0, rtol=1e-3)),
        (ValueError, "give k as well", lambda: assert_close(1.0, 1.0, precision="tf32")),
        (ValueError, "give one of them", lambda: assert_close(1.0, 1.0, rtol=0.0, atol=0.0, k=3)),
        (ValueError, "'tf23' is not a precision", lambda: assert_close(1.0, 1.0, k=3, precision="tf23")),
        (TypeError, "got str and str", lambda: assert_close("a", "a")),
        (TypeError, r"got NoneType and int at \[0\]", lambda: assert_close([None], [1])),
    ],
)
def test_refusals(error: Any, says: str, call: Any) -> None:
    with pytest.raises(error, match=says):
        call()


@pytest.mark.parametrize("precision", ["ieee", "bf16x3", "tf32", "bf16"])
def test_tolerances_of_products_hold_at_their_precision_and_refuse_the_next(precision: str) -> None:
    mt.manual_seed(0)
    a, b = mt.randn(64, 512), mt.randn(512, 64)
    exact = (a.double() @ b.double()).float()
    with backends.flags(fp32_precision=precision):
        product = a @ b
        assert_close(product, exact, k=512)
        assert_close(product * 1000, exact * 1000, k=512)
        lower = {"ieee": "bf16x3", "bf16x3": "tf32", "tf32": "bf16"}.get(precision)
        if lower is not None:
            with pytest.raises(AssertionError, match=rf"as expected of sums of 512 products at {precision}"):
                assert_close(mt.matmul(a, b, precision=lower), exact, k=512)


def test_sums_that_cancel_have_the_scale_of_their_products() -> None:
    mt.manual_seed(0)
    a, b = mt.randn(64, 512), mt.randn(512, 64)
    b = b - b.mean(0)
    ones = mt.ones(64, 512)
    found = mt.matmul(ones + 0 * a, b, precision="tf32")
    exact = ones.double() @ b.double()
    with pytest.raises(AssertionError):
        assert_close(found, exact.float(), k=512, precision="tf32")
    assert_close(found, exact.float(), k=512, precision="tf32", scale=512**0.5)
