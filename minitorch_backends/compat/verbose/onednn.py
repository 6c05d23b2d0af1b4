"""The lines of oneDNN's verbose mode, version 1, for a kernel call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ...kernels.registry import Call
from ...kernels.runtime import cpu
from ...kernels.runtime.threading import get_num_threads
from .mkl import ENGINE, PRODUCTS

__all__ = ["onednn_lines"]


_DTYPES = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "int8": "s8",
    "uint8": "u8",
    "int16": "s16",
    "uint16": "u16",
    "int32": "s32",
    "int64": "s64",
    "uint32": "u32",
    "uint64": "u64",
    "bool": "boolean",
    "complex64": "c64",
    "complex128": "c128",
    "float8_e4m3fn": "f8_e4m3",
    "float8_e5m2": "f8_e5m2",
}
"""oneDNN's names of dtypes; it has no complex ones."""


_TEMPLATE = (
    "operation,engine,primitive,implementation,prop_kind,memory_descriptors,attributes,auxiliary,problem_desc,exec_time"
)

_PROP_KINDS = {
    "conv": "forward_training",
    "conv_input_gradient": "backward_data",
    "conv_weight_gradient": "backward_weights",
}
"""Kernels that are convolutions."""


def onednn_lines(call: Call, first: bool, what: frozenset[str]) -> Iterable[str]:
    """The lines of one call: "exec", "create" for compilation ("info": in words), "dispatch" for refusals."""
    if not what:
        return
    if first:
        yield f"onednn_verbose,v1,info,{ENGINE}"
        yield f"onednn_verbose,v1,info,cpu,runtime:threadpool,nthr:{get_num_threads()}"
        yield f"onednn_verbose,v1,info,cpu,isa:{cpu.capability()}"
        yield f"onednn_verbose,v1,primitive,info,template:{_TEMPLATE}"
    if "dispatch" in what:
        for name, sentence in call.refusals:
            columns = _columns(call, f"minitorch:{name}")
            yield f"onednn_verbose,v1,primitive,create:dispatch,{columns},{sentence.replace(',', ';')},registry"
    columns, compiled = _columns(call, f"minitorch:{call.implementation}"), call.compiled
    if compiled and "create" in what:
        yield f"onednn_verbose,v1,primitive,create:cache_miss,{columns},{compiled * 1e3:g}"
    elif compiled and "info" in what:
        name = f"minitorch:{call.implementation}"
        yield f"onednn_verbose,v1,info,{name} was compiled or loaded in {compiled:.3g} s for this call"
    if "exec" in what:
        yield f"onednn_verbose,v1,primitive,exec,{columns},{call.seconds * 1e3:g}"


def _columns(call: Call, implementation: str) -> str:
    """The columns from the engine to the description of the problem."""
    described = _convolution(call) if call.kernel in _PROP_KINDS else _other(call)
    precision = call.keywords.get("precision", "ieee")
    attributes = "" if precision == "ieee" else f"attr-fpmath:{precision}"
    if call.keywords.get("sums") == "half":
        attributes = "attr-acc-mode:f16"
    if call.keywords.get("relu"):
        attributes = f"{attributes} attr-post-ops:eltwise_relu".lstrip()
    descriptors = " ".join(described.descriptors)
    columns = described.primitive, implementation, described.prop_kind, descriptors, attributes, described.auxiliary
    return ",".join(("cpu", *columns, described.problem))


class _Described(NamedTuple):
    """The columns of a call that depend on its primitive."""

    primitive: str
    prop_kind: str
    descriptors: list[str]
    auxiliary: str
    problem: str


def _other(call: Call) -> _Described:
    """A matrix product; any other kernel under its own name, in the same columns."""
    is_product = call.kernel in PRODUCTS
    third = "scales" if call.kernel == "scaled_matmul" else "bia"
    names = ("src", "wei", third, third) if is_product else tuple(f"src_{index}" for index in range(len(call.arrays)))
    ndim = max((len(array.shape) for array in call.arrays), default=0)
    layouts = [_Layout(array, ndim) for array in call.arrays]
    descriptors = [layout.descriptor(name) for layout, name in zip(layouts, names, strict=False)]
    if isinstance(call.result, np.ndarray):
        descriptors.append(_Layout(call.result, ndim).descriptor("dst"))
    problem = ":".join("x".join(map(str, layout.shape)) for layout in layouts[: 2 if is_product else None])
    return _Described("matmul" if is_product else call.kernel, "undef", descriptors, "", problem)


def _convolution(call: Call) -> _Described:
    """A convolution or one of its gradients, whose source is always the image on the side of the input."""
    x, weight, y = _roles(call)
    groups = call.keywords["groups"]
    shape, channels = tuple(weight.shape), y.shape[1]
    if groups > 1 and isinstance(weight, np.ndarray):
        weight = weight.reshape(groups, channels // groups, *shape[1:])
    bias = call.arrays[2] if call.kernel == "conv" and len(call.arrays) > 2 else None
    named = [("src", x), ("wei", weight), *([("bia", bias)] if bias is not None else []), ("dst", y)]
    descriptors = [_Layout(array, len(array.shape)).descriptor(name) for name, array in named]
    if bias is None:
        descriptors.insert(2, "bia:undef::undef:::")
    kind = "convolution_winograd" if call.implementation.startswith("winograd") else "convolution_direct"
    group = f"g{groups}" if groups > 1 else ""
    sizes = zip("dhw"[-(len(shape) - 2) :], x.shape[2:], y.shape[2:], shape[2:], *_steps(call), strict=True)
    spatial = "_".join(
        f"i{d}{size}o{d}{result}k{d}{width}s{d}{stride}d{d}{dilation - 1}p{d}{padding}"
        for d, size, result, width, stride, dilation, padding in sizes
    )
    problem = f"{group}mb{x.shape[0]}_ic{x.shape[1]}oc{channels}_{spatial}"
    return _Described("convolution", _PROP_KINDS[call.kernel], descriptors, f"alg:{kind}", problem)


def _roles(call: Call) -> tuple[Any, Any, Any]:
    """The input of the convolution, its weight and its output; one of the three is the result of the call."""
    first, second = call.arrays[:2]
    if call.kernel == "conv":
        return first, second, call.result
    return (call.result, second, first) if call.kernel == "conv_input_gradient" else (first, call.result, second)


def _steps(call: Call) -> Iterable[tuple[int, ...]]:
    return (call.keywords[name] for name in ("stride", "dilation", "padding"))


class _Layout:
    """An array as oneDNN describes it, with leading dimensions of size 1 up to `ndim`."""

    def __init__(self, array: Any, ndim: int) -> None:
        missing = max(ndim - len(array.shape), 0)
        strides = getattr(array, "strides", None)
        self.shape = (1,) * missing + tuple(array.shape)
        self.dtype = _DTYPES.get(array.dtype.name, array.dtype.name)
        steps = [] if strides is None else [stride // array.dtype.itemsize for stride in strides]
        whole = max([size * abs(step) for size, step in zip(array.shape, steps, strict=False)], default=1)
        self.strides = None if strides is None else [whole] * missing + steps

    def descriptor(self, name: str) -> str:
        """The name, dtype, kind of layout, order of the dimensions, and the strides where the array has gaps."""
        letters = "abcdefghijklmnopqrstuvwxyz"[: len(self.shape)]
        if self.strides is None:
            return f"{name}:{self.dtype}::opaque:::f0"
        steps = dict(zip(letters, self.strides, strict=True))
        tag = "".join(sorted(letters, key=lambda letter: (-abs(steps[letter]), letter)))
        dense, expected = True, 1
        for letter in reversed(tag):
            size = self.shape[letters.index(letter)]
            dense = dense and (size == 1 or steps[letter] == expected or 0 in self.shape)
            expected *= size
        strides = "" if dense else "x".join(map(str, self.strides))
        return f"{name}:{self.dtype}::blocked:{tag or 'a'}:{strides}:f0"
