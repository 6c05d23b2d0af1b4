"""Products obey the live flags, forward and backward, and explain tells the truth about them."""

import concurrent.futures
import math

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import backends, explain
from minitorch_backends.kernels.gemm import matmul as kernel
from minitorch_backends.kernels.gemm.compiled import ISAS
from minitorch_backends.kernels.precisions.parts import round_to, split
from minitorch_backends.kernels.precisions.products import PRECISIONS

A = np.random.default_rng(0).standard_normal((33, 65)).astype(np.float32)
B = np.random.default_rng(1).standard_normal((65, 17)).astype(np.float32)


def tensors(requires_grad=False):
    return mt.tensor(A, requires_grad=requires_grad), mt.tensor(B, requires_grad=requires_grad)


def relative_error(result, exact):
    return np.sqrt(np.mean((result - exact) ** 2) / np.mean(exact**2))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_generic_flag_governs_products(precision):
    a, b = tensors()
    with backends.flags(fp32_precision=precision), explain.record() as log:
        result = a @ b

    assert [(call.precision, call.direction) for call in log] == [(precision, "forward")]
    assert "fp32_precision" in log[0].decided_by
    error = relative_error(result.numpy(), A.astype(float) @ B.astype(float))
    figures = {"bf16": 2.4e-3, "tf32": 2.9e-4, "fp16": 2.9e-4, "bf16x3": 4.4e-6, "mxfp8": 4.1e-2, "e4m3": 3.7e-2}
    figures |= {"mxfp4": 0.16, "nvfp4": 0.13, "mxfp6": 4e-2, "e5m2": 7.4e-2}
    expected = figures.get(precision, 3e-7)
    assert expected / 4 < error < expected * 4


def test_backward_runs_under_the_flags_in_force_then():
    a, b = tensors(requires_grad=True)
    with explain.record() as log:
        with backends.flags(fp32_precision="tf32"):
            result = a @ b
        with backends.flags(fp32_precision="bf16"):
            result.sum().backward()

    assert [(call.precision, call.direction) for call in log] == [
        ("tf32", "forward"),
        ("bf16", "backward"),
        ("bf16", "backward"),
    ]
    ones = np.ones((33, 17), np.float32)
    rounded = split(A, "bf16")[0]
    np.testing.assert_allclose(b.grad.numpy(), rounded.T @ ones, rtol=1e-5, atol=1e-5)


def test_a_call_names_its_own_precision_and_its_gradients_follow():
    a, b = tensors(requires_grad=True)
    with backends.flags(fp32_precision="bf16"), explain.record() as log:
        mt.matmul(a, b, precision="bf16x6").sum().backward()

    assert [call.precision for call in log] == ["bf16x6"] * 3
    assert "of the call" in log[0].decided_by


@pytest.mark.parametrize("rounding", ["rna", "rne", "rz"])
def test_tf32_rounds_as_the_flag_says(rounding):
    ties = np.full((1, 1), 1 + 2.0**-11, np.float32)
    ones = np.ones((1, 1), np.float32)
    with backends.flags(fp32_precision="tf32", tf32_rounding=rounding):
        result = (mt.tensor(ties) @ mt.tensor(ones)).item()

    assert result == round_to(ties, "tf32", rounding).item()
    assert result == (1 + 2.0**-10 if rounding == "rna" else 1.0)


@pytest.mark.parametrize(
    ("family", "value", "precision"),
    [
        ("cuda", {}, "ieee"),
        ("mkldnn", {}, "ieee"),
        ("xla", {}, "bf16"),
        ("xla", {"xla.mat_mul_precision": "high"}, "bf16x3"),
    ],
)
def test_emulate_obeys_one_family_with_its_defaults(family, value, precision):
    a, b = tensors()
    with mt.backends.Snapshot({"emulate": family, **value}.items()), explain.record() as log:
        a @ b

    assert log[0].precision == precision


def test_float64_integers_and_halves_have_no_choice():
    with backends.flags(fp32_precision="bf16"), explain.record() as log:
        for dtype in (np.float64, np.float16, np.int32, np.complex128):
            mt.tensor(A.astype(dtype)) @ mt.tensor(B.astype(dtype))

    assert {call.precision for call in log} == {"ieee"}
    flag = "fp32_precision = 'bf16', inherited by mkldnn.matmul.fp32_precision"
    others = "fp32_precision flags affect float32 and complex64 products only"
    half = f"{flag} changes no product of float16, only of float32; see backends.operands"
    assert [call.decided_by for call in log] == [others, half, others, others]


@pytest.mark.parametrize("backward_precision", [None, "tf32"])
def test_complex64_products_obey_the_flags(backward_precision):
    a, b = (mt.tensor((x + 1j * x[::-1]).astype(np.complex64), requires_grad=True) for x in (A, B))
    given = {} if backward_precision is None else {"backward_precision": backward_precision}
    with backends.flags(fp32_precision="bf16", **given), explain.record() as log:
        for _ in range(2):
            mt.view_as_real(a @ b).sum().backward()

    once = ["bf16"] + [backward_precision or "bf16"] * 2
    assert [call.precision for call in log] == once * 2
    a, b = a.detach(), b.detach()
    rounded = [split(x.numpy().view(np.float32), "bf16")[0].view(np.complex64) for x in (a, b)]
    np.testing.assert_allclose((a @ b).numpy(), a.numpy() @ b.numpy(), rtol=0, atol=1e-4)
    with backends.flags(fp32_precision="bf16"):
        np.testing.assert_allclose((a @ b).numpy(), np.matmul(*rounded), rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    "product",
    [
        lambda a, b: mt.einsum("ij,jk->ik", a, b),
        lambda a, b: mt.addmm(mt.zeros((), dtype=a.dtype), a, b),
        lambda a, b: mt.tensordot(a, b, dims=1),
        lambda a, b: mt.nn.functional.conv1d(a[None], b.T.contiguous()[..., None])[0],
    ],
    ids=["einsum", "addmm", "tensordot", "conv1d"],
)
def test_every_complex_product_asks_the_flags(product):
    a, b = (mt.tensor((x + 1j * x[::-1]).astype(np.complex64)) for x in (A[:, :33].copy(), B[:33]))
    for precision in ("bf16", "ieee", "bf16"):
        with backends.flags(fp32_precision=precision), explain.record() as log:
            product(a, b)
            product(a, b)
        assert [call.precision for call in log] == [precision] * 2


@pytest.mark.parametrize("dtype", [mt.float32, mt.float64, mt.float16, mt.bfloat16, mt.int32, mt.complex64])
def test_what_a_product_called_before_is_told_again_and_obeys_flags_that_change(dtype):
    a = mt.tensor(np.ones((4, 4), np.float32)).to(dtype)
    again = [a @ a for _ in range(3)]
    with explain.record() as log:
        again.append(a @ a)
        with backends.cuda.matmul.flags(allow_fp16_accumulation=True):
            again.append(a @ a)

    assert [each.tolist() for each in again] == [np.full((4, 4), 4).tolist()] * 5
    assert [call.kernel for call in log] == ["matmul", "half_matmul" if dtype is mt.float16 else "matmul"]


@pytest.mark.parametrize(
    "name", ["mm", "addmm", "mv", "dot", "outer", "bmm", "baddbmm", "tensordot", "inner", "multi_dot"]
)
def test_every_product_asks_the_flags(name):
    a, b, vector = mt.tensor(A), mt.tensor(B), mt.tensor(B[:, 0])
    square = mt.tensor(np.zeros((), np.float32))
    calls = {
        "mm": lambda: mt.mm(a, b),
        "addmm": lambda: mt.addmm(square, a, b),
        "mv": lambda: mt.mv(a, vector),
        "dot": lambda: mt.dot(vector, vector),
        "outer": lambda: mt.outer(vector, vector),
        "bmm": lambda: mt.bmm(a.unsqueeze(0), b.unsqueeze(0)),
        "baddbmm": lambda: mt.baddbmm(square, a.unsqueeze(0), b.unsqueeze(0)),
        "tensordot": lambda: mt.tensordot(a, b, dims=1),
        "inner": lambda: mt.inner(a, vector),
        "multi_dot": lambda: mt.linalg.multi_dot([a, b]),
    }
    results = {}
    for precision in ("ieee", "bf16"):
        with backends.flags(fp32_precision=precision), explain.record() as log:
            results[precision] = calls[name]().numpy()
        assert {call.precision for call in log} == {precision}

    assert not np.array_equal(results["ieee"], results["bf16"])


@pytest.mark.parametrize("precision", ["bf16", "tf32", "ieee"])
def test_large_float32_products_are_added_to_while_they_are_stored(precision):
    """The same bits as the product and then the sum, wherever that is done."""
    a, b, x = (mt.tensor(np.random.default_rng(seed).standard_normal((720, 720), np.float32)) for seed in range(3))
    with explain.record() as record:
        fused = mt.addmm(x, a, b, beta=0.5, alpha=2, precision=precision)
    product = mt.matmul(a, b, precision=precision)
    np.testing.assert_array_equal(fused.numpy(), (product * 2 + x * 0.5).numpy())
    ran = [(call.kernel, call.implementation) for call in record]
    how = kernel.decide(a.numpy(), b.numpy(), precision=precision).candidates[0].name
    assert ran == [("addmm" if how in ISAS else "matmul", how)]
    batch = mt.stack([a, b]), mt.stack([b, a])
    added = mt.baddbmm(x[0], *batch, precision=precision)
    np.testing.assert_array_equal(added.numpy(), (mt.matmul(*batch, precision=precision) + x[0]).numpy())


def test_bad_products_name_the_shapes_and_change_nothing():
    a, b = tensors()
    for wrong, error, parts in [
        (lambda: b @ b, RuntimeError, ("65x17", "17", "65")),
        (lambda: a @ b.double(), RuntimeError, ("float32", "float64", ".to(dtype)")),
        (lambda: a @ mt.tensor(np.float32(1)), RuntimeError, ("0D", "use *")),
        (lambda: mt.matmul(a, b, precision="bf17"), ValueError, ("bf17", "bf16x3")),
        (lambda: mt.mm(a, b[0]), RuntimeError, ("mat2", "2-D", "[17]")),
        (lambda: a @ "x", TypeError, ("other", "str")),
        (lambda: (a > 0) @ (b > 0), RuntimeError, ("bool", "floating")),
    ]:
        with pytest.raises(error) as caught:
            wrong()
        assert all(part in str(caught.value) for part in parts), caught.value
    assert (a._version, b._version) == (0, 0)


def test_explain_table_has_a_line_for_each_call():
    a, b = tensors()
    with explain.record() as log:
        a @ b
        with backends.flags(fp32_precision="tf32"):
            a @ b
    a @ b

    header, *lines = log.table().splitlines()
    assert len(lines) == len(log) == 2
    assert header.split()[:2] == ["kernel", "shapes"]
    assert "33x65 @ 65x17" in lines[0]
    assert "tf32" in lines[1]


def test_complex_factors_of_a_sum_are_conjugated_in_its_gradients() -> None:
    rng = np.random.default_rng(0)
    x, a, b, g = (mt.tensor(rng.standard_normal((2, 2)) + 1j * rng.standard_normal((2, 2))) for _ in range(4))
    sums = lambda x, a, b: mt.addmm(x, a, b, alpha=1j, beta=2 - 1j)  # noqa: E731
    written = lambda x, a, b: (2 - 1j) * x + 1j * (a @ b)  # noqa: E731
    for found, expected in zip(*(mt.func.vjp(f, x, a, b)[1](g) for f in (sums, written)), strict=True):
        np.testing.assert_allclose(found, expected)
    tangents = [mt.func.jvp(f, (x, a, b), (g, g, g))[1] for f in (sums, written)]
    np.testing.assert_allclose(*tangents)
    with pytest.raises(TypeError, match=r"addmm\(\): argument 'beta' must be a number, not str 'x'"):
        mt.addmm(x, a, b, beta="x")


def test_outer_products_of_two_types_have_their_common_one() -> None:
    a, b = mt.tensor([1.0, 2.0], dtype=mt.float64, requires_grad=True), mt.tensor([3, 4, 5])
    for other, dtype in ((b, mt.float64), (b.float(), mt.float64), (b.to(mt.complex64), mt.complex128)):
        found = mt.outer(a, other)
        assert found.dtype is dtype
        assert found.real.tolist() == [[3, 4, 5], [6, 8, 10]]
    mt.outer(a, b).sum().backward()
    assert a.grad.tolist() == [12, 12]


def test_addr_promotes_and_writes_what_its_tensor_holds() -> None:
    narrow, wide = mt.tensor([1.0, 2.0]), mt.tensor([1.0, 2.0, 3.0], dtype=mt.float64)
    assert mt.addr(mt.ones(2, 3), narrow, wide).tolist() == [[2.0, 3.0, 4.0], [3.0, 5.0, 7.0]]
    assert mt.addr(mt.ones(2, 3), narrow, wide).dtype is mt.float64
    assert mt.ones(2, 3).addr_(narrow, wide).dtype is mt.float32
    whole = mt.ones(2, 3, dtype=mt.int64)
    with pytest.raises(RuntimeError, match=r"addr_: result type mt.float64 can't be cast .* mt.int64"):
        whole.addr_(narrow, wide)
    assert whole.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_factors_that_the_type_of_a_product_does_not_hold_are_refused() -> None:
    one = mt.ones(1, 1)
    for x, factor in ((one, 2j), (one, 1e300), (one.long(), math.nan), (one.to(mt.int8), 300)):
        for factors in ({"alpha": factor}, {"beta": factor}):
            with pytest.raises(RuntimeError, match="without overflow"):
                mt.addmm(x, x, x, **factors)
    with pytest.raises(RuntimeError, match="no floating point numbers"):
        mt.addr(one.long(), one[0].long(), one[0].long(), beta=0.5)
    assert mt.addmm(one.half(), one.half(), one.half(), beta=0.5, alpha=2).item() == 2.5


def test_what_is_not_added_has_a_shape_all_the_same() -> None:
    with pytest.raises(RuntimeError, match="does not broadcast"):
        mt.addmv(mt.ones(2), mt.ones(3, 4), mt.ones(4), beta=0)
    with pytest.raises(RuntimeError, match="does not broadcast"):
        mt.baddbmm(mt.ones(5, 3, 2), mt.ones(2, 3, 4), mt.ones(2, 4, 2), beta=0)


def test_distances_of_vectors_of_nothing() -> None:
    for p in (0.0, 1.0, 2.0, math.inf):
        assert mt.cdist(mt.ones(3, 0), mt.ones(4, 0), p).tolist() == [[0.0] * 4] * 3


def test_small_products_of_many_threads_have_the_right_values() -> None:
    x = mt.tensor(np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32))
    expected = (x @ x).numpy()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = [each for many in pool.map(lambda _: [(x @ x).numpy() for _ in range(200)], range(4)) for each in many]
    assert np.allclose(expected, x.numpy().astype(np.float64) @ x.numpy(), atol=1e-5)
    assert all(np.array_equal(each, expected) for each in found)


def test_kron_promotes_factors_by_the_dimensions_of_both():
    """A factor without dimensions gets those of the other one, of size 1, before dtypes are promoted."""
    for first, second in ((mt.uint8, mt.int8), (mt.int8, mt.uint8)):
        assert mt.kron(mt.tensor(3, dtype=first), mt.tensor([2], dtype=second)).dtype is mt.int16
