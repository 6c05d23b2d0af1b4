"""Devices by their peaks, and the time that products take on them at least: a roofline (S. Williams, A. Waterman,
D. Patterson, "Roofline: an insightful visual performance model", 2009).

A product takes no less than its operations at the peak of its format, nor than its operands and result at the bandwidth
of the memory, each read or written once in its format. No launch, no other operation and no library's choice is in
it: measured times are longer, those of small products many times. `measure_speed` replaces peaks by measured ones.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..kernels.gemm import matmul
from ..kernels.precisions.float8 import FORMATS
from ..kernels.precisions.products import EMULATIONS, OF_HALF, PRECISIONS
from ..kernels.registry import Call
from ..kernels.runtime.files import one_sentence
from .flops import flops_of
from .machine import cpu_name

__all__ = ["DEVICES", "Device", "find_device", "measure_speed"]


class Device(NamedTuple):
    """A row of `DEVICES`.

    Attributes:
        name: how `audit` and `sweep` take it.
        peaks: 10**12 operations a second, without sparsity, by the format of operands.
        bandwidth: of the memory, in 10**9 bytes a second.
        source: where the numbers are from.
    """

    name: str
    peaks: Mapping[str, float]
    bandwidth: float
    source: str


def _peaks(**peaks: float) -> dict[str, float]:
    """Peaks by format; "half" stands for bf16 and fp16, "fp8" for both formats of 8 bits."""
    for name, formats in (("half", ("bf16", "fp16")), ("fp8", ("e4m3", "e5m2"))):
        if name in peaks:
            peaks |= dict.fromkeys(formats, peaks.pop(name))
    return peaks


_HOPPER = _peaks(fp64=67, fp32=67, tf32=494.7, half=989.4, fp8=1978.9, int8=1978.9)
_MI300 = _peaks(fp64=163.4, fp32=163.4, tf32=653.7, half=1307.4, fp8=2614.9, int8=2614.9)
_AMD, _GOOGLE = "amd.com/en/products/accelerators/instinct", "docs.cloud.google.com/tpu/docs"

DEVICES: dict[str, Device] = {
    row.name: row
    for row in (
        Device("v100", _peaks(fp64=7.8, fp32=15.7, fp16=125), 900, "NVIDIA V100 data sheet 1165301-r5, SXM2"),
        Device(
            "t4", _peaks(fp32=8.1, fp16=65, int8=130, int4=260), 320,
            "NVIDIA T4 data sheet 951643; bandwidth: 256 bits of GDDR6 at 10 Gb/s, where the sheet says 300",
        ),
        Device(
            "a100", _peaks(fp64=19.5, fp32=19.5, tf32=156, half=312, int8=624), 2039,
            "NVIDIA A100 data sheet 1758950-r4, SXM of 80 GB",
        ),
        Device(
            "l40s", _peaks(fp32=91.6, tf32=183, half=362.05, fp8=733, int8=733), 864,
            "NVIDIA L40S data sheet, resources.nvidia.com/en-us-l40s/l40s-datasheet-28413",
        ),
        Device(
            "h100", _HOPPER, 3350,
            "NVIDIA H100 data sheet, resources.nvidia.com/en-us-gpu-resources/h100-datasheet-24306, SXM",
        ),
        Device("h200", _HOPPER, 4800, "NVIDIA H200 data sheet 3002446, SXM; peaks are those of H100"),
        Device(
            "b200", _peaks(fp64=37, fp32=75, tf32=1125, half=2250, fp8=4500, int8=4500, e2m3=4500, e3m2=4500,
                           e2m1=9000), 7700, "NVIDIA Blackwell data sheet 3384703, a GPU of HGX B200",
        ),
        Device(
            "mi250", _peaks(fp64=90.5, fp32=90.5, half=362.1, int8=362.1), 3277,
            f"{_AMD}/mi200/mi250.html, both dies; one product runs on one of them",
        ),
        Device("mi300x", _MI300, 5300, f"AMD Instinct MI300X data sheet; {_AMD}/mi300/mi300x.html"),
        Device("mi325x", _MI300, 6000, f"{_AMD}/mi300/mi325x.html"),
        Device(
            "mi355x", _peaks(fp64=78.6, fp32=157.3, half=2516.6, fp8=5033.2, int8=5033.2, e2m3=10066.3, e3m2=10066.3,
                             e2m1=10066.3), 8000, f"{_AMD}/mi350/mi355x.html, at 2.4 GHz",
        ),
        Device("tpu-v4", _peaks(bf16=275, int8=275), 1200, f"{_GOOGLE}/v4"),
        Device("tpu-v5e", _peaks(bf16=197, int8=393), 819, f"{_GOOGLE}/v5e"),
        Device("tpu-v5p", _peaks(bf16=459, int8=918), 2765, f"{_GOOGLE}/v5p; int8: twice bf16"),
        Device("tpu-v6e", _peaks(bf16=918, int8=1836), 1638, f"{_GOOGLE}/v6e"),
        Device(
            "gaudi3", _peaks(fp32=229, tf32=459, fp16=459, bf16=1835, fp8=1835), 3670,
            "Intel Gaudi 3 white paper 817486, matrix engines at 1.75 GHz (modules sold run at 1.6); Hot Chips 2024",
        ),
        Device(
            "trainium2", _peaks(fp32=181, tf32=667, half=667, fp8=1299), 2900,
            "AWS Neuron documentation 2.29, trainium2",
        ),
    )
}  # fmt: skip
"""Every device by name."""

_BITS = {"fp64": 64, "fp32": 32, "tf32": 32, "fp16": 16, "bf16": 16, "e2m3": 6, "e3m2": 6, "e2m1": 4, "int4": 4}

_WIDER = {
    "e2m1": "e2m3", "int4": "int8", "e2m3": "e4m3", "e3m2": "e5m2", "e4m3": "bf16", "e5m2": "bf16", "int8": "bf16",
    "e4m3fnuz": "e4m3", "e5m2fnuz": "e5m2", "fp16": "tf32", "bf16": "tf32", "tf32": "fp32",
}  # fmt: skip
"""The next format that holds the values of another, in which a device without a unit for it multiplies."""

_PASSES_OF_FP32 = 6
"""Products of bf16 parts for fp32 on devices that have no fp32 products (XLA's "highest")."""


def find_device(device: str | os.PathLike[str] | Device) -> Device:
    """The device of a name, or of a JSON file of `measure_speed`. Raises ValueError for others."""
    if isinstance(device, Device):
        return device
    if str(device).lower() in DEVICES:
        return DEVICES[str(device).lower()]
    if not Path(device).is_file():
        raise ValueError(f"device must be one of {', '.join(DEVICES)}, or a file of measured speeds, got {device!r}")
    with one_sentence(f"device: {os.fspath(device)}", "a file of measured speeds"):
        content = json.loads(Path(device).read_text(encoding="utf-8"))
        peaks = {str(key): float(value) for key, value in content["peaks"].items()}
        return Device(str(content["name"]), peaks, float(content["bandwidth"]), str(content["source"]))


def predict_seconds(device: Device, call: Call, precision: str | None = None) -> float:
    """The least seconds of a kernel call on a device, at another precision if one is given; 0 for calls other than
    products, and for dtypes that no unit multiplies."""
    flops, (name, passes) = flops_of(call), _format_of(call, precision or call.keywords.get("precision", "ieee"))
    if not flops or not name:
        return 0.0
    peak = _peak(device, name)
    numbers = sum(math.prod(shape) for shape in call.shapes)
    results = math.prod(getattr(call.result, "shape", ()))
    width = _BITS.get(name, 8)
    pairs = 2 if "complex" in call.dtypes[0] else 1
    moved = pairs * (numbers * width + results * max(width, 16)) / 8
    return max(pairs**2 * flops * passes / (peak * 1e12), moved / (device.bandwidth * 1e9))


def _format_of(call: Call, precision: str) -> tuple[str, int]:
    """The format of a call's operands, and the products of parts that make one."""
    dtype = call.dtypes[0]
    if dtype in ("float64", "complex128"):
        if precision not in EMULATIONS:
            return "fp64", 1
        row = EMULATIONS[precision]
        count = row.count or row.least_count(53, call.shapes[0][-1]) or 1
        return "int8", count + row.accurate if row.by_moduli else count * (count + 1) // 2
    if dtype in ("float32", "complex64"):
        return PRECISIONS[precision].operand, len(PRECISIONS[precision].terms)
    return OF_HALF.get(dtype, FORMATS.get(dtype, "int8" if dtype in ("int8", "uint8") else "")), 1


def _peak(device: Device, name: str) -> float:
    if name == "fp64" and name not in device.peaks:
        raise ValueError(f"device: {device.name} has no float64 products; choose another device or precision")
    found: str | None = name
    while found is not None and found not in device.peaks:
        found = _WIDER.get(found)
    return device.peaks["bf16"] / _PASSES_OF_FP32 if found is None else device.peaks[found]


# Measured


def measure_speed(torch_device: str | None = None, size: int = 1024, seconds: float = 0.3) -> Device:
    """Measure the products and the memory of this CPU, by this package, or of a device of torch.

    `size` is that of square matrices, and `seconds` the time for each format. Raises ValueError for torch where it is
    not installed or has no such device.
    """
    multiply, (bytes_moved, copy), where = _here(size) if torch_device is None else _by_torch(torch_device, size)
    peaks = {name: 2 * size**3 / _fastest(run, seconds) / 1e12 for name, run in multiply.items()}
    bandwidth = bytes_moved / _fastest(copy, seconds) / 1e9
    return Device(where, peaks, bandwidth, f"measured on {where} with square matrices of {size}")


def _fastest(run: Callable[[], Any], seconds: float) -> float:
    """The shortest time of a call, after one that compiles."""
    run()
    taken: list[float] = []
    end = time.perf_counter() + seconds
    while not taken or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return min(taken)


_Runs = dict[str, Callable[[], Any]]
_MEGABYTES = 128


def _here(size: int) -> tuple[_Runs, tuple[int, Callable[[], Any]], str]:
    x = np.random.default_rng(0).standard_normal((size, size)).astype(np.float32)
    wide, source = x.astype(np.float64), np.zeros(_MEGABYTES << 17)
    target = np.empty_like(source)
    runs: _Runs = {"fp64": lambda: matmul(wide, wide), "fp32": lambda: matmul(x, x)}
    for name in ("tf32", "bf16", "fp16"):
        runs[name] = lambda name=name: matmul(x, x, precision=name)  # type: ignore[misc]
    return runs, (2 * source.nbytes, lambda: np.copyto(target, source)), cpu_name()


def _by_torch(device: str, size: int) -> tuple[_Runs, tuple[int, Callable[[], Any]], str]:
    try:
        import torch

        x = torch.randn(size, size, device=device)
    except (ImportError, RuntimeError, AssertionError) as problem:
        raise ValueError(f"measure_speed(): {device} must be a device of torch, got {problem}") from None
    wait = torch.cuda.synchronize if x.is_cuda else lambda: None

    def product(dtype: Any, tf32: bool = False) -> Callable[[], Any]:
        factor = x.to(dtype)

        def run() -> None:
            torch.backends.cuda.matmul.allow_tf32 = tf32
            factor @ factor
            wait()

        return run

    dtypes = {"fp64": torch.float64, "fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
    runs = {name: product(dtype) for name, dtype in dtypes.items()}
    if x.is_cuda:
        runs["tf32"] = product(torch.float32, tf32=True)
    source = torch.zeros(_MEGABYTES << 17, dtype=torch.float64, device=device)
    target = torch.empty_like(source)

    def copy() -> None:
        target.copy_(source)
        wait()

    name = torch.cuda.get_device_name(x.device) if x.is_cuda else f"torch on {cpu_name()}"
    return runs, (2 * source.nbytes, copy), name
