"""The table of precisions, against the definitions and against simulated products."""

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest

from minitorch_backends.kernels.precisions.products import (
    ALIASES,
    PRECISIONS,
    ROUNDINGS,
    find_precision,
    predicted_error,
)

from ..support import reference

EXACT = ("bf16x9", "ieee")
SPLITS = [name for name, row in PRECISIONS.items() if row.parts > 1]


def test_fastest_first():
    scaled = ["mxfp4", "nvfp4", "mxfp6", "e5m2", "mxfp8", "e4m3"]
    assert list(PRECISIONS) == [*scaled, "bf16", "fp16", "bf16x3", "tf32", "tf32x3", "bf16x6", "bf16x9", "ieee"]
    assert all(name == row.name and row.rounding in ROUNDINGS for name, row in PRECISIONS.items())


def test_names_and_aliases():
    assert find_precision("tf32") is PRECISIONS["tf32"]
    assert find_precision("bfx9") is PRECISIONS["bf16x9"]
    assert not set(ALIASES) & set(PRECISIONS)
    with pytest.raises(ValueError, match=r"'tf31' is not a precision; expected one of mxfp4, .*ieee, bfx9"):
        find_precision("tf31")


@pytest.mark.parametrize("name", PRECISIONS)
def test_terms_come_small_ones_first(name):
    row = PRECISIONS[name]
    assert row.terms[-1] == (0, 0)
    assert len(set(row.terms)) == len(row.terms)
    orders = [i + j for i, j in row.terms]
    assert orders == sorted(orders, reverse=True)
    kept = set(row.terms)
    assert kept == {(i, j) for i, j in itertools.product(range(row.parts), repeat=2) if i + j <= max(orders)}


def test_names_count_the_terms():
    counts = {name: len(PRECISIONS[name].terms) for name in reference.UNSCALED}
    assert counts == {name: int(name[-1]) if "x" in name else 1 for name in reference.UNSCALED}


@pytest.mark.parametrize("name", SPLITS)
def test_product_error_bounds_the_worst_product(name):
    """Over pairs of significands next to 1, where errors weigh most."""
    row = PRECISIONS[name]
    significands = (1 << 23) + np.random.default_rng(5).integers(0, 1 << 18, 1500)
    x = np.ldexp(significands.astype(np.float64), -23)
    product = reference.matmul_at(x[:, None], x[None, :], name, product=np.matmul)
    worst = np.max(np.abs(product / np.multiply.outer(x, x) - 1))
    assert worst <= row.product_error + 2.0**-52
    assert worst >= row.product_error / 8


@pytest.mark.parametrize("name", ["bf16", "fp16", "tf32"])
def test_product_error_bounds_one_rounding(name):
    bits = PRECISIONS[name].significand
    tie = np.array([1 + 2.0**-bits, 1 + 3 * 2.0**-bits])
    worst = np.max(np.abs(reference.matmul_at(tie[:, None], tie[None, :], name) / np.multiply.outer(tie, tie) - 1))
    assert PRECISIONS[name].product_error * 0.9 <= worst <= PRECISIONS[name].product_error


@pytest.mark.parametrize(
    ("name", "rounding"), [*((name, None) for name in PRECISIONS if name not in EXACT), ("tf32", "rne"), ("tf32", "rz")]
)
def test_product_variance_is_what_normal_data_shows(name, rounding):
    rng = np.random.default_rng(11)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((64, 1024), (1024, 64)))
    error = reference.matmul_at(a, b, name, rounding, np.matmul) - np.matmul(a.astype(float), b.astype(float))
    measured = np.sqrt(np.mean(error**2) / 1024)
    expected = math.sqrt(PRECISIONS[name].product_variance(rounding))
    # fp32's own last bit is a part of tf32x3's remainder and cannot be smaller: the model has no such floor.
    assert measured == pytest.approx(expected, rel=0.15 if name == "tf32x3" else 0.05)


def test_the_published_example():
    """PyTorch's note on TF32: largest error 0.1747 of 10240 x 10240 products on an A100; bf16 on a CPU: 1.3704."""
    entries = 10240**2
    assert predicted_error("tf32", 10240, entries=entries).maximum == pytest.approx(0.1747, rel=0.05)
    assert predicted_error("bf16", 10240, entries=entries).maximum == pytest.approx(1.3704, rel=0.05)
    assert predicted_error("tf32", 10240, rounding="rz").sigma == pytest.approx(0.0766, rel=0.05)


def test_relative_error_does_not_depend_on_the_length():
    for name in ("bf16", "tf32", "bf16x3"):
        short, long = (predicted_error(name, k).sigma / math.sqrt(k) for k in (16, 65536))
        assert short == pytest.approx(long, rel=0.02)
    assert predicted_error("tf32", 0).sigma == 0
    assert predicted_error("bfx9", 64) == predicted_error("ieee", 64)


def test_single_class_precisions_are_alike_and_the_others_ordered():
    """Lower precision is faster or the order of `PRECISIONS` would make no sense as one of permissions."""
    sigma = {name: predicted_error(name, 4096).sigma for name in PRECISIONS}
    assert sigma["bf16"] > sigma["tf32"] > sigma["bf16x3"] > sigma["tf32x3"]
    for name in ("tf32x3", "bf16x6", "bf16x9"):
        assert sigma[name] == pytest.approx(sigma["ieee"], rel=0.1)


def test_nothing_heavy_is_imported():
    script = (
        "import sys, minitorch_backends.kernels.precisions.products, minitorch_backends.kernels.gemm;"
        "print(*{'numba', 'scipy', 'ml_dtypes'} & set(sys.modules))"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not loaded
