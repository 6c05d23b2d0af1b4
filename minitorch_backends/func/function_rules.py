"""Rules for composite functions on a batch, where running their ops one by one would be wrong."""

from __future__ import annotations

from collections.abc import Callable
from string import ascii_letters
from typing import Any, TypeGuard

from ..tensor.tensor import Tensor
from .batched import Batched, Level, highest_level, loop_samples, physical


def is_batched(value: Any, level: Level) -> TypeGuard[Batched]:
    return isinstance(value, Batched) and value.level is level


def value_of(value: Any, level: Level) -> Any:
    return value.value if is_batched(value, level) else value


def wrap_result(result: Any, level: Level) -> Any:
    if isinstance(result, Tensor):
        return Batched.of(result, level)
    if isinstance(result, (tuple, list)):
        made = [wrap_result(each, level) for each in result]
        return type(result)(*made) if hasattr(result, "_fields") else type(result)(made)
    return result


_IMAGES = {
    **{f"{kind}{dims}d": dims + 2 for kind in ("conv", "max_pool", "avg_pool", "adaptive_avg_pool", "adaptive_max_pool")
       for dims in (1, 2, 3)},
    **{f"conv_transpose{dims}d": dims + 2 for dims in (1, 2, 3)},
}  # fmt: skip
"""Image functions that treat batch elements independently, with the number of dimensions of such a batch."""


def _fold_batch(level: Level, function: Any, args: tuple, named: dict[str, Any]) -> Any:
    """The batch and the images of each sample as one batch."""
    first: Any = args[0] if args else None
    ndim = _IMAGES.get(function.__name__)
    others = highest_level(args[1:], named)
    if ndim is None or not is_batched(first, level) or others is not None or first.ndim not in (ndim - 1, ndim):
        return NotImplemented
    value = first.value
    if first.ndim == ndim:
        value = value.reshape((level.size * first.shape[0], *first.shape[1:]))
    result = function(value, *args[1:], **named)
    if first.ndim == ndim:
        shape = level.size, first.shape[0]
        parts = result if isinstance(result, tuple) else (result,)
        parts = tuple(each.reshape((*shape, *each.shape[1:])) for each in parts)
        result = type(result)(parts) if isinstance(result, tuple) else parts[0]
    return wrap_result(result, level)


def _contract(level: Level, function: Any, args: tuple, named: dict[str, Any]) -> Any:
    """einsum with an additional letter for the batch; sample by sample if no letter is free."""
    equation, *operands = args
    operands = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (tuple, list)) else operands
    batch = next((letter for letter in ascii_letters if letter not in str(equation)), None)
    if not isinstance(equation, str) or "->" not in equation or "." in equation or batch is None:
        return loop_samples(level, function, args, named)
    terms, result = equation.split("->")
    pairs = zip(terms.split(","), operands, strict=True)
    terms = ",".join(f"{batch if is_batched(each, level) else ''}{term.strip()}" for term, each in pairs)
    values = [value_of(each, level) for each in operands]
    return Batched.of(function(f"{terms}->{batch}{result.strip()}", *values, **named), level)


def _attend(level: Level, function: Any, args: tuple, named: dict[str, Any]) -> Any:
    """Attention, whose leading dimensions are batches: of all operands, and of a mask that broadcasts behind them."""
    names = ("query", "key", "value", "attn_mask", "dropout_p")
    given = {**dict(zip(names, args, strict=False)), **named}
    operands = [given[name] for name in names[:3]]
    if len(args) > len(names) or given.get("dropout_p") or len({each.ndim for each in operands}) > 1:
        return loop_samples(level, function, args, named)
    mask: Any = given.get("attn_mask")
    most = operands[0].ndim
    if is_batched(mask, level):
        given["attn_mask"] = mask.value.reshape((level.size, *(1,) * (most - mask.ndim), *mask.shape))
    for name in names[:3]:
        given[name] = physical(given[name], level)
    return Batched.of(function(**given), level)


def _on_copies(level: Level, function: Any, args: tuple, named: dict[str, Any]) -> Any:
    """Functions of memory: each sample has its own."""
    return loop_samples(level, lambda first, *rest, **more: function(first.clone(), *rest, **more), args, named)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "as_strided": _on_copies,
    "as_strided_scatter": _on_copies,
    "einsum": _contract,
    "scaled_dot_product_attention": _attend,
}
"""Composite functions with rules of their own; others run op by op."""


def call(level: Level, function: Any, args: tuple, named: dict[str, Any]) -> Any:
    """The result of a function by its rule; NotImplemented if it runs op by op."""
    return _FUNCTIONS.get(function.__name__, _fold_batch)(level, function, args, named)
