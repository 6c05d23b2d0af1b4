"""torch's other forms of functions: in-place forms, namespace functions, copies of views.

Most are derived from a method or function. Functions of `nn.functional` that differ from their namesakes in torch's own
namespace follow, one by one: they take no `inplace`, and an integer reduction.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ..dispatch.call_errors import argument_errors
from ..tensor.tensor import Tensor
from .elementwise.complex_numbers import view_as_complex, view_as_real
from .functional import functions

_SYNONYMS = {
    "absolute": "abs", "divide": "div", "fix": "trunc", "greater": "gt", "greater_equal": "ge", "less": "lt",
    "less_equal": "le", "multiply": "mul", "negative": "neg", "not_equal": "ne", "subtract": "sub",
    "true_divide": "div",
}  # fmt: skip
"""Other names of methods, which write in place as well."""

_IN_PLACE = """
    abs acos acosh addmv arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh ceil clamp
    clamp_max clamp_min clip conj_physical cos cosh deg2rad erf erfc exp exp2 expm1 fill fix floor frac gcd i0
    index_put lcm ldexp log log10 log1p log2 logit nan_to_num neg negative rad2deg reciprocal round rsqrt
    sigmoid sin sinc sinh sqrt square tan tanh trunc xlogy
"""
"""Methods `name_` that are functions as well."""

_OF_VIEWS = """
    as_strided diagonal expand permute select split_with_sizes squeeze t transpose unbind unfold unsqueeze view
"""
"""Methods that give views, and functions `name_copy` that give copies of these."""

_OF_NN = """
    adaptive_avg_pool1d bilinear celu celu_ channel_shuffle cosine_similarity hardshrink max_pool1d max_pool2d
    max_pool3d pairwise_distance pdist pixel_shuffle pixel_unshuffle prelu relu_ rms_norm rrelu rrelu_ selu selu_
    threshold threshold_
"""
"""Functions of `nn.functional` that are functions of the package as well, with the same arguments."""

_forms: dict[str, Callable[..., Any]] = {}
_F = SimpleNamespace(**functions)
_REDUCTIONS = ("none", "mean", "sum")


def _reduction(code: int) -> str:
    """The reduction that torch's number stands for. Raises ValueError for other numbers."""
    if type(code) is not int or not 0 <= code < len(_REDUCTIONS):
        raise ValueError(f"reduction must be 0 (none), 1 (mean) or 2 (sum), got {code!r}")
    return _REDUCTIONS[code]


def _form(function: Callable[..., Any]) -> Callable[..., Any]:
    _forms[function.__name__] = argument_errors(function)
    return function


def _by_input(name: str) -> Callable[..., Any]:
    """The function of a method that calls its tensor `self`."""
    method = getattr(Tensor, name)
    first, *others = inspect.signature(method).parameters.values()

    def function(input: Tensor, *args: Any, **named: Any) -> Any:
        return method(input, *args, **named)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = method.__doc__
    function.__signature__ = inspect.Signature([first.replace(name="input"), *others])  # type: ignore[attr-defined]
    return argument_errors(function)


def _copying(name: str, viewed: Callable[..., Any]) -> Callable[..., Any]:
    """The function that copies the views that another one gives: one tensor or a tuple of them."""

    def copying_form(input: Tensor, *args: Any, **named: Any) -> Any:
        views = viewed(input, *args, **named)
        return tuple(each.clone() for each in views) if isinstance(views, (tuple, list)) else views.clone()

    copying_form.__name__ = copying_form.__qualname__ = f"{name}_copy"
    copying_form.__doc__, copying_form.__wrapped__ = f"A copy of `{name}`.", viewed  # type: ignore[attr-defined]
    return argument_errors(copying_form)


def _with_indices(name: str) -> Callable[..., Any]:
    """The function of `nn.functional` that always returns where the largest values are as well."""
    function = functions[name]

    def pool(input: Tensor, *args: Any, **named: Any) -> Any:
        return function(input, *args, **named | {"return_indices": True})

    pool.__name__ = pool.__qualname__ = f"{name}_with_indices"
    pool.__doc__, pool.__wrapped__ = f"`{name}` with `return_indices=True`.", function  # type: ignore[attr-defined]
    return argument_errors(pool)


@_form
def adaptive_max_pool1d(input: Tensor, output_size: Any) -> Any:
    """`nn.functional.adaptive_max_pool1d`, with the places of the largest values."""
    return _F.adaptive_max_pool1d(input, output_size, True)


@_form
def affine_grid_generator(theta: Tensor, size: Any, align_corners: bool) -> Tensor:
    """`nn.functional.affine_grid`."""
    return _F.affine_grid(theta, size, align_corners)


@_form
def avg_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """`nn.functional.avg_pool1d`, with torch's own order of arguments."""
    return _F.avg_pool1d(input, kernel_size, stride or None, padding, ceil_mode, count_include_pad)


@_form
def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """`nn.functional.batch_norm`, with torch's own order of arguments."""
    return _F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


@_form
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None, reduction: int = 1
) -> Tensor:
    """`nn.functional.binary_cross_entropy_with_logits`, with torch's own order of arguments."""
    return _F.binary_cross_entropy_with_logits(
        input, target, weight, reduction=_reduction(reduction), pos_weight=pos_weight
    )


@_form
def constant_pad_nd(input: Tensor, pad: Any, value: complex = 0) -> Tensor:
    """`nn.functional.pad` with a constant."""
    return _F.pad(input, pad, value=value)


@_form
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """`nn.functional.cosine_embedding_loss`, with torch's own order of arguments."""
    return _F.cosine_embedding_loss(input1, input2, target, margin, reduction=_reduction(reduction))


@_form
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> Tensor:
    """`nn.functional.ctc_loss`, with torch's own order of arguments."""
    return _F.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, _reduction(reduction), zero_infinity)


@_form
def detach(input: Tensor) -> Tensor:
    """A view of the tensor outside the graph."""
    return input.detach()


def _dropout_forms(name: str, of: str) -> None:
    """Declare `name`, the function `of` of `nn.functional` with torch's own order of arguments, and `name_`."""
    chosen = getattr(_F, of)

    def copying(input: Tensor, p: float, train: bool) -> Tensor:
        return chosen(input, p, train)

    def writing(input: Tensor, p: float, train: bool) -> Tensor:
        return chosen(input, p, train, True)

    copying.__name__ = copying.__qualname__ = name
    copying.__doc__ = f"`nn.functional.{of}`, with torch's own order of arguments."
    writing.__name__ = writing.__qualname__ = name + "_"
    writing.__doc__ = f"`{name}`, written into the input."
    _form(copying)
    _form(writing)


for _name in ("dropout", "alpha_dropout", "feature_alpha_dropout"):
    _dropout_forms(_name, _name)
_dropout_forms("feature_dropout", "dropout2d")


@_form
def embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    """`nn.functional.embedding`, with the table first; a padding_idx of -1 stands for none."""
    return _F.embedding(
        indices, weight, None if padding_idx == -1 else padding_idx, None, 2.0, scale_grad_by_freq, sparse
    )


@_form
def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`nn.functional.grid_sample`, with the numbers of the modes in the order of its documentation."""
    return _F.grid_sample(
        input,
        grid,
        ("bilinear", "nearest", "bicubic")[interpolation_mode],
        ("zeros", "border", "reflection")[padding_mode],
        align_corners,
    )


@_form
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
    cudnn_enabled: bool = True,
) -> Tensor:
    """`nn.functional.group_norm`, with torch's own order of arguments."""
    return _F.group_norm(input, num_groups, weight, bias, eps)


@_form
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1) -> Tensor:
    """`nn.functional.hinge_embedding_loss`, with torch's own order of arguments."""
    return _F.hinge_embedding_loss(input, target, margin, reduction=_reduction(reduction))


@_form
def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """`nn.functional.instance_norm`, with torch's own order of arguments."""
    return _F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


@_form
def kl_div(input: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False) -> Tensor:
    """`nn.functional.kl_div`, with torch's own order of arguments."""
    return _F.kl_div(input, target, reduction=_reduction(reduction), log_target=log_target)


@_form
def layer_norm(
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
    cudnn_enable: bool = True,
) -> Tensor:
    """`nn.functional.layer_norm`, with torch's own order of arguments."""
    return _F.layer_norm(input, normalized_shape, weight, bias, eps)


@_form
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """`nn.functional.margin_ranking_loss`, with torch's own order of arguments."""
    return _F.margin_ranking_loss(input1, input2, target, margin, reduction=_reduction(reduction))


@_form
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int) -> Tensor:
    """`nn.functional.poisson_nll_loss`, with torch's own order of arguments."""
    return _F.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=_reduction(reduction))


@_form
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-06,
    swap: bool = False,
    reduction: int = 1,
) -> Tensor:
    """`nn.functional.triplet_margin_loss`, with torch's own order of arguments."""
    return _F.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=_reduction(reduction))


for _name, _method in _SYNONYMS.items():
    setattr(Tensor, f"{_name}_", getattr(Tensor, f"{_method}_"))
_pools = [f"{kind}max_pool{dims}d" for kind in ("", "adaptive_") for dims in (1, 2, 3)]
functions.update(
    (f"{_name}_with_indices", _with_indices(_name))
    for _name in [*_pools, "fractional_max_pool2d", "fractional_max_pool3d"]
)
_forms.update((_name, _by_input(_name)) for _name in ("as_strided_", "detach_", "resize_as_", "zero_"))
_forms.update((f"{_name}_", getattr(Tensor, f"{_name}_")) for _name in _IN_PLACE.split())
_views = {_name: getattr(Tensor, _name) for _name in _OF_VIEWS.split()}
_views |= {"view_as_complex": view_as_complex, "view_as_real": view_as_real}
_forms.update((f"{_name}_copy", _copying(_name, _viewed)) for _name, _viewed in _views.items())
_forms.update((_name, functions[_name]) for _name in [*_OF_NN.split(), "max_pool1d_with_indices"])
globals().update(_forms)
__all__ = list(_forms)
