"""Convolutions of one to three spatial dimensions: three tasks, each the transpose of the others, and their algorithms.

* `conv(x, weight[, bias])` is y (N, O, *out), for x (N, C, *S), weight (O, C/groups, *K) and bias (O).
* `conv_input_gradient(g, weight, input_size=S)` is the gradient with respect to x, (N, C, *S), for g of y's shape.
* `conv_weight_gradient(x, g, kernel_size=K)` is the gradient with respect to the weight.

Keywords: `stride`, `padding` (the same on both sides) and `dilation`, tuples with one number per spatial dimension,
where an empty one means 1, 0 and 1; `groups`; `precision` and `rounding` of float32 products, as for `matmul`;
`relu=True` gives max(y, 0). Arrays may have any strides. The result is channels-last in memory if the first array is
(`shapes.is_channels_last`); a weight's gradient is so in two and three dimensions.

A `Kept` weight may replace the array of a weight; implementations cache their packed forms in it.

Three keywords control the selection and are hidden from the implementations:

* `without`: pairs of an implementation's name and the reason why it may not run;
* `workspace_limit`: the bytes that an implementation may use besides its arguments and its result. The last
  implementation receives the limit, keeps its columns below it, and always runs;
* `every=True`: also admits implementations that can run a call but are usually slower.

`plans`, for "fft" only, is the number of cached transform plans.

`bound` limits, for each precision, the error of a product of two operands relative to |a * b|. The error of a result is
at most that times the sum of |a * b|, plus the rounding of fp32 accumulation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..gemm import scaled_operands
from ..precisions.products import PRODUCT_BOUND
from ..registry import ArraySpec, Call, Kernel, kernels
from ..runtime.invariance import BOTH, Demand
from . import exact, explicit, fast, fourier, winograd
from .heuristic import TABLE, Row, slower_on_tiles
from .packed_weight import Kept, array_of
from .shapes import output_size, require, steps
from .tuner import STEERING, benchmark_cache

__all__ = [
    "KERNELS", "Kept", "benchmark_cache", "conv", "conv_input_gradient", "conv_weight_gradient", "declare", "workspace",
]  # fmt: skip


conv = Kernel("conv", reference=exact.exact_conv, bound=PRODUCT_BOUND)
conv_input_gradient = Kernel("conv_input_gradient", reference=exact.exact_input_gradient, bound=PRODUCT_BOUND)
conv_weight_gradient = Kernel("conv_weight_gradient", reference=exact.exact_weight_gradient, bound=PRODUCT_BOUND)

KERNELS = (conv, conv_input_gradient, conv_weight_gradient)

_workspaces: dict[tuple[str, str], Callable[..., int]] = {}


def declare(
    kernel: Kernel, name: str, run: Callable[..., np.ndarray], *, isa: str | None = None,
    refuses: Callable[..., str | None] | None = None, workspace: Callable[..., int] | None = None,
    slower: Callable[..., str | None] | None = None, last: bool = False, packs: bool = False, takes: str | None = None,
) -> None:  # fmt: skip
    """Declare the next best implementation of one of the three kernels. Shapes that do not belong to one convolution
    raise ValueError before any implementation runs, since compiled code would read out of bounds.

    Arguments:
        run, refuses: as for `Kernel.impl`, without the selection keywords.
        slower: from the arguments of `refuses`, a sentence if other implementations are faster or more accurate
            (measured);
            not used with `every=True`.
        workspace: from the arguments of `refuses`, the bytes that a call uses besides its arguments and its result.
        last: it may run regardless of `without` and `workspace_limit`.
        packs: it takes a `Kept` weight and reads its packed form; others receive the array.
        takes: the selection keyword that it receives.
    """
    if workspace is not None:
        _workspaces[kernel.name, name] = workspace

    def refusal(
        *specs: ArraySpec, without: tuple[tuple[str, str], ...] = (), workspace_limit: int | None = None,
        every: bool = False, plans: int | None = None, **keywords: Any,
    ) -> str | None:  # fmt: skip
        if not last:
            for forbidden, reason in without:
                if forbidden == name:
                    return reason
        if kernel in KERNELS:
            require(kernel.name, *specs, **keywords)
        sentence = None if refuses is None else refuses(*specs, **keywords)
        if sentence is None and workspace_limit is not None and workspace is not None and not last:
            needed = workspace(*specs, **keywords)
            if needed > workspace_limit:
                return f"needs {needed:,} bytes of workspace, and the limit is {workspace_limit:,}"
        if sentence is None and slower is not None and not every:
            return slower(*specs, **keywords)
        return sentence

    def without_steering(*arrays: np.ndarray, **keywords: Any) -> np.ndarray:
        given = {name: value for name, value in keywords.items() if name == takes or name not in STEERING}
        return run(*(arrays if packs else map(array_of, arrays)), **given)

    def specialise(*specs: ArraySpec, **keywords: Any) -> Callable[..., np.ndarray] | None:
        """The function of the arrays alone, which takes a sixth less time in small calls than `without_steering`."""
        if not isinstance(run, fast.Compiled):
            return None
        given = {name: value for name, value in keywords.items() if name not in STEERING}
        return run.prepare(specs[0].ndim - 2, given)

    without_steering.__name__ = without_steering.__qualname__ = f"{kernel.name}_{name}"
    keeps = BOTH if last else Demand()
    kernel.impl(name, isa=isa, refuses=refusal, specialise=specialise, by_unit=last, keeps=keeps)(without_steering)


def workspace(kernel: Kernel, name: str, *specs: ArraySpec, **keywords: Any) -> int:
    """The bytes that an implementation takes for these arrays besides its arguments and its result."""
    needed = _workspaces.get((kernel.name, name))
    keywords = {key: value for key, value in keywords.items() if key == "workspace_limit" or key not in STEERING}
    return 0 if needed is None else needed(*specs, **keywords)


def _describe(call: Call) -> dict[str, Any]:
    """The keywords, without those that only forbid, the bytes of workspace, and what `benchmark_cache` has timed."""
    named = {name: value for name, value in call.keywords.items() if name not in STEERING}
    specs = [ArraySpec(x.shape, x.dtype) for x in call.arrays]
    named["workspace"] = workspace(kernels[call.kernel], call.implementation, *specs, **call.keywords)
    if call.prefer is not None:
        named["prefer"] = call.prefer
        if timed := benchmark_cache.timings(call.kernel, call.arrays, call.keywords):
            named["timed"] = ",".join(timed)
    return named


for _kernel in KERNELS:
    _kernel.describe = _describe


def _of_columns(x: ArraySpec, weight: ArraySpec, *_: ArraySpec, **keywords: Any) -> int:
    kernel = weight.shape[2:]
    at = steps(len(kernel), *(keywords.get(name, ()) for name in ("stride", "padding", "dilation")))
    output = output_size(x.shape[2:], kernel, at)
    return explicit.workspace_bytes(
        x.shape[0], x.shape[1], kernel, output, x.dtype.itemsize, keywords.get("workspace_limit")
    )


def _of_input_columns(
    g: ArraySpec, weight: ArraySpec, *, groups: int = 1, workspace_limit: int | None = None, **_: Any
) -> int:
    channels = weight.shape[1] * groups
    return explicit.workspace_bytes(
        g.shape[0], channels, weight.shape[2:], g.shape[2:], g.dtype.itemsize, workspace_limit
    )


def _of_weight_columns(
    x: ArraySpec, g: ArraySpec, *, kernel_size: tuple[int, ...], workspace_limit: int | None = None, **_: Any
) -> int:
    return explicit.workspace_bytes(x.shape[0], x.shape[1], kernel_size, g.shape[2:], x.dtype.itemsize, workspace_limit)


_LAST = {"last": True, "takes": "workspace_limit"}

_IMPLEMENTATIONS: dict[tuple[str, str], dict[str, Any]] = {
    ("conv", "depthwise"): {
        "run": fast.conv_depthwise, "isa": "avx2", "refuses": fast.refuses_depthwise, "packs": True},
    ("conv_input_gradient", "depthwise"): {
        "run": fast.input_gradient_depthwise, "isa": "avx2", "refuses": fast.refuses_depthwise, "packs": True},
    ("conv_weight_gradient", "depthwise"): {
        "run": fast.weight_gradient_depthwise, "isa": "avx2", "refuses": fast.refuses_weight_depthwise},
    ("conv", "direct"): {
        "run": fast.conv_direct, "isa": "amx", "refuses": fast.refuses_direct, "slower": slower_on_tiles,
        "workspace": fast.workspace_direct, "packs": True},
    ("conv_input_gradient", "direct"): {
        "run": fast.input_gradient_direct, "isa": "amx", "refuses": fast.refuses_direct, "slower": slower_on_tiles,
        "workspace": fast.workspace_direct, "packs": True},
    ("conv_weight_gradient", "direct"): {
        "run": fast.weight_gradient_direct, "isa": "amx", "refuses": fast.refuses_direct,
        "slower": slower_on_tiles,
        "workspace": fast.workspace_weight_direct},
    ("conv", "implicit"): {
        "run": fast.conv_implicit, "isa": "avx2", "refuses": fast.refuses_implicit,
        "workspace": fast.workspace_implicit, "packs": True},
    ("conv_input_gradient", "implicit"): {
        "run": fast.input_gradient_implicit, "isa": "avx2", "refuses": fast.refuses_implicit,
        "workspace": fast.workspace_implicit, "packs": True},
    ("conv_weight_gradient", "implicit"): {
        "run": fast.weight_gradient_implicit, "isa": "avx2", "refuses": fast.refuses_implicit,
        "workspace": fast.workspace_weight_implicit},
    ("conv", "winograd2"): {
        "run": winograd.conv, "isa": "avx2", "refuses": winograd.conv_refuses, "workspace": winograd.workspace,
        "packs": True},
    ("conv_input_gradient", "winograd2"): {
        "run": winograd.input_gradient, "isa": "avx2", "refuses": winograd.input_gradient_refuses,
        "workspace": winograd.workspace, "packs": True},
    ("conv", "explicit"): {"run": explicit.conv_explicit, "workspace": _of_columns, **_LAST},
    ("conv_input_gradient", "explicit"): {
        "run": explicit.input_gradient_explicit, "workspace": _of_input_columns, **_LAST},
    ("conv_weight_gradient", "explicit"): {
        "run": explicit.weight_gradient_explicit, "workspace": _of_weight_columns, **_LAST},
}  # fmt: skip
for _name, _declared in fourier.FOURIER.items():
    _IMPLEMENTATIONS[_name, "fft"] = _declared


def _slower(row: Row, kernel: Kernel) -> Callable[..., str | None]:
    """The verdict of a row of the table on a call."""
    if kernel is conv_weight_gradient:
        return lambda *_, kernel_size, **__: row.refusal(math.prod(kernel_size))
    return lambda _, weight, *__, **___: row.refusal(math.prod(weight.shape[2:]))


def _not_scaled(kernel: Kernel) -> Callable[..., str | None]:
    """Why operands are not scaled; what is steered are the implementations that multiply them."""

    def refusal(*specs: ArraySpec, **keywords: Any) -> str | None:
        named = {name: value for name, value in keywords.items() if name not in STEERING}
        require(kernel.name, *specs, **named)
        return scaled_operands.refuses(*specs, **named)

    return refusal


for _kernel in KERNELS:
    _kernel.impl("scaled", refuses=_not_scaled(_kernel), by_unit=True, scales=True, keeps=BOTH)(
        scaled_operands.implementation(_kernel)
    )
for _row in TABLE:
    for _kernel in KERNELS:
        if _kernel.name in _row.kernels:
            _declared = {"slower": _slower(_row, _kernel)} | _IMPLEMENTATIONS[_kernel.name, _row.algorithm]
            declare(_kernel, _row.algorithm, **_declared)
