"""Functions of ours as single nodes of torch's graph, whose gradients our engine computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...autograd import no_grad, set_grad_enabled
from ...autograd.api import grad
from ...func import jvp
from ...ops.creation.factories import zeros_like
from ...tensor.tensor import Parameter, Tensor
from .counts import counting, current_counts
from .memory import Layout, in_layout, to_ours, to_torch

Function = Callable[..., Any]
"""Of tensors of ours, to one or several of them."""


def differentiable(function: Function, *tensors: torch.Tensor, layouts: Sequence[Layout | None] = ()) -> Any:
    """`function` of torch's tensors, differentiable to any order, by vmap and by torch.func.

    The function is given tensors of ours, and returns one or a tuple. `layouts` are those of its one result and of the
    gradients of the tensors, where torch has them.
    """
    differentiated = torch.is_grad_enabled() and any(each.requires_grad for each in tensors)
    transformed = torch._C._functorch.peek_interpreter_stack() is not None
    with counting(current_counts.get()):
        found = _Recorded.apply(_Call(function, differentiated or transformed, layouts), *tensors)
    return found if len(found) > 1 else found[0]


class _Call:
    """One call of a function, with the graph that our engine keeps of it."""

    __slots__ = ("counts", "function", "layouts", "leaves", "memory", "outputs", "recording")

    def __init__(self, function: Function, recording: bool, layouts: Sequence[Layout | None] = ()) -> None:
        self.function, self.recording, self.counts = function, recording, current_counts.get()
        self.layouts = layouts
        self.leaves: list[Tensor] = []
        self.memory: list[tuple[Any, int]] = []
        self.outputs: tuple[Tensor, ...] = ()

    def run(self, tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        self.leaves = [Parameter(to_ours(each)) if is_parameter(each) else to_ours(each) for each in tensors]
        if self.recording:
            storages = [each.untyped_storage() for each in tensors]
            self.memory = [(each, each.data_ptr()) for each in storages]
        for leaf in self.leaves if self.recording else ():
            leaf.requires_grad_(leaf.is_floating_point() or leaf.is_complex())
        with set_grad_enabled(self.recording):
            found = self.function(*self.leaves)
        self.outputs = found if isinstance(found, tuple) else (found,)
        return to_torch(tuple(each.detach() for each in self.outputs), self.layouts[:1])

    def has_graph(self) -> bool:
        """Whether the graph at hand holds for the inputs: no program has resized them, as FSDP does with parameters."""
        return all(storage.data_ptr() == address for storage, address in self.memory)

    def gradients(self, needed: Sequence[bool], grads: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """The gradients of the inputs, from the graph at hand."""
        reached = [(out, to_ours(g)) for out, g in zip(self.outputs, grads, strict=True) if g is not None]
        wanted = [leaf for leaf, need in zip(self.leaves, needed, strict=True) if need]
        outputs, given = zip(*reached, strict=True)
        found = iter(grad(list(outputs), wanted, list(given), retain_graph=True, allow_unused=True))
        return [to_torch(next(found)) if need else None for need in needed]


def is_parameter(tensor: torch.Tensor) -> bool:
    """Whether flags of parameters hold for it: it is one, or a view of one."""
    either = isinstance(tensor, torch.nn.Parameter) or isinstance(tensor._base, torch.nn.Parameter)
    return either and (tensor.is_floating_point() or tensor.is_complex())


class _Recorded(torch.autograd.Function):
    @staticmethod
    def forward(call: _Call, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return call.run(tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        ctx.call = inputs[0]
        ctx.save_for_backward(*inputs[1:])
        ctx.save_for_forward(*inputs[1:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple:
        tensors, needed = ctx.saved_tensors, ctx.needs_input_grad[1:]  # torch checks their versions here
        if all(each is None for each in grads):
            return (None,) * (1 + len(tensors))
        if not torch.is_grad_enabled():
            with no_grad(), counting(ctx.call.counts):
                call = ctx.call
                if not call.has_graph():
                    call = _Call(call.function, recording=True)
                    call.run(tensors)
                found = call.gradients(needed, grads)
        else:
            with counting(ctx.call.counts):
                found = _differentiable(ctx.call.function, tensors, needed, grads)
        layouts = ctx.call.layouts[1:] or (None,) * len(found)
        return None, *map(in_layout, found, layouts)

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: torch.Tensor | None) -> tuple:
        tensors = ctx.saved_tensors
        moved = [place for place, each in enumerate(tangents) if each is not None]

        def push_forward(*given: Tensor) -> tuple[Tensor, ...]:
            def function(*those: Tensor) -> tuple[Tensor, ...]:
                inputs = list(given[: len(tensors)])
                for place, each in zip(moved, those, strict=True):
                    inputs[place] = each
                found = ctx.call.function(*inputs)
                return found if isinstance(found, tuple) else (found,)

            return tuple(jvp(function, tuple(given[place] for place in moved), tuple(given[len(tensors) :]))[1])

        with counting(ctx.call.counts):
            found = differentiable(push_forward, *tensors, *(tangents[place] for place in moved))
        return found if isinstance(found, tuple) else (found,)

    @staticmethod
    def vmap(info: Any, in_dims: tuple, call: _Call, *tensors: torch.Tensor) -> tuple:
        """One call after another: the function takes no further batch dimension."""
        rows = [
            _Recorded.apply(
                _Call(call.function, call.recording),
                *(
                    each if dim is None else each.select(dim, place)
                    for each, dim in zip(tensors, in_dims[1:], strict=True)
                ),
            )
            for place in range(info.batch_size)
        ]
        outputs = tuple(torch.stack(each) for each in zip(*rows, strict=True))
        return outputs, (0,) * len(outputs)


def _differentiable(
    function: Function, tensors: Sequence[torch.Tensor], needed: Sequence[bool], grads: Sequence[torch.Tensor | None]
) -> list[torch.Tensor | None]:
    """The gradients as a recorded function, since they are to be differentiated again."""
    arrived = [g is not None for g in grads]

    def gradients(*given: Tensor) -> tuple[Tensor, ...]:
        inputs, cotangents = given[: len(tensors)], given[len(tensors) :]
        found = function(*inputs)
        outputs = found if isinstance(found, tuple) else (found,)
        wanted = [each for each, need in zip(inputs, needed, strict=True) if need]
        reached = [out for out, here in zip(outputs, arrived, strict=True) if here]
        found = grad(reached, wanted, list(cotangents), create_graph=True, allow_unused=True)
        return tuple(zeros_like(each) if g is None else g for g, each in zip(found, wanted, strict=True))

    found = differentiable(gradients, *tensors, *(g for g in grads if g is not None))
    several = iter(found if isinstance(found, tuple) else (found,))
    return [next(several) if need else None for need in needed]
