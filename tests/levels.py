"""`python -m tests.levels`: kernels, and figures that pages show, at each CPU capability other than this machine's own.

That is each lower one, and tiles in software where the CPU has none, on which all AVX-512 code runs too. Levels of
AVX-512 are run without what is compiled alike for them and the machine's own. Arguments go to pytest.
"""

import os
import subprocess
import sys

from minitorch_backends.kernels.runtime import cpu

ALIKE = (
    "linalg/test_contract.py", "linalg/test_jacobi.py", "linalg/test_reflections.py", "linalg/test_small.py",
    "test_blas_library.py", "test_elementwise.py", "test_normalization.py", "test_pooling.py", "test_precision.py",
    "test_rounding.py", "test_rows.py",
)  # fmt: skip
"""Tests of what is compiled alike for every level but "portable"."""

OF_ANY = (
    "gemm/test_tuning.py", "test_ahead.py", "test_decisions.py", "test_first_use.py", "test_identify.py", "test_jit.py",
    "test_machine.py", "test_map.py", "test_native.py", "test_notice.py", "test_plans.py", "test_registry.py",
    "test_store.py",
)  # fmt: skip
"""Tests of how code is compiled, kept and chosen, which set capabilities themselves, start processes, or find rules of
devices: alike at every capability."""

MULTIPLYING = (
    "conv", "gemm", "linalg/test_blocked.py", "linalg/test_by_matmul.py", "linalg/test_refined.py",
    "test_accumulate.py", "test_attention.py", "test_new_precision.py", "test_precisions.py", "test_recurrence.py",
    "test_scaling.py",
)  # fmt: skip
"""Tests of what multiplies by bf16 pairs or by tiles. All others run the same code with them and without."""

PAGES = ("tests/project/test_docs.py", "tests/project/test_readme.py")  # of their tests, those marked "levels"

WORKERS = ("-n", "auto", "--dist", "loadfile", "--no-loadscope-reorder")  # as `make test` has them


def main() -> int:
    own = min(map(cpu.LEVELS.index, (cpu.capability(), cpu.hardware())))
    runs = [(level, "0") for level in cpu.LEVELS[:own]]
    if "portable" != cpu.hardware() != "amx":
        runs.append(("amx", "1"))
    failed = []
    for level, emulated in runs:
        narrower = level in ("portable", "avx2")
        without = () if narrower else ALIKE if cpu.hardware() == "avx2" else (*ALIKE, "test_fft.py")
        added = level in ("avx512_bf16", "amx") and cpu.hardware() not in ("portable", "avx2")
        places = [f"tests/kernels/{name}" for name in MULTIPLYING] if added else ["tests/kernels"]
        settings = {cpu.VARIABLE: level, cpu.EMULATION: emulated}
        shown = " ".join(f"{name}={value}" for name, value in settings.items())
        print("tests of kernels and pages with", shown, flush=True)  # noqa: T201
        ignored = [f"--ignore=tests/kernels/{name}" for name in (*OF_ANY, *without)]
        command = [sys.executable, "-P", "-m", "pytest", "-q", *WORKERS, "-m", "levels", *places, *PAGES, *ignored]
        command += sys.argv[1:]
        if subprocess.run(command, env={**os.environ, **settings}, check=False).returncode:
            failed.append(level)
    sys.stdout.write(f"levels whose tests failed: {', '.join(failed) or 'none'}\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
