"""backends.partial_sums: products and reductions as sums of parts, and the same bits for any number of them."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import backends, explain, lab
from minitorch_backends.kernels.partial_sums import DTYPES, LEAVES, ORDERS

pytestmark = pytest.mark.usefixtures("default_flags")

ORDERS_OF_EIGHT = {
    "sequential": "(((((((0 1) 2) 3) 4) 5) 6) 7)",
    "pairwise": "(((0 1) (2 3)) ((4 5) (6 7)))",
    "tree": "(((0 4) (2 6)) ((1 5) (3 7)))",
}


def numbers(*shape: int, seed: int = 0) -> mt.Tensor:
    return mt.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def by_text(text: str, parts: list[np.ndarray]) -> np.ndarray:
    """The sum of parts in the order of a text, each addition in their dtype."""
    source = text.replace(" ", " + ")
    return eval("".join(f"parts[{c}]" if c.isdigit() else c for c in source), {"parts": parts})


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_a_product_is_the_sum_of_its_parts_in_order(order: str, dtype: str) -> None:
    a, b = numbers(4, 80).bfloat16(), numbers(80, 6, seed=1).bfloat16()
    kind = getattr(mt, dtype).dtype
    parts = [(a[:, i : i + 10].float() @ b[i : i + 10].float()).numpy().astype(kind) for i in range(0, 80, 10)]
    with backends.partial_sums.flags(parts=8, order=order, dtype=dtype):
        found = (a @ b).float().numpy()
    if order == "ring":
        flat, expected = [part.reshape(-1) for part in parts], np.empty(24, kind)
        for place in range(24):
            ranks = [(place // 3 + 1 + step) % 8 for step in range(8)]
            expected[place] = list(itertools.accumulate(flat[rank][place] for rank in ranks))[-1]
    else:
        expected = by_text(ORDERS_OF_EIGHT[order], parts).reshape(-1)
    np.testing.assert_array_equal(found.reshape(-1), mt.from_numpy(expected).bfloat16().float().numpy())


@pytest.mark.parametrize("parts", [2, 3, 5, 7, 40])
@pytest.mark.parametrize("order", ORDERS)
def test_no_term_is_lost(order: str, parts: int) -> None:
    a, b = (mt.from_numpy(np.random.default_rng(seed).integers(-8, 9, (3, 23)).astype(np.float32)) for seed in (1, 2))
    with backends.partial_sums.flags(parts=parts, order=order, dtype="result"):
        for kind in (mt.float32, mt.float64, mt.complex64):
            assert mt.equal(a.to(kind) @ b.to(kind).mT, mt.from_numpy(a.numpy() @ b.numpy().T).to(kind))
        assert a.sum().item() == a.numpy().sum()
        assert mt.equal(a.sum(1, True), mt.from_numpy(a.numpy().sum(1, keepdims=True)))
        assert np.isclose(a.mean((0, 1)).item(), a.numpy().mean())


def test_reductions_round_their_parts() -> None:
    x = mt.tensor([[1.0, 2.0**-9], [1.0, 2.0**-9]]).mT
    exact = Fraction(2) + Fraction(2, 512)
    assert x.sum(0).sum().item() == exact
    with backends.partial_sums.flags(parts=2, dtype="bfloat16"):
        assert x.sum(0).tolist() == [1.0, 1.0]
        assert x.mean(0).tolist() == [0.5, 0.5]
        assert mt.arange(10).sum().item() == 45


def test_formats_units_and_layers_are_split_too() -> None:
    x, layer = numbers(5, 64), mt.nn.Linear(64, 8)
    calls = {
        "unit": lambda: mt.matmul(x, layer.weight.mT, precision="bf16"),
        "block": lambda: mt.matmul(x, layer.weight.mT, precision="mxfp8"),
        "layer": lambda: layer(x),
    }
    for name, call in calls.items():
        with mt.no_grad(), backends.flags(profile="h100" if name == "unit" else None):
            whole = call()
            with backends.partial_sums.flags(parts=4, dtype="bfloat16"), explain.record() as log:
                split = call()
            assert not mt.equal(whole, split), name
            assert mt.allclose(whole, split, rtol=0.05, atol=0.05), name
            assert log[0].implementation == "partial_sums", name


def test_explain_says_what_splits() -> None:
    a, b = numbers(3, 30), numbers(30, 4)
    with backends.partial_sums.flags(parts=2, order="ring"):
        answer = explain.why("matmul", a, b)
        assert answer.decided_by.endswith("; partial_sums: 2 parts, ring, unrounded")
        assert answer.implementations == ("partial_sums",)
        assert ("blas", "sums all of K, and backends.partial_sums splits it") in answer.refusals
    assert "partial_sums" not in explain.why("matmul", a, b).implementations


def test_rounded_reductions_of_half_types_are_overridden() -> None:
    a, b = numbers(3, 3000).bfloat16(), numbers(3000, 4).bfloat16()
    with backends.cuda.matmul.flags(bf16_reduction="reduced"), backends.partial_sums.flags(parts=4):
        assert "which overrides cuda.matmul.bf16_reduction" in explain.why("matmul", a, b).decided_by


# The same bits for any number of shards


@pytest.mark.parametrize("k", [13, 200])  # of sixteen leaves, three have no terms
@pytest.mark.parametrize("kind", ["float32", "float64", "bfloat16", "complex64"])
def test_bits_do_not_depend_on_the_number_of_shards(kind: str, k: int) -> None:
    a, b = numbers(50, k).to(getattr(mt, kind)), numbers(k, 70, seed=1).to(getattr(mt, kind))

    def bits(parts: int) -> list[bytes]:
        with backends.flags(invariant="shards"), backends.partial_sums.flags(parts=parts):
            return [mt.view_as_real(x).numpy().tobytes() if x.is_complex() else x.double().numpy().tobytes()
                    for x in (a @ b, a.sum(), a.mean(1))]  # fmt: skip

    assert bits(1) == bits(2) == bits(4) == bits(8) == bits(LEAVES)


def test_what_depends_on_the_number_of_shards_is_refused() -> None:
    a, b = numbers(3, 30), numbers(30, 4)
    flags = {"parts": 3}, {"parts": 2, "order": "ring"}, {"parts": 2, "dtype": "result"}
    for flag, name in zip(flags, ("parts must be a power of two", "order = 'ring'", "dtype = 'result'"), strict=True):
        with backends.flags(invariant="shards"), backends.partial_sums.flags(**flag):
            with pytest.raises(RuntimeError, match=rf"partial_sums\.{name}.*'shards'"):
                a @ b
            with pytest.raises(RuntimeError, match=rf"partial_sums\.{name}"):
                a.sum()


def test_a_certificate_compares_shards() -> None:
    factors, alone = (numbers(6, 96), numbers(96, 5)), {"batch_sizes": (), "threads": (), "capabilities": ()}
    found = lab.certificate(_product, factors, invariant="shards", **alone)
    assert found.holds
    assert [check.setting for check in found.checks] == ["1 shard", "2 shards", "4 shards", "8 shards"]
    free = lab.certificate(_product, factors, shards=(1, 8), **alone)
    assert [check.holds for check in free.checks] == [True, False]
    assert free.checks[1].first_difference == "in call 0, matmul of 6x96 @ 96x5 by partial_sums"


def _product(a: mt.Tensor, b: mt.Tensor) -> mt.Tensor:
    return a @ b


def test_wrong_values() -> None:
    with pytest.raises(RuntimeError, match="an integer >= 1"):
        backends.partial_sums.parts = 0
    with pytest.raises(RuntimeError, match=DTYPES[0]):
        backends.partial_sums.dtype = "float8"


# Products of vectors in the stacks of GPUs


def test_stacks_leave_products_of_vectors_exact() -> None:
    a, x = numbers(40, 300), numbers(300, seed=1)
    with backends.flags(fp32_precision="tf32"):
        rounded = a @ x
    for stack, exact in (("cuda", True), ("rocm", True), ("xla", False)):
        with backends.flags(emulate=stack), backends.cuda.matmul.flags(fp32_precision="tf32"):
            assert explain.why("matmul", a, x).decided_by.count("TF32 is a mode of products of matrices") == exact
            found = mt.mv(a, x), mt.dot(x, x), a @ x
            columns = a @ x[:, None]
            y = x.clone().requires_grad_()
            (a @ y).sum().backward()
        if exact:
            assert not mt.equal(found[0], rounded)
            assert mt.equal(found[0], a @ x)
            assert mt.equal(found[1], mt.dot(x, x))
            assert mt.equal(y.grad, a.mT @ mt.ones(40))
            assert not mt.equal(columns[:, 0], found[0])


def log_of(call: object) -> explain.Log:
    with explain.record() as log:
        call()  # type: ignore[operator]
    return log


def test_settings_that_change_nothing_in_a_product_say_so_and_count_as_that() -> None:
    """Emulated float64 beside other dtypes, parts beside kernels that add none; whatever else is set acts on."""
    x, image, weight = numbers(8, 8), numbers(1, 3, 8, 8), numbers(4, 3, 3, 3)
    logs = {
        "precision='int8x7' of the call changes no product of float32 in matmul": log_of(
            lambda: mt.matmul(x, x, precision="int8x7")
        )
    }
    with backends.flags(fp64_precision="int8x7"):
        logs["fp64_precision = 'int8x7' changes no product of float32 in matmul"] = log_of(lambda: x @ x)
    with backends.partial_sums.flags(parts=4):
        logs["partial_sums.parts = 4 changes no product of float32 in conv"] = log_of(lambda: mt.conv2d(image, weight))
    for sentence, log in logs.items():
        assert [call.decided_by for call in log] == [sentence]
        assert "no product obeyed precision flags, 1 did not" in str(log)
    with backends.flags(profile="a100", fp32_precision="tf32"):
        (call,) = log_of(lambda: mt.matmul(x, x, precision="tf32"))
        with backends.flags(fp64_precision="int8x7"):
            (beside,) = log_of(lambda: x @ x)
    assert (call.implementation, call.precision) == (beside.implementation, beside.precision) == ("matrix_unit", "tf32")


def test_a_sweep_of_emulated_float64_needs_products_of_float64() -> None:
    def product(dtype: str) -> mt.Tensor:
        x = numbers(16, 16).to(getattr(mt, dtype))
        return x @ x

    settings = {"fp64_precision": ["ieee", "int8x4"]}
    single, double = (
        lab.sweep(product, over={"dtype": [dtype]}, flags=settings, seeds=None, reference=None).rows
        for dtype in ("float32", "float64")
    )
    assert [row["exception"] for row in double] == [None, None]
    assert single[0]["exception"] is None
    assert "no flag of precision acted: no product obeyed precision flags, 1 did not" in single[1]["exception"]
