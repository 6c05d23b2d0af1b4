"""The functions of neural networks, under the names of torch.nn.functional."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..autograd.modes import derives_from
from ..dispatch.call_errors import argument_errors, refuse_other_than_tensor, warn_caller
from ..dispatch.mutation import refuse_unwritable
from ..ops.attention.multihead import multi_head_attention_forward
from ..ops.attention.scaled_dot_product import scaled_dot_product_attention
from ..ops.conv.fold import fold, max_unpool1d, max_unpool2d, max_unpool3d
from ..ops.conv.fold import unfold_images as unfold
from ..ops.conv.functions import conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d
from ..ops.distances import similarity as _distance
from ..ops.distances.similarity import cosine_similarity, pairwise_distance
from ..ops.elementwise import activations as _activation
from ..ops.elementwise import dropout as _dropout
from ..ops.elementwise import gated_activations as _gated
from ..ops.elementwise import random_activations as _random_activations
from ..ops.elementwise.activations import glu, hardshrink, logsigmoid, prelu, softplus, softshrink, softsign, tanhshrink
from ..ops.elementwise.exponential import sigmoid
from ..ops.elementwise.gated_activations import gelu
from ..ops.elementwise.random_activations import gumbel_softmax
from ..ops.elementwise.trigonometric import tanh
from ..ops.images.adaptive_pool import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
)
from ..ops.images.fractional_pool import fractional_max_pool2d, fractional_max_pool3d
from ..ops.images.grid_sample import affine_grid, grid_sample
from ..ops.images.lp_pool import local_response_norm, lp_pool1d, lp_pool2d, lp_pool3d
from ..ops.images.pool import avg_pool1d, avg_pool2d, avg_pool3d, max_pool1d, max_pool2d, max_pool3d
from ..ops.images.resize import channel_shuffle, interpolate, pixel_shuffle, pixel_unshuffle
from ..ops.indexing.embedding import embedding, one_hot
from ..ops.indexing.embedding_bag import embedding_bag
from ..ops.losses import cross_entropy as _cross_entropy
from ..ops.losses import margin as _margin_losses
from ..ops.losses import pointwise as _loss
from ..ops.losses.ctc import ctc_loss
from ..ops.losses.reduction import reduction_of
from ..ops.matmul.bilinear import bilinear
from ..ops.matmul.linear import linear
from ..ops.norm.normalization import batch_norm, group_norm, instance_norm, layer_norm, normalize, rms_norm
from ..ops.norm.softmax import log_softmax as _log_softmax
from ..ops.norm.softmax import softmax as _softmax
from ..ops.norm.softmax import softmin as _softmin
from ..ops.views.padding import pad
from ..tensor.tensor import Tensor

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "affine_grid",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "elu_",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "fold",
    "fractional_max_pool2d",
    "fractional_max_pool3d",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "leaky_relu_",
    "linear",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rms_norm",
    "rrelu",
    "rrelu_",
    "scaled_dot_product_attention",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
    "triplet_margin_loss",
    "unfold",
]


_BY_POSITION = inspect.Parameter.POSITIONAL_OR_KEYWORD


def _writable(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`function` with torch's last argument `inplace`: True writes the result into the input, and returns that.

    The function then runs on a copy if it is recorded, since its gradient may need the values that are overwritten.
    """
    signature = inspect.signature(function)
    count, inplace = len(signature.parameters), inspect.Parameter("inplace", _BY_POSITION, default=False)

    @functools.wraps(function)
    def call(input: Tensor, *args: Any, inplace: bool = False, **named: Any) -> Tensor:
        if len(args) == count:
            *args, inplace = args  # type: ignore[assignment]
        if not inplace:
            return function(input, *args, **named)
        refuse_other_than_tensor(function.__name__, "input", input)
        refuse_unwritable(function.__name__, input)
        if "out" in named:
            raise TypeError(f"{function.__name__}(): inplace and out name two places for the result; expected one")
        return input.copy_(function(input.clone() if derives_from(input) else input, *args, **named))

    call.__module__ = __name__  # where it is found by its name, as pickle does
    call.__signature__ = signature.replace(parameters=[*signature.parameters.values(), inplace])  # type: ignore[attr-defined]
    return argument_errors(call)


alpha_dropout = _writable(_dropout.alpha_dropout)
celu = _writable(_activation.celu)
dropout = _writable(_dropout.dropout)
dropout1d = _writable(_dropout.dropout1d)
dropout2d = _writable(_dropout.dropout2d)
dropout3d = _writable(_dropout.dropout3d)
elu = _writable(_activation.elu)
feature_alpha_dropout = _writable(_dropout.feature_alpha_dropout)
hardsigmoid = _writable(_activation.hardsigmoid)
hardswish = _writable(_activation.hardswish)
hardtanh = _writable(_activation.hardtanh)
leaky_relu = _writable(_activation.leaky_relu)
mish = _writable(_activation.mish)
relu = _writable(_activation.relu)
relu6 = _writable(_activation.relu6)
rrelu = _writable(_random_activations.rrelu)
selu = _writable(_activation.selu)
silu = _writable(_gated.silu)
threshold = _writable(_activation.threshold)


def _in_place(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The form `name_` of a function that takes `inplace`, which is True here."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(input: Tensor, *args: Any, **named: Any) -> Tensor:
        return function(input, *args, inplace=True, **named)

    call.__name__ = call.__qualname__ = function.__name__ + "_"
    call.__doc__ = f"`{function.__name__}`, written into the input."
    parameters = [each for each in signature.parameters.values() if each.name != "inplace"]
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return call


celu_, elu_, hardtanh_, leaky_relu_ = map(_in_place, (celu, elu, hardtanh, leaky_relu))
relu_, rrelu_, selu_, threshold_ = map(_in_place, (relu, rrelu, selu, threshold))


_AVERAGING = [inspect.Parameter(name, _BY_POSITION, default=None) for name in ("size_average", "reduce")]


def _by_position(function: Callable[..., Tensor], *, averaging: bool = True) -> Callable[..., Tensor]:
    """A loss with every argument also by position, in torch's order: `size_average` stands before the first of those
    that are given by keyword otherwise, and `reduce` before `reduction`, for which the two stood once.
    """
    signature = inspect.signature(function)
    given = list(signature.parameters.values())
    plain = [each for each in given if each.kind is _BY_POSITION]
    rest = [each.replace(kind=_BY_POSITION) for each in given[len(plain) :]]
    if averaging:
        reduction = [each.name for each in rest].index("reduction")
        rest = [_AVERAGING[0], *rest[:reduction], _AVERAGING[1], *rest[reduction:]]
    names, count = [each.name for each in (*plain, *rest)], len(plain)

    @functools.wraps(function)
    def call(*args: Any, size_average: bool | None = None, reduce: bool | None = None, **named: Any) -> Tensor:
        if len(args) > len(names) or not named.keys().isdisjoint(names[count : len(args)]):
            return function(*args, **named)  # which refuses them
        if len(args) > count:
            named |= dict(zip(names[count:], args[count:], strict=False))
            size_average, reduce = named.pop("size_average", size_average), named.pop("reduce", reduce)
        if size_average is not None or reduce is not None:
            named["reduction"] = reduction_of(size_average, reduce)
        return function(*args[:count], **named)

    call.__module__ = __name__
    call.__signature__ = signature.replace(parameters=[*plain, *rest])  # type: ignore[attr-defined]
    return call


binary_cross_entropy = _by_position(_loss.binary_cross_entropy)
binary_cross_entropy_with_logits = _by_position(_loss.binary_cross_entropy_with_logits)
cosine_embedding_loss = _by_position(_distance.cosine_embedding_loss)
cross_entropy = _by_position(_cross_entropy.cross_entropy)
gaussian_nll_loss = _by_position(_loss.gaussian_nll_loss, averaging=False)
hinge_embedding_loss = _by_position(_distance.hinge_embedding_loss)
huber_loss = _by_position(_loss.huber_loss, averaging=False)
kl_div = _by_position(_loss.kl_div)
l1_loss = _by_position(_loss.l1_loss)
margin_ranking_loss = _by_position(_distance.margin_ranking_loss)
mse_loss = _by_position(_loss.mse_loss)
multi_margin_loss = _by_position(_margin_losses.multi_margin_loss)
multilabel_margin_loss = _by_position(_margin_losses.multilabel_margin_loss)
multilabel_soft_margin_loss = _by_position(_margin_losses.multilabel_soft_margin_loss)
nll_loss = _by_position(_cross_entropy.nll_loss)
poisson_nll_loss = _by_position(_loss.poisson_nll_loss)
smooth_l1_loss = _by_position(_loss.smooth_l1_loss)
soft_margin_loss = _by_position(_loss.soft_margin_loss)
triplet_margin_loss = _by_position(_distance.triplet_margin_loss)


def _with_implicit_dim(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`function`, a softmax, with torch's deprecated choice of a `dim` that is left out: 0 for tensors of 0, 1 and 3
    dimensions, 1 for others. torch's `_stacklevel` says nothing: the warning always points to the caller's line.
    """

    def call(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
        if dim is None:
            warn_caller(f"{function.__name__}(): the implicit choice of dim is deprecated; pass dim")
            dim = 0 if input.ndim in (0, 1, 3) else 1
        return function(input, dim, dtype)

    call.__name__ = call.__qualname__ = function.__name__
    call.__doc__, call.__module__ = function.__doc__, __name__
    return argument_errors(call)


log_softmax = _with_implicit_dim(_log_softmax)
softmax = _with_implicit_dim(_softmax)
softmin = _with_implicit_dim(_softmin)
