"""Runs the parts of scripted, traced and exported modules as if they were called, so that records and policies see
them.

Nothing of a part is called when TorchScript or a graph runs it. A copy of the program's graphs gets two calls around
each part, which enter and leave it. The copies read the parameters of the original.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from contextvars import ContextVar
from functools import partial
from types import MethodType
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.fx import graph_module

from ...autograd.extras import module_scope
from ...autograd.extras.module_scope import calls_in, parts_run_by, paths_of, scopes_of_parts
from .modules import enter_part
from .patches import shared_block


class _Program:
    """A program that runs, and the parts of it that do, outermost first."""

    def __init__(self, root: Any) -> None:
        self.root, self.scopes = root, scopes_of_parts.get(root, {})
        self.open: list[tuple[str, ExitStack]] = []

    def enter(self, path: str) -> None:
        entered = ExitStack()
        self.open.append((path, entered))
        if path:
            entered.enter_context(enter_part(self.root, path))
        for scope in self.scopes.get(path, ()):
            entered.enter_context(scope)

    def leave(self) -> None:
        self.open.pop()[1].close()

    def move_to(self, paths: tuple[str, ...]) -> None:
        """Leave and enter what it takes to run inside of these parts alone."""
        here = [path for path, _ in self.open[1:]]
        common = next((at for at, pair in enumerate(zip(here, paths, strict=False)) if pair[0] != pair[1]), None)
        common = min(len(here), len(paths)) if common is None else common
        while len(self.open) > 1 + common:
            self.leave()
        for path in paths[common:]:
            self.enter(path)


_running: ContextVar[_Program | None] = ContextVar("running_program", default=None)


def _run(root: Any, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    program = _Program(root)
    token = _running.set(program)
    try:
        program.enter("")
        return forward(*args, **kwargs)
    finally:
        while program.open:
            program.leave()
        _running.reset(token)


def _has_followed_parts(module: Any) -> bool:
    """Whether records or scopes are to see the parts of a module that is called, which is a program."""
    return (module_scope.following > 0 or module in scopes_of_parts) and bool(parts_run_by(module))


# Scripted and traced modules

_library = torch.library.Library("minitorch_backends", "DEF")
"""Operators without results. Those that are "CONSERVATIVE" are neither moved nor left out."""

for _name in ("enter_part(str path) -> ()", "leave_part() -> ()"):
    _library.define(_name, alias_analysis="CONSERVATIVE")


def _enter(path: str) -> None:
    program = _running.get()
    if program is not None:
        outer = program.open[-1][0]
        program.enter(f"{outer}.{path}".lstrip("."))


def _leave() -> None:
    program = _running.get()
    if program is not None:
        program.leave()


_library.impl("enter_part", _enter, "CompositeExplicitAutograd")
_library.impl("leave_part", _leave, "CompositeExplicitAutograd")

_copies: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""The programs of modules, with calls around their parts."""


def _marked_script(module: Any) -> Any:
    """The program of a scripted module with calls around its parts, on the module's own tensors."""
    if module not in _copies:
        found = torch._C._hack_do_not_use_clone_module_with_class(module._c, [], [])
        seen = set[tuple[str, str]]()
        for _, part in _pairs(module._c, found):
            for method in part._method_names():
                if (str(part._type()), method) not in seen:
                    seen.add((str(part._type()), method))
                    _mark(part._get_method(method).graph)
        _copies[module] = found
    for own, part in _pairs(module._c, _copies[module]):
        for held in (torch._C.ParameterDict(own), torch._C.BufferDict(own)):
            for name, tensor in held.items():
                part.setattr(name, tensor)
        if own.hasattr("training"):
            part.setattr("training", own.getattr("training"))
    return _copies[module]


def _pairs(first: Any, second: Any) -> Iterator[tuple[Any, Any]]:
    yield first, second
    for (_, one), (_, other) in zip(
        torch._C.ModuleDict(first).items(), torch._C.ModuleDict(second).items(), strict=True
    ):
        yield from _pairs(one, other)


def _mark(graph: Any) -> None:
    for node, path in list(calls_in(graph)):
        with graph.insert_point_guard(node):
            name = graph.insertConstant(path)
        graph.create("minitorch_backends::enter_part", [name], 0).insertBefore(node)
        graph.create("minitorch_backends::leave_part", [], 0).insertAfter(node)


class _Forward:
    """The attribute `forward` of scripted modules, which runs their parts as calls."""

    def __get__(self, module: Any, kind: type) -> Any:
        if module is None:
            return self
        actual = module.__dict__.get("_actual_script_module", module)
        plain = actual._c._get_method("forward")
        if _running.get() is not None or not _has_followed_parts(module):
            return plain
        return partial(_run, module, _marked_script(actual)._get_method("forward"))

    def __set__(self, module: Any, value: Any) -> None:
        module.__dict__["forward"] = value


# Graphs

_forwards: WeakKeyDictionary[Any, Callable[..., Any]] = WeakKeyDictionary()


def move_to(paths: tuple[str, ...]) -> None:
    """Called by a graph before nodes of other parts."""
    program = _running.get()
    if program is not None:
        program.move_to(paths)


def _marked_graph(module: Any) -> Callable[..., Any]:
    """The function of a graph, with calls before each node that belongs to another part than the one before it."""
    if module not in _forwards:
        graph = torch.fx.Graph()
        graph.output(graph.graph_copy(module.graph, {}))
        graph.set_codegen(module.graph._codegen)
        before: tuple[str, ...] = ()
        for node in list(graph.nodes):
            if node.op in ("placeholder", "get_attr"):
                continue
            paths = () if node.op == "output" else paths_of(node)
            if paths != before:
                with graph.inserting_before(node):
                    graph.call_function(move_to, (paths,))
                before = paths
        code = graph.python_code("self")
        _forwards[module] = graph_module._forward_from_src(code.src, code.globals)
    return _forwards[module]


_plain_call = graph_module._WrappedCall.__call__


def _call_graph(self: Any, module: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a graph, whose class looks up `forward` in the module first."""
    if "forward" in module.__dict__ or not _has_followed_parts(module):
        return _plain_call(self, module, *args, **kwargs)
    module.__dict__["forward"] = partial(_run, module, MethodType(_marked_graph(module), module))
    try:
        return _plain_call(self, module, *args, **kwargs)
    finally:
        module.__dict__.pop("forward", None)


_scripted = (torch.jit.RecursiveScriptModule, torch.jit._trace.TopLevelTracedModule)


@shared_block
def run_parts_as_calls() -> Iterator[None]:
    """Make the parts of programs visible that are called while the block runs."""
    before = [(kind, vars(kind).get("forward")) for kind in _scripted]
    for kind in _scripted:
        type.__setattr__(kind, "forward", _Forward())
    graph_module._WrappedCall.__call__ = _call_graph
    yield
    graph_module._WrappedCall.__call__ = _plain_call
    for kind, value in before:
        type.__setattr__(kind, "forward", value) if value is not None else type.__delattr__(kind, "forward")
