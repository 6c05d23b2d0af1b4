"""Parameters and buffers computed from others by modules, at each access.

A module with a parametrized tensor `weight` gets a new class with a property `weight`. The original tensors are held by
`module.parametrizations.weight`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ...autograd.modes import no_grad
from ...dispatch.call_errors import argument_errors
from ...tensor.tensor import Parameter, Tensor
from ..container import ModuleDict, ModuleList
from ..module import Module

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
    "transfer_parametrizations_and_params", "type_before_parametrizations",
]  # fmt: skip

_values: ContextVar[dict[tuple[int, str], Any] | None] = ContextVar("parametrized_values", default=None)


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrized tensor that is read in the block once."""
    token = _values.set({} if _values.get() is None else _values.get())
    try:
        yield
    finally:
        _values.reset(token)


def _hold(module: Module, name: str, tensor: Tensor) -> None:
    """Assign a parameter, or a tensor as a buffer."""
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


class ParametrizationList(ModuleList):
    """The original of a tensor, and the modules that compute the tensor from it, one after another.

    Attributes:
        original, or original0, original1, ...: the input of the first module, computed from the tensor by the modules'
            `right_inverse` if they have one.
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList(): modules must have at least one module, got none")
        super().__init__(modules)
        self.unsafe = unsafe
        with no_grad():
            found = self._invert(original)
        self.is_tensor = isinstance(found, Tensor)
        if self.is_tensor:
            if found.dtype is not original.dtype:
                raise ValueError(f"right_inverse must keep the dtype {original.dtype!r}, got {found.dtype!r}")
            if found is not original:
                original.data = found.detach()
            self.ntensors = 1
            _hold(self, "original", original)
        else:
            if not isinstance(found, Sequence) or not all(isinstance(each, Tensor) for each in found):
                raise ValueError(f"right_inverse must return a Tensor or several, got {type(found).__name__}")
            self.ntensors = len(found)
            for number, each in enumerate(found):
                wanted = original.requires_grad
                held = Parameter(each, wanted) if isinstance(original, Parameter) else each.requires_grad_(wanted)
                _hold(self, f"original{number}", held)
        if not unsafe:
            result = self()
            if not isinstance(result, Tensor) or (result.dtype, result.shape) != (original.dtype, original.shape):
                raise ValueError(
                    f"a parametrization must give a Tensor of {original.dtype!r} and shape {list(original.shape)}, got "
                    f"{result.dtype!r} and {list(result.shape)}; pass unsafe=True to allow that"
                    if isinstance(result, Tensor)
                    else f"a parametrization must give a Tensor, got {type(result).__name__}"
                )

    def _invert(self, value: Any) -> Any:
        for module in reversed(list(self)):
            if hasattr(module, "right_inverse"):
                try:
                    value = module.right_inverse(value)
                except NotImplementedError:
                    continue  # as if it had none: its input is the tensor itself
        return value

    def _originals(self) -> list[Tensor]:
        names = ["original"] if self.is_tensor else [f"original{number}" for number in range(self.ntensors)]
        return [getattr(self, name) for name in names]

    @no_grad()
    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the tensor becomes `value`, by the modules' `right_inverse`."""
        for module in reversed(list(self)):
            if not hasattr(module, "right_inverse"):
                raise RuntimeError(f"{type(module).__name__} has no right_inverse; define it to assign to the tensor")
            value = module.right_inverse(value)
        for original, each in zip(self._originals(), [value] if self.is_tensor else value, strict=True):
            original.copy_(each)

    def forward(self) -> Any:
        first, *others = self
        value = first(*self._originals())
        for module in others:
            value = module(value)
        return value


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a tensor of the module, or any, is parametrized."""
    held = vars(module).get("parametrizations")
    return isinstance(held, ModuleDict) and (len(held) > 0 if tensor_name is None else tensor_name in held)


def type_before_parametrizations(module: Module) -> type:
    """The class that the module had before it was parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def _property(name: str) -> property:
    def read(self: Any) -> Any:
        values = _values.get()
        if values is None:
            return self.parametrizations[name]()
        key = id(self), name
        if key not in values:
            values[key] = self.parametrizations[name]()
        return values[key]

    def write(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(read, write)


@argument_errors
def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Compute a parameter or buffer by a module at each access; returns `module`.

    The original is the `right_inverse` of the present tensor, or the tensor itself. A further parametrization is
    applied after the existing ones. Raises ValueError if it changes shape or dtype, unless `unsafe`, and for a name
    that is not a parameter or buffer.
    """
    if is_parametrized(module, tensor_name):
        held = module.parametrizations[tensor_name]  # type: ignore[attr-defined]
        value = getattr(module, tensor_name)
        parametrized = parametrization(value)
        if not unsafe and (parametrized.dtype, parametrized.shape) != (value.dtype, value.shape):
            raise ValueError(
                f"a parametrization must keep {value.dtype!r} and shape {list(value.shape)}, got "
                f"{parametrized.dtype!r} and {list(parametrized.shape)}; pass unsafe=True to allow that"
            )
        held.append(parametrization)
        return module
    if tensor_name not in module._own_tensors():
        raise ValueError(
            f"{type(module).__name__} has no parameter or buffer {tensor_name!r} of its own; it has "
            f"{sorted(module._own_tensors())}"
        )
    original = getattr(module, tensor_name)
    parametrizations = ParametrizationList([parametrization], original, unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        kind = type(module)
        made = type(f"Parametrized{kind.__name__}", (kind,), {"__module__": kind.__module__})
        object.__setattr__(module, "__class__", made)
        module.parametrizations = ModuleDict()
    setattr(type(module), tensor_name, _property(tensor_name))
    module.parametrizations[tensor_name] = parametrizations  # type: ignore[attr-defined]
    return module


@argument_errors
def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Have a tensor held by the module again: with the value that is computed, or as it was before.

    Raises ValueError for a tensor that is not parametrized, and for several originals unless `leave_parametrized`.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"{type(module).__name__} has no parametrization of {tensor_name!r}")
    held = module.parametrizations[tensor_name]  # type: ignore[attr-defined]
    originals = held._originals()
    if leave_parametrized:
        with no_grad():
            value = getattr(module, tensor_name).detach().clone()
        original = originals[0] if held.is_tensor and originals[0].shape == value.shape else None
        if original is None:
            original = Parameter(value, originals[0].requires_grad)
        else:
            original.data = value
    elif held.is_tensor:
        original = originals[0]
    else:
        raise ValueError(f"{tensor_name!r} is computed from several tensors; pass leave_parametrized=True")
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]  # type: ignore[attr-defined]
    _hold(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations  # type: ignore[attr-defined]
        object.__setattr__(module, "__class__", type(module).__bases__[0])
    return module


@argument_errors
def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Copy the parametrizations of another module, all or those of one tensor, with their originals; returns
    `to_module`."""
    names = [tensor_name] if tensor_name is not None else list(from_module.parametrizations)  # type: ignore[attr-defined]
    for name in names:
        held = from_module.parametrizations[name]  # type: ignore[attr-defined]
        for module in held:
            register_parametrization(to_module, name, module, unsafe=True)
        target = to_module.parametrizations[name]  # type: ignore[attr-defined]
        with no_grad():
            for own, other in zip(target._originals(), held._originals(), strict=True):
                own.data = other.detach().clone()
    return to_module
