"""Forward mode: tensors with tangents, under the names of torch.autograd.forward_ad.

The tangents of an op's results are derived from its gradient rules. A rule is linear in the gradient; differentiating
it by the gradient gives the product of the Jacobian with the tangents of the inputs. An `autograd.Function` provides
its own `jvp`.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from ..flags.scopes import Scope
from ..kernels.runtime.context import restorable, restore_on_failure
from ..kernels.runtime.locks import lock
from ..tensor import instrumentation
from ..tensor.casting import cast_unchecked
from ..tensor.dtypes import FLOATING, dtype_of, to_dtype
from ..tensor.registry import registry
from ..tensor.tensor import Tensor, adopt, kind_of, sharing
from .engine import Flow
from .extras.saved_tensors import Original, count_blocks
from .graph import stand_in
from .modes import enable_grad, grad_mode
from .nodes import Node, Output, history
from .views import View

__all__ = ["UnpackedDualTensor", "dual_level", "make_dual", "unpack_dual"]


class UnpackedDualTensor(NamedTuple):
    """A tensor and its tangent; the tangent is None if the tensor does not depend on a dual tensor."""

    primal: Tensor
    tangent: Tensor | None


class _Level:
    """The tangents of one block, by tensor id. They are dropped with their tensors or with the block."""

    def __init__(self) -> None:
        self.tangents: dict[int, tuple[weakref.ref[Tensor], Tensor]] = {}

    def put(self, tensor: Tensor, tangent: Tensor | None) -> None:
        key = id(tensor)
        if tangent is None:
            self.tangents.pop(key, None)
            return
        self.tangents[key] = (weakref.ref(tensor, lambda _: self.tangents.pop(key, None)), tangent)

    def get(self, tensor: Tensor) -> Tensor | None:
        entry = self.tangents.get(id(tensor))
        return None if entry is None else entry[1]


_level: ContextVar[_Level | None] = ContextVar("dual_level", default=None)
_lock = lock()
_blocks = 0


def _count_blocks(change: int) -> None:
    global _blocks
    with _lock:
        count_blocks(change)
        with instrumentation.lock:
            instrumentation.active += 2 * change
        _blocks += change
        instrumentation.duals = _Duals if _blocks else None


restorable(_level, lambda level: level is not None, _count_blocks)


class dual_level(Scope):
    """A block that allows tensors to carry tangents. The tangents are dropped at its end. Blocks cannot be nested."""

    __slots__ = ()

    def __enter__(self) -> int:
        if _level.get() is not None:
            raise RuntimeError("Nested forward mode AD is not supported at the moment; use func.jvp for higher orders")
        level = _Level()
        _count_blocks(1)
        _level.set(level)
        return 0

    def __exit__(self, *exception: object) -> None:
        _count_blocks(-1)
        _level.set(None)


def is_in_dual_level() -> bool:
    """Whether this thread or task is in a `dual_level`."""
    return _level.get() is not None


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Make a tensor with the memory and history of `tensor` that carries `tangent`, of the same shape and dtype.

    A tangent of another dtype is converted. Raises RuntimeError outside `dual_level`, for a tangent of another shape,
    and for a `tensor` that carries a tangent; ValueError for an integer `tensor`.
    """
    current = _level.get()
    if current is None:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter dual_level() first"
        )
    if tensor.dtype.category < FLOATING:
        raise ValueError(f"make_dual(): tensor must be floating or complex, got {tensor.dtype!r}")
    if _tangent_of(tensor) is not None:
        raise RuntimeError("make_dual(): tensor must carry no tangent, got a dual one; use func.jvp for higher orders")
    if not isinstance(tangent, Tensor) or tangent.shape != tensor.shape:
        got = f"{tangent.dtype!r}{list(tangent.shape)}" if isinstance(tangent, Tensor) else kind_of(tangent)
        raise RuntimeError(f"expected a tangent like the primal, {tensor.dtype!r}{list(tensor.shape)}, got {got}")
    dual = _twin(tensor)
    current.put(dual, tangent if tangent.dtype is tensor.dtype else tangent.to(tensor.dtype))
    return dual


def _twin(tensor: Tensor) -> Tensor:
    return stand_in(tensor) if tensor.requires_grad else sharing(tensor, tensor._array)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The tensor without its tangent, and the tangent (None outside `dual_level`)."""
    tangent = _tangent_of(tensor)
    return UnpackedDualTensor(tensor if tangent is None else _twin(tensor), tangent)


def _registry() -> dict[str, Any]:
    return registry


# Tangents are stored for tensors that are not views. A view's tangent is computed from its base's on demand.


def _tangent_of(tensor: Any) -> Tensor | None:
    current = _level.get()
    if current is None or not isinstance(tensor, Tensor):
        return None
    found = current.get(tensor)
    if found is None and type(tensor._state) is View and tensor._state.steps:
        view = tensor._state
        whole, strides = current.get(view.base), view.base._array.strides
        return None if whole is None else _registry()["view_steps"].public(whole, view.steps, strides)
    return found


class _SavedDual(Original):
    """A saved tensor with its tangent, so that gradients have tangents too."""

    __slots__ = ("level", "tangent")

    def __init__(self, tensor: Tensor, edge: Any, tangent: Tensor, level: _Level) -> None:
        super().__init__(tensor, edge)
        self.tangent, self.level = tangent, level

    def unpack(self, node: Node, name: str, create_graph: bool, index: int | None) -> Tensor:
        tensor = super().unpack(node, name, create_graph, index)
        if _level.get() is self.level:
            self.level.put(tensor, self.tangent)
        return tensor


class _Duals:
    """The interface through which the general path of an op calls forward mode, while some thread is in a
    `dual_level`."""

    @staticmethod
    def active() -> bool:
        """Whether this thread or task is in a `dual_level`."""
        return _level.get() is not None

    @staticmethod
    def attach_tangents(op: Any, values: list, arrays: list, metadata: dict[str, Any], results: Any) -> None:
        """Compute the tangents of the results of an op on dual tensors."""
        current = _level.get()
        if current is None:
            return
        for result, tangent in _push_forward(op, values, arrays, metadata, results):
            if type(result._state) is not View:
                current.put(result, tangent)

    @staticmethod
    def save(tensor: Tensor, edge: Any) -> _SavedDual | None:
        """The entry that a node saves for a dual tensor; None for others."""
        level, tangent = _level.get(), _tangent_of(tensor)
        return None if level is None or tangent is None else _SavedDual(tensor, edge, tangent, level)

    @staticmethod
    def copy_tangent(tensor: Tensor, copy: Tensor) -> None:
        """Copy the tangent of a dual tensor to its copy."""
        current = _level.get()
        if current is not None:
            current.put(copy, _tangent_of(tensor))

    @staticmethod
    def of_inputs(inputs: tuple) -> list[Tensor | None] | None:
        """The tangents of the arguments of an `autograd.Function`; None if its `jvp` need not be called."""
        if _level.get() is None or grad_mode.get().inference:
            return None
        tangents = [_tangent_of(each) for each in inputs]
        return None if all(each is None for each in tangents) else tangents

    @staticmethod
    @contextlib.contextmanager
    def suspend() -> Iterator[None]:
        """A block without tangents, for an `autograd.Function`'s own code."""
        level = _level.get()
        _level.set(None)
        try:
            yield
        finally:
            _level.set(level)

    @staticmethod
    @restore_on_failure
    def of_function(ctx: Any, tangents: list[Tensor | None], results: Any) -> None:
        """Set the tangents of an `autograd.Function`'s outputs, computed by its `jvp` from those of the arguments."""
        if ctx._materialize:
            tangents = [_or_zeros(tangent, like) for tangent, like in zip(tangents, ctx.likes, strict=True)]
        with _Duals.suspend():
            pushed = ctx.function.jvp(ctx, *tangents)
        several = isinstance(results, (tuple, list))
        outputs, pushed = (results, pushed) if several else ((results,), (pushed,))
        if not isinstance(pushed, (tuple, list)) or len(pushed) != len(outputs):
            got = len(pushed) if isinstance(pushed, (tuple, list)) else type(pushed).__name__
            raise RuntimeError(f"{ctx.name()}: jvp returned {got}, expected a tuple of {len(outputs)} tangents")
        unmoved = [id(each) for each in ctx._constant]
        for index, (output, tangent) in enumerate(zip(outputs, pushed, strict=True)):
            if not isinstance(output, Tensor) or output.dtype.category < FLOATING or id(output) in unmoved:
                continue
            if not isinstance(tangent, Tensor) or tangent.shape != output.shape:
                wrong = list(tangent.shape) if isinstance(tangent, Tensor) else kind_of(tangent)
                raise RuntimeError(
                    f"{ctx.name()}: jvp returned {wrong} as tangent {index}, expected a Tensor of the shape of that "
                    f"output, {list(output.shape)}"
                )
            if any(output is each for each in ctx._dirty):
                _Duals.write_tangent(output, tangent)
            else:
                _level.get().put(output, tangent)  # type: ignore[union-attr]

    @staticmethod
    def before_write(op: Any, values: list, arrays: list, metadata: dict[str, Any], into: Tensor, out: Any) -> Any:
        """The tangent of `into` after the op has written `out` into it."""
        if _level.get() is None:
            return None
        result = adopt(into._array if callable(out) else cast_unchecked(np.asarray(out), into._array.dtype))
        pairs = _push_forward(op, values, arrays, metadata, result)
        return pairs[0][1].expand(into.shape) if pairs else None

    @staticmethod
    def write_tangent(into: Tensor, tangent: Tensor | None) -> None:
        """Store the tangent of a written tensor; for a view, as part of its base's tangent."""
        current = _level.get()
        if current is None:
            return
        view = into._state if type(into._state) is View else None
        if view is None:
            current.put(into, tangent)
            return
        whole = current.get(view.base)
        if whole is None and tangent is None:
            return
        if not view.steps:
            raise RuntimeError(
                "a view made under no_grad outside dual_level cannot be written to while it or its base carries "
                "a tangent; make the view inside dual_level"
            )
        whole = adopt(np.zeros_like(view.base._array)) if whole is None else whole
        tangent = adopt(np.zeros_like(into._array)) if tangent is None else tangent
        strides = view.base._array.strides
        current.put(view.base, _registry()["view_scatter"].public(whole, tangent, view.steps, strides))


def _or_zeros(tangent: Tensor | None, like: tuple | None) -> Tensor | None:
    """The tangent, or zeros for a differentiable tensor without one."""
    if tangent is not None or like is None or to_dtype(like[1]).category < FLOATING:
        return tangent
    return adopt(np.zeros(*like))


@restore_on_failure
def _push_forward(
    op: Any, values: list, arrays: list, metadata: dict[str, Any], results: Any
) -> list[tuple[Tensor, Tensor]]:
    """The differentiable results of an op, each with its tangent; empty if no input has a tangent."""
    if grad_mode.get().inference:
        return []
    tangents = [_tangent_of(value) for value in values]
    rules = op.rules * len(values) if op.listed else op.rules
    moving = [i for i, t in enumerate(tangents) if t is not None and rules[i] is not None]
    if not moving:
        return []
    depends = any(isinstance(each, Tensor) and each.requires_grad for each in (*values, *tangents))
    recording = depends and grad_mode.get().records
    with enable_grad():
        given = [stand_in(value) if i in moving else value for i, value in enumerate(values)]
        node = op.node(given, arrays, metadata)
        outputs = _record(op, node, results)
        dummies = [stand_in(adopt(np.zeros_like(output._array)), apart=True) for output, _ in outputs]
        starts = [(place, dummy) for (_, place), dummy in zip(outputs, dummies, strict=True)]
        edges = [given[i]._node for i in moving]
        found = Flow(starts, True, True, set(edges)).run()
    pairs = [(found[edge], tangents[i]) for edge, i in zip(edges, moving, strict=True) if edge in found]
    roots = [(history(g), t) for g, t in pairs if history(g) is not None]
    places = [dummy._node for dummy in dummies]
    pushed = Flow(roots, True, recording, set(places)).run()  # type: ignore[arg-type]
    zero = [adopt(np.zeros_like(output._array)) for output, _ in outputs]
    return [(output, pushed.get(place, none)) for (output, _), place, none in zip(outputs, places, zero, strict=True)]


def _record(op: Any, node: Node, results: Any) -> list[tuple[Tensor, Node]]:
    """Record the differentiable results of an op, and return them with their positions at `node`."""
    several = isinstance(results, tuple)
    listed = results if several else (results,)
    if several:
        node.outputs = tuple((each._array.shape, each._array.dtype) for each in listed)
    op.save_out(node, results)
    places = [Output(node, index) if several else node for index in range(len(listed))]
    return [
        (result, place)
        for result, place in zip(listed, places, strict=True)
        if dtype_of(result._array).category >= FLOATING
    ]
