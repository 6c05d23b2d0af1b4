"""Bit-exact models of other devices' matrix units, and the table of device profiles.

    d = mt.profiles.mma(a, b, c, profile="h100", format="bf16")
    with mt.backends.flags(profile="h100", fp32_precision="bf16"):
        d = a @ b  # summed as that unit does

`PROFILES` has one row per device, with the evidence for it; `add` adds a row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .backends.profiles import PROFILES, Aligned, Exact, Format, Halves, Profile, Tree, TwoStage, add, find_profile
from .kernels.first_use import load
from .kernels.float8 import FORMATS
from .kernels.matrix_units import definition
from .tensor.tensor import Tensor

__all__ = ["PROFILES", "Aligned", "Exact", "Format", "Halves", "Profile", "Tree", "TwoStage", "add", "mma"]

_TYPES = {"fp16": "float16", "bf16": "bfloat16", **{operand: name for name, operand in FORMATS.items()}}
"""The storage dtype of each operand format. TF32 is stored as float32; the units ignore the low 13 bits."""

_RESULTS = {"float32": np.float32, "float16": np.float16}


def mma(
    a: Any,
    b: Any,
    c: Any,
    *,
    profile: str | Profile,
    format: str,
    result: str = "float32",
    instruction: str | None = None,
) -> Tensor:
    """Compute n dot products as a device's matrix unit does: c + the sums over K of a * b.

    Arguments:
        a, b: shape (n, K), values of `format`, as tensors or arrays of any floating dtype.
        c: shape (n,), rounded to `result` first.
        profile: a name in `PROFILES`, or a row of your own.
        format: "fp16", "bf16", "tf32" (the unit ignores the low 13 bits), "e4m3", "e5m2", "e4m3fnuz" or "e5m2fnuz".
        result: "float32", or "float16" where NVIDIA's units have it: for fp16 and fp8.
        instruction: the instruction to use where a device has several for a format, for example "mma.sync" for fp8 on
            H100.

    Returns shape (n,) in `result`. Raises ValueError for unknown names and for values that `format` cannot hold, and
    RuntimeError for mismatched shapes.
    """
    way = find_profile(profile).format(format, instruction)
    if way.rule is None:
        raise ValueError(
            f"mma(): profile must be a device with a known summation order, got {find_profile(profile).name!r}"
        )
    kind = _RESULTS.get(result)
    if kind is None or (kind is np.float16 and not _has_half_results(way, format)):
        has = "'float32' or 'float16'" if _has_half_results(way, format) else "'float32' here"
        raise ValueError(f"mma(): result must be {has}, got {result!r}")
    left, right, start = (np.asarray(x._array if isinstance(x, Tensor) else x, np.float64) for x in (a, b, c))
    if left.ndim != 2 or left.shape != right.shape or start.shape != left.shape[:1]:
        shapes = ", ".join(str(list(x.shape)) for x in (left, right, start))
        raise RuntimeError(f"mma(): a and b must be (n, K) and c (n), got {shapes}")
    left, right = (_values(name, x, format) for name, x in (("a", left), ("b", right)))
    return Tensor(definition(way.rule, format, left, right, start, result=kind))


def _has_half_results(way: Format, operand: str) -> bool:
    return isinstance(way.rule, Aligned | Halves) and operand not in ("bf16", "tf32")


def _values(name: str, x: np.ndarray, operand: str) -> np.ndarray:
    """The values of an operand. Raises ValueError unless `format` holds them exactly."""
    if operand == "tf32":
        return (x.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    load("ml_dtypes")  # registers the extension dtypes with NumPy
    with np.errstate(over="ignore", invalid="ignore"):
        held = x.astype(_TYPES[operand]).astype(np.float64)
    wrong = np.flatnonzero((held != x) & ~(np.isnan(held) & np.isnan(x)))
    if len(wrong):
        raise ValueError(f"mma(): {name} must hold values of {operand}, got {x.ravel()[wrong[0]]}; round it first")
    return held
