"""`torch.fx`: programs are not traced. What marks functions for a tracer is without effect."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = [
    "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "replace_pattern", "symbolic_trace", "wrap",
]  # fmt: skip


Argument = Target = Any


def wrap(fn_or_name: Any) -> Any:
    """Return `fn_or_name`: no tracer exists here."""
    return fn_or_name


def _refuse(name: str) -> NoReturn:
    raise RuntimeError(f"fx.{name}: programs are not traced; explain.explain(function, *args) says what a call runs")


class _Refused:
    def __init__(self, *args: Any, **named: Any) -> None:
        _refuse(type(self).__name__)


class Graph(_Refused):
    """Raises RuntimeError."""


class GraphModule(_Refused):
    """Raises RuntimeError."""


_CodeOnlyModule = GraphModule
_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"


def _copy_attr(from_module: Any, to_module: Any, target: str) -> NoReturn:
    _refuse("_copy_attr")


class Interpreter(_Refused):
    """Raises RuntimeError."""


class Node(_Refused):
    """Raises RuntimeError."""


class Proxy(_Refused):
    """Raises RuntimeError."""


class Tracer(_Refused):
    """Raises RuntimeError."""


def symbolic_trace(root: Any, concrete_args: Any = None) -> NoReturn:
    """Raises RuntimeError."""
    _refuse("symbolic_trace")


def replace_pattern(gm: Any, pattern: Any, replacement: Any) -> NoReturn:
    """Raises RuntimeError."""
    _refuse("replace_pattern")
