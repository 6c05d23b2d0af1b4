"""Steps of optimisers: formulas of numbers, by which NumPy updates small arrays and compiled loops large ones.

A formula takes numbers, or arrays, of a parameter, of its gradient and of what is remembered, and constants of their
type; it returns what all but the gradient become. Both ways give the same bits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import threading
from .gemm.workspace import address_of
from .quiet import restore, silence

__all__ = ["LARGE", "AdamConstants", "SgdConstants", "adam", "sgd", "step"]

LARGE = 1 << 16
"""Numbers from which loops are worth loading: 5.7 million of float32 take a step of Adam in 24 ms by NumPy (torch 20),
and by loops in 10 on one thread, 5 on two."""

_FLOATS = np.dtype(np.float32), np.dtype(np.float64)


class SgdConstants(NamedTuple):
    """`sign` is -1 to ascend; `kept` is the share of the gradient in the momentum; `nesterov` is 0 or 1."""

    lr: float
    sign: float
    weight_decay: float
    momentum: float
    kept: float
    nesterov: float


def sgd(p: Any, g: Any, b: Any, c: SgdConstants) -> tuple:
    """b, the momentum, may be None."""
    d = -g if c.sign < 0 else g
    if c.weight_decay:
        d = d + c.weight_decay * p
    if b is not None:
        b = b * c.momentum + c.kept * d
        d = d + c.momentum * b if c.nesterov else b
    return p - c.lr * d, b


class AdamConstants(NamedTuple):
    """`sign` is -1 to ascend; weights decay by the factor `decay`, or with `weight_decay` by the gradient; `size` and
    `scale` have the means' corrections for their start at 0."""

    size: float
    scale: float
    eps: float
    sign: float
    decay: float
    weight_decay: float
    rise: float
    beta2: float
    rise_of_squares: float


def adam(p: Any, g: Any, m: Any, v: Any, largest: Any, c: AdamConstants) -> tuple:
    """`largest`, the largest v so far, may be None."""
    d = -g if c.sign < 0 else g
    if c.weight_decay:
        d = d + c.weight_decay * p
    m = m + c.rise * (d - m)
    v = v * c.beta2 + c.rise_of_squares * (d * d)
    top = v
    if largest is not None:
        largest = np.maximum(largest, v)
        top = largest
    return p * c.decay - c.size * (m / (np.sqrt(top) * c.scale + c.eps)), m, v, largest


def step(formula: Callable[..., tuple], arrays: Sequence[np.ndarray | None], constants: NamedTuple) -> None:
    """Update flat arrays of one dtype: a parameter and, after its gradient, which is only read, what is remembered."""
    parameter, gradient, *remembered = arrays
    assert parameter is not None
    dtype, size = parameter.dtype, parameter.size
    if size >= LARGE and dtype in _FLOATS and _lie_alike(parameter, gradient, remembered):
        places = [None if each is None else address_of(each) for each in arrays]
        constants = type(constants)(*map(dtype.type, constants))
        _loops()[formula.__name__](*threading.pool(), *places, size, dtype.itemsize, constants)
        return
    token = silence()
    try:
        results = formula(parameter, gradient, *remembered, constants)
    finally:
        restore(token)
    for target, result in zip((parameter, *remembered), results, strict=True):
        if target is not None:
            target[...] = result


def _lie_alike(parameter: np.ndarray, gradient: np.ndarray | None, remembered: Sequence[np.ndarray | None]) -> bool:
    """Whether loops, which trust addresses, may take these: contiguous, of one dtype and size, writable if written."""
    written = [parameter, *(each for each in remembered if each is not None)]
    present = written if gradient is None else [gradient, *written]
    alike = all(each.dtype == parameter.dtype and each.size == parameter.size for each in present)
    return alike and all(each.flags.c_contiguous for each in present) and all(each.flags.writeable for each in written)


@functools.cache
def _loops() -> dict[str, Callable[..., None]]:
    from . import updates_loops

    return {"sgd": updates_loops.sgd, "adam": updates_loops.adam}
