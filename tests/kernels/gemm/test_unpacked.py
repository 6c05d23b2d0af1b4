"""Products whose operands are read where they lie, and products by panels of some rows at a time."""

from __future__ import annotations

import functools

import ml_dtypes
import numpy as np
import pytest

from minitorch_backends.kernels.block import tuning
from minitorch_backends.kernels.gemm import matmul, product, unpacked
from minitorch_backends.kernels.gemm.compiled import ISAS, computed_precision, implementation
from minitorch_backends.kernels.gemm.unpacked_loops import BY_TASK, BY_WORKER, WHOLE
from minitorch_backends.kernels.runtime import cpu, workspace


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def layouts(a, b):
    """The operands in several strides."""
    yield a, b
    yield np.asfortranarray(a), np.swapaxes(np.ascontiguousarray(np.swapaxes(b, -1, -2)), -1, -2)
    yield a[..., ::-1], b[..., ::-1, :]
    yield np.repeat(a, 2, -1)[..., ::2], np.repeat(b, 3, -1)[..., ::3]


SHAPES = [
    ((7, 11), (11, 5)), ((1, 300), (300, 64)), ((13, 600), (600, 33)), ((6, 257), (257, 65)),
    ((3, 17, 300), (3, 300, 64)), ((2, 3, 50, 257), (2, 3, 257, 70)), ((2, 3, 50, 257), (257, 7)),
    ((61, 300), (300, 200)), ((500, 33), (33, 24)), ((260, 520), (520, 700)), ((4, 30, 20), (4, 20, 600)),
    ((1, 12, 9), (4, 9, 31)), ((1, 5), (5, 1)), ((6, 0), (0, 3)), ((0, 4), (4, 3)),
]  # fmt: skip


def _forget():
    for forget in tuning.when_changed:
        forget()


def _of_panels(multiply, monkeypatch):
    """The result of `multiply` with both operands packed."""
    with monkeypatch.context() as patch:
        patch.setattr(unpacked, "is_read_in_place", lambda *_: False)
        _forget()
        found = multiply()
    _forget()
    return found


def _packed_by(way, multiply, monkeypatch):
    """The result of `multiply` with columns packed in one of the ways."""
    with monkeypatch.context() as patch:
        patch.setattr(unpacked, "_ways_of_packing", lambda *_: (way,))
        _forget()
        found = multiply()
    _forget()
    return found


@pytest.mark.parametrize(("dtype", "precision"), [("float32", "ieee"), ("float32", "tf32"), ("float64", "ieee")])
def test_operands_read_where_they_lie_give_the_bits_of_panels(dtype, precision, monkeypatch):
    """For all widths of strips, layouts, addends and batches, and all ways of packing B."""
    if (sentence := cpu.refusal("avx512")) is not None:
        pytest.skip(sentence)
    for shapes in SHAPES:
        operands = [normal(*shape, seed=place, dtype=dtype) for place, shape in enumerate(shapes)]
        addend = normal(shapes[0][-2], 1, seed=2, dtype=dtype)
        how = {"isa": "avx512", "precision": precision}
        for a, b in layouts(*operands):
            for further in ({}, {"addend": addend, "alpha": 2.0, "beta": 0.5}):
                multiply = functools.partial(product.product, a, b, **how, **further)
                panels = _of_panels(multiply, monkeypatch)
                np.testing.assert_array_equal(multiply(), panels)
                for way in (WHOLE, BY_TASK, BY_WORKER) if a.ndim == 2 else ():
                    np.testing.assert_array_equal(_packed_by(way, multiply, monkeypatch), panels)
        a, b = operands
        plain = product.product(a, b, **how)
        np.testing.assert_array_equal(product.product(a, b, **how, relu=True), np.maximum(plain, 0))
        if b.ndim == 2 and b.size:
            kept = product.Packed(b, "avx512", precision, "rna")
            np.testing.assert_array_equal(product.product(a, kept, **how), plain)


def test_operands_read_where_they_lie_keep_infinity_and_nan():
    if (sentence := cpu.refusal("avx512")) is not None:
        pytest.skip(sentence)
    a, b = normal(600, 500), normal(500, 60)
    np.testing.assert_allclose(matmul(a, b), a.astype(np.float64) @ b, rtol=0, atol=1e-4)
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
def test_strips_of_any_height_give_the_same_bits(isa, kind, precision):
    """Many rows with few columns, with a rest, in batches, and with an addend; in strips of rows or in blocks."""
    dtype = np.dtype(ml_dtypes.bfloat16 if kind == "bfloat16" else kind)
    if cpu.refusal(isa) is not None or computed_precision(isa, dtype, precision) is None:
        pytest.skip(f"no {kind} products at {precision} by {isa} here")
    multiply = implementation(isa)
    for shape_a, shape_b in (((300, 70), (70, 5)), ((2, 333, 90), (2, 90, 13)), ((3, 260, 40), (1, 40, 9))):
        a, b, results = normal(*shape_a).astype(dtype), normal(*shape_b, seed=1).astype(dtype), []
        addend = normal(*shape_a[:-1], 1, seed=2).astype(dtype)
        for least in (1 << 20, 64, 16):
            with tuning.thresholds(isa).override(strip_rows=least, spread_microseconds=0.0):
                plain = multiply(a, b, precision=precision)
                results.append((plain, multiply(a, b, addend, precision=precision, alpha=2.0, beta=0.5)))
        for plain, added in results[1:]:
            np.testing.assert_array_equal(plain, results[0][0])
            np.testing.assert_array_equal(added, results[0][1])
        np.testing.assert_allclose(
            results[0][1].astype(float), 2 * a.astype(float) @ b.astype(float) + 0.5 * addend.astype(float), atol=0.5
        )


@pytest.mark.skipif(cpu.refusal("avx512") is not None, reason="no avx512")
@pytest.mark.parametrize("m", [80, 13, 25, 40])
def test_a_block_of_few_rows_writes_nothing_behind_them(m: int) -> None:
    rng, n = np.random.default_rng(0), 20
    a, b = rng.standard_normal((504, m)).astype(np.float32), rng.standard_normal((504, n)).astype(np.float32)
    memory = np.full(m * n + 512, 7, np.float32)
    with workspace.offer(memory[: m * n].reshape(m, n)):
        found = product.product(a.T, b, isa="avx512")
    assert np.shares_memory(found, memory)
    assert np.allclose(found, a.T @ b, atol=1e-3)
    assert (memory[m * n :] == 7).all()
