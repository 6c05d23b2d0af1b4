"""Samples and references of `ops/recurrent.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minitorch_backends.kernels.recurrence import exact
from minitorch_backends.ops.recurrent import ElmanStep, GatedRecurrence, LongShortTermMemory
from tests.declared.samples import Sample, between, sample
from tests.declared.table import declare


def _factors() -> Iterator[Sample]:
    yield sample(between(-1, 1, 3, 4), between(-1, 1, 2, 4, seed=1))
    yield sample(between(-1, 1, 8, 4)[::2, ::-2], between(-1, 1, 2, 3, seed=1).T)
    yield sample(between(-1, 1, 0, 4), between(-1, 1, 2, 4, seed=1))


declare("recurrent_product", lambda input, weight: input @ weight.T, _factors)


def _reference(*arrays: Any, cell: str) -> tuple[np.ndarray, ...]:
    return exact.recurrence(*arrays, cell=cell)


def _sequences(gates: int, states: int, bias: bool = False) -> Callable[[], Iterator[Sample]]:
    """Samples of a layer's op: a sequence, one step, and a batch of nothing."""

    def samples() -> Iterator[Sample]:
        for length, rows, size in ((3, 2, 3), (1, 1, 2), (2, 0, 2)):
            weight = between(-1, 1, gates * size, size, seed=1)
            further = [between(-1, 1, gates * size, seed=2)] if bias else []
            start = [between(-1, 1, rows, size, seed=3 + each) for each in range(states)]
            yield sample(between(-2, 2, length, rows, gates * size), weight, *further, *start)
        turned = [between(-1, 1, 2, 2, seed=3 + each).T for each in range(states)]
        weight = between(-1, 1, 2, 2 * gates, seed=1).T
        yield sample(between(-2, 2, 2 * gates, 2, 3).T, weight, *further, *turned)

    return samples


def _rnn_reference(projected: Any, weight: Any, hidden: Any, nonlinearity: str = "tanh") -> np.ndarray:
    return _reference(projected, weight, hidden, cell=f"rnn_{nonlinearity}")[0]


def _rnn_samples() -> Iterator[Sample]:
    for args, _ in _sequences(1, 1)():
        yield sample(*args)
        yield sample(*args, "relu")


declare("rnn_layer", _rnn_reference, _rnn_samples)


def _lstm_reference(*arrays: Any) -> LongShortTermMemory:
    return LongShortTermMemory(*_reference(*arrays, cell="lstm"))


declare("lstm_layer", _lstm_reference, _sequences(4, 2))


def _gru_reference(projected: Any, weight: Any, bias: Any, hidden: Any) -> GatedRecurrence:
    return GatedRecurrence(*_reference(projected, weight, hidden, bias, cell="gru"))


declare("gru_layer", _gru_reference, _sequences(3, 1, bias=True))


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


def _reference_of_recurrent_cells(cell: str, input: Any, hidden: Any, *rest: Any) -> tuple[np.ndarray, ...]:
    *start, weight_ih, weight_hh = rest[: 3 if cell == "lstm" else 2]
    bias_ih, bias_hh = rest[len(start) + 2 :] or (0.0, np.zeros(len(weight_hh)))
    projected, extra = input @ weight_ih.T + bias_ih, start
    if cell == "gru":
        extra = [bias_hh]
    else:
        projected = projected + bias_hh
    return tuple(each[0] for each in exact.recurrence(projected[np.newaxis], weight_hh, hidden, *extra, cell=cell))


def _rnn_reference_of_recurrent_cells(*arrays: Any, nonlinearity: str = "tanh") -> ElmanStep:
    return ElmanStep(*_reference_of_recurrent_cells(f"rnn_{nonlinearity}", *arrays) * 2)


def _rnn_samples_of_recurrent_cells() -> Iterator[Sample]:
    for args, _ in _samples(1, 1)():
        yield sample(*args)
        yield sample(*args, nonlinearity="relu")


declare("rnn_cell", _rnn_reference_of_recurrent_cells, _rnn_samples_of_recurrent_cells)


def _lstm_reference_of_recurrent_cells(*arrays: Any) -> LongShortTermMemory:
    output, cell, gates = _reference_of_recurrent_cells("lstm", *arrays)
    return LongShortTermMemory(output, cell, np.concatenate([gates, cell], -1))


declare("lstm_cell", _lstm_reference_of_recurrent_cells, _samples(4, 2))
declare("gru_cell", lambda *arrays: GatedRecurrence(*_reference_of_recurrent_cells("gru", *arrays)), _samples(3, 1))
