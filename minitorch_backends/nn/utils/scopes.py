"""Parts of a model under flags, or other scopes, of their own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import ExitStack
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

from ...autograd.extras.module_scope import named_parts
from ...dispatch.call_errors import argument_errors
from ...flags.scopes import Scope
from ..module import Module


@argument_errors
def run_under(module: Module, scope: Scope, *names: str) -> ExitStack:
    """Run parts of a model under their own flags, or another scope, from now on.

    Each forward of `module` runs in `scope`; or of its submodules whose dotted names match one of `names` (file-name
    globs such as "encoder.*.attention"). A scope is `backends.flags(...)`, a snapshot or `no_grad()`; a `lab.Policy`
    contains the names itself. The returned handle undoes it by `close()` or at the end of a `with` block. An inner
    scope overrides an outer one. `module` may also be a torch module, for calls inside `interop.torch.emulate`.

    Gradients run under the current flags of `backward()`; `backends.backward_precision = "recorded"` gives them the
    precision of the forward pass. If a module's owner uses its parameters without calling it (`out_proj` of
    `MultiheadAttention`), the owner's scope applies.

    Raises TypeError for values that are not scopes, ValueError for a name that matches no module.
    """
    if not isinstance(scope, Scope):
        raise TypeError(f"run_under expects a scope, such as backends.flags(...) or no_grad(), got {scope!r}")
    known = dict(named_parts(module))  # of a wrapper and what it wraps, the latter
    if names or not getattr(scope, "is_uniform", True):
        check_visible("run_under", known)
    chosen = scope.by_module(known) if not names else {}
    for name in names:
        chosen |= dict.fromkeys(matching_names("run_under", known, name), scope)
    handles = ExitStack()
    for path, each in chosen.items():
        module = known[path]
        own = isinstance(module, Module)
        handles.enter_context(
            module._add_hook("scopes", each, prepend=False) if own else _run_torch_under(module, each)
        )
    return handles


def check_visible(caller: str, parts: Mapping[str, Any]) -> None:
    """Raise ValueError if torch compiled parts of a model into one program, in which they are not called: scripted
    modules, and programs that `torch.export` made."""
    for name, each in parts.items():
        bases = {base.__name__ for base in type(each).__mro__}
        inner = {path for path in parts if path != name and path.startswith(f"{name}." * bool(name))}
        if "GraphModule" in bases:  # those whose parameters its own code reads
            called = {f"{name}.{node.target}".lstrip(".") for node in each.graph.find_nodes(op="call_module")}
            inner = {path for path in inner - called if parts[path]._parameters}
            inner = {path for path in inner if not any(path.startswith(f"{each}.") for each in called)}
        if inner and not bases.isdisjoint({"ScriptModule", "GraphModule"}):
            known = ", ".join(repr(path) for path in list(parts)[:8])
            raise ValueError(
                f"{caller}(): the parts of a model must be called, got {type(each).__name__} {name!r}, which runs its "
                f"parts ({known}) as one program; apply it to the module from which this one was made"
            )


def _run_torch_under(module: Any, scope: Scope) -> ExitStack:
    """As `run_under`, for a module of torch, by its hooks."""

    def enter(*_: Any) -> None:
        scope.__enter__()

    def leave(*_: Any) -> None:
        scope.__exit__(None, None, None)

    handles = ExitStack()
    handles.enter_context(module.register_forward_pre_hook(enter))
    handles.enter_context(module.register_forward_hook(leave, always_call=True))
    return handles


def matching_names(caller: str, known: Collection[str], glob: str) -> list[str]:
    """The names of modules that match a glob. Raises ValueError for a glob that matches none."""
    found = [path for path in known if fnmatchcase(path, glob)]
    if not found:
        near = get_close_matches(glob, known, n=1)
        some = ", ".join(repr(path) for path in list(known)[:8])
        hint = f"did you mean {near[0]!r}?" if near else f"the names are {some}{', ...' * (len(known) > 8)}"
        raise ValueError(f"{caller}(): no module has a name like {glob!r}; {hint}")
    return found
