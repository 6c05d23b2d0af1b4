"""The generator of `minitorch_backends/index.txt`, which says where each name is declared; part of `tests.stubs`.

Ops, functions and methods say it themselves, once their modules are loaded; namespaces by their imports under
`if TYPE_CHECKING`.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import minitorch_backends as mt
from minitorch_backends.tensor.registry import functions, registry
from minitorch_backends.tensor.tensor import Tensor

PACKAGE = Path(mt.__file__).parent
NAMESPACES = ("", "autograd", "backends", "fft", "linalg", "ops.names", "special")
INSTALLING = ("serialization.copying", "utils.printing")
"""Modules beside those of ops that install methods on `Tensor`."""

_HEAD = """The module that declares each name, by table. `python -m tests.stubs` writes this file; do not edit it.
`name=other` is a name that the module has under another name, `name=.` one of the module itself.
"""


def _load() -> None:
    """Load every module that declares something; those last that use what an old index does not find."""
    paths = (path.relative_to(PACKAGE).with_suffix("").parts for path in sorted((PACKAGE / "ops").rglob("*.py")))
    waiting = [*(".".join(parts) for parts in paths), *INSTALLING]
    while waiting:
        failed = []
        for module in waiting:
            try:
                importlib.import_module(f"{mt.__name__}.{module}")
            except AttributeError:
                failed.append(module)
        if failed == waiting:
            importlib.import_module(f"{mt.__name__}.{failed[0]}")
        waiting = failed


def type_checked(path: Path) -> list[ast.ImportFrom]:
    """The imports of a module under `if TYPE_CHECKING`."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    blocks = [node.body for node in body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    return [node for block in blocks for node in block if isinstance(node, ast.ImportFrom)]


def _names(namespace: str) -> Iterator[tuple[str, str]]:
    """The names of a namespace that are loaded at their first use, with their modules."""
    path = PACKAGE.joinpath(*namespace.split("."))
    package = path.is_dir()
    for node in type_checked(path / "__init__.py" if package else path.with_suffix(".py")):
        above = namespace if package else namespace.rpartition(".")[0]
        module = ".".join(filter(None, (above, node.module or "")))
        if node.module == "ops.names":
            continue  # these are names of the package as they are
        if node.module is None:
            yield from ((".".join(filter(None, (namespace, alias.name))), f"{alias.name}=.") for alias in node.names)
        else:
            for alias in node.names:
                found = importlib.import_module(f"{mt.__name__}.{module}") if alias.name == "*" else None
                for name in [alias.asname or alias.name] if found is None else found.__all__:
                    renamed = alias.asname is not None and alias.asname != alias.name
                    yield module, f"{name}={alias.name}" if renamed else name


def _methods() -> Iterator[tuple[str, str]]:
    for name, value in vars(Tensor).items():
        owner = value.fget if isinstance(value, property) else value
        owners = [str(each.__module__) for each in (owner, inspect.unwrap(owner)) if callable(each)]
        module = next((each for each in owners if ".dispatch." not in each and each != "None"), "")
        assert module or not owners, f"no module says that it installs {name} on Tensor"
        module = module.removeprefix(f"{mt.__name__}.")
        if module.startswith("ops.") or module in INSTALLING:
            yield module, name


def _text(name: str, found: Iterable[tuple[str, Any]]) -> str:
    by_module: dict[str, list[str]] = {}
    for module, each in found:
        by_module.setdefault(module.removeprefix(f"{mt.__name__}."), []).append(each)
    lines = [
        f"{module}: {line}"
        for module, names in sorted(by_module.items())
        for line in textwrap.wrap(" ".join(sorted(names)), 117 - len(module), break_on_hyphens=False)
    ]
    return "\n".join([f"[{name}]", *lines, ""])


def index() -> str:
    """The text of `minitorch_backends/index.txt`."""
    _load()
    tables = {
        "OPS": ((module, name) for name, module in registry.modules.items()),
        "FUNCTIONS": ((module, name) for name, module in functions.modules.items()),
        "METHODS": _methods(),
    }
    texts = [_text(name, found) for name, found in tables.items()]
    texts += [_text(f"names of {namespace}".strip(), _names(namespace)) for namespace in NAMESPACES]
    return "\n".join([_HEAD, *texts])
