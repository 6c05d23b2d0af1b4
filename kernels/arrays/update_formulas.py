"""The formulas of optimizer steps, which NumPy (`updates`) and compiled loops (`updates_loops`) apply.

A formula takes elements (or arrays) of a parameter, its gradient and its state, and constants of their dtype. It
returns the new values of all but the gradient.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


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
