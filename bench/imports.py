"""What `import minitorch_backends` costs, in fresh processes, beside `import torch` and `import numpy`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from statistics import median
from typing import Any

from . import peers
from .presentation import Table, paragraphs, ratio, seconds
from .session import Session

__all__ = ["TITLE", "run", "summary", "tables"]

TITLE = "Import"

ALLOWED = 1 / 3
"""The most time that importing may take, relative to torch."""

_SCRIPT = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"


def _import_once(module: str, folder: str) -> float:
    """Seconds for one import. Compiled modules are kept in `folder`, so that all packages start from bytecode,
    whether or not their installer or the environment had it written."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    answer = subprocess.run(
        [sys.executable, "-c", _SCRIPT.format(module)],
        env=environment | {"PYTHONPYCACHEPREFIX": folder},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(answer.stdout)


def run(session: Session) -> dict[str, Any]:
    """Import each module in new processes, in turn; the first of each warms the caches and is not counted."""
    modules = ["minitorch_backends", "numpy", *(["torch"] if peers.torch_is_installed() else [])]
    rounds = 3 if session.quick else 6
    samples: dict[str, list[float]] = {module: [] for module in modules}
    with session.progress(TITLE) as report, tempfile.TemporaryDirectory() as folder:
        for turn in range(rounds):
            for position, module in enumerate(modules):
                report((turn + position / len(modules)) / rounds, module)
                samples[module].append(_import_once(module, folder))
    medians = {module: median(taken[1:]) for module, taken in samples.items()}
    relative = medians["minitorch_backends"] / medians["torch"] if "torch" in medians else None
    return {
        "median_seconds": medians,
        "minimum_seconds": {module: min(taken[1:]) for module, taken in samples.items()},
        "samples": rounds - 1,
        "relative_to_torch": relative,
        "allowed_relative_to_torch": ALLOWED,
        "met": None if relative is None else relative <= ALLOWED,
    }


def tables(result: dict[str, Any]) -> list[Table]:
    ours = result["median_seconds"]["minitorch_backends"]
    rows = [
        (f"import {module}", seconds(value), seconds(result["minimum_seconds"][module]), ratio(ours / value))
        for module, value in result["median_seconds"].items()
    ]
    return [Table("Import in a new process", ("statement", "median", "fastest", "ours relative to it"), rows)]


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    relative = result["relative_to_torch"]
    share = "torch is not installed here" if relative is None else f"here it is {relative:.2f}"
    return paragraphs(f"""
        Numba, SciPy, opt_einsum and ml_dtypes load with the first kernel that needs them. The target is a third of
        torch's time; {share}.
    """)
