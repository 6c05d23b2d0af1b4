"""The three linear maps that all Fourier transforms are: complex to complex, real to half a spectrum, and back.

Each one's gradient is another of them: with F the matrix of the transform, that of F x is F^H g, the transform of the
other direction with the same scaling.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...dispatch.op import Array, op
from ...flags import State, current, per_state
from ...kernels import registry
from ...kernels.fft import fft as kernel
from ...kernels.registry import ArraySpec
from ...tensor import instrumentation
from ...tensor.tensor import Tensor, adopt

__all__ = ["LAST_TWO", "halved_transform", "real_transform", "straight", "transform"]

Dims = tuple[int, ...]

LAST_TWO = (-2, -1)
"""The dims of transforms of matrices, unless they are given."""

Run = Callable[[np.ndarray], np.ndarray]


def _run(x: np.ndarray, kind: str, dims: Dims, scaling: str, last: int = 0) -> np.ndarray:
    call = _call(x.shape, x.dtype, kind, dims, scaling, last)
    if call is not None and not registry.observing:
        return call(x)
    return kernel(x, **_options(current(), kind, dims, scaling, last))


def _options(state: State, kind: str, dims: Dims, scaling: str, last: int) -> dict[str, Any]:
    """The keywords of the kernel."""
    plans = state.read("cuda.cufft_plan_cache.max_size")
    return {"kind": kind, "axes": dims, "scaling": scaling, "last": last, "plans": plans}


@per_state()
def _call(state: State, shape: Dims, dtype: np.dtype, kind: str, dims: Dims, scaling: str, last: int) -> Run | None:
    """The function that the kernel ends in for a signature, which it takes a microsecond to find."""
    return kernel.first(ArraySpec(shape, dtype), **_options(state, kind, dims, scaling, last))


@per_state()
def _usual_call(_: State, shape: Dims, dtype: np.dtype, n: Any, dim: Any, kind: str, scaling: str) -> Run | None:
    """Convert the arguments of a public function to those of the transform; None if truncation or padding is needed."""
    dims = _plain_dims(dim, len(shape))
    if dims is None or dtype.char not in ("fd" if kind == "real" else "FD"):
        return None
    length = shape[dims[-1]]
    last = (2 * (length - 1) if n is None else n) if kind == "halved" else 0
    if n is not None and ((n // 2 + 1 if last else n) != length or len(dims) > 1):
        return None
    if length <= (kind == "halved") or shape[dims[0]] == 0:
        return None
    return _call(shape, dtype, kind, dims, scaling, last)


def straight(input: Any, n: Any, dim: Any, norm: Any, kind: str, scaling: str) -> Tensor | None:
    """The transform along one dim, or the last two, of an unrecorded tensor; None if the general path is needed.

    It takes at most half the time of the op. The meaning of the arguments is cached.
    """
    if norm is not None or type(input) is not Tensor or input._node is not None or instrumentation.is_observed():
        return None
    if not (type(dim) is int and (n is None or type(n) is int)) and not (dim is LAST_TWO and n is None):
        return None  # Equal values of other types, such as 1.0, are rejected.
    x = input._array
    call = _usual_call(x.shape, x.dtype, n, dim, kind, scaling)
    return None if call is None or registry.observing else adopt(call(x))


def _plain_dims(dim: Any, ndim: int) -> Dims | None:
    """One dim, or the last two as `fft2` has them by default, counted from the front; None for others."""
    if type(dim) is int:
        return (dim % ndim,) if -ndim <= dim < ndim else None
    last_two = type(dim) is tuple and dim == LAST_TWO and [*map(type, dim)] == [int, int]
    return (ndim - 2, ndim - 1) if last_two and ndim > 1 else None


@op(
    input=lambda g, dims, scaling, forward: transform(g, dims, scaling, not forward),
    name="fft_c2c",
    method=False,
    warns=False,
    takes="c",
    batch="transform dims",
)
def transform(input: Array, dims: Dims, scaling: str, forward: bool) -> Array:
    """The transform of complex numbers over dims counted from the front, divided by `scaling`."""
    return _run(input, "forward" if forward else "inverse", dims, scaling)


def _counts(g: Tensor, dim: int, last: int) -> Tensor:
    """The multiplicity of each frequency of a half spectrum in the full one, shaped for g's dim: 1, 2, 2, ..., 2, 1."""
    counts = np.full(last // 2 + 1, 2.0, g._array.real.dtype)
    counts[0] = 1
    if last % 2 == 0:
        counts[-1] = 1
    return adopt(counts.reshape([-1 if each == dim else 1 for each in range(g.ndim)]))


def _real_gradient(g: Tensor, input_shape: tuple[int, ...], dims: Dims, scaling: str) -> Tensor:
    """The real part of F^H g, with zeros for the omitted frequencies. The inverse transform adds their conjugates and
    so counts twice the terms that are halved first."""
    last = input_shape[dims[-1]]
    return halved_transform(g / _counts(g, dims[-1], last), dims, scaling, last)


@op(input=_real_gradient, name="fft_r2c", method=False, warns=False, takes="f", batch="transform dims")
def real_transform(input: Array, dims: Dims, scaling: str) -> Array:
    """The forward transform of real numbers; the last dim keeps the frequencies up to n/2."""
    return _run(input, "real", dims, scaling)


@op(
    input=lambda g, dims, scaling, last: real_transform(g, dims, scaling) * _counts(g, dims[-1], last),
    name="fft_c2r",
    method=False,
    warns=False,
    takes="c",
    batch="transform dims",
)
def halved_transform(input: Array, dims: Dims, scaling: str, last: int) -> Array:
    """The inverse transform of half a spectrum, with last // 2 + 1 frequencies in the last dim, to real numbers."""
    return _run(input, "halved", dims, scaling, last)
