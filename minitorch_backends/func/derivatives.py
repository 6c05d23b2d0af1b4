"""Derivative transforms, under the names of torch.func: grad, vjp, jvp, jacrev, jacfwd, hessian.

Inside `vmap` they differentiate the whole batch, each sample independently: arguments and results are lowered to
tensors with the batches as first dimensions, and lifted again.

Transforms can be nested. Arguments may be tensors, or tuples, lists and dicts of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

from ..autograd.api import GradientEdge
from ..autograd.api import grad as gradients
from ..autograd.extras.replay import Conditions
from ..autograd.forward_ad import dual_level, is_in_dual_level, make_dual, unpack_dual
from ..autograd.functional import matrix_of, unit_vectors, zeros_like
from ..autograd.graph import outer_leaves, stand_in
from ..autograd.inference import inference_mode, is_inference
from ..autograd.modes import WatchedMode, enable_grad, grad_mode, is_grad_enabled
from ..kernels.runtime.context import Binding, restorable, restore_on_failure
from ..ops.creation.factories import ones_like
from ..random import get_rng_state, set_rng_state
from ..tensor.call_errors import argument_errors
from ..tensor.dtypes import FLOATING
from ..tensor.tensor import Tensor, adopt, sharing
from .batched import active_levels, flat, lift, lower


class _Traced:
    """A function called on aliases of some of its arguments.

    Attributes:
        primals, edges: the aliases, and their places in the graph.
        outputs: the tensors in the result, which `rebuild` puts back; `aux`: the auxiliary result.
        outer: whether they depend on tensors that require gradients outside this call.
    """

    @restore_on_failure
    def __init__(
        self, func: Callable[..., Any], args: Any, kwargs: dict[str, Any], argnums: Any, has_aux: bool
    ) -> None:
        several = isinstance(argnums, tuple)
        chosen = argnums if several else (argnums,)
        for number in chosen:
            if not -len(args) <= number < len(args):
                raise RuntimeError(f"Got argnum={number}, but only {len(args)} positional inputs")
        if len({number % len(args) for number in chosen}) != len(chosen) or not chosen:
            raise RuntimeError(f"argnums names each argument to differentiate by once, and at least one; got {argnums}")
        leaves, self.rebuild_inputs = flat(tuple(args[n] for n in chosen) if several else args[argnums])
        for leaf in leaves:
            if not isinstance(leaf, Tensor) or leaf.dtype.category < FLOATING:
                kind = f"a tensor of {leaf.dtype!r}" if isinstance(leaf, Tensor) else type(leaf).__name__
                raise RuntimeError(f"only floating and complex Tensors can be differentiated by, got {kind}")
        self.levels, self.shapes = active_levels(), leaves
        self.call = func, args, kwargs, chosen, several, has_aux, get_rng_state()
        if _pushing.get():
            raise NotImplementedError("a transform inside of a function that is differentiated by dual numbers")
        with inference_mode(False), enable_grad():
            mode = grad_mode.get()
            watched = WatchedMode.inside(mode)
            grad_mode.set(watched)
            held = [lower(leaf, self.levels) for leaf in leaves]
            self.primals = [stand_in(adopt(leaf._array) if is_inference(leaf) else leaf) for leaf in held]
            self.edges = [GradientEdge(primal._node, 0) for primal in self.primals]
            inner = self.rebuild_inputs([lift(_twin(primal), self.levels) for primal in self.primals])
            given = list(args)
            for position, number in enumerate(chosen):
                given[number] = inner[position] if several else inner
            result = func(*given, **kwargs)
            grad_mode.set(mode)
        self.unrecorded = bool(watched.noted) and not self.levels and not is_in_dual_level()
        self.aux = None
        if has_aux:
            if not isinstance(result, tuple) or len(result) != 2:
                raise RuntimeError("with has_aux=True the function should return a tuple of the output and others")
            result, aux = result
            leaves, rebuild = flat(aux)
            tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
            followed = is_grad_enabled() and outer_leaves(self.lower(tensors), self.primals)
            self.aux = rebuild([x if followed or not isinstance(x, Tensor) else x.detach() for x in leaves])
        self.outputs, self.rebuild = flat(result)
        for output in self.outputs:
            if not isinstance(output, Tensor):
                raise RuntimeError(f"the function should return Tensors only, and returned a {type(output).__name__}")
        self.outer = is_grad_enabled() and outer_leaves(self.lower(self.outputs), self.primals)

    def lower(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Tensors with the batches of the levels as first dimensions."""
        return [lower(each, self.levels) for each in tensors]

    def scalar(self) -> Tensor:
        if len(self.outputs) != 1 or self.outputs[0].ndim:
            shapes = [list(each.shape) for each in self.outputs]
            raise RuntimeError(f"Expected the function to return a scalar tensor, got tensors of shapes {shapes}")
        return self.outputs[0]

    def pull_back(self, weights: Sequence[Tensor] | None, create_graph: bool) -> list[Tensor]:
        """The gradients of the primals, with zeros for independent ones; the graph is kept."""
        outputs = self.lower(self.outputs)
        if weights is None and self.levels:
            weights = [lift(ones_like(each), self.levels) for each in outputs]
        chosen = [index for index, output in enumerate(outputs) if output.requires_grad]
        found: Sequence[Tensor | None] = (None,) * len(self.edges)
        if chosen:
            found = gradients(
                [outputs[index] for index in chosen],
                self.edges,
                None if weights is None else self.lower([weights[index] for index in chosen]),
                retain_graph=True,
                create_graph=create_graph,
                allow_unused=True,
            )
        pairs = zip(self.primals, found, strict=True)
        return [lift(zeros_like(x) if g is None else g, self.levels) for x, g in pairs]

    def reaches(self, output: Tensor) -> bool:
        """Whether an output, lowered, depends on the primals."""
        if not output.requires_grad:
            return False
        found = gradients([output], self.edges, [zeros_like(output)], retain_graph=True, allow_unused=True)
        return any(each is not None for each in found)

    def values(self) -> Any:
        """The function's result, without the part of the graph inside this call."""
        return self.rebuild([each if self.outer else each.detach() for each in self.outputs])


def _twin(primal: Tensor) -> Tensor:
    """A stand-in once more, for the function, which may write to it; the first keeps its node."""
    twin = sharing(primal, primal._array)
    twin._node = primal._node
    return twin


_pushing: ContextVar[bool] = ContextVar("pushing_by_duals", default=False)
restorable(_pushing)


@restore_on_failure
def _push_by_duals(traced: _Traced, tangents: Sequence[Tensor]) -> list[Tensor]:
    """The derivatives of the outputs by dual numbers, which `no_grad` does not stop. The function is called again,
    with the random numbers of its first call.

    Raises NotImplementedError for functions that only a graph differentiates.
    """
    func, args, kwargs, chosen, several, has_aux, state = traced.call
    after = get_rng_state()
    try:
        set_rng_state(state)
        with Binding(_pushing, True), dual_level():
            inner = traced.rebuild_inputs([make_dual(*pair) for pair in zip(traced.shapes, tangents, strict=True)])
            given = list(args)
            for position, number in enumerate(chosen):
                given[number] = inner[position] if several else inner
            result = func(*given, **kwargs)
            outputs, _ = flat(result[0] if has_aux else result)
            found = [unpack_dual(each).tangent for each in outputs]
        return [zeros_like(x) if each is None else each for x, each in zip(outputs, found, strict=True)]
    finally:
        set_rng_state(after)


def _pusher(traced: _Traced) -> Callable[[Sequence[Tensor]], list[Tensor]]:
    """The function of tangents that gives the derivatives of the outputs: by the graph, or by dual numbers where a part
    of the function ran under `no_grad`, which stops gradients but no tangents."""
    pushed = None if traced.unrecorded else _Pushed(traced)

    def along(tangents: Sequence[Tensor]) -> list[Tensor]:
        nonlocal pushed
        if pushed is None:
            with suppress(NotImplementedError):
                return _push_by_duals(traced, tangents)
            pushed = _Pushed(traced)
        return pushed.along(tangents)

    return along


class _Pushed:
    """Products of a Jacobian with vectors from the right: the derivative of the products from the left, which are
    linear in their vector."""

    @restore_on_failure
    def __init__(self, traced: _Traced) -> None:
        self.traced = traced
        with inference_mode(False), enable_grad():
            self.dummies = [stand_in(zeros_like(output)) for output in traced.lower(traced.outputs)]
            self.pulled = traced.pull_back([lift(each, traced.levels) for each in self.dummies], True)

    def along(self, tangents: Sequence[Tensor]) -> list[Tensor]:
        """The derivatives of the outputs when the primals move along `tangents`."""
        outer = self.traced.outer or any(each.requires_grad for each in tangents)
        traced, pulled = self.traced, self.traced.lower(self.pulled)
        chosen = [index for index, each in enumerate(pulled) if each.requires_grad]
        found: Sequence[Tensor | None] = (None,) * len(self.dummies)
        if chosen:
            found = gradients(
                [pulled[index] for index in chosen],
                [GradientEdge(dummy._node, 0) for dummy in self.dummies],
                traced.lower([tangents[index] for index in chosen]),
                retain_graph=True,
                create_graph=outer,
                allow_unused=True,
            )
        pairs = zip(self.dummies, found, strict=True)
        return [lift(zeros_like(x) if t is None else t, traced.levels) for x, t in pairs]


@argument_errors
def grad_and_value(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function of the arguments of `func`, a scalar, that returns (gradient, value), or (gradient, (value, aux))."""

    @functools.wraps(func)
    def derivative(*args: Any, **kwargs: Any) -> Any:
        traced = _Traced(func, args, kwargs, argnums, has_aux)
        traced.scalar()
        gradient = traced.rebuild_inputs(traced.pull_back(None, traced.outer))
        return gradient, (traced.values(), traced.aux) if has_aux else traced.values()

    return derivative


@argument_errors
def grad(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function of the arguments of `func`, a scalar, that returns its gradient by the arguments `argnums`.

    With `has_aux`, `func` returns (scalar, aux), and the gradient function (gradient, aux). Raises RuntimeError when
    `func` returns anything but a scalar tensor.
    """

    @functools.wraps(func)
    def derivative(*args: Any, **kwargs: Any) -> Any:
        gradient, value = grad_and_value(func, argnums, has_aux)(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return derivative


@argument_errors
def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """(func(*primals), a function that multiplies a vector, like the output, with the Jacobian): (output, pull[, aux]).

    `pull` returns a tuple with one product for each primal. Raises RuntimeError for another number of cotangents than
    outputs.
    """
    traced = _Traced(func, primals, {}, tuple(range(len(primals))), has_aux)

    def pull(*cotangents: Any) -> Any:
        given, _ = flat(cotangents if len(cotangents) > 1 else cotangents[0])
        if len(given) != len(traced.outputs):
            raise RuntimeError(f"expected {len(traced.outputs)} cotangents, one for each output, got {len(given)}")
        outer = traced.outer or any(each.requires_grad for each in given)
        return traced.rebuild_inputs(traced.pull_back(given, outer))

    return (traced.values(), pull, traced.aux) if has_aux else (traced.values(), pull)


@argument_errors
def jvp(
    func: Callable[..., Any],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """(func(*primals), the derivative of it when the primals move along `tangents`[, aux]).

    `no_grad` in `func` does not stop tangents, as in torch; `func` is then called twice. `detach` stops them.
    Raises RuntimeError when primals and tangents are not tuples of tensors of equal shapes, and with `strict` for an
    output that does not depend on the primals; NotImplementedError with `strict` where `func` computes under `no_grad`.
    """
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple) or len(primals) != len(tangents):
        raise RuntimeError("jvp expects primals and tangents to be tuples of the same, non-zero length")
    traced = _Traced(func, primals, {}, tuple(range(len(primals))), has_aux)
    if strict and traced.unrecorded:
        raise NotImplementedError("jvp(): strict must be False for a function that computes under no_grad, got True")
    if strict and not all(map(traced.reaches, traced.lower(traced.outputs))):
        raise RuntimeError("jvp(): every output must depend on the primals with strict=True, got one that does not")
    given, _ = flat(tangents)
    shapes = [[tuple(each.shape) for each in side] for side in (traced.shapes, given)]
    if shapes[0] != shapes[1]:
        raise RuntimeError(f"expected tangents of the shapes of the primals, {shapes[0]}, got {shapes[1]}")
    pushed = traced.rebuild(_pusher(traced)(given))
    return (traced.values(), pushed, traced.aux) if has_aux else (traced.values(), pushed)


@argument_errors
def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """(func(*primals), a function of tangents that gives the derivative of it there): `func` is called once, however
    many tangents follow. The derivative is computed under the flags and autocast state of this call."""
    conditions = Conditions()
    traced = _Traced(func, primals, {}, tuple(range(len(primals))), False)
    pushed = _Pushed(traced)

    def along(*tangents: Any) -> Any:
        return traced.rebuild(conditions.run(pushed.along, flat(tangents)[0]))

    return traced.values(), along


@argument_errors
def jacrev(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """A function of the arguments of `func` that returns its Jacobian, by one backward pass per output element.

    Each output is replaced by its derivatives by the arguments, of shape `output.shape + argument.shape`. torch's
    `chunk_size` has no effect.
    """

    @functools.wraps(func)
    def derivative(*args: Any, **kwargs: Any) -> Any:
        traced = _Traced(func, args, kwargs, argnums, has_aux)
        blocks = []
        for which, output in enumerate(traced.outputs):
            rows = []
            for unit in unit_vectors(output):
                weights = [unit if i == which else zeros_like(each) for i, each in enumerate(traced.outputs)]
                rows.append(traced.pull_back(weights, traced.outer))
            parts = [matrix_of([row[i] for row in rows], output.shape, x) for i, x in enumerate(traced.shapes)]
            blocks.append(traced.rebuild_inputs(parts))
        jacobian = traced.rebuild(blocks)
        return (jacobian, traced.aux) if has_aux else jacobian

    return derivative


@argument_errors
def jacfwd(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """As `jacrev`, by one pass for each element of the arguments; torch's `randomness` has no effect, since `func` is
    called once (or again for each element, with the same random numbers, if a part of it runs under `no_grad`)."""

    @functools.wraps(func)
    def derivative(*args: Any, **kwargs: Any) -> Any:
        traced = _Traced(func, args, kwargs, argnums, has_aux)
        along = _pusher(traced)
        columns: list[list[list[Tensor]]] = []
        for index, x in enumerate(traced.shapes):
            units = [
                [unit if i == index else zeros_like(each) for i, each in enumerate(traced.shapes)]
                for unit in unit_vectors(x)
            ]
            columns.append([along(unit) for unit in units])
        blocks = []
        for which, output in enumerate(traced.outputs):
            parts = []
            for x, of_input in zip(traced.shapes, columns, strict=True):
                stacked = matrix_of([column[which] for column in of_input], x.shape, output)
                parts.append(stacked.permute((*range(x.ndim, x.ndim + output.ndim), *range(x.ndim))))
            blocks.append(traced.rebuild_inputs(parts))
        jacobian = traced.rebuild(blocks)
        return (jacobian, traced.aux) if has_aux else jacobian

    return derivative


@argument_errors
def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """A function of the arguments of `func` that returns its second derivatives: `jacfwd(jacrev(func))`."""
    return jacfwd(jacrev(func, argnums), argnums)
