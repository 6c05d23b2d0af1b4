"""Quantiles, counts, covariances and searches, beyond the values that `test_ops.py` checks."""

import math
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt

x = np.random.default_rng(0).standard_normal((4, 7))
gap = np.where(x > 1.2, np.nan, x)


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
@pytest.mark.parametrize(("dim", "keepdim"), [(None, False), (0, True), (-1, False), (None, True)])
def test_several_quantiles_make_the_first_dimension(dim: int | None, keepdim: bool, interpolation: Any) -> None:
    q, options = np.array([0.1, 0.5, 0.9]), {"interpolation": interpolation}
    for function, definition in ((mt.quantile, np.quantile), (mt.nanquantile, np.nanquantile)):
        for array in (x, gap):
            wanted = definition(array, q, axis=dim, keepdims=keepdim, method=interpolation)
            found = function(mt.tensor(array), mt.tensor(q), dim, keepdim, **options)
            assert found.shape == wanted.shape
            assert np.allclose(found, wanted, equal_nan=True)


def test_quantiles_of_nothing_but_nan_and_their_gradients() -> None:
    nothing = mt.full((3,), float("nan"))
    assert mt.nanquantile(nothing, 0.5).isnan()
    leaf = mt.tensor([4.0, 1.0, 3.0, 2.0]).requires_grad_()
    mt.quantile(leaf, 0.25).backward()
    assert leaf.grad.tolist() == [0.0, 0.25, 0.0, 0.75]


def test_weights_of_counts() -> None:
    numbers = mt.tensor([0, 3, 3, 1])
    assert mt.bincount(numbers, mt.tensor([0.5, 1.0, 2.0, 4.0])).tolist() == [0.5, 4.0, 0.0, 3.0]
    assert mt.bincount(numbers, mt.tensor([1.0] * 4)).dtype is mt.float32
    assert mt.bincount(numbers, mt.tensor([1] * 4)).dtype is mt.float64


def test_covariances_with_both_weights() -> None:
    often, heavy = np.array([1, 2, 0, 1, 3, 1, 1]), np.linspace(0.5, 2, 7)
    found = mt.cov(mt.tensor(x), fweights=mt.tensor(often), aweights=mt.tensor(heavy), correction=2)
    assert np.allclose(found, np.cov(x, ddof=2, fweights=often, aweights=heavy))


def test_the_covariance_of_one_variable_is_a_number() -> None:
    for given in (mt.tensor([1.0, 2.0, 4.0]), mt.tensor([[1.0, 2.0, 4.0]])):
        assert mt.cov(given).tolist() == pytest.approx(7 / 3)
        assert mt.corrcoef(given).tolist() == 1


def test_numbers_are_searched_for() -> None:
    edges = mt.tensor([1.0, 3.0, 5.0])
    assert mt.searchsorted(edges, 3.0).item() == 1
    assert mt.searchsorted(edges, 3.0, right=True).item() == 2
    assert mt.bucketize(3.0, edges).item() == 1
    assert mt.isin(mt.tensor([1, 2]), 2).tolist() == [False, True]
    rows = mt.tensor([[3.0, 1.0], [2.0, 4.0]])
    assert mt.searchsorted(rows, mt.tensor([[2.0], [3.0]]), sorter=rows.argsort(-1)).tolist() == [[1], [1]]


@pytest.mark.parametrize("dim", [None, 0, 1, -1])
def test_distinct_parts_and_where_they_are(dim: int | None) -> None:
    array = np.random.default_rng(1).integers(0, 2, (6, 3, 2))
    for function in (mt.unique, mt.unique_consecutive):
        values, inverse, counts = function(mt.tensor(array), return_inverse=True, return_counts=True, dim=dim)
        again = values[inverse] if dim is None else values.index_select(dim, inverse)
        assert np.array_equal(again, array)
        assert np.array_equal(mt.bincount(inverse.reshape(-1)), counts)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: mt.searchsorted([1, 2], mt.ones(2)), "'sorted_sequence' must be a Tensor, not list"),
        (lambda: mt.searchsorted(mt.ones(3), "a"), "'input' must be a Tensor or a number, not str"),
        (lambda: mt.isin(1, 2), "expected a Tensor among"),
    ],
)
def test_what_is_no_tensor(call: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        call()


@pytest.mark.parametrize("size", [0.0, 1e-9, 1e-5, 1e-3, 0.1, 0.16, 0.5, 2.3, -0.02])
def test_the_slope_of_sinc_is_exact_where_its_terms_cancel(size: float) -> None:
    for dtype in (mt.float32, mt.float64):
        leaf = mt.tensor(size, dtype=dtype).requires_grad_()
        mt.sinc(leaf).backward()
        t = math.pi * leaf.item()
        wanted = math.pi * sum((-1) ** k * 2 * k * t ** (2 * k - 1) / math.factorial(2 * k + 1) for k in range(1, 40))
        assert leaf.grad.item() == pytest.approx(wanted, rel=8 * float(np.finfo(dtype.dtype).eps))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: mt.bincount(mt.tensor([1 << 60])), "more elements than memory has addresses"),
        (lambda: mt.quantile(mt.ones(3), 1.5), r"q must be in the range \[0, 1\], got 1.5"),
        (lambda: mt.quantile(mt.ones(3), mt.ones(1, dtype=mt.float64)), "same dtype as the input"),
        (lambda: mt.quantile(mt.ones(0), 0.5), "must be non-empty"),
        (lambda: mt.quantile(mt.ones(3), 0.5, interpolation="cubic"), "must be one of linear, lower"),
        (lambda: mt.quantile(mt.ones(3).int(), 0.5), "not implemented for mt.int32"),
        (lambda: mt.bincount(mt.tensor([1, -1])), "1-d non-negative integral inputs"),
        (lambda: mt.bincount(mt.tensor([1]), mt.ones(2)), r"shape \[1\] of the input, not \[2\]"),
        (lambda: mt.bincount(mt.tensor([1]), None, -1), "minlength should be >= 0"),
        (lambda: mt.histc(mt.ones(3), 0), "bins must be > 0"),
        (lambda: mt.histc(mt.ones(3), 3, 2, 1), "max must be larger than min"),
        (lambda: mt.histc(mt.tensor([1.0, float("inf")]), 3), "is not finite"),
        (lambda: mt.cov(mt.ones(2, 2, 2)), "two or fewer dimensions but got 3"),
        (
            lambda: mt.cov(mt.ones(2, 3), fweights=mt.ones(3)),
            "fweights must be 3 non-negative integers, got mt.float32",
        ),
        (lambda: mt.corrcoef(mt.ones(2, 2, 2)), "two or fewer dimensions but got 3"),
        (lambda: mt.trapezoid(mt.ones(3), mt.ones(4)), "one `x` value for each sample point, 3, got 4"),
        (lambda: mt.searchsorted(mt.ones(2, 3), mt.ones(3, 3)), "first N-1 dimensions"),
        (lambda: mt.searchsorted(mt.ones(3), mt.ones(3), sorter=mt.tensor([0])), "must have the same size"),
        (lambda: mt.searchsorted(mt.ones(3), mt.ones(3), side="up"), "side must be 'left' or 'right'"),
        (lambda: mt.bucketize(mt.ones(3), mt.ones(2, 2)), "must be 1 dimension"),
        (lambda: mt.isin(mt.ones(3) > 0, 1), r"isin\(\) is not implemented for mt\.bool"),
        (lambda: mt.unique(mt.ones(3) * 1j), "not implemented for mt.complex64"),
        (lambda: mt.heaviside(mt.ones(3), mt.ones(3).int()), "different dtypes"),
    ],
)
def test_refusals(call: Any, says: str) -> None:
    with pytest.raises(RuntimeError, match=says):
        call()


def test_ranks_beside_infinity() -> None:
    inf = math.inf
    for values, q, how, expected in (
        ([1.0, inf], 1.0, "lower", inf),
        ([-inf, 2.0], 0.2, "lower", -inf),
        ([1.0, 2.0, inf, inf], 0.5, "nearest", inf),
        ([1.0, math.nan], 0.5, "higher", math.nan),
    ):
        found = mt.quantile(mt.tensor(values), q, interpolation=how).item()
        assert found == pytest.approx(expected, nan_ok=True)
    assert mt.quantile(mt.tensor(2.0), 0.5, dim=0, keepdim=True).shape == ()


def test_a_sorter_names_places() -> None:
    values, wanted = mt.tensor([3.0, 1.0, 2.0]), mt.tensor([2.0, 0.0])
    assert mt.searchsorted(values, wanted, sorter=mt.tensor([1, 2, 0])).tolist() == [1, 0]
    for sorter in ([1, 2, 7], [1, 2, -1]):
        with pytest.raises(RuntimeError, match="sorter index out of range: expected 0 to 2"):
            mt.searchsorted(values, wanted, sorter=mt.tensor(sorter))
    with pytest.raises(RuntimeError, match=r"sorter must be a tensor of mt\.int64, got mt\.float32"):
        mt.searchsorted(values, wanted, sorter=mt.tensor([1.0, 2.0, 0.0]))


def test_distinct_parts() -> None:
    nan = math.nan
    values, counts = mt.unique(mt.tensor([nan, nan, 1.0]), return_counts=True)
    assert (values.tolist(), counts.tolist()) == (pytest.approx([1.0, nan, nan], nan_ok=True), [1, 1, 1])
    assert mt.unique_consecutive(mt.zeros(2, 0, 3), dim=1).shape == (2, 0, 3)
    for function in (mt.unique, mt.unique_consecutive):
        with pytest.raises(IndexError, match="has no dimensions"):
            function(mt.tensor(1.0), dim=0)
        with pytest.raises(RuntimeError, match=r"the parts of \[2, 0, 3\] along dim=0 have no elements"):
            function(mt.zeros(2, 0, 3), dim=0)


def test_histograms_count_edges_and_refuse() -> None:
    x = mt.tensor([0.0, 1.0, 1.0, 2.0, 3.0, math.nan])
    hist, edges = mt.histogram(x, mt.tensor([0.0, 1.0, 2.0]))
    assert hist.tolist() == [1, 3]  # the last bin includes its upper edge
    assert edges.tolist() == [0, 1, 2]
    assert mt.histogram(x[:2] * 0 + 1, 2).bin_edges.tolist() == [0.5, 1, 1.5]
    hist, (rows, columns) = mt.histogramdd(mt.tensor([[0.0, 1.0], [2.0, 0.0], [2.0, 2.0]]), [2, 1])
    assert hist.tolist() == [[1], [2]]
    assert (rows.tolist(), columns.tolist()) == ([0, 1, 2], [0, 2])
    for bins, options, says in (
        (0, {}, "bins must be at least 1, got 0"),
        (2**70, {}, "more elements than memory has addresses"),
        (2, {"range": (1.0, 0.0)}, "must not decrease"),
        (2, {"range": (0.0, math.inf)}, "must be finite"),
        (2, {"range": (0.0,)}, "range must have 2 elements"),
        (2, {}, "must be finite"),  # as NaN has no place in a range
        (mt.tensor([1.0]), {}, "bins must be at least 1, got 0"),
        (mt.tensor([0, 1]), {}, "of the input's dtype mt.float32, got mt.int64"),
        (2, {"weight": mt.ones(2)}, "weight must have shape"),
    ):
        with pytest.raises(RuntimeError, match=says):
            mt.histogram(x, bins, **options)


def test_gradients_of_quantiles_by_their_ranks() -> None:
    """Between sorted neighbours the quantile grows by their distance times (count - 1)."""
    x = mt.tensor([4.0, 1.0, 2.0], dtype=mt.float64)
    q = mt.tensor([0.25, 0.9], dtype=mt.float64, requires_grad=True)
    mt.quantile(x, q).sum().backward()
    assert q.grad.tolist() == [2.0, 4.0]
    q.grad = None
    mt.nanquantile(mt.tensor([4.0, math.nan, 1.0], dtype=mt.float64), q).sum().backward()
    assert q.grad.tolist() == [3.0, 3.0]


def test_covariances_are_promoted_with_their_weights() -> None:
    x = mt.tensor([[1.0, 2.0, 4.0]], dtype=mt.bfloat16)
    weights = mt.tensor([1.0, 1.0, 2.0])
    found = mt.cov(x, aweights=weights)
    assert found.dtype is mt.float32
    assert found.item() == pytest.approx(float(np.cov([1.0, 2.0, 4.0], aweights=[1, 1, 2])), rel=1e-6)
    assert mt.cov(x.double(), aweights=weights).dtype is mt.float64


@pytest.mark.parametrize("dtype", [mt.uint8, mt.int8, mt.int64, mt.uint32])
def test_areas_of_integers_do_not_wrap_around(dtype: mt.dtype) -> None:
    y, x = mt.tensor([100, 120, 1, 100], dtype=dtype), mt.tensor([100, 3, 2, 90], dtype=dtype)
    exact = [each.to(mt.float64).numpy() for each in (y, x)]
    assert mt.trapezoid(y, dx=-1).item() == np.trapezoid(exact[0], dx=-1)
    assert mt.trapezoid(y, x).item() == np.trapezoid(*exact)
    wanted = np.cumsum((exact[0][1:] + exact[0][:-1]) / 2 * np.diff(exact[1]))
    assert mt.cumulative_trapezoid(y, x).tolist() == wanted.tolist()


@pytest.mark.parametrize("dtype", [mt.float64, mt.float32, mt.float16], ids=str)
def test_values_on_an_edge_are_in_the_upper_part(dtype: mt.dtype) -> None:
    """Also where the distance to the least value times the number of parts per unit rounds below the edge."""
    for bins in range(1, 13):
        values = np.round(np.random.default_rng(bins).standard_normal(60) * 20) / 2
        counts = mt.tensor(values, dtype=dtype).histc(bins)
        assert counts.tolist() == np.histogram(values, bins)[0].tolist()
    assert mt.tensor([-15.5, 9.0, 33.5], dtype=dtype).histc(4).tolist() == [1, 0, 1, 1]


@pytest.mark.parametrize("value", [2.0**62, 1e30, -1e30, 0.0, 3e38])
def test_histograms_of_one_number_of_any_size_count_it_once(value: float) -> None:
    counts = mt.full((2, 3), value).histc(4)
    assert counts.sum() == 6
    assert counts.max() == 6


def test_the_gradient_of_running_logarithms_of_sums_passes_over_minus_infinity() -> None:
    inf = math.inf
    x = mt.tensor([[2.0, -inf, -inf, 1.0], [-inf, -inf, 1.0, 3.0]], dtype=mt.float64, requires_grad=True)
    mt.logcumsumexp(x, -1)[:, -1].sum().backward()
    assert mt.allclose(x.grad, mt.softmax(x.detach(), -1))
    mt.logcumsumexp(x, -1)[1, 0].backward()
    assert x.grad.isfinite().all()
