"""Views: tensors that share the memory of a base and follow its history.

A view holds its base and the steps from the base to it: (op, arguments, index of the result). A write through a view
rewrites the history of the base. Every other view of that base then finds its node out of date, and replays its steps
on the base's new node.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import numpy as np

from ..tensor import instrumentation
from ..tensor.registry import registry
from ..tensor.tensor import Parameter, State, Tensor, adopt, sharing
from .hooks import move_retained
from .inference import InferenceCell
from .modes import grad_mode
from .nodes import DEAD_END, Leaf, Node, Output, history, make_node, rewrites

Step = tuple[Any, dict[str, Any], int | None]

_mode, _new = grad_mode.get, object.__new__


class Apart(NamedTuple):
    """Why a view is excluded from the history of its base: its description, and the remedy."""

    made: str
    cure: str


NO_GRAD = Apart(
    "a view was created in no_grad mode",
    "with grad mode enabled, where its base cannot follow; make the view outside no_grad, or write under no_grad",
)
INFERENCE = Apart(
    "a view was created in inference mode",
    "in normal mode, where its base cannot follow; make the view outside inference mode, or write inside it",
)
OUTPUTS = Apart(
    "one of several views that a function returned is a view",
    "; it is one of several views that one function returned, whose other views cannot follow: use the out-of-place "
    "form, or make the view by indexing",
)
FROM_FUNCTION = Apart(
    "a view was returned by an autograd.Function",
    ", whose backward does not include the write; use the out-of-place form, or write to a clone()",
)


class View(State):
    """The state of a tensor that is a view.

    Attributes:
        base: the tensor that owns the history.
        steps: the ops that lead from the base to this view; empty for a view made unrecorded, and for its views.
        node: the node of the view, valid while `seen` equals the base's count of rewrites.
        apart: why the view is excluded from the base's history; None if it is included.
    """

    __slots__ = ("apart", "base", "node", "seen", "steps")

    def __init__(self, base: Tensor, steps: tuple[Step, ...], apart: Apart | None) -> None:
        self.grad, self.rewrites = None, 0
        self.node: Node | None = None
        self.base, self.steps, self.apart = base, steps, apart
        self.seen = 0 if base._state is None else base._state.rewrites

    def root(self) -> Tensor:
        """The base at its current place, which differs after the base itself was reshaped in place: see `Former`."""
        if type(self.base._state) is View:
            self.base = self.base._state.base
        return self.base

    def current_node(self) -> Node | None:
        """The node of the view, replayed if the base's history has been rewritten.

        A dead end for an unrecorded view of a tensor that requires gradients. Raises RuntimeError for a view that
        cannot follow its rewritten base.
        """
        base = self.root()
        count, before = rewrites(base), history(base)
        if self.seen == count:
            return self.node if self.node is not None or before is None else DEAD_END
        if self.apart is not None and type(before) is Leaf and not self.steps:
            return self.node or DEAD_END
        if self.apart is not None and type(before) is not Leaf and (before is not None or self.node is not None):
            raise self.refusal("its base or another view of its base has been")
        old, self.seen = self.node, count
        self.node = None
        if before is not None:
            array, metadata = base._array, {"steps": self.steps, "strides": base._array.strides}
            self.node = make_node(registry["view_steps"], (before,), ((array.shape, array.dtype),), metadata)
        if old is not None and type(old) is not Node:
            move_retained(old, self.node)
        return self.node

    def requires_grad(self) -> bool:
        """Whether the view or its base has a history."""
        return self.node is not None or history(self.root()) is not None

    def record_later(self) -> None:
        """Postpone creation of the node to its first use."""
        self.seen = -1

    def refusal(self, what: str) -> RuntimeError:
        """The error for a write that this view cannot follow: `what` has been, or is being, modified."""
        made, cure = self.apart  # type: ignore[misc]
        if self.apart is OUTPUTS and isinstance(self.node, Output):
            made = f"Output {self.node.index} of {self.node.edges[0].name()} is a view"
        return RuntimeError(f"{made} and {what} modified inplace {cure}".replace(" ;", ";").replace(" ,", ","))


class Former(Tensor):
    """The state of a tensor before it was reshaped in place, and the tensor that it is a view of since."""

    __slots__ = ("successor",)

    successor: weakref.ref[Tensor]


def reshape_in_place(tensor: Tensor, op: Any, metadata: dict[str, Any]) -> None:
    """Turn `tensor` into a view of its former self, made by an op. Views of it made before still follow it."""
    before, array = tensor._array, op.forward(tensor._array, **metadata)
    tensor._array = array
    if type(tensor._node) is Leaf or (tensor._cell is None and tensor._node is None):
        return
    state, step = tensor._state, (op, metadata, None)
    if type(state) is View:
        view = View(state.base, (*state.steps, step) if state.steps or state.apart is None else (), state.apart)
    else:
        former: Any = object.__new__(Former)
        former._array, former._node, former._state, former._cell = before, tensor._node, state, tensor._cell
        former.successor = weakref.ref(tensor)
        view = View(former, (step,), None)
    view.grad = None if state is None else state.grad
    view.record_later()
    tensor._state, tensor._node = view, STALE


class _Stale:
    """The node of a view without a gradient of its own. It is not None, so that recording calls `history`, which checks
    the base."""

    __slots__ = ()


STALE: Any = _Stale()


def shares_memory(array: np.ndarray, source: np.ndarray) -> bool:
    """Whether NumPy made `array` as a view of `source` rather than as a copy."""
    owner = array.base
    while owner is not None:
        if owner is source or owner is source.base:
            return True
        owner = getattr(owner, "base", None)  # as_strided inserts an object of its own
    return False


def made_view(op: Any, metadata: dict[str, Any], source: Tensor, out: Any, index: int | None) -> Tensor:
    """Wrap `out`, the result of a view op on `source`; as an ordinary tensor if NumPy had to copy.

    Views of inference tensors only share memory. Unrecorded views store no steps, so that a loop of them does not grow.
    """
    array, memory = out if type(out) is np.ndarray else np.asarray(out), source._array
    if array is memory:
        array = array[...]
    owner = array.base
    if owner is None or not (owner is memory or owner is memory.base or shares_memory(array, memory)):
        return adopt(array)
    tensor = sharing(source, array)
    if type(tensor._cell) is InferenceCell:
        return tensor
    mode, outer = _mode(), source._state
    if mode.backward and not mode.records and source._node is None and instrumentation.duals is None:
        return tensor  # saves 0.25 us for gradients, whose views never need their base
    base, apart = source, None
    steps: tuple[Step, ...] = ()
    if type(outer) is View:
        base, steps, apart = outer.base, outer.steps, outer.apart
    if not mode.records:
        apart = INFERENCE if mode.inference else NO_GRAD
    elif apart is None and index is not None:
        apart = OUTPUTS
    steps = (*steps, (op, metadata, index)) if mode.records or instrumentation.duals is not None else ()
    view = tensor._state = _new(View)
    view.base, view.steps, view.apart = base, steps, apart
    view.grad = view.node = None
    view.rewrites, view.seen = 0, 0 if base._state is None else base._state.rewrites
    tensor._node = STALE
    return tensor


def walk(array: np.ndarray, steps: tuple[Step, ...]) -> np.ndarray:
    """The view of `array` to which `steps` lead."""
    for op, metadata, index in steps:
        array = op.forward(array, **metadata)
        array = array if index is None else array[index]
    return array


def is_parameter(value: Any) -> bool:
    """Whether a tensor is a parameter, or a view of one."""
    state = value._state if isinstance(value, Tensor) else None
    return isinstance(value, Parameter) or (type(state) is View and isinstance(state.base, Parameter))
