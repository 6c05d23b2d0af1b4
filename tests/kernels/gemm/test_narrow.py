"""Products of few columns: rows of A read where they lie, and panels of some rows at a time."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from minitorch_backends.kernels import cpu
from minitorch_backends.kernels.gemm import matmul, narrow, product, tuning
from minitorch_backends.kernels.gemm.compiled import ISAS, computed_precision, implementation
from minitorch_backends.kernels.registry import Refused


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def layouts(a, b):
    """The operands in several strides."""
    yield a, b
    yield np.asfortranarray(a), np.swapaxes(np.ascontiguousarray(np.swapaxes(b, -1, -2)), -1, -2)
    yield a[..., ::-1], b[..., ::-1, :]
    yield np.repeat(a, 2, -1)[..., ::2], np.repeat(b, 3, -1)[..., ::3]


SHAPES = [
    ((7, 11), (11, 5)),
    ((1, 300), (300, 64)),
    ((13, 600), (600, 33)),
    ((6, 257), (257, 65)),
    ((3, 17, 300), (3, 300, 64)),
    ((2, 3, 50, 257), (2, 3, 257, 70)),
    ((2, 3, 50, 257), (257, 7)),
    ((1, 12, 9), (4, 9, 31)),
    ((1, 5), (5, 1)),
    ((6, 0), (0, 3)),
    ((0, 4), (4, 3)),
]


@pytest.mark.parametrize("isa", narrow.ISAS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_where_they_lie(isa, dtype):
    if (sentence := cpu.refusal(isa)) is not None:
        pytest.skip(sentence)
    multiply = narrow.implementation(isa)
    for shapes in SHAPES:
        for a, b in layouts(*(normal(*shape, seed=place, dtype=dtype) for place, shape in enumerate(shapes))):
            expected = np.matmul(a.astype(np.float64), b.astype(np.float64))
            magnitudes = np.matmul(abs(a).astype(np.float64), abs(b).astype(np.float64))
            out = multiply(a, b)
            assert out.dtype == dtype
            assert out.shape == expected.shape
            assert np.all(abs(out - expected) <= (a.shape[-1] + 8) * np.finfo(dtype).eps * magnitudes)


@pytest.mark.parametrize("isa", narrow.ISAS)
def test_rows_are_the_choice_for_few_columns(isa):
    if (sentence := cpu.refusal(isa)) is not None:
        pytest.skip(sentence)
    a, b = normal(600, 500), normal(500, 60)
    assert matmul.decide(a, b).candidates[0].name == f"{isa}_narrow"
    np.testing.assert_allclose(matmul(a, b), a.astype(np.float64) @ b, rtol=0, atol=1e-4)
    assert matmul.decide(normal(2000, 500), normal(500, 33)).candidates[0].name == f"{isa}_narrow"
    for columns in (32, 70, 300):
        other, text = normal(500, columns), f"columns, not 600 and {columns}"
        with pytest.raises(Refused, match=text):
            matmul[f"{isa}_narrow"](a, other)
    with pytest.raises(Refused, match="rounds no operands for bf16"):
        matmul[f"{isa}_narrow"](a, b, precision="bf16")
    with pytest.raises(Refused, match="leaves 3,840,000 products to others"):
        matmul[f"{isa}_narrow"](normal(128, 500), b)
    a[3, 4], b[0, 5] = np.inf, np.nan
    out, expected = matmul(a, b), np.matmul(a, b)
    np.testing.assert_array_equal(np.isnan(out), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(out), np.isinf(expected))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    ("kind", "precision"),
    [
        *(("float32", precision) for precision in ("bf16", "tf32", "bf16x6", "ieee")),
        ("float64", "ieee"),
        ("bfloat16", "ieee"),
    ],
)
def test_some_rows_at_a_time_give_the_same_bits(isa, kind, precision, monkeypatch):
    """Whatever the number of rows that are packed at a time, with a rest, in batches, and with an addend; a single
    product is divided so where no strips are better."""
    dtype = np.dtype(ml_dtypes.bfloat16 if kind == "bfloat16" else kind)
    if cpu.refusal(isa) is not None or computed_precision(isa, dtype, precision) is None:
        pytest.skip(f"no {kind} products at {precision} by {isa} here")
    multiply = implementation(isa)
    row = tuning.tuning(isa)
    for shape_a, shape_b in (((300, 70), (70, 5)), ((2, 333, 90), (2, 90, 13)), ((3, 260, 40), (1, 40, 9))):
        a, b, results = normal(*shape_a).astype(dtype), normal(*shape_b, seed=1).astype(dtype), []
        addend = normal(*shape_a[:-1], 1, seed=2).astype(dtype)
        for at_once in (1 << 20, 128, 64):
            split = []
            changed = tuning.thresholds(isa).override(rows_at_once=at_once, spread_microseconds=0.0)
            with changed, monkeypatch.context() as patch:
                patch.setattr(product, "_batch_of_rows", _noting(product._batch_of_rows, split))
                plain = multiply(a, b, precision=precision)
                results.append((plain, multiply(a, b, addend, precision=precision, alpha=2.0, beta=0.5)))
            by_strips = len(shape_a) == 2 and not row.rows_alone
            assert len(split) == 2 * (at_once < 1 << 20 and not by_strips)
        for plain, added in results[1:]:
            np.testing.assert_array_equal(plain, results[0][0])
            np.testing.assert_array_equal(added, results[0][1])
        np.testing.assert_allclose(
            results[0][1].astype(float), 2 * a.astype(float) @ b.astype(float) + 0.5 * addend.astype(float), atol=0.5
        )


def _noting(function, calls):
    def note(*arguments):
        calls.append(arguments)
        return function(*arguments)

    return note
