"""How operations compute a batch in one call: rules for kinds of operations, from how each treats its dimensions.

A rule takes the level, the op, the arguments by name and the tensor that is written to, and returns the result with the
batch as first dimension, or NotImplemented, upon which the op is called once for each sample.
"""

from __future__ import annotations

from collections.abc import Callable
from string import ascii_letters
from typing import Any, TypeGuard

from ..dispatch.op import Op
from ..dispatch.registry import registry
from ..ops.dims import wrap_dim, wrap_dims
from ..ops.matmul.matmul import matmul
from ..tensor.tensor import Tensor
from .batched import Batched, Level, highest_level, looped, physical

__all__ = ["apply"]

Rule = Callable[[Level, Op, dict[str, Any], Any], Any]


def _is_batched(value: Any, level: Level) -> TypeGuard[Batched]:
    return isinstance(value, Batched) and value.level is level


def _value(value: Any, level: Level) -> Any:
    return value.value if _is_batched(value, level) else value


def _called(op: Op, bound: dict[str, Any], into: Tensor | None) -> Any:
    return op.apply((), bound, into) if into is None else _written(op, bound, into)


def _written(op: Op, bound: dict[str, Any], into: Tensor) -> Any:
    others = dict(bound)
    del others[op.inputs[0]]
    return op.apply((into,), others, into)


def _tensors(op: Op, bound: dict[str, Any]) -> list[Any]:
    return [bound[name] for name in op.inputs]


def _aligned(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
    """Elementwise: the operands broadcast behind the batch."""
    given = {name: bound[name] for name in op.inputs if isinstance(bound[name], Tensor)}
    if op.name == "masked_fill" and _is_batched(bound["value"], level):
        return NotImplemented
    most = max(each.ndim for each in given.values())
    if len({each.dtype for each in given.values()}) > 1 and any(not each.ndim for each in given.values()):
        return NotImplemented  # whether a tensor has dimensions matters for the dtype of the result
    for name, each in given.items():
        if _is_batched(each, level):
            bound[name] = each.value.reshape((level.size, *(1,) * (most - each.ndim), *each.shape))
    return _called(op, bound, None if into is None else bound[op.inputs[0]])


_REDUCTIONS = {
    "all", "amax", "amin", "any", "count_nonzero", "logsumexp", "mean", "norm_of_elements", "standard_deviation", "sum",
    "variance",
}  # fmt: skip
"""Over all dimensions if `dim` is None, or several."""


def _along(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
    """Along a dimension, or several, which come one later; other operands have as many dimensions."""
    tensors = _tensors(op, bound)
    ndim, dim = tensors[0].ndim, bound["dim"]
    if not ndim or any(not isinstance(each, Tensor) or each.ndim != ndim for each in tensors):
        return NotImplemented
    if dim is None or dim == () or dim == []:
        if op.name not in _REDUCTIONS:
            return NotImplemented
        bound["dim"] = tuple(range(1, ndim + 1))
    else:
        shifted = tuple(each + 1 for each in wrap_dims(dim, ndim))
        bound["dim"] = shifted if isinstance(dim, (tuple, list)) else shifted[0]
    for name in op.inputs:
        bound[name] = physical(bound[name], level)
    return _called(op, bound, None if into is None else bound[op.inputs[0]])


def _each(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
    """Each sample by itself, though the folder of the op has a rule."""
    return NotImplemented


def _trailing(least: int) -> Rule:
    """On the last `least` dimensions of the first operand; others are the same for all."""

    def rule(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
        first, *others = _tensors(op, bound)
        if not _is_batched(first, level) or first.ndim < least or any(_is_batched(each, level) for each in others):
            return NotImplemented
        bound[op.inputs[0]] = first.value
        return _called(op, bound, None if into is None else first.value)

    return rule


def _filled(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
    """copy and fill, which write a source that broadcasts to each sample."""
    input, source = _tensors(op, bound)
    if _is_batched(source, level) and source.ndim <= input.ndim:
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


def _expanded(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
    tensor, size = bound["input"], _sizes(bound["size"])
    wide = tensor.value.reshape((level.size, *(1,) * (len(size) - tensor.ndim), *tensor.shape))
    return wide.expand((level.size, *size))


def _squeezed(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
    tensor, dim = bound["input"], bound["dim"]
    wanted = range(tensor.ndim) if dim is None else wrap_dims(dim, tensor.ndim) if tensor.ndim else ()
    kept = [size for axis, size in enumerate(tensor.shape) if axis not in wanted or size != 1]
    return tensor.value.reshape((level.size, *kept))


def _permuted(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
    tensor = bound["input"]
    return tensor.value.permute((0, *(each + 1 for each in wrap_dims(_sizes(bound["dims"]), tensor.ndim))))


def _shifted(*names: str, more: int = 0) -> Rule:
    """Views by numbers of dimensions, which come one later; `more` dimensions may be named than there are."""

    def rule(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
        tensor = bound[op.inputs[0]]
        if not tensor.ndim and not more:
            return NotImplemented
        for name in names:
            bound[name] = 1 + wrap_dim(bound[name], tensor.ndim + more)
        bound[op.inputs[0]] = tensor.value
        return _called(op, bound, None if into is None else tensor.value)

    return rule


def _reordered(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
    """flip and roll, along `dims`."""
    tensor, dims = bound["input"], bound["dims"]
    if dims is None or not tensor.ndim or dims == ():
        return NotImplemented
    bound["dims"] = tuple(1 + each for each in wrap_dims(dims, tensor.ndim))
    bound["input"] = tensor.value
    return _called(op, bound, into)


def _joined(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
    """cat and stack."""
    tensors = list(bound["tensors"])
    most = max(each.ndim for each in tensors)
    if op.name == "cat" and (not most or any(each.ndim != most for each in tensors)):
        return NotImplemented
    dim = 1 + wrap_dim(bound["dim"], most + (op.name == "stack"))
    return op.public([physical(each, level) for each in tensors], dim)


def _multiplied(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
    """Matrix products: vectors become matrices, and the others broadcast behind the batch."""
    one, other = _tensors(op, bound)
    if not one.ndim or not other.ndim:
        return NotImplemented
    vectors = one.ndim == 1, other.ndim == 1
    first, second = _value(one, level), _value(other, level)
    first = first.unsqueeze(-2) if vectors[0] else first
    second = second.unsqueeze(-1) if vectors[1] else second
    ndims = [each.ndim + is_vector for each, is_vector in zip((one, other), vectors, strict=True)]
    first, second = (
        each.reshape((level.size, *(1,) * (max(ndims) - ndim), *each.shape[1:])) if _is_batched(given, level) else each
        for each, given, ndim in zip((first, second), (one, other), ndims, strict=True)
    )
    result = matmul(first, second, precision=bound["precision"])
    result = result.squeeze(-1) if vectors[1] else result
    return result.squeeze(-2 if not vectors[1] else -1) if vectors[0] else result


def _affine(level: Level, op: Op, bound: dict[str, Any], into: Any) -> Any:
    input, weight, bias = _tensors(op, bound)
    if not _is_batched(weight, level) and not _is_batched(bias, level):
        return _trailing(1)(level, op, bound, into)
    product = matmul(input, weight.mT if weight.ndim > 1 else weight, precision=bound["precision"])
    return _value(product if bias is None else product + bias, level)


_ALONG = """
    sorted_along argsort topk kthvalue median_along mode max_along min_along argmax argmin cumsum cumprod prod shift
    linear_recurrence logcumsumexp cummax cummin softmax_forward log_softmax_forward softmax_backward
    log_softmax_backward unbind
"""

_RULES: dict[str, Rule] = {
    **dict.fromkeys([*_REDUCTIONS, *_ALONG.split()], _along),
    **dict.fromkeys(["copy", "fill"], _filled),
    **dict.fromkeys(["mT", "tril", "triu"], _trailing(2)),
    **dict.fromkeys(["one_hot", "embedding_rows"], _trailing(0)),
    "masked_fill": _aligned,
    "piecewise_gradient": _each,
    "getitem": _read,
    "resample": _shifted("dim"),
    "reshape": _of_shape,
    "expand": _expanded,
    "squeeze": _squeezed,
    "unsqueeze": _shifted("dim", more=1),
    "transpose": _shifted("dim0", "dim1"),
    "diagonal": _shifted("dim1", "dim2"),
    "split": _shifted("dim"),
    "unfold": _shifted("dimension"),
    "permute": _permuted,
    "flip": _reordered,
    "roll": _reordered,
    "cat": _joined,
    "stack": _joined,
    "matmul": _multiplied,
    "affine": _affine,
}  # fmt: skip
"""By the name of the op. Operations of `ops.elementwise` are elementwise; those of linear algebra on matrices of one
operand take leading dimensions."""


def _rule_of(op: Op) -> Rule | None:
    if op.name in _RULES:
        return _RULES[op.name]
    folder = op.forward.__module__.split(".ops.")[-1].split(".")[0]
    if folder == "elementwise" and "dim" not in op.metadata_names:
        return _aligned
    if folder == "linalg" and len(op.inputs) == 1 and "dim" not in op.metadata_names:
        return _trailing(2)
    return None


_IMAGES = {
    **{f"{kind}{dims}d": dims + 2 for kind in ("conv", "max_pool", "avg_pool", "adaptive_avg_pool", "adaptive_max_pool")
       for dims in (1, 2, 3)},
    **{f"conv_transpose{dims}d": dims + 2 for dims in (1, 2, 3)},
}  # fmt: skip
"""Functions of images that compute each of a batch apart, and how many dimensions such a batch has."""


def _folded(level: Level, function: Any, args: tuple, named: dict[str, Any]) -> Any:
    """The batch and the images of each sample as one batch."""
    first: Any = args[0] if args else None
    ndim = _IMAGES.get(function.__name__)
    others = highest_level(args[1:], named)
    if ndim is None or not _is_batched(first, level) or others is not None or first.ndim not in (ndim - 1, ndim):
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
    return _wrapped(result, level)


def _contracted(level: Level, function: Any, args: tuple, named: dict[str, Any]) -> Any:
    """einsum, with a further letter for the batch. Each sample by itself where the equation has none to spare."""
    equation, *operands = args
    operands = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (tuple, list)) else operands
    batch = next((letter for letter in ascii_letters if letter not in str(equation)), None)
    if not isinstance(equation, str) or "->" not in equation or "." in equation or batch is None:
        return looped(level, function, args, named)
    terms, result = equation.split("->")
    pairs = zip(terms.split(","), operands, strict=True)
    terms = ",".join(f"{batch if _is_batched(each, level) else ''}{term.strip()}" for term, each in pairs)
    values = [_value(each, level) for each in operands]
    return Batched.of(function(f"{terms}->{batch}{result.strip()}", *values, **named), level)


def _attended(level: Level, function: Any, args: tuple, named: dict[str, Any]) -> Any:
    """Attention, whose leading dimensions are batches: of all operands, and of a mask that broadcasts behind them."""
    names = ("query", "key", "value", "attn_mask", "dropout_p")
    given = {**dict(zip(names, args, strict=False)), **named}
    operands = [given[name] for name in names[:3]]
    if len(args) > len(names) or given.get("dropout_p") or len({each.ndim for each in operands}) > 1:
        return looped(level, function, args, named)
    mask: Any = given.get("attn_mask")
    most = operands[0].ndim
    if _is_batched(mask, level):
        given["attn_mask"] = mask.value.reshape((level.size, *(1,) * (most - mask.ndim), *mask.shape))
    for name in names[:3]:
        given[name] = physical(given[name], level)
    return Batched.of(function(**given), level)


def _on_copies(level: Level, function: Any, args: tuple, named: dict[str, Any]) -> Any:
    """Functions of memory, of which each sample has its own."""
    return looped(level, lambda first, *rest, **more: function(first.clone(), *rest, **more), args, named)


def _wrapped(result: Any, level: Level) -> Any:
    if isinstance(result, Tensor):
        return Batched.of(result, level)
    if isinstance(result, (tuple, list)):
        made = [_wrapped(each, level) for each in result]
        return type(result)(*made) if hasattr(result, "_fields") else type(result)(made)
    return result


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "as_strided": _on_copies,
    "as_strided_scatter": _on_copies,
    "einsum": _contracted,
    "scaled_dot_product_attention": _attended,
}
"""Functions made of operations that have rules of their own; others run as they are."""


def apply(level: Level, function: Any, args: tuple, named: dict[str, Any], into: Tensor | None) -> Any:
    """Call an op, or a function made of ops, on batched operands."""
    if not isinstance(function, Op):
        return _FUNCTIONS.get(function.__name__, _folded)(level, function, args, named)
    op = function
    if into is not None and not _is_batched(into, level):
        raise RuntimeError(
            f"{op.name}_(): the tensor that is written to must be batched as its operands are, got one that is the "
            f"same in all samples; use {op.name}()"
        )
    bound = op.bind(args, dict(named)) if "out" not in named else None
    rule = None if bound is None else _rule_of(op)
    if rule is not None and bound is not None:
        inner = {name: each for name, each in bound.items() if name in op.metadata_names}
        if highest_level(inner) is None:
            result = rule(level, op, bound, into)
            if result is not NotImplemented:
                return into if into is not None else _wrapped(result, level)
    if into is None:
        return looped(level, op, args, named)
    looped(level, lambda first, *rest, **more: op.apply((first, *rest), more, first), args, named)
    return into
