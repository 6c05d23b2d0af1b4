"""Where an experiment runs: what rows of sweeps and runs say of their machine."""

from __future__ import annotations

import functools
import platform

import numpy as np

from ..cli import cpu_name, version
from ..kernels import cpu

__all__ = ["machine"]


@functools.cache
def machine() -> dict[str, str]:
    """Return "host", "cpu", "capability" and "versions" of this process."""
    own, python = version("minitorch-backends"), platform.python_version()
    versions = f"minitorch_backends {own}, numpy {np.__version__}, python {python}"
    return {"host": platform.node(), "cpu": cpu_name(), "capability": cpu.capability(), "versions": versions}
