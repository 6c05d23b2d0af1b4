"""Making tensors: from data, constants, ranges, other libraries and random streams; copies and pickles."""

import array
import collections
import copy
import math
import pickle
import threading
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitorch_backends as mt
from minitorch_backends import Tensor

DTYPES = [
    mt.bool, mt.uint8, mt.uint16, mt.uint32, mt.uint64, mt.int8, mt.int16, mt.int32, mt.int64, mt.float16, mt.bfloat16,
    mt.float32, mt.float64, mt.complex64, mt.complex128,
]  # fmt: skip
INTEGERS = DTYPES[1:9]
FLOATING = [dtype for dtype in DTYPES if dtype.is_floating_point or dtype.is_complex]


# From data


@pytest.mark.parametrize(
    ("data", "dtype", "values"),
    [
        (1, mt.int64, 1),
        (True, mt.bool, True),
        (1.5, mt.float32, 1.5),
        (1j, mt.complex64, 1j),
        ([1, 2.5], mt.float32, [1.0, 2.5]),
        ([True, 2], mt.int64, [1, 2]),
        ([], mt.float32, []),
        (((1, 2), [3, 4]), mt.int64, [[1, 2], [3, 4]]),
        (range(3), mt.int64, [0, 1, 2]),
        (bytearray(b"ab"), mt.int64, [97, 98]),
        (2**62, mt.int64, 2**62),
        (np.float64(1), mt.float64, 1.0),
        ([np.float64(1)], mt.float64, [1.0]),
        (np.arange(2, dtype=np.int16), mt.int16, [0, 1]),
        (np.arange(2, dtype=">f4"), mt.float32, [0.0, 1.0]),
        ([np.arange(2), np.arange(2)], mt.int64, [[0, 1], [0, 1]]),
        ([mt.tensor(1.5), 2], mt.float32, [1.5, 2.0]),
        ([mt.ones(1), mt.zeros(1, 1)], mt.float32, [1.0, 0.0]),
        (collections.deque([1, 2]), mt.int64, [1, 2]),
        ([collections.deque([1.0]), array.array("i", [2])], mt.float32, [[1.0], [2.0]]),
        (collections.UserList([True]), mt.bool, [True]),
        (memoryview(b"ab"), mt.int64, [97, 98]),
        (mt.ones(2, dtype=mt.float16), mt.float16, [1.0, 1.0]),
    ],
)
def test_tensor(data: Any, dtype: mt.dtype, values: Any) -> None:
    x = mt.tensor(data)
    assert x.dtype is dtype
    assert x.tolist() == values
    assert (x.is_leaf, x.requires_grad, x._version) == (True, False, 0)


@pytest.mark.parametrize("dtype", DTYPES, ids=repr)
def test_tensor_of_every_dtype(dtype: mt.dtype) -> None:
    for data in (1, [True, False], [[1.0], [0.0]], np.ones(2)):
        x = mt.tensor(data, dtype=dtype)
        assert x.dtype is dtype
        assert x.tolist() == np.asarray(data).astype(dtype).astype(np.complex128).tolist()
    assert mt.tensor(1, dtype=dtype.name).dtype is dtype
    assert mt.tensor(1, dtype=dtype.dtype).dtype is dtype


def test_python_types_as_dtypes() -> None:
    found = [mt.zeros(1, dtype=kind).dtype for kind in (bool, int, float, complex)]
    assert found == [mt.bool, mt.int64, mt.float64, mt.complex128]


def test_the_default_dtype() -> None:
    mt.set_default_dtype(mt.float64)
    try:
        made = mt.tensor(1.0), mt.zeros(1), mt.arange(0, 1, 0.5), mt.rand(1), mt.eye(1), mt.linspace(0, 1, 2)
        assert {x.dtype for x in made} == {mt.float64}
        assert mt.tensor(1j).dtype is mt.complex128
        assert mt.tensor(1).dtype is mt.int64
    finally:
        mt.set_default_dtype(mt.float32)


def test_what_shares_memory() -> None:
    array = np.zeros(3, np.float32)
    for make in (mt.from_numpy, mt.as_tensor, mt.from_dlpack):
        array[:] = 0
        make(array)[1] = 5
        assert array.tolist() == [0.0, 5.0, 0.0], make
    x = mt.zeros(3)
    assert mt.as_tensor(x) is x
    for copied in (mt.tensor(array), mt.as_tensor(array, dtype=mt.float64), mt.tensor(x), mt.as_tensor(x, mt.int64)):
        copied.zero_()
        copied += 7
    assert array.tolist() == [0.0, 5.0, 0.0]
    assert x.tolist() == [0.0, 0.0, 0.0]


def test_from_numpy_keeps_the_layout() -> None:
    array = np.arange(12.0).reshape(3, 4)[::-2, 1:]
    x = mt.from_numpy(array)
    assert x.tolist() == array.tolist()
    assert x.stride() == (-8, 1)
    assert not x.is_contiguous()
    assert type(mt.from_numpy(np.ma.array([1.0])).numpy()) is np.ndarray


def test_bfloat16_arrays() -> None:
    array = np.ones(2, ml_dtypes.bfloat16)
    x = mt.from_numpy(array)
    assert x.dtype is mt.bfloat16
    x += 1
    assert array.tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: mt.tensor([[1, 2], [3]]), ValueError, "equal length"),
        (lambda: mt.tensor("a"), TypeError, "'a'"),
        (lambda: mt.tensor([1, None]), RuntimeError, "None"),
        (lambda: mt.tensor({1}), RuntimeError, r"\{1\}"),
        (lambda: mt.tensor(2**63), ValueError, "64 bits.*9223372036854775808"),
        (lambda: mt.tensor([1, -(2**70)]), ValueError, "64 bits.*-1180591620717411303424"),
        (lambda: mt.tensor(300, dtype=mt.int8), RuntimeError, "mt.int8 without overflow: 300 is not in -128 to 127"),
        (lambda: mt.tensor([1.0, float("nan")], dtype=mt.int64), RuntimeError, "nan"),
        (lambda: mt.tensor(2.0**63, dtype=mt.int64), RuntimeError, "without overflow"),
        (lambda: mt.tensor(1j, dtype=mt.float32), TypeError, "1j; use a complex dtype"),
        (lambda: mt.tensor(1, dtype="float99"), TypeError, "float99; expected one of bool"),
        (lambda: mt.tensor(1, requires_grad=True), RuntimeError, "mt.int64"),
        (lambda: mt.tensor(1.0, requires_grad=1), TypeError, "True, False or None, got 1"),
        (lambda: mt.tensor(1.0, device="cuda"), AssertionError, "device must be 'cpu', got 'cuda'"),
        (lambda: mt.tensor(np.zeros(2, np.longdouble)), TypeError, "longdouble|float128"),
        (lambda: mt.tensor(np.array(["a"])), TypeError, "str32"),
        (lambda: mt.from_numpy([1]), TypeError, "list; use mt.tensor"),
        (lambda: mt.from_numpy(np.zeros(1, object)), TypeError, "object"),
        (lambda: mt.from_numpy(np.zeros(1, ">i4")), ValueError, ">i4.*use mt.tensor"),
        (lambda: mt.from_dlpack([1]), TypeError, "list; use mt.tensor"),
        (mt.zeros, TypeError, r"pass \(\)"),
        (lambda: mt.zeros(-1), RuntimeError, r"\[-1\]"),
        (lambda: mt.zeros(2.0), TypeError, "2.0"),
        (lambda: mt.zeros(2, size=(3,)), TypeError, "both"),
        (lambda: mt.zeros([2, [3]]), TypeError, r"\[3\]"),
        (lambda: mt.zeros(2**62, 2**62), RuntimeError, "4611686018427387904"),
        (lambda: mt.full(2, 3), TypeError, r"use full\(\(n,\), value\)"),
        (lambda: mt.full((2,), "a"), TypeError, "got str"),
        (lambda: mt.full((2,), 300, dtype=mt.uint8), RuntimeError, "300"),
        (lambda: mt.zeros_like([1]), TypeError, "must be a Tensor, not list"),
        (lambda: mt.eye(-1), RuntimeError, "-1"),
        (lambda: mt.arange(5, 0), RuntimeError, "5 to 0 in steps of 1"),
        (lambda: mt.arange(0, 5, 0), RuntimeError, "nonzero"),
        (lambda: mt.arange(0, float("inf")), RuntimeError, "inf"),
        (lambda: mt.arange("a"), TypeError, "'a' of type str"),
        (lambda: mt.arange(300, dtype=mt.int8), RuntimeError, "not in -128 to 127"),
        (lambda: mt.arange(3, dtype=mt.bool), NotImplementedError, r"use arange\(...\).to\(mt.bool\)"),
        (lambda: mt.linspace(0, 1, -1), RuntimeError, "got -1"),
        (lambda: mt.linspace(0, 1j, 2, dtype=mt.float32), RuntimeError, "complex"),
        (lambda: mt.rand(2, dtype=mt.int64), NotImplementedError, "mt.int64; use randint"),
        (lambda: mt.rand(2, generator=5), TypeError, r"got int; use mt.Generator\(\)"),
        (lambda: mt.randint(3, 3, (2,)), RuntimeError, "low=3 >= high=3"),
        (lambda: mt.randint(5, 3), TypeError, "'size' must be a tuple"),
        (lambda: mt.randint(0, 300, (2,), dtype=mt.uint8), RuntimeError, "out of bounds for mt.uint8, 0 to 255"),
        (lambda: mt.randperm(-1), RuntimeError, "-1"),
        (lambda: mt.randperm(300, dtype=mt.int8), RuntimeError, "299"),
        (lambda: mt.manual_seed(2**64), ValueError, r"must be from -2\*\*63 to 2\*\*64 - 1, got 18446744073709551616"),
        (lambda: mt.manual_seed("a"), ValueError, "'a'"),
        (lambda: mt.Generator("cuda"), AssertionError, "'cuda'"),
        (lambda: mt.Generator().set_state(mt.zeros(3)), TypeError, "mt.uint8"),
        (lambda: mt.Generator().set_state(mt.zeros(3, dtype=mt.uint8)), RuntimeError, "56 bytes.*got 3"),
        (lambda: mt.Generator().set_state(mt.zeros(57, dtype=mt.uint8)), RuntimeError, "56 bytes.*got 57"),
        (lambda: mt.normal(0.0, -1.0, (2,)), RuntimeError, "got -1.0"),
        (lambda: mt.normal(0.0, 1.0), TypeError, "size is required"),
        (lambda: mt.bernoulli(mt.tensor([2.0])), RuntimeError, r"\[0, 1\], got 2.0 to 2.0"),
        (lambda: mt.multinomial(mt.tensor([1.0, -1.0]), 1), RuntimeError, "element < 0"),
        (lambda: mt.multinomial(mt.tensor([1.0, 0.0]), 2), RuntimeError, "2 samples without replacement"),
        (lambda: mt.zeros(2).uniform_(4, 3), RuntimeError, "from=4 > to=3"),
        (lambda: mt.zeros(2).normal_(0, -1), RuntimeError, "std=-1"),
        (lambda: mt.zeros(2, dtype=mt.int64).uniform_(), NotImplementedError, "mt.int64"),
        (lambda: mt.ones(2, requires_grad=True).uniform_(), RuntimeError, "leaf"),
        (lambda: mt.set_default_dtype(mt.int64), TypeError, "mt.int64"),
    ],
)
def test_refusals(call: Callable[[], Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        call()


# From constants and ranges


@pytest.mark.parametrize("dtype", DTYPES, ids=repr)
def test_constants(dtype: mt.dtype) -> None:
    for made, value in (
        (mt.zeros(2, 3, dtype=dtype), 0),
        (mt.ones((2, 3), dtype=dtype), 1),
        (mt.full((2, 3), 1, dtype=dtype), 1),
    ):
        assert (made.dtype, made.shape, (made == value).all().item()) == (dtype, (2, 3), True)
    like = mt.zeros(2, 3, dtype=dtype).mT
    for make in (mt.zeros_like, mt.ones_like, mt.empty_like, lambda x, **named: mt.full_like(x, 1, **named)):
        assert (make(like).dtype, make(like).shape, make(like).stride()) == (dtype, (3, 2), (1, 3))
        assert make(like, dtype=mt.float64).dtype is mt.float64
    assert mt.eye(2, 3, dtype=dtype).tolist() == [[1, 0, 0], [0, 1, 0]]
    x = mt.ones(1, dtype=dtype)
    for made in (
        x.new_zeros(2, 3),
        x.new_ones((2, 3)),
        x.new_full((2, 3), 1),
        x.new_empty(2, 3),
        x.new_tensor([[1] * 3] * 2),
    ):
        assert (made.dtype, made.shape) == (dtype, (2, 3))


def test_sizes() -> None:
    for made in (
        mt.zeros(2, 3),
        mt.zeros((2, 3)),
        mt.zeros([2, 3]),
        mt.zeros(size=(2, 3)),
        mt.zeros(mt.ones(2, 3).shape),
    ):
        assert made.shape == (2, 3)
    assert mt.zeros(()).shape == mt.zeros([]).shape == ()
    assert mt.zeros(np.int64(2), mt.tensor(3)).shape == (2, 3)
    assert mt.zeros(0, 2**40).shape == (0, 2**40)


def test_full_takes_the_type_of_its_value() -> None:
    made = [mt.full((1,), value).dtype for value in (True, 1, 1.0, 1j, mt.tensor(1, dtype=mt.int8), np.float32(1))]
    assert made == [mt.bool, mt.int64, mt.float32, mt.complex64, mt.int8, mt.float32]
    assert mt.scalar_tensor(3).dtype is mt.float32


@pytest.mark.parametrize(
    ("made", "values"),
    [
        (mt.arange(3), [0, 1, 2]),
        (mt.arange(5, 0, -2), [5, 3, 1]),
        (mt.arange(1, 2, 0.5), [1.0, 1.5]),
        (mt.arange(3.0), [0.0, 1.0, 2.0]),
        (mt.arange(0), []),
        (mt.arange(start=1, end=mt.tensor(3)), [1, 2]),
        (mt.arange(2**40, 2**40 + 2), [2**40, 2**40 + 1]),
        (mt.arange(2, dtype=mt.float16), [0.0, 1.0]),
        (mt.linspace(0, 1, 5), [0.0, 0.25, 0.5, 0.75, 1.0]),
        (mt.linspace(3, 1, 1), [3.0]),
        (mt.linspace(0, 1, 0), []),
        (mt.linspace(0, 10, 5, dtype=mt.int64), [0, 2, 5, 7, 10]),
        (mt.linspace(0, 1j, 3), [0j, 0.5j, 1j]),
        (mt.logspace(0, 2, 3), [1.0, 10.0, 100.0]),
        (mt.logspace(0, 2, 3, base=2), [1.0, 2.0, 4.0]),
        (mt.tril_indices(2, 3), [[0, 1, 1], [0, 0, 1]]),
        (mt.triu_indices(2, 3, 1), [[0, 0, 1], [1, 2, 2]]),
    ],
)
def test_ranges(made: Tensor, values: list[Any]) -> None:
    assert made.tolist() == values


@given(st.integers(-50, 50), st.integers(-50, 50), st.sampled_from([-7, -2, -1, 1, 2, 3]), st.booleans())
def test_arange_is_range(start: int, end: int, step: int, fractions: bool) -> None:
    if (end - start) * step < 0:
        start, end = end, start
    made = mt.arange(start / 4, end / 4, step / 4) * 4 if fractions else mt.arange(start, end, step)
    assert made.tolist() == list(range(start, end, step))


def test_linspace_ends_exactly() -> None:
    for end in (0.1, 1 / 3, 1e30, 7.0):
        x = mt.linspace(-end, end, 37, dtype=mt.float64)
        assert x[-1].item() == end
        assert x[18].item() == 0.0
        assert (x + x.flip(0)).abs().max().item() == 0.0


def test_leaves_under_no_grad() -> None:
    with mt.no_grad():
        for made in (
            mt.ones(2, requires_grad=True),
            mt.tensor(1.0, requires_grad=True),
            mt.rand(2, requires_grad=True),
        ):
            assert (made.requires_grad, made.is_leaf) == (True, True)
    assert not mt.ones_like(mt.ones(2, requires_grad=True)).requires_grad
    assert not mt.zeros(1, requires_grad=None).requires_grad


# Random streams


@pytest.mark.parametrize("seed", [0, -1, 2**64 - 1, -(2**63), 1.5])
def test_the_same_seed_gives_the_same_numbers(seed: Any) -> None:
    drawn = []
    for _ in range(2):
        mt.manual_seed(seed)
        drawn.append([mt.rand(3), mt.randn(3), mt.randint(100, (3,)), mt.randperm(5), mt.rand(2, dtype=mt.float16)])
    assert [x.tolist() for x in drawn[0]] == [x.tolist() for x in drawn[1]]
    assert mt.initial_seed() == int(seed) % 2**64
    assert mt.rand(3).tolist() != mt.rand(3).tolist()


def test_generators_are_independent_of_the_default_one() -> None:
    generator = mt.Generator()
    before = mt.get_rng_state().tolist()
    first = mt.rand(2, generator=generator).tolist()
    assert mt.get_rng_state().tolist() == before
    assert mt.rand(2, generator=mt.Generator()).tolist() == first
    assert generator.initial_seed() == mt.Generator().initial_seed()
    assert mt.Generator().manual_seed(5).initial_seed() == 5
    assert generator.seed() == generator.initial_seed()


@pytest.mark.parametrize("through", ["state", "pickle", "deepcopy"])
def test_streams_go_on_where_they_were(through: str) -> None:
    generator = mt.Generator().manual_seed(7)
    mt.randint(10, (3,), generator=generator, dtype=mt.int32)
    mt.rand(3, generator=generator)
    if through == "state":
        other = mt.Generator().set_state(generator.get_state())
    else:
        other = pickle.loads(pickle.dumps(generator)) if through == "pickle" else copy.deepcopy(generator)
    assert mt.randn(5, generator=other).tolist() == mt.randn(5, generator=generator).tolist()
    assert other.initial_seed() == 7


def test_threads_share_a_generator_safely() -> None:
    generator, drawn = mt.Generator(), []
    threads = [
        threading.Thread(target=lambda: drawn.extend(mt.randint(2**62, (1000,), generator=generator).tolist()))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(drawn)) == 4000


@pytest.mark.parametrize("dtype", FLOATING, ids=repr)
def test_distributions(dtype: mt.dtype) -> None:
    """Means and variances of 40,000 numbers within 5 standard errors, and bounds that no number oversteps."""
    generator, count = mt.Generator(), 40_000
    uniform = mt.rand(count, dtype=dtype, generator=generator)
    normal = mt.randn(count, dtype=dtype, generator=generator)
    assert (uniform.dtype, normal.dtype) == (dtype, dtype)
    u, z = uniform.to(mt.complex128).numpy(), normal.to(mt.complex128).numpy()
    assert 0 <= u.real.min() <= u.real.max() < 1
    assert abs(u.real.mean() - 0.5) < 5 * (1 / 12 / count) ** 0.5 + 2.0**-8
    assert abs(z.mean()) < 5 * (1 / count) ** 0.5
    assert abs((abs(z) ** 2).mean() - 1) < 5 * (2 / count) ** 0.5 + 2.0**-8
    filled = mt.zeros(count, dtype=dtype).normal_(3.0, 0.5, generator=generator).to(mt.complex128).numpy()
    assert abs(filled.mean() - 3) < 0.05
    spread = mt.zeros(count, dtype=dtype).uniform_(-2.0, 4.0, generator=generator).to(mt.complex128).numpy()
    assert -2 <= spread.real.min() < -1.9
    assert 3.9 < spread.real.max() <= 4


def test_integers_and_permutations() -> None:
    generator = mt.Generator()
    drawn = mt.randint(-3, 4, (7000,), generator=generator)
    assert drawn.dtype is mt.int64
    values, counts = np.unique(drawn.numpy(), return_counts=True)
    assert values.tolist() == [-3, -2, -1, 0, 1, 2, 3]
    assert abs(counts - 1000).max() < 150
    assert sorted(mt.randperm(50, generator=generator).tolist()) == list(range(50))
    assert mt.randperm(0).shape == (0,)
    assert mt.randint(5, (2,), dtype=mt.float32).dtype is mt.float32
    assert mt.randint_like(mt.ones(2, 3), 5).shape == (2, 3)
    assert mt.zeros(1000, dtype=mt.uint8).random_(generator=generator).max().item() > 250
    assert set(mt.zeros(100, dtype=mt.bool).random_(generator=generator).tolist()) == {True, False}
    assert mt.rand_like(mt.ones(2, dtype=mt.float64)).dtype is mt.float64
    assert mt.randn_like(mt.ones(2), dtype=mt.complex64).dtype is mt.complex64


def test_draws_with_probabilities() -> None:
    generator = mt.Generator()
    chances = mt.tensor([0.0, 0.25, 1.0]).expand(20_000, 3)
    means = mt.bernoulli(chances, generator=generator).mean(0)
    assert (means[0].item(), means[2].item()) == (0.0, 1.0)
    assert means[1].item() == pytest.approx(0.25, abs=0.02)
    assert mt.zeros(1000).bernoulli_(0.5, generator=generator).mean().item() == pytest.approx(0.5, abs=0.1)
    weights = mt.tensor([[1.0, 0.0, 3.0], [0.0, 2.0, 0.0]])
    drawn = mt.multinomial(weights, 8000, replacement=True, generator=generator)
    assert drawn.shape == (2, 8000)
    assert (drawn[0] == 2).double().mean().item() == pytest.approx(0.75, abs=0.03)
    assert (drawn[1] == 1).all()
    pairs = mt.multinomial(weights[0].expand(8000, 3), 2, generator=generator)
    assert set(map(tuple, pairs.tolist())) == {(0, 2), (2, 0)}
    assert (pairs[:, 0] == 2).double().mean().item() == pytest.approx(0.75, abs=0.03)
    assert mt.normal(mt.tensor([0.0, 100.0]), 1.0, generator=generator)[1].item() > 90
    assert mt.zeros(20_000).exponential_(2.0, generator=generator).mean().item() == pytest.approx(0.5, abs=0.02)


def test_random_numbers_in_place_are_writes() -> None:
    x = mt.ones(3, requires_grad=True)
    y = x * 2
    y.uniform_()
    assert y._version == 1
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0]
    with mt.no_grad():
        x.normal_()
    assert (x.requires_grad, x._version) == (True, 1)


# In and out of other libraries, copies and pickles


def test_dlpack_both_ways() -> None:
    array = np.arange(6.0).reshape(2, 3)
    for source in (array, array.T, array[:, 1:]):
        x = mt.from_dlpack(source)
        assert x.tolist() == source.tolist()
        assert np.shares_memory(x.numpy(), array)
        back = np.from_dlpack(x)
        back[0, 0] += 1
        assert x[0, 0].item() == back[0, 0]
    assert not np.shares_memory(mt.from_dlpack(array, copy=True).numpy(), array)
    assert mt.ones(2).__dlpack_device__() == (1, 0)
    for x, says in (
        (mt.ones(2, requires_grad=True), "detach"),
        (mt.from_numpy(np.arange(3)[::-1]), r"strides \[-1\].*contiguous"),
    ):
        with pytest.raises(BufferError, match=says):
            x.__dlpack__()


def test_dlpack_options() -> None:
    """The keywords of version 1.1 of the protocol, as a consumer passes them."""
    x = mt.from_numpy(np.arange(3.0)[::-1])
    assert np.from_dlpack(x, copy=True, device="cpu").tolist() == [2.0, 1.0, 0.0]
    fixed = np.arange(3.0)
    fixed.flags.writeable = False
    readonly = mt.from_dlpack(fixed)
    assert not np.from_dlpack(readonly).flags.writeable
    assert np.from_dlpack(readonly, copy=True).flags.writeable
    with pytest.raises(RuntimeError, match="read-only"):
        readonly.add_(1)
    for options in ({}, {"max_version": (0, 8)}, {"max_version": (1, 1), "dl_device": (2, 0)}):
        with pytest.raises(BufferError, match=r"read-only memory|unsupported device"):
            readonly.__dlpack__(**options)
    assert "versioned" in repr(readonly.__dlpack__(stream=-1, max_version=(1, 1), dl_device=(1, 0), copy=False))
    assert "versioned" not in repr(readonly.__dlpack__(copy=True))
    with pytest.raises(RuntimeError, match="stream must be None or -1"):
        readonly.__dlpack__(stream=2)


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_dlpack_of_bfloat16(version: tuple[int, int] | None) -> None:
    """Our own capsules, of both versions of the protocol; NumPy rejects the dtype."""
    x = mt.arange(6, dtype=mt.bfloat16).reshape(2, 3)
    for source in (x, x.mT, x[:, 1:], x[0, 0]):

        class Other:
            def __dlpack__(self, source=source, **options):
                return source.__dlpack__(max_version=version)

            def __dlpack_device__(self):
                return 1, 0

        again = mt.from_dlpack(Other())
        assert (again.dtype, again.tolist()) == (mt.bfloat16, source.tolist())
        if version is not None:  # without one, NumPy takes memory for read-only
            again += 1
        assert again.tolist() == source.tolist()
        assert np.shares_memory(again.numpy(), x.numpy())
        with pytest.raises((BufferError, RuntimeError)):
            np.from_dlpack(Other())
    twin = mt.from_dlpack(x, copy=True)
    twin.zero_()
    assert x.any()


def test_numpy_protocols() -> None:
    x = mt.arange(3.0)
    assert np.shares_memory(np.asarray(x), x.numpy())
    assert np.asarray(x, np.float64).dtype == np.float64
    assert np.array(x, copy=True).tolist() == [0.0, 1.0, 2.0]
    assert (np.sin(x.numpy()) == np.sin(np.arange(3, dtype=np.float32))).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=repr)
def test_pickles_and_deep_copies(dtype: mt.dtype) -> None:
    x = mt.ones(2, 3, dtype=dtype).mT
    for other in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x)):
        assert (other.dtype, other.shape, other.tolist()) == (dtype, (3, 2), x.tolist())
        assert not other.requires_grad
    assert copy.deepcopy(x).stride() == x.stride()
    copy.deepcopy(x).zero_()
    assert x.tolist() == mt.ones(3, 2, dtype=dtype).tolist()


def test_copies_of_leaves_keep_gradients_and_identity() -> None:
    x = mt.ones(2, requires_grad=True)
    (x * 3).sum().backward()
    both = copy.deepcopy([x, x])
    assert both[0] is both[1]
    assert (both[0].requires_grad, both[0].grad.tolist()) == (True, [3.0, 3.0])
    assert both[0].grad is not x.grad
    assert pickle.loads(pickle.dumps(x)).requires_grad


@pytest.mark.parametrize("dtype", DTYPES, ids=repr)
def test_deep_copies_share_memory_as_what_they_are_copies_of(dtype: mt.dtype) -> None:
    x = (mt.arange(12) % 5 + 1).reshape(4, 3).to(dtype)
    whole, rows, turned, alone = copy.deepcopy([x, x[1:3], x.mT[2:].detach(), mt.ones(2, dtype=dtype)])
    assert (rows.tolist(), turned.tolist()) == (x[1:3].tolist(), x.mT[2:].tolist())
    whole.zero_()
    assert not rows.any()
    assert not turned.any()
    assert (rows.stride(), turned.stride(), turned.dtype) == (x[1:3].stride(), x.mT[2:].stride(), dtype)
    assert rows._version == whole._version
    assert x.all()
    assert alone.all()


def test_asarray_keeps_the_history_unless_told_otherwise() -> None:
    x = mt.ones(2, requires_grad=True)
    assert mt.asarray(x) is x
    (mt.asarray(x * 2, copy=True) + mt.asarray(x, dtype=mt.float64)).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    assert not mt.asarray(x, requires_grad=False).requires_grad
    assert mt.asarray([1.0], requires_grad=True).requires_grad


def test_types_cannot_be_made() -> None:
    with pytest.raises(TypeError, match=r"new element types cannot be made; use one of bool.*mt\.float32"):
        mt.dtype("int4", 1, 1)


def test_unpickled_memory_has_the_dtype_object_that_fast_paths_compare():
    array = pickle.loads(pickle.dumps(np.ones((2, 2), np.float32)))
    for tensor in (mt.from_numpy(array), mt.as_tensor(array), mt.tensor(array), pickle.loads(pickle.dumps(mt.ones(2)))):
        assert tensor.detach().numpy().dtype is np.dtype(np.float32)


# Limits of the types


@pytest.mark.parametrize("dtype", [mt.float16, mt.bfloat16, mt.float32, mt.float64, mt.complex64])
def test_the_limits_of_floating_types_are_their_last_numbers(dtype: mt.dtype) -> None:
    limits = mt.finfo(dtype)
    real = dtype.to_real()
    assert limits.dtype == real.name
    assert limits.bits == 8 * real.itemsize
    one = mt.ones((), dtype=real)
    assert (one + limits.eps).item() == 1 + limits.eps
    assert (one + limits.eps / 2).item() == 1
    assert mt.full((), limits.max, dtype=real).item() == limits.max == -limits.min
    with np.errstate(over="ignore"):
        assert (mt.full((), limits.max, dtype=real) * (1 + limits.eps)).isinf()
    assert limits.smallest_normal == limits.tiny
    assert limits.tiny * limits.max * limits.eps > limits.eps
    assert limits.eps <= limits.resolution * 10
    assert np.log10(limits.resolution) % 1 == 0


def test_the_limits_of_no_type_are_those_of_the_default_one() -> None:
    assert mt.finfo() == mt.finfo(mt.get_default_dtype())


@pytest.mark.parametrize("dtype", INTEGERS)
def test_the_limits_of_integer_types_wrap_around(dtype: mt.dtype) -> None:
    limits = mt.iinfo(dtype)
    assert limits.dtype == dtype.name
    assert limits.bits == 8 * dtype.itemsize
    assert (mt.full((), limits.max, dtype=dtype) + 1).item() == limits.min


def test_numbers_for_nan_and_infinities_are_the_limits_of_the_dtype() -> None:
    for dtype in (mt.float16, mt.bfloat16, mt.float32, mt.float64, mt.complex64):
        limits = mt.finfo(dtype)
        found = mt.tensor([float("nan"), float("inf"), -float("inf"), 1.5], dtype=dtype).nan_to_num()
        assert found.tolist() == [0.0, limits.max, limits.min, 1.5]
        assert found.dtype == dtype
    with pytest.raises(RuntimeError, match=r"1e\+300 would become infinite"):
        mt.zeros(1).nan_to_num(posinf=1e300)


def test_the_type_of_a_list_is_that_of_all_its_numbers() -> None:
    T = mt.tensor
    for data, dtype, values in (
        ([T(1, dtype=mt.uint8), T(-1, dtype=mt.int8)], mt.int16, [1, -1]),
        ([T(1.0, dtype=mt.float16), T(1e6)], mt.float32, [1.0, 1e6]),
        ([2.5, T(3.0, dtype=mt.float64)], mt.float64, [2.5, 3.0]),
        ([T(1, dtype=mt.uint8), T(1000)], mt.int64, [1, 1000]),
        ([1, T(2.5, dtype=mt.bfloat16)], mt.bfloat16, [1.0, 2.5]),
        ([[T(1.0, dtype=mt.bfloat16)]], mt.bfloat16, [[1.0]]),
        ([np.int8(1), 2], mt.int64, [1, 2]),
        ([True, np.int8(1)], mt.int8, [1, 1]),
        ([1.0, np.float64(2)], mt.float64, [1.0, 2.0]),
        ([np.array([1, 2], np.int8), np.array([1, 2], np.int16)], mt.int16, [[1, 2], [1, 2]]),
    ):
        found = T(data)
        assert (found.dtype, found.tolist()) == (dtype, values)


def test_each_element_is_drawn_whatever_the_shape_of_the_probabilities() -> None:
    mt.manual_seed(0)
    assert 0.4 < mt.empty(1000).bernoulli_(mt.tensor(0.5)).mean() < 0.6
    means = mt.empty(1000, 3).bernoulli_(mt.tensor([0.1, 0.5, 0.9])).mean(0)
    assert means.tolist() == pytest.approx([0.1, 0.5, 0.9], abs=0.06)
    with pytest.raises(RuntimeError, match="must match the existing size"):
        mt.empty(4).bernoulli_(mt.tensor([0.1, 0.5, 0.9]))


def test_integer_ranges_are_of_numbers_that_were_cut_to_integers() -> None:
    assert mt.arange(-1.5, 2.5, dtype=mt.int32).tolist() == [-1, 0, 1, 2]
    assert mt.arange(0.1, 2.5, 1, dtype=mt.int64).tolist() == [0, 1]
    assert mt.arange(5.5, 0.5, -1.5, dtype=mt.int16).tolist() == [5, 4, 3, 2]
    with pytest.raises(ValueError, match="is cut to 0"):
        mt.arange(0, 5, 0.5, dtype=mt.int64)
    assert mt.linspace(0.5, 2.5, 6, dtype=mt.int64).tolist() == [0, 0, 0, 1, 1, 2]
    assert mt.logspace(3, 0.5, 4, dtype=mt.int16).tolist() == [1000, 100, 10, 1]


@pytest.mark.parametrize("copy", [
    lambda x: x.clone(), lambda x: x.double(), mt.zeros_like, mt.empty_like, lambda x: mt.full_like(x, 2), mt.rand_like,
    mt.randn_like, lambda x: mt.randint_like(x, 9),
])  # fmt: skip
def test_copies_are_laid_out_as_what_they_are_made_of_and_in_rows_where_that_repeats(copy: Callable) -> None:
    assert copy(mt.arange(4.0).expand(3, 4)).stride() == (4, 1)
    assert copy(mt.zeros(2, 3).t()).stride() == (1, 3)


def test_large_integers_as_floats() -> None:
    assert mt.tensor([2**65, 1], dtype=mt.float64).tolist() == [2.0**65, 1.0]
    assert mt.tensor(2**63, dtype=mt.float32).item() == 2.0**63
    with pytest.raises(ValueError, match="fit in 64 bits"):
        mt.tensor([2**64])


def test_what_a_type_cannot_draw_is_refused() -> None:
    assert sorted(mt.randperm(2049, dtype=mt.float16).tolist()) == list(range(2049))
    with pytest.raises(RuntimeError, match="n cannot be greater than 2049"):
        mt.randperm(2050, dtype=mt.float16)
    for bounds in ((0, 1e6), (0, math.inf), (0, math.nan), (-6e4, 6e4)):
        with pytest.raises(RuntimeError, match="uniform_"):
            mt.zeros(3).half().uniform_(*bounds)


def test_sizes_stay_sizes() -> None:
    size = mt.zeros(2, 3, 4).shape
    assert (size[1:].numel(), size[0], size[-1]) == (12, 2, 4)
    parts = [size[:2], size + tuple(size), tuple(size) + size, size + size, size * 2, 2 * size]
    assert {type(each) for each in parts} == {type(size)}


def test_fields_of_packed_records_are_copied_or_refused() -> None:
    """Their strides are not multiples of the element's size, so stride() cannot tell where elements lie."""
    records = np.zeros(4, [("tag", "u1", 3), ("value", "f4")])
    records["value"] = [1, 2, 3, 4]
    with pytest.raises(ValueError, match="strides must be multiples of its 4-byte elements, got"):
        mt.from_numpy(records["value"])
    for made in (mt.tensor, mt.as_tensor, mt.asarray):
        x = made(records["value"])
        assert x.as_strided((4,), x.stride()).tolist() == [1, 2, 3, 4]
    with pytest.raises(ValueError, match="without a copy"):
        mt.asarray(records["value"], copy=False)
    assert mt.from_numpy(records["value"][:1]).tolist() == [1.0]
