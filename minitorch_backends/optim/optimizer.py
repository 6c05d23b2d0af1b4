"""What all optimisers are: groups of parameters, options, state dicts, and how a step is made.

A step writes to the arrays of the parameters and of the state, by the formulas of `kernels.arrays.updates`, and
nothing is recorded. Half types are updated in float32 and rounded once; complex numbers count as pairs of real ones,
as in torch.
"""

from __future__ import annotations

import copy
import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..autograd.hooks import RemovableHandle
from ..autograd.modes import enable_grad
from ..autograd.mutation import about_to_write, bump
from ..dispatch.promotion import refusal_of_dtype
from ..kernels.arrays import updates
from ..kernels.runtime.context import restore_on_failure
from ..nn.argument_errors import name_bad_arguments, name_bad_arguments_of_methods
from ..nn.module import clear_grad
from ..ops.creation.factories import as_tensor
from ..ops.creation.from_data import foreign_array
from ..tensor.casting import cast_unchecked
from ..tensor.tensor import Tensor, adopt, is_foreign, kind_of

Hook = Callable[..., Any]

_before_any: dict[int, Hook] = {}
_after_any: dict[int, Hook] = {}
"""Hooks that run before and after every step of any optimizer."""


def register_optimizer_step_pre_hook(hook: Hook) -> RemovableHandle:
    """Have `hook(optimizer, args, kwargs)` called before each step of every optimizer; it may return other arguments
    as (args, kwargs)."""
    return RemovableHandle(_before_any, hook)


def register_optimizer_step_post_hook(hook: Hook) -> RemovableHandle:
    """Have `hook(optimizer, args, kwargs)` called after each step of every optimizer."""
    return RemovableHandle(_after_any, hook)


def with_step_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """A method `step` that calls hooks; one that calls the `step` of its base class calls them once."""

    @functools.wraps(step)
    def step_with_hooks(self: Hooked, *args: Any, **kwargs: Any) -> Any:
        if self._stepping or not (_before_any or _after_any or self._hooks):
            return step(self, *args, **kwargs)
        self._stepping = True
        try:
            for hook in (*_before_any.values(), *self._of("step_pre").values()):
                changed = hook(self, args, kwargs)
                if changed is not None:
                    args, kwargs = changed
            result = step(self, *args, **kwargs)
            for hook in (*self._of("step_post").values(), *_after_any.values()):
                hook(self, args, kwargs)
            return result
        finally:
            self._stepping = False

    return step_with_hooks


class Hooked:
    """The methods of an optimizer that register hooks."""

    _stepping = False
    _hooks: dict[str, dict[int, Hook]] | None = None

    def _of(self, kind: str) -> dict[int, Hook]:
        return (self._hooks or {}).get(kind, {})

    def _register(self, kind: str, hook: Hook, prepend: bool = False) -> RemovableHandle:
        self._hooks = self._hooks or {}
        hooks = self._hooks.setdefault(kind, {})
        handle = RemovableHandle(hooks, hook)
        if prepend:
            others = {key: hooks.pop(key) for key in list(hooks) if key != handle.id}
            hooks.update(others)
        return handle

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Have `hook(optimizer, args, kwargs)` called before each step; it may return other arguments as
        (args, kwargs)."""
        return self._register("step_pre", hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """Have `hook(optimizer, args, kwargs)` called after each step."""
        return self._register("step_post", hook)

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Have `hook(optimizer)` called before `state_dict`; with `prepend` before the others."""
        return self._register("state_dict_pre", hook, prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` after `state_dict`. A result other than None replaces the dict."""
        return self._register("state_dict_post", hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before `load_state_dict`. A result other than None is loaded instead."""
        return self._register("load_pre", hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Have `hook(optimizer)` called after `load_state_dict`."""
        return self._register("load_post", hook, prepend)

    def _through(self, kind: str, state_dict: dict[str, Any]) -> dict[str, Any]:
        """A state dict after the hooks that may replace it."""
        for hook in self._of(kind).values():
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        return state_dict


NUMBERS = (int, float, np.number, Tensor)


class Formula(NamedTuple):
    """A formula of `updates`, its constants, and what else the state remembers."""

    function: Callable[..., tuple]
    constants: NamedTuple
    remembered: dict[str, Any]

    @classmethod
    def of(cls, function: Callable[..., tuple], constants: Any, remembered: dict) -> Formula:
        """With constants, which users may give as tensors or NumPy's numbers, as Python's floats."""
        return cls(function, constants._make(map(float, constants)), remembered)


def options_of(arguments: dict[str, Any]) -> dict[str, Any]:
    """The options among the arguments of a constructor, `locals()` at its start."""
    return {name: value for name, value in arguments.items() if name not in ("self", "params", "__class__")}


def sign_of(group: dict[str, Any]) -> int:
    """The direction of a group's steps along gradients: -1 where it maximizes."""
    return -1 if group["maximize"] else 1


@name_bad_arguments_of_methods
class Optimizer(Hooked):
    """The base of all optimizers: groups of parameters with options, and a state per parameter.

    Attributes:
        param_groups: one dict per group, with its "params" and options, which may be changed between steps.
        state: parameter -> dict of the optimizer's state.
        defaults: the options of groups that do not set their own.
        stepped: whether a step was made.

    Many parameters are updated by one launch of loops, as with torch's options `foreach` and `fused`. In a group with
    one of them False and the other not True, parameters are updated one after another, with the same bits.

    A subclass defines `_buffers` and `_formula`; or `step`, with its state in the dict `state[parameter]`.
    """

    _numbers: ClassVar[dict[str, type]] = {"step": int}
    """The numbers in the state, which torch stores as tensors."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        name_bad_arguments(cls)
        if "step" in vars(cls):
            cls.step = with_step_hooks(cls.step)  # type: ignore[method-assign]

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError("params is one Tensor; expected an iterable of Tensors or of dicts, [tensor] for example")
        if not isinstance(defaults, dict):
            raise TypeError(f"Optimizer(): argument 'defaults' must be a dict of options, got {kind_of(defaults)}")
        self.defaults, self.param_groups = defaults, []  # type: ignore[var-annotated]
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        self.stepped = False
        if not isinstance(params, Iterable):
            raise TypeError(f"params is {params!r}; expected an iterable of Tensors or of dicts, model.parameters()")
        groups = list(params)
        if not groups:
            raise ValueError("the optimizer got an empty parameter list; expected at least one parameter")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters, `{"params": [...], "lr": 0.1}`, with its own options.

        Raises TypeError or ValueError for values that are not leaf tensors, duplicate parameters, and options out of
        range.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"a param_group must be a dict with 'params', got {type(param_group).__name__}")
        if "params" not in param_group:
            raise ValueError(f"a param_group must have 'params', a list of Tensors, got {sorted(param_group)}")
        params = param_group["params"]
        if isinstance(params, (set, frozenset)):
            raise TypeError("parameters need an order that is the same each time, got a set; pass a list")
        params = [params] if isinstance(params, Tensor) else list(params)
        known = {id(each) for group in self.param_groups for each in group["params"]}
        for each in params:
            if not isinstance(each, Tensor):
                raise TypeError(f"an optimizer can only optimize Tensors, got {kind_of(each)} as a param")
            if not each.is_leaf:
                raise ValueError("can't optimize a non-leaf Tensor, which gets no .grad; pass what it was made from")
            if id(each) in known:
                raise ValueError("some parameters appear in more than one parameter group, or twice; give each once")
            known.add(id(each))
        group = self.defaults | param_group | {"params": params}
        self._check(group)
        self.param_groups.append(group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or fill them with zeros."""
        for _, parameter in self._parameters():
            clear_grad(parameter, set_to_none)

    @with_step_hooks
    @restore_on_failure
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient. A closure is called first, and its result, the loss, returned."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        self.stepped = True
        self._update()
        return loss

    def _update(self) -> None:
        """Plan all updates, with all checks before the first change, and apply them."""
        planned = [each for group in self.param_groups for each in self._plan_steps(group)]
        for _, move, _, _ in planned:
            updates.refuse_unfit(*move.arrays)
        for parameter, *_ in planned:
            about_to_write(parameter)
        try:
            updates.step([move for _, move, _, _ in planned], together=all(map(_together, self.param_groups)))
        finally:
            for parameter, *_ in planned:
                bump(parameter)
        for parameter, _, state, remembered in planned:
            state.update(remembered)
            self.state[parameter] = state

    def _parameters(self) -> Iterator[tuple[dict[str, Any], Tensor]]:
        return ((group, each) for group in self.param_groups for each in group["params"])

    # A subclass's part

    def _check(self, group: dict[str, Any]) -> None:
        """Raise ValueError for options out of range; subclasses add their own."""
        for name in ("lr", "eps", "momentum", "weight_decay", "alpha", "lr_decay", "initial_accumulator_value"):
            value = group.get(name, 0)
            if not isinstance(value, NUMBERS):
                raise TypeError(f"invalid {name}: {value!r}; expected a number that is at least 0")
            if isinstance(value, Tensor) and value.numel() != 1:
                raise ValueError(f"invalid {name}: a Tensor of {value.numel()} elements; expected one with 1")
            if not value >= 0:
                raise ValueError(f"invalid {name}: {value}; expected a number that is at least 0")
        self._check_shares(group)
        for name in ("foreach", "fused"):
            if group.get(name) not in (None, True, False):
                raise TypeError(f"invalid {name}: {group[name]!r}; expected True, False or None")
        for name in ("capturable", "differentiable"):
            if group.get(name):
                raise RuntimeError(f"{type(self).__name__}: {name} must be False, got {group[name]!r}; leave it out")
        if group.get("foreach") and group.get("fused"):
            raise RuntimeError("`fused` and `foreach` cannot be `True` together; one of them is enough")

    def _check_shares(self, group: dict[str, Any]) -> None:
        """The weights of the past."""
        rho, betas = group.get("rho", 0), group.get("betas", (0, 0))
        if not isinstance(rho, NUMBERS) or not 0 <= rho <= 1:
            raise ValueError(f"invalid rho: {rho!r}; expected a number between 0 and 1")
        if not isinstance(betas, (tuple, list)) or len(betas) != 2 or not all(isinstance(b, NUMBERS) for b in betas):
            raise TypeError(f"invalid betas: {betas!r}; expected two numbers, (0.9, 0.999) for example")
        for index, beta in enumerate(betas):
            if not 0 <= beta < 1:
                raise ValueError(
                    f"invalid beta parameter at index {index}: {beta}; expected at least 0 and less than 1"
                )

    def _buffers(self, group: dict[str, Any]) -> tuple[str | None, ...]:
        """The names of the state tensors of a parameter, in the formula's order; None for an unused one.

        They have the parameter's shape and dtype, and are zero before the first step.
        """
        raise NotImplementedError(f"{type(self).__name__} has no update; define _buffers and _formula, or step")

    def _formula(self, group: dict[str, Any], step: int, first: bool, *numbers: Any) -> Formula:
        """The update formula for parameters with the same number of steps; `first` states that the buffers are new.

        The other `numbers` of the state follow, None if they do not exist yet.
        """
        raise NotImplementedError

    def _state_shape(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of a tensor in the state of a parameter of this shape."""
        return shape

    def _plan_steps(
        self, group: dict[str, Any]
    ) -> Iterator[tuple[Tensor, updates.Move, dict[str, Any], dict[str, Any]]]:
        """For each parameter with a gradient: its update, its state, and the changes of the state."""
        names = self._buffers(group)
        present = [name for name in names if name is not None]
        wanted, nothing, formulas = set(present), dict[str, Any](), dict[tuple, Formula]()
        for parameter in group["params"]:
            gradient = parameter.grad
            if gradient is None:
                continue
            if parameter.dtype.letter in "np":
                raise refusal_of_dtype("step", parameter.dtype, "fc")
            state = self.state.get(parameter, nothing)
            first = not wanted <= state.keys()
            if first or state is nothing:
                made = {name: adopt(np.zeros_like(parameter._array)) for name in present if name not in state}
                state = {**state, **made}
            key = state.get("step", 0), first, *(state.get(name) for name in self._numbers if name != "step")
            formula = formulas.get(key) or formulas.setdefault(key, self._formula(group, *key))
            buffers = [None if name is None else state[name]._array for name in names]
            arrays = parameter._array, gradient._array, *buffers
            yield parameter, updates.Move(formula.function, arrays, formula.constants), state, formula.remembered

    # State

    def state_dict(self) -> dict[str, Any]:
        """The state and the options, with parameters numbered in the order of the groups; tensors are not copied."""
        for hook in self._of("state_dict_pre").values():
            hook(self)
        numbers = {id(parameter): number for number, (_, parameter) in enumerate(self._parameters())}
        groups = [group | {"params": [numbers[id(each)] for each in group["params"]]} for group in self.param_groups]
        states = {numbers[id(parameter)]: dict(state) for parameter, state in self.state.items()}
        return self._through("state_dict_post", {"state": states, "param_groups": groups})

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over state and options from `state_dict()` of an optimiser of as many parameters. Tensors are copied.

        Raises ValueError, before anything changes, where the groups differ in number or size, or a buffer in shape.
        """
        state_dict = self._through("load_pre", state_dict)
        if not isinstance(state_dict, dict) or not {"state", "param_groups"} <= set(state_dict):
            given = sorted(state_dict) if isinstance(state_dict, dict) else type(state_dict).__name__
            raise ValueError(f"expected a dict with 'state' and 'param_groups', as of state_dict(), got {given}")
        groups = state_dict["param_groups"]
        sizes, expected = [len(each["params"]) for each in groups], [len(each["params"]) for each in self.param_groups]
        if sizes != expected:
            raise ValueError(
                f"the loaded state dict has parameter groups of sizes {sizes}, and this optimizer {expected}; "
                "they must agree"
            )
        numbers = [number for group in groups for number in group["params"]]
        parameters = dict(zip(numbers, (parameter for _, parameter in self._parameters()), strict=True))
        own = type(self).step is not Optimizer.step  # a user's subclass, with any state
        state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        for number, values in state_dict["state"].items():
            parameter = parameters.get(number)
            if parameter is None:
                raise ValueError(
                    f"the state dict has a state for parameter {number!r}, which is in none of its groups; expected "
                    f"one of {sorted(parameters)}"
                )
            state[parameter] = copy.deepcopy(values) if own else self._load_parameter_state(values, parameter)
        for group, given in zip(self.param_groups, groups, strict=True):
            group.update({name: _option(value) for name, value in given.items() if name != "params"})
        self.state = state
        for hook in self._of("load_post").values():
            hook(self)

    def _load_parameter_state(self, values: dict[str, Any], parameter: Tensor) -> dict[str, Any]:
        """A parameter's state: tensors copied in its dtype, and numbers (torch keeps them in tensors)."""
        copied: dict[str, Any] = {}
        for name, value in values.items():
            if name in self._numbers:
                copied[name] = self._numbers[name](_option(value))
            elif value is not None:
                array, wanted = np.array(as_tensor(value)._array), self._state_shape(name, parameter._array.shape)
                if array.shape != wanted:
                    raise ValueError(
                        f"the loaded {name} has the shape {list(array.shape)}, and its "
                        f"parameter {list(wanted)}; load the state of an optimizer of the same parameters"
                    )
                copied[name] = adopt(cast_unchecked(array, parameter._array.dtype))
        return copied

    def __repr__(self) -> str:
        lines = []
        for number, group in enumerate(self.param_groups):
            lines += [
                f"Parameter Group {number}",
                *(f"    {name}: {group[name]}" for name in sorted(group) if name != "params"),
            ]
        return "\n".join([f"{type(self).__name__} (", *lines, ")"])


def _option(value: Any) -> Any:
    """A copy of an option of a group; a number that another library keeps in a tensor is a number."""
    return foreign_array(value).item() if is_foreign(value) else copy.deepcopy(value)


def _together(group: dict[str, Any]) -> bool:
    """Whether a group is updated by one launch: unless one option is False and the other not True."""
    wanted = {group.get("foreach"), group.get("fused")}
    return True in wanted or False not in wanted
