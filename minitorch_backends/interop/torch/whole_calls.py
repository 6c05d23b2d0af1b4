"""Calls that torch would decompose above its dispatcher, and that our kernels take whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from inspect import signature
from types import FunctionType
from typing import Any

import torch
from torch._higher_order_ops.cond import cond_op
from torch._higher_order_ops.map import map_impl
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.while_loop import while_loop_op
from torch.autograd import forward_ad
from torch.utils import _pytree as pytree

from ...backends import precision_policy
from ...backends.operands import ATTENTION_ROLES, LAYER_ROLES, act_on
from ...nn import functional as F
from ...ops import names as ops
from ...ops.names import einsum
from .attention import take_attention
from .operands import PLAIN_TYPES, tensors_in, why_not
from .recorded import differentiable, is_parameter
from .recurrent import CELLS, LAYERS

# torch's control flow, by Python: the operators of branches and steps run and are differentiated like any others.
# Without its compiler torch computes gradients of control flow for some calls only: it traces branches into graphs,
# which must not refer to tensors from outside.


Step = Callable[..., Any]


def _take_cond(_: Any, pred: Any, true_fn: Step, false_fn: Step, operands: Sequence[Any]) -> Any:
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return NotImplemented  # a predicate of each row of a batch
    return (true_fn if pred else false_fn)(*operands)


def _take_while_loop(_: Any, cond_fn: Step, body_fn: Step, carried: Sequence[Any], additional: Sequence[Any]) -> Any:
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return NotImplemented
    before = [*carried]
    while cond_fn(*carried, *additional):
        carried = body_fn(*carried, *additional)
    unchanged = any(one is other for one, other in zip(before, carried, strict=True))
    return pytree.tree_map_only(torch.Tensor, torch.clone, tuple(carried)) if unchanged else tuple(carried)


def _take_scan(_: Any, combine_fn: Step, init: Sequence[Any], xs: Sequence[Any], additional: Sequence[Any]) -> Any:
    carry, rows = [*init], []
    for step in zip(*(each.unbind() for each in xs), strict=True):
        found = combine_fn(*carry, *step, *additional)
        carry = [*found[: len(carry)]]
        rows.append(found[len(carry) :])
    return [*carry, *(torch.stack(each) for each in zip(*rows, strict=True))]


def _take_map(_: Any, f: Step, xs: Sequence[Any], pos_args: Sequence[Any]) -> Any:
    rows = [f(*row, *pos_args) for row in zip(*(each.unbind() for each in xs), strict=True)]
    return pytree.tree_map(lambda *each: torch.stack(each), *rows)


CONTROL_FLOW: dict[Any, Step] = {
    cond_op: _take_cond, while_loop_op: _take_while_loop, scan_op: _take_scan, map_impl: _take_map,
}  # fmt: skip


_LAYERS = ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
_PRODUCTS = ("matmul", "mm", "bmm", "addmm", "baddbmm")


def _einsum(func: Any, *args: Any) -> Any:
    """Three and more operands, whose order of contraction `backends.opt_einsum` chooses. Torch's own products of the
    pairs would run here for two."""
    operands = list(tensors_in(args))
    by_role = precision_policy.by_role and act_on(LAYER_ROLES) and any(map(is_parameter, operands))
    if (len(operands) < 3 and not by_role) or why_not(operands) is not None:
        return NotImplemented
    return differentiable(lambda *ours: einsum(*_with(args, iter(ours))), *operands)


def _linear(func: Any, *args: Any, **named: Any) -> Any:
    """A layer where nothing is differentiated, as one operator: torch would make three views and a product of it."""
    if named or torch.is_grad_enabled() or forward_ad._current_level >= 0 or torch._C._len_torch_dispatch_stack() > 1:
        return NotImplemented
    operands = args[:2] if len(args) == 3 and args[2] is None else args
    for each in operands:
        if type(each) not in PLAIN_TYPES or each.layout is not torch.strided or each.is_nested or not each.is_cpu:
            return NotImplemented
    if len(operands) not in (2, 3) or args[0].ndim < 2 or args[1].ndim != 2:
        return NotImplemented
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return NotImplemented
    with torch._C._AutoDispatchBelowAutograd():
        return func(*args)


def _with(values: Any, ours: Any) -> list[Any]:
    """The arguments with our tensors, in order, in place of torch's."""
    return [
        next(ours) if isinstance(each, torch.Tensor) else _with(each, ours) if isinstance(each, (list, tuple)) else each
        for each in values
    ]


def _by_role(ours: Callable[..., Any], positional: bool) -> Callable[..., Any]:
    """Takes a product whose operands have roles in `backends.operands`, while one has a format: those of layers by
    their place (`positional`), others where an operand is a parameter."""

    def take(func: Any, *args: Any, **named: Any) -> Any:
        if not act_on(LAYER_ROLES):
            return WHOLE_CALLS[func](func, *args, **named) if func in WHOLE_CALLS else NotImplemented
        operands = list(tensors_in((*args, *named.values())))
        if why_not(operands) is not None or not (positional or any(map(is_parameter, operands))):
            return NotImplemented

        def call(*tensors: Any) -> Any:
            left = iter(tensors)
            placed = _with(args, left)
            return ours(*placed, **dict(zip(named, _with(named.values(), left), strict=True)))

        return differentiable(call, *operands)

    return take


def _attention_with_weights(func: Any, *args: Any, **named: Any) -> Any:
    """Takes attention of several heads that returns its weights while its operands have formats: torch computes it by
    products, which have no roles. Dropout stays with torch, whose random numbers it draws."""
    given = signature(func).bind(*args, **named).arguments
    operands = {id(each): each for each in given.values() if isinstance(each, torch.Tensor)}
    draws = given.get("training", True) and given["dropout_p"]
    if not act_on(ATTENTION_ROLES) or not given.get("need_weights", True) or draws or why_not(operands.values()):
        return NotImplemented

    def call(*tensors: Any) -> Any:
        ours = dict(zip(operands, tensors, strict=True))  # the same tensor stays one: its projections are one product
        return F.multi_head_attention_forward(**{name: ours.get(id(each), each) for name, each in given.items()})

    return differentiable(call, *operands.values())


@cache
def inner_attention() -> FunctionType:
    """torch's function of nn.MultiheadAttention, whose products function modes see."""
    theirs = torch.nn.functional.multi_head_attention_forward
    seen = {**theirs.__globals__, "has_torch_function": lambda tensors: False}
    return FunctionType(theirs.__code__, seen, argdefs=theirs.__defaults__)


WHOLE_CALLS: dict[Any, Callable[..., Any]] = {
    torch.einsum: _einsum,
    torch.nn.functional.linear: _linear,
    torch.nn.functional.scaled_dot_product_attention: take_attention,
    **LAYERS,
    **CELLS,
    **CONTROL_FLOW,
}
"""By torch's function what takes its calls: it is given the function and the arguments, and returns NotImplemented for
calls that stay with torch."""

CALLS_BY_ROLE: dict[Any, Callable[..., Any]] = {
    torch.nn.functional.multi_head_attention_forward: _attention_with_weights,
    **{getattr(torch.nn.functional, name): _by_role(getattr(F, name), True) for name in _LAYERS},
    **{getattr(torch, name): _by_role(getattr(ops, name), False) for name in _PRODUCTS},
    torch.Tensor.matmul: _by_role(ops.matmul, False),
    torch.Tensor.__matmul__: _by_role(ops.matmul, False),
}
"""Calls that are taken only while formats of operands act by role."""
