"""Losses of margins: between scores of classes, of labels, of rankings, and between distances."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...dispatch.op import composite
from ...tensor.dtypes import int64
from ...tensor.tensor import Tensor, adopt
from ..distances import pairwise_distance
from ..elementwise.activations import logsigmoid, relu
from ..functional import functional
from ..indexing.index import read
from ..indexing.index_parsing import refuse_index_dtype
from .pointwise import reduce_loss, refuse_reduction


def _rows(name: str, input: Tensor, target: Tensor, labels: bool) -> tuple[Tensor, np.ndarray]:
    """The scores as (batch, classes), and the targets, one for each row or, with `labels`, one for each score.

    Raises RuntimeError for shapes that do not fit and for targets that are not classes.
    """
    shape, given = input._array.shape, target._array.shape
    scores = input.reshape((1,) * (2 - len(shape)) + shape) if len(shape) < 2 else input
    wanted = [shape] if labels else [shape[:-1]] if len(shape) > 1 else [(), (1,)]
    if len(shape) > 2 or not scores._array.shape[-1] or (given not in wanted and (shape or target._array.size != 1)):
        raise RuntimeError(
            f"{name}(): input must have shape (classes) or (batch, classes), target {'that' if labels else '(batch)'}; "
            f"got {list(shape)} and {list(given)}"
        )
    refuse_index_dtype(name, "target", target._array, (int64,))
    classes, least = scores._array.shape[-1], -1 if labels else 0
    if (wrong := (target._array < least) | (target._array >= classes)).any():
        raise RuntimeError(
            f"{name}(): target must be from {least} to {classes - 1}, got {target._array[wrong].flat[0]}"
        )
    return scores, target._array.reshape(scores._array.shape if labels else -1)


@functional(positional="averaging")
@composite(method=False, takes="f", widen=("input",), autocast="float32")
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
) -> Tensor:
    """The sum over all other classes of max(0, margin - score of the target's class + score)**p, times the weight of
    the target's class, divided by the number of classes.

    input: (batch, classes) or (classes); target: int64 classes (batch) or (); weight: (classes); p: 1 or 2. Raises
    ValueError for another p, RuntimeError for mismatched shapes and invalid targets.
    """
    refuse_reduction(reduction)
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss(): p must be 1 or 2, got {p!r}")
    if weight is not None and weight.ndim != 1:
        raise ValueError(f"multi_margin_loss(): weight must have 1 dimension, got shape {list(weight.shape)}")
    scores, labels = _rows("multi_margin_loss", input, target, labels=False)
    classes = scores._array.shape[1]
    if weight is not None and weight._array.shape != (classes,):
        raise RuntimeError(f"multi_margin_loss(): weight must have shape [{classes}], got {list(weight.shape)}")
    own = read(scores, (np.arange(len(labels)), labels)).unsqueeze(1)
    terms = relu(margin - own + scores).where(adopt(np.arange(classes) != labels[:, None]), 0)
    loss = (terms if p == 1 else terms.square()).sum(1) / classes
    if weight is not None:
        loss = loss * read(weight, (labels,))
    return reduce_loss(loss.reshape(target.shape), reduction)


@functional(positional="averaging")
@composite(method=False, takes="f", widen=("input",), autocast="float32")
def multilabel_margin_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """The sum over pairs of a target class and another class of max(0, 1 - score of the target + score of the other),
    divided by the number of classes.

    input: (batch, classes) or (classes); target: int64 classes of the same shape, up to the first -1. Raises
    RuntimeError for mismatched shapes and invalid targets.
    """
    refuse_reduction(reduction)
    scores, labels = _rows("multilabel_margin_loss", input, target, labels=True)
    batch, classes = scores._array.shape
    counted = np.logical_and.accumulate(labels >= 0, 1)
    rows, named = np.arange(batch)[:, None], np.where(counted, labels, 0)
    others = np.ones((batch, classes), bool)
    others[np.broadcast_to(rows, labels.shape)[counted], labels[counted]] = False
    own = read(scores, (np.broadcast_to(rows, labels.shape), named))
    terms = relu(1 - own.unsqueeze(2) + scores.unsqueeze(1))
    loss = terms.where(adopt(counted[:, :, None] & others[:, None]), 0).sum((1, 2)) / classes
    return reduce_loss(loss.reshape(input.shape[:-1]), reduction)


@functional(positional="averaging")
@composite(method=False, takes="f", widen=True)
def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """The mean over the classes, the last dimension, of `binary_cross_entropy_with_logits`, times `weight`. Raises
    IndexError for 0-dim tensors."""
    if not input.ndim:
        raise IndexError("multilabel_soft_margin_loss(): input must have at least 1 dimension, got a 0-dim tensor")
    terms = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    loss = (terms if weight is None else terms * weight).sum(-1) / input.shape[-1]
    return reduce_loss(loss, reduction)


_SHORT = adopt(np.asarray(1e-6, np.float32))


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


@functional(positional="averaging")
@composite(method=False, takes="f", widen=("input",), autocast="float32")
def soft_margin_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """log(1 + exp(-target * input)) for targets of 1 and -1."""
    return reduce_loss(-logsigmoid(target * input), reduction)
