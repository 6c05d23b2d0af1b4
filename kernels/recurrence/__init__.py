"""Recurrences over sequences of float32 or float64: the product of each state with a matrix, and what is made of it.

Sequences are (length, rows, parts x size) and states (rows, size); what has several parts has them side by side. With
`product` = h_before @ weight.T, the cells are

* rnn_tanh, rnn_relu: h = f(projected + product);
* lstm: of the four parts i, f, g, o of projected + product, all but g (tanh) by the logistic function, the cell is
  c = f * c_before + i * g and the state h = o * tanh(c) (S. Hochreiter and J. Schmidhuber, 1997; F. Gers, 2000);
* gru: r and z are the logistic function of the first two parts of projected + product + bias, n = tanh(n_projected +
  r * (n_product + n_bias)), and h = (1 - z) * n + z * h_before (K. Cho et al., 2014, r behind the product as in cuDNN).

A term of the contract is one of a product.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..precisions.products import PRODUCT_BOUND, is_exact
from ..registry import ArraySpec, Kernel, without_observers
from ..runtime.context import restore_on_failure
from ..runtime.invariance import BATCH
from . import exact
from .sequences import by_loop, by_steps, gradient_of, multiplier, sequence_of
from .step import step, step_gradient

__all__ = ["recurrence", "recurrence_gradient", "step", "step_gradient"]

recurrence = Kernel("recurrence", reference=exact.recurrence, bound=PRODUCT_BOUND)
"""The results of a layer in one direction for (projected, weight, hidden), and an LSTM's first cell or a GRU's bias.

`cell` is one of the list above. Returns the states after each step; then, for an LSTM, the cells and the gates (..., 4
size); for a GRU, r, z, n and the n of product and bias (..., 4 size).
"""

recurrence_gradient = Kernel("recurrence_gradient", reference=exact.gradient, bound=PRODUCT_BOUND)
"""The gradients for (g, weight, output), and an LSTM's (gradient of the cells, first cell, cells, gates) or a GRU's
(hidden, gates): those of the products, of the first state, and of an LSTM's first cell or of a GRU's inputs."""

_MOST_BYTES, _MOST_IN_ALL = 1 << 20, 1 << 25
"""Of a weight that each core reads from its caches for every few rows in every step, and these bytes times the rows.
Microseconds of a step on a Zen 3, forward and backward, here and by steps, of LSTMs of (rows, size) (1, 64) 2.5, 8.0,
1.9, 6.6; (16, 64) 7.9, 19, 7.3, 13; (512, 64) 196, 229, 202, 240; (16, 128) 26, 66, 24, 54; (256, 128) 290, 342, 348,
334; (1, 256) 24, 26, 21, 28; (16, 256) 76, 101, 87, 121; (64, 256) 348, 355, 498, 428; (16, 384) 172, 198, 283, 234;
(1, 512) 104, 94, 94, 110."""


def _refuses(*specs: ArraySpec, precision: str = "ieee", operands: Any = None, **_: str) -> str | None:
    """Why the loop does not make the products."""
    if operands is not None:
        return f"does not round states, and {operands[0]} was asked for"
    (_, rows, _), weight = specs[0].shape, specs[1]
    if not is_exact(precision):
        return f"multiplies exactly, and {precision} was asked for"
    size = math.prod(weight.shape) * weight.dtype.itemsize
    if size > _MOST_BYTES or size * rows > _MOST_IN_ALL:
        return f"leaves {rows} rows times a weight of {size:,} bytes to products of matrices, which read it more rarely"
    return None


@recurrence.impl("resident", refuses=_refuses)
def _resident(*arrays: np.ndarray, cell: str, **_: str) -> tuple[np.ndarray, ...]:
    sequence, results = sequence_of(cell, *arrays)
    by_loop(sequence)
    return results


@recurrence.impl("steps", by_unit=True, scales=True, keeps=BATCH)
def _steps(*arrays: np.ndarray, cell: str, **keywords: str) -> tuple[np.ndarray, ...]:
    sequence, results = sequence_of(cell, *arrays)
    by_steps(sequence, **keywords)
    return results


@recurrence.impl("blas", scales=True)  # where the flags prefer it
def _steps_by_blas(*arrays: np.ndarray, **keywords: str) -> tuple[np.ndarray, ...]:
    return _steps(*arrays, **keywords, prefer="blas")


@recurrence_gradient.impl("resident", refuses=_refuses)
def _resident_gradient(*arrays: np.ndarray, cell: str, **_: str) -> tuple[np.ndarray, ...]:
    sequence, results = gradient_of(cell, *arrays)
    by_loop(sequence)
    return _finish(cell, arrays[1], results)


@recurrence_gradient.impl("steps", by_unit=True, scales=True, keeps=BATCH)
def _steps_gradient(*arrays: np.ndarray, cell: str, **keywords: str) -> tuple[np.ndarray, ...]:
    sequence, results = gradient_of(cell, *arrays)
    by_steps(sequence, **keywords)
    return _finish(cell, arrays[1], results, **keywords)


@recurrence_gradient.impl("blas", scales=True)
def _steps_gradient_by_blas(*arrays: np.ndarray, **keywords: str) -> tuple[np.ndarray, ...]:
    return _steps_gradient(*arrays, **keywords, prefer="blas")


@restore_on_failure
def _finish(cell: str, weight: np.ndarray, results: tuple[np.ndarray, ...], **keywords: Any) -> tuple[np.ndarray, ...]:
    """The results with the gradient of the first state, from that of the first step's product."""
    of_products, *others = results
    with without_observers():
        multiply = multiplier(1, of_products.shape[1], weight, **keywords)
        before = [multiply(each) for each in of_products[:1]]
    of_hidden = before[0] if before else np.zeros((of_products.shape[1], weight.shape[1]), weight.dtype)
    if cell == "gru":
        of_sums, beside = others
        return of_products, of_hidden + beside, of_sums
    return of_products, of_hidden, *others
