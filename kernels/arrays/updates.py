"""Optimizer steps: the formulas of `update_formulas`, with the same bits by NumPy for few small arrays and by compiled
loops for many or large ones.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import byte_bounds

from ..runtime.errstate import restore, silence
from ..runtime.workspace import address_of
from .update_formulas import adam, sgd

LARGE = 1 << 16
"""Minimum number of elements for which loading the loops pays off."""

_CALLS = 1 << 11
"""Numbers that NumPy updates in the time that its calls take for a parameter of any size."""

_GRADIENT = 1
"""Which of the arrays is only read."""

_FLOATS = np.dtype(np.float32), np.dtype(np.float64)


_LOOPED = (sgd, adam)
"""Formulas that there are loops of."""


class Move(NamedTuple):
    """The update of one parameter: a formula; arrays of one shape, which are the parameter, its gradient (only read)
    and its state (or None); and constants, which are Python floats."""

    formula: Callable[..., tuple]
    arrays: tuple
    constants: NamedTuple

    def written_span(self) -> list[np.ndarray]:
        parameter, _, *remembered = self.arrays
        return [parameter, *(each for each in remembered if each is not None)]


def refuse_unfit(parameter: Any, *others: Any) -> None:
    """Raise RuntimeError for a parameter of integers, ValueError for arrays that differ in shape and for memory that
    may not be written."""
    if parameter.dtype.kind in "biu":
        raise RuntimeError(f"an optimizer updates floating and complex parameters, and one is of {parameter.dtype}")
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


def step(moves: Sequence[Move], together: bool = True) -> None:
    """Update parameters and their states, many or large ones by loops: one launch for all of a formula and a dtype.

    Parameters that share memory, or are not to be updated `together`, are updated one after another, with the same
    bits. Half types are updated in float32 and rounded once, complex numbers as pairs of real ones. `refuse_unfit`
    defines the valid arrays.
    """
    launches: list[_Launch] = []
    alone = list(moves)
    if together and len(moves) > 1 and sum([_CALLS + move.arrays[0].size for move in moves]) >= LARGE:
        launches, alone = _divide(moves)
    token = silence()
    try:
        for launch in launches:
            _loops().run(*launch)
        for move in alone:
            _step_alone(move)
    finally:
        restore(token)


class _Launch(NamedTuple):
    """A row of the table has the addresses of a parameter's arrays (0 of none), their size, and the number of its row
    of constants; `without` says that the last array is none."""

    formula: Callable[..., tuple]
    table: np.ndarray
    constants: np.ndarray
    without: bool


def _divide(moves: Sequence[Move]) -> tuple[list[_Launch], list[Move]]:
    """Launches, and the moves that loops cannot take as they are; all of them where one writes to memory of another."""
    groups: dict[tuple, list[Move]] = {}
    alone = []
    for move in moves:
        parameter = move.arrays[0]
        if move.formula in _LOOPED and parameter.dtype in _FLOATS and _lie_alike(*move.arrays):
            groups.setdefault((move.formula, parameter.dtype, move.arrays[-1] is None), []).append(move)
        else:
            alone.append(move)
    launches = [_launch(group) for group in groups.values()]
    return (launches, alone) if _lie_apart(launches, alone) else ([], list(moves))


def _launch(moves: Sequence[Move]) -> _Launch:
    """That of moves of one formula and dtype that remember as much."""
    formula, arrays, _ = moves[0]
    distinct = {id(move.constants): move.constants for move in moves}
    numbers = {key: number for number, key in enumerate(distinct)}
    rows = [
        [*[0 if each is None else address_of(each) for each in move.arrays], move.arrays[0].size, numbers[id(move[2])]]
        for move in moves
    ]
    return _Launch(formula, np.array(rows), np.array([*distinct.values()], arrays[0].dtype), arrays[-1] is None)


def _lie_apart(launches: Sequence[_Launch], alone: Sequence[Move]) -> bool:
    """Whether no memory that is written is that of another array."""
    written = [np.array([byte_bounds(each) for move in alone for each in move.written_span()], np.int64).reshape(-1, 2)]
    read = [np.array([byte_bounds(move.arrays[_GRADIENT]) for move in alone], np.int64).reshape(-1, 2)]
    for launch in launches:
        begins = launch.table[:, :-2]
        bounds = np.stack([begins, begins + launch.table[:, -2:-1] * launch.constants.itemsize], axis=-1)
        read.append(bounds[:, _GRADIENT])
        others = np.delete(bounds, _GRADIENT, axis=1).reshape(-1, 2)
        written.append(others[others[:, 0] > 0])
    bounds = np.concatenate(written)
    (begin, end), (first, last) = bounds[np.argsort(bounds[:, 0])].T, np.concatenate(read).T
    if (end[:-1] > begin[1:]).any():
        return False
    after = np.searchsorted(end, first, side="right")  # the first that ends beyond where the read one begins
    return bool((np.append(begin, np.iinfo(np.int64).max)[after] >= last).all())


def _step_alone(move: Move) -> None:
    parameter = move.arrays[0]
    if parameter.dtype in _FLOATS and (parameter.size < LARGE or _lie_alike(*move.arrays)):
        _step_flat(move)
        return
    order = _memory_order(parameter)
    flat = move._replace(arrays=tuple(None if each is None else _flat(each.transpose(order)) for each in move.arrays))
    _step_flat(flat)
    for array, each in zip(move.written_span(), flat.written_span(), strict=True):
        if not np.may_share_memory(array, each):
            there = array.transpose(order)
            there[...] = (each.view(array.dtype) if array.dtype.kind == "c" else each).reshape(there.shape)


def _step_flat(move: Move) -> None:
    """A step of float32 or float64 by loops, or by NumPy where it is small or its buffers are of another dtype."""
    parameter, _, *remembered = move.arrays
    if move.formula in _LOOPED and parameter.size >= LARGE and _lie_alike(*move.arrays):
        _loops().run(*_launch([move]))
        return
    results = move.formula(*move.arrays, move.constants)
    for target, result in zip((parameter, *remembered), results, strict=True):
        if target is not None:
            target[...] = result


def _flat(array: np.ndarray) -> np.ndarray:
    """The elements in one dimension, as float32 or float64: a view where that is possible, else a copy."""
    if array.dtype.itemsize == 2:
        array = array.astype(np.float32)
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat


def _memory_order(array: np.ndarray) -> list[int]:
    """The dimensions from the one of the longest steps to the one of the shortest."""
    return sorted(range(array.ndim), key=lambda dim: -array.strides[dim])


def _lie_alike(parameter: Any, *others: Any) -> bool:
    """Whether loops, which trust addresses, may take these: all have their elements side by side in one order."""
    dtype, order = parameter.dtype, None if parameter.flags.c_contiguous else _memory_order(parameter)
    for each in (parameter, *others):
        if each is not None:
            there = each if order is None else each.transpose(order)
            if each.dtype != dtype or not there.flags.c_contiguous:
                return False
    return True


@functools.cache
def _loops() -> Any:
    from . import updates_loops

    return updates_loops
