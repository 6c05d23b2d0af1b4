"""Tiny numbers, which splits lose and tiles flush: products keep their bound, and few are refused for them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from minitorch_backends.kernels.attention import attention, exact_attention
from minitorch_backends.kernels.block import ranges
from minitorch_backends.kernels.conv import conv
from minitorch_backends.kernels.gemm import Kept, linear, matmul, multiply_packed, pack
from minitorch_backends.kernels.gemm.compiled import OF_PARTS, passed_over
from minitorch_backends.kernels.precisions.parts import round_to
from minitorch_backends.kernels.precisions.products import PRECISIONS, PRODUCT_BOUND
from minitorch_backends.kernels.recurrence import recurrence
from minitorch_backends.kernels.registry import Refused, observe

from ...support import reference
from .test_matmul import IMPLEMENTATIONS, normal, rounding_errors, run

TINY = np.uint32(0x000A7F80).view(np.float32)
"""A subnormal number, about 1e-39, whose lower half is an infinity in bf16: it must not enter a part."""


def _one(a: np.ndarray, b: np.ndarray) -> None:
    a[3, 5] = TINY


def _least(a: np.ndarray, b: np.ndarray) -> None:
    a[1, 1], b[2, 2] = np.float32(1e-45), np.float32(-1e-45)


def _mix(a: np.ndarray, b: np.ndarray) -> None:
    a *= 10 ** np.random.default_rng(1).uniform(-44, 2, a.shape).astype(np.float32)


def _rows(a: np.ndarray, b: np.ndarray) -> None:
    a[::2] *= np.float32(1e-38)


def _columns(a: np.ndarray, b: np.ndarray) -> None:
    b[:, 1::3] *= np.float32(1e-39)


def _only(a: np.ndarray, b: np.ndarray) -> None:
    a *= np.float32(1e-39)


def _both(a: np.ndarray, b: np.ndarray) -> None:
    a *= np.float32(1e-20)
    b *= np.float32(1e-19)


def _meets_nothing(a: np.ndarray, b: np.ndarray) -> None:
    """Large numbers meet zeros, so that the sums are of tiny ones alone."""
    a[:, 1:] *= np.float32(1e-40)
    b[0] = 0


def _beside_zeros(a: np.ndarray, b: np.ndarray) -> None:
    a[2], b[:, 4], a[3, 5] = 0, 0, TINY


KINDS = [_one, _least, _mix, _rows, _columns, _only, _both, _meets_nothing, _beside_zeros]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__.strip("_"))
SHAPES = [(9, 20, 11), (70, 300, 40)]


def factors(kind: Any, m: int, k: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    a, b = normal(m, k), normal(k, n, seed=1)
    kind(a, b)
    return a, b


def assert_defined(result: np.ndarray, a: np.ndarray, b: np.ndarray, precision: str) -> None:
    """Right for operands rounded or split as they should be, subnormal numbers included, but for float32's rounding."""
    allowed, _ = rounding_errors(a, b, precision)
    assert np.all(np.abs(result - reference.matmul_at(a, b, precision, None, np.matmul)) <= allowed)


@every_kind
@pytest.mark.parametrize("precision", PRECISIONS)
def test_products_keep_their_bound(kind: Any, precision: str) -> None:
    for shape in SHAPES:
        a, b = factors(kind, *shape)
        for implementation in IMPLEMENTATIONS:
            for left, right in ((a, b), (b.T, a.T)):
                result = run(implementation, left, right, precision=precision)
                if result is not None:
                    assert_defined(result, left, right, precision)
        packed = pack(b, precision)
        if packed is not None and (result := multiply_packed(a, packed)) is not None:
            assert_defined(result, a, b, precision)


@every_kind
def test_products_of_bfloat16_keep_their_bound(kind: Any) -> None:
    for shape in SHAPES:
        a, b = (each.astype(ml_dtypes.bfloat16) for each in factors(kind, *shape))
        exact, size = (np.matmul(f(a.astype(np.float64)), f(b.astype(np.float64))) for f in (np.positive, np.abs))
        for implementation in IMPLEMENTATIONS:
            result = run(implementation, a, b)
            if result is not None:
                allowed = 2.0**-8 * np.abs(exact) + shape[1] * 2.0**-23 * size + 2.0**-133
                assert np.all(np.abs(result.astype(np.float64) - exact) <= allowed), implementation


@pytest.mark.parametrize("precision", ["bf16", "bf16x3"])
@pytest.mark.parametrize("isa", [isa for isa in OF_PARTS if passed_over(isa) is None])
@pytest.mark.parametrize("kind", [_one, _least, _beside_zeros], ids=lambda kind: kind.__name__.strip("_"))
def test_a_tiny_number_does_not_send_a_product_elsewhere(kind: Any, isa: str, precision: str) -> None:
    for shape in ((70, 300, 40), (300, 600, 200)):
        a, b = factors(kind, *shape)
        cleared = [np.where(np.abs(each) < 1e-30, np.float32(0), each) for each in (a, b)]
        wanted = matmul[isa](*cleared, precision=precision)
        np.testing.assert_array_equal(matmul[isa](a, b, precision=precision), wanted)
        bias = normal(shape[2], seed=2)
        calls: list[Any] = []
        with observe(calls.append):
            linear(a, Kept(b, precision), bias, precision=precision)
        assert [call.implementation for call in calls] == ["packed"]


def test_results_that_flushed_numbers_may_change_are_refused() -> None:
    one = int(np.float32(1).view(np.uint32))
    tiny, normal_only = one << 32 | int(TINY.view(np.uint32)), one << 32 | one
    least = ranges.certain_from("bf16", 100, tiny, normal_only)
    assert 100 * 2.0**-126 * 2.0**24 < least < 1e-20
    assert ranges.certain_from("bf16", 100, normal_only, normal_only) == 0
    unknown = int(TINY.view(np.uint32))  # small products at bf16 only need the smallest magnitude
    assert ranges.certain_from("bf16", 100, tiny, one) > 1e9 > ranges.certain_from("bf16", 100, unknown, normal_only)
    out = np.full((2, 3), 2 * least, np.float32)
    ranges.refuse_uncertain(least, out)
    for value in (0.0, -least / 2, np.nan):
        out[0, 2] = value
        with pytest.raises(Refused, match="flushed"):
            ranges.refuse_uncertain(least, out)
        ranges.refuse_uncertain(0.0, out)
    a, b = np.ones((2, 4), np.float32), np.ones((4, 3), np.float32)
    with pytest.raises(Refused, match="flushed"):
        ranges.refuse_uncertain(least, out, a, b)
    b[:, 2] = 0
    ranges.refuse_uncertain(least, out, a, b)
    with pytest.raises(Refused, match="overflow"):
        ranges.certain_from("bf16x3", 100, tiny, (one + (125 << 23)) << 32 | one)


@pytest.mark.parametrize("precision", ["bf16", "bf16x3", "tf32"])
@pytest.mark.parametrize("scales", [(1, 1), (1e-39, 1), (1, 1e-40), (1e-20, 1e-20)])
@pytest.mark.parametrize("kernel", [(1, 1), (3, 3)])
def test_convolutions_keep_their_bound(precision: str, scales: tuple[float, float], kernel: tuple[int, int]) -> None:
    x, w = normal(2, 32, 8, 8) * np.float32(scales[0]), normal(32, 32, *kernel, seed=1) * np.float32(scales[1])
    x[0, 3, 4, 4] = TINY
    options = {"padding": (kernel[0] // 2,) * 2}
    rounded = (x, w) if precision == "bf16x3" else (round_to(x, precision), round_to(w, precision))
    exact, size = conv.reference(*rounded, **options), conv.reference(*map(np.abs, rounded), **options)
    result = conv(x, w, precision=precision, **options)
    split = PRODUCT_BOUND["bf16x3"] if precision == "bf16x3" else 0
    assert np.all(np.abs(result - exact) <= (split + 32 * 9 * 2.0**-23) * size + 32 * 9 * 2.0**-148)


@pytest.mark.parametrize("precision", ["bf16", "bf16x3"])
@pytest.mark.parametrize("scale", [1, 1e-39])
def test_attention_keeps_its_bound(precision: str, scale: float) -> None:
    q, k, v = (normal(1, 2, 40, 16, seed=seed) for seed in range(3))
    v *= np.float32(scale)
    q[0, 0, 1, 2], k[0, 1, 3, 4], v[0, 0, 5, 6] = TINY, TINY, TINY
    result = attention(q, k, v, scale=0.25, precision=precision).out
    exact = exact_attention(q, k, round_to(v, "bf16") if precision == "bf16" else v, scale=0.25).out
    scores = np.abs(0.25 * np.einsum("bhld,bhsd->bhls", q, k, dtype=np.float64)).max()
    allowed = (PRODUCT_BOUND[precision] * (1 + 2 * scores) + 2.0**-20) * np.abs(v).max(-2, keepdims=True) + 2.0**-148
    assert np.all(np.abs(result - exact) <= allowed)


@pytest.mark.parametrize("precision", ["bf16", "bf16x3"])
def test_recurrences_keep_their_bound(precision: str) -> None:
    projected, weight, hidden = normal(3, 40, 64) * np.float32(1e-3), normal(64, 64, seed=1), normal(40, 64, seed=2)
    hidden[::2] *= np.float32(1e-39)
    weight[3, 4] = TINY
    if precision == "bf16":  # which has fewer bits of such numbers
        hidden, weight = round_to(hidden, "bf16"), round_to(weight, "bf16")
    exact = recurrence.reference(projected, weight, hidden, cell="rnn_relu")[0]
    result = recurrence(projected, weight, hidden, cell="rnn_relu", precision=precision)[0]
    grown = recurrence.reference(np.abs(projected), np.abs(weight), np.abs(hidden), cell="rnn_relu")[0]
    assert np.all(np.abs(result - exact) <= 3 * (PRODUCT_BOUND[precision] + 2.0**-17) * grown)
