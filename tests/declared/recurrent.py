"""Samples and references of `ops/recurrent.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minitorch_backends.kernels.recurrence import exact
from minitorch_backends.ops.recurrent import GatedRecurrence, LongShortTermMemory

from .samples import Sample, between, sample
from .table import declare


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
