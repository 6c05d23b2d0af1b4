"""uint16, uint32 and uint64: values as NumPy computes them, all 64 bits of numbers, and promotion."""

from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt

LARGEST = 2**64 - 1


@pytest.mark.parametrize("dtype", [mt.uint16, mt.uint32, mt.uint64], ids=repr)
@pytest.mark.parametrize("rows", [3, 2000])
def test_functions_compute_as_numpy_does(dtype: mt.dtype, rows: int) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(1, mt.iinfo(dtype).max, (rows, 50), dtype.dtype, endpoint=True) for _ in range(2))
    x, y = mt.tensor(a), mt.tensor(b)
    for found, expected in (
        (x + y, a + b),
        (x * y, a * b),
        (x // y, a // b),
        (-x, -a),
        (x >> 3, a >> 3),
        (x > y, a > b),
        (mt.maximum(x, y), np.maximum(a, b)),
        (x.amax(0), a.max(0)),
        (x.argmin(1), a.argmin(1)),
        (x.sort(1).values, np.sort(a, 1)),
        (x.sum(0), a.sum(0).astype(np.int64)),
        (x.sum(0, dtype=dtype), a.sum(0, dtype=dtype.dtype)),
        (x.cumsum(1, dtype=dtype), a.cumsum(1, dtype=dtype.dtype)),
        (x @ y.mT, a @ b.T),
        (x[x > y], a[a > b]),
        (mt.searchsorted(x.flatten().sort().values, y), np.searchsorted(np.sort(a.ravel()), b)),
        (x.double(), a.astype(np.float64)),
        (x.float(), a.astype(np.float32)),
    ):
        assert found.numpy().dtype == expected.dtype
        assert np.array_equal(found.numpy(), expected)


def test_numbers_of_64_bits_are_kept_exactly() -> None:
    x = mt.tensor([LARGEST, 3, 2**63 + 1], dtype=mt.uint64)
    assert x.tolist() == [LARGEST, 3, 2**63 + 1]
    assert (x - 1).tolist() == [LARGEST - 1, 2, 2**63]
    assert (x == LARGEST).tolist() == [True, False, False]
    assert x.fill_(2**63 + 5)[0].item() == mt.full((), 2**63 + 5, dtype=mt.uint64).item() == 2**63 + 5
    x[0] = LARGEST - 2
    assert x.max().item() == LARGEST - 2
    assert mt.tensor([-1, LARGEST - 1], dtype=mt.uint64).tolist() == [LARGEST, LARGEST - 1]
    assert mt.tensor([2**63 + 2**55 + 1], dtype=mt.uint64).bfloat16().double().item() == 2.0**63 + 2.0**56
    with pytest.raises(RuntimeError, match="70000 is not in -65535 to 65535"):
        mt.full((2,), 70000, dtype=mt.uint16)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (mt.uint16, mt.uint8, mt.uint16),
        (mt.uint16, mt.int8, mt.int32),
        (mt.uint32, mt.int32, mt.int64),
        (mt.uint64, mt.uint16, mt.uint64),
        (mt.uint64, mt.bool, mt.uint64),
        (mt.uint64, mt.float16, mt.float16),
        (mt.uint64, mt.int8, None),
    ],
)
def test_promotion(first: mt.dtype, second: mt.dtype, expected: Any) -> None:
    for pair in ((first, second), (second, first)):
        if expected is None:
            with pytest.raises(RuntimeError, match=r"must have a common type, got .*; cast one with to\(dtype\)"):
                mt.promote_types(*pair)
        else:
            assert mt.promote_types(*pair) is expected


def test_they_index_nothing() -> None:
    with pytest.raises(IndexError, match="must be long, int, byte or bool"):
        mt.arange(5)[mt.tensor([1], dtype=mt.uint16)]
