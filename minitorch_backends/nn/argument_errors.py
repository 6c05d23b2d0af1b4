"""Errors of classes (modules, optimizers, schedules) that name the invalid argument."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any, TypeVar

from ..tensor.call_errors import INTEGERS, NUMBERS, argument_errors, call_error, numeric_parameters, scalar

_PACKAGE = __name__.partition(".")[0]
_Kind = TypeVar("_Kind", bound=type)


def name_bad_arguments(kind: type, guard: Callable[..., Any] = lambda constructor: constructor) -> None:
    """Decorate the constructor of a class by `guard`, so that its errors name the invalid argument.

    Arguments annotated as numbers are checked before the constructor runs, since many are first used much later.
    """
    constructor = vars(kind).get("__init__")
    if constructor is None or not kind.__module__.startswith(f"{_PACKAGE}."):
        return
    constructor = guard(constructor)
    parameters = inspect.signature(constructor).parameters
    order, numeric = tuple(parameters)[1:], numeric_parameters(parameters.values(), NUMBERS | INTEGERS)

    @functools.wraps(constructor)
    def public(self: Any, /, *args: Any, **named: Any) -> None:
        given = {**dict(zip(order, args, strict=False)), **named}
        for name, kinds in numeric.items():
            if name in given and type(given[name]) not in kinds:
                scalar(type(self).__name__, name, given[name], kinds)
        try:
            constructor(self, *args, **named)
        except Exception as error:
            if mistake := call_error(error, type(self).__name__, constructor, (self, *args), named):
                raise mistake from error
            raise

    kind.__init__ = public  # type: ignore[misc]


def name_bad_arguments_of_methods(kind: _Kind) -> _Kind:
    """Decorate a class: errors of its public methods, except `forward`, name the invalid argument."""
    for name, method in list(vars(kind).items()):
        if isinstance(method, types.FunctionType) and not name.startswith("_") and name != "forward":
            setattr(kind, name, argument_errors(method))
    return kind
