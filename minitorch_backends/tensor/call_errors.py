"""Errors about arguments.

Only booleans and numbers are checked before a call. If a call fails midway, its arguments are compared with the
annotations and defaults of the function, to name the invalid one.
"""

from __future__ import annotations

import functools
import inspect
import operator
import re
import reprlib
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dis import opname
from itertools import zip_longest
from types import TracebackType
from typing import Any

import numpy as np

from . import instrumentation
from .registry import registry
from .tensor import Tensor, is_foreign, not_a_tensor

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


_PACKAGE = __name__.partition(".")[0]

__tracebackhide__ = True  # pytest leaves out the frames of this module


def refuse_other_than_bool(name: str, argument: str, value: Any) -> None:
    """Raise TypeError unless the value is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        several = "; pass several dimensions as a tuple" if argument == "keepdim" else ""
        raise TypeError(f"{name}(): argument {argument!r} must be bool, not {type(value).__name__} {value!r}{several}")


def refuse_other_than_tensor(name: str, argument: str, value: Any) -> None:
    """Raise TypeError unless the value is a Tensor."""
    if not isinstance(value, Tensor):
        raise _not_a(name, argument, "Tensor", value)


def scalar(name: str, argument: str, value: Any, kinds: tuple[type, ...]) -> Any:
    """The value of a boolean or numeric argument; a 0-dim tensor gives its element.

    Raises TypeError for other values, and for complex numbers unless `kinds` includes complex.
    """
    if bool in kinds:
        refuse_other_than_bool(name, argument, value)
        return bool(value)
    if value is None or not fits(value, complex if complex in kinds else float):
        raise _not_a(name, argument, "number", value)
    return value.item() if isinstance(value, (Tensor, np.ndarray)) else value


def name_caller(error: Exception, name: str, function: Callable[..., Any]) -> None:
    """Make a message name the function that the user called instead of an inner op.

    It applies to an inner op that users cannot call, or whose argument the function shares.
    """
    text = error.args[0] if error.args else None
    found = re.match(r"(\w+)\(\)(?:: argument '(\w+)')?", text) if isinstance(text, str) else None
    inner = registry.get(found[1]) if found else None
    if (
        found
        and inner
        and (found[2] in inspect.signature(function).parameters or not _is_public(inner.public, found[1]))
    ):
        error.args = (f"{name}{str(text)[found.end(1) :]}", *error.args[1:])


def _is_public(function: Callable[..., Any], name: str) -> bool:
    """Whether users can call a declared function, as a method or from its module."""
    return hasattr(Tensor, name) or name in getattr(sys.modules[function.__module__], "__all__", [name])


def argument_errors(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a public function so that its errors name the invalid argument, as those of ops and composites do."""

    @functools.wraps(function)
    def public(*args: Any, **named: Any) -> Any:
        try:
            return function(*args, **named)
        except instrumentation.ValuesNeeded as error:
            return instrumentation.values_needed(error, public, args, named)
        except Exception as error:
            if mistake := call_error(error, public.__name__, function, args, named):
                raise mistake from error
            name_caller(error, public.__name__, function)
            raise

    return public


def install(**methods: Callable[..., Any]) -> None:
    """Make functions methods of `Tensor` whose errors name the invalid argument."""
    for name, function in methods.items():
        method = argument_errors(function)
        method.__name__ = method.__qualname__ = name
        setattr(Tensor, name, method)


def call_error(
    error: Exception, name: str, function: Callable[..., Any], args: tuple, named: dict[str, Any]
) -> Exception | None:
    """`explain` for the arguments of a call."""
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*args, **named).arguments
    except TypeError:  # whose message is already complete
        return None
    given: list[tuple[str, Any]] = []
    for parameter, value in bound.items():
        kind = signature.parameters[parameter].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            given += value.items()
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            given += [(parameter, each) for each in value]
        else:
            given.append((parameter, value))
    return explain(error, name, function, given)


def explain(
    error: Exception, name: str, function: Callable[..., Any], given: Iterable[tuple[str, Any]]
) -> Exception | None:
    """Return the error to raise for `error`.

    It names the first argument of `function` that is not of its annotated type, or the one with the largest integer if
    memory or C's integers did not suffice. Returns None if all arguments have their types, or if this package or the
    user's code raised `error` deliberately.
    """
    if not isinstance(error, _OF_ARGUMENTS) or not _is_failure(error):
        return None
    given = list(given)
    expected = expected_types(function)
    for parameter, value in given:
        kind = expected.get(parameter, Any)
        if not fits(value, kind):
            return _not_a(name, parameter, describe(kind), value)
    return _too_large(error, name, given)


def _not_a(name: str, parameter: str, expectation: str, value: Any) -> TypeError:
    if is_foreign(value) or ("Tensor" in expectation and isinstance(value, np.ndarray)):
        return not_a_tensor(name, parameter, value, expectation)
    shape = f" of shape {list(value.shape)}" if isinstance(value, Tensor) and value.ndim else ""
    found = f"{type(value).__name__}{shape}" if shape else f"{type(value).__name__} {reprlib.repr(value)}"
    return TypeError(f"{name}(): argument {parameter!r} must be {expectation}, not {found}")


_FEW = 1 << 10
"""An integer below it is not why memory did not suffice."""


def _too_large(error: Exception, name: str, given: list[tuple[str, Any]]) -> Exception | None:
    """The sentence about too many dimensions, or about the largest integer if C or memory rejected it."""
    if re.search("maximum supported dimension|number of dimensions must be within", str(error)):
        return RuntimeError(f"{name}(): tensors have at most 64 dimensions, and the result would have more")
    found = [(abs(each), parameter, value) for parameter, value in given for each in _integers(value)]
    size, parameter, value = max(found, key=lambda each: each[0], default=(0, "", None))
    if isinstance(error, MemoryError) and (str(error) or size < _FEW):
        return None
    if size >= 2**63:
        kind = OverflowError if "to float" in str(error) else ValueError
        text = reprlib.repr(value)
        return kind(f"{name}(): argument {parameter!r} must hold integers of at most 64 bits, got {text}")
    if not found or not isinstance(error, (OverflowError, MemoryError)):
        return None
    return RuntimeError(
        f"{name}(): argument {parameter!r} must be smaller, got {reprlib.repr(value)}; a result of this size cannot be "
        "computed"
    )


def _integers(value: Any) -> Iterator[int]:
    """The integers in an argument or in a sequence."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        yield int(value)
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _integers(each)


def broadcast_error(name: str, arrays: Iterable[Any]) -> RuntimeError | None:
    """torch's error for arrays that do not broadcast, with the sizes; None if they broadcast."""
    shapes = [list(np.shape(array)) for array in arrays if array is not None]
    for from_end, sizes in enumerate(zip_longest(*(shape[::-1] for shape in shapes), fillvalue=1)):
        different = [size for size in dict.fromkeys(sizes) if size != 1]
        if len(different) > 1:
            return RuntimeError(
                f"{name}(): The size of tensor a ({different[0]}) must match the size of tensor b "
                f"({different[1]}) at non-singleton dimension {max(map(len, shapes)) - 1 - from_end}; the shapes "
                f"{' and '.join(map(str, shapes))} do not broadcast: aligned at the last dimension, sizes must "
                "be equal or 1"
            )
    return None


_LIBRARIES = frozenset(("numpy", "numba", "scipy")) | sys.stdlib_module_names

_OF_ARGUMENTS = (TypeError, AttributeError, ValueError, LookupError, OverflowError, MemoryError, Warning)
"""The errors of operations on arguments of other types than the annotated ones."""


def is_deliberate(error: Exception) -> bool:
    """Whether a `raise` statement of this package made the error, as opposed to a failed operation."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None or _package(traceback) != _PACKAGE:
        return False
    return opname[traceback.tb_frame.f_code.co_code[traceback.tb_lasti]] == "RAISE_VARARGS"


def _package(traceback: TracebackType) -> str:
    return traceback.tb_frame.f_globals.get("__name__", "").partition(".")[0]


def _is_failure(error: Exception) -> bool:
    """Whether an operation failed in this package or in a library that it called, not in the user's functions."""
    inner, traceback = "", error.__traceback__
    while traceback is not None:
        inner = inner if (package := _package(traceback)) in _LIBRARIES else package
        traceback = traceback.tb_next
    return inner == _PACKAGE and not is_deliberate(error)
