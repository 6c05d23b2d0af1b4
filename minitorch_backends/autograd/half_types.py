"""Half types: computed in float32 and rounded once, also in gradients and in functions that are made of several ops.

A gradient rule of several steps that ran on half types would round after each of them, and overflow where the gradient
itself fits: that of `2 / x` squares `1 / x` on the way. So calls on half types are recorded with a variant of their op.
Its rules are given the gradient and the saved inputs in float32. A result that a rule asks for is computed again, in
float32, from the inputs, which the node keeps too. Where one was written to since, the saved result is good enough.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from ..kernels.elementwise import is_half
from ..tensor.dtypes import FLOATING, DType, float32, result_dtype
from ..tensor.tensor import Tensor
from .nodes import Node, unpack
from .rules import Rule

__all__ = ["product_precision", "rounding_once", "unchanged", "widened", "with_wide_rules"]


def unchanged(g: Tensor) -> Tensor:
    """Return the gradient as it is: the rule of an op that copies values, which needs no float32."""
    return g


def widened(value: Any) -> Any:
    """A tensor of a half type in float32, also in lists and tuples; everything else as it is."""
    if isinstance(value, Tensor):
        return value.float() if is_half(value._array.dtype) else value
    return type(value)(map(widened, value)) if type(value) in (list, tuple) else value


def with_wide_rules(op: Any) -> Any:
    """The variant of an op that records calls on half types."""
    variant = copy.copy(op)
    vars(variant).pop("propagate", None)  # compiled from the rules
    rules = {id(rule): rule and _wide(op, rule) for rule in op.rules}
    variant.rules = tuple(rules[id(rule)] for rule in op.rules)
    variant.half_variant, variant.recomputed = None, functools.partial(_recompute, op)
    variant.make_plans()
    return variant


def _wide(op: Any, rule: Rule) -> Rule:
    """A rule that is given half types, and applies `rule` to them in float32."""
    function, arguments = rule
    if function is unchanged:
        return rule
    results = {name: index for name, source, index in arguments if source == "result"}
    given = {name: (source, index) for name, source, index in arguments if name != "out" and name not in results}
    if len(given) < len(arguments):
        given["out"] = "recomputed", 0

    def wide(*values: Any) -> Any:
        found = dict(zip(given, map(widened, values), strict=True)) | _PRECISION
        found |= {name: found["out"][index] for name, index in results.items()}
        return function(*(found[name] for name, _, _ in arguments))

    return wide, tuple((name, *source) for name, source in given.items())


_PRECISION = {"precision": "ieee"}
"""Of products that rules make of half types: flags act on those of float32."""


def _recompute(op: Any, node: Node, create_graph: bool) -> Any:
    """The result of a call on half types, in float32."""
    try:
        found = {name: widened(unpack(node, name, create_graph)) for name in op.inputs} | node.metadata
    except RuntimeError:  # for an input that was written to, or of a node that is released, as its result is then
        return widened(unpack(node, "out", create_graph))
    found |= _PRECISION if op.product is not None else {}
    by_name = {name: found[name] for name in op.known - set(op.order)}
    return op.public(*(found[name] for name in op.order), **by_name)


def product_precision(input: Tensor) -> str | None:
    """The precision of products that are made in float32 for a half type: full, as flags act on float32 only. None, for
    that of the flags, for other types."""
    return "ieee" if is_half(input._array.dtype) else None


def rounding_once(function: Callable[..., Any], typed_by: tuple[str, ...] = ()) -> Callable[..., Any]:
    """A function of tensors that computes half types in float32, and rounds its results to the type to which its
    arguments promote, or those that `typed_by` names."""
    names = tuple(inspect.signature(function).parameters)

    @functools.wraps(function)
    def in_float32(*args: Any, **named: Any) -> Any:
        for each in (*args, *named.values()):
            if isinstance(each, Tensor) and is_half(each._array.dtype):
                break
        else:
            return function(*args, **named)
        given = {**dict(zip(names, args, strict=False)), **named}
        dtype = _result_dtype([given[name] for name in typed_by or given if name in given])
        return _narrow(function(*widened(args), **{name: widened(each) for name, each in named.items()}), dtype)

    return in_float32


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif type(value) in (list, tuple):
        for each in value:
            yield from _tensors(each)


def _result_dtype(values: list[Any]) -> DType | None:
    groups: tuple[list[DType], list[DType]] = ([], [])
    for each in _tensors(values):
        if each.dtype.category >= FLOATING:
            groups[each.ndim == 0].append(each.dtype)
    return result_dtype(*map(tuple, groups), ())


def _narrow(out: Any, dtype: DType | None) -> Any:
    """The float32 tensors of a result in a half type."""
    if isinstance(out, tuple):
        found = [_narrow(each, dtype) for each in out]
        return type(out)(*found) if hasattr(out, "_fields") else tuple(found)
    if isinstance(out, Tensor) and out.dtype is float32 and dtype is not None and dtype.itemsize == 2:
        return out.to(dtype)
    return out
