"""What machine code is made for: the CPU that stands for the capability in force, so that code is valid on every
machine of its level."""

from __future__ import annotations

import functools
import platform
from typing import NamedTuple

from . import cpu
from .first_use import importing

with importing("llvmlite"):
    from llvmlite import binding

_CPUS = {
    "portable": "x86-64",
    "avx2": "x86-64-v3",
    "avx512": "x86-64-v4",
    "avx512_bf16": "cooperlake",
    "amx": "sapphirerapids",
}
"""LLVM's names of the levels: "x86-64-v3" is AVX2 and FMA, "x86-64-v4" is AVX-512 F, BW, CD, DQ and VL, the first CPU
with AVX512_BF16 adds that and AVX512_VNNI, and the first one with AMX adds tiles."""


class Target(NamedTuple):
    cpu: str
    features: str


@functools.cache
def target() -> Target:
    """The CPU and its features by their names in LLVM: those of the current level, up to that of the hardware. Vectors
    have the level's full width, even if a compiler would prefer narrower ones."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return Target(binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten())
    level = min(cpu.capability(), cpu.hardware(), key=cpu.LEVELS.index)
    features = ["-prefer-256-bit"] if level.startswith(("avx512", "amx")) else []
    if level.startswith("avx512") and cpu.looks_up_bytes() and not cpu.is_emulated("avx512"):
        features += ["+avx512vbmi", "+avx512vnni"]
    return Target(_CPUS[level], ",".join(features))
