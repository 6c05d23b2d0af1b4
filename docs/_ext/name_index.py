"""In which file each public name is defined: the page for whoever looks for the code of what a user types."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import minitorch_backends as mt

_ROOT = Path(mt.__file__).parent
_PAGE = """\
# Where each name is defined

The file of a function, class or value that users type, under `minitorch_backends/` (`kernels/` is the folder of that
name at the top of the repository). In-place forms and methods of tensors that are functions too stand where the
function does; `dispatch/` makes them.

| name | file |
|---|---|
"""


@functools.cache
def _definitions(path: str) -> frozenset[str]:
    """The names that a file defines at its top, by def, class or assignment."""
    found = set()
    for node in ast.parse(Path(path).read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        targets = [*getattr(node, "targets", ()), *filter(None, [getattr(node, "target", None)])]
        found |= {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
    return frozenset(found)


@functools.cache
def _modules() -> tuple[Any, ...]:
    own = [each for name, each in sorted(sys.modules.items()) if name.startswith(f"{mt.__name__}.")]
    return tuple(each for each in own if getattr(each, "__file__", None))


def file_of(name: str, value: Any) -> str | None:
    """The file that defines a name, below the package; None for values of no file, as numbers."""
    last = name.rpartition(".")[2]
    for module in _modules():
        if vars(module).get(last) is value and last in _definitions(module.__file__):
            return _below(module.__file__)
    home = sys.modules.get(getattr(inspect.unwrap(value) if callable(value) else value, "__module__", None) or "")
    return _below(home.__file__) if home in _modules() else None


def _below(path: str) -> str:
    return Path(path).resolve().relative_to(_ROOT.parent).as_posix().removeprefix(f"{_ROOT.name}/")


def text(sections: Iterator[tuple[str, dict[str, Any]]]) -> str:
    """The page, from the names of each namespace."""
    rows = {}
    for prefix, names in sections:
        for name, value in names.items():
            if (file := file_of(name, value)) is not None:
                rows[f"{prefix}.{name}"] = file
    return _PAGE + "".join(f"| `{name}` | `{rows[name]}` |\n" for name in sorted(rows, key=str.lower))
