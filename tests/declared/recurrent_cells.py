"""Samples and references of `ops/recurrent_cells.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minitorch_backends.kernels.recurrence import exact
from minitorch_backends.ops.recurrent import GatedRecurrence, LongShortTermMemory
from minitorch_backends.ops.recurrent_cells import ElmanStep

from .samples import Sample, between, sample
from .table import declare


def _samples(gates: int, states: int) -> Callable[[], Iterator[Sample]]:
    """Samples of a cell: with biases and without, of rows of nothing, and of arrays in another order."""

    def samples() -> Iterator[Sample]:
        for rows, inner, size, biased in ((2, 4, 3, True), (0, 2, 2, True), (1, 2, 5, False)):
            start = [between(-1, 1, rows, size, seed=each) for each in range(states)]
            weights = [between(-1, 1, gates * size, width, seed=2 + width) for width in (inner, size)]
            biases = [between(-1, 1, gates * size, seed=8 + each) for each in range(2 * biased)]
            yield sample(between(-1.7, 2, rows, inner), *start, *weights, *biases)
        start = [between(-1, 1, 3, 2, seed=3 + each).T for each in range(states)]
        yield sample(between(-2, 2, 2, 2).T, *start, between(-1, 1, 2, 3 * gates).T, between(-1, 1, 3, 3 * gates).T)

    return samples


def _reference(cell: str, input: Any, hidden: Any, *rest: Any) -> tuple[np.ndarray, ...]:
    *start, weight_ih, weight_hh = rest[: 3 if cell == "lstm" else 2]
    bias_ih, bias_hh = rest[len(start) + 2 :] or (0.0, np.zeros(len(weight_hh)))
    projected, extra = input @ weight_ih.T + bias_ih, start
    if cell == "gru":
        extra = [bias_hh]
    else:
        projected = projected + bias_hh
    return tuple(each[0] for each in exact.recurrence(projected[np.newaxis], weight_hh, hidden, *extra, cell=cell))


def _rnn_reference(*arrays: Any, nonlinearity: str = "tanh") -> ElmanStep:
    return ElmanStep(*_reference(f"rnn_{nonlinearity}", *arrays) * 2)


def _rnn_samples() -> Iterator[Sample]:
    for args, _ in _samples(1, 1)():
        yield sample(*args)
        yield sample(*args, nonlinearity="relu")


declare("rnn_cell", _rnn_reference, _rnn_samples)


def _lstm_reference(*arrays: Any) -> LongShortTermMemory:
    output, cell, gates = _reference("lstm", *arrays)
    return LongShortTermMemory(output, cell, np.concatenate([gates, cell], -1))


declare("lstm_cell", _lstm_reference, _samples(4, 2))
declare("gru_cell", lambda *arrays: GatedRecurrence(*_reference("gru", *arrays)), _samples(3, 1))
