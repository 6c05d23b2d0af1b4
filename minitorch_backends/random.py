"""Streams of random numbers, and the default one.

The stream is that of NumPy's PCG64 (O'Neill, "PCG: A family of simple fast space-efficient statistically good
algorithms for random number generation", 2014). It is the same on every platform for one seed, and another one than
torch's.
"""

from __future__ import annotations

import contextlib
import functools
import secrets
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import numpy as np

from .dispatch import instrumentation
from .dispatch.call_errors import argument_errors
from .kernels import scaling
from .tensor.dtypes import COMPLEX, DType, to_dtype
from .tensor.memory import CPU, refuse_device
from .tensor.memory import device as Device
from .tensor.tensor import Tensor, adopt

__all__ = [
    "Generator", "default_generator", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state",
]  # fmt: skip

_SEED = 67280421310721
"""The seed of a new generator, which is torch's: with it, `Generator()` draws the same numbers every time."""

_WORD = 1 << 64


_drawn_as: ContextVar[DType | None] = ContextVar("drawn_as", default=None)


@contextlib.contextmanager
def drawn_as(dtype: DType) -> Iterator[None]:
    """In the block, random numbers in float64 of this thread or task are those of `dtype`, converted: a function
    computes with the same ones whether its default dtype is float64 or `dtype`."""
    token = _drawn_as.set(dtype)
    try:
        yield
    finally:
        _drawn_as.reset(token)


class Generator:
    """A stream of random numbers, which all functions here take as `generator=`. Safe to share between threads."""

    def __init__(self, device: Any = "cpu") -> None:
        refuse_device(device)
        self.manual_seed(_SEED)

    @property
    def device(self) -> Device:
        return CPU

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream that belongs to `seed`, from -2**63 to 2**64 - 1. Raises ValueError for others."""
        try:
            number = int(seed)
        except (TypeError, ValueError, OverflowError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"manual_seed(): seed must be an integer, got {seed!r}") from None
        if not -_WORD // 2 <= number < _WORD:
            raise ValueError(f"seed {seed!r} is out of range; expected -2**63 to 2**64 - 1")
        self._seed = number % _WORD
        self._numpy = np.random.Generator(np.random.PCG64(self._seed))
        return self

    def seed(self) -> int:
        """Start the stream of a seed that the operating system draws, and return the seed."""
        return self.manual_seed(secrets.randbits(63)).initial_seed()

    def initial_seed(self) -> int:
        """The seed that the stream was started with."""
        return self._seed

    def get_state(self) -> Tensor:
        """All that the next numbers depend on, as 56 bytes."""
        state = self._numpy.bit_generator.state
        words = (
            (state["state"]["state"], 16),
            (state["state"]["inc"], 16),
            (self._seed, 8),
            (state["has_uint32"], 8),
            (state["uinteger"], 8),
        )
        return adopt(np.frombuffer(b"".join(word.to_bytes(size, "little") for word, size in words), np.uint8).copy())

    def set_state(self, new_state: Tensor) -> Generator:
        """Go on from a state that `get_state` returned.

        Raises TypeError for anything else, RuntimeError for other sizes.
        """
        if not isinstance(new_state, Tensor) or new_state._array.dtype != np.uint8:
            raise TypeError(f"a state is a tensor of mt.uint8, as get_state() returns, got {type(new_state).__name__}")
        data = new_state._array.tobytes()
        if len(data) != 56:
            raise RuntimeError(f"a state has 56 bytes, as get_state() returns, got {len(data)}")
        state, inc, seed, has, word = (
            int.from_bytes(data[a:b], "little") for a, b in ((0, 16), (16, 32), (32, 40), (40, 48), (48, 56))
        )
        self._seed = seed
        self._numpy.bit_generator.state = {
            "bit_generator": "PCG64", "state": {"state": state, "inc": inc}, "has_uint32": has, "uinteger": word,
        }  # fmt: skip
        return self

    def __reduce__(self) -> tuple:
        return _restored, (self.get_state(),)

    # What is drawn, as arrays

    def _stream(self) -> np.random.Generator:
        """NumPy's generator; inside `vmap` it may be refused."""
        if instrumentation.drawing is not None:
            instrumentation.drawing()
        return self._numpy

    def uniform(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Numbers in [0, 1), of a floating type; for half types multiples of 2**-11 and 2**-8, so that none rounds to
        1.
        """
        dtype = to_dtype(dtype)
        if (source := _drawn_as.get()) is not None and dtype.name == "float64" != source.name:
            return self.uniform(shape, source).astype(np.float64)
        if dtype.itemsize == 2:
            steps = 2.0 ** (11 if dtype.name == "float16" else 8)
            return (np.floor(self._stream().random(shape, np.float32) * steps) / steps).astype(dtype.dtype)
        if dtype.category == COMPLEX:
            return self._pairs(self.uniform, shape, dtype)
        return self._stream().random(shape, dtype.dtype)

    def normal(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Normal numbers of mean 0 and variance 1; the parts of complex ones have variance 1/2."""
        dtype = to_dtype(dtype)
        if (source := _drawn_as.get()) is not None and dtype.name == "float64" != source.name:
            return self.normal(shape, source).astype(np.float64)
        if dtype.category == COMPLEX:
            return self._pairs(self.normal, shape, dtype) * dtype.dtype.type(0.5**0.5)
        drawn = self._stream().standard_normal(shape, np.float64 if dtype.name == "float64" else np.float32)
        return drawn if drawn.dtype == dtype.dtype else drawn.astype(dtype.dtype)

    def _pairs(self, draw: Any, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
        return draw((*shape, 2), dtype.to_real()).view(dtype.dtype)[..., 0]

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> np.ndarray:
        """Integers from `low` to `high` - 1, of int64."""
        return self._stream().integers(low, high, shape, np.int64)

    def permutation(self, n: int) -> np.ndarray:
        """0 to n - 1 in random order, of int64."""
        return self._stream().permutation(n)

    def _poisson(self, rates: np.ndarray) -> np.ndarray:
        """Poisson distributed numbers of events, of int64."""
        return self._stream().poisson(rates)

    def _binomial(self, counts: np.ndarray, chances: np.ndarray) -> np.ndarray:
        """Binomially distributed numbers of successes, of int64."""
        return self._stream().binomial(counts.astype(np.int64), chances)

    def _geometric(self, p: float, shape: tuple[int, ...]) -> np.ndarray:
        """Numbers of trials up to the first success, of int64."""
        return self._stream().geometric(p, shape)

    def _von_mises(self, loc: np.ndarray, concentration: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Angles of a von Mises distribution, in float64."""
        return self._stream().vonmises(loc, concentration, shape)

    def exponential(self, shape: tuple[int, ...]) -> np.ndarray:
        """Exponentially distributed numbers of mean 1, of float64."""
        return self._stream().standard_exponential(shape)


def _restored(state: Tensor) -> Generator:
    return Generator().set_state(state)


default_generator = Generator()
"""What functions draw from when no `generator` is given. It starts with a seed of the operating system's."""
default_generator.seed()
scaling.draw_seed = lambda: int(default_generator.integers(0, 1 << 32, ()))


def rewinding(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function that raises put the default generator back, so that a call that is refused has drawn nothing."""

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        before = default_generator.get_state()
        try:
            return function(*args, **named)
        except Exception:
            default_generator.set_state(before)
            raise

    return call


def manual_seed(seed: int) -> Generator:
    """Start the default generator's stream that belongs to `seed`, and return the generator."""
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Start the default generator with a seed of the operating system's, and return the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed that the default generator was started with."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The state of the default generator."""
    return default_generator.get_state()


@argument_errors
def set_rng_state(new_state: Tensor) -> None:
    """Put the default generator into a state that `get_rng_state` returned."""
    default_generator.set_state(new_state)
