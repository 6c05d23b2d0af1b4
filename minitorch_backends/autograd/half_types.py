"""Half types: compute in float32 and round once, also in gradients and in functions of several ops.

A gradient rule of several steps in a half type would round after each step, and could overflow although the gradient
itself is representable: the rule of `2 / x` squares `1 / x`. Calls on half types are therefore recorded with a variant
of their op. Its rules receive the gradient and the saved inputs in float32. A result that a rule uses is recomputed in
float32 from the inputs, which the node also keeps. If an input was overwritten since, the rule uses the saved result.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from ..backends.operands import Roles
from ..kernels.arrays.elementwise import is_half
from ..tensor.dtypes import FLOATING, DType, float32, result_dtype
from ..tensor.tensor import Tensor
from .nodes import Node, Rule, unpack


def identity(g: Tensor) -> Tensor:
    """Return the gradient unchanged: the rule of an op that copies values and needs no float32."""
    return g


def widen(value: Any) -> Any:
    """Widen tensors of half types to float32, also in lists and tuples. Other values are unchanged."""
    if isinstance(value, Tensor):
        return value.float() if is_half(value._array.dtype) else value
    return type(value)(map(widen, value)) if type(value) in (list, tuple) else value


def with_wide_rules(op: Any) -> Any:
    """The variant of an op that records calls on half types."""
    variant = copy.copy(op)
    vars(variant).pop("propagate", None)  # compiled from the rules of `op`
    rules = {id(rule): rule and _wide(op, rule) for rule in op.rules}
    variant.rules = tuple(rules[id(rule)] for rule in op.rules)
    variant.half_variant, variant.recomputed = None, functools.partial(_recompute, op)
    variant.make_plans()
    return variant


def _wide(op: Any, rule: Rule) -> Rule:
    """Wrap a rule to apply it in float32 to arguments of half types."""
    function, arguments = rule
    if function is identity:
        return rule
    results = {name: index for name, source, index in arguments if source == "result"}
    given = {name: (source, index) for name, source, index in arguments if name != "out" and name not in results}
    if len(given) < len(arguments):
        given["out"] = "recomputed", 0

    def wide(*values: Any) -> Any:
        found = dict(zip(given, map(widen, values), strict=True))
        given_precision = found.get("precision")
        if type(given_precision) is Roles:
            found["precision"] = given_precision._replace(recorded="ieee")
        else:
            found |= _PRECISION
        found |= {name: found["out"][index] for name, index in results.items()}
        return function(*(found[name] for name, _, _ in arguments))

    return wide, tuple((name, *source) for name, source in given.items())


_PRECISION = {"precision": "ieee"}
"""The precision of the products in rules for half types: flags act on float32 inputs only."""


def _recompute(op: Any, node: Node, create_graph: bool) -> Any:
    """Recompute the result of a call on half types in float32."""
    try:
        found = {name: widen(unpack(node, name, create_graph)) for name in op.inputs} | node.metadata
    except RuntimeError:  # input overwritten, or node released
        return widen(unpack(node, "out", create_graph))
    found |= _PRECISION if op.product is not None else {}
    by_name = {name: found[name] for name in op.known - set(op.order)}
    return op.public(*(found[name] for name in op.order), **by_name)


def product_precision(input: Tensor) -> str | None:
    """The precision of float32 products computed for a half type: IEEE, since flags act on float32 inputs only. None
    for other types, which use the flags."""
    return "ieee" if is_half(input._array.dtype) else None


def rounding_once(function: Callable[..., Any], typed_by: tuple[str, ...] = ()) -> Callable[..., Any]:
    """Decorate a function of tensors: compute half types in float32, and round the results once.

    The results get the dtype to which the arguments promote, or those that `typed_by` names.
    """
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
        return _narrow(function(*widen(args), **{name: widen(each) for name, each in named.items()}), dtype)

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
    """Round the float32 tensors of a result to a half type."""
    if isinstance(out, tuple):
        found = [_narrow(each, dtype) for each in out]
        return type(out)(*found) if hasattr(out, "_fields") else tuple(found)
    if isinstance(out, Tensor) and out.dtype is float32 and dtype is not None and dtype.itemsize == 2:
        return out.to(dtype)
    return out
