"""Derivatives of functions, under the names of torch.autograd.functional: jacobian, hessian, and their products with
vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...dispatch.call_errors import argument_errors
from ...tensor.tensor import Tensor, adopt
from ..api import grad
from ..modes import enable_grad
from .jacobian_rows import matrix_of, unit_vectors, zeros_like

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = tuple[Tensor, ...]


def _tensors(values: Any, what: str) -> tuple[bool, Tensors]:
    """Whether several were given, and the tensors. Raises TypeError for anything else."""
    several = isinstance(values, (tuple, list))
    given = tuple(values) if several else (values,)
    for index, each in enumerate(given):
        if not isinstance(each, Tensor):
            raise TypeError(
                f"the {what} must be a Tensor or a tuple of Tensors, but element {index} is {type(each).__name__}"
            )
    return several, given


def _prepared(inputs: Tensors, create_graph: bool) -> Tensors:
    """The inputs to differentiate by: views of them when the graph is to reach them, else leaves with their memory."""
    if create_graph:
        return tuple(each.view(each.shape) if each.requires_grad else _leaf(each) for each in inputs)
    return tuple(map(_leaf, inputs))


def _leaf(tensor: Tensor) -> Tensor:
    return tensor.detach().requires_grad_()


def _called(func: Callable[..., Any], inputs: Tensors, strict: bool) -> tuple[bool, Tensors]:
    several, outputs = _tensors(func(*inputs), "outputs of the function")
    for index, output in enumerate(outputs):
        if strict and not output.requires_grad:
            raise RuntimeError(
                f"output {index} of the function is independent of the inputs, which strict=True refuses"
            )
    return several, outputs


def _pulled(
    outputs: Tensors, inputs: Tensors, weights: Sequence[Tensor | None] | None, create_graph: bool, strict: bool
) -> Tensors:
    """The gradients of the inputs, zeros where nothing depends on them; the graph is kept."""
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
                f"the outputs of the function are independent of input {index}, which strict=True refuses"
            )
    return tuple(zeros_like(x) if each is None else each for x, each in zip(inputs, found, strict=True))


def _vectors(v: Any, like: Tensors, what: str) -> Tensors:
    """`v` as a tuple of tensors of the shapes of `like`; ones for a single element when it is None."""
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


def _finished(values: Any, create_graph: bool) -> Any:
    """The results, without their graph unless it was asked for."""
    if isinstance(values, tuple):
        return tuple(_finished(each, create_graph) for each in values)
    return values if create_graph else values.detach()


def _as_given(several: bool, values: Tensors) -> Any:
    return values if several else values[0]


@argument_errors
def vjp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """(func(*inputs), the product of the vector `v`, of the shapes of the outputs, with the Jacobian)."""
    with enable_grad():
        several, given = _tensors(inputs, "inputs")
        given = _prepared(given, create_graph)
        outputs_several, outputs = _called(func, given, strict)
        weights = _vectors(v, outputs, "output")
        result = _pulled(outputs, given, weights, create_graph, strict)
    return (
        _finished(_as_given(outputs_several, outputs), create_graph),
        _finished(_as_given(several, result), create_graph),
    )


@argument_errors
def jvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """(func(*inputs), the product of the Jacobian with the vector `v`, of the shapes of the inputs).

    By two backward passes: the product with a vector from the left is linear in that vector, and differentiating by it
    gives the product from the right (J. Townsend, 2017, "A new trick for calculating Jacobian vector products").
    """
    with enable_grad():
        _, given = _tensors(inputs, "inputs")
        vectors = _vectors(v, given, "input")
        given = _prepared(given, create_graph)
        outputs_several, outputs = _called(func, given, strict)
        dummies = tuple(zeros_like(output).requires_grad_() for output in outputs)
        pulled = _pulled(outputs, given, dummies, True, strict)
        result = _pulled(pulled, dummies, vectors, create_graph, strict)
    return (
        _finished(_as_given(outputs_several, outputs), create_graph),
        _finished(_as_given(outputs_several, result), create_graph),
    )


@argument_errors
def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The derivatives of every element of the outputs by every element of the inputs.

    A tensor of shape `output.shape + input.shape`; a tuple of them where the outputs or the inputs are a tuple, and one
    tuple for each output where both are. With `strategy="forward-mode"` there is one pass for each element of the
    inputs, else one for each of the outputs. `strict` refuses inputs and outputs that are independent of each other;
    `vectorize` changes nothing.
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise AssertionError(f'Expected strategy to be either "forward-mode" or "reverse-mode", got {strategy!r}')
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError('strategy="forward-mode" cannot create a graph yet; use "reverse-mode"')
        return _jacobian_by_columns(func, inputs, strict)
    with enable_grad():
        several, given = _tensors(inputs, "inputs")
        given = _prepared(given, create_graph)
        outputs_several, outputs = _called(func, given, strict)
        rows = []
        for output in outputs:
            pulled = [_pulled((output,), given, (unit,), create_graph, strict) for unit in unit_vectors(output)]
            blocks = [matrix_of([row[i] for row in pulled], output.shape, x) for i, x in enumerate(given)]
            rows.append(_as_given(several, tuple(blocks)))
    return _finished(_as_given(outputs_several, tuple(rows)), create_graph)


def _jacobian_by_columns(func: Callable[..., Any], inputs: Any, strict: bool) -> Any:
    several, given = _tensors(inputs, "inputs")
    with enable_grad():
        leaves = _prepared(given, False)
        outputs_several, outputs = _called(func, leaves, strict)
        dummies = tuple(zeros_like(output).requires_grad_() for output in outputs)
        pulled = _pulled(outputs, leaves, dummies, True, strict)
    blocks: list[list[Tensor]] = [[] for _ in outputs]
    for index, x in enumerate(given):
        columns = []
        for unit in unit_vectors(x):
            vectors = tuple(unit if i == index else zeros_like(each) for i, each in enumerate(given))
            columns.append(_pulled(pulled, dummies, vectors, False, strict))
        for which, output in enumerate(outputs):
            stacked = matrix_of([column[which] for column in columns], x.shape, output)
            order = (*range(x.ndim, x.ndim + output.ndim), *range(x.ndim))
            blocks[which].append(stacked.permute(order))
    rows = tuple(_as_given(several, tuple(block)) for block in blocks)
    return _finished(_as_given(outputs_several, rows), False)


def _scalar(func: Callable[..., Any]) -> Callable[..., Tensor]:
    """`func`, which must return a single tensor of one element."""

    def checked(*inputs: Tensor) -> Tensor:
        output = func(*inputs)
        if not isinstance(output, Tensor):
            raise RuntimeError(f"the function should return a single Tensor, and returned {type(output).__name__}")
        if output.numel() != 1:
            raise RuntimeError(
                f"the Tensor returned by the function should contain a single element, and has {output.numel()}"
            )
        return output.reshape(())

    return checked


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

    A tensor of shape `input.shape + input.shape`, or a tuple of tuples of them for a tuple of inputs. For the other
    arguments see `jacobian`, which is taken of the gradient.
    """
    several, _ = _tensors(inputs, "inputs")

    def gradient(*given: Tensor) -> Any:
        output = _scalar(func)(*given)
        if strict and not output.requires_grad:
            raise RuntimeError("the output of the function is independent of the inputs, which strict=True refuses")
        return _as_given(several, _pulled((output,), given, None, True, strict))

    return jacobian(gradient, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)


@argument_errors
def vhp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """(func(*inputs), the product of the vector `v`, of the shapes of the inputs, with the Hessian)."""
    with enable_grad():
        several, given = _tensors(inputs, "inputs")
        vectors = _vectors(v, given, "input")
        given = _prepared(given, create_graph)
        output = _scalar(func)(*given)
        _called(lambda *_: output, given, strict)
        gradients = _pulled((output,), given, None, True, strict)
        result = _pulled(gradients, given, vectors, create_graph, strict)
    return _finished(output, create_graph), _finished(_as_given(several, result), create_graph)


@argument_errors
def hvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """(func(*inputs), the product of the Hessian with the vector `v`), as `vhp`, by one more backward pass.

    The two products are equal where the Hessian is symmetric; `vhp` is quicker.
    """
    with enable_grad():
        several, given = _tensors(inputs, "inputs")
        vectors = _vectors(v, given, "input")
        given = _prepared(given, create_graph)
        output = _scalar(func)(*given)
        _called(lambda *_: output, given, strict)
        gradients = _pulled((output,), given, None, True, strict)
        dummies = tuple(zeros_like(each).requires_grad_() for each in given)
        pulled = _pulled(gradients, given, dummies, True, strict)
        result = _pulled(pulled, dummies, vectors, create_graph, strict)
    return _finished(output, create_graph), _finished(_as_given(several, result), create_graph)
