"""What the numbers of a run depend on besides the source: versions, CPU, threads, flags."""

from __future__ import annotations

import importlib.util
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import minitorch_backends as mt
from minitorch_backends import flags
from minitorch_backends.kernels.runtime import cpu, threading
from minitorch_backends.lab.machine import cpu_name, version

from . import peers
from .presentation import Table

DISTRIBUTIONS = ("numpy", "scipy", "numba", "llvmlite", "ml_dtypes", "opt_einsum", "torch")


def collect() -> dict[str, Any]:
    """The environment of this process, as plain values."""
    return {
        "minitorch_backends": mt.__version__,
        "commit": _commit(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": cpu_name(),
        "capability": {"in_force": cpu.capability(), "detected": cpu.detect(), "emulated": cpu.is_emulated("amx")},
        "threads": _threads(),
        "blas": peers.blas_name(),
        "versions": {name: version(name) for name in DISTRIBUTIONS if importlib.util.find_spec(name)},
        "flags": {path: flags.current().read(path) for path in flags.rows},
        "flags_set": dict(mt.backends.snapshot().values),
    }


def _threads() -> dict[str, int]:
    counts = {"CPUs available": threading.available_cpus(), "minitorch_backends": threading.get_num_threads()}
    blas = peers.blas_pool()
    if blas is not None:
        kernels = blas.get("architecture") or "unknown"
        counts[f"NumPy ({peers.blas_name()}, kernels for {kernels})"] = blas["num_threads"]
    torch = sys.modules.get("torch")  # where this run has used it
    if torch is not None:
        counts["torch"] = torch.get_num_threads()
    return counts


def _commit() -> str | None:
    """The commit of this checkout, with "+" if files differ from it; None without git or a checkout."""
    folder = Path(__file__).parent

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def tables(environment: dict[str, Any]) -> list[Table]:
    capability = environment["capability"]
    rows = [
        ("minitorch_backends", f"{environment['minitorch_backends']}, commit {environment['commit'] or 'unknown'}"),
        ("Python", f"{environment['python']}, {environment['system']}"),
        ("CPU", environment["cpu"]),
        (
            "CPU capability",
            f"{capability['in_force']} in force, {capability['detected']} detected ({cpu.VARIABLE})"
            + (f", tiles in software ({cpu.EMULATION})" if capability["emulated"] else ""),
        ),
        ("threads", ", ".join(f"{name}: {count}" for name, count in environment["threads"].items())),
        ("versions", ", ".join(f"{name} {version}" for name, version in environment["versions"].items())),
        ("flags set", ", ".join(f"{path} = {value!r}" for path, value in environment["flags_set"].items()) or "none"),
    ]
    values = [(path, repr(value)) for path, value in environment["flags"].items()]
    return [
        Table("Where this ran", ("", ""), rows, names=2),
        Table("Flags as they were read", ("flag", "value"), values, names=2),
    ]
