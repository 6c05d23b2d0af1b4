"""Overloads: NumPy's and torch's other names of arguments, and positional orders that torch deprecates."""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Collection
from typing import Any

from ..tensor.call_errors import warn_caller
from ..tensor.tensor import Tensor

NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other"}
"""NumPy's names of arguments, which torch accepts as well."""


class Overloads:
    """The accepted forms of one function's arguments.

    Attributes:
        variadic: the parameter that takes all remaining positional arguments, or None.
        known: the names of the other parameters.
        aliases: other names mapped to parameters; NumPy's are added if the function has torch's.
        most: the maximum number of positional arguments of the function itself.
    """

    def __init__(
        self, parameters: Collection[inspect.Parameter], aliases: dict[str, str] | None, deprecated: tuple[str, ...]
    ) -> None:
        self.variadic = next((each.name for each in parameters if each.kind is each.VAR_POSITIONAL), None)
        self.known = frozenset(each.name for each in parameters) - {self.variadic}
        positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
        self.most = len(positional) if self.variadic is None else sys.maxsize
        self.aliases = aliases or {}
        self._deprecated = {len(names): names for names in (text.split(", ") for text in deprecated)}
        meant = itertools.chain(self.aliases.values(), *self._deprecated.values())
        unknown = set(meant) - self.known - {self.variadic}
        if unknown:
            raise TypeError(
                f"overloads {sorted(unknown)} do not match a parameter; the parameters are {sorted(self.known)}"
            )

    def resolve(self, name: str, args: tuple, named: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """Convert a call's arguments to the function's own form. Unknown names remain, and the function rejects
        them."""
        order = self._deprecated.get(len(args), []) if len(args) > self.most else []
        if order and named.keys().isdisjoint(order):
            if order[1] == "input" and isinstance(args[0], Tensor):  # of a method, whose first argument is the tensor
                args = (args[1], args[0], *args[2:])
            scalars = ", ".join(each for each in order if each in ("alpha", "beta", "value"))
            warn_caller(f"{name}({', '.join(order)}) is deprecated; pass {scalars} by keyword")
            args, named = (), dict(zip(order, args, strict=True)) | named
        renamed = {}
        for given, value in named.items():
            other = self.aliases.get(given) or NUMPY_NAMES.get(given, given)
            takes = other in self.known or other == self.variadic
            target = other if given not in self.known and takes and other not in named else given
            if target == self.variadic:
                args = (*args, value)
            else:
                renamed[target] = value
        return args, renamed
