"""Modules as functions of their parameters and buffers, and the parameters of several models as one batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import starmap
from typing import Any

from ..nn.module import Module, join_name
from ..nn.normalization import _BatchNorm
from ..ops.views.join import stack
from ..tensor.call_errors import argument_errors
from ..tensor.tensor import Tensor

Slot = tuple[Module, str]
"""A module, and the name of an attribute that is a parameter or a buffer."""


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call `module(*args, **kwargs)` with the given tensors, by dotted name, in place of its parameters and buffers.

    The module's own tensors are restored on return. Derivatives with respect to the given tensors are those of the
    call. A buffer that the call writes to is the given one. `args` that are not a tuple are the only argument. With
    `tie_weights` a tensor replaces all names of a tied parameter. Unknown names are ignored, unless `strict`, which
    also requires all names (RuntimeError).

    Raises ValueError for a name, or tied names, with several tensors. Raises TypeError for values that are not modules
    or tensors, AttributeError for a name in an unknown submodule. Not for modules that several threads call at once.
    """
    if not isinstance(module, Module):
        raise TypeError(f"functional_call expects a Module, whose parts have names, got {type(module).__name__}")
    given, slots = _merge(parameter_and_buffer_dicts), dict(_slots(module))
    found = {name: _slot(module, name) for name in given}
    places = {name: slot for name, slot in found.items() if slot is not None}
    tied: defaultdict[int, list[Slot]] = defaultdict(list)
    if tie_weights:
        for slot in slots.values():
            tied[id(_slot_value(slot))].append(slot)
    replaced: dict[Slot, Tensor] = {}
    for name, slot in places.items():
        for each in (slot, *tied.get(id(_slot_value(slot)), ())):
            if each in replaced and replaced[each] is not given[name]:
                raise ValueError(
                    f"functional_call: {name!r} is tied to another name with another tensor; give one of them, or pass "
                    "tie_weights=False"
                )
            replaced[each] = given[name]
    if strict:
        _refuse_incomplete(
            module, given.keys() - places.keys(), [n for n, each in slots.items() if each not in replaced]
        )
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    before = [(vars(owner), name, vars(owner)[name]) for owner, name in replaced]
    try:
        for (owner, name), tensor in replaced.items():
            vars(owner)[name] = tensor
        return module(*arguments, **(kwargs or {}))
    finally:  # in C, where no signal can come in between
        any(starmap(dict.__setitem__, before))


def _slot_value(slot: Slot) -> Tensor:
    owner, name = slot
    return vars(owner)[name]


def _merge(dicts: Any) -> dict[str, Tensor]:
    several = [dicts] if isinstance(dicts, Mapping) else dicts
    if not isinstance(several, (list, tuple)) or not all(isinstance(each, Mapping) for each in several):
        raise ValueError(
            "functional_call: expected parameter_and_buffer_dicts to be a dict, or a list or tuple of dicts, got "
            f"{type(dicts).__name__}"
        )
    merged: dict[str, Tensor] = {}
    for each in several:
        for name, tensor in each.items():
            if not isinstance(tensor, Tensor):
                raise TypeError(f"functional_call: expected a Tensor for {name!r}, got {type(tensor).__name__}")
            if name in merged:
                raise ValueError(f"functional_call: {name!r} stands in several of the dicts; leave it in one")
            merged[name] = tensor
    return merged


def _slots(module: Module) -> Iterator[tuple[str, Slot]]:
    """All parameters and buffers by name, including those with several names."""
    for path, owner in module.named_modules():
        for name in owner._own_tensors():
            yield join_name(path, name), (owner, name)


def _slot(module: Module, target: str) -> Slot | None:
    path, _, name = target.rpartition(".")
    owner = module.get_submodule(path)
    return (owner, name) if name in owner._own_tensors() else None


def _refuse_incomplete(module: Module, unexpected: Any, missing: Sequence[str]) -> None:
    listed = [
        f"{kind}: {', '.join(map(repr, sorted(names)))}"
        for kind, names in (("unexpected names", unexpected), ("missing names", missing))
        if names
    ]
    if listed:
        raise RuntimeError(f"functional_call of {type(module).__name__} with strict=True: {'; '.join(listed)}")


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Let all batch normalizations of a module use the statistics of each batch, and forget the running ones.

    Returns `root`. Raises TypeError if it is not a module.
    """
    if not isinstance(root, Module):
        raise TypeError(f"replace_all_batch_norm_modules_(): root must be a Module, got {type(root).__name__}")
    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


@argument_errors
def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Stack the parameters of several models of one class, and their buffers: two dicts of tensors with a first
    dimension for the models. For `vmap` over `functional_call`.

    The results are leaves that require gradients as the parameters do. Raises RuntimeError for no models, for models of
    several classes, and for a mix of training and evaluation modes.
    """
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not (all(each.training for each in models) or not any(each.training for each in models)):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if len({type(each) for each in models}) != 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = [dict(each.named_parameters()) for each in models]
    buffers = [dict(each.named_buffers()) for each in models]
    stacked = {
        name: stack([each[name].detach() for each in parameters]).requires_grad_(first.requires_grad)
        for name, first in parameters[0].items()
    }
    return stacked, {name: stack([each[name] for each in buffers]) for name in buffers[0]}
