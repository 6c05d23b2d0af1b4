"""Tensors of random numbers, new ones and in place."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ...autograd.mutation import refuse_unwritable
from ...dispatch.out_argument import written_out
from ...random import Generator, default_generator
from ...tensor.call_errors import argument_errors, install, refuse_other_than_tensor
from ...tensor.casting import cast_checked, cast_unchecked
from ...tensor.dtypes import BOOL, INTEGER, DType, dtype_of, dtype_or_default, int64, to_dtype
from ...tensor.size import addressable
from ...tensor.tensor import Tensor, adopt
from ..dims import integer
from ..limits import finfo
from ..views.broadcasting import broadcast_shapes
from .factories import Draw, accept_aliases, empty_like, factory, shape_given

__all__ = [
    "bernoulli", "binomial", "multinomial", "normal", "poisson", "rand", "rand_like", "randint", "randint_like",
    "randn", "randn_like", "randperm",
]  # fmt: skip


def generator_or_default(generator: Generator | None) -> Generator:
    """The generator to draw from. Raises TypeError for anything but a `Generator` or None."""
    if generator is None:
        return default_generator
    if not isinstance(generator, Generator):
        raise TypeError(
            f"generator is a Generator or None, got {type(generator).__name__}; use mt.Generator().manual_seed(...)"
        )
    return generator


def _refuse_narrow(name: str, dtype: DType) -> None:
    """Raise NotImplementedError for 8-bit floats, as torch does."""
    if dtype.letter in "np":
        raise NotImplementedError(f"{name}() does not draw {dtype!r}; use {name}(..., dtype=mt.float32).to({dtype!r})")


def _floating(name: str, dtype: Any) -> DType:
    """The dtype to draw in. Raises NotImplementedError, a RuntimeError, for integers."""
    dtype = dtype_or_default(dtype)
    _refuse_narrow(name, dtype)
    if dtype.category <= INTEGER:
        raise NotImplementedError(f"{name} draws floating and complex numbers, got dtype={dtype!r}; use randint")
    return dtype


@factory()
def rand(*sizes: Any, size: Any = None, generator: Generator | None = None, dtype: Any = None) -> Draw:
    """Numbers in [0, 1), all equally likely; complex ones in both parts."""
    shape, wanted, stream = shape_given(sizes, size), _floating("rand", dtype), generator_or_default(generator)
    return Draw(wanted.dtype, lambda: stream.uniform(shape, wanted))


@factory()
def randn(*sizes: Any, size: Any = None, generator: Generator | None = None, dtype: Any = None) -> Draw:
    """Normal numbers of mean 0 and variance 1; the parts of complex ones have variance 1/2."""
    shape, wanted, stream = shape_given(sizes, size), _floating("randn", dtype), generator_or_default(generator)
    return Draw(wanted.dtype, lambda: stream.normal(shape, wanted))


def _bounds(name: str, low: Any, high: Any) -> tuple[int, int]:
    """Return the bounds of integers; a single bound is the upper one, and 0 the lower one."""
    low, high = (0, low) if high is None else (0 if low is None else low, high)
    if high is None:
        raise TypeError(f"{name}() is missing the required argument 'high'")
    return integer(name, "low", low), integer(name, "high", high)


def _integers(low: int, high: int, shape: tuple[int, ...], generator: Generator | None, dtype: Any) -> Draw:
    """Random integers of a dtype. Raises RuntimeError for an empty range, or one beyond the dtype."""
    if low >= high:
        raise RuntimeError(f"random integers need low < high, got low={low} >= high={high}")
    dtype = int64 if dtype is None else to_dtype(dtype)
    _refuse_narrow("randint", dtype)
    if dtype.category == INTEGER or dtype.category == BOOL:
        for bound in (low, high - 1):
            limits = (0, 1) if dtype.category == BOOL else (np.iinfo(dtype.dtype).min, np.iinfo(dtype.dtype).max)
            if not limits[0] <= bound <= limits[1]:
                raise RuntimeError(
                    f"random integers from {low} to {high - 1} are out of bounds for {dtype!r}, {limits[0]} to "
                    f"{limits[1]}"
                )
    stream = generator_or_default(generator)
    return Draw(dtype.dtype, lambda: stream.integers(low, high, shape).astype(dtype.dtype))


@factory()
def randint(
    low: Any = None, high: Any = None, size: Any = None, *, generator: Generator | None = None, dtype: Any = None
) -> Draw:
    """Integers from `low` to `high` - 1, all equally likely: `randint(low, high, size)`, or `randint(high, size)` for
    integers from 0. Raises TypeError for a size other than a tuple."""
    if size is None and isinstance(high, (tuple, list)):
        low, high, size = 0, low, high
    low, high = _bounds("randint", low, high)
    if not isinstance(size, (tuple, list)):
        raise TypeError(f"randint(): argument 'size' must be a tuple of ints, not {type(size).__name__}")
    return _integers(low, high, shape_given((), tuple(size)), generator, dtype)


@factory()
def randperm(n: int, *, generator: Generator | None = None, dtype: Any = None) -> Draw:
    """The integers 0 to n - 1 in random order. Raises RuntimeError for a negative n, or one beyond the dtype."""
    (count,) = shape_given((n,), None)
    wanted = int64 if dtype is None else to_dtype(dtype)
    _refuse_narrow("randperm", wanted)
    cast_checked(np.asarray(max(count - 1, 0)), wanted)
    whole = 2 ** _SIGNIFICANDS.get(wanted.name, 64)
    if count > whole + 1:
        raise RuntimeError(f"n cannot be greater than {whole + 1} for {wanted!r}, which skips integers, got {count}")
    stream = generator_or_default(generator)
    return Draw(wanted.dtype, lambda: stream.permutation(count).astype(wanted.dtype))


def _laid_out(draw: Draw, like: Tensor) -> Draw:
    """Random numbers laid out in memory as a tensor."""
    if like._array.flags.c_contiguous:
        return draw

    def numbers() -> np.ndarray:
        out = empty_like(like, dtype=draw.dtype)._array
        out[...] = draw.numbers()
        return out

    return Draw(draw.dtype, numbers)


@factory(takes_out=False)
def rand_like(input: Tensor, *, dtype: Any = None, generator: Generator | None = None) -> Draw:
    """`rand` in the shape of `input`, and in its dtype unless another is given."""
    refuse_other_than_tensor("rand_like", "input", input)
    wanted, stream = _floating("rand", dtype or input.dtype), generator_or_default(generator)
    return _laid_out(Draw(wanted.dtype, lambda: stream.uniform(tuple(input.shape), wanted)), input)


@factory(takes_out=False)
def randn_like(input: Tensor, *, dtype: Any = None, generator: Generator | None = None) -> Draw:
    """`randn` in the shape of `input`, and in its dtype unless another is given."""
    refuse_other_than_tensor("randn_like", "input", input)
    wanted, stream = _floating("randn", dtype or input.dtype), generator_or_default(generator)
    return _laid_out(Draw(wanted.dtype, lambda: stream.normal(tuple(input.shape), wanted)), input)


@factory(takes_out=False)
def randint_like(
    input: Tensor, low: Any = None, high: Any = None, *, dtype: Any = None, generator: Generator | None = None
) -> Draw:
    """`randint` in the shape of `input`, and in its dtype unless another is given."""
    refuse_other_than_tensor("randint_like", "input", input)
    low, high = _bounds("randint_like", low, high)
    return _laid_out(_integers(low, high, tuple(input.shape), generator, dtype or input.dtype), input)


@factory()
def normal(
    mean: float | Tensor,
    std: float | Tensor = 1.0,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
) -> Draw:
    """Normal numbers of a mean and a standard deviation: two numbers with a `size`, or tensors that broadcast.

    No gradient flows to them. Raises RuntimeError for a negative standard deviation, TypeError without a size where
    both are numbers.
    """
    means, stds = (each._array if isinstance(each, Tensor) else np.asarray(float(each)) for each in (mean, std))
    if (stds < 0).any():
        raise RuntimeError(f"normal expects all elements of std >= 0.0, got {stds.min()}")
    if size is None and not isinstance(mean, Tensor) and not isinstance(std, Tensor):
        raise TypeError("normal(): size is required when neither mean nor std is a Tensor")
    shape = broadcast_shapes(means.shape, stds.shape) if size is None else shape_given((), size)
    typed = [dtype_of(each._array) for each in (mean, std) if isinstance(each, Tensor)]
    wanted = _floating("normal", typed[0] if typed and dtype is None else dtype)
    broadcast_shapes(means.shape, stds.shape, shape)
    stream = generator_or_default(generator)
    return Draw(wanted.dtype, lambda: cast_unchecked(stream.normal(tuple(shape), wanted) * stds + means, wanted.dtype))


@argument_errors
def bernoulli(
    input: Tensor, p: float | None = None, *, generator: Generator | None = None, out: Tensor | None = None
) -> Tensor:
    """1 with the probabilities in `input` (or with probability `p`), else 0.

    Raises RuntimeError unless they are in [0, 1], NotImplementedError for integers without `p`.
    """
    refuse_other_than_tensor("bernoulli", "input", input)
    _refuse_narrow("bernoulli", input.dtype)
    if p is None and not input.is_floating_point():
        raise NotImplementedError(f"bernoulli() is not implemented for {input.dtype!r}; expected floating tensors")
    chances = input._array if p is None else np.broadcast_to(np.float64(p), input._array.shape)
    if not ((chances >= 0) & (chances <= 1)).all():
        raise RuntimeError(f"bernoulli expects probabilities in [0, 1], got {chances.min()} to {chances.max()}")
    stream = generator_or_default(generator)

    def draw() -> Tensor:
        return adopt((stream.uniform(chances.shape, np.float64) < chances).astype(input._array.dtype))

    return written_out("bernoulli", draw, out, (input,), input.dtype)


@argument_errors
def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """`num_samples` positions, drawn with the weights in `input`, a vector or rows of weights that need not sum to 1.

    Without replacement by sorting exponential variates over the weights (Efraimidis and Spirakis, "Weighted random
    sampling with a reservoir", 2006). Raises RuntimeError for negative, infinite or all-zero weights and for too many
    samples.
    """
    refuse_other_than_tensor("multinomial", "input", input)
    num_samples = integer("multinomial", "num_samples", num_samples)
    _refuse_narrow("multinomial", input.dtype)
    if not input.is_floating_point():
        raise RuntimeError(f"multinomial(): input must be a floating tensor, got {input.dtype!r}; use input.float()")
    weights = input._array.astype(np.float64)
    if weights.ndim not in (1, 2) or weights.shape[-1] == 0:
        raise RuntimeError(f"multinomial takes a vector or rows of weights, got shape {list(weights.shape)}")
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise RuntimeError(
            "probability tensor contains either `inf`, `nan` or element < 0; expected finite weights of at least 0"
        )
    totals, available = weights.sum(-1, keepdims=True), (weights > 0).sum(-1)
    if (
        num_samples < 1
        or (totals == 0).any()
        or (not replacement and num_samples > available.min(initial=weights.shape[-1]))
    ):
        raise RuntimeError(
            f"cannot draw {num_samples} samples {'with' if replacement else 'without'} replacement from "
            f"{weights.shape[-1]} weights with {available.min(initial=weights.shape[-1])} positive ones"
        )
    addressable((*weights.shape[:-1], num_samples))
    stream = generator_or_default(generator)
    drawn = functools.partial(_draw_indices, weights, num_samples, replacement, stream)
    return written_out("multinomial", lambda: adopt(drawn()), out, (input,), int64)


def _draw_indices(weights: np.ndarray, num_samples: int, replacement: bool, stream: Generator) -> np.ndarray:
    if not replacement:
        with np.errstate(divide="ignore"):
            keys = stream.exponential(weights.shape) / weights
        return np.argsort(keys, axis=-1, kind="stable")[..., :num_samples].astype(np.int64)
    bounds = (weights / weights.sum(-1, keepdims=True)).cumsum(-1)
    drawn = stream.uniform((*weights.shape[:-1], num_samples), np.float64) * bounds[..., -1:]
    rows = zip(bounds.reshape(-1, weights.shape[-1]), drawn.reshape(-1, num_samples), strict=True)
    found = [np.searchsorted(bound, each, side="right") for bound, each in rows]
    return np.asarray(found, np.int64).reshape(drawn.shape)


# In-place forms. Each copies a newly drawn tensor, so `copy_` performs all checks and the recording.


def fill(name: str, self: Tensor, draw: Callable[[], np.ndarray]) -> Tensor:
    """Write drawn numbers into a tensor, or raise before any is drawn."""
    refuse_unwritable(name, self)
    return self.copy_(adopt(draw()))


@accept_aliases(**{"from": "from_"})
def _uniform_(self: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Write numbers in [from, to), all equally likely.

    Raises RuntimeError for from > to, and for bounds that the dtype does not hold.
    """
    from_, to = float(from_), float(to)
    if not from_ <= to:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={from_:g} > to={to:g}")
    greatest = float(finfo(_floating("uniform_", self.dtype)).max)
    if not -greatest <= from_ <= to <= greatest or to - from_ > greatest:
        raise RuntimeError(f"uniform_: from={from_} or to={to} is out of bounds for {self.dtype!r}, up to {greatest}")
    stream, dtype = generator_or_default(generator), _floating("uniform_", self.dtype)
    return fill("uniform", self, lambda: stream.uniform(self._array.shape, dtype) * (to - from_) + from_)


def _normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Write normal numbers. Raises RuntimeError for a negative standard deviation."""
    mean, std = float(mean), float(std)
    if not std >= 0:
        raise RuntimeError(f"normal_ expects std >= 0.0, but found std={std}")
    stream, dtype = generator_or_default(generator), _floating("normal_", self.dtype)
    return fill("normal", self, lambda: stream.normal(self._array.shape, dtype) * std + mean)


_SIGNIFICANDS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
"""The bits of a floating type's significand: up to 2 to this power, it holds every integer."""


@accept_aliases(**{"from": "from_"})
def _random_(self: Tensor, from_: int = 0, to: int | None = None, *, generator: Generator | None = None) -> Tensor:
    """Write integers from `from` to `to` - 1; `random_(to)` starts at 0, and without arguments the dtype is the
    limit."""
    if to is None and from_:
        from_, to = 0, from_
    if to is None:
        bits = 1 if self.dtype.category == BOOL else 8 * self.itemsize - self.dtype.is_signed
        to = 2 ** min(_SIGNIFICANDS.get(self.dtype.to_real().name, bits), 62)
    from_, to = integer("random_", "from", from_), integer("random_", "to", to)
    return fill("random", self, _integers(from_, to, self._array.shape, generator, self.dtype).numbers)


def _bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Write 1 with probability `p`, a number or a tensor of probabilities, else 0.

    Raises RuntimeError unless in [0, 1], and for probabilities that do not broadcast to this tensor.
    """
    shape = self._array.shape
    chances = p.expand(shape) if isinstance(p, Tensor) else adopt(np.full(shape, p, np.float64))
    return fill("bernoulli", self, lambda: bernoulli(chances, generator=generator)._array)


def _exponential_(self: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Write exponentially distributed numbers of rate `lambd`. Raises RuntimeError unless it is positive."""
    lambd = float(lambd)
    if not lambd > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    if not self.is_floating_point():
        raise RuntimeError(f"exponential_(): the dtype must be floating, got {self.dtype!r}")
    stream, dtype = generator_or_default(generator), _floating("exponential_", self.dtype).dtype
    return fill("exponential", self, lambda: cast_unchecked(stream.exponential(self._array.shape) / lambd, dtype))


install(uniform_=_uniform_, normal_=_normal_, random_=_random_, bernoulli_=_bernoulli_, exponential_=_exponential_)
Tensor.bernoulli, Tensor.multinomial = bernoulli, multinomial  # type: ignore[method-assign]


# Random numbers of further distributions: Poisson and binomial ones; and geometric, Cauchy and lognormal ones
# written in place.


def _floating_argument(name: str, argument: str, value: Any) -> np.ndarray:
    """The values of a floating tensor in float64."""
    refuse_other_than_tensor(name, argument, value)
    if not value.is_floating_point():
        raise RuntimeError(f"{name}(): argument {argument!r} must be a floating tensor, got {value.dtype!r}")
    return value._array.astype(np.float64)


@argument_errors
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Numbers of events, each drawn from a Poisson distribution with the rate that `input` has there.

    Raises RuntimeError for negative rates, and tensors that are not floating.
    """
    rates = _floating_argument("poisson", "input", input)
    if not (rates >= 0).all():
        raise RuntimeError(f"poisson(): rates must be at least 0, got {rates.min()}")
    return adopt(cast_unchecked(generator_or_default(generator)._poisson(rates), input._array.dtype))


@argument_errors
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Numbers of successes in `count` trials, each with the probability `prob`; the two broadcast.

    Raises RuntimeError for counts that are negative, probabilities beyond [0, 1], and tensors that are not floating.
    """
    counts, chances = _floating_argument("binomial", "count", count), _floating_argument("binomial", "prob", prob)
    if not ((counts >= 0).all() and (chances >= 0).all() and (chances <= 1).all()):
        raise RuntimeError("binomial(): count must be at least 0 and prob from 0 to 1, got others among them")
    shape = broadcast_shapes(counts.shape, chances.shape)
    drawn = generator_or_default(generator)._binomial(np.broadcast_to(counts, shape), np.broadcast_to(chances, shape))
    return adopt(cast_unchecked(drawn, count._array.dtype))


# In place


def _fill(name: str, self: Tensor, draw: Callable[[Generator], np.ndarray], generator: Generator | None) -> Tensor:
    stream, dtype = generator_or_default(generator), self._array.dtype
    if name != "geometric" and not self.is_floating_point():
        raise RuntimeError(f"{name}_(): the dtype must be floating, got {self.dtype!r}")
    return fill(name, self, lambda: cast_unchecked(draw(stream), dtype))


def _cauchy_(self: Tensor, median: float = 0, sigma: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Write Cauchy distributed numbers around `median`, of scale `sigma`. Raises RuntimeError unless it is positive."""
    if not sigma > 0:
        raise RuntimeError(f"cauchy_(): sigma must be positive, got {sigma}")
    shape = self._array.shape
    return _fill(
        "cauchy",
        self,
        lambda stream: median + sigma * np.tan(np.pi * (stream.uniform(shape, np.float64) - 0.5)),
        generator,
    )


def _geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Write numbers of trials up to the first success, each of probability `p`. Raises RuntimeError unless p is in
    (0, 1)."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_(): p must be in (0, 1), got {p}")
    return _fill("geometric", self, lambda stream: stream._geometric(p, self._array.shape), generator)


def _log_normal_(self: Tensor, mean: float = 1, std: float = 2, *, generator: Generator | None = None) -> Tensor:
    """Write exponentials of normal numbers. Raises RuntimeError unless `std` is positive."""
    if not std > 0:
        raise RuntimeError(f"log_normal_(): std must be positive, got {std}")
    shape = self._array.shape
    return _fill("log_normal", self, lambda stream: np.exp(mean + std * stream.normal(shape, np.float64)), generator)


install(cauchy_=_cauchy_, geometric_=_geometric_, log_normal_=_log_normal_)
