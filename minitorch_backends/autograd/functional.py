"""Derivatives of functions, under the names of torch.autograd.functional: jacobian, hessian, and their products with
vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..kernels.runtime.context import restore_on_failure
from ..tensor.call_errors import argument_errors
from ..tensor.registry import registry
from ..tensor.tensor import Tensor, adopt
from .api import grad
from .modes import enable_grad

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

# Rows of Jacobians: the unit vectors that select them, and their assembly into one tensor


def zeros_like(like: Tensor) -> Tensor:
    """The gradient of an output that does not matter."""
    return adopt(np.zeros_like(like._array))


def unit_vectors(like: Tensor) -> list[Tensor]:
    """One tensor for each element of `like`: one at that element, and zero elsewhere."""
    size = like.numel()
    return [adopt(row.reshape(like._array.shape)) for row in np.eye(size, dtype=like._array.dtype)]


def matrix_of(rows: list[Tensor], shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Assemble the rows of a Jacobian, one per element of an output of `shape`, into one tensor."""
    if not rows:
        return adopt(np.zeros((*shape, *like.shape), like._array.dtype))
    return registry["stack"].public(rows).reshape((*shape, *like.shape))


Tensors = tuple[Tensor, ...]


def _tensors(values: Any, what: str) -> tuple[bool, Tensors]:
    """Whether a tuple was given, and the tensors. Raises TypeError for other values."""
    several = isinstance(values, (tuple, list))
    given = tuple(values) if several else (values,)
    for index, each in enumerate(given):
        if not isinstance(each, Tensor):
            raise TypeError(
                f"the {what} must be a Tensor or a tuple of Tensors, got {type(each).__name__} as element {index}"
            )
    return several, given


def _prepare_inputs(inputs: Tensors, create_graph: bool) -> Tensors:
    """The inputs to differentiate by: views of them if the graph is to reach the originals, otherwise leaves on their
    memory."""
    if create_graph:
        return tuple(each.view(each.shape) if each.requires_grad else _leaf(each) for each in inputs)
    return tuple(map(_leaf, inputs))


def _leaf(tensor: Tensor) -> Tensor:
    return tensor.detach().requires_grad_()


def _call(func: Callable[..., Any], inputs: Tensors, strict: bool) -> tuple[bool, Tensors]:
    several, outputs = _tensors(func(*inputs), "outputs of the function")
    for index, output in enumerate(outputs):
        if strict and not output.requires_grad:
            raise RuntimeError(
                f"output {index} of the function is independent of the inputs, which strict=True forbids"
            )
    return several, outputs


def _pull_back(
    outputs: Tensors, inputs: Tensors, weights: Sequence[Tensor | None] | None, create_graph: bool, strict: bool
) -> Tensors:
    """The gradients of the inputs, with zeros for independent inputs; the graph is retained."""
    chosen = [index for index, output in enumerate(outputs) if output.requires_grad]
    found: Sequence[Tensor | None] = (None,) * len(inputs)
    if chosen:
        found = grad(
            [outputs[index] for index in chosen],
            inputs,
            None if weights is None else [weights[index] for index in chosen],
            retain_graph=True,
            create_graph=create_graph,
            allow_unused=True,
        )
    for index, each in enumerate(found):
        if strict and each is None:
            raise RuntimeError(
                f"the outputs of the function are independent of input {index}, which strict=True forbids"
            )
    return tuple(zeros_like(x) if each is None else each for x, each in zip(inputs, found, strict=True))


def _vectors(v: Any, like: Tensors, what: str) -> Tensors:
    """`v` as a tuple of tensors of the shapes of `like`; ones if `v` is None and `like` is a single element."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"The vector v can only be None if the {what} is a single Tensor with one element")
        return (adopt(np.ones_like(like[0]._array)),)
    _, vectors = _tensors(v, "vector v")
    if len(vectors) != len(like):
        raise RuntimeError(f"v has {len(vectors)} tensors; expected {len(like)}, one for each {what}")
    for index, (vector, each) in enumerate(zip(vectors, like, strict=True)):
        if vector.shape != each.shape:
            raise RuntimeError(
                f"v[{index}] has size {list(vector.shape)}; expected that of the {what}, {list(each.shape)}"
            )
    return vectors


def _finish(values: Any, create_graph: bool) -> Any:
    """The results, detached unless the graph was requested."""
    if isinstance(values, tuple):
        return tuple(_finish(each, create_graph) for each in values)
    return values if create_graph else values.detach()


def _as_given(several: bool, values: Tensors) -> Any:
    return values if several else values[0]


@argument_errors
@restore_on_failure
def vjp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """Return func(*inputs) and the vector-Jacobian product with `v`, of the shapes of the outputs."""
    with enable_grad():
        several, given = _tensors(inputs, "inputs")
        given = _prepare_inputs(given, create_graph)
        outputs_several, outputs = _call(func, given, strict)
        weights = _vectors(v, outputs, "output")
        result = _pull_back(outputs, given, weights, create_graph, strict)
    return (
        _finish(_as_given(outputs_several, outputs), create_graph),
        _finish(_as_given(several, result), create_graph),
    )


@argument_errors
@restore_on_failure
def jvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """Return func(*inputs) and the Jacobian-vector product with `v`, of the shapes of the inputs.

    It takes two backward passes: the vector-Jacobian product is linear in its vector, and differentiating it by that
    vector gives the Jacobian-vector product (J. Townsend, 2017, "A new trick for calculating Jacobian vector
    products").
    """
    with enable_grad():
        _, given = _tensors(inputs, "inputs")
        vectors = _vectors(v, given, "input")
        given = _prepare_inputs(given, create_graph)
        outputs_several, outputs = _call(func, given, strict)
        dummies = tuple(zeros_like(output).requires_grad_() for output in outputs)
        pulled = _pull_back(outputs, given, dummies, True, strict)
        result = _pull_back(pulled, dummies, vectors, create_graph, strict)
    return (
        _finish(_as_given(outputs_several, outputs), create_graph),
        _finish(_as_given(outputs_several, result), create_graph),
    )


@argument_errors
@restore_on_failure
def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The derivatives of every element of the outputs by every element of the inputs.

    Returns a tensor of shape `output.shape + input.shape`. If the outputs or the inputs are a tuple, returns a tuple of
    these; if both are, one tuple per output.

    `strategy="forward-mode"` runs one pass per element of the inputs, "reverse-mode" one per element of the outputs.
    `strict` raises RuntimeError for inputs and outputs that are independent of each other. `vectorize` has no effect.
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise AssertionError(f'Expected strategy to be either "forward-mode" or "reverse-mode", got {strategy!r}')
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError('strategy="forward-mode" cannot create a graph yet; use "reverse-mode"')
        return _jacobian_by_columns(func, inputs, strict)
    with enable_grad():
        several, given = _tensors(inputs, "inputs")
        given = _prepare_inputs(given, create_graph)
        outputs_several, outputs = _call(func, given, strict)
        rows = []
        for output in outputs:
            pulled = [_pull_back((output,), given, (unit,), create_graph, strict) for unit in unit_vectors(output)]
            blocks = [matrix_of([row[i] for row in pulled], output.shape, x) for i, x in enumerate(given)]
            rows.append(_as_given(several, tuple(blocks)))
    return _finish(_as_given(outputs_several, tuple(rows)), create_graph)


@restore_on_failure
def _jacobian_by_columns(func: Callable[..., Any], inputs: Any, strict: bool) -> Any:
    several, given = _tensors(inputs, "inputs")
    with enable_grad():
        leaves = _prepare_inputs(given, False)
        outputs_several, outputs = _call(func, leaves, strict)
        dummies = tuple(zeros_like(output).requires_grad_() for output in outputs)
        pulled = _pull_back(outputs, leaves, dummies, True, strict)
    blocks: list[list[Tensor]] = [[] for _ in outputs]
    for index, x in enumerate(given):
        columns = []
        for unit in unit_vectors(x):
            vectors = tuple(unit if i == index else zeros_like(each) for i, each in enumerate(given))
            columns.append(_pull_back(pulled, dummies, vectors, False, strict))
        for which, output in enumerate(outputs):
            stacked = matrix_of([column[which] for column in columns], x.shape, output)
            order = (*range(x.ndim, x.ndim + output.ndim), *range(x.ndim))
            blocks[which].append(stacked.permute(order))
    rows = tuple(_as_given(several, tuple(block)) for block in blocks)
    return _finish(_as_given(outputs_several, rows), False)


def _scalar(func: Callable[..., Any]) -> Callable[..., Tensor]:
    """Wrap `func` to check that it returns a single tensor of one element."""

    def checking(*inputs: Tensor) -> Tensor:
        output = func(*inputs)
        if not isinstance(output, Tensor):
            raise RuntimeError(f"the function should return a single Tensor, got {type(output).__name__}")
        if output.numel() != 1:
            raise RuntimeError(
                f"the Tensor returned by the function should contain a single element, got {output.numel()}"
            )
        return output.reshape(())

    return checking


@argument_errors
def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of a function of one element, by every pair of elements of the inputs.

    Returns a tensor of shape `input.shape + input.shape`, or a tuple of tuples of them for a tuple of inputs. The other
    arguments are those of `jacobian`, which is applied to the gradient.
    """
    several, _ = _tensors(inputs, "inputs")

    def gradient(*given: Tensor) -> Any:
        output = _scalar(func)(*given)
        if strict and not output.requires_grad:
            raise RuntimeError("the output of the function is independent of the inputs, which strict=True forbids")
        return _as_given(several, _pull_back((output,), given, None, True, strict))

    return jacobian(gradient, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)


@argument_errors
@restore_on_failure
def vhp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """Return func(*inputs) and the vector-Hessian product with `v`, of the shapes of the inputs."""
    with enable_grad():
        several, given = _tensors(inputs, "inputs")
        vectors = _vectors(v, given, "input")
        given = _prepare_inputs(given, create_graph)
        output = _scalar(func)(*given)
        _call(lambda *_: output, given, strict)
        gradients = _pull_back((output,), given, None, True, strict)
        result = _pull_back(gradients, given, vectors, create_graph, strict)
    return _finish(output, create_graph), _finish(_as_given(several, result), create_graph)


@argument_errors
@restore_on_failure
def hvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """Return func(*inputs) and the Hessian-vector product with `v`. It takes one more backward pass than `vhp`.

    Where the Hessian is symmetric both products are equal, and `vhp` is faster.
    """
    with enable_grad():
        several, given = _tensors(inputs, "inputs")
        vectors = _vectors(v, given, "input")
        given = _prepare_inputs(given, create_graph)
        output = _scalar(func)(*given)
        _call(lambda *_: output, given, strict)
        gradients = _pull_back((output,), given, None, True, strict)
        dummies = tuple(zeros_like(each).requires_grad_() for each in given)
        pulled = _pull_back(gradients, given, dummies, True, strict)
        result = _pull_back(pulled, dummies, vectors, create_graph, strict)
    return _finish(output, create_graph), _finish(_as_given(several, result), create_graph)
