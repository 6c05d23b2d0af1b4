"""CPUs that a process can pretend to run on, so that every machine checks what is decided on all of them.

`python -m tests.support.cpus NAME` reads numbers of threads and calls as JSON lines, and prints what that CPU chooses.
"""

import json
import os
import subprocess
import sys

import ml_dtypes  # noqa: F401  (its types get names)
import numpy as np

_AVX2 = ("avx2", "fma", "f16c")
_AVX512 = (*_AVX2, "avx512f", "avx512bw", "avx512dq", "avx512vl")
_BF16 = (*_AVX512, "avx512_bf16", "avx512vbmi", "avx512_vnni")
CPUS = {
    "portable": ("GenuineIntel", "6", "23", ()),
    "zen3": ("AuthenticAMD", "25", "33", _AVX2),
    "skylake_x": ("GenuineIntel", "6", "85", _AVX512),
    "zen4": ("AuthenticAMD", "25", "97", _BF16),
    "zen5": ("AuthenticAMD", "26", "2", (*_BF16, "avx_vnni", "avx512_vp2intersect")),
    "sapphire_rapids": (
        "GenuineIntel", "6", "143", (*_BF16, "avx_vnni", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8"),
    ),
}  # fmt: skip
"""Vendor, family, model and features of each, in the words of /proc/cpuinfo."""


def pretend(name: str) -> None:
    """Have this process take itself to run on the CPU `name`. To be called before any kernel is loaded."""
    from minitorch_backends.kernels.runtime import cpu

    vendor, family, model, flags = CPUS[name]
    words = {"flags": flags, "vendor_id": [vendor], "cpu family": [family], "model": [model]}
    described = {field: frozenset(found) for field, found in words.items()}
    cpu.cpuinfo_field = described.__getitem__
    cpu._tiles_granted = lambda: True
    for variable in (cpu.VARIABLE, cpu.TORCH_VARIABLE, cpu.EMULATION):
        os.environ.pop(variable, None)
    for memo in (cpu._asked_to_emulate, cpu.features, cpu.hardware, cpu.detect, cpu.is_emulated, cpu.capability):
        memo.cache_clear()


def decisions(
    name: str, calls: list[tuple], threads: tuple[int, ...]
) -> dict[int, list[tuple[list[str], dict[str, str]]]]:
    """By the number of threads, for each call (kernel, shapes, dtype, keywords) the implementations that the CPU `name`
    would try, best first, and the sentences of those that refuse, by name."""
    command = [sys.executable, "-m", "tests.support.cpus", name]
    lines = "".join(json.dumps([count, *call]) + "\n" for count in threads for call in calls)
    printed = subprocess.run(command, input=lines, stdout=subprocess.PIPE, text=True, check=True).stdout
    found = [tuple(json.loads(line)) for line in printed.splitlines()]
    return {count: found[place * len(calls) :][: len(calls)] for place, count in enumerate(threads)}


def _main() -> None:
    pretend(sys.argv[1])
    import minitorch_backends.kernels.conv
    import minitorch_backends.kernels.fft
    import minitorch_backends.kernels.gemm
    import minitorch_backends.kernels.linalg  # noqa: F401
    from minitorch_backends.kernels.registry import ArraySpec, kernels
    from minitorch_backends.kernels.runtime.threading import set_num_threads

    for line in sys.stdin:
        threads, kernel, shapes, dtype, keywords = json.loads(line)
        set_num_threads(threads)
        specs = [ArraySpec(tuple(shape), np.dtype(dtype)) for shape in shapes]
        decision = kernels[kernel].decide(*specs, **keywords)
        sys.stdout.write(json.dumps([[each.name for each in decision.candidates], dict(decision.refusals)]) + "\n")


if __name__ == "__main__":
    _main()
