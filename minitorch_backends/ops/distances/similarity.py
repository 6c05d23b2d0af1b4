"""Distances and similarities of vectors, and the losses based on them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...dispatch.op import composite
from ...tensor.dtypes import promote_types
from ...tensor.tensor import Tensor, adopt
from ..functional import functional
from ..losses.pointwise import reduce_loss
from ..views.broadcasting import broadcast_shapes

_SHORT = adopt(np.asarray(1e-6, np.float32))


@functional
@composite(method=False, takes="f", also="bi", widen=True)
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along `dim`; lengths below `eps` count as `eps`."""
    shape, dtype = broadcast_shapes(x1.shape, x2.shape), promote_types(x1.dtype, x2.dtype)
    first, second = (each.to(dtype).expand(shape) for each in (x1, x2))
    first, second = (each / each.norm(2, dim, keepdim=True).clamp(min=eps) for each in (first, second))
    return (first * second).sum(dim)


@functional
@composite(method=False, widen=True, takes="ifc")
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last dimension."""
    return (x1 - x2 + eps).norm(p, -1, keepdim)


@functional(positional="averaging")
@composite(method=False, widen=True, takes="if", autocast="float32")
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, *, reduction: str = "mean"
) -> Tensor:
    """max(0, margin - target * (input1 - input2)): the first should be larger where the target is 1, else smaller.

    Raises RuntimeError for different numbers of dimensions.
    """
    if not input1.ndim == input2.ndim == target.ndim:
        shapes = ", ".join(str(list(each.shape)) for each in (input1, input2, target))
        raise RuntimeError(
            f"margin_ranking_loss: all inputs should have the same number of dimensions, and their shapes are {shapes}"
        )
    return reduce_loss((margin - target * (input1 - input2)).clamp(min=0), reduction)


@functional(positional="averaging")
@composite(method=False, takes="f", widen=("input",), autocast="float32")
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, *, reduction: str = "mean") -> Tensor:
    """`input` where the target is 1, max(0, margin - input) where it is -1, and the sum of both elsewhere."""
    near, far = input.where(target != -1, 0), (margin - input).clamp(min=0).where(target != 1, 0)
    return reduce_loss(near + far, reduction)


@functional(positional="averaging")
@composite(method=False, widen=("input1", "input2"), takes="bif", autocast="float32")
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, *, reduction: str = "mean"
) -> Tensor:
    """With the cosine c of the vectors: 1 - c where the target is 1, max(0, c - margin) where it is -1, else 0.

    1e-12 is added to the squares of their lengths.
    input1, input2: (batch, size) or (size); target: (batch) or (). Raises RuntimeError for other numbers of dimensions.
    """
    if not 1 <= input1.ndim == input2.ndim == target.ndim + 1 <= 2:
        shapes = ", ".join(str(list(each.shape)) for each in (input1, input2, target))
        raise RuntimeError(
            f"cosine_embedding_loss: expected (batch, size) twice and (batch), or without batches, got shapes {shapes}"
        )
    directions = [each / each.norm(2, -1, True).hypot(_SHORT) for each in (input1 * 1.0, input2 * 1.0)]
    cosine = (directions[0] * directions[1]).sum(-1)
    far = (cosine - margin).clamp(min=0).where(target == -1, 0)
    return reduce_loss((1 - cosine).where(target == 1, far), reduction)


@functional(positional="averaging")
@composite(method=False, widen=True, takes="ifc", autocast="float32")
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    *,
    reduction: str = "mean",
) -> Tensor:
    """max(0, distance(anchor, positive) - distance(anchor, negative) + margin) of vectors along the last dimension.

    With `swap` the negative may also be measured from the positive, where that is closer. Raises ValueError for a
    margin that is not positive, RuntimeError for inputs of different numbers of dimensions.
    """
    if margin <= 0:
        raise ValueError(f"triplet_margin_loss: margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        shapes = ", ".join(str(list(each.shape)) for each in (anchor, positive, negative))
        raise RuntimeError(f"triplet_margin_loss: all inputs should have the same number of dimensions, not {shapes}")
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = far.minimum(pairwise_distance(positive, negative, p, eps))
    return reduce_loss((near - far + margin).clamp(min=0), reduction)


@functional
@composite(method=False, takes="fc", widen=True)
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """`triplet_margin_loss` of any distance, a function of two tensors; by default `pairwise_distance`. Raises
    ValueError for a margin that is not positive."""
    if margin <= 0:
        raise ValueError(f"triplet_margin_with_distance_loss(): margin must be greater than 0, got {margin}")
    measure = distance_function or pairwise_distance
    near, far = measure(anchor, positive), measure(anchor, negative)
    if swap:
        far = far.minimum(measure(positive, negative))
    return reduce_loss((near - far + margin).clamp(min=0), reduction)
