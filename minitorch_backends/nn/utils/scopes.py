"""Parts of a model under flags, or other scopes, of their own."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

from ...autograd.extras.module_scope import (
    ProgramPart,
    called_by,
    is_graph,
    is_script,
    named_parts,
    parts_run_by,
    run_part_under,
)
from ...flags.scopes import Scope
from ...tensor.call_errors import argument_errors
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
        check_visible("run_under", module)
    chosen = scope.by_module(known) if not names else {}
    for name in names:
        chosen |= dict.fromkeys(matching_names("run_under", known, name), scope)
    handles = ExitStack()
    for path, each in chosen.items():
        part = known[path]
        if isinstance(part, Module):
            handles.enter_context(part._add_hook("scopes", each, prepend=False))
        else:
            handles.enter_context(_run_torch_under(part, each))
    return handles


def check_visible(caller: str, module: Any) -> None:
    """Raise ValueError if a program of torch in `module` does not say in which of its parts it computes."""
    for name, each in module.named_modules():
        if not (is_script(each) or is_graph(each)):
            continue
        known = [*parts_run_by(each), *called_by(each)]
        inner = [path for path, part in each.named_modules() if path and any(True for _ in part.parameters(False))]
        lost = [path for path in inner if not any(f"{path}.".startswith(f"{run}.") for run in known)]
        if lost and not known:
            listed = ", ".join(map(repr, lost[:8]))
            raise ValueError(
                f"{caller}(): the parts of a model must be called, got {type(each).__name__} {name!r}, which runs its "
                f"parts ({listed}) as one program; apply it to the module from which this one was made"
            )
        if is_script(each):
            return  # its parts are of its own kind


def _run_torch_under(module: Any, scope: Scope) -> ExitStack:
    """`run_under` of a module of torch, by its hooks, and of a program and its parts."""
    if isinstance(module, ProgramPart) or is_script(module):
        return run_part_under(module if isinstance(module, ProgramPart) else ProgramPart(module, ""), scope)

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
