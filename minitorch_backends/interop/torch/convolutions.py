"""Convolutions and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...autograd import enable_grad
from ...autograd.api import grad
from ...nn import functional as F
from ...nn import grad as nn_grad
from ...ops.conv.convolution import convolution, convolution_weight_gradient
from ...tensor.tensor import Tensor
from .table import runs

Sizes = Sequence[int]


@runs("convolution")
def _convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
) -> Tensor:
    dims = weight.ndim - 2
    steps: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    if transposed:
        return getattr(F, f"conv_transpose{dims}d")(input, weight, bias, output_padding=output_padding, **steps)
    return getattr(F, f"conv{dims}d")(input, weight, bias, **steps)


@runs("mkldnn_convolution")
def _mkldnn_convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None, padding: Sizes, stride: Sizes, dilation: Sizes, groups: int
) -> Tensor:
    return _convolution(input, weight, bias, stride, padding, dilation, False, (), groups)


@runs("convolution_backward")
def _convolution_backward(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    bias_sizes: Sizes | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    gradients = _of_transposed if transposed else _of_plain
    steps: tuple[Any, ...] = tuple(stride), tuple(padding), tuple(dilation), groups
    of_input, of_weight = gradients(grad_output, input, weight, tuple(output_padding), output_mask, *steps)
    of_bias = grad_output.sum((0, *range(2, grad_output.ndim))) if output_mask[2] else None
    return of_input, of_weight, of_bias


Gradients = tuple[Tensor | None, Tensor | None]


def _of_plain(
    grad_output: Tensor, input: Tensor, weight: Tensor, _: Sizes, needed: Sequence[bool], *steps: Any
) -> Gradients:
    dims, of_input, of_weight = weight.ndim - 2, None, None
    if needed[0]:
        of_input = getattr(nn_grad, f"conv{dims}d_input")(input.shape, weight, grad_output, *steps)
    if needed[1]:
        of_weight = getattr(nn_grad, f"conv{dims}d_weight")(input, weight.shape, grad_output, *steps)
    return of_input, of_weight


def _of_transposed(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    output_padding: Sizes,
    needed: Sequence[bool],
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    groups: int,
) -> Gradients:
    """The transposed convolution is the input gradient of a convolution, and its gradients are the other two of the
    three; unless it has so much output padding that its forward is more than that."""
    steps = stride, padding, dilation, groups
    if all(more < step for more, step in zip(output_padding, stride, strict=True)):
        of_input = convolution(grad_output, weight.conj(), None, *steps) if needed[0] else None
        kernel_size = weight.shape[2:]
        of_weight = convolution_weight_gradient(grad_output, input.conj(), kernel_size, *steps) if needed[1] else None
        return of_input, of_weight
    leaves = [each.detach().requires_grad_(wanted) for each, wanted in zip((input, weight), needed, strict=False)]
    with enable_grad():
        out = _convolution(*leaves, None, stride, padding, dilation, True, output_padding, groups)
    found = iter(grad(out, [each for each in leaves if each.requires_grad], grad_output) if any(needed[:2]) else ())
    return tuple(next(found) if each.requires_grad else None for each in leaves)  # type: ignore[return-value]
