"""Reductions, scans and sorts beyond their samples: forms, ties, NaN, nothing to reduce, accuracy."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitorch_backends as mt
from minitorch_backends import Tensor
from minitorch_backends.autograd.gradcheck import gradcheck, gradgradcheck
from minitorch_backends.ops.indexing import sorting


def leaf(values: Any) -> Tensor:
    return mt.tensor(values, dtype=mt.float64, requires_grad=True)


def gradient(function: Any, values: Any) -> Any:
    x = leaf(values)
    function(x).sum().backward()
    return x.grad.tolist()


def test_sums_of_half_types_overflow_without_a_word() -> None:
    x = mt.full((100, 100), 60000.0, dtype=mt.float16)
    assert x.sum().item() == x.sum(0)[0].item() == math.inf
    assert mt.full((4,), 3e38, dtype=mt.bfloat16).sum().item() == math.inf


# Forms


def test_max_and_min_have_three_forms() -> None:
    x = mt.tensor([[1.0, 5.0, 5.0], [7.0, 2.0, 0.0]])
    assert x.max().item() == 7
    assert x.min().item() == 0
    largest = x.max(1)
    assert largest.values.tolist() == [5, 7]
    assert largest.indices.tolist() == [1, 0]
    assert largest.indices.dtype is mt.int64
    values, indices = mt.min(x, dim=0, keepdim=True)
    assert values.tolist() == [[1, 2, 0]]
    assert indices.tolist() == [[0, 1, 1]]
    assert mt.max(x, mt.tensor([3.0])).tolist() == [[3, 5, 5], [7, 3, 3]]
    assert mt.min(x, other=mt.tensor(1.0)).tolist() == [[1, 1, 1], [1, 1, 0]]
    assert mt.aminmax(x).max.item() == 7
    assert x.aminmax(dim=1).min.tolist() == [1, 0]
    with pytest.raises(TypeError, match="keepdim=True needs a dim"):
        x.max(keepdim=True)
    with pytest.raises(TypeError, match=r"one dim, an int, got \(0, 1\); use amax"):
        x.max((0, 1))


def test_variance_has_torchs_forms() -> None:
    x = mt.tensor([1.0, 2.0, 4.0], dtype=mt.float64)
    for call, wanted in (
        (x.var(), 7 / 3),
        (x.var(0), 7 / 3),
        (x.var(False), 14 / 9),
        (x.var(0, False), 14 / 9),
        (x.var(unbiased=False), 14 / 9),
        (x.var(correction=2), 14 / 3),
        (x.var(dim=0, correction=0), 14 / 9),
        (x.std(0, True), math.sqrt(7 / 3)),
        (mt.var_mean(x, 0, False)[0], 14 / 9),
        (mt.std_mean(x)[1], 7 / 3),
        (x.var(correction=5), math.inf),
    ):
        assert call.item() == pytest.approx(wanted)
    assert x.var(0, True, True).shape == (1,)
    assert math.isnan(x[:1].var().item())
    with pytest.raises(TypeError, match="unbiased=True and correction=1"):
        x.var(unbiased=True, correction=1)
    with pytest.raises(RuntimeError, match="int64"):
        mt.tensor([1]).var()


def test_dtypes_of_sums() -> None:
    assert mt.tensor([200, 100], dtype=mt.uint8).sum().item() == 300
    assert mt.tensor([True, True]).sum().dtype is mt.int64
    assert mt.tensor([2**31 - 1, 1], dtype=mt.int32).cumsum(0).tolist() == [2**31 - 1, 2**31]
    assert mt.tensor([3, 4]).sum(dtype=mt.float32).dtype is mt.float32
    assert mt.tensor([300, 1]).sum(dtype=mt.uint8).item() == 45
    assert mt.tensor([0.3, 0.4]).sum(dtype=mt.bool).item() is True
    halves = mt.full((4096,), 1.0, dtype=mt.float16)
    assert halves.sum().item() == 4096
    assert halves.sum().dtype is mt.float16
    assert halves.sum(dtype=mt.float32).dtype is mt.float32
    assert mt.ones(3).mean(dtype=mt.float16).dtype is mt.float16
    assert mt.ones(3).prod(dtype=mt.float64).dtype is mt.float64
    assert mt.ones(3).norm(dtype=mt.float64).dtype is mt.float64
    assert mt.tensor([1, 2]).mean(dtype=mt.float64).item() == 1.5
    with pytest.raises(RuntimeError, match=r"could not infer output dtype.*int64"):
        mt.tensor([1, 2]).mean()
    with pytest.raises(RuntimeError, match="should be complex"):
        mt.tensor([1j]).norm(dtype=mt.float32)


def test_truth_is_uint8_for_uint8() -> None:
    x = mt.tensor([[1, 0]], dtype=mt.uint8)
    assert x.all().dtype is x.any(1).dtype is mt.uint8
    assert mt.tensor([1.0, math.nan]).all().item() is True
    assert mt.tensor([[1, 2]]).all(dim=()).tolist() == [[True, True]]


@pytest.mark.parametrize("dim", [None, -1, 0, (0, 2), (1, 2)])
def test_norms_of_rows_are_sums_in_one_pass_or_two(dim) -> None:
    """Rows that are long, apart, turned or none, and beyond what float32 squares."""
    generator = np.random.default_rng(0)
    for shape in ((2, 3, 5000), (3, 40, 700), (2, 0, 5), (2, 3, 0)):
        array = generator.standard_normal(shape).astype(np.float32)
        for each in (array, array[..., ::-2], np.ascontiguousarray(array.T).T):
            axis = dim if dim is not None else (0, 1, 2)
            exact = np.sqrt(np.square(each.astype(np.float64)).sum(axis))
            np.testing.assert_allclose(mt.tensor(each).norm(2, dim).numpy(), exact, rtol=2e-6)
    assert mt.tensor([[3e38, 1.0]]).norm(2, 1).item() == np.float32(3e38)


def test_norms() -> None:
    x = mt.tensor([[3.0, -4.0], [0.0, 0.0]])
    assert [x.norm(p, 1).tolist() for p in (2, 1, math.inf, -math.inf, 0)] == [[5, 0], [7, 0], [4, 0], [3, 0], [2, 0]]
    assert x.norm().item() == x.norm("fro").item() == x.norm(None).item() == 5
    assert gradient(lambda x: x.norm(2, 1), [[3.0, -4.0], [0.0, 0.0]]) == [[0.6, -0.8], [0, 0]]
    assert gradient(lambda x: x.norm(3, 1), [[0.0, 0.0]]) == [[0, 0]]
    assert gradient(lambda x: x.norm(math.inf), [2.0, -2.0, 1.0]) == [0.5, -0.5, 0]
    with pytest.raises(RuntimeError, match="'foo'"):
        x.norm("foo")
    with pytest.raises(RuntimeError, match="p=inf"):
        mt.ones(0).norm(math.inf)


@pytest.mark.parametrize("order", [0.5, 1.5, 2, 3, 7, 1000, -1, -2, -3])
@pytest.mark.parametrize(
    ("dtype", "size"),
    [(dtype, size) for dtype in (mt.float32, mt.bfloat16, mt.complex64) for size in (1e30, 1.0, 1e-30)]
    + [(mt.float64, 1e300), (mt.float64, 1e-300), (mt.complex128, 1e250)],
)
def test_norms_of_which_no_power_leaves_the_range(dtype: mt.dtype, size: float, order: float) -> None:
    """Beside the norm of the numbers over `size`; infinite, zero and undefined numbers as in their limits."""
    x = np.array([[0.3, -0.9, 0.5], [0.7, 0.4, -0.6]])
    tensor = mt.tensor(x * size, dtype=dtype, requires_grad=True)
    scaled = (tensor.detach().to(mt.complex128) / size).abs().numpy()
    expected = (scaled**order if order < 1000 else (scaled / scaled.max()) ** order).sum(1) ** (1 / order)
    expected *= scaled.max() if order == 1000 else 1
    digits = 5e-3 if dtype == mt.bfloat16 else 1e-6
    found = tensor.norm(order, 1)
    np.testing.assert_allclose(found.detach().double().numpy() / size, expected, rtol=digits)
    (slope,) = mt.autograd.grad(found.sum(), tensor)
    wanted = np.sign(x) * (scaled / expected[:, None]) ** (order - 1)
    np.testing.assert_allclose(slope.to(mt.complex128).real.numpy(), wanted, rtol=2 * digits, atol=digits)
    special = mt.tensor([[math.inf, 1, 2], [0, 1, 2], [0, 0, 0], [math.nan, 1, 2]], dtype=dtype).norm(order, 1).tolist()
    least = (special[0], 0.0, 0.0) if order < 0 else (math.inf, special[1], 0.0)
    assert (*special[:3], math.isnan(special[3])) == (*least, True)


def test_slopes_of_a_spread_in_the_last_digits_of_the_mean() -> None:
    exact, step = np.array([0.0, 1.0, 3.0, 4.0, 9.0, 2.0, 2.0, 2.0]), 2.0**-10
    x = mt.tensor(1e4 + exact * step, requires_grad=True)
    exact -= exact.mean()
    (slope,) = mt.autograd.grad(x.std(), x)
    np.testing.assert_allclose(slope.numpy(), exact / np.sqrt((exact**2).sum() * 7), rtol=1e-5, atol=1e-7)
    (slope,) = mt.autograd.grad(x.var(), x)
    np.testing.assert_allclose(slope.numpy() / step, exact * 2 / 7, rtol=1e-5, atol=1e-6)


# Nothing to reduce


@pytest.mark.parametrize("dtype", [mt.float32, mt.float64], ids=["float32", "float64"])
def test_gradients_of_products_with_zeros_and_overflow(dtype: Any) -> None:
    """With two zeros all gradients are 0, even if the product of the others overflows; with one, all but its own."""
    big = {mt.float32: 1e13, mt.float64: 1e110}[dtype]
    x = mt.tensor([[big, 0.0, 0.0], [big, big, 0.0], [big, big, big]], dtype=dtype)
    assert mt.equal(mt.func.grad(mt.prod)(x), mt.zeros(3, 3, dtype=dtype))
    assert mt.func.grad(mt.prod)(x[1]).tolist()[:2] == [0.0, 0.0]
    line = mt.tensor([big, big, big, 0.0, 0.0], dtype=dtype)
    assert mt.func.grad(lambda x: x.cumprod(0)[0])(line).tolist() == [1, 0, 0, 0, 0]
    second = mt.func.hessian(mt.prod)(line)
    assert not second[:3].any()
    assert not second.isnan().any()


@pytest.mark.parametrize("values", [[0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [2.0, 3.0, 4.0]])
def test_second_gradients_of_products(values: list[float]) -> None:
    a, b, c = values
    assert mt.func.hessian(mt.prod)(leaf(values).detach()).tolist() == [[0, c, b], [c, 0, a], [b, a, 0]]
    assert mt.func.hessian(lambda x: x.cumprod(0)[2])(leaf(values).detach()).tolist() == [
        [0, c, b],
        [c, 0, a],
        [b, a, 0],
    ]


def test_reductions_of_nothing() -> None:
    nothing = mt.ones(0, 3)
    assert nothing.sum().item() == 0
    assert nothing.prod(0).tolist() == [1, 1, 1]
    assert math.isnan(nothing.mean().item())
    assert nothing.logsumexp(0).tolist() == [-math.inf] * 3
    assert nothing.amax(1).shape == nothing.max(1).values.shape == nothing.argmin(1).shape == (0,)
    for name in ("max", "min", "amax", "amin", "aminmax"):
        with pytest.raises(RuntimeError, match="Expected reduction dim to be specified"):
            getattr(nothing, name)()
    for name in ("argmax", "argmin"):
        with pytest.raises(IndexError, match="Expected reduction dim to be specified"):
            getattr(nothing, name)()
    for name in ("max", "min", "amax", "amin", "argmax", "argmin", "median"):
        with pytest.raises(IndexError, match="Expected reduction dim 0 to have non-zero size"):
            getattr(nothing, name)(0)


# Ties, NaN and zeros


def test_ties_share_or_the_first_takes_all() -> None:
    assert gradient(lambda x: x.max(), [1.0, 3.0, 3.0]) == [0, 0.5, 0.5]
    assert gradient(lambda x: x.amin((0, 1)), [[1.0, 1.0], [1.0, 4.0]]) == [[1 / 3, 1 / 3], [1 / 3, 0]]
    assert gradient(lambda x: x.max(0).values, [1.0, 3.0, 3.0]) == [0, 1, 0]
    assert gradient(lambda x: x.median(0).values, [2.0, 1.0, 3.0]) == [1, 0, 0]
    assert gradient(lambda x: x.median(), [2.0, 1.0, 2.0, 3.0]) == [0.5, 0, 0.5, 0]
    assert gradient(lambda x: x.std(), [2.0, 2.0]) == [0, 0]
    assert gradient(lambda x: x.cummax(0).values, [2.0, 1.0, 3.0]) == [2, 0, 1]


def test_nan_is_the_largest() -> None:
    x = mt.tensor([1.0, math.nan, 3.0, math.nan])
    assert math.isnan(x.max().item())
    assert math.isnan(x.min(0).values.item())
    assert x.min(0).indices.item() == x.argmax().item() == x.argmin().item() == 1
    assert x.sort().indices.tolist() == [0, 2, 1, 3]
    assert x.sort(descending=True).indices.tolist() == [1, 3, 2, 0]
    assert x.topk(3).indices.tolist() == [1, 3, 2]
    assert x.topk(2, largest=False).values.tolist() == [1, 3]
    assert math.isnan(x.median().item())
    assert x.median(0).indices.item() == 1
    assert mt.tensor([[math.inf, 0.0, -math.inf], [math.inf, 0.0, math.nan]]).median(1).indices.tolist() == [1, 2]
    assert x.cummax(0).indices.tolist() == [0, 1, 1, 3]
    assert x.nansum().item() == 4
    assert x.nanmean().item() == 2


@pytest.mark.parametrize("values", [[2.0, 0.0, 3.0], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [2.0, -1.5, 3.0]])
def test_products_with_zeros_have_gradients_of_every_order(values: list[float]) -> None:
    others = [math.prod(values[:k] + values[k + 1 :]) for k in range(len(values))]
    assert gradient(mt.prod, values) == others
    for function in (mt.prod, lambda x: x.prod(0, keepdim=True), lambda x: x.cumprod(0)):
        assert gradcheck(function, (leaf(values),))
        assert gradgradcheck(function, (leaf(values),))
        assert gradcheck(
            lambda x, function=function: mt.autograd.grad(
                mt.autograd.grad(function(x).sum(), x, create_graph=True)[0].pow(2).sum(), x, create_graph=True
            )[0],
            (leaf(values),),
        )


# Sorting


elements = st.lists(st.sampled_from([0.0, 1.0, 2.0, -1.0, math.inf, -math.inf, math.nan, 0.5]), max_size=12)


def reference_order(values: list[float], descending: bool) -> list[int]:
    """By Python's stable sort, with NaN above everything."""
    rank = [(math.isnan(value), 0.0 if math.isnan(value) else value) for value in values]
    if descending:
        return sorted(range(len(values)), key=lambda place: (not rank[place][0], -rank[place][1]))
    return sorted(range(len(values)), key=rank.__getitem__)


@given(elements, st.booleans())
def test_sorts_are_stable(values: list[float], descending: bool) -> None:
    x = mt.tensor(values)
    wanted = reference_order(values, descending)
    assert x.sort(descending=descending).indices.tolist() == wanted
    assert x.argsort(descending=descending).tolist() == wanted
    assert np.array_equal(x.sort(descending=descending).values.numpy(), x.numpy()[wanted], equal_nan=True)


@given(elements, st.data(), st.booleans())
def test_topk_takes_the_first_of_equals(values: list[float], data: st.DataObject, largest: bool) -> None:
    """By a partition, of few values too."""
    k = data.draw(st.integers(0, len(values)))
    found = sorting.leading(mt.tensor(values).numpy(), k, 0, largest, few=0)
    assert found.indices.tolist() == reference_order(values, largest)[:k]


@pytest.mark.parametrize("k", [5, 64, 65, 200])
def test_topk_of_many_by_one_pass_or_a_partition(k: int) -> None:
    x = mt.tensor(np.random.default_rng(0).permutation(6000).reshape(3, 2000).astype(np.float32))
    for largest in (True, False):
        found = x.topk(k, largest=largest)
        wanted = x.sort(descending=largest)
        assert found.indices.tolist() == wanted.indices[:, :k].tolist()
        assert found.values.tolist() == wanted.values[:, :k].tolist()
    assert x.topk(2, 0).values.tolist() == x.sort(0, descending=True).values[:2].tolist()


def test_ranks_that_do_not_exist() -> None:
    x = mt.ones(3)
    for call in (lambda: x.topk(4), lambda: x.topk(-1), lambda: x.kthvalue(0), lambda: x.kthvalue(4)):
        with pytest.raises(RuntimeError, match="out of range"):
            call()


# Sums


@given(st.integers(500, 1300), st.integers(1, 3), st.booleans())
def test_sums_over_many_rows(rows: int, columns: int, keepdim: bool) -> None:
    """Rows in blocks and the rest of them: every element is counted once."""
    array = np.random.default_rng(rows).integers(-8, 8, (rows, columns)).astype(np.float32)
    out = mt.tensor(array).sum(0, keepdim)
    assert np.array_equal(out.numpy(), array.sum(0, keepdims=keepdim))
    deep = mt.tensor(np.repeat(array[:, None], 2, axis=1)).sum((0, 1), keepdim)
    assert np.array_equal(deep.numpy().reshape(-1), 2 * array.sum(0))


def test_sum_to_its_own_size_is_the_tensor_itself() -> None:
    for x in (mt.ones(3, dtype=mt.int32), mt.ones(3, dtype=mt.bool), mt.ones(3)):
        assert x.sum_to_size(3) is x.sum_to_size((3,)) is x


def test_sum_to_size() -> None:
    x = mt.ones(2, 3)
    assert x.sum_to_size(2, 3) is x.sum_to_size((2, 3)) or x.sum_to_size((2, 3)) is x
    assert x.sum_to_size(3).tolist() == x.sum_to_size((3,)).tolist() == x.sum_to_size([3]).tolist() == [2, 2, 2]
    for size in ((2,), (1, 2, 3), (3, 3)):
        with pytest.raises(RuntimeError, match="is not expandable"):
            x.sum_to_size(size)


def test_linear_recurrences_agree_with_the_loop() -> None:
    from minitorch_backends.ops.reductions.cumulative import linear_recurrence

    factors, values = np.random.default_rng(0).standard_normal((2, 37))
    state, wanted = 0.0, []
    for factor, value in zip(factors, values, strict=True):
        state = value + factor * state
        wanted.append(state)
    assert np.allclose(linear_recurrence(mt.tensor(factors), mt.tensor(values), 0).numpy(), wanted)


@pytest.mark.parametrize("dtype", [mt.float32, mt.bfloat16, mt.complex64])
@pytest.mark.parametrize("size", [1e20, 1e-30])
def test_deviations_whose_squares_leave_the_range_of_float32(size: float, dtype: mt.dtype) -> None:
    x = mt.tensor([[1.0, 3.0, 5.0], [2.0, 2.0, 2.0]]).mul(size).to(dtype).requires_grad_()
    found = x.std(1)
    np.testing.assert_allclose(found.detach().float().numpy() / size, [2, 0], rtol=1e-2)
    (gradient,) = mt.autograd.grad(found.sum(), x)
    np.testing.assert_allclose(gradient.abs().float().numpy(), [[0.5, 0, 0.5], [0, 0, 0]], atol=1e-2)


# What is accumulated, and how far


def test_products_recover_from_a_passing_overflow() -> None:
    assert mt.tensor([1e30, 1e30, 1e-30, 1e-30]).cumprod(0).tolist() == pytest.approx([1e30, math.inf, 1e30, 1.0])
    assert mt.tensor([1e-30, 1e-30, 1e30, 1e30]).cumprod(0).tolist() == pytest.approx([1e-30, 0.0, 1e-30, 1.0])


def test_logarithms_of_sums_of_many_are_accurate() -> None:
    found = mt.zeros(100_000).logcumsumexp(0)
    assert np.abs(found.numpy() - np.log(np.arange(1, 100_001))).max() < 2e-6


def test_variances_whose_squares_leave_the_range_of_float32() -> None:
    x = np.random.default_rng(0).standard_normal(700) * 1e18
    for dtype in (mt.float32, mt.complex64):
        tensor = mt.tensor(x, dtype=dtype)
        assert tensor.var().item() == pytest.approx(np.var(x, ddof=1), rel=1e-5)
        assert mt.var_mean(tensor)[0].item() == pytest.approx(np.var(x, ddof=1), rel=1e-5)
    assert mt.tensor([1e38, -1e38, math.inf]).var().isnan()


# Arguments


@pytest.mark.parametrize(
    "name", ["sum", "mean", "std", "amax", "argmax", "any", "logsumexp", "median", "nansum", "max"]
)
def test_names_of_numpy_are_understood(name: str) -> None:
    x = mt.tensor([[1.0, 2.0], [3.0, 5.0]])
    found, expected = getattr(x, name)(axis=0, keepdims=True), getattr(x, name)(dim=0, keepdim=True)
    for one, other in zip(found, expected, strict=True) if isinstance(found, tuple) else ((found, expected),):
        assert one.equal(other)
    with pytest.raises(TypeError, match="axis"):
        getattr(x, name)(axis=0, dim=0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: x.sum(1, 0), "'keepdim' must be bool, not int 0; pass several dimensions as a tuple"),
        (lambda x: x.amax(1, 0), "'keepdim' must be bool"),
        (lambda x: x.sum(0, keepdim=np.float64(1)), "'keepdim' must be bool"),
        (lambda x: x.topk(1, 0, 1.0), "'largest' must be bool"),
        (lambda x: x.sum(True), "must be an int, not bool"),
        (lambda x: x.max(True), "takes one dim, an int, got True"),
        (lambda x: x.var(0, 1), "'unbiased' must be bool, not int 1"),
        (lambda x: x.roll(0, True), "must be an int, not bool"),
    ],
)
def test_numbers_do_not_pass_for_switches_nor_switches_for_dimensions(call: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call(mt.ones(3, 4))


def test_numpys_booleans_are_switches() -> None:
    x = mt.tensor([[1.0, 2.0], [3.0, 5.0]])
    assert x.sum(1, np.True_).shape == x.amax(0, np.True_).mT.shape == (2, 1)
    assert x.sort(0, np.True_).values.tolist() == [[3.0, 5.0], [1.0, 2.0]]
    assert x.var(0, np.False_).equal(x.var(0, False))


def test_results_can_be_viewed() -> None:
    """Results lie in row-major order, and do not keep the sorted array alive."""
    x = mt.randn(3, 4, 5)
    found = [
        *x.sort(descending=True),
        x.argsort(dim=0, descending=True),
        *x.kthvalue(2, 1),
        *x.median(1),
        x.repeat(2, 1, 1, 1),
        x.tile((2, 1, 1, 1)),
        x[:, [0, 2], [1, 3]],
        x[:, x[0] > 0],
    ]
    for each in found:
        assert each.view(-1).numel() == each.numel()
    for each in x.median(1):
        assert each.numpy().base is None or each.numpy().base.size == each.numel()


# Many elements


HARD = [math.nan, -math.nan, math.inf, -math.inf, 0.0, -0.0]


@pytest.mark.parametrize(
    "dtype", [mt.float32, mt.float16, mt.bfloat16, mt.float64, mt.int32, mt.int8, mt.uint8, mt.bool]
)
@pytest.mark.parametrize(("shape", "dim"), [((4000,), 0), ((60, 50), 1), ((60, 50), 0), ((7, 40, 11), 1)])
def test_many_are_sorted_stably(dtype: mt.dtype, shape: tuple[int, ...], dim: int) -> None:
    values = np.random.default_rng(0).integers(0 if dtype in (mt.uint8, mt.bool) else -9, 9, shape).astype(np.float64)
    if dtype.is_floating_point:
        values.reshape(-1)[5 : 5 + 50 * len(HARD)] = np.tile(HARD, 50)
    x = mt.tensor(values).to(dtype)
    keys = np.where(np.isnan(values), 1e300, np.clip(x.double().numpy(), -1e299, 1e299))
    for descending in (False, True):
        sorting = np.argsort(-keys if descending else keys, axis=dim, kind="stable")
        found = x.sort(dim, descending)
        assert np.array_equal(found.indices.numpy(), sorting)
        assert np.array_equal(
            found.values.double().numpy(), np.take_along_axis(x.double().numpy(), sorting, dim), equal_nan=True
        )


@pytest.mark.parametrize("dim", [0, 1])
def test_ranks_and_places_of_many(dim: int) -> None:
    values = np.random.default_rng(1).integers(-9, 9, (300, 200)).astype(np.float32)
    values[::7, ::5] = np.nan
    x = mt.tensor(values)
    sorting = np.argsort(values, axis=dim, kind="stable")
    for k in (1, 17, 150, values.shape[dim]):
        found = x.kthvalue(k, dim)
        assert np.array_equal(found.indices.numpy(), sorting.take(k - 1, dim))
        assert np.array_equal(found.values.numpy(), np.sort(values, dim).take(k - 1, dim), equal_nan=True)
    assert x.median().isnan()
    assert mt.tensor(values[1]).median().item() == np.sort(values[1])[99]
    for keepdim in (False, True):
        assert np.array_equal(x.argmax(dim, keepdim).numpy(), np.argmax(values, dim, keepdims=keepdim))
        assert np.array_equal(x.min(dim, keepdim).indices.numpy(), np.argmin(values, dim, keepdims=keepdim))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("shape", "dim"), [((300, 257), 1), ((300, 257), 0), ((40, 50, 41), (0, 2)), ((40, 50, 41), 1)]
)
def test_logarithms_of_sums_over_many_rows(dtype: Any, shape: tuple[int, ...], dim: Any) -> None:
    x = (np.random.default_rng(0).standard_normal(shape) * 50).astype(dtype)
    rows = np.moveaxis(x, dim, range(-len(dim), 0)) if isinstance(dim, tuple) else np.moveaxis(x, dim, -1)
    for index, values in enumerate([[-math.inf], [math.inf, 1.0], [math.nan], [math.inf, -math.inf], [1e4, 1e4 - 1]]):
        rows[index] = np.resize(np.array(values, dtype), rows.shape[1:])
    with np.errstate(all="ignore"):
        expected = np.logaddexp.reduce(x.astype(np.longdouble), axis=dim)
    for keepdim in (False, True):
        found = mt.tensor(x).logsumexp(dim, keepdim).numpy()
        assert found.shape == np.sum(np.zeros(shape), axis=dim, keepdims=keepdim).shape
        np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=4 * np.finfo(dtype).eps, atol=1e-6)


def test_norms_of_one_number_and_of_none() -> None:
    assert mt.norm(mt.tensor([[1e25], [1e-30]]), dim=1).tolist() == pytest.approx([1e25, 1e-30])
    assert gradient(mt.norm, [3e-200]) == [1.0]
    assert gradient(lambda x: mt.norm(x, -1), [0.0, 2.0, 5.0]) == [0.0, 0.0, 0.0]
    with pytest.raises(RuntimeError, match="has no value where nothing lies"):
        mt.linalg.vector_norm(mt.zeros(0), -1)
    assert mt.linalg.matrix_norm(mt.zeros(2, 0, 3), 2).tolist() == [0.0, 0.0]
    assert mt.linalg.matrix_norm(mt.zeros(0, 0), 1).item() == 0.0
    with pytest.raises(IndexError, match="an empty matrix does not have"):
        mt.linalg.matrix_norm(mt.zeros(0, 0), -1)
    with pytest.raises(RuntimeError, match="Order 'foo' not supported"):
        mt.linalg.cond(mt.zeros(0, 0), "foo")
    with pytest.raises(RuntimeError, match="k out of range, 0 of 1"):
        mt.topk(mt.tensor(1.0), 0)


def test_outer_products_of_booleans() -> None:
    assert mt.outer(mt.tensor([True, False]), mt.tensor([True])).tolist() == [[True], [False]]


def test_means_of_more_numbers_than_half_types_count_to() -> None:
    x = mt.ones(2, 70_001, dtype=mt.float16)
    x[0, 0] = math.nan
    assert mt.nanmean(x).item() == 1.0
    assert mt.nanmean(x, 1).tolist() == [1.0, 1.0]
    assert mt.nanmean(x, 1).dtype is mt.float16


def test_medians_and_modes_beyond_their_samples() -> None:
    x = mt.tensor([[math.nan, 2.0, 5.0, 1.0], [math.nan] * 4])
    values, indices = x.nanmedian(1)
    assert values[0].item() == 2
    assert math.isnan(values[1].item())
    assert indices.tolist() == [1, 0]
    assert x.nanmedian().item() == 2
    assert math.isnan(mt.tensor([]).nanmedian().item())
    assert gradient(lambda x: x.nanmedian(), [math.nan, 2.0, 2.0, 5.0]) == [0, 0.5, 0.5, 0]
    assert gradient(lambda x: x.mode().values, [3.0, 1.0, 3.0]) == [0, 0, 1]
    assert [each.tolist() for each in mt.tensor([True, False, True, False]).mode()] == [False, 3]
    for name in ("mode", "nanmedian"):
        with pytest.raises(IndexError, match="Expected reduction dim 1 to have non-zero size"):
            getattr(mt.zeros(3, 0), name)(1)
