"""Dropout of elements, of whole channels, and alpha dropout. These functions draw random numbers."""

from __future__ import annotations

import math

import numpy as np

from ...dispatch.op import composite
from ...dispatch.promotion import refusal_of_dtype
from ...kernels.runtime.context import warn_caller
from ...tensor.call_errors import refuse_other_than_bool
from ...tensor.tensor import Tensor, adopt
from ..functional import functional


def _check(name: str, input: Tensor, p: float, training: bool) -> None:
    refuse_other_than_bool(name, "training", training)
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if training and 0 < p < 1 and input.dtype.letter not in "fc":
        raise refusal_of_dtype(name, input.dtype, "fc")


def _keep_mask(shape: tuple[int, ...], p: float) -> np.ndarray:
    """Which are not dropped, by the default generator."""
    from ...random import default_generator

    return default_generator.uniform(shape, np.float32) >= p


def _drop(name: str, input: Tensor, p: float, training: bool, shape: tuple[int, ...]) -> Tensor:
    """Dropout with one random number per element of `shape`, which broadcasts to the input."""
    _check(name, input, p, training)
    if not training or p == 0:
        return input
    if p == 1:
        return input * adopt(np.zeros((), input._array.dtype))
    scale = np.multiply(
        _keep_mask(shape, p), 1 / (1 - p), dtype=np.float64 if input._array.itemsize > 4 else np.float32
    )
    return input * adopt(scale).to(input.dtype)


@functional(inplace=True)
@composite(method=False, stateful=True)
def dropout(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """In training, 0 with probability `p` and else input / (1 - p) (Srivastava et al., 2014); otherwise `input`.

    Draws from the default generator, see `manual_seed`. Raises ValueError for a p outside [0, 1].
    """
    return _drop("dropout", input, p, training, input._array.shape)


# Of channels


def _of_channels(input: Tensor, dims: int, p: float, training: bool) -> Tensor:
    shape, name = input._array.shape, f"dropout{dims}d"
    channels = len(shape) - dims
    if channels not in (1, 2):
        expected = f"{name}(): input must have {dims + 1} or {dims + 2} dimensions, got {len(shape)}"
        if dims == 1:
            raise RuntimeError(expected)
        warn_caller(f"{expected}; other numbers are deprecated, use dropout()")
        if training and 0 < p < 1 and len(shape) < 2:
            raise RuntimeError(f"{name}(): input must have at least 2 dimensions, got {len(shape)}")
        channels = 2
    return _drop(name, input, p, training, (*shape[:channels], *(1,) * (len(shape) - channels)))


@functional(inplace=True)
@composite(method=False, stateful=True)
def dropout1d(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """`dropout` of whole channels of (N, C, L) or (C, L) (J. Tompson et al., arXiv 1411.4280)."""
    return _of_channels(input, 1, p, training)


@functional(inplace=True)
@composite(method=False, stateful=True)
def dropout2d(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """`dropout` of whole channels of (N, C, H, W) or (C, H, W). torch reads three dimensions as (N, C, L), and warns
    that this will change. Of other numbers of dimensions the first two count as batch and channels, with a warning."""
    return _of_channels(input, 2, p, training)


@functional(inplace=True)
@composite(method=False, stateful=True)
def dropout3d(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """`dropout` of whole channels of (N, C, D, H, W) or (C, D, H, W). Of other numbers of dimensions the first two
    count as batch and channels, with a warning."""
    return _of_channels(input, 3, p, training)


# That keeps mean 0 and variance 1


_LEAST = -1.7580993408473766
"""The limit of `selu` towards -inf, minus its scale times its alpha."""


def _alpha_dropped(name: str, input: Tensor, p: float, training: bool, shape: tuple[int, ...]) -> Tensor:
    """Set dropped elements to `_LEAST`; scale and shift to keep mean 0 and variance 1."""
    _check(name, input, p, training)
    if not training or p == 0:
        return input
    if p == 1:
        return input * adopt(np.zeros((), input._array.dtype))
    scale = 1 / math.sqrt((1 - p) * (1 + p * _LEAST**2))
    kept = _keep_mask(shape, p)
    rest = np.where(kept, -_LEAST * p * scale, _LEAST * (1 - p) * scale)
    return input * adopt(np.multiply(kept, scale)).to(input.dtype) + adopt(rest).to(input.dtype)


@functional(inplace=True)
@composite(method=False, stateful=True)
def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False) -> Tensor:
    """In training, the limit of `selu` towards -inf with probability `p`, then scaled and shifted, so that mean 0 and
    variance 1 stay (G. Klambauer et al., "Self-normalizing neural networks", 2017); otherwise `input`."""
    return _alpha_dropped("alpha_dropout", input, p, training, input._array.shape)


@functional(inplace=True)
@composite(method=False, stateful=True)
def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False) -> Tensor:
    """`alpha_dropout` of whole channels of (N, C, ...). Raises RuntimeError in training below two dimensions."""
    shape = input._array.shape
    if training and len(shape) < 2:
        raise RuntimeError(f"Feature dropout requires at least 2 dimensions in the input, got {list(shape)}")
    return _alpha_dropped("feature_alpha_dropout", input, p, training, (*shape[:2], *(1,) * (len(shape) - 2)))
