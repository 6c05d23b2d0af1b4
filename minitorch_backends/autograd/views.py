"""Views: tensors that share the memory of a base, and whose history follows the base's.

A view knows its base and the steps from it: (op, arguments, which result). A write through a view rewrites the
history of the base; every other view of that base then finds that it has fallen behind, and makes its node anew from
the base's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensor import State, Tensor, adopt
from .graph import Node, history, next_sequence, rewrites
from .modes import grad_mode

__all__ = ["View", "made_view", "shares_memory", "walk"]

Step = tuple[Any, dict[str, Any], int | None]


class View(State):
    """The state of a tensor that is a view.

    Attributes:
        base: the tensor that owns the history.
        steps: the ops that lead from the base to this view.
        node: the node that stands for the view as long as `seen` equals the base's count of rewrites.
        frozen: made under `no_grad`: the view takes no part in the base's history.
    """

    __slots__ = ("base", "frozen", "node", "seen", "steps")

    def __init__(self, base: Tensor, steps: tuple[Step, ...], frozen: bool) -> None:
        self.grad, self.rewrites = None, 0
        self.node: Node | None = None
        self.base, self.steps, self.frozen = base, steps, frozen
        self.seen = 0 if base._state is None else base._state.rewrites

    def current_node(self) -> Node | None:
        """The node of the view, made anew when the base's history has been rewritten."""
        if self.frozen or self.seen == rewrites(self.base):
            return self.node
        self.seen, before = rewrites(self.base), history(self.base)
        self.node = None if before is None else _node_of_steps(self.base._array, self.steps, before)
        return self.node


def _node_of_steps(base: np.ndarray, steps: tuple[Step, ...], before: Node) -> Node:
    from ..op import registry

    node = object.__new__(Node)
    node.op, node.edges, node.likes = registry["view_steps"], (before,), ((base.shape, base.dtype),)
    node.saved, node.metadata, node.outputs, node.sequence = {}, {"steps": steps}, (), next_sequence()
    return node


class _Stale:
    """The node of a view that needs no gradient: not None, so that whoever records asks `history`, which asks the
    base.
    """

    __slots__ = ()


STALE: Any = _Stale()


def shares_memory(array: np.ndarray, source: np.ndarray) -> bool:
    """Whether NumPy made `array` as a view of `source` rather than as a copy."""
    owner = array.base
    while owner is not None:
        if owner is source or owner is source.base:
            return True
        owner = getattr(owner, "base", None)  # as_strided puts an object of its own between the two
    return False


def made_view(op: Any, metadata: dict[str, Any], source: Tensor, out: Any, index: int | None) -> Tensor:
    """A tensor around `out`, the result of a view op on `source`; an ordinary one when NumPy had to copy.

    Under `no_grad`, a view of a tensor without a history shares its memory and version only: there is nothing to
    follow.
    """
    array = out if type(out) is np.ndarray else np.asarray(out)
    if array is source._array:
        array = array[...]
    if not shares_memory(array, source._array):
        return adopt(array)
    if source._cell is None:
        source._cell = [0]
    tensor = adopt(array)
    tensor._cell = source._cell
    recording = grad_mode.get().enabled
    if recording or source._node is not None:
        outer, step = source._state, (op, metadata, index)
        if type(outer) is View:
            tensor._state = View(outer.base, (*outer.steps, step), outer.frozen or not recording)
        else:
            tensor._state = View(source, (step,), not recording)
        tensor._node = STALE
    return tensor


def walk(array: np.ndarray, steps: tuple[Step, ...]) -> np.ndarray:
    """The view of `array` to which `steps` lead."""
    for op, metadata, index in steps:
        array = op.forward(array, **metadata)
        array = array if index is None else array[index]
    return array
