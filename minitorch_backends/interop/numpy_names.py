"""Functions with NumPy's names and arguments, for libraries that call their backends that way.

Most are the standard's, from `array_api`, or ops; the table here has the others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

from .. import linalg, nn
from ..ops import names as ops
from ..random import Generator, manual_seed
from ..tensor.tensor import Tensor
from . import array_api


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


def find(name: str) -> Callable[..., Any]:
    """The function that NumPy calls `name`. Raises AttributeError if it does not exist."""
    return FUNCTIONS.get(name) or getattr(array_api, name, None) or getattr(ops, name)


def _transpose(x: Tensor, axes: Any = None) -> Tensor:
    return x.permute(tuple(reversed(range(x.ndim))) if axes is None else tuple(axes))


def _real(x: Any) -> Any:
    return x.real if isinstance(x, Tensor) and x.is_complex() else x


def _imag(x: Any) -> Any:
    return x.imag if isinstance(x, Tensor) and x.is_complex() else ops.zeros_like(x)


def _complex(re: Any, im: Any) -> Tensor:
    return re + 1j * im


def _where(condition: Tensor, *values: Any) -> Any:
    return array_api.where(condition, *values) if values else array_api.nonzero(condition)


def _dot(a: Any, b: Any) -> Any:
    if not isinstance(a, Tensor) or not isinstance(b, Tensor) or not a.ndim or not b.ndim:
        return a * b
    return ops.tensordot(a, b, dims=([-1], [-2])) if b.ndim > 2 else ops.matmul(a, b)


def _pad(array: Tensor, pad_width: Any, mode: str = "constant", constant_values: float = 0) -> Tensor:
    pairs = [(pad_width, pad_width)] if isinstance(pad_width, int) else list(pad_width)
    pairs = pairs * array.ndim if len(pairs) == 1 else pairs
    sizes = tuple(itertools.chain.from_iterable(reversed(pairs)))
    return nn.functional.pad(array, sizes, mode=mode, value=constant_values)


def _take(a: Tensor, indices: Any, axis: int | None = None) -> Tensor:
    indices = ops.as_tensor(indices)
    a, axis = (a.flatten(), 0) if axis is None else (a, axis % a.ndim)
    return a.movedim(axis, 0)[indices].movedim(tuple(range(indices.ndim)), tuple(range(axis, axis + indices.ndim)))


def _diagonal(a: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    return ops.diagonal(a, offset, axis1, axis2)


def _trace(a: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    return _diagonal(a, offset, axis1, axis2).sum(-1)


def _norm(x: Tensor, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    return linalg.norm(x, ord, axis, keepdims)


def _svd(a: Tensor, full_matrices: bool = False) -> Any:
    return linalg.svd(a, full_matrices)


def _split(ary: Tensor, indices_or_sections: Any, axis: int = 0) -> Any:
    return ops.tensor_split(ary, indices_or_sections, axis)


def _swapaxes(a: Tensor, axis1: int, axis2: int) -> Tensor:
    return ops.transpose(a, axis1, axis2)


def _solve_triangular(a: Tensor, b: Tensor, lower: bool = False, unit_diagonal: bool = False) -> Tensor:
    return linalg.solve_triangular(a, b, upper=not lower, unitriangular=unit_diagonal)


def _indices(dimensions: Any) -> Any:
    return ops.meshgrid(*map(ops.arange, dimensions), indexing="ij")


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "array": ops.tensor,
    "complex": _complex,
    "copy": lambda x: x.detach().clone(),
    "cumprod": array_api.cumulative_prod,
    "cumsum": array_api.cumulative_sum,
    "diag": lambda v, k=0: ops.diag(v, k),
    "diagonal": _diagonal,
    "dot": _dot,
    "identity": array_api.eye,
    "imag": _imag,
    "indices": _indices,
    "linalg.expm": linalg.matrix_exp,
    "linalg.norm": _norm,
    "linalg.svd": _svd,
    "pad": _pad,
    "random.default_rng": default_rng,
    "random.normal": normal,
    "random.seed": seed,
    "random.uniform": uniform,
    "real": _real,
    "scipy.linalg.expm": linalg.matrix_exp,
    "scipy.linalg.solve_triangular": _solve_triangular,
    "split": _split,
    "swapaxes": _swapaxes,
    "take": _take,
    "to_numpy": lambda x: x.detach().numpy() if isinstance(x, Tensor) else x,
    "trace": _trace,
    "transpose": _transpose,
    "where": _where,
}
"""Functions that the standard does not have, or has with other arguments."""

_STANDARD = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "concatenate": "concat",
    "conjugate": "conj",
    "power": "pow",
}
"""The standard's names of NumPy's functions."""

FUNCTIONS |= {name: getattr(array_api, standard) for name, standard in _STANDARD.items()}
