"""What ran, at which precision, by which implementation, and who decided; what would run; and what it does to answers.

with explain.record() as log:
    loss.backward()
print(log)                               # one line for each kernel call
print(explain.why("matmul", a, b))       # an answer without running anything
print(explain.diff(log, other_log))      # the first call in which two runs differ
print(explain.sensitivity(model, x))     # what each layer does to the answers at a lower precision
"""

from __future__ import annotations

from ..backends.precision_policy import Choice
from .answers import Answer, Contractions, EinsumCache, einsum, einsum_cache, precision_of, why
from .records import Difference, Log, Record, diff, record
from .sensitivity import LayerError, Sensitivity, sensitivity

__all__ = [
    "Answer",
    "Choice",
    "Contractions",
    "Difference",
    "EinsumCache",
    "LayerError",
    "Log",
    "Record",
    "Sensitivity",
    "diff",
    "einsum",
    "einsum_cache",
    "precision_of",
    "record",
    "sensitivity",
    "why",
]
