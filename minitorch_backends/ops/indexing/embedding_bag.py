"""Sums, means and largest values of bags of embeddings."""

from __future__ import annotations

import numpy as np

from ...autograd.half_types import widen
from ...dispatch.op import composite
from ...dispatch.promotion import refusal_of_dtype
from ...tensor.tensor import Tensor, adopt
from ..functional import functional
from .embedding import embedding, embedding_sums
from .index import look_up
from .index_parts import refuse_index_dtype


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


def _check(weight: Tensor, input: Tensor, mode: str, scaled: bool, per_sample_weights: Tensor | None) -> None:
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
    _check(weight, input, mode, scale_grad_by_freq, per_sample_weights)
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
