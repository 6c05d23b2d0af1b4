"""`python -m minitorch_backends.kernels.ahead TARGET`: compile for CPUs of a kind, this one or another, into the store.

All functions of `entries` are compiled, and none is run: LLVM makes code for CPUs that this one is not.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from ..runtime import cpu

_BYTES = frozenset({"avx512vbmi", "avx512_vnni"})

TARGETS = {
    "portable": cpu.FEATURES["portable"],
    "avx2": cpu.FEATURES["avx2"],
    "avx512": cpu.FEATURES["avx512"],
    "avx512_vbmi": cpu.FEATURES["avx512"] | _BYTES,
    "avx512_bf16": cpu.FEATURES["avx512_bf16"] | _BYTES,
    "amx": cpu.FEATURES["amx"] | _BYTES,
}
"""Kinds of CPUs by name, with their features: the levels, and AVX-512 with and without what looks up bytes
(`cpu.looks_up_bytes`). The one CPU with AVX512_BF16 that does not (Cooper Lake) compiles for itself."""


def _pretend(features: frozenset[str]) -> None:
    """Be a process on a CPU with these features, whatever the environment says."""
    for variable in (cpu.VARIABLE, cpu.TORCH_VARIABLE, cpu.EMULATION):
        os.environ.pop(variable, None)
    cpu.features = lambda: features


_listed: list[Any] = []
"""The functions to compile. Forked workers inherit the list, and take numbers in it as tasks."""


_TASKS = 150
"""Functions that one process compiles: the compiler keeps 3 MB of each to the end."""


def _compile(number: int) -> str | None:
    """Compile one function where the store does not have it; the failure, or None."""
    entry, kinds = _listed[number]
    try:
        entry.compile_ahead(kinds)
    except Exception as error:
        return f"{entry.py_func.__module__}.{entry.py_func.__name__}({kinds}): {error!r}"
    return None


def _compile_all(only: str, jobs: int, report: Callable[[int, int], None]) -> list[str]:
    """Compile all functions with `only` in the names of their modules; the failures."""
    from ..runtime import pool_code
    from .entries import signatures

    _listed[:] = [each for each in signatures() if only in each[0].py_func.__module__]
    pool_code.content()
    failed = [_compile(0)]  # which imports the compiler once for all
    with multiprocessing.get_context("fork").Pool(jobs, maxtasksperchild=_TASKS) as pool:
        for done, failure in enumerate(pool.imap_unordered(_compile, range(1, len(_listed))), 2):
            failed.append(failure)
            report(done, len(_listed))
    return [each for each in failed if each is not None]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m minitorch_backends.kernels.ahead", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--only", default="", help="part of the names of modules (all)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes (%(default)s)")
    options = parser.parse_args()
    _pretend(TARGETS[options.target])
    start, shown = time.monotonic(), sys.stderr.isatty()

    def report(done: int, total: int) -> None:
        if shown or done == total:
            sys.stderr.write(f"\r{options.target}: {done}/{total} functions, {time.monotonic() - start:.0f} s")

    failed = _compile_all(options.only, options.jobs, report)
    sys.stderr.write("\n" + "".join(f"{each}\n" for each in failed))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
