"""The generated functions equal the definition, `Op.apply`: values, dtypes, errors, and all that is recorded."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitorch_backends as mt
from minitorch_backends.autograd.nodes import Leaf, Node, Output
from minitorch_backends.dispatch.op import Op
from minitorch_backends.tensor.registry import registry
from minitorch_backends.tensor.tensor import Parameter, Tensor

from ..declared.samples import Sample
from ..support.calls import arrays_in, is_composite, map_arrays, samples_of, tensors

ERRORS = (RuntimeError, TypeError, ValueError, IndexError)


OPS = [name for name, op in registry.items() if isinstance(op, Op) and getattr(op.public, "op", None) is op]
IN_PLACE = [name for name in OPS if getattr(vars(Tensor).get(f"{name}_"), "__wrapped__", None) is registry[name].public]

every_op = pytest.mark.parametrize("name", OPS)


class Recorded(NamedTuple):
    """The comparable parts of a result and of the node behind it."""

    dtype: Any
    shape: tuple[int, ...]
    bits: bytes
    requires_grad: bool
    version: int
    base: Any
    op: Any = None
    edges: Any = None
    likes: Any = None
    metadata: Any = None
    outputs: Any = None
    index: int = 0
    saved: Any = None


def describe(out: Any) -> Any:
    """A result, or each of several, without the identities that two runs cannot share."""
    if isinstance(out, tuple):
        return [type(out).__name__, *map(describe, out)]
    assert type(out) is Tensor
    array = out._array
    about = (
        out.dtype,
        array.shape,
        array.tobytes(),
        out.requires_grad,
        out._version,
        out._base.data_ptr() if out._is_view() else None,
    )
    node, index = out.grad_fn, out.output_nr
    if node is None:
        return Recorded(*about)
    saved = {name: entry_of(entry, node) for name, entry in node.saved.items()}
    metadata = {name: repr(value) for name, value in node.metadata.items()}
    edges = tuple(map(edge_of, node.edges))
    return Recorded(*about, node.op, edges, node.likes, metadata, node.outputs, index, saved)


def edge_of(edge: Node | None) -> Any:
    return edge if edge is None or isinstance(edge, Leaf) else (edge.op, *map(edge_of, edge.edges))


def entry_of(entry: Any, node: Node) -> Any:
    """A saved tensor: its values, the edge it keeps, and its version.

    A number may be saved as it is, or as a tensor without dimensions and without an edge.
    """
    if isinstance(entry, list):
        return [entry_of(each, node) for each in entry]
    if isinstance(entry, (int, float, complex)):
        with np.errstate(over="ignore"):
            return "number", complex(np.asarray(entry, node.likes[0][1]))
    if not isinstance(entry, tuple):
        return repr(entry)
    array, edge, _, version = entry
    if array.ndim == 0 and edge is None and version == 0:
        return "number", complex(array)
    return (
        array.dtype,
        array.shape,
        array.tobytes(),
        edge if edge is None or isinstance(edge, Leaf) else repr(edge),
        version,
    )


def outcome(function: Callable[[], Any]) -> Any:
    try:
        return describe(function())
    except ERRORS as error:
        return type(error), str(error)


def assert_same(name: str, call: Sample) -> None:
    op = registry[name]
    direct = outcome(lambda: op.public(*call.args, **call.kwargs))
    general = outcome(lambda: op.apply(call.args, call.kwargs, None))
    assert direct == general


@every_op
def test_call_equals_the_definition_over_the_samples(name: str) -> None:
    for call in samples_of(name):
        for dtype in (mt.float32, mt.float64, mt.float16, mt.int64, mt.complex64) if arrays_in(call) else (mt.float32,):
            for requires_grad in (False, True) if dtype.category > 1 else (False,):
                made = tensors(call, dtype, requires_grad)
                assert_same(name, made)
                with mt.no_grad():
                    assert_same(name, made)


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_call_equals_the_definition_over_the_samples(name: str) -> None:
    """The target may be recorded: the result of an op on a leaf."""
    op = registry[name]

    def write_sample(write: Callable[..., Any], call: Sample) -> Any:
        target = call.args[0] * 1
        return outcome(lambda: write((target, *call.args[1:]), call.kwargs, target))

    for call in samples_of(name):
        for dtype in (mt.float32, mt.float64, mt.float16, mt.int64):
            made = tensors(call, dtype, dtype is mt.float32)
            for recording in (False, True) if isinstance(made.args[0], Tensor) else ():
                with mt.set_grad_enabled(recording):
                    direct = write_sample(lambda args, named, into: getattr(into, f"{name}_")(*args[1:], **named), made)
                    assert direct == write_sample(op.apply, made)


floats = st.sampled_from([mt.float32, mt.float32, mt.float64, mt.float16, mt.int64])
shapes = st.sampled_from([(), (1,), (3,), (2, 3), (2, 1), (0, 3), (1, 1, 3)])


@st.composite
def operands(draw: Any) -> Any:
    """A tensor of any kind: plain, a leaf, the result of an op, a view, a parameter; or a number."""
    kind = draw(
        st.sampled_from(["plain", "leaf", "result", "view", "view of leaf", "parameter", "number", "array", "nothing"])
    )
    if kind == "nothing":
        return None
    if kind == "number":
        return draw(st.sampled_from([2, 0.5, -1, 2**60 + 2**36 + 1, True, 1j, np.float32(0.25), "x"]))
    dtype, shape = draw(floats), draw(shapes)
    values = np.linspace(0.1, 0.9, int(np.prod(shape))).reshape(shape)
    array = np.ceil(values).astype(dtype.dtype) if dtype is mt.int64 else values.astype(dtype.dtype)
    if kind == "array":
        return array
    tensor = mt.tensor(array)
    if kind == "plain" or dtype is mt.int64:
        return tensor
    if kind == "parameter":
        return Parameter(tensor)
    if kind == "leaf":
        return tensor.requires_grad_()
    if kind == "view":
        return tensor[...]
    leaf = tensor.requires_grad_()
    return leaf[...] if kind == "view of leaf" else leaf * 1


@settings(max_examples=15)
@every_op
@given(data=st.data(), recording=st.booleans())
def test_call_equals_the_definition_for_any_operands(name: str, data: Any, recording: bool) -> None:
    """Operands of every kind in the places of the inputs, in one call of a sample, by position or by name."""
    op = registry[name]
    call = data.draw(st.sampled_from(samples_of(name)))
    args, given = list(map_arrays(call.args, Tensor)), dict(call.kwargs)
    if op.listed and args:
        args[0] = data.draw(operands() | st.lists(operands(), max_size=3))
    for place, parameter in enumerate(op.inputs):
        if not op.listed and place < len(args) and op.order[place] == parameter:
            args[place] = data.draw(st.just(args[0]) if place and data.draw(st.booleans()) else operands())
    if args and data.draw(st.booleans()):
        given |= dict(zip(op.order[len(args) - 1 : len(args)], [args.pop()], strict=False))
    with mt.set_grad_enabled(recording):
        assert_same(name, Sample(tuple(args), given))


@pytest.mark.parametrize("name", ["mul", "exp"])
def test_leaves_nodes_and_outputs_are_what_the_comparison_takes_them_for(name: str) -> None:
    """The comparison sees a difference: another value, a missing edge, a saved tensor more."""
    x = mt.tensor(np.ones(2)).requires_grad_()
    y = mt.tensor(np.ones(2)).requires_grad_()
    function = registry[name].public
    first = function(x, y) if name == "mul" else function(x)
    assert describe(first) == describe(function(x, y) if name == "mul" else function(x))
    assert describe(first) != describe(function(y, x) if name == "mul" else function(y))
    assert describe(first) != describe(function(x.detach(), y) if name == "mul" else function(x.detach()))
    assert not isinstance(first.grad_fn, (Leaf, Output))
    assert not is_composite(name)
