"""Steps of optimisers: formulas of numbers, by which NumPy updates small arrays and compiled loops large ones.

A formula takes numbers, or arrays, of a parameter, of its gradient and of what is remembered, and constants of their
type; it returns what all but the gradient become. Both ways give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .gemm.workspace import address_of
from .quiet import restore, silence

__all__ = ["LARGE", "AdamConstants", "Move", "SgdConstants", "adam", "sgd", "step"]

LARGE = 1 << 16
"""Numbers from which loops are worth loading: 5.7 million of float32 take a step of Adam in 24 ms by NumPy (torch 20),
and by loops in 10 on one thread, 5 on two."""

_CALLS = 1 << 11
"""Numbers that NumPy updates in the time that its calls take for a parameter of any size."""

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


class Move(NamedTuple):
    """What a step does with one parameter: arrays of one shape, the parameter, its gradient, which is only read, and
    what is remembered (or None), with the constants of the formula."""

    arrays: Sequence[Any]
    constants: NamedTuple

    def written(self) -> list[np.ndarray]:
        parameter, _, *remembered = self.arrays
        return [parameter, *(each for each in remembered if each is not None)]


def step(formula: Callable[..., tuple], moves: Sequence[Move]) -> None:
    """Update parameters and what is remembered of them: many, or large ones, by one launch of loops.

    Half types are updated in float32 and rounded once, complex numbers as pairs of real ones. Raises ValueError, before
    anything is written, for arrays that differ in shape and for memory that may not be written.
    """
    for arrays, _ in moves:
        _refuse_unfit(*arrays)
    worthwhile = sum([_CALLS + arrays[0].size for arrays, _ in moves]) >= LARGE
    together = []
    token = silence()
    try:
        for move in moves:
            parameter = move.arrays[0]
            if parameter.dtype not in _FLOATS or (parameter.size >= LARGE and not _lie_alike(*move.arrays)):
                _step_apart(formula, move)
            elif worthwhile and _lie_alike(*move.arrays):
                together.append(move)
            else:
                _by_numpy(formula, move)
        if together:
            _by_loops(formula, together)
    finally:
        restore(token)


def _refuse_unfit(parameter: Any, *others: Any) -> None:
    for each in others:
        if each is not None and each.shape != parameter.shape:
            raise ValueError(
                f"a parameter of shape {list(parameter.shape)} has a gradient, or a buffer in its optimizer's state, "
                f"of shape {list(each.shape)}; they must agree"
            )
    for each in (parameter, *others[1:]):
        if each is not None and not each.flags.writeable:
            raise ValueError(
                f"a parameter of shape {list(parameter.shape)}, or a buffer in its optimizer's state, lies in "
                "read-only memory; clone the tensor before it is optimized"
            )


def _step_apart(formula: Callable[..., tuple], move: Move) -> None:
    """A step of what loops cannot take as it is, in arrays that they can take."""
    flat = Move([None if each is None else _flat(each) for each in move.arrays], move.constants)
    if flat.arrays[0].size >= LARGE and _lie_alike(*flat.arrays):
        _by_loops(formula, [flat])
    else:
        _by_numpy(formula, flat)
    for array, each in zip(move.written(), flat.written(), strict=True):
        if not np.may_share_memory(array, each):
            array[...] = (each.view(array.dtype) if array.dtype.kind == "c" else each).reshape(array.shape)


def _flat(array: np.ndarray) -> np.ndarray:
    """The elements in one dimension, as float32 or float64: a view where that is possible, else a copy."""
    if array.dtype.itemsize == 2:
        array = array.astype(np.float32)
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat


def _lie_alike(parameter: Any, *others: Any) -> bool:
    """Whether loops, which trust addresses, may take these."""
    dtype = parameter.dtype
    for each in others:
        if each is not None and not (each.dtype == dtype and each.flags.c_contiguous):
            return False
    return parameter.flags.c_contiguous


def _by_numpy(formula: Callable[..., tuple], move: Move) -> None:
    parameter, _, *remembered = move.arrays
    results = formula(*move.arrays, move.constants)
    for target, result in zip((parameter, *remembered), results, strict=True):
        if target is not None:
            target[...] = result


def _by_loops(formula: Callable[..., tuple], moves: Sequence[Move]) -> None:
    """One launch for those of a dtype that remember as much; one after the other where two parameters share memory."""
    from . import updates_loops

    groups: dict[tuple[np.dtype, bool], list[Move]] = {}
    for move in moves:
        groups.setdefault((move.arrays[0].dtype, move.arrays[-1] is None), []).append(move)
    for (dtype, without), group in groups.items():
        distinct = {id(constants): constants for _, constants in group}
        numbers = {key: number for number, key in enumerate(distinct)}
        rows = np.array([_row(arrays, numbers[id(constants)]) for arrays, constants in group])
        for some in [rows] if _lie_apart(rows, dtype.itemsize) else rows[:, None]:
            updates_loops.run(formula, some, np.array([*distinct.values()], dtype), without)


def _row(arrays: Sequence[Any], number: int) -> list[int]:
    """Addresses, 0 of none, the size, and a number that goes with them."""
    return [*[0 if each is None else address_of(each) for each in arrays], arrays[0].size, number]


def _lie_apart(rows: np.ndarray, itemsize: int) -> bool:
    """Whether no two arrays share memory, of rows of addresses, a size and one more number."""
    begins, ends = rows[:, :-2], rows[:, :-2] + rows[:, -2:-1] * itemsize
    there = begins > 0
    order = np.argsort(begins[there])
    return bool((ends[there][order][:-1] <= begins[there][order][1:]).all())
