"""Gradients of convolutions and of attention as separate functions, for callers that keep a graph themselves.

Convolutions have torch's names (`torch.nn.grad`). Attention has a forward that also returns the statistics for its
backward, so that nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ops.attention.scaled_dot_product import (
    AttentionResult,
    scaled_dot_product_attention_backward,
    scaled_dot_product_attention_forward,
)
from ..ops.conv.convolution import convolution_input_gradient, convolution_weight_gradient
from ..ops.conv.functions import Given, numbers
from ..tensor.tensor import Tensor

__all__ = [
    "AttentionResult", "conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input",
    "conv3d_weight", "scaled_dot_product_attention_backward", "scaled_dot_product_attention_forward",
]  # fmt: skip


def _sizes(name: str, argument: str, value: Sequence[int], dims: int) -> tuple[int, ...]:
    """The sizes of all dimensions, channels included."""
    sizes = tuple(value)
    if len(sizes) != dims + 2:
        raise RuntimeError(f"{name}(): {argument} must have {dims + 2} sizes, got {list(sizes)}")
    return sizes


def _declare(dims: int) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    def steps(name: str, stride: Given, padding: Given, dilation: Given) -> tuple[tuple[int, ...], ...]:
        given = {"stride": stride, "padding": padding, "dilation": dilation}
        return tuple(numbers(name, argument, value, dims) for argument, value in given.items())

    def conv_input(
        input_size: Sequence[int],
        weight: Tensor,
        grad_output: Tensor,
        stride: Given = 1,
        padding: Given = 0,
        dilation: Given = 1,
        groups: int = 1,
    ) -> Tensor:
        name = conv_input.__name__
        size = _sizes(name, "input_size", input_size, dims)
        given = steps(name, stride, padding, dilation)
        return convolution_input_gradient(grad_output, weight.conj(), size[2:], *given, groups)

    def conv_weight(
        input: Tensor,
        weight_size: Sequence[int],
        grad_output: Tensor,
        stride: Given = 1,
        padding: Given = 0,
        dilation: Given = 1,
        groups: int = 1,
    ) -> Tensor:
        name = conv_weight.__name__
        size = _sizes(name, "weight_size", weight_size, dims)
        given = steps(name, stride, padding, dilation)
        return convolution_weight_gradient(input.conj(), grad_output, size[2:], *given, groups)

    for function, of in ((conv_input, "input"), (conv_weight, "weight")):
        function.__name__ = function.__qualname__ = f"conv{dims}d_{of}"
    conv_input.__doc__ = f"""The gradient of `conv{dims}d` with respect to its input, of sizes `input_size`.

    weight: (O, C/groups, ...); grad_output: (N, O, ...); the result is (N, C, ...). Raises RuntimeError for sizes that
    do not fit.
    """
    conv_weight.__doc__ = f"""The gradient of `conv{dims}d` with respect to its weight, of sizes `weight_size`.

    input: (N, C, ...); grad_output: (N, O, ...); the result is (O, C/groups, ...). Raises RuntimeError for sizes that
    do not fit.
    """
    return conv_input, conv_weight


conv1d_input, conv1d_weight = _declare(1)
conv2d_input, conv2d_weight = _declare(2)
conv3d_input, conv3d_weight = _declare(3)
