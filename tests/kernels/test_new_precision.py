"""A precision is one row: `split`, which is added here, is taken by every kernel and flag under its name.

It has the operands, parts and terms of bf16x3, so that its results have the bits of that, by the same loops.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import backends, explain
from minitorch_backends.kernels.block import plans
from minitorch_backends.kernels.gemm import compiled, matmul
from minitorch_backends.kernels.precisions.products import PRECISIONS, Precision, Scale, add, predicted_error

from ..support import reference

F = mt.nn.functional


@pytest.fixture(scope="module", autouse=True)
def row_of_the_table() -> Iterator[None]:
    """The row, for the tests of this file."""
    units, meaning = ("amx", "avx512_bf16"), "operands split in 2 bfloat16 parts, without the product of the last ones"
    add(Precision("split", "bf16", 2, ((1, 0), (0, 1), (0, 0)), meaning, units), before="tf32")
    yield
    del PRECISIONS["split"]


def normal(*shape: int, seed: int = 0) -> mt.Tensor:
    return mt.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def gradients(function: Callable[..., mt.Tensor], *shapes: tuple[int, ...]) -> Callable[[], list[mt.Tensor]]:
    """The result of a function and its gradients."""

    def compute() -> list[mt.Tensor]:
        inputs = [normal(*shape, seed=seed).requires_grad_() for seed, shape in enumerate(shapes)]
        out = function(*inputs)
        return [out, *mt.autograd.grad((out * out).sum(), inputs)]

    return compute


def recurrent() -> list[mt.Tensor]:
    mt.manual_seed(0)
    layer = mt.nn.LSTM(24, 24)
    return [layer(normal(5, 3, 24))[0]]


CALLS: dict[str, Callable[[], list[mt.Tensor]]] = {
    "matmul": gradients(mt.matmul, (40, 48), (48, 56)),
    "matmul of few rows": gradients(mt.matmul, (2, 300), (300, 300)),
    "matmul in blocks": gradients(mt.matmul, (130, 300), (300, 270)),
    "matmul of a batch": gradients(mt.matmul, (3, 24, 16), (3, 16, 24)),
    "matmul of complex numbers": lambda: [mt.view_as_real(mt.complex(normal(24, 24), normal(24, 24)) @
                                          mt.complex(normal(24, 24), normal(24, 24)))],
    "linear": gradients(F.linear, (40, 48), (56, 48), (56,)),
    "conv2d": gradients(lambda x, w: F.conv2d(x, w, padding=1), (2, 16, 9, 9), (32, 16, 3, 3)),
    "conv2d in groups": gradients(lambda x, w: F.conv2d(x, w, groups=16), (2, 16, 9, 9), (16, 1, 3, 3)),
    "attention": gradients(F.scaled_dot_product_attention, *[(2, 2, 40, 32)] * 3),
    "einsum": gradients(lambda a, b, c: mt.einsum("bik,bkj,jl->bil", a, b, c), (2, 30, 20), (2, 20, 30), (30, 20)),
    "lstm": recurrent,
    "solve": lambda: [mt.linalg.lu_factor(normal(200, 200) + 20 * mt.eye(200)).LU,
                      mt.linalg.solve(normal(200, 200) + 20 * mt.eye(200), normal(200, 150))],
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_every_kernel_runs_it_with_the_bits_of_its_arithmetic(name: str) -> None:
    found = {}
    for precision in ("split", "bf16x3"):
        with backends.flags(fp32_precision=precision), explain.record() as log:
            found[precision] = (
                [each.detach().numpy() for each in CALLS[name]()],
                [(entry.kernel, entry.implementation) for entry in log],
            )
        assert precision in {entry.precision for entry in log} or name == "solve"
    (values, ran), (wanted, ran_before) = found["split"], found["bf16x3"]
    assert ran == ran_before
    assert all(np.array_equal(*each) for each in zip(values, wanted, strict=True))


OTHERS = {
    "bf16x4": Precision(
        "bf16x4",
        "bf16",
        2,
        ((1, 1), (1, 0), (0, 1), (0, 0)),
        "operands split in 2 parts, all products",
        ("amx", "avx512_bf16"),
    ),
    "plain e5m2": Precision("plain e5m2", "e5m2", 1, ((0, 0),), "operands rounded to e5m2"),
}
"""Rows of terms, and of a format, that no compiled loops have, whatever the units that they name."""


@pytest.mark.parametrize("name", OTHERS)
def test_without_loops_of_its_own_it_runs_by_blas(name: str) -> None:
    add(OTHERS[name], before="bf16")
    bound = matmul.bound[name]
    try:
        for call in ("matmul of few rows", "linear", "conv2d", "attention", "lstm"):
            exact = [each.detach().numpy() for each in CALLS[call]()]
            with backends.flags(fp32_precision=name):
                found = [each.detach().numpy() for each in CALLS[call]()]
            for one, other in zip(found, exact, strict=True):
                error = np.max(np.abs(one - other)) / np.max(np.abs(other))
                assert bound / 64 < error < 2 * bound, call
    finally:
        del PRECISIONS[name]


@pytest.mark.parametrize("implementation", ["blas", "definition"])
def test_products_keep_its_bound(implementation: str) -> None:
    a, b = normal(33, 64).numpy(), normal(64, 20, seed=1).numpy()
    found, exact = matmul[implementation](a, b, precision="split"), reference.wide(a) @ reference.wide(b)
    size = np.abs(reference.wide(a)) @ np.abs(reference.wide(b))
    assert np.all(np.abs(found - exact) <= (matmul.bound["split"] + 2.0**-18) * size)
    assert np.max(np.abs(found - exact)) > 2.0**-22 * np.max(size)
    assert predicted_error("split", 64) == predicted_error("bf16x3", 64)


def test_flags_take_its_name_and_place() -> None:
    with backends.flags(fp32_precision="split"):
        assert explain.precision_of("matmul").precision == "split"
        with backends.flags(**{"mkldnn.matmul.fp32_precision": "tf32"}):
            assert explain.precision_of("matmul").precision == "split", "the faster one of two that are allowed"
    with pytest.raises(RuntimeError, match=r"expected one of 'none', .*'split'"):
        backends.fp32_precision = "bf16x1"
    with backends.flags(backward_precision="split"):
        assert backends.snapshot().as_dict()["backward_precision"] == "split"


def test_rows_that_make_no_sense_are_refused() -> None:
    for row, sentence in (
        (Precision("tf32", "tf32", 1, ((0, 0),), ""), "name must be new, got 'tf32'"),
        (Precision("new", "fp12", 1, ((0, 0),), ""), "operand must be one of fp32, .*, got 'fp12'"),
        (Precision("new", "fp16", 2, ((0, 0),), ""), "parts must be 1, or 2 or 3 of a format with fp32's range, got 2"),
        (
            Precision("new", "bf16", 2, ((0, 0),), "", scale=Scale(8)),
            r"scale must be of one part, in fp32, e8m0 or e4m3",
        ),
        (Precision("new", "e4m3", 1, ((0, 0),), "", scale=Scale(8, "e5m3")), r"scale must be of one part, in fp32, .*"),
        (Precision("new", "bf16", 2, ((0, 0), (0, 2)), ""), r"terms must be pairs of parts below 2, \(0, 0\) last"),
    ):
        with pytest.raises(ValueError, match=sentence):
            add(row)
        assert "new" not in PRECISIONS


def test_loops_of_parts_are_those_that_plans_have() -> None:
    assert {isa: set(names) for isa, names in compiled._IN_PARTS.items()} == {
        isa: set(kernels) for isa, kernels in plans._KERNELS_OF_PARTS.items()
    }
