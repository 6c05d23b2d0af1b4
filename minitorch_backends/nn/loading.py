"""Loading the state of a module: the names, shapes and values of a state dict."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..autograd.modes import no_grad
from ..kernels.runtime.context import restore_on_failure
from ..ops.creation.factories import as_tensor
from ..tensor.tensor import Parameter, Tensor, kind_of
from .module_internals import PREFIX, run_hooks


class IncompatibleKeys(NamedTuple):
    """The names that `load_state_dict` did not find, and those that it did not use."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"

    def __str__(self) -> str:
        return repr(self)


@restore_on_failure
def load_state(module: Any, state_dict: Mapping[str, Any], strict: bool, assign: bool) -> IncompatibleKeys:
    """Implement `Module.load_state_dict`."""
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"load_state_dict(): state_dict must be a dict of names and tensors, got {state_dict!r}")
    state_dict = _through_pre_hooks(module, state_dict, strict)
    state = module._state()
    missing = [name for name in state if name not in state_dict and not _is_newer(name, state_dict)]
    unexpected = [name for name in state_dict if name not in state]
    errors = []
    if strict and unexpected:
        errors.append(f"Unexpected key(s) in state_dict: {', '.join(map(repr, unexpected))}.")
    if strict and missing:
        errors.append(f"Missing key(s) in state_dict: {', '.join(map(repr, missing))}.")
    found = {name: value for name, value in state_dict.items() if name in state}
    for name, value in found.items():
        shape, current = getattr(value, "shape", None), state[name].shape
        if shape is None or tuple(shape) != current:
            given = kind_of(value) if shape is None else list(shape)
            errors.append(f"size mismatch for {name}: the state_dict has {given}, and the module has {list(current)}.")
    if errors:
        raise RuntimeError(f"Error(s) in loading state_dict for {type(module).__name__}:\n\t" + "\n\t".join(errors))
    with no_grad():
        if assign:
            _assign(module, {name: as_tensor(value) for name, value in found.items()})
            found = {}
        for name, value in found.items():
            state[name].copy_(as_tensor(value))
    incompatible = IncompatibleKeys(missing, unexpected)
    run_hooks(module, "", "load_post", incompatible)
    return incompatible


def _through_pre_hooks(module: Any, state_dict: Mapping[str, Any], strict: bool) -> Mapping[str, Any]:
    """The dict as the hooks before loading leave a copy of it. Raises RuntimeError for what they report."""
    changed: Any = OrderedDict(state_dict)
    if hasattr(state_dict, "_metadata"):
        changed._metadata = state_dict._metadata
    reports: tuple[list[str], list[str], list[str]] = ([], [], [])
    run_hooks(module, "", "load_pre", changed, PREFIX, {}, strict, *reports)
    if reports[2]:
        raise RuntimeError(f"Error(s) in loading state_dict for {type(module).__name__}:\n\t" + "\n\t".join(reports[2]))
    return changed


def _is_newer(name: str, state_dict: Mapping[str, Any]) -> bool:
    """Whether a buffer came into modules after the version that a state dict is of: those from torch before 0.4.1, or
    without versions, need not have `num_batches_tracked`."""
    owner, _, buffer = name.rpartition(".")
    versions = getattr(state_dict, "_metadata", None) or {}
    return buffer == "num_batches_tracked" and (versions.get(owner, {}).get("version") or 1) < 2


def _assign(module: Any, values: dict[str, Tensor]) -> None:
    """Replace parameters and buffers by the given tensors, which keep their dtypes."""
    for path, value in values.items():
        owner, _, name = path.rpartition(".")
        holder = module.get_submodule(owner)
        current = getattr(holder, name)
        if isinstance(current, Parameter) and not isinstance(value, Parameter):
            value = Parameter(value, current.requires_grad)
        setattr(holder, name, value)
