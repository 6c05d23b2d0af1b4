"""Module attribution: the module that computes, forward or backward, while kernel calls are recorded; and scopes by
module name.

Nodes are numbered in order of creation. The module of a node therefore follows from the numbers at which modules began
and ended. Nothing is stored with a node, and calls are unchanged.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from ...flags.scopes import Scope
from ...kernels.runtime.context import Binding, chain_length, restorable
from ...kernels.runtime.locks import lock
from ..nodes import Node, next_sequence

# Parts of the programs that torch makes of modules: scripted and traced ones, and graphs as `torch.export` makes them.
#
# A program runs its parts without calling them. A scripted one has calls of their methods in its graph; the nodes of an
# exported one name the modules that they were traced in. This file reads both without importing torch.


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


following = 0
"""The number of blocks, in all threads, that attribute modules or give them scopes. A call of a module checks it."""

following_changed: list[Callable[[], None]] = []
"""Callbacks after each change of `following`. Bridges to modules of other libraries install their hooks there."""

_lock = lock()


class _Trail(NamedTuple):
    """The sequence numbers from which another module computes, with its name (None: no module); `parent` is that of
    the block around, which shares the lists."""

    parent: Any
    numbers: list[int]
    names: list[str | None]

    def note(self, name: str | None) -> None:
        self.numbers.append(next_sequence())
        self.names.append(name)


class _Running:
    """A module whose forward runs, its name, and (once needed) the names of its submodules."""

    __slots__ = ("module", "name", "names")

    def __init__(self, name: str, module: Any) -> None:
        self.name, self.module = name, module
        self.names: dict[Any, str] | None = None

    def name_of(self, module: Any) -> str | None:
        """The full name of a submodule."""
        if self.names is None or module not in self.names:  # modules may be added during the forward
            self.names = {held: name for name, held in named_parts(self.module, self.name)}
        return self.names.get(module)


_WRAPPERS = {
    "OptimizedModule": "_orig_mod",
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "CheckpointWrapper": "_checkpoint_wrapped_module",
}
"""The classes of torch that wrap a module, with the attribute that holds it."""


def named_parts(module: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """`named_modules` under the names that the modules have without torch's wrappers; a wrapper comes before what it
    wraps, under the same name. A program has the parts that it runs or calls, in place of those that hold parameters.
    """
    names: dict[str, str] = {}
    wrappers = dict[str, str]()
    programs = dict[str, set[str]]()
    for raw, each in module.named_modules(prefix=prefix):
        holder, _, last = raw.rpartition(".")
        base = names.get(holder, "")
        wrapped = raw != prefix and wrappers.get(holder) == last
        names[raw] = name = raw if raw == prefix else base if wrapped else f"{base}.{last}" if base else last
        if type(each).__name__ in _WRAPPERS:
            wrappers[raw] = _WRAPPERS[type(each).__name__]
        inside = next((program for program in programs if raw.startswith(program)), None)
        if inside is not None and not any(f"{raw}.".startswith(f"{inside}{path}.") for path in programs[inside]):
            continue
        yield name, each
        if inside is None and (parts := parts_run_by(each)):
            programs[f"{raw}." if raw else ""] = called_by(each)
            for path in parts:
                yield f"{name}.{path}" if name else path, ProgramPart(each, path)


_trail: ContextVar[_Trail | None] = ContextVar("trail", default=None)
running_modules: ContextVar[tuple[_Running, ...]] = ContextVar("running_modules", default=())
"""The modules whose forwards run, innermost last."""
computing_module: ContextVar[str | None] = ContextVar("computing_module", default=None)


def count(change: int) -> None:
    global following
    with _lock:
        following += change
    try:
        for changed in tuple(following_changed):
            changed()
    except BaseException:
        with _lock:
            following -= change  # the block was not entered, or is still to be left
        raise


class follow_modules:
    """Attribute computations of this thread or task to modules while the block runs."""

    __slots__ = ("_trail",)

    def __enter__(self) -> None:
        outer = _trail.get()
        self._trail = _Trail(outer, *((outer.numbers, outer.names) if outer else ([], [])))
        count(1)
        _trail.set(self._trail)

    def __exit__(self, *exception: object) -> None:
        level = _trail.get()
        while level is not None and level is not self._trail:
            level = level.parent
        if level is not None:  # not put back before, by a call that failed
            count(-1)
            _trail.set(level.parent)


def is_followed() -> bool:
    """Whether this thread or task attributes modules."""
    return following > 0 and _trail.get() is not None


def current_module() -> str | None:
    """The name of the current module if attribution is on; "" for the outermost."""
    return computing_module.get()


def as_module(name: str | None) -> Binding:
    """Attribute the block to the module of this name."""
    return Binding(computing_module, name)


class ModuleScopes:
    """One level of scopes for called modules, selected by their names.

    Attributes:
        scope_of: the scope of a name, or None.
        owner: the scope that entered this level.
        note: called with each module that no other one calls.
    """

    __slots__ = ("note", "owner", "parent", "scope_of")

    def __init__(
        self,
        owner: Scope,
        scope_of: Callable[[str], Scope | None],
        note: Callable[[Any], None],
        parent: ModuleScopes | None,
    ) -> None:
        self.owner, self.scope_of, self.note, self.parent = owner, scope_of, note, parent

    @staticmethod
    def enter(owner: Scope, scope_of: Callable[[str], Scope | None], note: Callable[[Any], None]) -> None:
        """Enter a level of scopes for the modules that this thread or task calls, inside those of outer levels."""
        level = ModuleScopes(owner, scope_of, note, scopes_by_name.get())
        count(1)
        scopes_by_name.set(level)

    @staticmethod
    def leave(owner: Scope) -> ModuleScopes | None:
        """Drop the innermost level that `owner` entered, and all levels above it, whose exits may have been lost."""
        level = scopes_by_name.get()
        while level is not None and level.owner is not owner:
            level = level.parent
        if level is not None:
            count(chain_length(level.parent) - chain_length(scopes_by_name.get()))
            scopes_by_name.set(level.parent)
        return level

    def of(self, name: str) -> ExitStack:
        """Enter the scopes of a module in all levels, outer ones first."""
        entered = ExitStack() if self.parent is None else self.parent.of(name)
        scope = self.scope_of(name)
        if scope is not None:
            entered.enter_context(scope)
        return entered


def is_inside_module() -> bool:
    """Whether the forward of a followed module runs."""
    return bool(running_modules.get())


scopes_by_name: ContextVar[ModuleScopes | None] = ContextVar("module_scopes", default=None)
restorable(_trail, chain_length, count)
restorable_variables = [
    restorable(scopes_by_name, chain_length, count), restorable(running_modules), restorable(computing_module),
]  # fmt: skip


_outputs: ContextVar[Callable[[Any, Any], None] | None] = ContextVar("module_outputs", default=None)


@contextmanager
def observe_outputs(observer: Callable[[Any, Any], None]) -> Iterator[None]:
    """Call `observer(module, output)` after each module that this thread or task calls, while modules are followed."""
    token = _outputs.set(observer)
    try:
        yield
    finally:
        _outputs.reset(token)


def note_output(module: Any, output: Any) -> Any:
    """Show the output of a module, whose scope still runs, to the observer. Returns the output."""
    observer = _outputs.get()
    if observer is not None:
        observer(module, output)
    return output


class enter:
    """Attribute the block to a module, or to a part that a program runs, and run it in the scopes of its name."""

    __slots__ = ("_entered", "_module", "_outer", "_part", "_trail")

    def __init__(self, module: Any, part: str = "") -> None:
        self._module, self._part = module, part

    def __enter__(self) -> None:
        self._trail, scopes = _trail.get(), scopes_by_name.get()
        self._entered, self._outer = None, None
        if self._trail is None and scopes is None:
            return
        running, before = running_modules.get(), computing_module.get()
        level = None if running else scopes
        while level is not None:
            level.note(self._module)
            level = level.parent
        name = own = _name_of(self._module, running)
        if self._part:
            name = f"{own}.{self._part}" if own else self._part
        if self._trail is not None:
            self._trail.note(name)
        self._outer = running, before
        running_modules.set((*running, _Running(own, self._module)))
        computing_module.set(name)
        self._entered = None if scopes is None else scopes.of(name)

    def __exit__(self, *exception: object) -> None:
        if self._outer is None:
            return
        if self._entered is not None:
            self._entered.close()
        running, before = self._outer
        if self._trail is not None:
            self._trail.note(before)
        running_modules.set(running)
        computing_module.set(before)


def _name_of(module: Any, running: tuple[_Running, ...]) -> str:
    """The module's name within the innermost running module that contains it, after that module's own name. The
    outermost module is "". A module outside of every running module has its class name."""
    for holder in reversed(running):
        name = holder.name_of(module)
        if name is not None:
            return name
    return f"{running[-1].name}.{type(module).__name__}".lstrip(".") if running else ""


def computing_for(node: Node) -> AbstractContextManager[None]:
    """Attribute the block to the module that made a node; it computes that node's gradients."""
    trail = _trail.get()
    if trail is None:
        return nullcontext()
    place = bisect_right(trail.numbers, node.sequence)
    return as_module(trail.names[place - 1] if place else None)
