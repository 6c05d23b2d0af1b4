"""Print versions, CPU, threads, BLAS, compiled code, variables of other libraries, and every flag with its effective
value and the flag that determines it."""

from __future__ import annotations

import argparse
import os
import platform
from typing import Any

from ..lab.machine import cpu_name, version
from .common import write, write_json

HELP = "versions, CPU, threads, BLAS, and every flag with its effective value and origin"

_DISTRIBUTION = "minitorch-backends"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing: the command has no arguments of its own."""


def run(options: argparse.Namespace) -> int:
    found = report()
    if options.json:
        write_json(found)
    else:
        write(_text(found))
    return 0


def report() -> dict[str, Any]:
    """Versions, CPU, threads, BLAS, compiled code, variables of other libraries, and every flag with its value, its
    effective value and the flag that determines it."""
    from ..backends.foreign_env import effects

    variables = effects() or {"none": "no variable of Numba, OpenMP or a BLAS is set"}
    return {
        "versions": _versions(),
        "machine": _machine(),
        "compiled code": _compiled_code(),
        "variables of other libraries": variables,
        "flags": _flags(),
    }


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "minitorch_backends": version(_DISTRIBUTION)}
    names = ("numpy", "scipy", "numba", "llvmlite", "opt_einsum", "ml_dtypes")
    return found | {name: version(name) for name in names}


def _machine() -> dict[str, Any]:
    from .. import backends
    from ..kernels.block.tuning import origin
    from ..kernels.runtime import cpu, machine, threading
    from ..kernels.runtime.blas_library import blas_kernels, blas_library

    blas, cores, cpus = blas_library(), threading.available_cores(), threading.available_cpus()
    return {
        "platform": platform.platform(),
        "cpu": cpu_name(),
        "cpu capability": f"{backends.cpu.get_cpu_capability()} ({_detect(cpu)}, {_cap(cpu)})",
        "thresholds of products": origin(),
        "microarchitecture": machine.microarchitecture() or "unknown",
        "caches": str(machine.caches()),
        "cores": f"{cores} physical, {cpus} logical, within the affinity mask and the quota",
        "threads": f"{threading.get_num_threads()}, in a separate pool",
        "numba's OpenMP layer": "usable" if backends.openmp.is_available() else "not usable",
        "BLAS of NumPy": " ".join(filter(None, (blas.name, blas.version, blas.path))),
        "its kernels are for": blas_kernels() or "unknown",
    }


def _compiled_code() -> dict[str, Any]:
    from ..kernels.runtime import cpu, store

    found = store.contents()
    of_groups = ", ".join(f"{group} {count}" for group, count in found.loadable.items())
    carried = store.count_installed()
    return {
        "installed with the package": f"{carried} functions for {cpu.capability()}"
        if carried
        else f"none for {cpu.capability()}: kernels are compiled at their first calls",
        "folder": str(store.cache_folder()),
        "size": f"{found.size / 1e6:.1f} MB in {found.files} files",
        f"functions for {cpu.capability()}": of_groups or "none yet; mt.warmup() compiles those of first calls",
    }


def _detect(cpu: Any) -> str:
    has = f"the CPU has {cpu.hardware()}"
    return (
        f"{has}; tiles and other missing instructions are emulated by {cpu.EMULATION}"
        if cpu.is_emulated("amx")
        else has
    )


def _cap(cpu: Any) -> str:
    for variable in (cpu.VARIABLE, cpu.TORCH_VARIABLE):
        if os.environ.get(variable, "").strip():
            return f"{variable}={os.environ[variable]}"
    return "and nothing caps it"


def _flags() -> dict[str, dict[str, Any]]:
    from .. import backends  # noqa: F401  (declares the flags)
    from ..flags import current, rows, set_by

    state, found = current(), {}
    for path, row in rows.items():
        effective, holder = state.resolve(path)
        decided = "default" if holder is None else "set" if holder == path else f"from {holder}"
        if holder in set_by:
            decided += f" by {set_by[holder]}"
        stored = effective if row.reads is not None else state.stored.get(path, "unset")
        found[path] = {"value": stored, "effective": effective, "decided by": decided, "acts": row.inert or "yes"}
    return found


def _text(found: dict[str, Any]) -> str:
    """The report for people: aligned columns."""
    lines = []
    for title in (name for name in found if name != "flags"):
        width = max(map(len, found[title]))
        lines += [title, *(f"  {name.ljust(width)}  {value}" for name, value in found[title].items()), ""]
    cells = [("flag", "value", "effective", "decided by", "acts")]
    cells += [(path, *(str(value) for value in entry.values())) for path, entry in found["flags"].items()]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        lines.append("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return "\n".join(lines)
