"""Explain runs: the kernels, precisions and implementations of a block, the flags behind them, and their errors.

with explain.record() as log:
    loss.backward()
print(log)                               # one line for each kernel call
print(explain.why("matmul", a, b))       # how a call would run, without running it
print(explain.diff(log, other_log))      # the first difference between two runs
print(explain.sensitivity(model, x))     # how each layer changes the outputs at a lower precision
"""

from __future__ import annotations

from ..backends.precision_policy import Choice
from .answers import Answer, Contractions, EinsumCache, einsum, einsum_cache, precision_of, why
from .records import Difference, Log, Record, diff, record
from .sensitivity import LayerError, Sensitivity, sensitivity

__all__ = [
    "Answer", "Choice", "Contractions", "Difference", "EinsumCache", "LayerError", "Log", "Record", "Sensitivity",
    "diff", "einsum", "einsum_cache", "precision_of", "record", "sensitivity", "why",
]  # fmt: skip
