"""Names of `torch.nn` for several devices, and those that torch keeps for old scripts."""

from __future__ import annotations

from .parallel import DataParallel  # noqa: F401

NAMES = ["DataParallel"]
