"""From class numbers to vectors: embedding and one_hot."""

from __future__ import annotations

import numpy as np

from ...autograd.half_types import widen
from ...autograd.modes import no_grad
from ...dispatch.op import Array, composite, op
from ...dispatch.promotion import EVERY_DTYPE, refusal_of_dtype
from ...kernels.runtime.context import restore_on_failure
from ...tensor.call_errors import refuse_other_than_bool
from ...tensor.dtypes import int64
from ...tensor.size import addressable
from ...tensor.tensor import Tensor, adopt
from ..functional import functional
from .accumulate import add_rows
from .index import look_up
from .index_parsing import refuse_index_dtype

__all__ = ["embedding", "one_hot"]


_UNSIGNED = {4: np.uint32, 8: np.uint64}


def _check_range(indices: np.ndarray, count: int) -> None:
    refuse_index_dtype("embedding", "input", indices)
    # Read as unsigned, negative indices are larger than any count.
    if indices.size and np.maximum.reduce(indices.view(_UNSIGNED[indices.itemsize]), None) >= count:
        wrong = indices[(indices < 0) | (indices >= count)].flat[0]
        raise IndexError(f"index {wrong} is out of range; expected rows of the weight, 0 to {count - 1}")


def _of_sums(g: Tensor, input: Tensor, padding_idx: int | None) -> Tensor:
    rows = embedding_rows(input, g)
    return rows if padding_idx is None else rows.masked_fill((input == padding_idx).unsqueeze(-1), 0)


@op(traits="function", takes="ifc", grad_output=_of_sums, batch="loop: places in one sample")
def embedding_sums(grad_output: Array, input: Array, count: int, padding_idx: int | None = None) -> Array:
    """The transpose of `embedding_rows`: row k of `count` is the sum of the rows of `grad_output` whose index is k, in
    their order."""
    width = grad_output.shape[-1]
    indices, rows = input.reshape(-1), grad_output.reshape(input.size, width)
    if padding_idx is not None:
        kept = indices != padding_idx
        indices, rows = indices[kept], rows[kept]
    out = np.zeros((count, width), grad_output.dtype)
    add_rows(out, indices, rows)
    return out


def _of_rows(
    g: Tensor, input: Tensor, weight_shape: tuple[int, ...], padding_idx: int | None, scale_grad_by_freq: bool
) -> Tensor:
    if scale_grad_by_freq:
        _, place, count = np.unique(input._array, return_inverse=True, return_counts=True)
        g = g / adopt(count[place.reshape(input.shape), None].astype(g._array.dtype))
    return embedding_sums(g, input, weight_shape[0], padding_idx)


@op(
    takes=EVERY_DTYPE,
    name=("embedding_rows", "embedding"),
    traits="function unwidened",
    weight=_of_rows,
    batch="trailing 0",
)
def embedding_rows(
    input: Array, weight: Array, padding_idx: int | None = None, scale_grad_by_freq: bool = False
) -> Array:
    """The rows of `weight` selected by the integers `input`; the row `padding_idx` gets no gradient.

    `scale_grad_by_freq` divides a row's gradient by its number of occurrences.
    """
    _check_range(input, weight.shape[0])
    return weight.take(input, 0)


@functional
@composite(method=False, stateful="weight")
@restore_on_failure
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of `weight` (num_embeddings, embedding_dim) selected by the integers `input`: (..., embedding_dim).

    The row `padding_idx`, which may count from the end, gets no gradient. With `max_norm`, selected rows of `weight`
    with a larger norm (of order `norm_type`) are first scaled down to it, in place and unrecorded. `scale_grad_by_freq`
    divides a row's gradient by its number of occurrences. Gradients are dense, also if `sparse`. Raises IndexError for
    an index out of range, RuntimeError for a weight other than a matrix, AssertionError for a padding_idx outside of
    its rows.
    """
    refuse_other_than_bool("embedding", "scale_grad_by_freq", scale_grad_by_freq)
    if weight.ndim != 2:
        raise RuntimeError(f"embedding: 'weight' must be 2-D, and it has shape {list(weight.shape)}")
    count = weight.shape[0]
    if padding_idx is not None:
        if not -count <= padding_idx < count:
            raise AssertionError(f"padding_idx={padding_idx} must be within the {count} rows of the weight")
        padding_idx = padding_idx % count
    if max_norm is not None:
        _check_range(input._array, count)
        named = adopt(np.unique(input._array))
        with no_grad():
            weight.index_copy_(0, named, weight[named].renorm(norm_type, 0, max_norm))
    return embedding_rows(input, weight, padding_idx, scale_grad_by_freq)


@functional
@op(takes="i", traits="function silent", batch="trailing 0")
def one_hot(input: Array, num_classes: int = -1) -> Array:
    """One-hot encoding: a new last dimension, int64, that is 1 at the class and 0 elsewhere.

    `num_classes` defaults to the largest class plus 1. Raises RuntimeError for invalid classes.
    """
    refuse_index_dtype("one_hot", "input", input, (int64,))
    if num_classes < -1 or num_classes == 0:
        raise RuntimeError(f"one_hot: num_classes should be positive, or -1 to infer it, got {num_classes}")
    if num_classes == -1:
        if not input.size:
            raise RuntimeError("one_hot: cannot infer the number of classes from an empty tensor; pass num_classes")
        num_classes = int(input.max()) + 1
    if input.size and input.min() < 0:
        raise RuntimeError(f"one_hot: class values must be non-negative, got {input.min()}")
    if input.size and input.max() >= num_classes:
        raise RuntimeError(f"one_hot: class values must be smaller than num_classes={num_classes}, got {input.max()}")
    out = np.zeros(addressable((*input.shape, num_classes)), np.int64)
    out.reshape(-1)[np.arange(input.size) * num_classes + input.reshape(-1)] = 1
    return out


# Sums, means and largest values of bags of embeddings


def _bags(input: Tensor, offsets: Tensor | None, include_last_offset: bool) -> tuple[np.ndarray, int]:
    """The bag of each element of `input`, flattened, and the number of bags.

    Raises ValueError for wrong shapes, RuntimeError for invalid offsets.
    """
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError("embedding_bag(): offsets must be None for an input of 2 dimensions, whose rows are bags")
        count, size = input.shape
        return np.repeat(np.arange(count), size), count
    if input.ndim != 1:
        raise ValueError(f"embedding_bag(): input must have 1 or 2 dimensions, got shape {list(input.shape)}")
    if offsets is None or offsets.ndim != 1:
        given = "None" if offsets is None else f"shape {list(offsets.shape)}"
        raise ValueError(f"embedding_bag(): offsets must be a vector for an input of 1 dimension, got {given}")
    starts, size = offsets._array, input._array.size
    refuse_index_dtype("embedding_bag", "offsets", starts)
    if include_last_offset and not starts.size:
        raise RuntimeError("embedding_bag(): offsets must not be empty where include_last_offset=True")
    if starts.size and (starts[0] != 0 or starts[-1] > size or (np.diff(starts) < 0).any()):
        raise RuntimeError(
            f"embedding_bag(): offsets must begin with 0 and not decrease, up to the input's length {size}, got "
            f"{starts.tolist()}"
        )
    count = starts.size - include_last_offset
    # The last bag reaches to the end, also where an offset for its end is given.
    ends = np.append(starts[1:count], size)[:count]
    return np.repeat(np.arange(count), ends - starts[:count]), count


def _largest(rows: Tensor, bags: np.ndarray, count: int) -> Tensor:
    """The largest value of each column in each bag; its gradient goes to the first of equal ones. Empty bags give 0."""
    sizes = np.bincount(bags, minlength=count)
    width = rows._array.shape[1]
    if not bags.size:
        return rows.sum(0).expand(count, width)
    starts = np.cumsum(sizes) - sizes
    longest = int(sizes.max())
    inside = np.arange(longest) < sizes[:, None]
    places = np.where(inside, starts[:, None] + np.arange(longest), 0)
    values = rows._array[places]
    best = np.where(inside[..., None], np.where(np.isnan(values), np.inf, values), -np.inf).argmax(1)
    chosen = np.take_along_axis(places, best, 1)
    found = look_up(rows, (chosen, np.broadcast_to(np.arange(width), chosen.shape)))
    return found.where(adopt(sizes[:, None] > 0), 0)


def _check_bags(weight: Tensor, input: Tensor, mode: str, scaled: bool, per_sample_weights: Tensor | None) -> None:
    if weight.ndim != 2:
        raise ValueError(f"embedding_bag(): weight must have 2 dimensions, got shape {list(weight.shape)}")
    if weight.dtype.letter != "f":
        raise refusal_of_dtype("embedding_bag", weight.dtype, "f")
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"embedding_bag(): mode must be 'sum', 'mean' or 'max', got {mode!r}")
    refuse_index_dtype("embedding_bag", "input", input._array)
    if mode == "max" and scaled:
        raise ValueError("embedding_bag(): scale_grad_by_freq must be False for mode='max'")
    if per_sample_weights is None:
        return
    if mode != "sum":
        raise NotImplementedError(f"embedding_bag(): per_sample_weights must be None for mode={mode!r}; use 'sum'")
    if per_sample_weights.shape != input.shape:
        raise ValueError(
            f"embedding_bag(): per_sample_weights must have the input's shape {list(input.shape)}, got "
            f"{list(per_sample_weights.shape)}"
        )
    if per_sample_weights.dtype is not weight.dtype:
        raise RuntimeError(
            f"embedding_bag(): per_sample_weights must be of the weight's dtype {weight.dtype!r}, got "
            f"{per_sample_weights.dtype!r}"
        )


@functional
@composite(method=False, takes="f", also="i", stateful="weight")
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The sum, mean or largest value of the rows of `weight` that each bag of indices names: (bags, embedding_dim).

    Arguments:
        input: indices (bags, size), or of all bags one after the other.
        offsets: where each bag begins in an `input` of one dimension, with `include_last_offset` also where the last
            ends.
        mode: "sum", "mean" or "max"; empty bags give zeros.
        per_sample_weights: factors of the rows, of the input's shape, for "sum".
        padding_idx: an index that is left out, and counts nowhere.

    The other arguments are those of `embedding`. Raises ValueError for shapes and modes, RuntimeError for indices and
    offsets that do not fit.
    """
    _check_bags(weight, input, mode, scale_grad_by_freq, per_sample_weights)
    bags, count = _bags(input, offsets, include_last_offset)
    indices, rows = input._array.reshape(-1)[: bags.size], weight._array.shape[0]
    if (wrong := (indices < 0) | (indices >= rows)).any():
        raise RuntimeError(f"embedding_bag(): input must be from 0 to {rows - 1}, got {indices[wrong][0]}")
    factors = None if per_sample_weights is None else per_sample_weights.reshape(-1)[: bags.size]
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise RuntimeError(f"embedding_bag(): padding_idx must be from {-rows} to {rows - 1}, got {padding_idx}")
        kept = indices != padding_idx % rows
        indices, bags = indices[kept], bags[kept]
        factors = factors if factors is None else factors[adopt(kept)]
    found = widen(embedding(adopt(indices), weight, None, max_norm, norm_type, scale_grad_by_freq, sparse))
    if mode == "max":
        return _largest(found, bags, count).to(weight.dtype)
    total = embedding_sums(found if factors is None else found * widen(factors).unsqueeze(1), adopt(bags), count)
    if mode == "mean":
        sizes = np.maximum(np.bincount(bags, minlength=count), 1)
        total = total / adopt(sizes[:, None].astype(total._array.dtype))
    return total.to(weight.dtype)
