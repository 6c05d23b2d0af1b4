"""Errors about arguments.

Only booleans and numbers are checked before a call. If a call fails midway, its arguments are compared with the
annotations and defaults of the function and with Python's message, to name the invalid one.
"""

from __future__ import annotations

import dis
import functools
import inspect
import itertools
import re
import reprlib
import sys
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from typing import Any

import numpy as np

from . import instrumentation
from .parameter_types import describe, expected_types, fits
from .registry import registry
from .tensor import Tensor, is_foreign, not_a_tensor

_PACKAGE = __name__.partition(".")[0]

__tracebackhide__ = True  # pytest leaves out the frames of this module


def refuse_other_than_bool(name: str, argument: str, value: Any) -> None:
    """Raise TypeError unless the value is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        several = "; pass several dimensions as a tuple" if argument == "keepdim" else ""
        raise TypeError(f"{name}(): argument {argument!r} must be bool, not {type(value).__name__} {value!r}{several}")


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside this package that made the call."""
    frame, depth = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(f"{_PACKAGE}."):
        frame, depth = frame.f_back, depth + 1
    warnings.warn(message, category, stacklevel=depth)


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

    It names the first argument of `function` that is not of its annotated type, or that Python, C or NumPy could not
    use. Returns None if no argument is at fault, or if this package or the user's code raised `error` deliberately.
    """
    if getattr(error, "unexplained", False):
        error = error.__cause__  # type: ignore[assignment]
    if not _is_failure(error):
        return None
    given = list(given)
    expected = expected_types(function)
    for parameter, value in given:
        kind = expected.get(parameter, Any)
        if not fits(value, kind):
            return _not_a(name, parameter, describe(kind), value)
    return _explain_type(error, name, given) or _not_finite(error, name, given) or _too_large(error, name, given)


def unfit(error: Exception, name: str, arrays: Iterable[Any]) -> Exception | None:
    """A sentence about the input shapes for an operation that failed with `error`; None for other errors.

    The error is marked as unexplained, so that a calling function may still find the invalid argument.
    """
    if not isinstance(error, (ValueError, IndexError, TypeError)) or not _is_failure(error):
        return None
    shapes = " and ".join(str(list(np.shape(array))) for array in arrays if array is not None)
    text = f"{name}(): inputs of shape {shapes} do not fit each other or the other arguments: {error}"
    refusal = TypeError(text) if isinstance(error, TypeError) else RuntimeError(text)
    refusal.unexplained = True  # type: ignore[union-attr]
    return refusal


def _not_a(name: str, parameter: str, expectation: str, value: Any) -> TypeError:
    if is_foreign(value):
        return not_a_tensor(name, parameter, value, expectation)
    if "Tensor" in expectation and (isinstance(value, np.ndarray) or is_foreign(value)):
        return not_a_tensor(name, parameter, value, expectation)
    shape = f" of shape {list(value.shape)}" if isinstance(value, Tensor) and value.ndim else ""
    found = f"{type(value).__name__}{shape}" if shape else f"{type(value).__name__} {reprlib.repr(value)}"
    return TypeError(f"{name}(): argument {parameter!r} must be {expectation}, not {found}")


_NEEDS = (
    (r"as an integer|integer is required|indices must be|integer scalar", "int"),
    (r"not iterable|has no len|not subscriptable|unpack non-iterable|argument after \*", "a sequence"),
    (r"has no attribute '(?:_\w+|numpy|dtype|shape|ndim|numel|dim|detach|is_complex|requires_grad)'", "Tensor"),
    (r"supported between|unsupported operand|bad operand|multiply sequence", "number"),
    (r"real number|to a? ?number|string to float", "number"),
    (r"unhashable type", "a name"),
)
"""Patterns of messages of Python and NumPy, with the expectation about the argument that each implies."""


_KINDS = r"'([\w.]+)' object|'([\w.]+)' and|and '([\w.]+)'|(?:not|type:?) '?([\w.]+)'?|non-iterable ([\w.]+)"
"""Where a message of Python's names a type."""


def _explain_type(error: Exception, name: str, given: list[tuple[str, Any]]) -> TypeError | None:
    """The sentence about the argument whose type the message of `error` names."""
    text = str(error)
    needed = next((need for pattern, need in _NEEDS if re.search(pattern, text)), None)
    if needed is None:
        return None
    kinds = re.findall(_KINDS, text)
    mentioned = [kind.rpartition(".")[2] for group in kinds for kind in group if kind]
    mentioned += ["str", "bytes"] * ("string" in text) + ["float", "bool"] * (needed == "int")
    mentioned += ["tuple", "list"] * ("sequence" in text)
    for kind, (parameter, value) in itertools.product(mentioned, given):
        if type(value).__name__ == kind and not (needed == "Tensor" and isinstance(value, Tensor)):
            return _not_a(name, parameter, needed, value)
    for parameter, value in given:
        if isinstance(value, (tuple, list)) and any(type(each).__name__ in mentioned for each in value):
            return _not_a(name, parameter, f"a sequence of {needed}", value)
    return None


def _not_finite(error: Exception, name: str, given: list[tuple[str, Any]]) -> RuntimeError | None:
    """The sentence about infinity or NaN where an integer is expected."""
    if not re.search("cannot convert float (infinity|NaN)", str(error)):
        return None
    for parameter, value in given:
        for each in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(each, (float, np.floating)) and not np.isfinite(each):
                return RuntimeError(f"{name}(): argument {parameter!r} must be finite, got {value!r}")
    return None


_TOO_LARGE = re.compile(
    r"too big|too large|[Mm]aximum|negative dimensions|greater than|less than|non-negative|overflow"
)


def _too_large(error: Exception, name: str, given: list[tuple[str, Any]]) -> Exception | None:
    """The sentence about the largest integer, for an integer that C or NumPy rejected or an allocation that failed."""
    if re.search("maximum supported dimension|number of dimensions must be within", str(error)):
        return RuntimeError(f"{name}(): tensors have at most 64 dimensions, and the result would have more")
    refused = isinstance(error, OverflowError) or (isinstance(error, ValueError) and _TOO_LARGE.search(str(error)))
    if not refused and not (isinstance(error, MemoryError) and not str(error)):
        return None
    found = [(abs(each), parameter, value) for parameter, value in given for each in _integers(value)]
    if not found:
        return None
    size, parameter, value = max(found, key=lambda each: each[0])
    text = reprlib.repr(value)
    if size >= 2**63:
        kind = OverflowError if "to float" in str(error) else ValueError
        return kind(f"{name}(): argument {parameter!r} must hold integers of at most 64 bits, got {text}")
    return RuntimeError(
        f"{name}(): argument {parameter!r} must be smaller, got {text}; a result of this size cannot be computed"
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


def _frames(error: Exception) -> list[types.TracebackType]:
    """The stack frames that an error passed through, innermost last."""
    frames, traceback = [], error.__traceback__
    while traceback is not None:
        frames.append(traceback)
        traceback = traceback.tb_next
    return frames


def _module(traceback: types.TracebackType) -> str:
    return traceback.tb_frame.f_globals.get("__name__", "")


def is_deliberate(error: Exception) -> bool:
    """Whether a `raise` statement of this package made the error, as opposed to a failed operation."""
    last = _frames(error)[-1:]
    if not last or not _module(last[0]).startswith(f"{_PACKAGE}."):
        return False
    return dis.opname[last[0].tb_frame.f_code.co_code[last[0].tb_lasti]] == "RAISE_VARARGS"


_LIBRARIES = frozenset(("numpy", "numba", "scipy")) | sys.stdlib_module_names


def _is_failure(error: Exception) -> bool:
    """Whether an operation failed in this package or in a library that it called, not in the user's functions."""
    if is_deliberate(error):
        return False
    for traceback in reversed(_frames(error)):
        if (package := _module(traceback).partition(".")[0]) not in _LIBRARIES:
            return package == _PACKAGE
    return False
