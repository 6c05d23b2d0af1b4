"""Helpers for training and inference: gradients kept within bounds, layers joined, and layers under their own flags."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from contextlib import ExitStack
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from ..autograd.modes import no_grad
from ..dispatch.call_errors import argument_errors
from ..flags.scopes import Scope
from ..ops.views.join import cat
from ..tensor.dtypes import float32, promote_types
from ..tensor.tensor import Tensor, adopt
from .fusion import fuse
from .module import Module

__all__ = [
    "clip_grad_norm_", "clip_grad_value_", "fuse", "parameters_to_vector", "run_under", "vector_to_parameters",
]  # fmt: skip


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Any]:
    parameters = (parameters,) if isinstance(parameters, Tensor) else parameters
    return [each.grad for each in parameters if each.grad is not None]


@argument_errors
@no_grad()
def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float | str = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients, in place, so that their norm, taken over all of them together, is at most `max_norm`.

    Returns the norm that they had; `foreach` changes nothing. Raises RuntimeError for a norm of Inf or NaN with
    `error_if_nonfinite`.
    """
    norm_type = float(norm_type)  # which may be "inf"
    gradients = [each for each in _gradients(parameters) if each._array.size]
    with np.errstate(all="ignore"):  # norms that overflow are Inf
        norms = [
            np.linalg.norm(each._array.reshape(-1).astype(np.result_type(each._array, np.float32)), norm_type)
            for each in gradients
        ]
        total = float(np.linalg.norm(np.array(norms, np.float64), norm_type)) if norms else 0.0
        real = [each.real.dtype for each in gradients] or [float32]
        result = np.asarray(total, functools.reduce(promote_types, real).dtype)
    if error_if_nonfinite and not math.isfinite(total):
        raise RuntimeError(
            f"the norm of order {norm_type} of the gradients is {total}, so it cannot be clipped; "
            "pass error_if_nonfinite=False to scale by it anyway"
        )
    factor = max_norm / (total + 1e-6)
    if not factor >= 1:  # NaN included
        for each in gradients:
            each.mul_(factor)
    return adopt(result)


@argument_errors
@no_grad()
def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Bring every element of the gradients into [-clip_value, clip_value], in place; `foreach` changes nothing."""
    for each in _gradients(parameters):
        each.clamp_(-clip_value, clip_value)


@argument_errors
def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All numbers of the parameters, one after the other; gradients of it reach them."""
    return cat([each.reshape(-1) for each in parameters])


@argument_errors
@no_grad()
def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Write the numbers of a vector to the parameters, one after the other.

    Raises RuntimeError unless it has as many.
    """
    held = list(parameters)
    sizes = [each.numel() for each in held]
    if vec.ndim != 1 or vec.numel() != sum(sizes):
        raise RuntimeError(
            f"vector_to_parameters: expected a vector of {sum(sizes)} numbers, one for each of the parameters', and "
            f"got shape {list(vec.shape)}"
        )
    for each, part in zip(held, vec.split(sizes), strict=True):
        each.copy_(part.reshape(each.shape))


@argument_errors
def run_under(module: Module, scope: Scope, *names: str) -> ExitStack:
    """Have parts of a model run under flags, or another scope, of their own from now on.

    Each forward of `module`, or of the modules in it whose dotted names match one of `names` (as file names match
    "encoder.*.attention"), runs in `scope`: `backends.flags(...)`, a snapshot, `no_grad()`. A `lab.Policy` has scopes
    for modules by their names itself. What is returned takes that back, by `close()` or at the end of a `with` block. A
    scope inside another goes before it. `module` may also be torch's, for calls inside `interop.torch.emulate`.

    Gradients run under the flags in force in `backward()`; `backends.backward_precision = "recorded"` gives them the
    precision of the forward pass. A module whose parameters its owner computes with, without calling it (`out_proj` of
    `MultiheadAttention`), runs under what holds for the owner.

    Raises TypeError for what is no scope, ValueError for a name that no module has.
    """
    if not isinstance(scope, Scope):
        raise TypeError(f"run_under expects a scope, such as backends.flags(...) or no_grad(), got {scope!r}")
    known = dict(module.named_modules())
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


def matching_names(caller: str, known: Iterable[str], glob: str) -> list[str]:
    """The names of modules that match a glob. Raises ValueError for a glob that matches none."""
    found = [path for path in known if fnmatchcase(path, glob)]
    if not found:
        near = get_close_matches(glob, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "named_modules() lists them"
        raise ValueError(f"{caller}(): no module has a name like {glob!r}; {hint}")
    return found
