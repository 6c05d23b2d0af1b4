"""The namespace of the array API standard: values and dtypes of NumPy's, which follows the standard too."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt

from ..declared.samples import between

xp = mt.interop.array_api

A, B = between(-2, 2, 3, 4), between(1, 3, 3, 4)
SQUARE = between(-1, 1, 2, 3, 3) + 3 * np.eye(3)
SYMMETRIC = SQUARE + np.swapaxes(SQUARE, -1, -2)
INTEGERS = np.array([[3, -1, 2], [3, 0, 2]])
BYTES = np.array([[200, 100, 3], [200, 5, 3]], np.uint8)
COMPLEX = A + 1j * B
TRUTHS = A > 0

OF_ONE = """abs acos acosh asin asinh atan atanh ceil conj cos cosh exp expm1 floor isfinite isinf isnan log log10 log1p
log2 negative positive reciprocal round sign signbit sin sinh sqrt square tan tanh trunc"""
OF_TWO = """add atan2 copysign divide equal floor_divide greater greater_equal hypot less less_equal logaddexp maximum
minimum multiply nextafter not_equal pow remainder subtract"""
OF_INTEGERS = "bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor"

CALLS: list[tuple[Any, ...]] = [
    *((name, np.abs(A) / 2 + (name == "acosh")) for name in OF_ONE.split()),
    *((name, np.abs(A), B) for name in OF_TWO.split()),
    *((name, INTEGERS + 1, np.array([1, 2, 3], np.int8)) for name in OF_INTEGERS.split()),
    *((name, TRUTHS, ~TRUTHS[0]) for name in ("logical_and", "logical_or", "logical_xor")), ("logical_not", TRUTHS),
    ("bitwise_invert", BYTES), ("real", COMPLEX), ("imag", COMPLEX), ("round", COMPLEX * 3), ("sign", COMPLEX),
    ("clip", A, -0.5, 0.5), ("clip", A, B[0] - 2, None), ("where", TRUTHS, A, 1.0),
    *((name, A, {"axis": axis}) for name in ("sum", "prod", "max", "min", "mean", "std", "var") for axis in (None, 1)),
    *((name, A, {"axis": (0, 1), "keepdims": True}) for name in ("sum", "prod", "max", "min", "mean", "std", "var")),
    *((name, A, {"axis": ()}) for name in ("sum", "prod", "max", "min", "mean", "std", "var")),
    *((name, TRUTHS, {"axis": 0}) for name in ("all", "any", "count_nonzero")),
    *((name, BYTES) for name in ("all", "any", "sum", "prod", "max", "argmax")),
    ("std", A, {"axis": 0, "correction": 1.0}), ("cumulative_sum", BYTES, {"axis": 1}),
    ("cumulative_sum", A, {"axis": 1, "include_initial": True}), ("cumulative_prod", A[0]),
    *((name, A, {"axis": 1, "keepdims": True}) for name in ("argmax", "argmin")), ("nonzero", INTEGERS),
    ("searchsorted", np.arange(4.0), A, {"side": "right"}), ("sort", A, {"axis": 0}), ("argsort", A),
    ("diff", A, {"axis": 0, "n": 2}), ("isin", INTEGERS, np.array([2, 3])),
    *((name, array) for name in ("unique_all", "unique_counts", "unique_inverse")
      for array in (INTEGERS, BYTES % 2 + 1j)),
    ("take", A, np.array([2, -1]), {"axis": 1}), ("take_along_axis", A, np.array([[1, -1]])),
    ("broadcast_arrays", A, A[0]), ("broadcast_shapes", (3, 1), (4,)), ("broadcast_to", A[0], (3, 4)),
    ("concat", [A, B], {"axis": None}), ("concat", [INTEGERS, BYTES]), ("stack", [A, B], {"axis": 1}),
    ("unstack", A, {"axis": 1}), ("expand_dims", A, (0, -1)), ("squeeze", A[None], 0), ("flip", A),
    ("flip", A, {"axis": 1}), ("moveaxis", SQUARE, 0, 2), ("permute_dims", SQUARE, (2, 0, 1)),
    ("matrix_transpose", SQUARE), ("repeat", A, np.array([1, 0, 2], np.int8), {"axis": 0}), ("reshape", A, (4, 3)),
    ("roll", A, 2), ("roll", A, 1, {"axis": (0, 1)}), ("tile", A, (2, 1, 2)), ("tril", A, {"k": 1}),
    ("triu", A, {"k": -1}), ("meshgrid", A[0], B[0, :2]), ("matmul", SQUARE, SQUARE[0]),
    ("tensordot", A, B, {"axes": ((0, 1), (0, 1))}), ("vecdot", COMPLEX, B),
    ("vecdot", INTEGERS, INTEGERS, {"axis": -2}), ("arange", 5, 0), ("arange", 1, 6, 2),
    ("linspace", 0.0, 1.0, 4, {"endpoint": False}), ("eye", 3, 4, {"k": -1, "dtype": "int64"}), ("full", 3, 2.5),
    ("full_like", A, 2), ("ones", (2, 3)), ("ones_like", BYTES), ("zeros", 2), ("zeros_like", COMPLEX),
    ("asarray", [[1.0, 2.0]]), ("from_dlpack", A), ("astype", A * 3, "int32"),
    ("linalg.cholesky", SYMMETRIC @ SYMMETRIC, {"upper": True}), ("linalg.cross", A[:, :3], B[0, :3]),
    ("linalg.det", SQUARE), ("linalg.diagonal", SQUARE, {"offset": 1}), ("linalg.eigvalsh", SYMMETRIC),
    ("linalg.inv", SQUARE), ("linalg.matmul", SQUARE, SQUARE),
    ("linalg.matrix_norm", SQUARE, {"ord": 1, "keepdims": True}), ("linalg.matrix_power", SQUARE, 3),
    ("linalg.matrix_rank", SQUARE), ("linalg.matrix_transpose", SQUARE), ("linalg.outer", A[0], B[0]),
    ("linalg.pinv", SQUARE, {"rtol": 1e-3}), ("linalg.slogdet", SQUARE), ("linalg.solve", SQUARE, SQUARE[0]),
    ("linalg.solve", SQUARE, SQUARE[0, 0]), ("linalg.svdvals", SQUARE), ("linalg.tensordot", A, B, {"axes": 2}),
    ("linalg.trace", np.array([BYTES, BYTES]), {"offset": 1}), ("linalg.vecdot", A, B),
    ("linalg.vector_norm", A, {"axis": (0, 1), "ord": 1}),
    *((f"fft.{name}", A, {"axis": 0, "norm": "ortho"}) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")),
    *((f"fft.{name}", A, {"axes": (0, 1)}) for name in ("fftn", "ifftn", "rfftn", "irfftn", "fftshift", "ifftshift")),
    *((f"fft.{name}", 5, {"d": 0.5}) for name in ("fftfreq", "rfftfreq")),
]  # fmt: skip  # fmt: skip
"""The name of a function and its arguments, in the end those with names."""

OTHERS = {"can_cast", "finfo", "iinfo", "isdtype", "result_type", "empty", "empty_like", "unique_values"}
OTHERS |= {"linalg.eig", "linalg.eigh", "linalg.eigvals", "linalg.qr", "linalg.svd"}
"""Functions of dtypes, of undefined elements, and whose results NumPy has in another order or up to factors."""


def call_function(name: str, args: tuple[Any, ...], namespace: Any, convert: Any) -> Any:
    named = args[-1] if isinstance(args[-1], dict) else {}
    args = args[: len(args) - bool(named)]
    for part in name.split("."):
        namespace = getattr(namespace, part)
    return namespace(*map(convert, args), **named)


def tensor(value: Any) -> Any:
    if isinstance(value, list) and isinstance(value[0], np.ndarray):
        return [tensor(each) for each in value]
    return mt.tensor(value) if isinstance(value, np.ndarray) else value


def compare(found: Any, expected: Any) -> None:
    if isinstance(expected, (tuple, list)) and not isinstance(found, tuple | list):
        raise AssertionError(f"expected several arrays, got {found}")
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for each, wanted in zip(found, expected, strict=True):
            compare(each, wanted)
    elif isinstance(found, mt.Tensor):
        wanted = np.asarray(expected)
        assert (tuple(found.shape), found.numpy().dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12, atol=1e-12)
    else:
        assert found == expected


@pytest.fixture(scope="module", autouse=True)
def _numbers_of_numpy() -> Any:
    before = mt.get_default_dtype()
    mt.set_default_dtype(mt.float64)
    yield
    mt.set_default_dtype(before)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call[0])
def test_functions_agree_with_numpy(call: tuple[Any, ...]) -> None:
    name, *args = call
    compare(call_function(name, tuple(args), xp, tensor), call_function(name, tuple(args), np, lambda value: value))


def test_every_function_is_compared() -> None:
    public = {name for name in dir(xp) if not name.startswith("_") and callable(getattr(xp, name))}
    public |= {f"{part}.{name}" for part in ("linalg", "fft") for name in getattr(xp, part).__all__}
    assert {name for name, *_ in CALLS} | OTHERS == public - set(xp.__array_namespace_info__().dtypes())


def test_factors_multiply_to_the_matrix() -> None:
    x, symmetric = mt.tensor(SQUARE), mt.tensor(SYMMETRIC)
    q, r = xp.linalg.qr(x)
    u, s, vh = xp.linalg.svd(x)
    values, vectors = xp.linalg.eigh(symmetric)
    complex_values, complex_vectors = xp.linalg.eig(x)
    for found, expected in (
        (q @ r, x),
        ((u * s[:, None, :]) @ vh, x),
        (symmetric @ vectors, vectors * values[:, None, :]),
        (x.to(mt.complex128) @ complex_vectors, complex_vectors * complex_values[:, None, :]),
        (xp.sum(xp.linalg.eigvals(x), axis=-1), xp.linalg.trace(x).to(mt.complex128)),
    ):
        assert mt.allclose(found, expected)
    assert xp.unique_values(mt.tensor([3, 1, 3])).tolist() == [1, 3]
    assert xp.empty((2, 3), dtype=xp.uint16).shape == xp.empty_like(mt.ones(2, 3)).shape


def test_dtypes() -> None:
    assert xp.isdtype(xp.uint16, "unsigned integer")
    assert not xp.isdtype(xp.uint16, ("signed integer", "real floating", xp.uint8))
    assert xp.can_cast(xp.int8, xp.int16)
    assert not xp.can_cast(mt.ones(2), xp.int64)
    assert not xp.can_cast(xp.int64, xp.uint64)
    assert xp.result_type(mt.ones(3, dtype=mt.int8), mt.ones((), dtype=mt.int64), 2.5) is mt.get_default_dtype()
    assert xp.result_type(mt.ones(3, dtype=mt.int8), xp.uint8, 3) is xp.int16
    assert (xp.finfo(mt.ones(2, dtype=mt.complex64)).dtype, xp.iinfo(xp.uint64).max) == (xp.float32, 2**64 - 1)
    with pytest.raises(ValueError, match="kind must be one of bool, signed integer"):
        xp.isdtype(xp.int8, "float")


def test_functions_promote_arrays_without_dimensions_and_numbers() -> None:
    """By operators, arrays without dimensions yield to others, as in torch."""
    wide, narrow = mt.tensor(300, dtype=mt.int16), mt.tensor([1], dtype=mt.int8)
    assert (xp.add(wide, narrow).dtype, (wide + narrow).dtype) == (mt.int16, mt.int8)
    assert xp.add(wide, narrow).tolist() == [301]
    assert xp.atan2(1, mt.tensor([1.0])).item() == pytest.approx(np.pi / 4)
    assert xp.where(mt.tensor([True]), wide, narrow).tolist() == [300]


def test_infinite_complex_numbers() -> None:
    x = mt.tensor([complex(np.inf, 0.0), complex(-np.inf, np.nan), complex(0.5, -0.25)])
    assert xp.expm1(x).tolist()[:2] == [complex(np.inf, 0.0), -1.0]
    assert xp.expm1(x)[2].item() == pytest.approx(np.expm1(0.5 - 0.25j))
    assert xp.isnan(xp.sign(mt.tensor([np.nan]))).item()


def test_refusals() -> None:
    x = mt.ones(2, 3)
    for call, says in (
        (lambda: xp.take(x, mt.tensor([0])), "axis must be given for an array of 2"),
        (lambda: xp.cumulative_sum(x), "axis must be given for an array of 2"),
        (lambda: xp.squeeze(x, 1), "axis must be of size 1, got 1 of size 3"),
        (lambda: xp.expand_dims(x, (0, 0)), "axis must name each place once"),
        (lambda: xp.nonzero(mt.tensor(1)), "at least one axis"),
        (lambda: xp.vecdot(x, x, axis=1), "axis must be from -2 to -1, got 1"),
        (lambda: xp.vecdot(x, x[:, :2]), "equal, got 3 and 2"),
        (lambda: xp.reshape(x.mT, (6,), copy=False), "must keep the layout"),
        (lambda: xp.broadcast_shapes((2,), (3,)), "do not broadcast"),
        (lambda: x.__array_namespace__(api_version="2019.12"), "one of 2021.12.*got '2019.12'"),
    ):
        with pytest.raises(ValueError, match=says):
            call()
    with pytest.raises(IndexError, match="axis must be from -3 to 2, got 3"):
        xp.expand_dims(x, 3)


def test_the_namespace_is_that_of_tensors() -> None:
    x = mt.ones(2)
    assert x.__array_namespace__() is x.__array_namespace__(api_version="2024.12") is xp
    assert x.to_device("cpu") is x
    info = xp.__array_namespace_info__()
    assert set(info.dtypes(kind=("integral", "bool"))) == {
        "bool",
        *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)),
    }
    assert info.default_dtypes()["complex floating"] is mt.get_default_dtype().to_complex()
    assert (info.devices(), info.default_device()) == ((x.device,), x.device)
    assert info.capabilities()["boolean indexing"]


def test_gradients_and_flags_act() -> None:
    x = mt.tensor(between(-1, 1, 8, 8) / 3).float().requires_grad_()
    xp.sum(xp.matmul(x, x)).backward()
    ones = mt.ones(8, 8, dtype=x.dtype)
    assert mt.allclose(x.grad, ones @ x.detach().mT + x.detach().mT @ ones, atol=1e-5)
    exact = x.detach().double() @ x.detach().double()
    with mt.backends.flags(fp32_precision="bf16"):
        error = (xp.tensordot(x, x, axes=1) - exact).abs().max().item()
    assert 1e-4 < error < 2e-2


SUITE = os.environ.get("ARRAY_API_TESTS", "")


@pytest.mark.skipif(not SUITE, reason="ARRAY_API_TESTS must be the folder of a clone of data-apis/array-api-tests")
def test_the_suite_of_the_standard_passes() -> None:
    """At few examples, but for what tests/data/array_api_xfails.txt names."""
    xfails = Path(__file__).parents[1] / "data" / "array_api_xfails.txt"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-W",
        "ignore",
        f"--xfails-file={xfails}",
    ]
    options = ["--max-examples=5", "--derandomize", "--disable-deadline", "array_api_tests"]
    environment = {**os.environ, "ARRAY_API_TESTS_MODULE": xp.__name__}
    run = subprocess.run([*command, *options], cwd=SUITE, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-5000:]
