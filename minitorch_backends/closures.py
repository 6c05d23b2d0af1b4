"""Closures for ops of one and of two inputs: the general path of `Op.apply`, unrolled for tensors of one floating type.

They are what users call, and hand over to the general path whenever anything is out of the ordinary. A property test holds them
equal to it. `a + b` on 8x8 takes 0.4 us this way and 3 us by the general path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .autograd.graph import SELF, Node, history, next_sequence, save
from .autograd.modes import grad_mode
from .tensor import Parameter, Tensor

__all__ = ["binary", "unary"]

_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
_new, _asarray, _ndarray, _mode = object.__new__, np.asarray, np.ndarray, grad_mode.get


def unary(op: Any) -> Callable[..., Any]:
    """The closure of an op whose only input comes first and whose other arguments have defaults."""
    forward, apply = op.ufunc or op.forward, op.apply
    metadata, (saves, saves_out), recorded = _defaults(op), op.plans[1], op.rules[0] is not None
    name = op.inputs[0]

    def call(input: Any, /, *rest: Any, **named: Any) -> Any:
        kind = type(input)
        if rest or named or (kind is not Tensor and kind is not Parameter):
            return apply((input, *rest), named, None)
        x = input._array
        dtype = x.dtype
        if dtype is not _FLOAT32 and dtype is not _FLOAT64:
            return apply((input,), named, None)
        out = forward(x)
        if type(out) is not _ndarray:
            if isinstance(out, tuple):
                return apply((input,), named, None)
            out = _asarray(out)
        tensor = _new(Tensor)
        tensor._array = out
        tensor._node = tensor._state = tensor._cell = None
        if recorded and input._node is not None and _mode().enabled and out.dtype.kind in "fc":
            edge = history(input)
            if edge is not None:
                node = _new(Node)
                node.op, node.edges, node.likes = op, (edge,), ((x.shape, dtype),)
                node.metadata, node.outputs, node.sequence = metadata, (), next_sequence()
                node.saved = saved = {name: save(input, edge)} if saves else {}
                if saves_out:
                    saved["out"] = save(tensor, SELF)
                tensor._node = node
        return tensor

    return call


def binary(op: Any) -> Callable[..., Any]:
    """The closure of an op whose two inputs come first and whose other arguments have defaults."""
    forward, apply, numbers = op.ufunc or op.forward, op.apply, op.promote in (True, "float")
    metadata, plans = _defaults(op), op.plans
    first, second = op.inputs
    with_first, with_second = op.rules[0] is not None, op.rules[1] is not None

    def call(input: Any, other: Any = None, /, *rest: Any, **named: Any) -> Any:
        kind = type(input)
        if rest or named or (kind is not Tensor and kind is not Parameter):
            return apply(_given(input, other, rest, named), named, None)
        x = input._array
        dtype = x.dtype
        if dtype is not _FLOAT32 and dtype is not _FLOAT64:
            return apply((input, other), named, None)
        kind = type(other)
        if kind is Tensor or kind is Parameter:
            y = other._array
            if y.dtype is not dtype:
                return apply((input, other), named, None)
            behind = other._node
        elif numbers and (kind is float or kind is int):
            y, behind = other, None
        else:
            return apply(_given(input, other, rest, named), named, None)
        out = forward(x, y)
        if type(out) is not _ndarray:
            out = _asarray(out)
        tensor = _new(Tensor)
        tensor._array = out
        tensor._node = tensor._state = tensor._cell = None
        if (input._node is not None or behind is not None) and _mode().enabled and out.dtype.kind in "fc":
            edge = history(input) if with_first else None
            edge_of_other = history(other) if with_second and behind is not None else None
            if edge is not None or edge_of_other is not None:
                node = _new(Node)
                node.op, node.edges = op, (edge, edge_of_other)
                node.likes = ((x.shape, dtype), None if edge_of_other is None else (y.shape, dtype))
                node.metadata, node.outputs, node.sequence = metadata, (), next_sequence()
                saves, saves_out = plans[(edge is not None) + 2 * (edge_of_other is not None)]
                node.saved = saved = {}
                for index in saves:
                    if index == 0:
                        saved[first] = save(input, edge)
                    else:
                        saved[second] = other if y is other else save(other, edge_of_other)
                if saves_out:
                    saved["out"] = save(tensor, SELF)
                tensor._node = node
        return tensor

    return call


def _given(input: Any, other: Any, rest: tuple, named: dict[str, Any]) -> tuple:
    """The positional arguments that were given; None for `other` stands for its absence."""
    return (input, *rest) if other is None and not rest else (input, other, *rest)


def _defaults(op: Any) -> dict[str, Any]:
    return {name: op.defaults[name] for name in op.metadata_names}
