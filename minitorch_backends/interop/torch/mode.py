"""The torch modes that run products on our kernels."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from ... import backends
from ...autograd.extras.module_scope import as_module
from ...autograd.modes import grad_mode, no_grad
from ...backends import precision_policy
from ...flags import current
from ...linalg import LinAlgError
from . import attention, convolutions, linalg, products, recurrent, whole_calls  # noqa: F401  (they fill the table)
from .compiled import refuse_compiled_code
from .counts import Counts, Left, LeftProductWarning, Product, counting, flops_of_operator
from .gradients import computed_as_kept, kept_now
from .memory import to_ours, to_torch
from .modules import Timeline, follow_torch_modules, next_node_number
from .operands import NO_FLAG, tensors_in, why_not
from .table import Entry, entry_of
from .whole_calls import INNER_ATTENTION, WHOLE_CALLS


class _Dispatch(TorchDispatchMode):
    """Below torch's autograd: computes the operators of the table."""

    def __init__(self, counts: Counts) -> None:
        super().__init__()
        self.entries: dict[Any, Entry] = {}
        self.ran: Counter[str] = Counter()
        self.counts = counts
        self.modules, self.kept = Timeline(), Timeline()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        entry = self.entries.get(func)
        if entry is None:
            entry = self.entries[func] = _entry(func)
        kwargs, why = kwargs or {}, None
        if entry.function is not None:
            tensors = list(tensors_in((*args, *kwargs.values())))
            why = why_not(tensors, entry.mixed, entry.narrow)
            if why is None:
                self.ran[str(func)] += 1
                return self._compute(entry, args, kwargs, tensors)
        elif entry.composite:  # as they arrive in inference mode
            with self:
                found = func.decompose(*args, **kwargs)
            if found is not NotImplemented:
                return found
        elif entry.product:
            why = why_not(tensors_in((*args, *kwargs.values())), narrow=True) or "this operator is not implemented here"
        found = func(*args, **kwargs)
        if why is not None:
            self.counts.leave(str(func), why, flops_of_operator(func, args, kwargs, found))
        return found

    def _compute(self, entry: Entry, args: tuple, kwargs: dict, tensors: list[torch.Tensor]) -> Any:
        """Compute an operator of the table, where it is a gradient as the forward pass has it."""
        node: Any = torch._C._current_autograd_node()
        if node is None:
            kept = kept_now()
            notes = kept is not None or self.kept.values  # a later call without flags clears an earlier record
            if notes and torch.is_grad_enabled() and any(each.requires_grad for each in tensors):
                self.kept.note(next_node_number() - 1, kept)
            with no_grad():
                return self._compute_and_count(entry, args, kwargs)
        number = node._sequence_nr()
        with _backward(self.modules.at(number)):
            return computed_as_kept(partial(self._compute_and_count, entry), node, self.kept.at(number), args, kwargs)

    def _compute_and_count(self, entry: Entry, args: tuple, kwargs: dict) -> Any:
        """Compute an operator, whose kernel calls follow from its signature, the flags and the pass."""
        signature = entry.function, current(), grad_mode.get().backward, _signature((args, kwargs))
        return self.counts.run(signature, _compute, entry, args, kwargs)


@contextmanager
def _backward(module: str | None) -> Iterator[None]:
    """Compute as a backward pass of ours does, for a module."""
    token = grad_mode.set(grad_mode.get().of_pass(False))
    try:
        with as_module(module):
            yield
    finally:
        grad_mode.reset(token)


def _entry(func: Any) -> Entry:
    if isinstance(func, torch._ops.OpOverload):
        return entry_of(func)
    return Entry(None, False, False, False, (), False, False, False)  # a higher-order operator


def _ours(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return to_ours(value)
    return [_ours(each) for each in value] if isinstance(value, (list, tuple)) else value


def _signature(value: Any) -> Any:
    """A hashable description of arguments, in which tensors are their shape and dtype."""
    if isinstance(value, torch.Tensor):
        return value.shape, value.dtype
    if isinstance(value, (list, tuple)):
        return tuple(map(_signature, value))
    if isinstance(value, dict):
        return tuple((name, _signature(each)) for name, each in value.items())
    return value if value.__hash__ is not None else str(value)


def _compute(entry: Entry, args: tuple, kwargs: dict) -> Any:
    """Compute an operator of the table, and write the result where `out=` and in-place forms have it."""
    outputs = [kwargs[name] for name in entry.outputs]
    given = {name: value for name, value in kwargs.items() if name not in entry.outputs}
    if entry.converted:
        positional, given = [_ours(each) for each in args], {name: _ours(value) for name, value in given.items()}
    else:
        positional = list(args)
    try:
        found = to_torch(entry.function(*positional, **given))  # type: ignore[misc]
    except LinAlgError as error:
        raise torch.linalg.LinAlgError(*error.args) from None
    if entry.in_place:
        return args[0].copy_(found)
    if not outputs:
        return found
    for out, each in zip(outputs, found if isinstance(found, tuple) else (found,), strict=True):
        if out.shape != each.shape:
            out.resize_(each.shape)
        out.copy_(each)
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _is_checkpointed() -> bool:
    """Whether saved tensors pass through hooks, as in checkpoints. They repeat calls in a backward pass, where torch
    disables function modes, and expect the same nodes. Calls are therefore decomposed in both."""
    return torch._C._autograd._top_saved_tensors_default_hooks(True) is not None


class _WholeCalls(TorchFunctionMode):
    """A function mode above torch's autograd: takes the calls that torch would decompose."""

    def __init__(self, ran: Counter[str], counts: Counts) -> None:
        super().__init__()
        self.ran, self.counts = ran, counts

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        take: Callable[..., Any] | None = WHOLE_CALLS.get(func)
        if take is not None and not _is_checkpointed():
            with counting(self.counts):
                found = take(func, *args, **(kwargs or {}))
            if found is not NotImplemented:
                self.ran[f"torch.{func.__name__}"] += 1
                return found
        if func is torch.nn.functional.multi_head_attention_forward and precision_policy.by_role:
            with self:  # the mode is off inside of a function that it is asked about, and its layers have roles
                return INNER_ATTENTION(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


class Emulation:
    """What `emulate` computes: which products ran here, and which stayed with torch.

    Attributes:
        counts: both, to be merged with those of other blocks and processes.
    """

    def __init__(self, counts: Counts | None = None) -> None:
        self.counts = Counts() if counts is None else counts
        self._dispatch = _Dispatch(self.counts)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Emulate under the current flags while the block runs, without a warning at its end."""
        with ExitStack() as scopes:
            scopes.enter_context(refuse_compiled_code())
            scopes.enter_context(follow_torch_modules(self._dispatch.modules))
            scopes.enter_context(_WholeCalls(self._dispatch.ran, self.counts))
            scopes.enter_context(self._dispatch)
            yield

    @property
    def ran(self) -> dict[str, int]:
        """The number of calls of each operator that ran on our kernels."""
        return dict(self._dispatch.ran)

    @property
    def products(self) -> list[Product]:
        """The kernel calls that ran, by kernel and precision, most operations first."""
        return self.counts.products

    @property
    def left(self) -> list[Left]:
        """The products that torch computed itself, and why."""
        return self.counts.left


@contextmanager
def emulate(**flags: Any) -> Iterator[Emulation]:
    """Run the products of torch tensors on our kernels while the block runs, under `flags` (as for `backends.flags`) or
    the current ones.

    This covers matrix products, convolutions, attention, recurrent layers, einsum and linear algebra of CPU tensors in
    float32, complex64, bfloat16 and float16, forward and backward, and matrix products of 8-bit floats. The block
    affects its own thread only. `explain` records the calls, with the names of torch's modules. Functions from
    `torch.compile` run uncompiled inside; AOTInductor packages raise RuntimeError.

    At the end of the block one `LeftProductWarning` names the products that flags would affect but torch computed.
    """
    emulation = Emulation()
    with backends.flags(**flags), emulation.scope():
        yield emulation
    left = [each for each in emulation.left if not each.why.startswith(NO_FLAG)]
    if left:
        listed = "; ".join(map(str, left))
        warnings.warn(f"emulate(): torch computed these products itself: {listed}", LeftProductWarning, stacklevel=3)
