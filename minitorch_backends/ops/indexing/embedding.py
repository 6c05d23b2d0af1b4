"""From class numbers to vectors: embedding and one_hot."""

from __future__ import annotations

import numpy as np

from ...autograd.modes import no_grad
from ...dispatch.op import Array, composite, op
from ...dispatch.promotion import EVERY_DTYPE
from ...kernels.runtime.context import restore_on_failure
from ...tensor.call_errors import refuse_other_than_bool
from ...tensor.dtypes import int64
from ...tensor.size import addressable
from ...tensor.tensor import Tensor, adopt
from ..functional import functional
from .accumulate import add_rows
from .index_parts import refuse_index_dtype

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


@op(method=False, takes="ifc", grad_output=_of_sums, batch="loop: places in one sample")
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


@op(takes=EVERY_DTYPE, called="embedding", method=False, widen=False, weight=_of_rows, batch="trailing 0")
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
@op(takes="i", method=False, warns=False, batch="trailing 0")
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
