"""The recorded graph: nodes, their saved values, and the histories of tensors and views.

A node represents one executed op. It holds the nodes of the op's inputs (`edges`), the values that its gradient rules
use (`saved`), and its creation number (`sequence`). The order of creation is a topological order.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..backends import precision_policy
from ..backends.operands import Roles, of_gradient
from ..backends.precision_policy import GradientPrecisions
from ..tensor.tensor import Parameter, Tensor, adopt
from . import extras
from .anomaly_mode import told_of_writes

_new = object.__new__
next_sequence: Callable[[], int] = itertools.count().__next__

FREED: dict[str, Any] = {"freed": True}
"""The value of a node's `saved` after its backward pass has released the saved tensors."""

Saved = tuple[np.ndarray, "Node | None", list[int], int]

pack: Callable[[Tensor, Any], Any] | None = None
"""Set by `saved_tensors` while some thread has saved-tensor hooks: packs a tensor, or returns None."""

packed_before = False
"""Whether anything was ever packed; most passes can skip the check."""

keep_originals: Callable[[Tensor], None] | None = None
"""Inside `allow_mutation_on_saved_tensors`: called with a tensor before it is written to."""

TITLES = {"view_scatter": "CopySlices", "view_steps": "AsStridedBackward0"}
"""torch's names for nodes that do not represent a user's op."""

SHOWN = {"input": "self", "out": "result"}
"""torch's names for saved values, `_saved_self` and `_saved_result`, where they differ."""


class Node:
    """One recorded op.

    Attributes:
        op: the `Op` whose gradient rules apply.
        edges: for each input, in the op's order, the node it came from, or None if it needs no gradient.
        likes: for each input that needs a gradient, the shape and dtype to which the gradient is reduced, and the
            strides if a rule uses them; None if the node saves the input, whose array has them (`like_of`).
        saved: name -> entry of `save`, for the values that the needed rules use.
        metadata: the op's other arguments by name.
        outputs: the shape and dtype of each result; empty for a single result that is not in a tuple. An entry of None
            marks a result whose gradient may be absent.
        hooks: hooks on gradients; a plain `Node` has none.
        trace: the call site of the op; set only while `set_detect_anomaly` is on.
    """

    __slots__ = ("__weakref__", "edges", "hooks", "likes", "metadata", "op", "outputs", "saved", "sequence", "trace")

    op: Any
    edges: tuple[Any, ...]
    likes: tuple[Any, ...]
    saved: dict[str, Any]
    metadata: dict[str, Any]
    outputs: tuple[Any, ...]
    sequence: int
    hooks: Any
    trace: Any

    def name(self) -> str:
        """The op's name as torch writes it, `MulBackward0`."""
        name = self.op.name
        title = getattr(self.op, "title", None) or TITLES.get(name)
        return title or "".join(part.capitalize() for part in name.split("_")) + "Backward0"

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """For each input, its node and the index among that node's results; (None, 0) without a gradient."""
        return tuple(map(_function_of, self.edges))

    register_hook: Callable[..., Any]  # of `hooks`
    register_prehook: Callable[..., Any]

    def __repr__(self) -> str:
        return f"<{self.name()}>"


def make_node(op: Any, edges: tuple, likes: tuple, metadata: dict[str, Any]) -> Node:
    """The node of a call with one result that has saved nothing so far."""
    node = Node()
    node.op, node.edges, node.likes, node.metadata = op, edges, likes, metadata
    node.saved, node.outputs, node.sequence = {}, (), next_sequence()
    return node


def show_saved(names: Iterable[str]) -> None:
    """Give nodes attributes `_saved_<name>` for the values that ops save under these names.

    A `__getattr__` would slow down every access to a node's slots.
    """
    for name in names:
        for shown in (name, SHOWN[name]) if name in SHOWN else (name,):
            if not hasattr(Node, f"_saved_{shown}"):
                setattr(Node, f"_saved_{shown}", property(functools.partial(_saved_value, name)))
                setattr(Node, f"_raw_saved_{shown}", property(functools.partial(_raw_saved, name)))


def _saved_value(name: str, node: Node) -> Any:
    if name in node.metadata:
        return node.metadata[name]
    if name not in node.saved and node.saved is not FREED:
        raise AttributeError(f"{node!r} has saved no {name!r}; it has {sorted(node.saved)}")
    return unpack(node, name, True)


def _raw_saved(name: str, node: Node) -> Any:
    return extras.saved_tensors.SavedTensor(node, name)


class HookedNode(Node):
    """A node with hooks. A node changes to this class at the first registration, so that plain nodes need no check."""

    __slots__ = ()


class Leaf(Node):
    """The node of a user's tensor that requires gradients: it accumulates them in `.grad`."""

    __slots__ = ("_variable",)

    def __init__(self, variable: Tensor | None) -> None:
        self._variable: Callable[[], Tensor | None] = (lambda: None) if variable is None else weakref.ref(variable)
        self.edges, self.saved, self.outputs, self.sequence = (), {}, (), next_sequence()
        self.hooks, self.metadata = None, {}

    @property
    def variable(self) -> Tensor | None:
        return self._variable()

    def name(self) -> str:
        return "AccumulateGrad"


class Output(Node):
    """An edge to one of several results of a node, with its index."""

    __slots__ = ("index",)

    def __init__(self, node: Node, index: int) -> None:
        self.edges, self.index, self.sequence = (node,), index, next_sequence()
        self.saved, self.outputs, self.op = {}, (), node.op

    def __eq__(self, other: object) -> bool:
        return type(other) is Output and other.edges[0] is self.edges[0] and other.index == self.index

    def __hash__(self) -> int:
        return hash((id(self.edges[0]), self.index))


DEAD_END = Leaf(None)
"""The node of a view excluded from the history of its base: gradients end here."""


def owner(edge: Node) -> Node:
    """The node of an edge; for one of several results, the node that has the result."""
    return edge.edges[0] if type(edge) is Output else edge


def place(edge: Node) -> tuple[Node, int]:
    """The node of an edge and the index of its result."""
    return owner(edge), edge.index if type(edge) is Output else 0


def _function_of(edge: Node | None) -> tuple[Node | None, int]:
    return (None, 0) if edge is None or edge is DEAD_END else place(edge)


def hooks_if_any(node: Node) -> Any:
    """The hooks of a node, or None."""
    return None if type(node) is Node else node.hooks


def rewrites(base: Tensor) -> int:
    """The number of times that in-place writes have rewritten the history of `base`."""
    return 0 if base._state is None else base._state.rewrites


def history(tensor: Tensor) -> Node | None:
    """The node that `tensor` comes from, or None if it needs no gradient."""
    node = tensor._node
    if node is None:
        return None
    state = tensor._state
    if state is None or state.base is None or type(node) is Leaf:
        return node
    return state.current_node()  # type: ignore[attr-defined]


def save(tensor: Tensor, edge: Node | None) -> Any:
    """The entry for a saved tensor: its array, its node, and its version."""
    if pack is not None and (packed := pack(tensor, edge)) is not None:
        return packed
    cell = tensor._cell
    if cell is None:
        cell = tensor._cell = [0]
    try:
        return (tensor._array, edge, cell, cell[0])
    except RuntimeError:
        raise cell.refusal(tensor) from None


def save_operand(value: Any, edge: Node | None, array: np.ndarray | None) -> Any:
    """The entry for a saved input: a tensor, a Python number (converted to `array`), or None."""
    if isinstance(value, Tensor):
        return save(value, edge)
    return None if value is None else (array, None, [0], 0)


def attach(tensor: Tensor, node: Node) -> None:
    """Make a node that of a tensor, and of the view that the tensor is."""
    tensor._node = node
    if tensor._state is not None and tensor._state.base is not None:
        tensor._state.node = node  # type: ignore[attr-defined]


def record_results(node: Node, results: tuple[Tensor, ...], wanted: bool | frozenset[int]) -> None:
    """Attach the node of a call to each of its several results, and save those that its rules use."""
    node.outputs = tuple([(each._array.shape, each._array.dtype) for each in results])
    for index, each in enumerate(results):
        if each._array.dtype.kind not in "biu":
            attach(each, Output(node, index))
    save_results(node, results, wanted)


def save_results(node: Node, results: tuple[Tensor, ...], wanted: bool | frozenset[int]) -> None:
    """Save all results of a call (True), those of these indices, or none."""
    if wanted:
        chosen = range(len(results)) if wanted is True else wanted
        node.saved["out"] = [save(each, SELF) if i in chosen else None for i, each in enumerate(results)]


def unpack(node: Node, name: str, create_graph: bool) -> Any:
    """The saved tensor `name` of `node`, or the Python number or None saved in its place.

    Raises RuntimeError if it was released, or modified in place since it was saved.
    """
    entry = node.saved.get(name, FREED)
    kind = type(entry)
    if kind is tuple:
        array, edge, cell, version = entry
        if cell[0] == version:
            tensor = _new(Tensor)
            tensor._array, tensor._cell, tensor._state = array, cell, None
            tensor._node = None if not create_graph else node if edge is SELF else edge
            return tensor
        raise stale(node, name, entry)
    if kind is float or kind is int:
        return entry
    if entry is FREED:
        raise _second_pass_error(node)
    if kind is list:
        return [_unpack_entry(node, name, each, create_graph, index) for index, each in enumerate(entry)]
    if packed_before and isinstance(entry, Packed):
        return entry.unpack(node, name, create_graph, None)
    return entry


def like(array: np.ndarray) -> tuple:
    """The shape, dtype and strides of an array, to which a gradient is reduced."""
    return array.shape, array.dtype, array.strides


def like_of(node: Node, index: int) -> tuple:
    """The shape, dtype and strides of an input that the node saved."""
    entry = node.saved.get(node.op.inputs[index], FREED)
    if entry is FREED:
        raise _second_pass_error(node)
    return like(entry[0]) if type(entry) is tuple else entry.like


def _second_pass_error(node: Node) -> RuntimeError:
    return RuntimeError(
        f"trying to go through {node.name()} a second time, but its saved tensors were released by the first "
        "backward; pass retain_graph=True the first time"
    )


class Packed:
    """An entry that is not a tuple; its method `unpack` does the work of `unpack`. See `saved_tensors`."""

    __slots__ = ("like",)

    like: tuple

    def unpack(self, node: Node, name: str, create_graph: bool, index: int | None) -> Tensor:
        raise NotImplementedError


def holds_packed(node: Node) -> bool:
    """Whether any saved entry of a node is packed."""
    for entry in node.saved.values():
        if any(isinstance(each, Packed) for each in (entry if type(entry) is list else (entry,))):
            return True
    return False


def _unpack_entry(node: Node, name: str, entry: Any, create_graph: bool, index: int) -> Any:
    """One saved tensor of a sequence input, or one of several results, which may be None."""
    if isinstance(entry, Packed):
        return entry.unpack(node, name, create_graph, index)
    if entry is None:
        return None
    array, edge, cell, version = entry
    if cell[0] != version:
        raise stale(node, name, entry)
    tensor = adopt(array, None if not create_graph else Output(node, index) if edge is SELF else edge)
    tensor._cell = cell
    return tensor


def stale(node: Node, name: str, entry: Saved) -> RuntimeError:
    """The error for a saved tensor that was written to before its use."""
    array, edge, cell, version = entry
    source, index = (node, 0) if edge is SELF else _function_of(edge)
    made = "" if source is None or type(source) is Leaf else f" which is output {index} of {source.name()},"
    return RuntimeError(
        f"one of the tensors needed for the gradient of {node.op.name} has been modified by an inplace operation: "
        f"{name!r}, {array.dtype}{list(array.shape)},{made} is at version {cell[0]}; expected version {version}"
        f"{told_of_writes(cell, version)}. Write to a copy, {name}.clone(), or use the out-of-place form"
    )


class _Self:
    """Stands for the node itself in the entries for its own results, to avoid a reference cycle."""


SELF: Any = _Self()


# Gradient rules, and the sources of their parameters


Rule = tuple[Callable[..., Any], tuple[tuple[str, str, int], ...]]
"""A gradient rule, with the name, the kind of source and the input of each parameter.

The source "edges" is the node's edges, None for each input that needs no gradient, for rules of all inputs.
"recomputed" occurs only in variants for half types: the results, in float32.
"""


_LIKES = ("shape", "dtype", "strides")
"""What a node records about each input; strides only if a rule of an op of several inputs uses them."""


def fields_of_result(forward: Callable[..., Any]) -> tuple[str, ...]:
    """The names of several results, from the NamedTuple in the forward's return annotation."""
    returned = inspect.signature(forward).return_annotation
    kind = getattr(inspect.unwrap(forward), "__globals__", {}).get(returned) if isinstance(returned, str) else returned
    return getattr(kind, "_fields", ())


def rule_of(op: Any, function: Callable[..., Any] | None) -> Rule | None:
    """A rule with the source of each of its parameters. Raises TypeError for an unknown name."""
    if function is None:
        return None
    return function, tuple((name, *_source(op, name)) for name in inspect.signature(function).parameters)


def reads(rule: Rule, index: int) -> bool:
    """Whether a rule uses the shape, dtype or strides of an input."""
    return any(source in _LIKES and of == index for _, source, of in rule[1])


def _source(op: Any, name: str) -> tuple[str, int]:
    stem, _, what = name.rpartition("_")
    if name == "g" or name == "edges" or name in op.metadata_names:
        return (name if name in ("g", "edges") else "metadata"), 0
    if name in op.inputs or name == "out":
        return "saved", 0
    if name in op.results:
        return "result", op.results.index(name)
    if stem in op.inputs and what in _LIKES[: 2 if len(op.inputs) == 1 else 3]:
        return what, op.inputs.index(stem)
    known = ", ".join(("g", "out", *op.results, *op.order))
    raise TypeError(
        f"{op.name}: a gradient rule has the unknown parameter {name!r}; expected one of {known}, or <input>_shape, "
        "<input>_dtype, <input>_strides"
    )


def precision_for(node: Node, index: int) -> Any:
    """The recorded precision for the gradient of one input: a parameter's, or another input's; roles, also of a node
    that was made before any format was set."""
    kept = node.metadata["precision"]
    if kept is None and precision_policy.by_role and node.op.roles:
        kept = node.op.roles_of(lambda place: _is_parameter(node.edges[place]))
    if type(kept) is Roles:
        return of_gradient(kept, index - node.op.first_operand)
    if type(kept) is not GradientPrecisions:
        return kept
    return kept.weight if _is_parameter(node.edges[index]) else kept.input


def _is_parameter(edge: Any) -> bool:
    """Whether an edge leads to a parameter, or a view of one: a layer's weight may be transposed."""
    while type(edge) is Node and getattr(edge.op, "view", False) and len(edge.edges) == 1:
        edge = edge.edges[0]
    return type(edge) is Leaf and isinstance(edge.variable, Parameter)
