"""What to say of arguments of the wrong type or shape. Nothing is checked before a call; where one has failed in the
middle, its arguments are held against the annotations of the function."""

from __future__ import annotations

import dis
import inspect
import numbers
import reprlib
import sys
import types
import typing
import warnings
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from .tensor import Tensor

__all__ = ["FAILURES", "mismatched", "mistyped", "mistyped_call", "refuse_other_than_bool", "warn_caller"]

FAILURES = (TypeError, ValueError, AttributeError, KeyError, RecursionError)
"""What an argument of the wrong type brings about."""


def refuse_other_than_bool(name: str, argument: str, value: Any) -> None:
    """Raise TypeError for what is neither True nor False."""
    if not isinstance(value, (bool, np.bool_)):
        several = "; several dimensions are given as a tuple" if argument == "keepdim" else ""
        raise TypeError(f"{name}(): argument {argument!r} must be bool, not {type(value).__name__} {value!r}{several}")


def warn_caller(message: str) -> None:
    """Warn at the line outside this package that made the call."""
    frame, depth = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(f"{__package__}."):
        frame, depth = frame.f_back, depth + 1
    warnings.warn(message, UserWarning, stacklevel=depth)


def mistyped(
    error: Exception, name: str, function: Callable[..., Any], given: Iterable[tuple[str, Any]]
) -> TypeError | None:
    """What to raise for `error`: the sentence that names the first argument of `function` that is not of its annotated
    type. None where all are, and where the package raised `error` itself, which says more.
    """
    if _is_deliberate(error):
        return None
    try:
        expected = typing.get_type_hints(inspect.unwrap(function))
    except NameError:  # one that only type checkers import
        return None
    for parameter, value in given:
        kind = expected.get(parameter, Any)
        if not _fits(value, kind):
            found = f"{type(value).__name__} {reprlib.repr(value)}"
            return TypeError(f"{name}(): argument {parameter!r} must be {_described(kind)}, not {found}")
    return None


def mistyped_call(
    error: Exception, name: str, function: Callable[..., Any], args: tuple, named: dict[str, Any]
) -> TypeError | None:
    """`mistyped` for the arguments of a call."""
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*args, **named).arguments
    except TypeError:  # which says by itself what is wrong
        return None
    given: list[tuple[str, Any]] = []
    for parameter, value in bound.items():
        several = signature.parameters[parameter].kind is inspect.Parameter.VAR_POSITIONAL
        given += [(parameter, each) for each in value] if several else [(parameter, value)]
    return mistyped(error, name, function, given)


def mismatched(name: str, arrays: Iterable[Any]) -> RuntimeError | None:
    """torch's error for arrays that do not broadcast, with the sizes; None for those that do."""
    shapes = [list(np.shape(array)) for array in arrays if array is not None]
    for from_end, sizes in enumerate(zip_longest(*(shape[::-1] for shape in shapes), fillvalue=1)):
        different = [size for size in dict.fromkeys(sizes) if size != 1]
        if len(different) > 1:
            return RuntimeError(
                f"{name}(): The size of tensor a ({different[0]}) must match the size of tensor b ({different[1]}) at "
                f"non-singleton dimension {max(map(len, shapes)) - 1 - from_end}; the shapes "
                f"{' and '.join(map(str, shapes))} do not broadcast: from the last on, sizes must be equal or 1"
            )
    return None


def _is_deliberate(error: Exception) -> bool:
    """Whether a `raise` of this package made the error, and not an operation that failed."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None or not traceback.tb_frame.f_globals.get("__name__", "").startswith(f"{__package__}."):
        return False
    return dis.opname[traceback.tb_frame.f_code.co_code[traceback.tb_lasti]] == "RAISE_VARARGS"


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value is of an annotated type. Types that cannot be decided here fit."""
    origin, members = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return any(_fits(value, member) for member in members)
    if origin in (tuple, list, Sequence):
        return isinstance(value, (tuple, list)) and all(_fits(each, members[0]) for each in value if members)
    if kind is int:
        return not isinstance(value, float) and hasattr(value, "__index__")
    if kind is float:
        return isinstance(value, (numbers.Real, Tensor)) or hasattr(value, "__float__")
    if kind in (bool, str, type(None), Tensor):
        return isinstance(value, kind)
    return True


_WORDS = {Tensor: "Tensor", int: "int", float: "number", type(None): "None"}


def _described(kind: Any) -> str:
    origin, members = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(map(_described, members))
    if origin in (tuple, list, Sequence):
        return f"a sequence of ({_described(members[0])})" if members else "a sequence"
    return _WORDS.get(kind) or str(getattr(kind, "__name__", kind))
