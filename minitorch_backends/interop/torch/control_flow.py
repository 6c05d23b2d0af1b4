"""torch's control flow, by Python: the operators of branches and steps run and are differentiated like any others.

Without its compiler torch computes gradients of control flow for some calls only: it traces branches into graphs, which
must not refer to tensors from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._higher_order_ops.cond import cond_op
from torch._higher_order_ops.map import map_impl
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.while_loop import while_loop_op
from torch.utils import _pytree as pytree

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
