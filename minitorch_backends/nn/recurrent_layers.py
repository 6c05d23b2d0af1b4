"""One recurrent layer in one direction: its parameters, and its states in every step."""

from __future__ import annotations

from typing import NamedTuple

from ..ops.creation.factories import zeros
from ..ops.recurrent import gru_layer, lstm_layer, recurrent_product, rnn_layer
from ..ops.views.join import stack
from ..tensor.tensor import Tensor

States = tuple[Tensor, ...]
"""The hidden state, and the cell state of an LSTM."""


def _project(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The weight applied to all steps in one product."""
    result = recurrent_product(input.flatten(0, 1), weight)
    return (result if bias is None else result + bias).unflatten(0, input.shape[:2])


class LayerWeights(NamedTuple):
    """The parameters of one layer in one direction, in torch's order."""

    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None = None
    bias_hh: Tensor | None = None
    weight_hr: Tensor | None = None

    @property
    def bias(self) -> Tensor | None:
        """The sum of both."""
        return None if self.bias_ih is None or self.bias_hh is None else self.bias_ih + self.bias_hh


def rnn_sequence(input: Tensor, of: LayerWeights, before: States, nonlinearity: str = "tanh") -> tuple[Tensor, States]:
    """One layer of an `RNN` in one direction: the states of every step, and those after the last one."""
    output = rnn_layer(_project(input, of.weight_ih, of.bias), of.weight_hh, *before, nonlinearity)
    return output, (output[-1],)


def lstm_sequence(input: Tensor, of: LayerWeights, before: States) -> tuple[Tensor, States]:
    """As `rnn_sequence`, of an `LSTM`."""
    if of.weight_hr is not None:
        return _lstm_with_projection(input, of, of.weight_hr, before)
    made = lstm_layer(_project(input, of.weight_ih, of.bias), of.weight_hh, *before)
    return made.output, (made.output[-1], made.cells[-1])


def _lstm_with_projection(input: Tensor, of: LayerWeights, projection: Tensor, before: States) -> tuple[Tensor, States]:
    """As `lstm_sequence`, with states h = weight_hr @ (o * tanh(c)), step by step."""
    (hidden, cell), outputs = before, []
    for step in _project(input, of.weight_ih, of.bias):
        entered, kept, candidate, shown = (step + recurrent_product(hidden, of.weight_hh)).chunk(4, -1)
        cell = kept.sigmoid() * cell + entered.sigmoid() * candidate.tanh()
        hidden = recurrent_product(shown.sigmoid() * cell.tanh(), projection)
        outputs.append(hidden)
    return stack(outputs), (hidden, cell)


def gru_sequence(input: Tensor, of: LayerWeights, before: States) -> tuple[Tensor, States]:
    """As `rnn_sequence`, of a `GRU`."""
    inner = zeros(len(of.weight_hh), dtype=of.weight_hh.dtype) if of.bias_hh is None else of.bias_hh
    output = gru_layer(_project(input, of.weight_ih, of.bias_ih), of.weight_hh, inner, *before).output
    return output, (output[-1],)
