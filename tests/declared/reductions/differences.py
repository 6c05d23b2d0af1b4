"""Samples and references of `ops/reductions/differences.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..samples import Sample, between, sample
from ..table import declare


def _samples() -> Iterator[Sample]:
    x = between(-2, 2, 4, 5)
    yield sample(x)
    yield sample(x, spacing=0.5, edge_order=2)
    yield sample(x, spacing=[2.0, 0.5], dim=(1, 0))
    yield sample(between(-2, 2, 2, 3, seed=1).T, dim=0, edge_order=2)
    yield sample(x[:, :2], dim=-1)
    yield sample(between(-2, 2))


def _reference(input: np.ndarray, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> Any:
    if not input.ndim:
        return ()
    spaces = spacing if isinstance(spacing, list) else [spacing]
    axes = tuple(range(input.ndim)) if dim is None else tuple(np.atleast_1d(dim).tolist())
    differentiate: Any = np.gradient
    found = differentiate(input, *spaces, axis=axes, edge_order=edge_order)
    return tuple(found) if isinstance(found, (list, tuple)) else (found,)


declare("gradient", _reference, _samples)
