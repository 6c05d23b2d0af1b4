"""In which file each public name is defined: the page for whoever looks for the code of what a user types."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import minitorch_backends as mt
from minitorch_backends.tensor.registry import functions, registry

_ROOT = Path(mt.__file__).parent
_PAGE = """\
# Where each name is defined

The file of a function, class or value that users type, under `minitorch_backends/` (`kernels/` is the folder of that
name at the top of the repository). In-place forms and methods of tensors that are functions too stand where the
function does; `dispatch/` makes them.

| name | file |
|---|---|
"""


def _file(namespace: str, name: str, value: Any) -> str:
    """The file of an op's declaration, else that which a value names as its own, else that of its namespace."""
    op = getattr(value, "op", None) if isinstance(value, FunctionType) else None
    value = value.fget if isinstance(value, property) else value
    own = str(getattr(inspect.unwrap(value) if callable(value) else value, "__module__", None))
    declared = registry.modules.get(getattr(op, "name", name)) or functions.modules.get(name)
    if declared and (op is not None or not own.startswith(mt.__name__)):
        own = declared
    module = next(each for each in (own, namespace) if getattr(sys.modules.get(each), "__file__", None))
    path = Path(str(sys.modules[module].__file__)).resolve()
    return path.relative_to(_ROOT.parent).as_posix().removeprefix(f"{_ROOT.name}/")


def text(sections: Iterator[tuple[str, dict[str, Any]]]) -> str:
    """The page, from the names of each namespace."""
    rows = {}
    for prefix, names in sections:
        namespace = mt.Tensor.__module__ if prefix == "mt.Tensor" else mt.__name__ + prefix.removeprefix("mt")
        for name, value in names.items():
            rows[f"{prefix}.{name}"] = _file(namespace, name, value)
    return _PAGE + "".join(f"| `{name}` | `{rows[name]}` |\n" for name in sorted(rows, key=str.lower))
