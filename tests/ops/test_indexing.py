"""Indexing: random indices against NumPy, assignment, look-ups and writes by index tensors, and what is refused."""

import array
import collections
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitorch_backends as mt
from minitorch_backends import Tensor
from minitorch_backends.autograd.gradcheck import gradcheck, gradgradcheck
from minitorch_backends.ops.indexing.accumulate import add_rows
from minitorch_backends.tensor.registry import registry

SHAPE = (3, 4, 2)

# The definition: ints select first, then arrays are looked up by NumPy's rules


def places_of(index: Any, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    """The elements of a tensor of `shape` that an index selects, counted in row-major order."""
    items = index if isinstance(index, tuple) else (index,)
    items = tuple(each.numpy() if isinstance(each, Tensor) else each for each in items)
    items = tuple(
        np.asarray(each, np.int64 if each == [] else None) if isinstance(each, list) else each for each in items
    )
    consumed = sum(each.ndim if is_mask(each) else each is not None and each is not Ellipsis for each in items)
    rest = (slice(None),) * (len(shape) - consumed)
    at = next((k for k, each in enumerate(items) if each is Ellipsis), len(items))
    items = (*items[:at], *rest, *items[at + 1 :])
    basic: list[Any] = []
    later: list[Any] = []
    for each in items:
        if isinstance(each, np.ndarray) and each.ndim:
            basic += [slice(None)] * (each.ndim if is_mask(each) else 1)
            later.append(each)
        else:
            basic.append(each)
            later += [] if isinstance(each, int | np.integer | np.ndarray) else [slice(None)]
    return np.arange(int(np.prod(shape))).reshape(shape)[tuple(basic)][tuple(later)]


def is_mask(item: Any) -> bool:
    return isinstance(item, np.ndarray) and item.dtype == bool


def parts(size: int) -> st.SearchStrategy[Any]:
    """Values that may stand for one dimension of a size."""
    position = st.integers(-size, size - 1)
    bound = st.none() | st.integers(-size - 1, size + 1)
    arrays = st.sampled_from([(), (1,), (2,), (2, 1), (1, 2)]).flatmap(
        lambda shape: st.lists(position, min_size=int(np.prod(shape)), max_size=int(np.prod(shape))).map(
            lambda values: mt.tensor(np.array(values, np.int64).reshape(shape))
        )
    )
    mask = st.lists(st.booleans(), min_size=size, max_size=size)
    twice = mask.filter(lambda values: sum(values) in (1, 2)).map(mt.tensor)
    lists = st.lists(position, min_size=2, max_size=2)
    return st.one_of(
        position, st.builds(slice, bound, bound, st.none() | st.integers(-3, 3).filter(bool)), arrays, lists, twice
    )


@st.composite
def indices(draw: Any) -> Any:
    """An index of up to three parts, with None and Ellipsis strewn in. Arrays broadcast: sizes are 1 and 2."""
    count = draw(st.integers(0, 3))
    front = draw(st.integers(0, count))
    dims = [*range(front), *range(3 - (count - front), 3)]
    items = [draw(parts(SHAPE[dim])) for dim in dims]
    if front < count or draw(st.booleans()):
        items.insert(front, Ellipsis)
    for _ in range(draw(st.integers(0, 2))):
        items.insert(draw(st.integers(0, len(items))), None)
    return items[0] if len(items) == 1 and draw(st.booleans()) else tuple(items)


@given(indices())
def test_reading(index: Any) -> None:
    """Values, whether it is a view, and the gradient: each element gets the weights of the places where it is read."""
    values = np.arange(24.0).reshape(SHAPE) + 0.5
    x = mt.tensor(values.copy()).requires_grad_()
    out, places = x[index], places_of(index)
    assert out.shape == places.shape
    np.testing.assert_array_equal(out.detach().numpy(), values.reshape(-1)[places])
    items = index if isinstance(index, tuple) else (index,)
    arrays = any(isinstance(each, list) or (isinstance(each, Tensor) and each.ndim) for each in items)
    if out.numel():
        assert out._is_view() is not arrays
    weights = np.cos(np.arange(out.numel())).reshape(out.shape)
    (out * mt.tensor(weights)).sum().backward()
    expected = np.zeros(24)
    np.add.at(expected, places, weights)
    np.testing.assert_allclose(x.grad.numpy().reshape(-1), expected, atol=1e-14)


@given(indices(), st.booleans(), st.booleans())
def test_writing(index: Any, number: bool, view: bool) -> None:
    """Values and gradients of an assignment; every place that is written has the last value that was written there."""
    before = np.arange(24.0).reshape(SHAPE) + 0.5
    x = mt.tensor(before.copy()).requires_grad_()
    target = (x * 1).mT.mT if view else x * 1
    places = places_of(index)
    value = mt.tensor(
        np.array(-3.0) if number else -np.arange(places.size).reshape(places.shape) - 1.0
    ).requires_grad_()
    written = np.full(24, -1)
    written[places.reshape(-1)] = np.arange(places.size)
    target[index] = value
    wide = np.broadcast_to(value.detach().numpy(), places.shape).reshape(-1)
    expected = np.where(written >= 0, wide[written] if wide.size else 0.0, before.reshape(-1))
    np.testing.assert_array_equal(target.detach().numpy().reshape(-1), expected)
    assert target._version == 1
    weights = np.cos(np.arange(24))
    (target * mt.tensor(weights.reshape(SHAPE))).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy().reshape(-1), np.where(written >= 0, 0.0, weights))
    assert value.grad.shape == value.shape
    np.testing.assert_allclose(value.grad.numpy(), sum_at(weights[places], value.shape), atol=1e-12)


def sum_at(weights: np.ndarray, shape: tuple[int, ...]) -> Any:
    return weights if shape == weights.shape else weights.sum()


# Kinds of index


def test_ints_select_before_arrays_are_looked_up() -> None:
    """NumPy would take the int for an array, and put the looked-up dimension first."""
    x = mt.arange(24).reshape(2, 3, 4)
    assert x[0, :, [1, 2]].shape == (3, 2)
    assert x[[0, 1], :, [1, 2]].shape == (2, 3)
    assert x[[0], :, 1].shape == (1, 3)
    assert x[np.int64(1), mt.tensor(2), np.array(3)].item() == 23


def test_masks() -> None:
    x = mt.arange(6.0).reshape(2, 3)
    assert x[x > 2].tolist() == [3.0, 4.0, 5.0]
    assert x[mt.tensor([False, True])].tolist() == [[3.0, 4.0, 5.0]]
    assert x[:, [True, False, True]].tolist() == [[0.0, 2.0], [3.0, 5.0]]
    assert x[True].shape == (1, 2, 3)
    assert x[False].shape == (0, 2, 3)
    assert x[mt.tensor(True), 0].shape == (1, 3)
    assert x[np.ones((2, 3), bool), None].shape == (6, 1)
    x[x > 2] = mt.tensor([-1.0, -2.0, -3.0])
    x[~(x > 0)] -= 1
    assert x.tolist() == [[-1.0, 1.0, 2.0], [-2.0, -3.0, -4.0]]


def test_sequences_are_index_arrays() -> None:
    x = mt.arange(6.0).reshape(3, 2)
    for index in ([2, 0], (2, 0), range(2, -1, -2), np.array([2, 0]), mt.tensor([2, 0], dtype=mt.int32)):
        wanted = x[2, 0] if isinstance(index, tuple) else mt.stack([x[2], x[0]])
        assert x[index].tolist() == wanted.tolist()
    assert x[[]].shape == (0, 2)
    assert x[collections.deque([2, 0]), array.array("i", [1, 0])].tolist() == [5.0, 0.0]
    assert x[[[0, 1]] * 32].shape == (32, 2, 2)
    assert x[mt.tensor(1) : mt.tensor(3)].shape == (2, 2)


@pytest.mark.parametrize(
    "index",
    [
        [mt.tensor([0, 2]), mt.tensor([1, 0])],
        [[0, 2], [1, 0]],
        [range(2), np.array([1, 0])],
        [slice(0, 2), 1],
        [None, 0],
        [..., 0],
        [mt.tensor(1), 0],
    ],
)
def test_lists_of_sequences_are_an_index_per_dimension(index: list[Any]) -> None:
    x, y = mt.arange(6.0).reshape(3, 2), mt.arange(6.0).reshape(3, 2)
    with pytest.warns(UserWarning, match=r"use x\[tuple\(index\)\]"):
        found = x[index]
    assert found.tolist() == x[tuple(index)].tolist()
    y[tuple(index)] = -1.0
    with pytest.warns(UserWarning, match="list of sequences"):
        x[index] = -1.0
    assert x.tolist() == y.tolist()


def test_byte_masks_are_masks() -> None:
    for mask in (mt.tensor([1, 0, 2], dtype=mt.uint8), np.array([1, 0, 2], np.uint8)):
        x = mt.arange(6.0).reshape(3, 2)
        with pytest.warns(UserWarning, match="please use a dtype mt.bool instead") as caught:
            assert x[mask, None].tolist() == [[[0.0, 1.0]], [[4.0, 5.0]]]
        assert [each.filename for each in caught] == [__file__]
        with pytest.warns(UserWarning, match="indexing with dtype mt.uint8"):
            x[mask] = 7.0
        assert x.tolist() == [[7.0, 7.0], [2.0, 3.0], [7.0, 7.0]]


def test_index_tensors_may_change_after_the_call() -> None:
    x, places = mt.arange(3.0).requires_grad_(), mt.tensor([0, 1])
    out = x[places] + x.gather(0, places) + x.index_select(0, places)
    y = x * 1
    y[places] = mt.zeros(2)
    places += 1
    (out.sum() + y.sum()).backward()
    assert x.grad.tolist() == [3.0, 3.0, 1.0]


def test_iteration_and_membership() -> None:
    x = mt.arange(4.0).reshape(2, 2).requires_grad_()
    first, second = x
    (first * second).sum().backward()
    assert x.grad.tolist() == [[2.0, 3.0], [0.0, 1.0]]
    assert 3.0 in x
    assert 5 not in x
    with pytest.raises(TypeError, match="0-d"):
        iter(mt.tensor(1.0))


# Assignment

ANYTHING = 1.0
"""A value that no assignment refuses: the index must be at fault."""


def test_values_are_broadcast_and_converted() -> None:
    x = mt.zeros(2, 3, dtype=mt.int64)
    x[0] = 1.9
    x[1] = mt.tensor([1.5, -1.5, 2.5], dtype=mt.float64)
    x[:, [2]] = True
    assert x.tolist() == [[1, 1, 1], [1, -1, 1]]
    y = mt.zeros(2, 3)
    y[0] = mt.ones(1, 1, 3)
    y[[1]] = mt.full((1, 1, 1, 3), 2.0)
    y[0, 0] = np.float64(3)
    assert y.tolist() == [[3.0, 1.0, 1.0], [2.0, 2.0, 2.0]]
    y[:0] = mt.ones(3)
    y[[]] = 7.0
    assert y.tolist() == [[3.0, 1.0, 1.0], [2.0, 2.0, 2.0]]


@pytest.mark.parametrize(
    ("index", "value", "error", "says"),
    [
        (5, ANYTHING, IndexError, "index 5 is out of bounds for dimension 0 with size 2"),
        ((0, -4), ANYTHING, IndexError, "index -4 is out of bounds for dimension 1 with size 3"),
        ((..., 3), ANYTHING, IndexError, "index 3 is out of bounds for dimension 1 with size 3"),
        ((0, 0, 0), ANYTHING, IndexError, r"too many indices for tensor of dimension 2.*\[2, 3\]"),
        ((..., 0, ..., 0), ANYTHING, IndexError, "one ellipsis"),
        ([0, 2], ANYTHING, IndexError, "index 2 is out of bounds for dimension 0 with size 2"),
        ((slice(None), [1, 3]), ANYTHING, IndexError, "index 3 is out of bounds for dimension 1 with size 3"),
        (([0, 1], [0, 1, 2]), ANYTHING, IndexError, r"shapes \[2\], \[3\]"),
        (slice(None, None, 0), ANYTHING, ValueError, "slice step must not be 0"),
        (1.0, ANYTHING, IndexError, "got 1.0 of type float"),
        ("a", ANYTHING, TypeError, "'a'"),
        ({}, ANYTHING, IndexError, "type dict"),
        ([0.5], ANYTHING, IndexError, r"mt.float32; use .long\(\) for positions"),
        ([True, False, True], ANYTHING, IndexError, r"mask \[3\] at index 0 .* \[2, 3\] at dimension 0"),
        (0, mt.ones(4), RuntimeError, r"\[3\].*\[4\]"),
        ([0], mt.ones(4), RuntimeError, r"value tensor of shape \[4\] cannot be broadcast"),
        ([0], mt.ones(3, dtype=mt.float64), RuntimeError, r"mt.float32 for the destination and mt.float64.*\.to\("),
        (0, [1.0, 2.0, 3.0], TypeError, r"can't assign a list .*use mt.tensor"),
        (0, np.ones(3), TypeError, "can't assign a numpy.ndarray"),
        ([0], None, TypeError, "can't assign a NoneType"),
        (0, 1j, RuntimeError, "without overflow.*1j"),
    ],
)
def test_refusals_change_nothing(index: Any, value: Any, error: type[Exception], says: str) -> None:
    x = mt.arange(6.0).reshape(2, 3).clone()
    with pytest.raises(error, match=says):
        x[index] = value
    assert (x.tolist(), x._version) == ([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], 0)
    if value is ANYTHING:
        with pytest.raises(error, match=says):
            x[index]


def test_a_number_of_a_tensor_without_dimensions() -> None:
    with pytest.raises(IndexError, match=r"0-dim tensor; use tensor.item\(\)"):
        mt.tensor(1.0)[0]
    x = mt.tensor(1.0)
    x[...] = 2.0
    x[()] += 1
    x[None] += 1
    assert x.item() == 4.0
    assert x[mt.tensor(True)].tolist() == [4.0]


def test_numbers_beyond_a_type_are_refused() -> None:
    x = mt.zeros(2, dtype=mt.int8)
    for write in (
        lambda: x.__setitem__(0, 300),
        lambda: x.__setitem__([0], -129),
        lambda: x.fill_(float("nan")),
        lambda: x.masked_fill_(x == 0, 1e9),
        lambda: x.scatter_(0, mt.tensor([0]), 200),
        lambda: x.index_fill_(0, mt.tensor([0]), 128),
    ):
        with pytest.raises(RuntimeError, match=r"mt.int8 without overflow.*-128 to 127"):
            write()
    assert (x.tolist(), x._version) == ([0, 0], 0)


# Look-ups and writes by index tensors


def test_gather_and_scatter_are_adjoint() -> None:
    x = mt.randn(3, 4, dtype=mt.float64, generator=mt.Generator())
    index = mt.tensor([[0, 3, 3], [2, 2, 1]])
    y = mt.randn(2, 3, dtype=mt.float64, generator=mt.Generator().manual_seed(1))
    one = (x.gather(1, index) * y).sum().item()
    other = (x * mt.zeros(3, 4, dtype=mt.float64).scatter_add(1, index, y)).sum().item()
    assert one == pytest.approx(other, rel=1e-12)


def test_writes_by_index_in_place_are_recorded() -> None:
    source = mt.arange(1.0, 5.0).reshape(2, 2).requires_grad_()
    index = mt.tensor([[1, 0]])
    x = mt.zeros(2, 2, requires_grad=True)
    y = x * 1
    assert y.scatter_(0, index, source) is y
    y.index_add_(1, mt.tensor([0, 0]), source, alpha=2.0)
    y.index_put_((mt.tensor([1]), mt.tensor([1])), source[0, 1] * 10)
    y.masked_fill_(mt.tensor([[True, False]]), 0.5)
    assert y.tolist() == [[0.5, 2.0], [0.5, 20.0]]
    assert y._version == 4
    y.sum().backward()
    assert x.grad.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert source.grad.tolist() == [[0.0, 11.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda x, i: x.gather(0, i), RuntimeError, r"same number of dimensions.*\[2\].*\[2, 3\]"),
        (
            lambda x, i: x.gather(0, mt.tensor([[2]])),
            RuntimeError,
            "index 2 is out of bounds for dimension 0 with size 2",
        ),
        (lambda x, i: x.gather(0, mt.tensor([[-1]])), RuntimeError, "index -1 is out of bounds"),
        (lambda x, i: x.gather(0, mt.tensor([[0.0]])), RuntimeError, r"mt.float32; use index.long\(\)"),
        (lambda x, i: x.gather(0, [[0]]), TypeError, "must be a Tensor, not list"),
        (lambda x, i: x.gather(2, mt.tensor([[0]])), IndexError, r"\[-2, 1\], but got 2"),
        (
            lambda x, i: x.gather(0, mt.zeros(1, 4, dtype=mt.int64)),
            RuntimeError,
            r"\[1, 4\] to be no larger than self \[2, 3\]",
        ),
        (lambda x, i: x.scatter_(0, mt.tensor([[5]]), 1.0), RuntimeError, "index 5 is out of bounds"),
        (
            lambda x, i: x.scatter_(0, mt.tensor([[0, 0]]), mt.ones(1, 1)),
            RuntimeError,
            r"no larger size than src \[1, 1\]",
        ),
        (lambda x, i: x.scatter_(0, mt.tensor([[0]])), TypeError, "neither"),
        (lambda x, i: x.scatter_(0, mt.tensor([[0]]), mt.ones(1, 1, dtype=mt.float64)), RuntimeError, "mt.float64"),
        (lambda x, i: x.index_select(0, mt.tensor([2])), IndexError, "index 2 is out of bounds"),
        (lambda x, i: x.index_select(0, mt.tensor([[0]])), IndexError, "vector"),
        (lambda x, i: x.index_add_(0, i, mt.ones(3, 3)), RuntimeError, r"\[3, 3\].*expected \[2, 3\]"),
        (lambda x, i: x.index_add_(0, mt.tensor([0, 2]), mt.ones(2, 3)), RuntimeError, "index 2 is out of bounds"),
        (lambda x, i: x.index_copy_(0, i, mt.ones(2, 1)), RuntimeError, r"\[2, 1\].*expected \[2, 3\]"),
        (lambda x, i: x.index_put_((i, i, i), mt.ones(1)), IndexError, "too many indices"),
        (lambda x, i: x.index_put_(i, mt.ones(1)), TypeError, "tuple of Tensors"),
        (
            lambda x, i: x.index_put_((mt.tensor([0, 9]),), mt.ones(1), accumulate=True),
            IndexError,
            "index 9 is out of bounds",
        ),
        (lambda x, i: x.index_put_((i,), mt.ones(4), accumulate=True), RuntimeError, r"shape \[4\]"),
        (lambda x, i: x.index_put_((), mt.ones(1)), IndexError, "at least one"),
        (lambda x, i: x.masked_fill_(x, 1.0), RuntimeError, r"mt.float32; use mask.bool\(\)"),
        (lambda x, i: x.masked_fill_(x > 0, mt.ones(2)), RuntimeError, r"0-dimensional.*\[2\]"),
        (lambda x, i: x.masked_fill_(mt.ones(2, 2, 3, dtype=mt.bool), 1.0), RuntimeError, r"\[2, 3\].*\[2, 2, 3\]"),
        (lambda x, i: x.masked_select(i), RuntimeError, "mt.int64"),
        (lambda x, i: x.masked_scatter_(x >= 0, mt.ones(5)), RuntimeError, "expected 6 elements.*got 5"),
        (lambda x, i: x.take(mt.tensor([6])), IndexError, "index 6 is out of bounds for dimension 0 with size 6"),
        (lambda x, i: x.take_along_dim(i, 0), RuntimeError, r"same number of dimensions.*\[2, 3\] and \[2\]"),
        (lambda x, i: x.expand(2, 2, 3).index_fill_(0, i, 1.0), RuntimeError, "single memory location"),
    ],
)
def test_refusals_by_index_tensors(call: Callable[[Tensor, Tensor], Any], error: type[Exception], says: str) -> None:
    x = mt.arange(6.0).reshape(2, 3).clone()
    with pytest.raises(error, match=says):
        call(x, mt.tensor([0, 1]))
    assert (x.tolist(), x._version) == ([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.int64])
@pytest.mark.parametrize(("rows", "count", "width"), [(5, 3, 2), (5, 40, 2), (700, 900, 64), (2000, 10, 3), (4, 0, 2)])
def test_rows_are_summed(dtype: Any, rows: int, count: int, width: int) -> None:
    """By assignment, by np.add.at and by a sparse product, as the numbers and repetitions have it."""
    generator = np.random.default_rng(0)
    index = generator.integers(0, rows, count)
    values = generator.integers(-8, 8, (count, width)).astype(dtype)
    expected = np.ones((rows, width), dtype)
    for position, row in zip(index, values, strict=True):
        expected[position] += row
    sums = np.ones((rows, width), dtype)
    add_rows(sums, index, values)
    assert np.array_equal(sums, expected)


def test_half_types_are_summed_in_float32() -> None:
    for dtype in (mt.float16, mt.bfloat16):
        x = mt.ones(3, dtype=dtype, requires_grad=True)
        x[mt.zeros(4000, dtype=mt.int64)].sum().backward()
        assert x.grad.tolist() == [4000.0, 0.0, 0.0]
        counts = mt.zeros(2, dtype=dtype).index_add_(0, mt.zeros(4000, dtype=mt.int64), mt.ones(4000, dtype=dtype))
        assert counts.tolist() == [4000.0, 0.0]


def test_nonzero() -> None:
    x = mt.tensor([[0.0, 1.0], [2.0, 0.0]])
    assert x.nonzero().tolist() == [[0, 1], [1, 0]]
    rows, columns = mt.nonzero(x, as_tuple=True)
    assert (rows.tolist(), columns.tolist()) == ([0, 1], [1, 0])
    assert x[rows, columns].tolist() == [1.0, 2.0]
    assert mt.tensor(3.0).nonzero().shape == (1, 0)
    assert mt.nonzero(mt.tensor(0.0), as_tuple=True)[0].shape == (0,)
    assert x.argwhere().dtype is mt.int64


def test_index_fill_converts_the_tensor_it_fills_with() -> None:
    value = mt.tensor(2.5, dtype=mt.float64, requires_grad=True)
    filled = mt.zeros(3).index_fill(0, mt.tensor([1]), value)
    assert filled.dtype is mt.float32
    assert filled.tolist() == [0.0, 2.5, 0.0]
    filled.sum().backward()
    assert value.grad.dtype is mt.float64
    assert value.grad.item() == 1.0
    assert mt.zeros(2, dtype=mt.int64).index_fill(0, mt.tensor([1]), mt.tensor(2.5)).tolist() == [0, 2]


def test_one_value_of_another_type_behind_a_mask() -> None:
    for value in (mt.tensor(0), mt.tensor([0]), mt.tensor(0.0, dtype=mt.float64)):
        x = mt.tensor([1.0, -2.0])
        x[x < 0] = value
        assert x.tolist() == [1.0, 0.0]
    x = mt.tensor([[1, 2], [3, 4]])
    x[mt.tensor([False, True])] = mt.tensor(7.9)
    assert x.tolist() == [[1, 2], [7, 7]]
    with pytest.raises(RuntimeError, match="source and destination dtypes match"):
        x[x > 5] = mt.tensor([1.0, 2.0])
    y = mt.tensor([1.0, 2.0, 3.0], requires_grad=True)
    value = mt.tensor([4.0], requires_grad=True)
    z = y * 1
    z[z > 1.5] = value
    z.sum().backward()
    assert (y.grad.tolist(), value.grad.tolist()) == ([1.0, 0.0, 0.0], [2.0])


def test_places_in_tensors_without_dimensions_and_from_the_end() -> None:
    with pytest.raises(IndexError, match="too many indices"):
        mt.tensor(5)[mt.tensor([-1, 0])]
    with pytest.raises(RuntimeError, match="does not fit 2 positions"):
        mt.index_add(mt.tensor(1.0), 0, mt.tensor([0, 0]), mt.tensor(1.0))
    assert mt.arange(4.0).index_fill(0, mt.tensor([-1, 0]), 9).tolist() == [9.0, 1.0, 2.0, 9.0]
    with pytest.raises(IndexError, match="out of bounds"):
        mt.arange(4.0).index_fill(0, mt.tensor([-5]), 9)
    with pytest.raises(IndexError, match="out of bounds"):
        mt.arange(4.0).index_copy(0, mt.tensor([5]), mt.zeros(1))
    for call in (
        lambda: mt.tensor(1.0).unflatten(0, (1, 1)),
        lambda: mt.take_along_dim(mt.tensor(1.0), mt.tensor(0), 0),
    ):
        with pytest.raises(IndexError, match="tensor has no dimensions"):
            call()


def test_numbers_that_are_written_the_short_way_are_counted_and_refused() -> None:
    x, weight = mt.ones(3), mt.ones(3, requires_grad=True)
    product = (x * weight).sum()
    x[0], x[1:], x[...] = 2.5, 1, True
    assert (x.tolist(), x._version) == ([1.0, 1.0, 1.0], 3)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()
    whole = mt.zeros(2, dtype=mt.int64)
    whole[0] = 2.9
    with pytest.raises(RuntimeError, match="without overflow"):
        mt.zeros(2, dtype=mt.uint8)[0] = 300
    with pytest.raises(RuntimeError, match="single memory location"):
        mt.zeros(1).expand(3)[...] = 1.0
    with pytest.raises(IndexError, match=r"index 2 is out of bounds"):
        whole[2] = 1
    assert whole.tolist() == [2, 0]
    with mt.inference_mode():
        kept = mt.zeros(2)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        kept[0] = 1.0


def test_masks_without_dimensions_in_index_put_are_for_all_or_nothing() -> None:
    x, yes, no = mt.tensor([[1.0, 2.0], [3.0, 4.0]]), mt.tensor(True), mt.tensor(False)
    nine = mt.tensor(9.0)
    assert x.index_put((yes,), nine).tolist() == [[9.0, 9.0], [9.0, 9.0]]
    assert x.index_put((yes,), nine, accumulate=True).tolist() == [[10.0, 11.0], [12.0, 13.0]]
    assert x.index_put((mt.tensor([1]), yes), nine).tolist() == [[1.0, 2.0], [9.0, 9.0]]
    for indices in ((no,), (mt.tensor([1]), no), (no, mt.tensor([0]), mt.tensor([1]))):
        assert x.index_put(indices, nine).tolist() == x.tolist()
    assert mt.tensor(1.0).index_put((yes,), nine).tolist() == 9.0


def test_one_value_of_another_type_beside_a_mask() -> None:
    x = mt.zeros(2, 2)
    x[mt.tensor([True, False]), 0] = mt.tensor(3)
    assert x.tolist() == [[3.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("index", [(..., ...), (..., 0, ...), (..., None, ...), (0, ..., ...)])
def test_further_ellipses_select_nothing(index: Any) -> None:
    first = index.index(...)
    plain = tuple(each for place, each in enumerate(index) if each is not ... or place == first)
    x = mt.arange(6.0).reshape(2, 3)
    assert x[index].tolist() == x.numpy()[plain].tolist()
    x[index] = -1.0
    assert (x[index] == -1).all()


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda i: mt.arange(6.0)[i.short()], IndexError, "long, int, byte or bool"),
        (lambda i: mt.arange(6.0).index_put((i.short(),), mt.ones(2)), IndexError, "long, int, byte or bool"),
        (lambda i: mt.zeros(6, dtype=mt.int64).__setitem__(i, mt.tensor(1.5)), RuntimeError, "dtypes match"),
        (lambda i: mt.arange(6.0).gather(0, i.short()), RuntimeError, r"int32 or mt.int64, got mt.int16"),
        (lambda i: mt.arange(6.0).index_add(0, i.byte(), mt.ones(2)), RuntimeError, "index must be"),
        (lambda i: mt.arange(6.0).index_copy(0, i.int(), mt.ones(2)), RuntimeError, "index must be .*mt.int64, got"),
        (lambda i: mt.arange(6.0).index_fill(0, i.int(), 1.0), IndexError, "index must be .*mt.int64, got mt.int32"),
        (lambda i: mt.arange(6.0).take(i.int()), RuntimeError, r"take\(\): index must be .*mt.int64, got mt.int32"),
        (lambda i: mt.arange(6.0).take_along_dim(i.int(), 0), RuntimeError, "indices must be .*mt.int64, got"),
        (lambda i: mt.arange(6.0).tensor_split(i.int()), RuntimeError, "indices_or_sections must be .*mt.int64"),
        (lambda i: mt.ones(2).repeat_interleave(i.short()), RuntimeError, "repeats must be non-negative integers"),
        (lambda i: mt.nn.functional.embedding(i.short(), mt.ones(2, 2)), RuntimeError, r"embedding\(\): input must be"),
        (lambda i: mt.nn.functional.one_hot(i.int()), RuntimeError, r"one_hot\(\): input must be .*mt.int64"),
        (lambda i: mt.nn.functional.nll_loss(mt.ones(2, 3), i.int()), RuntimeError, "mt.int64 or mt.uint8"),
    ],
)
def test_dtypes_of_positions(call: Any, error: type, says: str) -> None:
    with pytest.raises(error, match=says):
        call(mt.tensor([0, 1]))


def test_empty_arrays_are_indices() -> None:
    assert mt.ones(3)[np.array([])].tolist() == []


def test_one_value_may_be_written_where_elements_repeat() -> None:
    x = mt.zeros(1)
    assert x.expand(3).fill_(2.0).tolist() == [2.0] * 3
    x.expand(3).zero_()
    assert x.tolist() == [0.0]
    with pytest.raises(RuntimeError, match="more than one element"):
        x.expand(3).copy_(mt.arange(3.0))


def test_put_refuses_what_does_not_fit() -> None:
    x, one = mt.zeros(2, 3), mt.ones(1)
    for index, source, error in (
        (mt.tensor([6]), one, IndexError),
        (mt.tensor([-7]), one, IndexError),
        (mt.tensor([0, 1]), one, IndexError),
        (mt.tensor([0]), one.double(), RuntimeError),
        (mt.tensor([0.0]), one, RuntimeError),
    ):
        with pytest.raises(error, match=r"put\(\): "):
            x.put_(index, source)
    assert not x.any()
    with pytest.raises(IndexError, match=r"put\(\): "):
        mt.zeros(0).put(mt.tensor([0]), one)


def test_unravel_index_wraps_around_and_refuses() -> None:
    assert [each.item() for each in mt.unravel_index(mt.tensor(-1), (3, 4))] == [2, 3]
    assert mt.unravel_index(mt.tensor([200], dtype=mt.uint8), (3, 4, 30))[2].tolist() == [20]
    for indices, shape, error in (
        (mt.tensor([1.0]), (3, 4), TypeError),
        (mt.tensor([1]), (3, 2.0), TypeError),
        (mt.tensor([1]), (3, -4), ValueError),
        (mt.tensor([1]), (3, 0), RuntimeError),
    ):
        with pytest.raises(error):
            mt.unravel_index(indices, shape)


def test_combinations_and_blocks_refuse() -> None:
    x = mt.arange(100)
    for r in (50, 2**40):
        with pytest.raises(RuntimeError, match="more elements than memory has addresses"):
            mt.combinations(x, r, with_replacement=True)
    assert mt.combinations(x, 99).shape == (100, 99)
    assert mt.combinations(x[:3], 5).shape == (0, 5)
    with pytest.raises(RuntimeError, match="r must not be negative, got -1"):
        mt.combinations(x, -1)
    with pytest.raises(RuntimeError, match=r"at most 2 dimensions, got shape \[1, 1, 1\] at 1"):
        mt.block_diag(x, mt.ones(1, 1, 1))
    assert mt.block_diag().shape == (1, 0)
    assert mt.block_diag(mt.tensor(True), mt.tensor([2.5])).dtype is mt.float32


def test_reductions_that_do_not_include_what_is_there() -> None:
    """Nor does what is there then share the gradient of an equal extremum."""
    x, src = mt.tensor([2.0, 5.0], requires_grad=True), mt.tensor([2.0, 1.0], requires_grad=True)
    out = x.scatter_reduce(0, mt.tensor([0, 0]), src, "amax", include_self=False)
    out.sum().backward()
    assert out.tolist() == [2, 5]
    assert (x.grad.tolist(), src.grad.tolist()) == ([0, 1], [1, 0])


@pytest.mark.parametrize("include_self", [True, False])
def test_gradients_of_products_with_zeros(include_self: bool) -> None:
    x = mt.tensor([0.0, 2.0, 3.0], dtype=mt.float64, requires_grad=True)
    src = mt.tensor([4.0, 0.0, 0.0, 5.0, 0.0], dtype=mt.float64, requires_grad=True)
    index = mt.tensor([0, 0, 1, 1, 2])

    def product(x: Tensor, src: Tensor) -> Tensor:
        return x.index_reduce(0, index, src, "prod", include_self=include_self)

    assert gradcheck(product, (x, src))
    assert gradgradcheck(product, (x, src))


def test_reductions_in_place_and_what_they_refuse() -> None:
    x = mt.tensor([1, 2, 3])
    assert x.scatter_reduce_(0, mt.tensor([0, 0]), mt.tensor([-5, 0]), "mean") is x
    assert x.tolist() == [-2, 2, 3]  # of integers rounded down
    for arguments, error in (
        ((mt.tensor([0, 5]), mt.tensor([1, 1]), "mean"), IndexError),
        ((mt.tensor([0]), mt.tensor([1, 1]), "mean"), RuntimeError),
        ((mt.tensor([0]), mt.tensor([1.0]), "mean"), RuntimeError),
        ((mt.tensor([0]), mt.tensor([1]), "sum"), RuntimeError),
    ):
        with pytest.raises(error, match=r"index_reduce\(\): "):
            x.index_reduce_(0, *arguments)
    assert x.tolist() == [-2, 2, 3]


def test_writes_by_masks_and_positions_as_they_broadcast() -> None:
    mask = mt.tensor([[True, False], [False, True]])
    assert mt.tensor([1, 2]).masked_scatter(mask, mt.tensor([7, 8])).tolist() == [[7, 2], [1, 8]]
    with pytest.raises(RuntimeError, match="does not broadcast"):
        mt.tensor([1, 2]).masked_scatter_(mask, mt.tensor([7, 8]))
    value = mt.tensor(3.0, requires_grad=True)
    mt.zeros(4).index_fill(0, mt.tensor([1, 1, -1]), value).sum().backward()
    assert value.grad.item() == 2.0, "a place that is named twice holds the value once"
    flags = mt.tensor([False, False])
    assert flags.index_add(0, mt.tensor([1, 1]), mt.tensor([True, True])).tolist() == [False, True]
    assert flags.index_add(0, mt.tensor([0]), mt.tensor([True]), alpha=False).tolist() == [False, False]
    for found in (mt.gather(mt.ones(3), 0, mt.ones(0, dtype=mt.uint8)), mt.ones(3).gather(0, mt.ones(0))):
        assert found.shape == (0,)


def test_scatter_adds_or_multiplies() -> None:
    x, index = mt.tensor([1.0, 2.0, 3.0]), mt.tensor([0, 0, 2])
    src = mt.tensor([2.0, 3.0, 5.0], requires_grad=True)
    added = x.scatter(0, index, src, reduce="add")
    added.sum().backward()
    assert (added.tolist(), src.grad.tolist()) == ([6, 2, 8], [1, 1, 1])
    product = x.scatter(0, index, src, reduce="multiply")
    assert product.tolist() == [6, 2, 15]
    with pytest.raises(NotImplementedError, match="derivative of scatter"):
        product.sum().backward()
    assert x.clone().scatter_(0, index, 2, reduce="multiply").tolist() == [4, 2, 6]
    assert x.clone().scatter_(0, index, value=0.5, reduce="add").tolist() == [2, 2, 3.5]
    assert (x > 1).scatter(0, index, mt.tensor([True, False, True]), reduce="multiply").tolist() == [False, True, True]
    with pytest.raises(RuntimeError, match="reduce must be None, 'add' or 'multiply', got 'mean'"):
        x.scatter(0, index, src, reduce="mean")


def test_places_in_bfloat16_are_those_beside_nan() -> None:
    edges, values = [0.0, 1.0, 2.0], [math.nan, math.inf, 1.5, -math.inf, math.nan, 2.0]
    for dtype in (mt.float32, mt.float16, mt.bfloat16):
        x, sequence = mt.tensor(values, dtype=dtype), mt.tensor(edges, dtype=dtype)
        assert mt.searchsorted(sequence, x).tolist() == [3, 3, 2, 0, 3, 2]
        assert mt.bucketize(x, sequence, right=True).tolist() == [3, 3, 2, 0, 3, 3]


def test_positions_without_elements_or_dimensions() -> None:
    x = mt.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    assert x.gather(0, mt.ones(3, 0)).shape == (3, 0), "the index may have any dtype and dimensions"
    x.take(mt.tensor(2)).backward()
    assert x.grad.tolist() == [[0, 0], [1, 0]]


MANY = (1,) * 38


@pytest.mark.parametrize(("name", "add"), [
    ("index_add_", lambda y, i: y.index_add_(0, i, mt.ones(3, *MANY, 2))),
    ("index_put_", lambda y, i: y.index_put_((i,), mt.ones(2), accumulate=True)),
    ("gradient of index_select", lambda y, i: 1 + mt.autograd.grad(y.requires_grad_().index_select(0, i).sum(), y)[0]),
    ("gradient of indexing", lambda y, i: 1 + mt.autograd.grad(y.requires_grad_()[i].sum(), y)[0]),
])  # fmt: skip
def test_additions_in_more_than_32_dimensions(name, add):
    """Beyond which NumPy's `ufunc.at` writes to other memory."""
    found = add(mt.ones(3, *MANY, 2), mt.tensor([2, 0, 2]))
    assert found.reshape(3, 2).tolist() == [[2, 2], [1, 1], [3, 3]]


@pytest.mark.parametrize(("reduce", "wanted"), [("add", [3, 1, 1]), ("sum", [3, 1, 1]), ("amax", [1, 1, 1])])
def test_scattering_in_more_than_32_dimensions(reduce, wanted):
    """More than `np.ravel_multi_index` accepts."""
    x, index = mt.ones(3, *MANY), mt.zeros(2, *MANY, dtype=mt.int64)
    values = mt.ones(2, *MANY)
    found = x.scatter_add(0, index, values) if reduce == "add" else x.scatter_reduce(0, index, values, reduce)
    assert found.flatten().tolist() == wanted


@pytest.mark.parametrize("name", ["sort", "kthvalue", "topk", "median", "nanmedian", "mode"])
def test_orders_in_more_than_32_dimensions(name):
    x = mt.tensor([[3.0, 1], [2, 2], [1, 3]])
    rest = (2,) if name in ("kthvalue", "topk") else ()
    one, many = (getattr(mt, name)(each, *rest, dim=0) for each in (x, x.reshape(3, *MANY, 2)))
    assert [each.reshape(-1).tolist() for each in many] == [each.reshape(-1).tolist() for each in one]


def test_products_of_more_dimensions_than_are_indexed():
    many, once = mt.full((1,) * 40, 3.0), mt.zeros((1,) * 40, dtype=mt.int64)
    assert mt.ones((1,) * 40).scatter(0, once, many, reduce="multiply").item() == 3
    multiply, columns = registry["index_multiply"].public, (slice(None), mt.tensor([1, -1]))
    assert multiply(mt.ones(2, 4), mt.full((1,) * 60, 3.0), columns).tolist() == [[1, 3, 1, 3]] * 2
    x = mt.zeros(3, 2, 2, requires_grad=True)
    x[once, :, once].sum().backward()  # positions on both sides of a slice, of 41 dimensions
    assert x.grad.sum().item() == x.grad[0, :, 0].sum().item() == 2
    with pytest.raises(RuntimeError, match=r"values of shape \[2, 1, 1\] cannot be broadcast to \[2, 2\]"):
        multiply(mt.ones(2, 4), mt.ones(2, 1, 1), columns)
