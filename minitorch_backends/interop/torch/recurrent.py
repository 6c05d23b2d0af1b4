"""Recurrent layers and cells, whose products run at the precision of recurrences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from ...autograd import enable_grad
from ...autograd.api import grad
from ...nn.recurrent import LayerWeights, gru_sequence, lstm_sequence, rnn_sequence
from ...tensor.tensor import Tensor
from .operands import tensors_in, why_not
from .recorded import differentiable
from .table import runs

States = tuple[torch.Tensor, ...]

_SEQUENCES: dict[str, Callable[..., Any]] = {
    "lstm": lstm_sequence,
    "gru": gru_sequence,
    "rnn_tanh": rnn_sequence,
    "rnn_relu": partial(rnn_sequence, nonlinearity="relu"),
}
"""By torch's name one layer in one direction."""


def _sequence(kind: str, input: torch.Tensor, weights: Sequence[torch.Tensor], before: States) -> tuple[Any, States]:
    """One layer in one direction: the states of every step, and those after the last one."""

    def run(input: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        of = LayerWeights(*rest[: len(weights)], *(None,) * (4 - len(weights)))
        output, after = _SEQUENCES[kind](input, of, rest[len(weights) :])
        return output, *after

    output, *after = differentiable(run, input, *weights, *before)
    return output, tuple(after)


def _packed_sequence(
    kind: str, sizes: Sequence[int], reverse: bool, data: torch.Tensor, weights: Sequence[torch.Tensor], before: States
) -> tuple[torch.Tensor, States]:
    """Like `_sequence`, for sequences of several lengths, longest first: the numbers of sequences with a first, second
    ... step.

    Consecutive steps with the same number of sequences are one call.
    """
    runs: list[list[int]] = []
    for size in sizes:
        if runs and runs[-1][0] == size:
            runs[-1][1] += 1
        else:
            runs.append([size, 1])
    parts = data.split([size * steps for size, steps in runs])
    outputs, ended, states = [], [], before
    if reverse:
        states = tuple(each[:0] for each in before)
    for (size, steps), part in list(zip(runs, parts, strict=True))[:: -1 if reverse else 1]:
        here = len(states[0])
        if size > here:
            states = tuple(torch.cat([state, first[here:size]]) for state, first in zip(states, before, strict=True))
        elif size < here:
            ended.append(tuple(each[size:] for each in states))
            states = tuple(each[:size] for each in states)
        rows = part.unflatten(0, (steps, size))
        output, states = _sequence(kind, rows.flip(0) if reverse else rows, weights, states)
        outputs.append((output.flip(0) if reverse else output).flatten(0, 1))
    after = tuple(torch.cat(each) for each in zip(states, *ended[::-1], strict=True))
    return torch.cat(outputs[:: -1 if reverse else 1]), after


def _layers(
    kind: str, run: Callable[..., Any], sequence: torch.Tensor, start: States, weights: list[Sequence[torch.Tensor]],
    directions: int, dropout: float,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    """Layers one after the other; `run` computes one in one direction."""
    after: list[States] = []
    for layer in range(len(weights) // directions):
        if layer and dropout:
            sequence = torch.dropout(sequence, dropout, True)
        outputs = []
        for direction in range(directions):
            place = layer * directions + direction
            output, last = run(direction == 1, sequence, weights[place], tuple(each[place] for each in start))
            outputs.append(output)
            after.append(last)
        sequence = torch.cat(outputs, -1) if directions > 1 else outputs[0]
    return sequence, *(torch.stack(each) for each in zip(*after, strict=True))


def _take_layers(func: Any, *args: Any) -> Any:
    """Calls as torch.nn makes them: (input, states, weights, has_biases, num_layers, dropout, train, bidirectional,
    batch_first), or (data, batch_sizes, states, ... bidirectional) of packed sequences."""
    kind, packed = func.__name__, len(args) > 3 and isinstance(args[3], (list, tuple))
    if why_not(each for each in tensors_in(args) if each.is_floating_point()) is not None:
        return NotImplemented
    input, sizes, states, flat, biased, count, dropout, train, bidirectional, *batch_first = (
        args if packed else (args[0], None, *args[1:])
    )
    start = tuple(states) if isinstance(states, (tuple, list)) else (states,)
    each = 4 if biased else 2
    weights = [flat[place : place + each] for place in range(0, len(flat), each)]
    if len(weights) != count * (1 + bidirectional) or any(state.ndim != 3 for state in start):
        return NotImplemented  # projected states, or torch rejects the call
    first = bool(batch_first and batch_first[0])

    def run(reverse: bool, seen: torch.Tensor, of: Sequence[torch.Tensor], before: States) -> tuple[Any, States]:
        if packed:
            return _packed_sequence(kind, sizes.tolist(), reverse, seen, of, before)
        output, after = _sequence(kind, seen.flip(0) if reverse else seen, of, before)
        return (output.flip(0) if reverse else output), after

    sequence = input.transpose(0, 1) if first else input
    output, *after = _layers(kind, run, sequence, start, weights, 1 + bidirectional, dropout if train else 0.0)
    return output.transpose(0, 1) if first else output, *after


def _take_cell(func: Any, *args: Any) -> Any:
    """Calls as torch.nn makes them: (input, states, weight_ih, weight_hh, bias_ih, bias_hh)."""
    if why_not(tensors_in(args)) is not None:
        return NotImplemented
    input, states, *weights = args
    start = tuple(states) if isinstance(states, (tuple, list)) else (states,)
    if input.ndim != 2:
        return NotImplemented
    kind = func.__name__.removesuffix("_cell")
    after = _sequence(kind, input.unsqueeze(0), [each for each in weights if each is not None], start)[1]
    return after if len(after) > 1 else after[0]


@runs("mkldnn_rnn_layer")
def _lstm_layer(
    input: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor,
    b_hh: Tensor,
    hx: Tensor,
    cx: Tensor,
    reverse: bool,
    *_: Any,
) -> tuple[Tensor, ...]:
    """One layer of an LSTM in one direction, as in torch's decomposition."""
    biases = (b_ih, b_hh) if b_ih.numel() else (None, None)
    seen = input.flip(0) if reverse else input
    output, (hidden, cell) = lstm_sequence(seen, LayerWeights(w_ih, w_hh, *biases), (hx, cx))
    return output.flip(0) if reverse else output, hidden, cell, input.new_empty(0)


@runs("mkldnn_rnn_layer_backward")
def _lstm_layer_backward(*args: Any) -> tuple[Tensor, ...]:
    """Its gradients, of the input, the weights and biases, and both states; the layer is computed again for them."""
    leaves = [each.detach().requires_grad_() for each in args[:7]]
    reverse = args[13]
    with enable_grad():
        outputs = _lstm_layer(*leaves, reverse)[:3]
    reached = [(out, g) for out, g in zip(outputs, args[10:13], strict=True) if g is not None]
    out, grads = zip(*reached, strict=True)
    found = grad(list(out), leaves, list(grads), allow_unused=True)
    return tuple(each.new_zeros(each.shape) if g is None else g for g, each in zip(found, leaves, strict=True))


LAYERS = {getattr(torch, name): _take_layers for name in _SEQUENCES}
CELLS = {getattr(torch, f"{name}_cell"): _take_cell for name in _SEQUENCES}
