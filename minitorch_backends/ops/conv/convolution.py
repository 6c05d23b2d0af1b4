"""The three ops of convolution, whose gradients are each other, and how the flags have their kernels called."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...backends.operands import Operands
from ...backends.precision_policy import resolve
from ...backends.profiles import STACKS
from ...dispatch.op import Array, op
from ...flags import State, per_state
from ...kernels.conv import KERNELS, Kept, benchmark_cache, conv, conv_input_gradient, conv_weight_gradient
from ...kernels.conv.shapes import empty_output, is_channels_last, output_size, require
from ...kernels.conv.shapes import steps as steps_of
from ...kernels.fft.contract import DEFAULT_PLANS
from ...kernels.precisions.rounding import Rounded
from ...kernels.registry import Kernel, planning
from ...tensor.tensor import Tensor
from ..matmul.by_role import length_along, multiply_rounded, round_for_kernel, to_dtype, with_remainders
from ..packed import Forms

# Transposed convolutions whose stride is beyond the reach of the kernel: what one value makes meets nothing that
# another makes. They are computed at a stride as far as the kernel reaches, and the blocks are put where they belong:
# one pass over the result, which would be as many convolutions as a stride has phases, most of them of no tap.


_LEAST_PHASES = 64


class Apart(NamedTuple):
    """How a transposed convolution is computed, and where its blocks go; spatial dimensions.

    Attributes:
        size, stride, padding: of the convolution that is computed.
        blocks: how many there are along a dimension, and the numbers of each.
        steps: between the blocks in the result.
        cut: numbers before the result.
        whole: sizes of the result.
    """

    size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    blocks: tuple[tuple[int, int], ...]
    steps: tuple[int, ...]
    cut: tuple[int, ...]
    whole: tuple[int, ...]

    @classmethod
    def of(
        cls,
        values: tuple[int, ...],
        kernel: tuple[int, ...],
        size: tuple[int, ...],
        *,
        stride: tuple[int, ...],
        padding: tuple[int, ...],
        dilation: tuple[int, ...],
        **_: Any,
    ) -> Apart | None:
        """For spatial sizes of what is transposed, of the kernel and of the result; None where blocks meet, or where
        there are few phases."""
        reach = [(taps - 1) * step + 1 for taps, step in zip(kernel, dilation, strict=True)]
        far = [step > each for step, each in zip(stride, reach, strict=True)]
        if not any(far) or math.prod(map(min, stride, size)) <= _LEAST_PHASES or 0 in values:
            return None
        columns = []
        for each in zip(far, values, reach, size, stride, padding, strict=True):
            apart, count, extent, length, step, pad = each
            if apart:
                columns.append((count * extent, extent, 0, (count, extent), step, pad, length))
            else:
                columns.append((length, step, pad, (1, length), length, 0, length))
        return cls(*map(tuple, zip(*columns, strict=True)))

    def place(self, computed: np.ndarray) -> np.ndarray:
        """The result: what was computed, block by block, among zeros."""
        ends = [(count - 1) * step + extent for (count, extent), step in zip(self.blocks, self.steps, strict=True)]
        room = [max(end, cut + size) for end, cut, size in zip(ends, self.cut, self.whole, strict=True)]
        out = np.zeros((*computed.shape[:2], *room), computed.dtype)
        shape, strides = list(computed.shape[:2]), list(out.strides[:2])
        for (count, extent), step, stride in zip(self.blocks, self.steps, out.strides[2:], strict=True):
            shape, strides = [*shape, count, extent], [*strides, step * stride, stride]
        np.lib.stride_tricks.as_strided(out, shape, strides)[...] = computed.reshape(shape)
        kept: list[Any] = [slice(cut, cut + size) for cut, size in zip(self.cut, self.whole, strict=True)]
        return np.ascontiguousarray(out[(..., *kept)])


Sizes = tuple[int, ...]

_TRANSFORMS = ("winograd2", "fft")
"""The algorithms that NNPACK has in torch."""


# Flags


class Steering(NamedTuple):
    """The settings of convolution algorithms for one state of the flags."""

    keywords: dict[str, Any]
    """`without`, `workspace_limit` and `plans` of the kernels."""
    depthwise: bool
    """Whether depthwise convolutions prefer the algorithm made for them."""
    timed: int | None
    """The number of algorithms to time on a first call, 0 for all; None disables timing."""


def run(kernel: Kernel, *arrays: Any, precision: Any = None, forms: Forms | None = None, **keywords: Any) -> np.ndarray:
    """Run one of the three kernels at the precision of the call, by the algorithm that the flags select; the rounded
    weight of a layer is cached in its `forms`."""
    if not arrays[0].shape[0]:
        return _of_no_images(kernel, *arrays, **keywords)
    steering, call = _steering(), resolve("conv", arrays[0].dtype, precision)
    if "operands" in call.keywords:
        return _run_by_role(kernel, arrays, call.keywords["operands"], keywords, forms)
    keywords |= {**steering.keywords, **call.keywords}
    decided_by = call.decided_by
    prefer: str | None = None
    if steering.depthwise and _is_depthwise(kernel, arrays, keywords["groups"]):
        prefer = "depthwise"
    elif steering.timed is not None:
        every = keywords | {"every": True}
        if planning() and not benchmark_cache.knows(kernel.name, arrays, every, steering.timed):
            decided_by += "; cudnn.benchmark = True times the algorithms first"
        else:
            keywords, prefer = every, benchmark_cache.fastest(kernel, arrays, every, steering.timed)
    return kernel(*arrays, decided_by=decided_by, prefer=prefer, **keywords)


def _run_by_role(
    kernel: Kernel, arrays: tuple, operands: Operands, keywords: dict[str, Any], forms: Forms | None
) -> np.ndarray:
    """The same with operands in formats; the bias is added to their sums."""
    relu = keywords.pop("relu", False)
    along, groups = "conv" if operands.stored_across else kernel.name, keywords["groups"]
    lengths = [length_along(along, side, each.shape, groups) for side, each in enumerate(arrays[:2])]
    operands, stored = with_remainders(operands, lengths), (operands.right or "", along, groups)
    kept = None if operands.draws(1) else forms

    def round_side(x: np.ndarray, name: str, side: int) -> Rounded:
        if side == 0 or kept is None:
            return round_for_kernel(along, x, name, side, groups, operands)
        return kept.get(stored, lambda: round_for_kernel(along, x, name, side, groups, operands))

    def multiply(a: np.ndarray, b: Any, at: Any) -> np.ndarray:
        if kept is not None:
            b = kept.get((*stored, b.dtype, str(at)), lambda: Kept(b))
        return run(kernel, a, b, precision=at, **keywords)

    out = multiply_rounded("conv", operands, arrays[:2], round_side, multiply, wide=len(arrays) > 2)
    for bias in arrays[2:]:
        out = to_dtype(out + to_dtype(bias, out.dtype).reshape(-1, *(1,) * (out.ndim - 2)), arrays[0].dtype)
    return np.maximum(out, 0, out=out) if relu else out


def _of_no_images(kernel: Kernel, first: np.ndarray, second: Any, bias: Any = None, **keywords: Any) -> np.ndarray:
    """What one of the three kernels gives for an empty batch, by no algorithm at all."""
    require(kernel.name, first, second, bias, **keywords)
    if kernel is conv_weight_gradient:
        channels = first.shape[1] // keywords["groups"]
        return np.zeros((second.shape[1], channels, *keywords["kernel_size"]), first.dtype)
    if kernel is conv_input_gradient:
        channels, size = second.shape[1] * keywords["groups"], keywords["input_size"]
    else:
        at = steps_of(second.ndim - 2, *(keywords[name] for name in ("stride", "padding", "dilation")))
        channels, size = second.shape[0], output_size(first.shape[2:], second.shape[2:], at)
    return empty_output((0, channels, *size), first.dtype, is_channels_last(first))


def _is_depthwise(kernel: Kernel, arrays: tuple[np.ndarray, ...], groups: int) -> bool:
    """Whether each group has one channel of the input."""
    channels = arrays[0].shape[1] // groups if kernel is conv_weight_gradient else arrays[1].shape[1]
    return groups > 1 and channels == 1


@per_state()
def _steering(state: State) -> Steering:
    """The algorithm settings of the current flags."""
    read, stack = state.read, STACKS.get(state.read("emulate"))
    family = None if stack is None else stack.family
    without: dict[str, str] = {}
    if read("cudnn.depthwise_kernel") == "cudnn":
        without["depthwise"] = "cudnn.depthwise_kernel = 'cudnn'"
    if not read("nnpack.enabled"):
        without |= dict.fromkeys(_TRANSFORMS, "nnpack.enabled = False")
    fixed = _deterministic(state)
    for backend, others in (("cudnn", (None, "cuda")), ("mkldnn", (None, "mkldnn"))):
        if family in others and not read(f"{backend}.enabled"):
            names = {name for kernel in KERNELS for name in kernel.implementations}
            without |= dict.fromkeys(sorted(names - {"explicit"}), f"{backend}.enabled = False")
    keywords: dict[str, Any] = {"without": tuple(without.items())} if without else {}
    if read("workspace_limit") is not None:
        keywords["workspace_limit"] = read("workspace_limit")
    if read("cuda.cufft_plan_cache.max_size") != DEFAULT_PLANS:
        keywords["plans"] = read("cuda.cufft_plan_cache.max_size")
    timed = (read("cudnn.benchmark_limit") or 0) if read("cudnn.benchmark") and fixed is None else None
    return Steering(keywords, read("cudnn.depthwise_kernel") == "native", timed)


def _deterministic(state: State) -> str | None:
    """The flag that requires the same bits for every number of threads, as text, or None."""
    if state.read("cudnn.deterministic"):
        return "cudnn.deterministic = True"
    mode = state.read("deterministic_algorithms")
    return None if mode == "default" else f"deterministic_algorithms = {mode!r}"


# Gradients: each op is linear in both inputs, and its transpose in either is another of the three.


def _of_bias(g: Tensor) -> Tensor:
    return g.sum((0, *range(2, g.ndim)))


def _conj(x: Tensor) -> Tensor:
    return x.conj() if x._array.dtype.kind == "c" else x


def _to_input(
    g: Tensor, weight: Tensor, input_shape: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int,
    precision: str | None,
) -> Tensor:  # fmt: skip
    return convolution_input_gradient(
        g, _conj(weight), input_shape[2:], stride, padding, dilation, groups, precision=precision
    )


def _to_weight(
    g: Tensor, input: Tensor, weight_shape: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int,
    precision: str | None,
) -> Tensor:  # fmt: skip
    return convolution_weight_gradient(
        _conj(input), g, weight_shape[2:], stride, padding, dilation, groups, precision=precision
    )


def _gradient_to_output(
    g: Tensor, weight: Tensor, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int, precision: str | None
) -> Tensor:
    return convolution(g, _conj(weight), None, stride, padding, dilation, groups, precision=precision)


def _gradient_to_weight(
    g: Tensor, grad_output: Tensor, weight_shape: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int,
    precision: str | None,
) -> Tensor:  # fmt: skip
    return convolution_weight_gradient(
        g, _conj(grad_output), weight_shape[2:], stride, padding, dilation, groups, precision=precision
    )


def _kernel_to_input(
    g: Tensor, grad_output: Tensor, input_shape: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int,
    precision: str | None,
) -> Tensor:  # fmt: skip
    return convolution_input_gradient(
        _conj(grad_output), g, input_shape[2:], stride, padding, dilation, groups, precision=precision
    )


def _kernel_to_output(
    g: Tensor, input: Tensor, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int, precision: str | None
) -> Tensor:
    return convolution(_conj(input), g, None, stride, padding, dilation, groups, precision=precision)


# The ops


def _name_parameters(dims: int, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int) -> dict[str, Any]:
    return {**steps_of(dims, stride, padding, dilation)._asdict(), "groups": groups}


@op(
    traits="function unwidened silent", takes="ifc", product=("conv", {"input": "activation", "weight": "weight"}),
    input=_to_input, weight=_to_weight, bias=_of_bias, batch="loop: functions of it fold the batch",
)  # fmt: skip
def convolution(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Sizes = (),
    padding: Sizes = (),
    dilation: Sizes = (),
    groups: int = 1,
    *,
    precision: str | None = None,
) -> Array:
    """The convolution (N, O, *out) of `input` (N, C, *S) with `weight` (O, C/groups, *K), in one to three spatial
    dimensions.

    `stride`, `padding` and `dilation` have one number per spatial dimension.
    """
    arrays = (input, weight) if bias is None else (input, weight, bias)
    steps = _name_parameters(weight.ndim - 2, stride, padding, dilation, groups)
    return run(conv, *arrays, precision=precision, **steps)


@op(
    traits="function unwidened silent", takes="ifc",
    product=("conv", {"grad_output": "activation", "weight": "weight"}), grad_output=_gradient_to_output,
    weight=_gradient_to_weight, batch="loop: functions of it fold the batch",
)  # fmt: skip
def convolution_input_gradient(
    grad_output: Array,
    weight: Array,
    input_size: Sizes,
    stride: Sizes = (),
    padding: Sizes = (),
    dilation: Sizes = (),
    groups: int = 1,
    *,
    precision: str | None = None,
) -> Array:
    """The transpose of `convolution` in its input, of spatial sizes `input_size`: a transposed convolution."""
    steps = _name_parameters(len(input_size), stride, padding, dilation, groups)
    if 0 in input_size:
        return np.zeros((len(grad_output), groups * weight.shape[1], *input_size), grad_output.dtype)
    apart = Apart.of(grad_output.shape[2:], weight.shape[2:], input_size, **steps)
    if apart is None:
        return run(conv_input_gradient, grad_output, weight, precision=precision, input_size=input_size, **steps)
    steps |= {"stride": apart.stride, "padding": apart.padding}
    out = run(conv_input_gradient, grad_output, weight, precision=precision, input_size=apart.size, **steps)
    return apart.place(out)


@op(
    traits="function unwidened silent", takes="ifc",
    product=("conv", {"input": "activation", "grad_output": "activation"}), input=_kernel_to_input,
    grad_output=_kernel_to_output, batch="loop: functions of it fold the batch",
)  # fmt: skip
def convolution_weight_gradient(
    input: Array,
    grad_output: Array,
    kernel_size: Sizes,
    stride: Sizes = (),
    padding: Sizes = (),
    dilation: Sizes = (),
    groups: int = 1,
    *,
    precision: str | None = None,
) -> Array:
    """The transpose of `convolution` in its weight, whose spatial sizes are `kernel_size`."""
    steps = _name_parameters(len(kernel_size), stride, padding, dilation, groups)
    return run(conv_weight_gradient, input, grad_output, precision=precision, kernel_size=kernel_size, **steps)
