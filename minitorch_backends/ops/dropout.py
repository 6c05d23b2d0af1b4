"""Dropout, the one function here that draws random numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..dtypes import FLOATING
from ..op import composite
from ..samples import Sample, arrays_like, sample
from ..tensor import Tensor, adopt

__all__ = ["dropout"]


def _samples() -> Iterator[Sample]:
    for each in arrays_like(-2, 2):
        yield sample(each, 0.3, training=False)
    yield sample(arrays_like(-2, 2)[0], 0.0)
    yield sample(arrays_like(-2, 2)[0], 1.0)


def _reference(input: np.ndarray, p: float = 0.5, training: bool = True) -> np.ndarray:
    """Of the samples, none of which depends on chance; a test looks at the distribution."""
    return np.zeros_like(input) if training and p == 1 else input


@composite(method=False, reference=_reference, samples=_samples)
def dropout(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """In training, 0 with probability `p` and else input / (1 - p) (Srivastava et al., 2014); otherwise `input`.

    Draws from the default generator, see `manual_seed`. Raises ValueError for a p outside [0, 1].
    """
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0:
        return input
    if p == 1:
        return input * adopt(np.zeros((), input._array.dtype))
    if input.dtype.category < FLOATING:
        raise RuntimeError(f"dropout() is not implemented for {input.dtype!r}; expected floating or complex tensors")
    from ..random import default_generator

    kept = default_generator.uniform(input.shape, np.float32) >= p
    return input * adopt(np.multiply(kept, 1 / (1 - p), dtype=np.float32)).to(input.dtype)
