"""Einsums of two small operands that one builtin function answers (`ops/matmul/answers.py`): which ones, and how."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...flags import State
from ...kernels.registry import Refused
from ...kernels.shapes import broadcast_shapes
from ..matmul import answers
from .steps import Multiplication, Product

if TYPE_CHECKING:
    from .execute import Program

__all__ = ["remember"]

MOST_NUMBERS = 4096
"""Of a result: beyond, NumPy's loops over elements are faster than those of the builtin."""

MOST_LAYOUTS = 8
"""Times that one recipe is remembered, for equations that are equal and not the same, and for strides."""

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def remember(
    state: State, equation: str, program: Program, a: np.ndarray, b: np.ndarray, out: np.ndarray, times: int
) -> bool:
    """Have the table know calls like this one, whose result was `out`; `times`: how often that was done for the recipe.
    Whether it does now."""
    if times >= MOST_LAYOUTS or type(equation) is not str or not out.flags.c_contiguous:
        return False
    work, swapped = _work(program, a, b, out)
    return work is not None and answers.remember(state, equation, (a, b), out, work, swapped)


def _work(program: Program, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> tuple[Any, bool]:
    """What the builtin is to do, or None where it cannot, and whether it is of b and a."""
    if program.first or program.last.axes is not None or len(program.steps) != 1:
        return None, False
    step, left, _, _ = program.steps[0]
    swapped = (left == 1) != (isinstance(step, Product) and step.swapped)
    if step.casts_to is not None or a.dtype is not b.dtype:
        return None, False
    if swapped:
        a, b = b, a
    return _job(step, a, b) if isinstance(step, Product) else _multiplication(step, a, b, out), swapped


def _job(step: Product, a: np.ndarray, b: np.ndarray) -> Any:
    """The job of the product kernel that the step ends in, at strides that reach the matrices in the operands."""
    from ..matmul.dispatch import straight_product

    views = step.first(a), step.second(b)
    job_of = getattr(straight_product(*step.specs), "job_of", None)
    if job_of is None or not _in_place(views, (a, b)):
        return None
    try:
        return job_of(*(view.strides for view in views))
    except Refused:
        return None


def _multiplication(step: Multiplication, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Any:
    from ...kernels.gemm.calls import DIMS, Multiply

    views = step.first(a), step.second(b)
    shape = broadcast_shapes(*(view.shape for view in views))
    if a.dtype not in _FLOATS or out.size > MOST_NUMBERS or len(shape) > DIMS or not _in_place(views, (a, b)):
        return None
    strides = [np.broadcast_to(view, shape).strides for view in views]
    missing = DIMS - len(shape)
    return Multiply((1,) * missing + shape, *((0,) * missing + each for each in strides))


def _in_place(views: tuple[np.ndarray, ...], arrays: tuple[np.ndarray, ...]) -> bool:
    """Whether the views begin where the arrays do."""
    from ...kernels.gemm.workspace import address_of

    return all(address_of(view) == address_of(array) for view, array in zip(views, arrays, strict=True))
