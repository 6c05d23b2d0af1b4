"""Parts of the programs that torch makes of modules: scripted and traced ones, and graphs as `torch.export` makes them.

A program runs its parts without calling them. A scripted one has calls of their methods in its graph; the nodes of an
exported one name the modules that they were traced in. This file reads both without importing torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from ...flags.scopes import Scope


class ProgramPart(NamedTuple):
    """A part that a program runs, by its path within the module from which the program was made."""

    program: Any
    path: str


scopes_of_parts: WeakKeyDictionary[Any, dict[str, list[Scope]]] = WeakKeyDictionary()
"""The scopes that `run_under` gave to parts, by program and path."""


def run_part_under(part: ProgramPart, scope: Scope) -> ExitStack:
    """Run a part, or by the path "" the whole program, in a scope until the returned handle is closed."""
    scopes = scopes_of_parts.setdefault(part.program, {}).setdefault(part.path, [])
    scopes.append(scope)
    handle = ExitStack()
    handle.callback(lambda: scopes.remove(scope) if scope in scopes else None)
    return handle


def is_script(module: Any) -> bool:
    return any(base.__name__ == "ScriptModule" for base in type(module).__mro__)


def is_graph(module: Any) -> bool:
    return any(base.__name__ == "GraphModule" for base in type(module).__mro__)


def parts_run_by(module: Any) -> list[str]:
    """The paths of the parts that a program runs, in the order of the module's names; [] for other modules."""
    if is_script(module):
        found = set(_script_paths(module))
        held = [path for path, _ in module.named_modules() if path]
        return [path for path in held if path in found or any(each.startswith(f"{path}.") for each in found)]
    if is_graph(module):
        return list(dict.fromkeys(path for node in module.graph.nodes for path in paths_of(node)))
    return []


def called_by(module: Any) -> set[str]:
    """The paths of the modules that a graph calls as modules, without the one that checks its inputs."""
    nodes = module.graph.nodes if is_graph(module) else ()
    return {str(node.target) for node in nodes if node.op == "call_module" and node.target != "_guards_fn"}


def paths_of(node: Any) -> tuple[str, ...]:
    """The modules in which a node of a graph was traced, outermost first, without the program itself, and without the
    one that the node calls."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = dict.fromkeys(path.partition("@")[0] for path, _ in stack.values())
    return tuple(path for path in paths if path and not (node.op == "call_module" and path == node.target))


def calls_in(block: Any) -> Iterator[tuple[Any, str]]:
    """The nodes of a graph of TorchScript that call a part, with its path from the module that the graph is of."""
    for node in block.nodes():
        for inner in node.blocks():
            yield from calls_in(inner)
        if node.kind() != "prim::CallMethod":
            continue
        path, value = list[str](), next(node.inputs())
        while value.node().kind() == "prim::GetAttr":
            path.insert(0, value.node().s("name"))
            value = next(value.node().inputs())
        if path and value.node().kind() == "prim::Param":
            yield node, ".".join(path)


def _script_paths(module: Any) -> Iterator[str]:
    left = [("", module._c, method) for method in module._c._method_names()]
    seen = set[tuple[str, str]]()
    while left:
        path, held, method = left.pop()
        for node, inner in calls_in(held._get_method(method).graph):
            part = held
            for name in inner.split("."):
                part = part.getattr(name)
            found = f"{path}.{inner}".lstrip("."), node.s("name")
            if found not in seen:
                seen.add(found)
                left.append((found[0], part, found[1]))
                yield found[0]
