"""Random number generators, and the default one.

The stream is NumPy's PCG64 (O'Neill, "PCG: A family of simple fast space-efficient statistically good algorithms for
random number generation", 2014). A seed gives the same numbers on every platform; they differ from torch's.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy as np

from .kernels.precisions import scaling
from .kernels.runtime.context import Binding, restorable
from .kernels.runtime.locks import open_in_children
from .tensor import instrumentation
from .tensor.call_errors import argument_errors
from .tensor.dtypes import COMPLEX, DType, to_dtype
from .tensor.memory import CPU, refuse_device
from .tensor.memory import device as Device
from .tensor.tensor import Tensor, adopt

__all__ = [
    "Generator", "default_generator", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state",
]  # fmt: skip

_SEED = 67280421310721
"""The initial seed of a new generator, as in torch: `Generator()` draws the same numbers every time."""

_WORD = 1 << 64


_drawn_as: ContextVar[DType | None] = ContextVar("drawn_as", default=None)
restorable(_drawn_as)


def drawn_as(dtype: DType) -> Binding:
    """Draw random float64 numbers in this thread or task as numbers of `dtype`, converted, while the block runs.

    A function then computes with the same random numbers whether its default dtype is float64 or `dtype`.
    """
    return Binding(_drawn_as, dtype)


class Generator:
    """A random number generator, accepted by every random function as `generator=`. Safe to share between threads."""

    def __init__(self, device: Any = "cpu") -> None:
        refuse_device(device)
        self.manual_seed(_SEED)

    @property
    def device(self) -> Device:
        return CPU

    def manual_seed(self, seed: int) -> Generator:
        """Seed the generator with an integer from -2**63 to 2**64 - 1. Raises ValueError for other integers."""
        try:
            number = int(seed)
        except (TypeError, ValueError, OverflowError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"manual_seed(): seed must be an integer, got {seed!r}") from None
        if not -_WORD // 2 <= number < _WORD:
            raise ValueError(f"manual_seed(): seed must be from -2**63 to 2**64 - 1, got {seed!r}")
        self._seed = number % _WORD
        self._numpy = np.random.Generator(np.random.PCG64(self._seed))
        open_in_children(self._numpy.bit_generator.lock)  # another thread may draw while this one forks
        return self

    def seed(self) -> int:
        """Seed the generator from the operating system, and return the seed."""
        return self.manual_seed(secrets.randbits(63)).initial_seed()

    def initial_seed(self) -> int:
        """The seed that the generator was last seeded with."""
        return self._seed

    def get_state(self) -> Tensor:
        """The full state of the generator, as 56 bytes (uint8)."""
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
        """Continue from a state that `get_state` returned.

        Raises TypeError if the state is not a uint8 tensor, and RuntimeError if it does not have 56 elements.
        """
        if not isinstance(new_state, Tensor) or new_state._array.dtype != np.uint8:
            raise TypeError(
                "set_state(): state must be a tensor of mt.uint8, as get_state() returns, got "
                f"{type(new_state).__name__}"
            )
        data = new_state._array.tobytes()
        if len(data) != 56:
            raise RuntimeError(f"set_state(): state must have 56 bytes, as get_state() returns, got {len(data)}")
        state, inc, seed, has, word = (
            int.from_bytes(data[a:b], "little") for a, b in ((0, 16), (16, 32), (32, 40), (40, 48), (48, 56))
        )
        self._seed = seed
        self._numpy.bit_generator.state = {
            "bit_generator": "PCG64", "state": {"state": state, "inc": inc}, "has_uint32": has, "uinteger": word,
        }  # fmt: skip
        return self

    def __reduce__(self) -> tuple:
        return _restore, (self.get_state(),)

    # Distributions, as arrays

    def _stream(self) -> np.random.Generator:
        """NumPy's generator for the next draw. `vmap` may forbid random calls."""
        if instrumentation.drawing is not None:
            instrumentation.drawing()
        return self._numpy

    def uniform(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Uniform numbers in [0, 1) of a floating dtype.

        float16 numbers are multiples of 2**-11 and bfloat16 ones of 2**-8, so that none rounds to 1.
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
        """Integers from `low` to `high` - 1, int64."""
        return self._stream().integers(low, high, shape, np.int64)

    def permutation(self, n: int) -> np.ndarray:
        """A random permutation of 0 to n - 1, int64."""
        return self._stream().permutation(n)

    def _poisson(self, rates: np.ndarray) -> np.ndarray:
        """Poisson-distributed counts, int64."""
        return self._stream().poisson(rates)

    def _binomial(self, counts: np.ndarray, chances: np.ndarray) -> np.ndarray:
        """Binomially distributed numbers of successes, int64."""
        return self._stream().binomial(counts.astype(np.int64), chances)

    def _geometric(self, p: float, shape: tuple[int, ...]) -> np.ndarray:
        """Geometrically distributed numbers of trials up to the first success, int64."""
        return self._stream().geometric(p, shape)

    def exponential(self, shape: tuple[int, ...]) -> np.ndarray:
        """Exponentially distributed numbers of mean 1, float64."""
        return self._stream().standard_exponential(shape)


def _restore(state: Tensor) -> Generator:
    return Generator().set_state(state)


default_generator = Generator()
"""The generator that random functions use without `generator=`. The operating system gives its first seed."""
default_generator.seed()
scaling.draw_seed = lambda: int(default_generator.integers(0, 1 << 32, ()))


def rewinding(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that it restores the default generator when it raises: a rejected call draws nothing."""

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
    """Seed the default generator, and return it."""
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Seed the default generator from the operating system, and return the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed that the default generator was last seeded with."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The state of the default generator."""
    return default_generator.get_state()


@argument_errors
def set_rng_state(new_state: Tensor) -> None:
    """Restore a state of the default generator that `get_rng_state` returned."""
    default_generator.set_state(new_state)
