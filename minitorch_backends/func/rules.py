"""Rules for ops on a batch, by kinds of ops and their treatment of dimensions.

A rule takes the level, the op, the arguments by name and the tensor to write to. It returns the result with the batch
as first dimension, or NotImplemented; the op is then called once per sample.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from string import ascii_letters
from typing import Any, TypeGuard

import numpy as np

from ..dispatch.op import Op
from ..ops.dims import wrap_dim, wrap_dims
from ..ops.matmul.matmul import matmul
from ..tensor.registry import registry
from ..tensor.tensor import Tensor
from . import batched
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


def _fold_batch(level: Level, function: Any, args: tuple, named: dict[str, Any]) -> Any:
    """The batch and the images of each sample as one batch, of four dimensions for `images 4`."""
    first: Any = args[0] if args else None
    ndim = int(function.batch.split()[1])
    if not is_batched(first, level) or highest_level(args[1:], named) or first.ndim not in (ndim - 1, ndim):
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


_COMPOSITE_RULES = {"images": _fold_batch, "contract": _contract, "attend": _attend, "copies": _on_copies}
"""Rules of functions that are made of ops, by the word that one is declared with."""


def call(level: Level, function: Any, args: tuple, named: dict[str, Any]) -> Any:
    """The result of a function by its rule; NotImplemented if it runs op by op."""
    word = (getattr(function, "batch", None) or "").partition(" ")[0]
    return _COMPOSITE_RULES[word](level, function, args, named) if word else NotImplemented


Rule = Callable[[Level, Op, dict[str, Any], Any], Any]


def _call(op: Op, bound: dict[str, Any], into: Tensor | None) -> Any:
    return op.apply((), bound, into) if into is None else _write(op, bound, into)


def _write(op: Op, bound: dict[str, Any], into: Tensor) -> Any:
    others = dict(bound)
    del others[op.inputs[0]]
    return op.apply((into,), others, into)


def _tensors(op: Op, bound: dict[str, Any]) -> list[Any]:
    return [bound[name] for name in op.inputs]


def _align(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
    """Elementwise: the operands broadcast behind the batch."""
    given = {name: bound[name] for name in op.inputs if isinstance(bound[name], Tensor)}
    if op.name == "masked_fill" and is_batched(bound["value"], level):
        return NotImplemented
    most = max(each.ndim for each in given.values())
    if len({each.dtype for each in given.values()}) > 1 and any(not each.ndim for each in given.values()):
        return NotImplemented  # whether a tensor has dimensions matters for the dtype of the result
    for name, each in given.items():
        if is_batched(each, level):
            bound[name] = each.value.reshape((level.size, *(1,) * (most - each.ndim), *each.shape))
    return _call(op, bound, None if into is None else bound[op.inputs[0]])


def _along(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
    """Along a dimension, or several, which come one later; other operands have as many dimensions. Over all of them if
    `dim` is None, for a reduction."""
    tensors = _tensors(op, bound)
    ndim, dim = tensors[0].ndim, bound["dim"]
    if not ndim or any(not isinstance(each, Tensor) or each.ndim != ndim for each in tensors):
        return NotImplemented
    if dim is None or dim == () or dim == []:
        if op.batch != "reduce":
            return NotImplemented
        bound["dim"] = tuple(range(1, ndim + 1))
    else:
        shifted = tuple(each + 1 for each in wrap_dims(dim, ndim))
        bound["dim"] = shifted if isinstance(dim, (tuple, list)) else shifted[0]
    for name in op.inputs:
        bound[name] = physical(bound[name], level)
    return _call(op, bound, None if into is None else bound[op.inputs[0]])


def _trailing(least: int | str) -> Rule:
    """On the last `least` dimensions of the first operand; others are the same for all."""

    def rule(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
        first, *others = _tensors(op, bound)
        if not is_batched(first, level) or first.ndim < int(least) or any(is_batched(each, level) for each in others):
            return NotImplemented
        bound[op.inputs[0]] = first.value
        return _call(op, bound, None if into is None else first.value)

    return rule


def _fill(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
    """copy and fill, which write a source that broadcasts to each sample."""
    input, source = _tensors(op, bound)
    if is_batched(source, level) and source.ndim <= input.ndim:
        source = source.value.reshape((level.size, *(1,) * (input.ndim - source.ndim), *source.shape))
    target = physical(input, level)
    copy = registry["copy"] if isinstance(source, Tensor) else op
    return copy.apply((target, source), {}, None if into is None else target)


def _read(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
    """A view by ints and slices."""
    index = bound["index"]
    return op.public(bound["input"].value, (slice(None), *(index if isinstance(index, tuple) else (index,))))


def _of_shape(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
    value = bound["input"].value
    return op.public(value, (level.size, *_sizes(bound["shape"])))


def _sizes(given: Any) -> tuple[int, ...]:
    return tuple(given[0]) if len(given) == 1 and isinstance(given[0], (tuple, list)) else tuple(given)


def _expand(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
    tensor, size = bound["input"], _sizes(bound["size"])
    wide = tensor.value.reshape((level.size, *(1,) * (len(size) - tensor.ndim), *tensor.shape))
    return wide.expand((level.size, *size))


def _squeeze(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
    tensor, dim = bound["input"], bound["dim"]
    wanted = range(tensor.ndim) if dim is None else wrap_dims(dim, tensor.ndim) if tensor.ndim else ()
    kept = [size for axis, size in enumerate(tensor.shape) if axis not in wanted or size != 1]
    return tensor.value.reshape((level.size, *kept))


def _permute(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
    tensor = bound["input"]
    return tensor.value.permute((0, *(each + 1 for each in wrap_dims(_sizes(bound["dims"]), tensor.ndim))))


def _shift_dims(*names: str, more: int = 0) -> Rule:
    """Views by dimension numbers, which are shifted by one; `more` additional dimensions may be named."""

    def rule(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
        tensor = bound[op.inputs[0]]
        if not tensor.ndim and not more:
            return NotImplemented
        for name in names:
            bound[name] = 1 + wrap_dim(bound[name], tensor.ndim + more)
        bound[op.inputs[0]] = tensor.value
        return _call(op, bound, None if into is None else tensor.value)

    return rule


def _reorder(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
    """flip and roll, along `dims`."""
    tensor, dims = bound["input"], bound["dims"]
    if dims is None or not tensor.ndim or dims == ():
        return NotImplemented
    bound["dims"] = tuple(1 + each for each in wrap_dims(dims, tensor.ndim))
    bound["input"] = tensor.value
    return _call(op, bound, into)


def _transform(name: str) -> Rule:
    """Over several dimensions of the first operand, which come one later; others broadcast behind it."""

    def rule(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
        first, *others = _tensors(op, bound)
        if not is_batched(first, level) or not first.ndim or any(is_batched(each, level) for each in others):
            return NotImplemented
        if bound.get("statistics", "moments") != "moments":
            return NotImplemented  # whose mean has no dimensions of the input
        bound[name] = tuple(1 + each for each in wrap_dims(bound[name], first.ndim))
        bound[op.inputs[0]] = first.value
        return _call(op, bound, None if into is None else first.value)

    return rule


def _pad(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
    bound["pairs"] = ((0, 0), *bound["pairs"])
    bound["input"] = bound["input"].value
    return _call(op, bound, into)


def _looked_up(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
    """Elements at arrays of indices, the same for all, if no slice stands between them."""
    indices = tuple(bound["indices"])
    places = [place for place, each in enumerate(indices) if not isinstance(each, slice)]
    if not places or places[-1] - places[0] >= len(places) or (places[0] and len(places) > 1):
        return NotImplemented
    bound["indices"], bound["input"] = (slice(None), *indices), bound["input"].value
    return _call(op, bound, into)


def _gather(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
    """Elements at an index that is the same for all."""
    bound["input"] = value = bound["input"].value
    bound["index"] = np.broadcast_to(bound["index"], (value.shape[0], *bound["index"].shape))
    bound["dim"] += 1
    return _call(op, bound, into)


def _add(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
    """addmm, by a product and a sum."""
    input, first, second = _tensors(op, bound)
    product = matmul(first, second, precision=bound["precision"]) * bound["alpha"]
    return NotImplemented if into is not None else value_of(product + input * bound["beta"], level)


def _score(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
    """nll_terms of (classes) or (batch, classes), all samples as one batch."""
    input, target = (physical(each, level) for each in _tensors(op, bound))
    if input.ndim > 3:
        return NotImplemented
    terms = op.public(input.flatten(0, -2), target.flatten(), bound["ignore_index"])
    return terms.reshape(target.shape)


def _mean_score(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
    input, target = _tensors(op, bound)
    if input.ndim > 2:
        return NotImplemented
    terms = registry["nll_terms"].public(input, target, bound["ignore_index"])
    return value_of(terms.sum() / (target != bound["ignore_index"]).sum(), level)


def _join(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
    """cat and stack."""
    tensors = list(bound["tensors"])
    most = max(each.ndim for each in tensors)
    if op.name == "cat" and (not most or any(each.ndim != most for each in tensors)):
        return NotImplemented
    dim = 1 + wrap_dim(bound["dim"], most + (op.name == "stack"))
    return op.public([physical(each, level) for each in tensors], dim)


def _multiply(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
    """Matrix products: vectors become matrices, and the others broadcast behind the batch."""
    one, other = _tensors(op, bound)
    if not one.ndim or not other.ndim:
        return NotImplemented
    vectors = one.ndim == 1, other.ndim == 1
    first, second = value_of(one, level), value_of(other, level)
    first = first.unsqueeze(-2) if vectors[0] else first
    second = second.unsqueeze(-1) if vectors[1] else second
    ndims = [each.ndim + is_vector for each, is_vector in zip((one, other), vectors, strict=True)]
    first, second = (
        each.reshape((level.size, *(1,) * (max(ndims) - ndim), *each.shape[1:])) if is_batched(given, level) else each
        for each, given, ndim in zip((first, second), (one, other), ndims, strict=True)
    )
    result = matmul(first, second, precision=bound["precision"])
    result = result.squeeze(-1) if vectors[1] else result
    return result.squeeze(-2 if not vectors[1] else -1) if vectors[0] else result


def _affine(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
    input, weight, bias = _tensors(op, bound)
    if not is_batched(weight, level) and not is_batched(bias, level):
        return _trailing(1)(level, op, bound, into)
    product = matmul(input, weight.mT if weight.ndim > 1 else weight, precision=bound["precision"])
    return value_of(product if bias is None else product + bias, level)


_RULES: dict[str, Rule] = {
    "add_product": _add, "align": _align, "along": _along, "expand": _expand, "gather": _gather, "join": _join,
    "look_up": _looked_up, "mean_score": _mean_score, "multiply": _multiply, "affine": _affine, "pad": _pad,
    "permute": _permute, "read": _read, "reduce": _along, "reorder": _reorder, "reshape": _of_shape, "score": _score,
    "squeeze": _squeeze, "write": _fill,
}  # fmt: skip
"""Rules by the word that an op is declared with."""

_RULES_OF: dict[str, Callable[..., Rule]] = {
    "insert": functools.partial(_shift_dims, more=1),
    "shift": _shift_dims,
    "trailing": _trailing,
    "transform": _transform,
}
"""Makers of rules by the first word; the other words are their arguments."""


@functools.cache
def rule_of(op: Op) -> Rule | None:
    """The rule of an op: as declared, or that of its folder; None for a loop over the samples. Operations of
    `ops.elementwise` are elementwise; those of linear algebra on matrices of one operand take leading dimensions.

    Raises ValueError for an op without a rule.
    """
    if op.batch is not None:
        word, *rest = op.batch.split()
        return None if word == "loop:" else _RULES[word] if word in _RULES else _RULES_OF[word](*rest)
    folder = op.forward.__module__.split(".ops.")[-1].split(".")[0]
    if folder == "elementwise" and "dim" not in op.metadata_names:
        return _align
    if folder == "linalg" and len(op.inputs) == 1 and "dim" not in op.metadata_names:
        return _trailing(2)
    raise ValueError(f'{op.name}: declare its rule under vmap with batch=, or "loop: why"')


def apply(level: Level, function: Any, args: tuple, named: dict[str, Any], into: Tensor | None) -> Any:
    """Call an op, or a composite, on batched operands."""
    if not isinstance(function, Op):
        return call(level, function, args, named)
    op = function
    if into is not None and not is_batched(into, level):
        raise RuntimeError(
            f"{op.name}_(): the tensor that is written to must be batched as its operands are, got one that is the "
            f"same in all samples; use {op.name}()"
        )
    bound = op.bind(args, dict(named)) if "out" not in named else None
    rule = None if bound is None else rule_of(op)
    if rule is not None and bound is not None:
        inner = {name: each for name, each in bound.items() if name in op.metadata_names}
        if highest_level(inner) is None:
            result = rule(level, op, bound, into)
            if result is not NotImplemented:
                return into if into is not None else wrap_result(result, level)
    if into is None:
        return loop_samples(level, op, args, named)
    loop_samples(level, lambda first, *rest, **more: op.apply((first, *rest), more, first), args, named)
    return into


batched.apply = apply
