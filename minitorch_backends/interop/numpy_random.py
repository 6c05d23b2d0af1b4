"""Random tensors under the names of NumPy's generators."""

from __future__ import annotations

import math
from typing import Any

from ..ops import names as ops
from ..random import Generator, manual_seed
from ..tensor.tensor import Tensor


class Random:
    """A generator of random tensors with the methods of `numpy.random.Generator` that autoray's users call.

    `dtype` is that of floating results; the default one if it is None or not floating.
    """

    def __init__(self, seed: int | Generator | None = None, dtype: Any = None) -> None:
        self._generator = seed if isinstance(seed, Generator) else Generator()
        if isinstance(seed, int):
            self._generator.manual_seed(seed)
        elif seed is None:
            self._generator.seed()
        self._dtype = dtype

    def random(self, size: Any = None, **options: Any) -> Tensor:
        """Numbers from 0 to below 1."""
        return ops.rand(_shape(size), generator=self._generator, **self._with_dtype(options))

    def uniform(self, low: float = 0.0, high: float = 1.0, size: Any = None, **options: Any) -> Tensor:
        """Numbers from `low` to below `high`."""
        return low + (high - low) * self.random(size, **options)

    def normal(self, loc: float = 0.0, scale: float = 1.0, size: Any = None, **options: Any) -> Tensor:
        """Normally distributed numbers."""
        return loc + scale * ops.randn(_shape(size), generator=self._generator, **self._with_dtype(options))

    def integers(self, low: int, high: int | None = None, size: Any = None, **options: Any) -> Tensor:
        """Integers from `low` (0, if it is the only limit) to below `high`."""
        low, high = (0, low) if high is None else (low, high)
        return ops.randint(low, high, _shape(size), generator=self._generator, **options)

    def permutation(self, x: Any, axis: int = 0) -> Tensor:
        """The integers below `x`, or the parts of a tensor along an axis, in random order."""
        order = ops.randperm(x if isinstance(x, int) else x.shape[axis], generator=self._generator)
        return order if isinstance(x, int) else ops.index_select(x, axis, order)

    def choice(self, a: Any, size: Any = None, replace: bool = True, p: Any = None) -> Tensor:
        """Elements of `a`, or integers below it, by their probabilities `p`."""
        a = ops.arange(a) if isinstance(a, int) else a
        weights = ops.ones(a.shape[0]) if p is None else ops.as_tensor(p)
        places = ops.multinomial(weights, math.prod(_shape(size)), replace, generator=self._generator)
        return a[places].reshape(_shape(size))

    def _with_dtype(self, options: dict[str, Any]) -> dict[str, Any]:
        """The options, with the dtype of the generator if they have none."""
        return {"dtype": self._dtype} | options


def default_rng(seed: Any = None, dtype: Any = None, **_: Any) -> Random:
    """A new generator, or `seed` itself if it is one."""
    return seed if isinstance(seed, Random) else Random(seed, dtype)


def normal(loc: float = 0.0, scale: float = 1.0, size: Any = None, dtype: Any = None) -> Tensor:
    """Normally distributed numbers of the default generator."""
    return loc + scale * ops.randn(_shape(size), dtype=dtype)


def uniform(low: float = 0.0, high: float = 1.0, size: Any = None, dtype: Any = None) -> Tensor:
    """Numbers of the default generator from `low` to below `high`."""
    return low + (high - low) * ops.rand(_shape(size), dtype=dtype)


def seed(seed: int) -> None:
    """Set the state of the default generator."""
    manual_seed(seed)


def _shape(size: Any) -> tuple[int, ...]:
    return () if size is None else (size,) if isinstance(size, int) else tuple(size)
