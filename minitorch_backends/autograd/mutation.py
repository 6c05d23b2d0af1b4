"""In-place writes: checks, and the new histories of tensors, bases and views."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels.runtime.errstate import restore, silence
from ..kernels.runtime.shapes import broadcast_shapes
from ..tensor import instrumentation
from ..tensor.casting import cast_unchecked
from ..tensor.dtypes import dtype_of
from ..tensor.registry import registry
from ..tensor.size import repeats
from ..tensor.tensor import Tensor, adopt, not_a_tensor
from . import nodes
from .anomaly_mode import site
from .hooks import move_retained
from .inference import InferenceCell, refuse_inference
from .modes import grad_mode
from .nodes import Leaf, Node, history, make_node
from .versions import details
from .views import View


def about_to_write(tensor: Tensor) -> None:
    """Announce a write to the memory of `tensor`; `allow_mutation_on_saved_tensors` keeps a copy of it."""
    if nodes.keep_originals is not None:
        nodes.keep_originals(tensor)


def bump(tensor: Tensor) -> None:
    """Increment the version counter that all aliases of `tensor` share. Inference tensors have no version."""
    cell = tensor._cell
    if cell is None:
        cell = tensor._cell = [0]
    elif type(cell) is InferenceCell:
        return
    cell[0] += 1
    if instrumentation.is_observed():
        line = site()
        if line is not None:
            details(cell).sites.append((cell[0], line))


def write(op: Any, values: list[Any], arrays: list[Any], metadata: dict[str, Any], out: Any, into: Tensor) -> Tensor:
    """Write `out`, the result of `op` for the arguments, into the memory of `into`, and record the write.

    `out` may be a function that performs the write itself. All checks come before the first change.
    """
    target = into._array
    if not callable(out):
        out = np.asarray(out)
        refuse_unfit(op.name, out, target)
    recording = grad_mode.get().records
    tangent = (
        None
        if instrumentation.duals is None
        else instrumentation.duals.before_write(op, values, arrays, metadata, into, out)
    )
    if nodes.pack is not None and recording:
        values = [_with_own_memory(into), *values[1:]]
    node = op.node(values, arrays, metadata) if recording else None
    if node is not None:
        _keep_value(node, op.inputs[0], target)
    view = into._state if type(into._state) is View else None
    if recording and view is not None and view.apart is not None and (node is not None or view.requires_grad()):
        raise view.refusal("is being")
    about_to_write(into)
    token = silence()
    try:
        if callable(out):
            out()
        else:
            target[...] = out if out.dtype == target.dtype else cast_unchecked(out, target.dtype)
    finally:
        restore(token)
    bump(into)
    if instrumentation.duals is not None:
        instrumentation.duals.write_tangent(into, tangent)
    if recording:
        rewrite(node, into)
        if node is not None:
            op.save_out(node, into)
    return into


def _with_own_memory(tensor: Tensor) -> Tensor:
    """A copy of a tensor at its place in the graph, for a hook that may keep it while the tensor is overwritten."""
    copy = adopt(tensor._array.copy("K"), history(tensor))
    if instrumentation.duals is not None:
        instrumentation.duals.copy_tangent(tensor, copy)
    return copy


def _keep_value(node: Node, name: str, target: np.ndarray) -> None:
    """Keep a copy of a value that its own node saved and that is about to be overwritten, as torch does."""
    entry = node.saved.get(name)
    if type(entry) is tuple and entry[0] is target:
        node.saved[name] = (target.copy(), entry[1], [0], 0)


def is_plain(tensor: Tensor) -> bool:
    """Whether a write needs no recording: the tensor has no history and is not a view."""
    rare = instrumentation.is_observed() or instrumentation.duals is not None or type(tensor._cell) is InferenceCell
    return tensor._node is None and tensor._state is None and not rare


def write_plainly(tensor: Tensor, target: np.ndarray, value: np.ndarray) -> None:
    """Write to the memory of such a tensor, or to a part of it, without the general path, which takes five times as
    long."""
    refuse_unwritable_memory("copy_", target)
    about_to_write(tensor)
    target[...] = value
    bump(tensor)


def rewrite(node: Node | None, into: Tensor) -> None:
    """Give a tensor its new history after a write. A write through a view gives the base a new history too, and its
    views follow."""
    view = into._state if type(into._state) is View else None
    owner = into if view is None else view.root()
    before = history(owner)
    if node is None and before is None:
        return
    owner._node = node if view is None else _scatter_node(owner, before, view.steps, node, into)
    owner.state.rewrites += 1
    if before is not None:
        move_retained(before, owner._node)
    if view is not None and view.node is not None and type(view.node) is not Node:
        history(into)  # now, not on access: `retain_grad` refers to the new value


def _scatter_node(base: Tensor, before: Node | None, steps: tuple, node: Node | None, value: Tensor) -> Node:
    """The node of `base` after `value`, produced by `node`, overwrote the view that `steps` lead to."""
    likes = tuple((each._array.shape, each._array.dtype, each._array.strides) for each in (base, value))
    return make_node(registry["view_scatter"], (before, node), likes, {"steps": steps, "strides": None})


def refuse_unwritable(name: str, into: Tensor, uniform: bool = False) -> None:
    """Raise RuntimeError where torch forbids a write by the method `name`_; TypeError for values other than tensors.

    Forbidden are writes to inference tensors, to leaves that require gradients, and to overlapping memory, unless every
    element gets the same value (`uniform`).
    """
    if not isinstance(into, Tensor):
        raise not_a_tensor(f"{name}_", "self", into)
    if not uniform or not into._array.flags.writeable:
        refuse_unwritable_memory(f"{name}_", into._array)
    refuse_inference(into, "Inplace update to inference tensor")
    if not grad_mode.get().records:
        return
    view = into._state if type(into._state) is View else None
    leaf = "a leaf Variable that requires grad" if type(into._node) is Leaf else ""
    if view is not None and (leaf or type(view.root()._node) is Leaf):
        leaf = "a view of a leaf Variable that requires grad"
    if leaf:
        raise RuntimeError(
            f"{name}_: {leaf} is being used in an in-place operation; write under no_grad(), or to a copy "
            "(tensor.clone())"
        )


def refuse_unwritable_memory(name: str, array: np.ndarray) -> None:
    """Raise RuntimeError for read-only memory, and for memory that several elements share."""
    if array.size and repeats(array):
        raise RuntimeError(
            f"{name}: unsupported operation: more than one element of the written-to tensor refers to a single "
            f"memory location (shape {list(array.shape)}, an expanded tensor); use tensor.clone() first"
        )
    if not array.flags.writeable:
        raise RuntimeError(
            f"{name}: the memory of the written-to tensor, {array.dtype}{list(array.shape)}, is read-only, like "
            "the array that it was made from; write to a copy, tensor.clone()"
        )


def refuse_unfit(name: str, out: np.ndarray, target: np.ndarray) -> None:
    """Raise RuntimeError for a result that `name`_ cannot write: a larger shape, or a dtype of a higher category."""
    if out.shape != target.shape and broadcast_shapes(out.shape, target.shape) != target.shape:
        raise RuntimeError(
            f"{name}_: output with shape {list(target.shape)} doesn't match the broadcast shape {list(out.shape)}"
        )
    source, wanted = dtype_of(out), dtype_of(target)
    if source.category > wanted.category:
        raise RuntimeError(
            f"{name}_: result type {source!r} can't be cast to the desired output type {wanted!r}; use the "
            "out-of-place form"
        )
