"""The declaration of `nn.functional`: a function of this decorator is public there, with torch's arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..autograd.modes import derives_from
from ..autograd.mutation import refuse_unwritable
from ..kernels.runtime.context import warn_caller
from ..tensor.call_errors import argument_errors, refuse_other_than_tensor
from ..tensor.registry import functions
from ..tensor.tensor import Tensor

FUNCTIONAL = f"{__name__.partition('.')[0]}.nn.functional"
"""The module where pickle finds the functions made here."""


def functional(
    function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    inplace: bool | str = False,
    positional: str | None = None,
    implicit_dim: bool = False,
    with_indices: bool = False,
) -> Callable[..., Any]:
    """Make an op public in `nn.functional`; used as `@functional` above its declaration.

    Arguments:
        name: its name there, if different.
        inplace: True adds torch's last argument `inplace`; "both" also adds the function `name_`.
        positional: "options" for a loss whose keywords may be positional too, "averaging" for one that also has torch's
            old arguments `size_average` and `reduce`.
        implicit_dim: `dim` may be omitted, which torch deprecates.
        with_indices: True adds the function `name_with_indices`, which always returns where the largest values are.
    """

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        public = function
        if inplace:
            public = _writable(public)
        if positional:
            public = _by_position(public, averaging=positional == "averaging")
        if implicit_dim:
            public = _with_implicit_dim(public)
        found = {name or function.__name__: public}
        if inplace == "both":
            found[f"{function.__name__}_"] = _in_place(public)
        if with_indices:
            found[f"{function.__name__}_with_indices"] = _with_indices(public)
        for each, value in found.items():
            functions.declare(each, value, function.__module__)
        return function

    return declare if function is None else declare(function)


_BY_POSITION = inspect.Parameter.POSITIONAL_OR_KEYWORD


def _writable(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`function` with torch's last argument `inplace`: True writes the result into the input, and returns that.

    The function then runs on a copy if it is recorded, since its gradient may need the values that are overwritten.
    """
    signature = inspect.signature(function)
    count, inplace = len(signature.parameters), inspect.Parameter("inplace", _BY_POSITION, default=False)

    @functools.wraps(function)
    def call(input: Tensor, *args: Any, inplace: bool = False, **named: Any) -> Tensor:
        if len(args) == count:
            *args, inplace = args  # type: ignore[assignment]
        if not inplace:
            return function(input, *args, **named)
        refuse_other_than_tensor(function.__name__, "input", input)
        refuse_unwritable(function.__name__, input)
        if "out" in named:
            raise TypeError(f"{function.__name__}(): inplace and out name two places for the result; expected one")
        return input.copy_(function(input.clone() if derives_from(input) else input, *args, **named))

    call.__module__ = FUNCTIONAL
    call.__signature__ = signature.replace(parameters=[*signature.parameters.values(), inplace])  # type: ignore[attr-defined]
    return argument_errors(call)


def _in_place(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The form `name_` of a function that takes `inplace`, which is True here."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(input: Tensor, *args: Any, **named: Any) -> Tensor:
        return function(input, *args, inplace=True, **named)

    call.__name__ = call.__qualname__ = function.__name__ + "_"
    call.__doc__ = f"`{function.__name__}`, written into the input."
    parameters = [each for each in signature.parameters.values() if each.name != "inplace"]
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return call


def _with_indices(function: Callable[..., Any]) -> Callable[..., Any]:
    """The form `name_with_indices` of a function that takes `return_indices`, which is True here."""
    name = function.__name__

    def call(input: Tensor, *args: Any, **named: Any) -> Any:
        return function(input, *args, **named | {"return_indices": True})

    functools.update_wrapper(call, function, assigned=())
    call.__name__, call.__qualname__, call.__module__ = f"{name}_with_indices", f"{name}_with_indices", FUNCTIONAL
    call.__doc__ = f"`{name}` with `return_indices=True`."
    return argument_errors(call)


def reduction_of(size_average: bool | None, reduce: bool | None) -> str:
    """The `reduction` that torch's deprecated arguments of losses stand for; None stands for True."""
    reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
    warn_caller(f"size_average and reduce args will be deprecated, please use reduction={reduction!r} instead.")
    return reduction


_AVERAGING = [inspect.Parameter(name, _BY_POSITION, default=None) for name in ("size_average", "reduce")]


def _by_position(function: Callable[..., Tensor], *, averaging: bool = True) -> Callable[..., Tensor]:
    """Allow every argument of a loss by position, in torch's order.

    `size_average` comes before the first keyword-only argument, and `reduce` before `reduction`, which replaced the
    two.
    """
    signature = inspect.signature(function)
    given = list(signature.parameters.values())
    plain = [each for each in given if each.kind is _BY_POSITION]
    rest = [each.replace(kind=_BY_POSITION) for each in given[len(plain) :]]
    if averaging:
        reduction = [each.name for each in rest].index("reduction")
        rest = [_AVERAGING[0], *rest[:reduction], _AVERAGING[1], *rest[reduction:]]
    names, count = [each.name for each in (*plain, *rest)], len(plain)

    @functools.wraps(function)
    def call(*args: Any, size_average: bool | None = None, reduce: bool | None = None, **named: Any) -> Tensor:
        if len(args) > len(names) or not named.keys().isdisjoint(names[count : len(args)]):
            return function(*args, **named)  # the function rejects them
        if len(args) > count:
            named |= dict(zip(names[count:], args[count:], strict=False))
            size_average, reduce = named.pop("size_average", size_average), named.pop("reduce", reduce)
        if size_average is not None or reduce is not None:
            named["reduction"] = reduction_of(size_average, reduce)
        return function(*args[:count], **named)

    call.__module__ = FUNCTIONAL
    call.__signature__ = signature.replace(parameters=[*plain, *rest])  # type: ignore[attr-defined]
    return call


def _with_implicit_dim(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Add torch's deprecated default of `dim` to a softmax: 0 for tensors of 0, 1 and 3 dimensions, otherwise 1.

    torch's `_stacklevel` has no effect: the warning always points to the caller's line.
    """

    def call(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
        if dim is None:
            warn_caller(f"{function.__name__}(): the implicit choice of dim is deprecated; pass dim")
            dim = 0 if input.ndim in (0, 1, 3) else 1
        return function(input, dim, dtype)

    call.__name__ = call.__qualname__ = function.__name__
    call.__doc__, call.__module__ = function.__doc__, FUNCTIONAL
    return argument_errors(call)
