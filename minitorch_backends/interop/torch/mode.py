"""The torch modes that run products on our kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from threading import get_ident
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from ... import backends
from ...autograd.extras import module_scope
from ...autograd.extras.module_scope import as_module
from ...autograd.modes import grad_mode, no_grad
from ...backends import precision_policy
from ...backends.operands import ROLES, act_on, recorded_state
from ...flags import State, current
from ...flags.state import override
from ...kernels.runtime.context import warn_caller
from ...linalg import LinAlgError
from ...tensor.tensor import adopt
from . import attention, convolutions, linalg, products, recurrent, whole_calls  # noqa: F401  (they fill the table)
from .compiled import run_uncompiled
from .counts import Again, Counts, Left, LeftProductWarning, Product, counting, current_counts, flops_of_operator
from .gradients import Kept, computed_as_kept, kept_now
from .memory import in_torch_memory, layouts_of, to_array, to_ours, to_torch
from .modules import Timeline, follow_torch_modules, next_node_number
from .operands import NO_DISPATCH, NO_FLAG, SPARSE, TRACED, is_traced, tensors_in, why_not
from .patches import inherit, inherits, pad_as_torch
from .programs import run_parts_as_calls
from .table import Entry, entry_of
from .weights import FromKept, computed_from_kept, forget_written, keep_weights
from .whole_calls import CALLS_BY_ROLE, WHOLE_CALLS, inner_attention

_CONTROL_FLOW = frozenset({"associative_scan", "cond", "map_impl", "scan", "switch", "while_loop"})
"""Higher-order operators that compute by their arguments alone, and must find no mode."""

_RESIZED = "An output with one or more elements was resized since it had shape {}, which does not match {}"

_KEPT_NOTES = 1 << 17
"""The number of changes of recorded flags that are remembered for nodes of torch's graph."""


class _Dispatch(TorchDispatchMode):
    """Below torch's autograd: computes the operators of the table, in one thread."""

    supports_higher_order_operators = True

    def __init__(self, emulation: Emulation) -> None:
        super().__init__()
        self.emulation, self.counts, self.ran = emulation, emulation.counts, emulation._ran
        self.entries: dict[int, Entry] = {}
        """By the operators' ids: hashing an operator takes ten times as long."""
        self.modules, self.kept = Timeline(), Timeline()
        self.thread, self.override = get_ident(), override.get()
        self.seen: tuple[State | None, Kept | None] = (None, None)
        self.taken = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # its wrapper takes longer than a small product; functions run uncompiled inside (`compiled`)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        entry = self.entries.get(id(func))
        if entry is None:
            entry = self.entries[id(func)] = entry_of(func)
        kwargs = kwargs or {}
        if types and any(kind.__torch_dispatch__ is not NO_DISPATCH for kind in types):
            # Subclasses compute themselves, by operators that arrive here.
            return func(*args, **kwargs) if any(map(is_traced, types)) else NotImplemented
        if entry.writes:
            forget_written(args, kwargs)
        if entry.plain or not self.emulation.is_open:
            return _in_torch(func, args, kwargs)
        if entry.function is not None and not torch._C._len_torch_dispatch_stack():
            found = self._repeat(func, args, kwargs)
            if found is not NotImplemented:
                self.taken += 1
                self.ran[func] += 1
                return found
        if torch._C._len_torch_dispatch_stack() and is_traced():
            return self._leave(func, args, kwargs, TRACED, entry)
        if entry.function is None and not entry.product:
            return self._inside(func, args, kwargs, entry)
        tensors = list(tensors_in((*args, *kwargs.values())))
        why = why_not(tensors, entry.mixed, entry.narrow)
        if why is None and entry.function is not None:
            self.taken += 1
            self.ran[func] += 1
            return self._compute(func, entry, args, kwargs, tensors)
        if entry.function is not None and any(each.layout is torch._mkldnn for each in tensors):
            return self._in_dense_memory(func, args, kwargs)
        if not entry.inside and not any(each.is_nested for each in tensors):
            return self._leave(func, args, kwargs, why or "this operator is not implemented here", entry)
        if why is not None and why.startswith((NO_FLAG, SPARSE)) and not entry.composite:
            return self._leave(func, args, kwargs, why, entry)
        before = self.taken
        found = self._inside(func, args, kwargs, entry)
        if self.taken == before and not entry.composite:
            self._count(func, args, kwargs, found, why or "this operator is not implemented here")
        return found

    def _inside(self, func: Any, args: tuple, kwargs: dict, entry: Entry) -> Any:
        """Run torch's implementation of an operator, whose own operators arrive here."""
        if entry.higher_order and func.name() in _CONTROL_FLOW:
            return func(*(partial(self._call, each) if callable(each) else each for each in args), **kwargs)
        with self:
            if entry.higher_order:
                return func.dispatch(torch._C.DispatchKey.CPU, *args, **kwargs)
            tensors = list(tensors_in((*args, *kwargs.values())))
            if entry.composite and not any(each.is_nested for each in tensors):
                found = func.decompose(*args, **kwargs)
                if found is not NotImplemented:
                    return found
            return func.redispatch(_backend_keys(tensors), *args, **kwargs)

    def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        with self:
            return function(*args)

    def _leave(self, func: Any, args: tuple, kwargs: dict, why: str, entry: Entry) -> Any:
        """Run an operator in torch."""
        found = _in_torch(func, args, kwargs)
        if entry.product and not entry.composite:
            self._count(func, args, kwargs, found, why)
        return found

    def _count(self, func: Any, args: tuple, kwargs: dict, found: Any, why: str) -> None:
        """Count an operator that stayed with torch, unless its tensors have no values."""
        self.taken += 1  # for an operator around it, which is not counted twice
        if not any(each.device.type == "meta" or is_traced(type(each)) for each in tensors_in(args)):
            self.counts.leave(str(func), why, flops_of_operator(func, args, kwargs, found))

    def _in_dense_memory(self, func: Any, args: tuple, kwargs: dict) -> Any:
        """Compute an operator of tensors in blocks of oneDNN, and return such tensors."""

        def dense(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                return value.to_dense() if value.layout is torch._mkldnn else value
            return [dense(each) for each in value] if isinstance(value, (list, tuple)) else value

        with self:
            found = func(*map(dense, args), **{name: dense(each) for name, each in kwargs.items()})
            blocked = tuple(each.to_mkldnn() for each in (found if isinstance(found, tuple) else (found,)))
        return blocked if isinstance(found, tuple) else blocked[0]

    def _repeat(self, func: Any, args: tuple, kwargs: dict) -> Any:
        """Make the call that an earlier one of this signature prepared; NotImplemented without one, or where
        modules, formats by role or recorded flags determine more than a signature does."""
        special = module_scope.following or self.kept.values or _may_act_by_role()
        if special or get_ident() != self.thread or self._kept_now() is not None:
            return NotImplemented
        self.override = override.get()
        mode = grad_mode.get()
        backward = torch._C._current_autograd_node() is not None
        try:
            signature = _signature(func, args, kwargs, backward)
        except RuntimeError:  # nested and sparse tensors have no strides
            return NotImplemented
        token = grad_mode.set(mode.of_pass(False) if backward else mode.inner[0] or mode.inner_level(False))
        try:
            return self.counts.repeat(signature, args, kwargs)
        finally:
            grad_mode.reset(token)

    def _compute(self, func: Any, entry: Entry, args: tuple, kwargs: dict, tensors: list[torch.Tensor]) -> Any:
        """Compute an operator of the table, where it is a gradient as the forward pass has it."""
        if get_ident() == self.thread:
            self.override = override.get()
        else:  # torch's own, which goes on with deep backward passes
            override.set(self.override)
        node: Any = torch._C._current_autograd_node()
        if node is None:
            kept = self._kept_now()
            if kept != (self.kept.values[-1] if self.kept.values else None) and torch.is_grad_enabled():
                self.kept.note(next_node_number() - 1, kept)
                self.kept.forget(_KEPT_NOTES)
            with no_grad():
                return self._compute_and_count(func, entry, args, kwargs)
        number = node._sequence_nr()
        compute = partial(self._compute_and_count, func, entry)
        with _backward(self.modules.at(number)):
            return computed_as_kept(compute, node, self.kept.at(number), args, kwargs)

    def _kept_now(self) -> Kept | None:
        state = current()
        if self.seen[0] is not state:
            self.seen = state, kept_now()
        return self.seen[1]

    def _compute_and_count(self, func: Any, entry: Entry, args: tuple, kwargs: dict) -> Any:
        """Compute an operator, whose kernel calls and layouts follow from its signature, the flags and the pass."""
        signature = _signature(func, args, kwargs, grad_mode.get().backward)
        if not _may_act_by_role():
            found = self.counts.repeat(signature, args, kwargs)
            return (
                self.counts.first(signature, partial(_first, func, entry, args, kwargs))
                if found is NotImplemented
                else found
            )
        with counting(self.counts):  # formats of operands may depend on their values
            return _first(func, entry, args, kwargs)[0]


def _may_act_by_role() -> bool:
    """Whether operands have formats by role, or have those of the forward pass in gradients."""
    return precision_policy.by_role and (act_on(ROLES) or recorded_state() is not None)


def _backend_keys(tensors: list[torch.Tensor]) -> Any:
    """The dispatch keys of tensors below autograd and modes."""
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
    for each in tensors:
        keys = keys | torch._C._dispatch_keys(each)
    keys = keys & torch._C._after_autograd_keyset
    for name in ("ADInplaceOrView", "Python", "PythonTLSSnapshot"):
        keys = keys.remove(getattr(torch._C.DispatchKey, name))
    return keys


def _in_torch(func: Any, args: tuple, kwargs: dict) -> Any:
    """Run an operator in torch. Inside a mode torch excludes the keys that resolve conjugates. Kernels such as that of
    `linalg.pinv`, which conjugate lazily, would then return wrong values without an error."""
    if not any(isinstance(each, torch.Tensor) and each.is_complex() for each in args):
        return func(*args, **kwargs)
    excluded = torch._C._dispatch_tls_local_exclude_set()
    for name in ("Conjugate", "Negative"):
        excluded = excluded.remove(getattr(torch._C.DispatchKey, name))
    with torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), excluded):
        return func(*args, **kwargs)


@contextmanager
def _backward(module: str | None) -> Iterator[None]:
    """Compute as a backward pass of ours does, for a module."""
    token = grad_mode.set(grad_mode.get().of_pass(False))
    try:
        with as_module(module):
            yield
    finally:
        grad_mode.reset(token)


def _ours(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return to_ours(value)
    return [_ours(each) for each in value] if isinstance(value, (list, tuple)) else value


def _signature(func: Any, args: tuple, kwargs: dict, backward: bool) -> tuple:
    """A hashable description of a call. Tensors are their shape, strides, dtype and dispatch keys: device, layout and
    what is lazy."""
    described: list[Any] = [id(func), current(), backward]
    for each in (*args, *kwargs.items()) if kwargs else args:
        if isinstance(each, torch.Tensor):
            described += each.shape, each.stride(), each.dtype, _keys_of(each).raw_repr()
        else:
            described.append(_description(each))
    return tuple(described)


_keys_of = torch._C._dispatch_keys


def _description(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.shape, value.stride(), value.dtype, _keys_of(value).raw_repr()
    if isinstance(value, (list, tuple)):
        return tuple(map(_description, value))
    return value if value.__hash__ is not None else str(value)


def _first(func: Any, entry: Entry, args: tuple, kwargs: dict) -> tuple[Any, Again]:
    """The result of a call of the table, and the call that is made for arguments of the same signature."""
    if entry.in_place or entry.outputs:
        compute: Again = lambda args, kwargs: _write(entry, args, kwargs, to_torch(_run(entry, args, kwargs)))  # noqa: E731
        return compute(args, kwargs), compute
    found = _run(entry, args, kwargs)
    layouts = layouts_of(func, args, kwargs, found)
    run = _run if entry.again is None else _run_again
    from_kept = computed_from_kept(func, args, kwargs)
    if from_kept is not None:
        run = partial(_run_kept, from_kept, run)
    return to_torch(found, layouts), lambda args, kwargs: in_torch_memory(partial(run, entry, args, kwargs), layouts)


def _run(entry: Entry, args: tuple, kwargs: dict) -> Any:
    """The results of an operator of the table, as tensors of ours."""
    if entry.outputs:
        kwargs = {name: each for name, each in kwargs.items() if name not in entry.outputs}
    if entry.converted:
        args, kwargs = tuple(map(_ours, args)), {name: _ours(value) for name, value in kwargs.items()}
    try:
        return entry.function(*args, **kwargs)  # type: ignore[misc]
    except LinAlgError as error:
        raise torch.linalg.LinAlgError(*error.args) from None


def _run_again(entry: Entry, args: tuple, kwargs: dict) -> Any:
    """The same for a signature that was checked."""
    arrays = [to_array(each) if isinstance(each, torch.Tensor) else each for each in args]
    return adopt(entry.again(*arrays, **kwargs))  # type: ignore[misc]


def _run_kept(from_kept: FromKept, run: Callable[..., Any], entry: Entry, args: tuple, kwargs: dict) -> Any:
    """The same from a weight that was packed before, where it may be."""
    found = from_kept(args)
    return run(entry, args, kwargs) if found is None else adopt(found)


def _write(entry: Entry, args: tuple, kwargs: dict, found: Any) -> Any:
    """Write results where in-place and `out=` forms have them."""
    if entry.in_place:
        return args[0].copy_(found)
    outputs = [kwargs[name] for name in entry.outputs]
    for out, each in zip(outputs, found if isinstance(found, tuple) else (found,), strict=True):
        if not torch.can_cast(each.dtype, out.dtype):
            raise RuntimeError(f"Expected out tensor to have dtype {each.dtype}, but got {out.dtype} instead")
        if out.shape != each.shape:
            if out.numel():
                warn_caller(_RESIZED.format(tuple(out.shape), tuple(each.shape)))
            out.resize_(each.shape)
        out.copy_(each)
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _is_checkpointed() -> bool:
    """Whether saved tensors pass through hooks, as in checkpoints. They repeat calls in a backward pass, where torch
    disables function modes, and expect the same nodes. Calls are therefore decomposed in both."""
    return torch._C._autograd._top_saved_tensors_default_hooks(True) is not None


class _WholeCalls(TorchFunctionMode):
    """A function mode above torch's autograd: takes the calls that torch would decompose."""

    def __init__(self, emulation: Emulation) -> None:
        super().__init__()
        self.emulation = emulation

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        take: Callable[..., Any] | None = CALLS_BY_ROLE.get(func) if precision_policy.by_role else None
        take = take or WHOLE_CALLS.get(func)
        traced = take is not None and (is_traced() or torch.jit.is_tracing() or not self.emulation.is_open)
        if take is not None and not traced and not _is_checkpointed():
            token = current_counts.set(self.emulation.counts)
            try:
                found = take(func, *args, **(kwargs or {}))
            finally:
                current_counts.reset(token)
            if found is not NotImplemented:
                self.emulation._ran[f"torch.{func.__name__}"] += 1
                return found
        if func is torch.nn.functional.multi_head_attention_forward and precision_policy.by_role:
            with self:  # the mode is off inside of a function that it is asked about, and its layers have roles
                return inner_attention()(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


class Emulation:
    """What `emulate` computes: which products ran here, and which stayed with torch.

    Attributes:
        counts: both, to be merged with those of other blocks and processes.
        is_open: whether the block runs. Threads that outlive it compute with torch.
    """

    def __init__(self, counts: Counts | None = None) -> None:
        self._ran: Counter[Any] = Counter()
        self.counts = Counts() if counts is None else counts
        self.is_open = True
        self._dispatch: _Dispatch

    @property
    def ran(self) -> dict[str, int]:
        """The number of calls of each operator that ran on our kernels."""
        return {str(operator): count for operator, count in self._ran.items()}

    @property
    def products(self) -> list[Product]:
        """The kernel calls that ran, by kernel and precision, most operations first."""
        return self.counts.products

    @property
    def left(self) -> list[Left]:
        """The products that torch computed itself, and why."""
        return self.counts.left

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Emulate in this thread under the current flags while the block runs, without a warning at its end."""
        with ExitStack() as scopes:
            dispatch = self._dispatch = _Dispatch(self)
            if not inherits(self):  # a pool's thread outlives the block, and what holds for the process must not
                for of_process in (
                    run_uncompiled(),
                    run_parts_as_calls(),
                    pad_as_torch(),
                    keep_weights(),
                    inherit(self),
                ):
                    scopes.enter_context(of_process)
            scopes.enter_context(follow_torch_modules(dispatch.modules))
            scopes.enter_context(_WholeCalls(self))
            scopes.enter_context(dispatch)
            yield


@contextmanager
def emulate(**flags: Any) -> Iterator[Emulation]:
    """Run the products of torch tensors on our kernels while the block runs, under `flags` (as for `backends.flags`) or
    the current ones.

    This covers matrix products, convolutions, attention, recurrent layers, einsum and linear algebra of CPU tensors in
    float32, complex64, bfloat16 and float16, forward and backward, and matrix products of 8-bit floats. The block
    affects its own thread, and the threads that are started inside. `explain` records the calls, with the names of
    torch's modules. Functions from `torch.compile` run uncompiled inside; AOTInductor packages raise RuntimeError.

    At the end of the block one `LeftProductWarning` names the products that flags would affect but torch computed.
    """
    emulation = Emulation()
    with backends.flags(**flags), emulation.scope():
        try:
            yield emulation
        finally:
            emulation.is_open = False
    left = [each for each in emulation.left if not each.why.startswith(NO_FLAG)]
    if left:
        listed = "; ".join(map(str, left))
        warn_caller(f"emulate(): torch computed these products itself: {listed}", LeftProductWarning)
