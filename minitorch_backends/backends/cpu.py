"""CPU capabilities."""

from __future__ import annotations

import sys

from ..flags import Group
from ..kernels.runtime import cpu

__all__ = ["get_cpu_capability"]

_NAMES = {"portable": "DEFAULT"}


def get_cpu_capability() -> str:
    """The highest capability that kernels may use: "DEFAULT", "AVX2", "AVX512", or this engine's "AVX512_BF16" and
    "AMX".

    The environment may lower it: MINITORCH_CPU_CAPABILITY, or torch's ATEN_CPU_CAPABILITY. With MINITORCH_EMULATE_AMX=1
    it is "AMX" on any CPU with AVX2; missing instructions are emulated in software, for tests only.
    """
    return _NAMES.get(cpu.capability(), cpu.capability().upper())


Group.install(sys.modules[__name__], "cpu")
