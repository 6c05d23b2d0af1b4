"""The recorded graph: nodes, what they save, and the histories of tensors and their views.

A node stands for one executed op. It knows the nodes of the op's inputs (`edges`), what its gradient rules asked to
keep (`saved`), and its place in the order of creation (`sequence`), which is a topological order.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..tensor.tensor import Tensor, adopt
from .extras.anomaly_mode import told_of_writes

__all__ = [
    "DEAD_END",
    "FREED",
    "SELF",
    "HookedNode",
    "Leaf",
    "Node",
    "Output",
    "history",
    "holds_packed",
    "owner",
    "place",
    "rewrites",
    "save",
    "save_operand",
    "unpack",
]

_new = object.__new__
next_sequence: Callable[[], int] = itertools.count().__next__

FREED: dict[str, Any] = {"freed": True}
"""What a node's `saved` is after its backward pass has released the saved tensors."""

Saved = tuple[np.ndarray, "Node | None", list[int], int]

pack: Callable[[Tensor, Any], Any] | None = None
"""What packs a tensor, or returns None, while some thread has saved-tensor hooks; `saved_tensors` sets it."""

packed_before = False
"""Whether anything has ever been packed, so that most passes need not ask for it."""

keep_originals: Callable[[Tensor], None] | None = None
"""What is called with a tensor before it is written to, inside `allow_mutation_on_saved_tensors`."""

TITLES = {"view_scatter": "CopySlices", "view_steps": "AsStridedBackward0"}
"""The names that torch gives to nodes which stand for no op of the user's."""


class Node:
    """One recorded op.

    Attributes:
        op: the `Op` whose gradient rules apply.
        edges: for each input, in the op's order, the node it came from, or None when it needs no gradient.
        likes: for each input, its shape and dtype, to which its gradient is brought, and where a rule asks for them
            its strides.
        saved: name -> what `save` returned, for what the needed rules ask for.
        metadata: the op's other arguments by name.
        outputs: the shape and dtype of each result; empty for a single one that is not in a tuple. None in place of one
            means that its gradient may be absent.
        hooks: what is to be called when gradients pass; a plain `Node` has none.
        trace: where the op was called; only nodes made while `set_detect_anomaly` was on have it.
    """

    __slots__ = (
        "__weakref__",
        "edges",
        "hooks",
        "likes",
        "metadata",
        "op",
        "outputs",
        "saved",
        "sequence",
        "trace",
    )

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
        """For each input, the node it came from and which of that node's results it is; (None, 0) without gradient."""
        return tuple(map(_function_of, self.edges))

    def register_hook(self, fn: Callable[..., Any]) -> Any:
        """Call `fn(grad_inputs, grad_outputs)` after this node's gradients are computed; it may return others."""
        return hooks_of(self).add("post", fn)

    def register_prehook(self, fn: Callable[..., Any]) -> Any:
        """Call `fn(grad_outputs)` before this node's gradients are computed; it may return others."""
        return hooks_of(self).add("pre", fn)

    def __repr__(self) -> str:
        return f"<{self.name()}>"


def show_saved(names: Iterable[str]) -> None:
    """Let nodes have attributes `_saved_<name>` for what ops save under these names. (A `__getattr__` would make every
    access to a slot of a node slower, by 15 ns of 22.)
    """
    for name in names:
        if not hasattr(Node, f"_saved_{name}"):
            setattr(Node, f"_saved_{name}", property(functools.partial(_saved_value, name)))
            setattr(Node, f"_raw_saved_{name}", property(functools.partial(_raw_saved, name)))


def _saved_value(name: str, node: Node) -> Any:
    if name in node.metadata:
        return node.metadata[name]
    if name not in node.saved and node.saved is not FREED:
        raise AttributeError(f"{node!r} has saved no {name!r}; it has {sorted(node.saved)}")
    return unpack(node, name, True)


def _raw_saved(name: str, node: Node) -> Any:
    from .extras.saved_tensors import SavedTensor

    return SavedTensor(node, name)


class HookedNode(Node):
    """A node that has hooks; a node becomes one when the first is registered, so that others need not be asked."""

    __slots__ = ()


class Leaf(Node):
    """The node of a tensor that the user made and that requires gradients: it accumulates them in `.grad`."""

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
    """One of several results of a node: the edge that says which."""

    __slots__ = ("index",)

    def __init__(self, node: Node, index: int) -> None:
        self.edges, self.index, self.sequence = (node,), index, next_sequence()
        self.saved, self.outputs, self.op = {}, (), node.op

    def __eq__(self, other: object) -> bool:
        return type(other) is Output and other.edges[0] is self.edges[0] and other.index == self.index

    def __hash__(self) -> int:
        return hash((id(self.edges[0]), self.index))


DEAD_END = Leaf(None)
"""The node of a view that takes no part in the history of its base, which requires gradients: they end here."""


def owner(edge: Node) -> Node:
    """The node that an edge leads to: that which has the result, where the edge is one of several results."""
    return edge.edges[0] if type(edge) is Output else edge


def place(edge: Node) -> tuple[Node, int]:
    """The node that an edge leads to, and which of its results it is."""
    return owner(edge), edge.index if type(edge) is Output else 0


def _function_of(edge: Node | None) -> tuple[Node | None, int]:
    return (None, 0) if edge is None or edge is DEAD_END else place(edge)


def hooks_if_any(node: Node) -> Any:
    """The hooks of a node, or None."""
    return None if type(node) is Node else node.hooks


def hooks_of(node: Node) -> Any:
    """The hooks of a node, made when the first is about to be registered."""
    from .hooks import Hooks

    if type(node) is Node:
        node.__class__ = HookedNode
        node.hooks = Hooks()
    elif node.hooks is None:
        node.hooks = Hooks()
    return node.hooks


def rewrites(base: Tensor) -> int:
    """How often in-place writes have rewritten the history of `base`."""
    return 0 if base._state is None else base._state.rewrites


def history(tensor: Tensor) -> Node | None:
    """The node that `tensor` comes from, or None when it needs no gradient."""
    node = tensor._node
    if node is None:
        return None
    state = tensor._state
    if state is None or state.base is None or type(node) is Leaf:
        return node
    return state.current_node()  # type: ignore[attr-defined]


def save(tensor: Tensor, edge: Node | None) -> Any:
    """What a node keeps of a tensor: the array, where it came from, and the version it had."""
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
    """What a node keeps of an input that may also be a Python number, of which `array` was made, or None."""
    if isinstance(value, Tensor):
        return save(value, edge)
    return None if value is None else (array, None, [0], 0)


def unpack(node: Node, name: str, create_graph: bool) -> Any:
    """The saved tensor `name` of `node` (or the Python number or None that stood in its place).

    Raises RuntimeError when it was released, or modified in place since it was saved.
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
        raise RuntimeError(
            f"trying to go through {node.name()} a second time, but its saved tensors were released by the first "
            "backward; pass retain_graph=True the first time"
        )
    if kind is list:
        return [_unpacked(node, name, each, create_graph, index) for index, each in enumerate(entry)]
    if packed_before and isinstance(entry, Packed):
        return entry.unpacked(node, name, create_graph, None)
    return entry


class Packed:
    """An entry that is not a tuple, with a method `unpacked` that does what `unpack` does: see `saved_tensors`."""

    __slots__ = ()

    def unpacked(self, node: Node, name: str, create_graph: bool, index: int | None) -> Tensor:
        raise NotImplementedError


def holds_packed(node: Node) -> bool:
    """Whether something of what a node has saved is packed."""
    for entry in node.saved.values():
        if any(isinstance(each, Packed) for each in (entry if type(entry) is list else (entry,))):
            return True
    return False


def _unpacked(node: Node, name: str, entry: Any, create_graph: bool, index: int) -> Any:
    """One of the saved tensors of an input that is a sequence, or of the results of an op that has several, of which
    None are not saved."""
    if isinstance(entry, Packed):
        return entry.unpacked(node, name, create_graph, index)
    if entry is None:
        return None
    array, edge, cell, version = entry
    if cell[0] != version:
        raise stale(node, name, entry)
    tensor = adopt(array, None if not create_graph else Output(node, index) if edge is SELF else edge)
    tensor._cell = cell
    return tensor


def stale(node: Node, name: str, entry: Saved) -> RuntimeError:
    """The error for a saved tensor that was written to before it was used."""
    array, edge, cell, version = entry
    source, index = (node, 0) if edge is SELF else _function_of(edge)
    made = "" if source is None or type(source) is Leaf else f" which is output {index} of {source.name()},"
    return RuntimeError(
        f"one of the tensors needed for the gradient of {node.op.name} has been modified by an inplace operation: "
        f"{name!r}, {array.dtype}{list(array.shape)},{made} is at version {cell[0]}; expected version {version}"
        f"{told_of_writes(cell, version)}. Write to a copy, {name}.clone(), or use the out-of-place form"
    )


class _Self:
    """Stands for the saving node itself in what it saves of its own results, so that no reference cycle is made."""


SELF: Any = _Self()
