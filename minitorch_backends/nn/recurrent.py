"""Recurrent layers and cells. Their products run at the precision of recurrences, `cudnn.rnn.fp32_precision` and its
relatives."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..kernels.runtime.context import warn_caller
from ..ops.creation.factories import empty, zeros
from ..ops.recurrent import gru_cell, gru_layer, lstm_cell, lstm_layer, recurrent_product, rnn_cell, rnn_layer
from ..ops.views.join import cat, stack
from ..tensor.tensor import Parameter, Tensor, kind_of
from . import functional as F
from . import init
from .module import Module
from .module_internals import refuse_beyond_memory
from .utils.rnn import PackedSequence, over_stretches

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNCell"]


# One recurrent layer in one direction: its parameters, and its states in every step


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


class _Recurrent(Module):
    """What layers and cells share: sizes, weights that start uniform within 1 / sqrt(hidden_size), and checks."""

    _gates, _states = 1, 1

    input_size: int
    hidden_size: int
    bias: bool
    proj_size: int = 0

    def _add(self, suffix: str, input_size: int, device: Any, dtype: Any) -> None:
        """The parameters of one layer in one direction, under torch's names."""
        rows = self._gates * self.hidden_size
        shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, input_size), "weight_hh": (rows, self._state_size)}
        if self.bias:
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        for name, shape in shapes.items():
            setattr(self, name + suffix, Parameter(empty(*shape, device=device, dtype=dtype)))

    @property
    def _state_size(self) -> int:
        """The size of the hidden state and of a layer's output."""
        return self.proj_size or self.hidden_size

    def _one(self, input: Tensor, suffix: str, before: States) -> tuple[Tensor, States]:
        """One layer in one direction over an input (length, batch, size): the states of every step, and those after the
        last one."""
        names = ("weight_ih", "weight_hh", *("bias_ih", "bias_hh") * self.bias, *("weight_hr",) * bool(self.proj_size))
        of = LayerWeights(**{name: getattr(self, name + suffix) for name in names})
        self._check_parameters(of, input, *before)
        return self._layer(input, of, before)

    def _layer(self, input: Tensor, of: LayerWeights, before: States) -> tuple[Tensor, States]:
        raise NotImplementedError

    def reset_parameters(self) -> None:
        """Reinitialise all weights and biases."""
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _check_sizes(self) -> None:
        for name in ("input_size", "hidden_size"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be greater than zero, got {getattr(self, name)}")

    def _check_input(self, input: Tensor, dims: tuple[int, int]) -> None:
        name = type(self).__name__
        if not isinstance(input, Tensor):
            raise TypeError(f"{name}: expected input to be a Tensor, got {kind_of(input)}")
        if input.ndim not in dims:
            raise ValueError(f"{name}: Expected input to be {dims[0]}D or {dims[1]}D, got {input.ndim}D instead")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"{name}: input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.shape[-1]}"
            )

    def _check_states(self, hx: Any) -> States:
        """The states that a call gave."""
        states = tuple(hx) if isinstance(hx, (tuple, list)) else (hx,)
        if len(states) != self._states or not all(isinstance(each, Tensor) for each in states):
            wanted = "a tensor" if self._states == 1 else f"{self._states} tensors, the hidden and the cell state"
            got = ", ".join(type(each).__name__ for each in states)
            raise RuntimeError(f"{type(self).__name__}: expected hx to be {wanted}, got {got}")
        return states

    def _check_parameters(self, of: LayerWeights, *others: Tensor) -> None:
        name, rows = type(self).__name__, self._gates * self.hidden_size
        dtype = of.weight_hh._array.dtype
        for each in (*others, *of):
            if each is not None and each._array.dtype is not dtype and each.dtype is not of.weight_hh.dtype:
                raise RuntimeError(
                    f"{name}: expected input, states, weights and biases to have one dtype, got {each.dtype!r} "
                    f"beside weight_hh of {of.weight_hh.dtype!r}; convert with .to(dtype)"
                )
        for field, each in zip(LayerWeights._fields, of[:4], strict=False):
            if each is not None and each._array.shape[:1] != (rows,):
                raise RuntimeError(f"{name}: expected {field} to have {rows} rows, got {list(each.shape)}")

    def _result(self, states: States) -> Any:
        return states[0] if self._states == 1 else states


# Kinds


class _Elman(_Recurrent):
    nonlinearity: str

    def _take_nonlinearity(self, nonlinearity: str) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity {nonlinearity!r}; expected 'tanh' or 'relu'")
        self.nonlinearity = nonlinearity

    def _layer(self, input: Tensor, of: LayerWeights, before: States) -> tuple[Tensor, States]:
        return rnn_sequence(input, of, before, self.nonlinearity)


class _LongShortTerm(_Recurrent):
    _gates, _states = 4, 2

    def _layer(self, input: Tensor, of: LayerWeights, before: States) -> tuple[Tensor, States]:
        return lstm_sequence(input, of, before)


class _Gated(_Recurrent):
    _gates = 3

    def _layer(self, input: Tensor, of: LayerWeights, before: States) -> tuple[Tensor, States]:
        return gru_sequence(input, of, before)


# Layers


class _Layers(_Recurrent):
    """Layers over sequences, in one or both directions."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self.input_size, self.hidden_size, self.num_layers, self.bias = input_size, hidden_size, num_layers, bias
        self.batch_first, self.dropout, self.bidirectional = batch_first, float(dropout), bidirectional
        self.proj_size = proj_size
        self._check_sizes()
        if proj_size and self._states == 1:
            raise ValueError(f"{type(self).__name__}: proj_size must be 0 for layers other than LSTM, got {proj_size}")
        if not 0 <= proj_size < hidden_size:
            raise ValueError(f"proj_size must be at least 0 and smaller than hidden_size, got {proj_size}")
        if num_layers <= 0:
            raise ValueError(f"num_layers must be greater than zero, got {num_layers}")
        if isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError(f"dropout should be a number in range [0, 1], a probability, got {dropout}")
        if dropout and num_layers == 1:
            warn_caller(
                f"{type(self).__name__}: dropout is between layers, so that dropout={dropout} does nothing for "
                "num_layers=1"
            )
        numbers = self._gates * hidden_size * (hidden_size + min(input_size, hidden_size))
        refuse_beyond_memory(type(self).__name__, "num_layers", num_layers, self._directions * numbers * 4)
        for layer, suffix in self._suffixes():
            self._add(suffix, input_size if layer == 0 else self._state_size * self._directions, device, dtype)
        self.reset_parameters()

    @property
    def _directions(self) -> int:
        return 1 + self.bidirectional

    def _suffixes(self) -> Iterator[tuple[int, str]]:
        """Every layer and direction, with the suffix of its parameters' names."""
        for layer in range(self.num_layers):
            for direction in ("", "_reverse")[: self._directions]:
                yield layer, f"_l{layer}{direction}"

    @property
    def mode(self) -> str:
        """The kind, as torch names it."""
        return type(self).__name__

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """The parameters of each layer and direction."""
        of = [[vars(self).get(name + suffix) for name in LayerWeights._fields] for _, suffix in self._suffixes()]
        return [[each for each in weights if each is not None] for weights in of]

    def flatten_parameters(self) -> None:
        """Nothing: it is for memory of GPUs."""

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        self._check_input(input, (2, 3))
        batched = input.ndim == 3
        sequence = input.unsqueeze(1) if not batched else input.transpose(0, 1) if self.batch_first else input
        if not sequence.shape[0]:
            raise RuntimeError(
                f"{type(self).__name__}: Expected sequence length to be larger than 0, got an input of shape "
                f"{list(input.shape)}"
            )
        output, after = self._run(sequence, self._start(sequence.shape[1], sequence.dtype, hx, batched))
        if not batched:
            return output.squeeze(1), self._result(tuple(each.squeeze(1) for each in after))
        return (output.transpose(0, 1) if self.batch_first else output), self._result(after)

    def _forward_packed(self, input: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        """`forward` of sequences of several lengths."""
        self._check_input(input.data, (2, 2))
        start = self._start(int(input.batch_sizes[0]), input.data.dtype, hx, True)
        if input.sorted_indices is not None and hx is not None:
            start = tuple(each.index_select(1, input.sorted_indices) for each in start)
        output, after = self._run(input.data, start, over_stretches(input, self._one))
        if input.unsorted_indices is not None:
            after = tuple(each.index_select(1, input.unsorted_indices) for each in after)
        return input._replace(data=output), self._result(after)

    def _start(self, batch: int, dtype: Any, hx: Any, batched: bool) -> States:
        """The states before the first step, (layers x directions, batch, hidden)."""
        count = self.num_layers * self._directions
        sizes = {"hidden": self._state_size, "cell": self.hidden_size}
        if hx is None:
            return tuple(zeros(count, batch, size, dtype=dtype) for size in list(sizes.values())[: self._states])
        states = self._check_states(hx)
        for (name, size), state in zip(sizes.items(), states, strict=False):
            expected = (count, batch, size) if batched else (count, size)
            if tuple(state.shape) != expected:
                last = "hidden_size" if size == self.hidden_size else "proj_size"
                raise RuntimeError(
                    f"{type(self).__name__}: Expected {name} size {expected}, got {list(state.shape)}; it is (layers x "
                    f"directions, {'batch, ' if batched else ''}{last})"
                )
        return states if batched else tuple(state.unsqueeze(1) for state in states)

    def _one_way(self, sequence: Tensor, suffix: str, states: States) -> tuple[Tensor, States]:
        """One layer in the direction that the suffix names, over a padded batch."""
        reverse = suffix.endswith("_reverse")
        output, last = self._one(sequence.flip(0) if reverse else sequence, suffix, states)
        return (output.flip(0) if reverse else output), last

    def _run(self, sequence: Tensor, start: States, one_way: Any = None) -> tuple[Tensor, States]:
        """Run all layers: the outputs of the last ones, and the final states of each."""
        after: list[States] = []
        outputs: list[Tensor] = []
        for place, (_, suffix) in enumerate(self._suffixes()):
            if len(outputs) == self._directions:
                sequence, outputs = cat(outputs, -1), []
                sequence = F.dropout(sequence, self.dropout, self.training) if self.dropout else sequence
            output, last = (one_way or self._one_way)(sequence, suffix, tuple(each[place] for each in start))
            outputs.append(output)
            after.append(last)
        return cat(outputs, -1), tuple(stack(each) for each in zip(*after, strict=True))

    def extra_repr(self) -> str:
        defaults = {
            "proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0, "bidirectional": False,
        }  # fmt: skip
        changed = [
            f", {name}={getattr(self, name)}" for name, value in defaults.items() if getattr(self, name) != value
        ]
        return f"{self.input_size}, {self.hidden_size}{''.join(changed)}"


class RNN(_Elman, _Layers):
    """Elman's recurrence: h = f(weight_ih @ x + bias_ih + weight_hh @ h_before + bias_hh), with f tanh or relu.

    Call it with a sequence (length, batch, input_size), batch first if `batch_first`, or without batch. The states
    (num_layers x directions, batch, hidden_size) are zeros by default. Returns (output (length, batch, directions x
    hidden_size), states after the last step). With `bidirectional` a second recurrence runs backward through the
    sequence. `dropout` applies between the layers, in training.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self._take_nonlinearity(nonlinearity)
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype
        )

    @property
    def mode(self) -> str:
        """The kind, as torch names it."""
        return f"RNN_{self.nonlinearity.upper()}"


class LSTM(_LongShortTerm, _Layers):
    """Long short-term memory (S. Hochreiter and J. Schmidhuber, 1997), with gates i, f, g, o as in torch: c = f *
    c_before + i * g, and h = o * tanh(c).

    Called as `RNN` is, but that states are pairs (h, c). With `proj_size` h = weight_hr @ (o * tanh(c)) has
    that size instead of `hidden_size` (H. Sak, A. Senior and F. Beaufays, 2014); such layers run step by step.
    """


class GRU(_Gated, _Layers):
    """Gated recurrent units (K. Cho et al., 2014), with gates r, z, n as in torch.

    n = tanh(x_n + r * h_n), where h_n is weight_hn @ h_before + bias_hn, and h = (1 - z) * n + z * h_before. Called
    like `RNN`.
    """


# Cells


class _Cell(_Recurrent):
    """One step of a layer."""

    weight_ih: Parameter
    weight_hh: Parameter
    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        self._check_sizes()
        self._add("", input_size, device, dtype)
        if not bias:
            self.register_parameter("bias_ih", None)
            self.register_parameter("bias_hh", None)
        self.reset_parameters()

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        self._check_input(input, (1, 2))
        rows = input._array.shape[:-1]
        shape = (*rows, self.hidden_size)
        states = (zeros(*shape, dtype=input.dtype),) * self._states if hx is None else self._check_states(hx)
        for state in states:
            if state._array.shape != shape:
                raise RuntimeError(
                    f"{type(self).__name__}: expected states of shape {list(shape)}, got {list(state.shape)}"
                )
        if not rows:
            after = self.forward(input.unsqueeze(0), tuple(each.unsqueeze(0) for each in states))
            return after.squeeze(0) if self._states == 1 else tuple(each.squeeze(0) for each in after)
        try:
            return self._step(input, *states, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        except Exception:
            of = LayerWeights(self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
            self._check_parameters(of, input, *states)
            raise

    def _step(self, input: Tensor, *states_and_weights: Any) -> Any:
        raise NotImplementedError

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class RNNCell(_Elman, _Cell):
    """One step of an `RNN`: input (batch, input_size) or (input_size), and a state (batch, hidden_size), to the next
    state."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        self._take_nonlinearity(nonlinearity)
        super().__init__(input_size, hidden_size, bias, device, dtype)

    def _step(self, input: Tensor, *states_and_weights: Any) -> Tensor:
        return rnn_cell(input, *states_and_weights, self.nonlinearity).output

    def extra_repr(self) -> str:
        return super().extra_repr() + (f", nonlinearity={self.nonlinearity}" if self.nonlinearity != "tanh" else "")


class LSTMCell(_LongShortTerm, _Cell):
    """One step of an `LSTM`: the states are a pair."""

    def _step(self, input: Tensor, *states_and_weights: Any) -> tuple[Tensor, Tensor]:
        return lstm_cell(input, *states_and_weights)[:2]


class GRUCell(_Gated, _Cell):
    """One step of a `GRU`."""

    def _step(self, input: Tensor, *states_and_weights: Any) -> Tensor:
        return gru_cell(input, *states_and_weights).output
