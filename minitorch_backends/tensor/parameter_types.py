"""Annotated types of parameters, and checks of values against them."""

from __future__ import annotations

import functools
import inspect
import operator
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .tensor import Tensor

NUMBERS: dict[Any, tuple[type, ...]] = {
    "float": (float, int),
    "complex": (float, int, complex),
    "float | None": (float, int, type(None)),
    "complex | None": (float, int, complex, type(None)),
}
"""Annotations of parameters that take one number, and the types whose values need no check."""

SWITCHES: dict[Any, tuple[type, ...]] = {"bool": (bool,), "bool | None": (bool, type(None))}
"""The same for parameters that take True or False."""

INTEGERS: dict[Any, tuple[type, ...]] = {"int": (float, int), "int | None": (float, int, type(None))}
"""The same for parameters of constructors, where torch accepts floats as well."""


_NAMES = {"Sequence": Sequence, "Tensor": Tensor}
"""Names in the annotations of ops, resolved to the types that users pass. An op's module may not import either."""


def numeric_parameters(
    parameters: Iterable[inspect.Parameter], kinds: dict[Any, tuple[type, ...]] = NUMBERS
) -> dict[str, tuple[type, ...]]:
    """The parameters annotated as one number, and the types whose values need no check."""
    return {each.name: kinds[each.annotation] for each in parameters if each.annotation in kinds}


@functools.cache
def expected_types(function: Callable[..., Any]) -> dict[str, Any]:
    """The types of the parameters: the annotation, or the type of a default that is a number or text."""
    function = inspect.unwrap(function)
    try:
        hints = typing.get_type_hints(function, localns=_NAMES)
    except NameError:  # a name that only type checkers import
        hints = {}
    kinds = {bool: bool, int: complex, float: complex, str: str}
    implied = {name: kinds.get(type(each.default)) for name, each in inspect.signature(function).parameters.items()}
    found = implied | {name: kind for name, kind in hints.items() if kind is not Any}
    return {name: kind for name, kind in found.items() if kind is not None}


def fits(value: Any, kind: Any) -> bool:
    """Whether a value matches an annotated type. Undecidable types match."""
    origin, members = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return any(fits(value, member) for member in members)
    if origin in (tuple, list, Sequence):
        return isinstance(value, (tuple, list)) and all(fits(each, members[0]) for each in value if members)
    if kind in _CONVERSIONS:
        return (
            not isinstance(value, (str, bytes))
            and not getattr(value, "ndim", 0)
            and _converts(value, _CONVERSIONS[kind])
        )
    if kind is bool:
        return isinstance(value, (bool, np.bool_))
    if kind is np.ndarray:  # `Array`
        return isinstance(value, Tensor)
    if origin is Callable:
        return callable(value)
    if origin is Iterable:
        return isinstance(value, Iterable) and (
            not isinstance(value, Sequence) or all(fits(each, members[0]) for each in value)
        )
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, Mapping)
    return isinstance(value, kind) if isinstance(kind, type) and kind is not Any else True


_CONVERSIONS: dict[Any, Callable[[Any], Any]] = {int: operator.index, float: float, complex: complex}


def _converts(value: Any, conversion: Callable[[Any], Any]) -> bool:
    """Whether a value is a single number of a type."""
    try:
        conversion(value)
    except OverflowError:
        return True
    except Exception:
        return False
    return True


_WORDS = {Tensor: "Tensor", np.ndarray: "Tensor", float: "number", complex: "number", type(None): "None"}


def describe(kind: Any) -> str:
    """A description of an annotated type for messages."""
    origin, members = typing.get_origin(kind), typing.get_args(kind)
    if origin is Callable:
        return "callable"
    if origin in (types.UnionType, typing.Union):
        return " or ".join(map(describe, members))
    if origin in (tuple, list, Sequence, Iterable):
        each = describe(members[0]) if members else ""
        return f"a sequence of {f'({each})' if ' ' in each else each}" if members else "a sequence"
    return _WORDS.get(kind) or str(getattr(kind, "__name__", kind))
