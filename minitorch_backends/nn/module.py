"""Module: parameters, buffers and submodules, held as attributes.

Parameters are the attributes of type `Parameter`, children those of type `Module`, in order of assignment. They are
read from the attributes each time, without a second registry, so attribute access has its normal cost, and a subclass
need not call `super().__init__()`. Only buffers, which are plain tensors, are registered by name.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

from ..autograd.extras import module_scope
from ..autograd.hooks import RemovableHandle
from ..kernels.runtime.context import restore_on_failure
from ..ops.creation.factories import zeros, zeros_like
from ..random import rewinding
from ..tensor.dtypes import bfloat16, float16, float32, float64
from ..tensor.memory import refuse_device
from ..tensor.tensor import Parameter, Tensor, kind_of
from .argument_errors import name_bad_arguments, name_bad_arguments_of_methods
from .module_internals import PREFIX, IncompatibleKeys, ModuleHooks, ModuleInternals, load_state, run_hooks
from .parameter import Buffer


@name_bad_arguments_of_methods
class Module(ModuleInternals):
    """The base of all layers and models: define `forward`, and assign parameters and other modules as attributes."""

    training: bool = True
    _version: int = 1
    """The version of the module's own part of a state dict, as in torch."""
    _hooks: ModuleHooks | None = None
    _persistence: Mapping[str, bool] = {}
    """For each buffer, whether it is part of the state dict."""
    _empty: frozenset[str] = frozenset()
    """The names of parameters that are None."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        name_bad_arguments(cls, rewinding)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What calling the module computes; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__} has no forward; define forward(self, ...)")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._hooks is None and not module_scope.following:
            return self.forward(*args, **kwargs)
        return self._call_in_scopes(args, kwargs)

    @restore_on_failure
    def _call_in_scopes(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with module_scope.enter(self):
            out = self.forward(*args, **kwargs) if self._hooks is None else self._hooks.call(self, args, kwargs)
            return module_scope.note_output(self, out)

    # Hooks

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before each forward. A result other than None replaces the arguments.

        With `with_kwargs` it is `hook(module, args, kwargs)`, and returns both. `prepend` puts it before the others.
        """
        return self._add_hook("before", (hook, with_kwargs), prepend)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after each forward. A result other than None replaces the output.

        With `with_kwargs` it is `hook(module, args, kwargs, output)`. `prepend` puts it before the others.
        """
        return self._add_hook("after", (hook, with_kwargs), prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_output)` with the output gradients; a result other than None replaces them."""
        return self._add_hook("backward_pre", hook, prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` with the gradients of the positional arguments and the outputs,
        tuples with None for missing ones. A result other than None replaces `grad_input`."""
        return self._add_hook("backward", hook, prepend)

    # Attributes

    def __setattr__(self, name: str, value: Any) -> None:
        held = vars(self).get(name)
        is_parameter = isinstance(held, Parameter) or name in self._empty
        if value is not None and not isinstance(value, (Parameter, Module)):
            if is_parameter:
                values = f"Write its values with {name}.copy_(...) under no_grad()"
                raise TypeError(
                    f"cannot assign {kind_of(value)} as parameter {name!r}; expected a Parameter or None. "
                    f"{'Make one with nn.Parameter(...)' if held is None else values}, or del it first"
                )
            if isinstance(held, Module):
                raise TypeError(
                    f"cannot assign {kind_of(value)} as child module {name!r}; expected a Module or None, or del "
                    "it first"
                )
            if name in self._persistence and not isinstance(value, Tensor):
                raise TypeError(f"cannot assign {kind_of(value)} as buffer {name!r}; expected a Tensor or None")
            if isinstance(value, Buffer):
                persistent = getattr(value, "persistent", True)  # unset in copies
                object.__setattr__(self, "_persistence", {**self._persistence, name: persistent})
        elif value is not None:
            self._forget(name)
        elif is_parameter:
            object.__setattr__(self, "_empty", self._empty | {name})
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        self._forget(name)

    def _forget(self, name: str) -> None:
        """That the name is one of a buffer, or of a parameter that is None."""
        if name in self._persistence:
            kept = {each: persistent for each, persistent in self._persistence.items() if each != name}
            object.__setattr__(self, "_persistence", kept)
        if name in self._empty:
            object.__setattr__(self, "_empty", self._empty - {name})

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Assign a parameter as attribute `name`; None holds its place. Raises TypeError for anything else."""
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(f"cannot register {kind_of(param)} as parameter {name!r}; expected a Parameter or None")
        self._refuse_name(name)
        setattr(self, name, param)
        if param is None:
            object.__setattr__(self, "_empty", self._empty | {name})

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Assign a tensor that is state but not learned. `persistent=False` leaves it out of the state dict. Raises
        TypeError for anything but a tensor or None."""
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"cannot register {kind_of(tensor)} as buffer {name!r}; expected a Tensor or None")
        if name not in self._persistence:
            self._refuse_name(name)
        object.__setattr__(self, "_persistence", {**self._persistence, name: persistent})
        setattr(self, name, tensor)

    def add_module(self, name: str, module: Module | None) -> None:
        """Assign a child as attribute `name`, which need not be an identifier. Raises TypeError for anything but a
        module or None."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"cannot add {type(module).__name__} as module {name!r}; expected a Module or None")
        self._refuse_name(name)
        setattr(self, name, module)

    register_module = add_module

    def _refuse_name(self, name: str) -> None:
        if not isinstance(name, str) or not name or "." in name:
            raise KeyError(f"names of parameters, buffers and modules are strings without dots, got {name!r}")
        if hasattr(self, name) and not isinstance(getattr(self, name), (Parameter, Module, type(None))):
            raise KeyError(f"attribute {name!r} already exists in {type(self).__name__}; choose another name")

    # Parameters, buffers and submodules

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules that are attributes of this one, with their names."""
        seen = set()
        for name, value in vars(self).items():
            if isinstance(value, Module) and value not in seen:
                seen.add(value)
                yield name, value

    def children(self) -> Iterator[Module]:
        """The modules that are attributes of this one."""
        return (module for _, module in self.named_children())

    def named_modules(self, memo: set[Module] | None = None, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all below it, each once, with their dotted names."""
        memo = set() if memo is None else memo
        if self not in memo:
            memo.add(self)
            yield prefix, self
            for name, value in list(vars(self).items()):
                if isinstance(value, Module):
                    yield from value.named_modules(memo, join_name(prefix, name))

    def modules(self) -> Iterator[Module]:
        """This module and all below it, each once."""
        return (module for _, module in self.named_modules())

    def named_parameters(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Parameter]]:
        """The parameters with their dotted names, each once; with `recurse=False` only this module's own."""
        return self._named_members(Module._own_parameters, prefix, recurse)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, each once, in the order of `named_parameters`."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Tensor]]:
        """The buffers with their dotted names, each once."""
        return self._named_members(Module._own_buffers, prefix, recurse)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers, each once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Module:
        """The module with the dotted name `target`. Raises AttributeError if it does not exist."""
        module: Any = self
        for name in filter(None, target.split(".")):
            module = vars(module).get(name)
            if not isinstance(module, Module):
                raise AttributeError(f"{type(self).__name__} has no module {target!r}; named_modules() lists them")
        return module

    def get_parameter(self, target: str) -> Parameter:
        """The parameter with the dotted name `target`. Raises AttributeError if it does not exist."""
        return self._named_attribute(target, Module._own_parameters, "parameter")

    def get_buffer(self, target: str) -> Tensor:
        """The buffer with the dotted name `target`. Raises AttributeError if it does not exist."""
        return self._named_attribute(target, Module._own_buffers, "buffer")

    def _named_attribute(self, target: str, own: Callable[[Module], dict[str, Any]], kind: str) -> Any:
        path, _, name = target.rpartition(".")
        held = own(self.get_submodule(path))
        if name not in held:
            raise AttributeError(f"{type(self).__name__} has no {kind} {target!r}; named_{kind}s() lists them")
        return held[name]

    def _own_parameters(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if isinstance(value, Parameter)}

    def _own_tensors(self) -> dict[str, Any]:
        """The parameters and buffers of this module itself, by the names of its attributes."""
        return self._own_parameters() | self._own_buffers()

    def _own_buffers(self) -> dict[str, Any]:
        return {name: value for name in self._persistence if (value := vars(self).get(name)) is not None}

    def _named_members(
        self, own: Callable[[Module], dict[str, Any]], prefix: str, recurse: bool
    ) -> Iterator[tuple[str, Any]]:
        seen = set()
        for path, module in self.named_modules(prefix=prefix) if recurse else [(prefix, self)]:
            for name, value in own(module).items():
                if value not in seen:
                    seen.add(value)
                    yield join_name(path, name), value

    # State

    def state_dict(
        self, *, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> OrderedDict[str, Tensor]:
        """Parameters and persistent buffers by dotted name: detached, unless `keep_vars`, sharing the module's memory.

        They are put into `destination`, if it is given. Its attribute `_metadata` has the version of each module.
        Raises TypeError for a destination other than a dict.
        """
        if not isinstance(destination, dict | None):
            raise TypeError(f"state_dict(): argument 'destination' must be dict, not {type(destination).__name__}")
        state: Any = OrderedDict() if destination is None else destination
        run_hooks(self, prefix, "state_pre", PREFIX, keep_vars)
        versions = getattr(state, "_metadata", OrderedDict())
        versions.update((path, {"version": each._version}) for path, each in self._all_modules(prefix.rstrip(".")))
        if isinstance(state, OrderedDict):
            state._metadata = versions  # type: ignore[attr-defined]
        for name, each in self._state(prefix).items():
            state[name] = each if keep_vars else each.detach()
        run_hooks(self, prefix, "state_post", state, PREFIX, {})
        return state

    def _all_modules(self, path: str) -> Iterator[tuple[str, Module]]:
        """This module and all below it, as often as they are held, with their dotted names."""
        yield path, self
        for name, value in vars(self).items():
            if isinstance(value, Module):
                yield from value._all_modules(join_name(path, name))

    def _state(self, prefix: str = "") -> dict[str, Tensor]:
        state = {prefix + name: value for name, value in self._own_parameters().items()}
        state |= {prefix + name: value for name, value in self._own_buffers().items() if self._persistence[name]}
        for name, value in vars(self).items():
            if isinstance(value, Module):
                state |= value._state(f"{prefix}{name}.")
        return state

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy values into parameters and buffers by dotted name, or with `assign` put them in their place. Returns
        the names missing and unexpected.

        Raises RuntimeError, before anything is copied, where shapes differ, or (when `strict`) names do.
        """
        return load_state(self, state_dict, strict, assign)

    # Everything below

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call `fn` with every module, children first."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def train(self, mode: bool = True) -> Self:
        """Put this module and all below it in training mode, or in evaluation mode. Raises ValueError for a mode other
        than a bool."""
        if not isinstance(mode, bool):
            raise ValueError(f"training mode is expected to be True or False, got {mode!r}")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self) -> Self:
        """train(False)."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Let all parameters require gradients, or none."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or fill them with zeros."""
        for parameter in self.parameters():
            clear_grad(parameter, set_to_none)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Convert floating parameters and buffers in place, with the arguments of `Tensor.to`; integers stay. Raises
        TypeError for a dtype of integers, and for `out`."""
        if "out" in kwargs:
            raise TypeError("to() got an unexpected keyword argument 'out'; it writes into the module itself")
        shaped = kwargs if kwargs.get("memory_format") is None else kwargs | {"memory_format": None}
        sample = zeros(()).to(*args, **shaped)
        if not (sample.is_floating_point() or sample.is_complex()):
            raise TypeError(f"Module.to only accepts floating point or complex dtypes, got {sample.dtype!r}")

        def convert(tensor: Any) -> Any:
            options = kwargs if tensor.ndim in (4, 5) else shaped
            return tensor.to(*args, **options) if tensor.is_floating_point() or tensor.is_complex() else tensor

        return self._convert(convert)

    def share_memory(self) -> Self:
        """Call `Tensor.share_memory_` on all parameters and buffers."""
        for each in (*self.parameters(), *self.buffers()):
            each.share_memory_()
        return self

    def cpu(self) -> Self:
        """The module itself, which is on the CPU already."""
        return self

    def cuda(self, device: Any = None) -> Self:
        """Raises AssertionError, as torch without CUDA does: modules are on the CPU."""
        refuse_device("cuda" if device is None else device)
        return self

    def type(self, dst_type: Any) -> Self:
        """Convert all parameters and buffers to a dtype, in place."""
        return self._convert(lambda tensor: tensor.type(dst_type))

    def float(self) -> Self:
        """Convert floating parameters and buffers to float32."""
        return self._convert(lambda tensor: tensor.to(float32) if tensor.is_floating_point() else tensor)

    def double(self) -> Self:
        """Convert floating parameters and buffers to float64."""
        return self._convert(lambda tensor: tensor.to(float64) if tensor.is_floating_point() else tensor)

    def half(self) -> Self:
        """Convert floating parameters and buffers to float16."""
        return self._convert(lambda tensor: tensor.to(float16) if tensor.is_floating_point() else tensor)

    def bfloat16(self) -> Self:
        """Convert floating parameters and buffers to bfloat16."""
        return self._convert(lambda tensor: tensor.to(bfloat16) if tensor.is_floating_point() else tensor)

    def _convert(self, convert: Callable[[Any], Any]) -> Self:
        held: list[Any] = [*self.parameters(), *self.buffers()]
        for each in held:
            gradient, each.grad = each.grad, None
            each.data = convert(each.data)
            if gradient is not None:
                each.grad = convert(gradient)
        return self

    # Text

    def extra_repr(self) -> str:
        """The text between the parentheses of the repr; subclasses define it."""
        return ""

    def __repr__(self) -> str:
        return _tree(self, [(name, repr(value)) for name, value in vars(self).items() if isinstance(value, Module)])


def clear_grad(tensor: Any, set_to_none: bool) -> None:
    """Forget the gradient of a tensor, or write zeros to it; one that has a graph is left to that, and replaced."""
    if tensor.grad is None or set_to_none:
        tensor.grad = None
    elif tensor.grad.requires_grad:
        tensor.grad = zeros_like(tensor.grad)
    else:
        tensor.grad.zero_()


def join_name(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def _tree(module: Module, children: list[tuple[str, str]]) -> str:
    """The repr of a module over those of its children, given with their names."""
    lines = [f"({name}): {text}".replace("\n", "\n  ") for name, text in children]
    inner = module.extra_repr()
    if lines:
        inner = "".join(f"\n  {line}" for line in ([inner] if inner else []) + lines) + "\n"
    return f"{type(module).__name__}({inner})"
