"""Which instruction sets kernels may use: what the CPU has, what the operating system grants, what the user allows."""

from __future__ import annotations

import ctypes
import functools
import os
import platform

__all__ = [
    "EMULATION",
    "LEVELS",
    "VARIABLE",
    "capability",
    "converts_half",
    "detected",
    "emulated",
    "hardware",
    "looks_up_bytes",
    "refusal",
]

LEVELS = ("portable", "avx2", "avx512", "avx512_bf16", "amx")
"""Capabilities, each of which includes those before it. `avx2` means FMA and F16C too, `avx512` F, BW, DQ and VL,
`avx512_bf16` its products of pairs, `amx` bf16 tiles."""

VARIABLE = "MINITORCH_CPU_CAPABILITY"
"""Environment variable that caps the capability; read once, when the first kernel asks."""

EMULATION = "MINITORCH_EMULATE_AMX"
"""Environment variable: with "1" tiles, and what of AVX-512 the CPU lacks, are software, a hundred times slower and the
same to the bit, on any CPU with AVX2. So tests reach all kernels, and results of a machine with AMX can be had again on
another."""

TORCH_VARIABLE = "ATEN_CPU_CAPABILITY"
"""torch's variable for the same, which counts where the other is not set."""

_TORCH_LEVELS = {"default": "portable", "avx2": "avx2", "avx512": "avx512"}

_NEEDS = {
    "avx2": ("avx2", "fma", "f16c"),
    "avx512": ("avx512f", "avx512bw", "avx512dq", "avx512vl"),
    "avx512_bf16": ("avx512_bf16",),
    "amx": ("amx_tile", "amx_bf16"),
}

_SYS_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA = 158, 0x1023, 18


def _described(field: str) -> frozenset[str]:
    """The words of a field of Linux's description of the first CPU; none where it cannot be read."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
            for line in lines:
                if line.startswith(field):
                    return frozenset(line.split(":", 1)[1].split())
    except OSError:
        pass
    return frozenset()


def _tiles_granted() -> bool:
    """Ask the kernel for the AMX tile state, once; the answer holds for every thread of the process."""
    try:
        syscall = ctypes.CDLL(None, use_errno=True).syscall
        return syscall(_SYS_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA) == 0
    except (OSError, AttributeError):
        return False


@functools.cache
def _asked_to_emulate() -> bool:
    asked = os.environ.get(EMULATION, "").strip()
    if asked not in ("", "0", "1"):
        raise ValueError(f"{EMULATION}={asked!r} is neither '1', which emulates AMX, nor '0'")
    return asked == "1"


@functools.cache
def hardware() -> str:
    """The highest of `LEVELS` that the CPU has and the operating system grants."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return "portable"
    flags, level = _described("flags"), "portable"
    for candidate, needs in _NEEDS.items():
        if not flags.issuperset(needs) or (candidate == "amx" and not _tiles_granted()):
            break
        level = candidate
    return level


@functools.cache
def detected() -> str:
    """The highest of `LEVELS` that the CPU has and the operating system grants, or that is emulated."""
    asked = _asked_to_emulate()  # first, so that another value of the variable is refused on every CPU
    return "amx" if asked and hardware() != "portable" else hardware()


@functools.cache
def emulated(level: str) -> bool:
    """Whether software stands for the instructions of a level: for tiles where the user asks for it, for others where
    the CPU lacks them too."""
    if not _asked_to_emulate() or hardware() == "portable":
        return False
    return level == "amx" or LEVELS.index(level) > LEVELS.index(hardware())


@functools.cache
def capability() -> str:
    """The highest of `LEVELS` that kernels may use in this process."""
    for variable, levels in ((VARIABLE, {level: level for level in LEVELS}), (TORCH_VARIABLE, _TORCH_LEVELS)):
        wanted = os.environ.get(variable, "").strip().lower()
        if wanted and wanted not in levels:
            raise ValueError(f"{variable}={wanted!r} is not a CPU capability; expected one of {', '.join(levels)}")
        if wanted:
            return min(levels[wanted], detected(), key=LEVELS.index)
    return detected()


def refusal(isa: str | None) -> str | None:
    """Why an implementation that needs `isa` may not run here, or None when it may."""
    if isa is None or LEVELS.index(isa) <= LEVELS.index(capability()):
        return None
    vain = f"; {EMULATION} needs AVX2" if _asked_to_emulate() and hardware() == "portable" else ""
    return f"needs {isa}, and the CPU capability in force is {capability()} (CPU and {VARIABLE}{vain})"


@functools.cache
def gains_by_pairs() -> bool:
    """Whether the CPU begins VDPBF16PS as often as a fused multiply-add of as many lanes, and so does twice the
    products. AMD's cores do, from Zen 4 on, which has it first (0.27 ns each, measured); Intel's with AMX begin it a
    quarter as often."""
    return "AuthenticAMD" in _described("vendor_id")


@functools.cache
def looks_up_bytes() -> bool:
    """Whether the CPU has AVX512_VBMI and AVX512_VNNI, or software for them. All have them that have AMX; one with
    AVX512_BF16 does not."""
    return emulated("avx512") or _described("flags").issuperset(("avx512vbmi", "avx512_vnni"))


def converts_half() -> bool:
    """Whether compiled code can read and write float16. Without F16C the compiler would call a library function that is
    not there, which ends the process."""
    return capability() != LEVELS[0]
