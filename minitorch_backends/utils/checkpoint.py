"""Checkpointing: recompute the tensors that a function saves for backward instead of keeping them.

Method: T. Chen, B. Xu, C. Zhang, C. Guestrin (2016), "Training deep nets with sublinear memory cost", under the names
of torch.utils.checkpoint.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from ..autograd.api import backward
from ..autograd.extras.replay import Conditions
from ..autograd.extras.saved_tensors import saved_tensors_hooks
from ..autograd.function import Function
from ..flags.scopes import Scope
from ..kernels.runtime.context import restorable, restore_on_failure, warn_caller
from ..random import get_rng_state, set_rng_state
from ..tensor.tensor import Tensor

__all__ = ["CheckpointError", "checkpoint", "checkpoint_sequential", "set_checkpoint_early_stop"]

Contexts = Callable[[], tuple[Any, Any]]


class CheckpointError(RuntimeError):
    """Recomputing a function did not save the same tensors as the first run."""


_early_stop: ContextVar[tuple[bool, Any] | None] = ContextVar("checkpoint_early_stop", default=None)
"""The setting of the innermost `set_checkpoint_early_stop`, and the default."""


restorable(_early_stop)


class set_checkpoint_early_stop(Scope):
    """Make checkpoints created in the block stop early in their second run, or not, overriding their own setting.

    Raises TypeError for values other than True and False.
    """

    __slots__ = ("enable",)

    def __init__(self, enable: bool) -> None:
        if enable is not True and enable is not False:
            raise TypeError(f"set_checkpoint_early_stop(): enable must be True or False, got {enable!r}")
        self.enable = enable

    def __enter__(self) -> None:
        _early_stop.set((self.enable, _early_stop.get()))

    def __exit__(self, *exception: object) -> None:
        level = _early_stop.get()
        _early_stop.set(None if level is None else level[1])


def _no_contexts() -> tuple[Any, Any]:
    return contextlib.nullcontext(), contextlib.nullcontext()


@restore_on_failure
def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    context_fn: Contexts = _no_contexts,
    determinism_check: str = "default",
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Call `function(*args, **kwargs)` without keeping its saved tensors; backward computes them again.

    Arguments:
        use_reentrant: False saves by hooks, works with `autograd.grad`, keywords and nested structures, and recomputes
            up to the last needed tensor. True runs a backward pass inside the backward pass, for tensor arguments only.
            If omitted, it is True with a warning, as in torch.
        preserve_rng_state: use the same random numbers in the second run, and restore the generator's state after it.
        context_fn: makes two contexts, for the first run and for the second.
        determinism_check: "default" compares shapes and dtypes of the tensors saved in both runs; "none" does not.
        early_stop: end the second run with the last tensor that the first one saved.

    With use_reentrant=False backward raises RuntimeError if a tensor argument was written to since.
    """
    if use_reentrant is None:
        warn_caller(
            "use_reentrant was left out of checkpoint(): pass use_reentrant=False, which is recommended, or True"
        )
        use_reentrant = True
    if use_reentrant:
        if kwargs or context_fn is not _no_contexts:
            raise ValueError(f"checkpoint(): use_reentrant=True excludes keywords and context_fn, got {sorted(kwargs)}")
        return _Reentrant.apply(function, preserve_rng_state, *args)
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ['default', 'none'], but got {determinism_check!r}")
    first, second = context_fn()

    def run() -> Any:
        with second:
            return function(*args, **kwargs)

    if (level := _early_stop.get()) is not None:
        early_stop = level[0]
    inputs = [each for each in (*args, *kwargs.values()) if isinstance(each, Tensor)]
    frame = _Frame(run, inputs, preserve_rng_state, determinism_check == "default", early_stop)
    with saved_tensors_hooks(frame.pack, frame.unpack), first:
        return function(*args, **kwargs)


class _Enough(Exception):
    """Ends the second run: the last tensor that the first one saved has been saved again."""


class _Holder:
    """Stands for a saved tensor of a call, and holds it after recomputation as long as its node needs it."""

    __slots__ = ("__weakref__", "described", "frame", "tensor")

    def __init__(self, frame: _Frame, tensor: Tensor) -> None:
        self.frame, self.described = frame, _describe(tensor)
        self.tensor: Tensor | None = None


def _describe(tensor: Tensor) -> str:
    return f"{tensor.dtype!r}{list(tensor.shape)}"


class _Frame:
    """One checkpointed call: how to run it again, and what stands for the tensors that it saved."""

    __slots__ = ("checks", "conditions", "early_stop", "holders", "inputs", "run", "state")

    def __init__(
        self, run: Callable[[], Any], inputs: list[Tensor], preserve_rng_state: bool, checks: bool, early_stop: bool
    ) -> None:
        self.run, self.checks, self.early_stop = run, checks, early_stop
        self.inputs = [(each, each._version) for each in inputs if not each.is_inference()]
        self.conditions, self.state = Conditions(), get_rng_state() if preserve_rng_state else None
        self.holders: list[weakref.ref[_Holder]] = []

    def pack(self, tensor: Tensor) -> _Holder:
        holder = _Holder(self, tensor)
        self.holders.append(weakref.ref(holder))
        return holder

    def unpack(self, holder: _Holder) -> Tensor:
        if holder.tensor is None:
            self._fill()
        if holder.tensor is None:
            raise CheckpointError(
                f"a function saved {len(self.holders)} tensors for backward when it ran first, and fewer when it was "
                "computed "
                "again; it must do the same both times"
            )
        return holder.tensor

    @restore_on_failure
    def _fill(self) -> None:
        """Run the function again, and fill every holder. Raises RuntimeError if inputs have changed since."""
        for place, (each, version) in enumerate(self.inputs):
            if each._version != version:
                raise RuntimeError(
                    f"tensor {place} that a checkpointed function was given, {_describe(each)}, has been modified by "
                    f"an inplace operation: it is at version {each._version}; expected version {version}. Backward "
                    "computes the function again: give it a clone(), or use the out-of-place form"
                )
        saved = 0

        def keep(tensor: Tensor) -> Tensor:
            nonlocal saved
            if saved < len(self.holders):
                self._give(saved, tensor)
            saved += 1
            if self.early_stop and saved == len(self.holders):
                raise _Enough
            return tensor

        before = None if self.state is None else get_rng_state()
        try:
            if self.state is not None:
                set_rng_state(self.state)
            self.conditions.run(saved_tensors_hooks(keep, lambda tensor: tensor)(self.run))
        except _Enough:
            pass
        finally:
            if before is not None:
                set_rng_state(before)

    def _give(self, index: int, tensor: Tensor) -> None:
        holder = self.holders[index]()
        if holder is None:
            return
        if self.checks and _describe(tensor) != holder.described:
            raise CheckpointError(
                f"saved tensor {index} was {holder.described} when the function ran first, and {_describe(tensor)} "
                "when it "
                "was computed again; it must do the same both times"
            )
        holder.tensor = tensor


class _Reentrant(Function):
    """A function that keeps its arguments only, and in backward runs again, recorded, with a pass of its own."""

    @staticmethod
    def forward(ctx: Any, function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        ctx.run, ctx.conditions = function, Conditions()
        ctx.state = get_rng_state() if preserve_rng_state else None
        ctx.tensors = [index for index, each in enumerate(args) if isinstance(each, Tensor)]
        ctx.save_for_backward(*(args[index] for index in ctx.tensors))
        ctx.others = [None if isinstance(each, Tensor) else each for each in args]
        return function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        args = list(ctx.others)
        for index, saved, wanted in zip(ctx.tensors, ctx.saved_tensors, _needs_recompute(ctx), strict=True):
            args[index] = saved.detach().requires_grad_(wanted)
        before = None if ctx.state is None else get_rng_state()
        try:
            if ctx.state is not None:
                set_rng_state(ctx.state)
            outputs = ctx.conditions.run(ctx.run, *args)
        finally:
            if before is not None:
                set_rng_state(before)
        outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
        pairs = [
            (out, g) for out, g in zip(outputs, grads, strict=True) if isinstance(out, Tensor) and out.requires_grad
        ]
        if not pairs:
            raise RuntimeError(
                "none of the outputs of a checkpointed function has requires_grad=True; checkpoint has no effect"
            )
        backward([out for out, _ in pairs], [g for _, g in pairs])
        return (None, None, *(each.grad if isinstance(each, Tensor) else None for each in args))


def _needs_recompute(ctx: Any) -> list[bool]:
    return [ctx.needs_input_grad[index + 2] for index in ctx.tensors]


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """The composition of `functions` (a list of them, or an nn.Sequential) with `segments` checkpoints in it.

    The last segment is not checkpointed, since backward begins with it. See `checkpoint` for the other arguments.
    """
    steps = list(functions)
    if not 1 <= segments <= len(steps):
        raise ValueError(f"segments={segments}: expected 1 to {len(steps)}, the number of functions")
    size = len(steps) // segments

    def run_segment(start: int, stop: int) -> Callable[..., Any]:
        def run(value: Any) -> Any:
            for step in steps[start:stop]:
                value = step(value)
            return value

        return run

    last = size * (segments - 1)
    for start in range(0, last, size):
        input = checkpoint(run_segment(start, start + size), input, use_reentrant=use_reentrant, **kwargs)
    return run_segment(last, len(steps))(input)
