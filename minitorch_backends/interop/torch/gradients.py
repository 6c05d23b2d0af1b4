"""The flags of the forward pass that hold for gradients, where torch's engine computes these.

Torch's engine calls plain products. Which gradient one of them is follows from its node: the product that reads what
the node saved of one factor is the gradient of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, NamedTuple

import torch

from ... import backends
from ...flags import current, snapshot
from ...flags.rows import NO_OPINION


class Kept(NamedTuple):
    """The flags that a forward call records for its gradients.

    Attributes:
        flags: all of them, under `backward_precision = "recorded"`.
        input: the precision of the gradients of inputs, or "none".
        weight: that of the gradients of parameters.
    """

    flags: AbstractContextManager[Any] | None
    input: str
    weight: str


def kept_now() -> Kept | None:
    """The record for a call under the current flags; None if nothing is recorded."""
    read = current().read
    flags = snapshot() if read("backward_precision") == "recorded" else None
    found = Kept(flags, read("input_gradient_precision"), read("weight_gradient_precision"))
    return None if found == (None, NO_OPINION, NO_OPINION) else found


_FACTORS = {
    "AddbmmBackward0": ("batch1", "batch2"), "AddmmBackward0": ("mat1", "mat2"), "AddmvBackward0": ("mat", "vec"),
    "BaddbmmBackward0": ("batch1", "batch2"), "BmmBackward0": ("self", "mat2"), "DotBackward0": ("self", "tensor"),
    "GroupedMmBackward0": ("self", "mat2"), "MmBackward0": ("self", "mat2"), "MvBackward0": ("self", "vec"),
}  # fmt: skip
"""What nodes of torch's graph call the two factors of their product, which are their last inputs."""

_VIEWS = frozenset(
    f"{name}Backward0" for name in ("Expand", "Permute", "Squeeze", "T", "Transpose", "Unsqueeze", "UnsafeView", "View")
)


def computed_as_kept(
    compute: Callable[[tuple, dict], Any], node: Any, kept: Kept | None, args: tuple, kwargs: dict
) -> Any:
    """Call `compute`, an operator for a node's gradient, under the flags that the forward pass recorded."""
    if kept is None:
        return compute(args, kwargs)
    with ExitStack() as scopes:
        if kept.flags is not None and current().read("backward_precision") == "recorded":
            scopes.enter_context(kept.flags)
        inputs = [function for function, _ in node.next_functions]
        if node.name() == "ConvolutionBackward0" and kept.input != kept.weight and isinstance(args[-1], (list, tuple)):
            return _both_of_convolution(compute, inputs, kept, args, kwargs)
        scopes.enter_context(_precision(kept, _differentiated_input(node, inputs, args)))
        return compute(args, kwargs)


def _precision(kept: Kept, differentiated: Any) -> AbstractContextManager[Any]:
    """The scope of the gradient of an input of a node."""
    precision = kept.weight if _is_parameter(differentiated) else kept.input
    return nullcontext() if precision == NO_OPINION else backends.flags(backward_precision=precision)


def _is_parameter(node: Any) -> bool:
    """Whether a node of torch's graph is a parameter, or a view of one."""
    while node is not None and node.name() in _VIEWS and len(node.next_functions) == 1:
        node = node.next_functions[0][0]
    return isinstance(getattr(node, "variable", None), torch.nn.Parameter)


def _differentiated_input(node: Any, inputs: Sequence[Any], args: tuple) -> Any:
    """The input of a node whose gradient a product of these operands is; None if that is unknown."""
    factors = _FACTORS.get(node.name())
    if factors is None:
        return None
    memory = {each.untyped_storage().data_ptr() for each in args if isinstance(each, torch.Tensor)}
    for factor, other in zip(factors, inputs[:-3:-1], strict=True):
        saved = getattr(node, f"_saved_{factor}", None)
        if saved is not None and saved.untyped_storage().data_ptr() in memory:
            return other
    return None


def _both_of_convolution(
    compute: Callable[[tuple, dict], Any], inputs: Sequence[Any], kept: Kept, args: tuple, kwargs: dict
) -> tuple[Any, ...]:
    """The gradients of the input and of the weight, by a call each."""
    *first, (of_input, of_weight, of_bias) = args
    found: list[Any] = [None, None, None]
    for place, needed in enumerate([(of_input, False, False), (False, of_weight, of_bias)]):
        if any(needed):
            with _precision(kept, inputs[place]):
                parts = compute((*first, needed), kwargs)
            found = [new if wanted else old for new, old, wanted in zip(parts, found, needed, strict=True)]
    return tuple(found)
