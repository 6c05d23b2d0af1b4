"""Available instructions: those of the CPU, granted by the operating system, and allowed by the user.

The features of a CPU are a set; a level names a set of features that kernels need together.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform

_AVX2 = frozenset({"avx2", "fma", "f16c"})
_AVX512 = _AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
_BF16 = _AVX512 | {"avx512_bf16"}
_TILES = frozenset({"amx_tile", "amx_bf16"})

FEATURES: dict[str, frozenset[str]] = {
    "portable": frozenset(), "avx2": _AVX2, "avx512": _AVX512, "avx512_bf16": _BF16, "amx": _BF16 | _TILES,
}  # fmt: skip
"""By level the features that it stands for, in the words of Linux. Each set includes those before it."""

LEVELS = tuple(FEATURES)

VARIABLE = "MINITORCH_CPU_CAPABILITY"
"""Environment variable that caps the capability; read once, on first use."""

EMULATION = "MINITORCH_EMULATE_AMX"
"""Environment variable: with "1" tiles, and what of AVX-512 the CPU lacks, are software, a hundred times slower and the
same to the bit, on any CPU with AVX2. So tests reach all kernels, and results of a machine with AMX can be had again on
another."""

TORCH_VARIABLE = "ATEN_CPU_CAPABILITY"
"""torch's variable for the same, which counts where the other is not set."""

_TORCH_LEVELS = {"default": "portable", "avx2": "avx2", "avx512": "avx512"}

_SYS_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA = 158, 0x1023, 18


def cpuinfo_field(field: str) -> frozenset[str]:
    """The words of a field of Linux's description of the first CPU; none where it cannot be read."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
            for line in lines:
                name, _, words = line.partition(":")
                if name.strip() == field:
                    return frozenset(words.split())
    except OSError:
        pass
    return frozenset()


def _tiles_granted() -> bool:
    """Request the AMX tile state from the kernel, once; it applies to every thread of the process."""
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
def features() -> frozenset[str]:
    """The features that the CPU has and the operating system grants, in the words of Linux; none of other machines than
    x86-64."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return frozenset()
    found = cpuinfo_field("flags")
    return found if not found.issuperset(_TILES) or _tiles_granted() else found - _TILES


@functools.cache
def hardware() -> str:
    """The highest of `LEVELS` whose features the CPU has and the operating system grants."""
    return next(level for level in reversed(LEVELS) if FEATURES[level] <= features())


@functools.cache
def detect() -> str:
    """The highest of `LEVELS` that the CPU has and the operating system grants, or that is emulated."""
    asked = _asked_to_emulate()  # first, so that another value of the variable is refused on every CPU
    return "amx" if asked and hardware() != "portable" else hardware()


@functools.cache
def is_emulated(level: str) -> bool:
    """Whether software emulates the instructions of a level: for tiles if the user requests it, for others if the CPU
    lacks them too."""
    if not _asked_to_emulate() or hardware() == "portable":
        return False
    return level == "amx" or not FEATURES[level] <= features()


@functools.cache
def capability() -> str:
    """The highest of `LEVELS` that kernels may use in this process."""
    for variable, levels in ((VARIABLE, {level: level for level in LEVELS}), (TORCH_VARIABLE, _TORCH_LEVELS)):
        wanted = os.environ.get(variable, "").strip().lower()
        if wanted and wanted not in levels:
            raise ValueError(f"{variable}={wanted!r} is not a CPU capability; expected one of {', '.join(levels)}")
        if wanted:
            return min(levels[wanted], detect(), key=LEVELS.index)
    return detect()


def refusal(isa: str | None) -> str | None:
    """Why an implementation that needs `isa` may not run here, or None when it may."""
    if isa is None or FEATURES[isa] <= FEATURES[capability()]:
        return None
    vain = f"; {EMULATION} needs AVX2" if _asked_to_emulate() and hardware() == "portable" else ""
    return f"needs {isa}, and the CPU capability in force is {capability()} (CPU and {VARIABLE}{vain})"


@functools.cache
def looks_up_bytes() -> bool:
    """Whether the CPU has AVX512_VBMI and AVX512_VNNI, or software for them. All have them that have AMX; one with
    AVX512_BF16 does not."""
    return is_emulated("avx512") or features() >= {"avx512vbmi", "avx512_vnni"}


def converts_half() -> bool:
    """Whether compiled code can read and write float16. Without F16C the compiler would call a library function that is
    not there, which ends the process."""
    return "f16c" in FEATURES[capability()]
