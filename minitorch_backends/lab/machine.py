"""The machine of an experiment, as recorded in rows of sweeps and in runs."""

from __future__ import annotations

import functools
import platform
from importlib import metadata

import numpy as np

from ..kernels.runtime import cpu


@functools.cache
def machine() -> dict[str, str]:
    """Return "host", "cpu", "capability" and "versions" of this process."""
    own, python = version("minitorch-backends"), platform.python_version()
    versions = f"minitorch_backends {own}, numpy {np.__version__}, python {python}"
    return {"host": platform.node(), "cpu": cpu_name(), "capability": cpu.capability(), "versions": versions}


def version(distribution: str) -> str:
    """The version of an installed distribution."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"


def cpu_name() -> str:
    """The name that the CPU reports."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
            return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
