"""Closures for ops of one and of two inputs, and for in-place forms: the general path of `Op.apply`, unrolled for the
plainest of calls.

They are what users call, and hand over to the function that is written out for the op, and that to the general path,
whenever anything is out of the ordinary. A property test holds them equal to it. `a + b` on 8x8 takes 0.4 us this way
and 3 us by the general path.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..autograd import nodes
from ..autograd.inference import InferenceCell
from ..autograd.modes import grad_mode
from ..autograd.nodes import SELF, Node, history, next_sequence, save
from ..backends.precision_policy import recorded as recorded_arguments
from ..kernels.elementwise import in_rows, is_half, least_of, threaded
from ..kernels.quiet import restore, silence
from ..tensor.casting import converted
from ..tensor.tensor import Parameter, Tensor
from . import instrumentation
from .written import MOST_EXACT, written

__all__ = ["ABSENT", "binary", "unary", "writing"]

# Sums and products that overflow give Inf without a word, as in torch. To silence NumPy around each of them, as is done
# for ops that may leave their domain (`op(warns=True)`), would take 0.2 us of the 0.5 that `a + b` takes.
warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"minitorch_backends\.")

_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
_COMPLEX64, _COMPLEX128 = np.dtype(np.complex64), np.dtype(np.complex128)
_new, _asarray, _ndarray, _mode = object.__new__, np.asarray, np.ndarray, grad_mode.get
ABSENT: Any = object()


def unary(op: Any) -> Callable[..., Any]:
    """The closure of an op whose only input comes first, for float32 and float64 (complex64 and complex128, of an op of
    complex numbers alone), and for large arrays of half types where threads take them.

    `x.sum(0)` on 8x8 takes 3 us this way and 7 us by the general path.
    """
    plain, detailed, general = _quiet(op, op.ufunc or op.forward), _quiet(op, op.forward), written(op)
    defaults, (saves, saves_out), recorded = _defaults(op), op.plans[1], op.rules[0] is not None
    name, positional, count = op.inputs[0], op.order[1:], len(op.metadata_names)
    needs_more, row_major, scalars, known = len(defaults) < count, op.row_major, op.scalars, op.known
    large, least = _large(op)
    narrow, wide = (_FLOAT32, _FLOAT64) if "f" in op.takes else (_COMPLEX64, _COMPLEX128)

    def call(input: Any = ABSENT, /, *rest: Any, **named: Any) -> Any:
        kind = type(input)
        if (kind is not Tensor and kind is not Parameter) or instrumentation.calls:
            return general(*_given(input, *rest), **named)
        x = input._array
        dtype = x.dtype
        if dtype is not narrow and dtype is not wide:
            usual = x.size >= least and is_half(dtype) and not (rest or named or needs_more)
            out, metadata = large(x) if usual else None, defaults
            if out is None:
                return general(input, *rest, **named)
        elif rest or named or needs_more:
            if len(rest) == count == len(positional) and not named:
                metadata = dict(zip(positional, rest, strict=True))
            else:
                metadata = {**defaults, **dict(zip(positional, rest, strict=False)), **named}
                surplus = len(metadata) != count or len(rest) > len(positional)
                if surplus or not named.keys().isdisjoint(positional[: len(rest)]):
                    return general(input, *rest, **named)
            for scalar, kinds in scalars.items():
                if type(metadata[scalar]) not in kinds:
                    return general(input, *rest, **named)
            try:
                out = detailed(x, **metadata)
            except Exception as error:
                if not metadata.keys() <= known:
                    return general(input, *rest, **named)
                if (refusal := op.refusal(error, (x,), metadata.items())) is error:
                    raise
                raise refusal from error
        else:
            metadata = defaults
            out = large(x) if x.size >= least else None
            if out is None:
                out = plain(x)
        if type(out) is not _ndarray:
            if isinstance(out, tuple):
                return op.wrapped([input], [x], metadata, out)
            out = _asarray(out)
        elif row_major and not out.flags.c_contiguous:
            out = in_rows(out)
        tensor = _new(Tensor)
        tensor._array = out
        tensor._node = tensor._state = tensor._cell = None
        if instrumentation.born is not None:
            instrumentation.born(tensor)
        differentiable = recorded and (metadata is defaults or out.dtype.kind not in "biu")
        if differentiable and input._node is not None and _mode().records:
            if dtype.itemsize == 2:
                op.record([input], [x], metadata, tensor)
                return tensor
            edge = input._node if input._state is None else history(input)
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
    """The closure of an op whose two inputs come first and whose other arguments have defaults, for one floating
    type: float32, float64, and a half type of an op that takes it as it is, or of large arrays where threads take them.
    """
    forward, general = _quiet(op, op.ufunc or op.forward), written(op)
    halves = not op.widen and not op.promote and "f" in op.takes
    metadata, plans = _defaults(op), op.plans
    first, second = op.inputs
    with_first, with_second, product = op.rules[0] is not None, op.rules[1] is not None, op.product
    recorded, strided, numbers = with_first or with_second, op.strided, op.numbers
    large, least = _large(op)
    rounds = op.rounds

    def call(input: Any = ABSENT, other: Any = ABSENT, /, *rest: Any, **named: Any) -> Any:
        kind = type(input)
        if rest or named or (kind is not Tensor and kind is not Parameter) or instrumentation.calls:
            return general(*_given(input, other, *rest), **named)
        x = input._array
        dtype = x.dtype
        usual = True
        if dtype is not _FLOAT32 and dtype is not _FLOAT64:
            usual = halves and is_half(dtype)
            if not usual and not (x.size >= least and is_half(dtype)):
                return general(*_given(input, other))
        kind = type(other)
        if kind is Tensor or kind is Parameter:
            y = other._array
            if y.dtype is not dtype:
                return general(*_given(input, other))
            behind = other._node
        elif numbers and (kind is float or (kind is int and -MOST_EXACT <= other <= MOST_EXACT)):
            y, behind = float(converted(np.asarray(other), dtype)) if rounds and is_half(dtype) else other, None
        else:
            return general(*_given(input, other, *rest), **named)
        try:
            out = large(x, y) if x.size >= least else None
            if out is None:
                if not usual:
                    return general(*_given(input, other))
                out = forward(x, y)
        except (ValueError, IndexError, TypeError) as error:
            raise op.refusal(error, (x, y), ()) from None
        if type(out) is not _ndarray:
            out = _asarray(out)
        tensor = _new(Tensor)
        tensor._array = out
        tensor._node = tensor._state = tensor._cell = None
        if instrumentation.born is not None:
            instrumentation.born(tensor)
        if (input._node is not None or behind is not None) and recorded and _mode().records:
            if dtype.itemsize == 2:
                op.record([input, other], [x, y], metadata, tensor)
                return tensor
            edge = None if not with_first else input._node if input._state is None else history(input)
            edge_of_other = None
            if behind is not None and with_second:
                edge_of_other = behind if other._state is None else history(other)
            if edge is not None or edge_of_other is not None:
                node = _new(Node)
                node.op, node.edges = op, (edge, edge_of_other)
                if strided:
                    node.likes = ((x.shape, dtype, x.strides), None if y is other else (y.shape, dtype, y.strides))
                else:
                    node.likes = ((x.shape, dtype), None if y is other else (y.shape, dtype))
                node.metadata = metadata if product is None else recorded_arguments(metadata, product)
                node.outputs, node.sequence = (), next_sequence()
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


def writing(op: Any) -> Callable[..., Tensor]:
    """The in-place form of an op: short for contiguous tensors of one floating type and shape (or one and a number)
    with nothing to record, of half types where threads take them.
    `a.add_(b)` on 8x8 takes 0.8 us this way and 6 us by the general path.
    """
    apply, forward = op.apply, _quiet(op, op.forward)
    ufunc = _quiet(op, op.ufunc) if isinstance(op.ufunc, np.ufunc) else None
    numbers = op.numbers and ufunc is not None
    ways = op.order[: len(op.inputs)] == op.inputs and not op.listed and op.writer is None and "f" in op.takes
    known, binary = frozenset(op.metadata_names), len(op.inputs) == 2
    short = ways and len(op.inputs) in (1, 2) and len(_defaults(op)) == len(known)
    large, least = _large(op)

    def write(self: Tensor, *args: Any, **named: Any) -> Tensor:
        x, behind = self._array, None
        operands: tuple[Any, ...] = ()
        plain, usual = short and len(args) == binary and x.flags.c_contiguous, x.dtype in (_FLOAT32, _FLOAT64)
        plain = plain and (usual or (x.size >= least and is_half(x.dtype)))
        if plain and binary:
            other = args[0]
            if isinstance(other, Tensor):
                plain = other._array.dtype is x.dtype and other._array.shape == x.shape
                operands, behind = (other._array,), other._node
            else:
                number = type(other) is float or (type(other) is int and -MOST_EXACT <= other <= MOST_EXACT)
                plain, operands = numbers and not named and number, args
        alone = instrumentation.calls or nodes.keep_originals is not None or (named and not named.keys() <= known)
        unrecorded = (self._node is None and behind is None) or not _mode().records
        if not plain or alone or not unrecorded or type(self._cell) is InferenceCell:
            return apply((self, *args), named, self)
        written = not named and x.size >= least and large(x, *operands, out=x) is not None
        if not written and not usual:
            return apply((self, *args), named, self)
        try:
            if not written and ufunc is not None and not named:
                ufunc(x, *operands, x)
            elif not written:
                x[...] = forward(x, *operands, **named)
        except Exception:  # read-only memory, or an argument, which the general path refuses in its own words
            return apply((self, *args), named, self)
        cell = self._cell
        if cell is None:
            self._cell = [1]
        else:
            cell[0] += 1
        return self

    return write


def _large(op: Any) -> tuple[Any, float]:
    """What computes it for large arrays, and the number of elements from which it does."""
    large = threaded(op.ufunc) if "f" in op.takes else None
    return large, math.inf if large is None else least_of(op.ufunc)


def _quiet(op: Any, forward: Callable[..., Any]) -> Callable[..., Any]:
    """`forward`, without NumPy's floating-point warnings where it may leave its domain."""
    if not op.warns:
        return forward

    def quiet(*arrays: Any, **metadata: Any) -> Any:
        token = silence()
        try:
            return forward(*arrays, **metadata)
        finally:
            restore(token)

    return quiet


def _given(*values: Any) -> tuple:
    """The positional arguments that were given."""
    return tuple(value for value in values if value is not ABSENT) if values[-1] is ABSENT else values


def _defaults(op: Any) -> dict[str, Any]:
    return {name: op.defaults[name] for name in op.metadata_names if name in op.defaults}
