"""Distances and similarities of vectors, and the losses based on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...dispatch.op import composite
from ...tensor.dtypes import promote_types
from ...tensor.tensor import Tensor
from ..functional import functional
from ..losses.reduction import reduce_loss, reduced_array
from ..samples import Sample, between, sample
from ..views.broadcasting import broadcast_shapes


def _vectors(count: int, *options: dict[str, Any], **of_no_vectors: Any) -> Callable[[], Iterator[Sample]]:
    """Samples of `count` batches of vectors: plain, with options, with gaps, broadcasting, and without vectors."""

    def batches(*shapes: tuple[int, ...]) -> list[np.ndarray]:
        return [between(-2, 2.3, *shape, seed=seed) for seed, shape in enumerate((shapes * count)[:count])]

    def samples() -> Iterator[Sample]:
        for each in ({}, *options):
            yield sample(*batches((3, 4)), **each)
        yield sample(*(each[::2, ::-2].T for each in batches((8, 6))))
        yield sample(*batches((2, 3, 4), (1, 3, 4), (2, 1, 4)))
        yield sample(*batches((0, 4)), **of_no_vectors)

    return samples


_SIGNS = np.array([1, -1, 1])


def _cosine_samples() -> Iterator[Sample]:
    yield from _vectors(2, {"dim": 0})()
    yield sample(between(-2, 2.3), between(-2, 2.6, seed=1), 0)


def _cosine_reference(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    shape = broadcast_shapes(x1.shape, x2.shape)
    x1, x2 = np.broadcast_to(x1, shape), np.broadcast_to(x2, shape)
    lengths = [np.maximum(np.sqrt(np.square(each).sum(dim)), eps) for each in (x1, x2)]
    return (x1 * x2).sum(dim) / (lengths[0] * lengths[1])


@functional
@composite(method=False, takes="f", also="bi", widen=True, reference=_cosine_reference, samples=_cosine_samples)
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along `dim`; lengths below `eps` count as `eps`."""
    shape, dtype = broadcast_shapes(x1.shape, x2.shape), promote_types(x1.dtype, x2.dtype)
    first, second = (each.to(dtype).expand(shape) for each in (x1, x2))
    first, second = (each / each.norm(2, dim, keepdim=True).clamp(min=eps) for each in (first, second))
    return (first * second).sum(dim)


def _pairwise_samples() -> Iterator[Sample]:
    yield from _vectors(2, {"p": 3.0, "keepdim": True})()
    yield sample(between(-2, 2.3), between(-2, 2.1, seed=1))


def _pairwise_reference(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
    return (np.abs(x1 - x2 + eps) ** p).sum(-1, keepdims=keepdim) ** (1 / p)


@functional
@composite(method=False, widen=True, takes="ifc", reference=_pairwise_reference, samples=_pairwise_samples)
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last dimension."""
    return (x1 - x2 + eps).norm(p, -1, keepdim)


def _ranking_reference(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean") -> Any:
    return reduced_array(np.maximum(margin - target * (input1 - input2), 0), reduction)


def _ranking_samples() -> Iterator[Sample]:
    for options in ({}, {"margin": 0.5, "reduction": "sum"}, {"reduction": "none"}):
        yield sample(between(-2, 2, 3), between(-2, 2.2, 3, seed=1), _SIGNS, **options)
    yield sample(between(-2, 2, 1, 6)[:, ::-2], between(-2, 2.2, 2, 1, seed=1), _SIGNS[None])
    yield sample(between(-2, 2, 0), between(-2, 2, 0), np.zeros(0, np.int64), reduction="sum")


@functional(positional="averaging")
@composite(method=False, widen=True, takes="if", reference=_ranking_reference, samples=_ranking_samples)
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


def _hinge_reference(input: Any, target: Any, margin: float = 1.0, reduction: str = "mean") -> Any:
    return reduced_array(np.where(target == 1, input, np.maximum(margin - input, 0)), reduction)


def _hinge_samples() -> Iterator[Sample]:
    yield sample(between(-2, 2.3, 3, 4), _SIGNS[:, None])
    yield sample(between(-2, 2.3, 3, 4), _SIGNS[:, None], margin=0.4, reduction="sum")
    yield sample(between(-2, 2.3, 8, 6)[::2, ::-2].T, np.array(-1), reduction="none")
    yield sample(between(-2, 2.3), np.array(-1))
    yield sample(between(-2, 2.3, 0, 3), _SIGNS, reduction="sum")


@functional(positional="averaging")
@composite(method=False, takes="f", widen=("input",), reference=_hinge_reference, samples=_hinge_samples)
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, *, reduction: str = "mean") -> Tensor:
    """`input` where the target is 1, max(0, margin - input) where it is -1, and the sum of both elsewhere."""
    near, far = input.where(target != -1, 0), (margin - input).clamp(min=0).where(target != 1, 0)
    return reduce_loss(near + far, reduction)


def _cosine_embedding_reference(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean"
) -> Any:
    cosine = _cosine_reference(input1, input2, input1.ndim - 1)
    return reduced_array(np.where(target == 1, 1 - cosine, np.maximum(cosine - margin, 0)), reduction)


def _cosine_embedding_samples() -> Iterator[Sample]:
    first, second = between(-2, 2, 3, 4), between(-2, 2.3, 3, 4, seed=1)
    yield sample(first, second, _SIGNS)
    yield sample(first, second, _SIGNS, margin=-0.9, reduction="none")
    yield sample(first[0], second[1], np.array(-1))
    yield sample(*(between(-2, 2, 8, 6, seed=seed)[::2, ::-2].T for seed in (0, 1)), _SIGNS)
    yield sample(first[:0], second[:0], np.zeros(0, np.int64), reduction="sum")


@functional(positional="averaging")
@composite(
    method=False,
    widen=("input1", "input2"),
    takes="bif",
    reference=_cosine_embedding_reference,
    samples=_cosine_embedding_samples,
)
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
    squares = [((each * each).sum(-1) + 1e-12) for each in (input1, input2)]
    cosine = (input1 * input2).sum(-1) / (squares[0] * squares[1]).sqrt()
    far = (cosine - margin).clamp(min=0).where(target == -1, 0)
    return reduce_loss((1 - cosine).where(target == 1, far), reduction)


def _triplet_reference(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    near, far = _pairwise_reference(anchor, positive, p, eps), _pairwise_reference(anchor, negative, p, eps)
    if swap:
        far = np.minimum(far, _pairwise_reference(positive, negative, p, eps))
    return reduced_array(np.maximum(near - far + margin, 0), reduction)


def _triplet_samples() -> Iterator[Sample]:
    yield from _vectors(3, {"margin": 0.3, "swap": True}, {"reduction": "none"}, reduction="sum")()
    yield sample(between(-2, 2.3), between(-2, 2.6), between(-2, 2.9))


@functional(positional="averaging")
@composite(method=False, widen=True, takes="ifc", reference=_triplet_reference, samples=_triplet_samples)
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

    With `swap` the negative may also be measured from the positive, where that is closer.
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
@composite(
    method=False,
    takes="fc",
    widen=True,
    reference=lambda anchor, positive, negative, **options: _triplet_reference(anchor, positive, negative, **options),
    samples=_triplet_samples,
)
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
    """`triplet_margin_loss` of any distance, a function of two tensors; by default `pairwise_distance`."""
    if margin <= 0:
        raise ValueError(f"triplet_margin_with_distance_loss(): margin must be greater than 0, got {margin}")
    measure = distance_function or pairwise_distance
    near, far = measure(anchor, positive), measure(anchor, negative)
    if swap:
        far = far.minimum(measure(positive, negative))
    return reduce_loss((near - far + margin).clamp(min=0), reduction)
