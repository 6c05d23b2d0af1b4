"""`autograd.Function`: user-defined ops with a hand-written backward.

The context passed to `forward` and `backward` is the node itself, as in torch.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ..kernels.runtime.context import restore_on_failure, warn_caller
from ..tensor import instrumentation
from ..tensor.dtypes import FLOATING, dtype_of
from ..tensor.tensor import Tensor, adopt, kind_of, sharing
from .accumulation import fit_gradient
from .anomaly_mode import note_call
from .modes import grad_mode, no_grad
from .mutation import bump, rewrite
from .nodes import FREED, SELF, Leaf, Node, Output, Packed, history, make_node, next_sequence, save, stale
from .views import FROM_FUNCTION, STALE, View

__all__ = ["Function", "FunctionCtx", "once_differentiable"]


class FunctionCtx(Node):
    """The node of one call of a Function, and the context that its `forward` and `backward` share.

    Attributes may be set on it freely. Tensors for backward belong in `save_for_backward`, which checks their versions.
    `needs_input_grad` has a bool for each argument of `forward`.
    """

    function: ClassVar[type[Function]]
    needs_input_grad: tuple[bool, ...]

    def __init__(self, inputs: tuple[Any, ...]) -> None:
        self.op, self.hooks, self.sequence = _OP, None, next_sequence()
        self.edges, self.outputs, self.saved, self.metadata = (), (), {}, {}
        self.likes = tuple((x._array.shape, x._array.dtype) if isinstance(x, Tensor) else None for x in inputs)
        self.needs_input_grad = tuple(isinstance(x, Tensor) and x.requires_grad for x in inputs)
        self._kept: tuple[Tensor | None, ...] = ()
        self._for_jvp: tuple[Tensor | None, ...] = ()
        self._dirty: tuple[Tensor, ...] = ()
        self._constant: tuple[Tensor, ...] = ()
        self._materialize = True

    def name(self) -> str:
        """The name of the Function, followed by "Backward"."""
        return type(self).__name__

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Save inputs, outputs or other tensors for backward, which reads them from `saved_tensors`. Raises TypeError
        for values other than tensors and None."""
        for index, tensor in enumerate(tensors):
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {index} is of type "
                    f"{type(tensor).__name__}; set it as an attribute of ctx"
                )
        self._kept = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Save tensors for `jvp`, which reads them from `saved_tensors`."""
        self._for_jvp = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Declare the inputs that `forward` writes to. They must be returned."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Declare the outputs without gradients."""
        self._constant = tensors

    def mark_shared_storage(self, *pairs: Any) -> None:
        """Has no effect: shared memory is detected. (Deprecated in torch.)"""
        warn_caller(
            "mark_shared_storage is deprecated and has no effect: tensors with shared storages are detected",
            FutureWarning,
        )

    def set_materialize_grads(self, value: bool) -> None:
        """Choose whether backward receives zeros (the default) or None for outputs without a gradient."""
        self._materialize = value

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The saved tensors. Raises RuntimeError if they were released, or modified in place since."""
        if self.saved is FREED:
            raise RuntimeError(
                f"trying to go through {self.name()} a second time, or to read its saved tensors, after they were "
                "released by the first backward; pass retain_graph=True the first time"
            )
        if "tensors" not in self.saved:
            return self._for_jvp
        return tuple(map(self._unpack, self.saved["tensors"]))

    def _unpack(self, entry: Any) -> Tensor | None:
        """A saved tensor at its place in the graph, since backward may record under `enable_grad`."""
        if entry is None:
            return None
        kept, index = entry
        if isinstance(kept, Packed):
            return kept.unpack(self, "saved_tensors", True, index)
        array, edge, cell, version = kept
        if cell[0] != version:
            raise stale(self, "saved_tensors", kept)
        if edge is SELF:
            edge = self if index is None else Output(self, index)
        tensor = adopt(array, edge)
        tensor._cell = cell
        return tensor


class _FunctionOp:
    """The op of a `FunctionCtx`, as the engine calls it."""

    name = "a Function"

    @staticmethod
    def propagate(node: FunctionCtx, edges: tuple, g: Any, flow: Any) -> None:
        """Call the user's backward, and send the returned gradients to the inputs."""
        node.needs_input_grad = tuple(edge is not None for edge in edges)
        function = node.function
        apply = function.vjp if function.backward is Function.backward else function.backward
        results = apply(node, *(g if node.outputs else (g,)))
        for index, value in enumerate(_check_gradients(node, results)):
            edge = edges[index] if index < len(edges) else None
            if edge is None:
                continue
            if value is not None:
                value = _of_input(node, index, value, flow.create_graph)
            flow.deliver(edge, value, node.likes[index], value)


def _of_input(node: FunctionCtx, index: int, value: Tensor, create_graph: bool) -> Tensor:
    """Reduce the gradient of one argument to its shape and dtype. Raises RuntimeError if it does not fit."""
    shape, dtype = node.likes[index]
    wrong = f"Function {node.name()} returned an invalid gradient at index {index} - got "
    if value._array.dtype.kind == "c" != dtype.kind:
        raise RuntimeError(f"{wrong}{value.dtype!r}, but expected a real one, as that input is; return its real part")
    try:
        return fit_gradient(value, shape, dtype, create_graph)
    except RuntimeError:
        raise RuntimeError(f"{wrong}{list(value.shape)} but expected shape compatible with {list(shape)}") from None


_OP = _FunctionOp()
_NOTHING = contextlib.nullcontext()


def _check_gradients(node: FunctionCtx, results: Any) -> tuple:
    """Check that backward returned one gradient per argument of forward, and None for arguments that are not
    tensors."""
    given = tuple(results) if isinstance(results, (tuple, list)) else (results,)
    expected = len(node.edges)
    if len(given) < expected or any(each is not None for each in given[expected:]):
        raise RuntimeError(
            f"function {node.name()} returned an incorrect number of gradients (expected {expected}, got {len(given)})"
        )
    for index, each in enumerate(given):
        if each is None:
            continue
        if not isinstance(each, Tensor):
            raise RuntimeError(f"{node.name()}: expected Variable or None (got {kind_of(each)})")
        if node.likes[index] is None:
            raise RuntimeError(
                f"function {node.name()} returned a gradient different from None at position {index + 1}, but the "
                "corresponding forward input was not a Variable"
            )
    return given


class _FunctionMeta(type):
    """Gives every Function a node type of its own, `<name>Backward`."""

    def __init__(cls, name: str, bases: tuple, attributes: dict[str, Any]) -> None:
        super().__init__(name, bases, attributes)
        cls._node_type = type(name + "Backward", (FunctionCtx,), {"function": cls, "__module__": cls.__module__})


class Function(metaclass=_FunctionMeta):
    """Base of user-defined differentiable functions; subclasses are called as `Name.apply(...)`.

    Define either `forward(ctx, *args)`, or `forward(*args)` with `setup_context(ctx, inputs, output)`. Also define
    `backward(ctx, *grads)`, which returns a gradient (or None) for each argument of `forward`. For forward mode,
    `jvp(ctx, *tangents)` returns a tangent for each output. All are static methods. Forward runs unrecorded; backward
    is recorded only under `create_graph`.
    """

    _node_type: ClassVar[type[FunctionCtx]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warn_caller(
            f"{type(self)} should not be instantiated: methods of Functions are static; call "
            f"{type(self).__name__}.apply",
            DeprecationWarning,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"a Function cannot be called; use {type(self).__name__}.apply(...)")

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs (tensors and others) from the inputs."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Save values for backward. If this is defined, `forward` takes no ctx."""
        raise NotImplementedError("setup_context is not implemented")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Compute the gradients of the inputs from those of the outputs."""
        return Function.vjp(ctx, *grad_outputs)

    @staticmethod
    def vjp(ctx: Any, *grad_outputs: Any) -> Any:
        """Another name of `backward`."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function"
        )

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Compute the tangents of the outputs from those of the inputs."""
        raise NotImplementedError("You must implement the jvp function for custom autograd.Function in forward mode")

    @classmethod
    @restore_on_failure
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward, and record the call if an argument requires gradients."""
        separate = cls.setup_context is not Function.setup_context
        inputs = _in_order(cls.forward, args, kwargs, 0 if separate else 1) if kwargs else args
        # Bring views up to date first: the node of this call must come after theirs.
        edges = tuple(history(x) if isinstance(x, Tensor) else None for x in inputs)
        ctx = cls._node_type(inputs)
        if instrumentation.is_observed():
            note_call(ctx)
        tangents = None if instrumentation.duals is None else instrumentation.duals.of_inputs(inputs)
        with no_grad(), _NOTHING if tangents is None else instrumentation.duals.suspend():
            if separate:
                output = cls.forward(*args, **kwargs)
                cls.setup_context(ctx, inputs, output)
            else:
                output = cls.forward(ctx, *args, **kwargs)
        recording = grad_mode.get().records and any(edge is not None for edge in edges)
        results = _attach(ctx, inputs, edges, output, recording)
        if tangents is not None:
            instrumentation.duals.of_function(ctx, tangents, results)
        ctx._dirty = ctx._constant = ctx._for_jvp = ()  # outputs hold the node
        return results


def _in_order(forward: Callable[..., Any], args: tuple, kwargs: dict[str, Any], skipped: int) -> tuple[Any, ...]:
    """The arguments in the order of `forward`'s declaration."""
    bound = inspect.signature(forward).bind(*(None,) * skipped, *args, **kwargs)
    return (*bound.args[skipped:], *bound.kwargs.values())


def _attach(ctx: FunctionCtx, inputs: tuple, edges: tuple, output: Any, recording: bool) -> Any:
    """The outputs of forward, as results of the node `ctx`."""
    values = list(output) if isinstance(output, (tuple, list)) else [output]
    dirty = {id(each) for each in ctx._dirty}
    if dirty - {id(each) for each in values}:
        raise RuntimeError(
            "Some elements marked as dirty during the forward method were not returned as output. The inputs that are "
            "modified inplace must all be outputs of the Function."
        )
    several = isinstance(output, (tuple, list))
    if recording:
        ctx.edges = edges
        if several:
            likes = [(x._array.shape, x._array.dtype) if isinstance(x, Tensor) else None for x in values]
            ctx.outputs = tuple(likes) if ctx._materialize else (None,) * len(likes)
    given = {id(x): x for x in inputs if isinstance(x, Tensor)}
    constant = {id(each) for each in ctx._constant}
    results = []
    for index, value in enumerate(values):
        if isinstance(value, Tensor):
            node: Any = None
            if recording and id(value) not in constant and dtype_of(value._array).category >= FLOATING:
                node = Output(ctx, index) if several else ctx
            outcome = _result(value, node, given, id(value) in dirty)
            # A written input without a gradient is returned without its history, which does not include the write.
            apart = recording and node is None and outcome is value and outcome._node is not None
            value = sharing(value, value._array) if apart else outcome
        results.append(value)
    if recording and ctx._kept:
        fresh = [index for index, x in enumerate(values) if id(x) not in given or id(x) in dirty]
        outputs = {id(values[index]): (results[index], index if several else None) for index in fresh}
        ctx.saved["tensors"] = [_save_entry(each, outputs, constant) for each in ctx._kept]
    elif ctx._kept:
        ctx._for_jvp = ctx._for_jvp or ctx._kept
    ctx._kept = ()
    return results[0] if not several else type(output)(results) if type(output) in (tuple, list) else tuple(results)


def _save_entry(tensor: Tensor | None, outputs: dict[int, tuple[Tensor, int | None]], constant: set[int]) -> Any:
    """The entry for a saved tensor, and its index among the outputs. Written inputs are outputs."""
    if tensor is None:
        return None
    if id(tensor) not in outputs:
        return save(tensor, history(tensor)), None
    result, index = outputs[id(tensor)]
    return save(result, None if id(tensor) in constant else SELF), index


def _result(value: Tensor, node: Any, given: dict[int, Tensor], dirty: bool) -> Tensor:
    """One output at its place in the graph: `node` is its node, or None."""
    if dirty:
        view = value._state if type(value._state) is View else None
        owner = value if view is None else view.base
        if node is not None and type(owner._node) is Leaf:
            raise RuntimeError(
                f"a {'view of a ' if view is not None else ''}leaf Variable that requires grad has been used in an "
                "in-place "
                "operation; pass a clone() to the Function"
            )
        bump(value)
        if node is not None:
            rewrite(node, value)
        return value
    if id(value) in given:
        base, value = value, sharing(value, value._array[...])
        value._state = View(base if type(base._state) is not View else base._state.base, (), FROM_FUNCTION)
    elif type(value._state) is View:
        if id(value._state.base) in given:
            value._state.apart = FROM_FUNCTION
        else:
            value._state = None
    elif value._node is not None and node is not None:
        value = sharing(value, value._array)
    if node is not None or type(value._state) is View:
        value._node = node if node is not None else STALE
        if type(value._state) is View:
            value._state.node = node
    return value


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a backward that is not made of differentiable ops: differentiating its results raises RuntimeError."""

    @functools.wraps(fn)
    @restore_on_failure
    def backward(ctx: Any, *grads: Any) -> Any:
        with no_grad():
            results = fn(ctx, *grads)
        edges = [history(g) for g in grads if isinstance(g, Tensor)] if grad_mode.get().records else []
        if not any(edge is not None for edge in edges):
            return results
        outputs = results if isinstance(results, tuple) else (results,)
        refused = [_refusing(each, edges, ctx) if isinstance(each, Tensor) else each for each in outputs]
        return tuple(refused) if isinstance(results, tuple) else refused[0]

    return backward


class _Refusing:
    """The op of the results of a `once_differentiable` function."""

    def __init__(self, function: str) -> None:
        self.name = self.title = f"once_differentiable({function})"

    def propagate(self, node: Node, edges: tuple, g: Any, flow: Any) -> None:
        raise RuntimeError(
            f"trying to differentiate twice a function that was marked with @once_differentiable: {self.name}"
        )


def _refusing(tensor: Tensor, edges: Sequence[Any], ctx: Any) -> Tensor:
    return adopt(tensor._array, make_node(_Refusing(ctx.name()), tuple(edges), (None,) * len(edges), {}))
