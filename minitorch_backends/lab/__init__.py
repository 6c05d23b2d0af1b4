"""The laboratory: experiments on the user's own functions, over grids of parameters, flags and seeds.

* `sweep` runs a function over a grid, in this process or on any `concurrent.futures.Executor`. It writes each row to a
  store, from which an interrupted sweep resumes.
* `capture` writes the kernel calls of a block to a file, and `capture_torch` the modules and products of plain torch on
  any device. `compare` aligns two such runs, of two processes or machines, and lists the difference of each call's
  results. `first_divergence` finds the first one that precision does not explain.
* `summation_order` finds in which order a function adds, and where two of them part.
* `certificate` checks that the bits of a function depend neither on the batch nor on threads nor on the CPU.
* `audit` measures how each layer of a model changes the outputs at lower precisions, and proposes a `Policy`.
"""

from __future__ import annotations

from .audits import Audit, audit
from .certificate import Certificate, Check, certificate
from .comparison import Comparison, compare, first_divergence
from .divergence import Divergence
from .pareto import Pareto
from .policy import Policy, Rule
from .runs import Run, capture
from .summation import Order, summation_order
from .sweeps import Sweep, sweep
from .torch_capture import capture_torch

__all__ = [
    "Audit", "Certificate", "Check", "Comparison", "Divergence", "Order", "Pareto", "Policy", "Rule", "Run", "Sweep",
    "audit", "capture", "capture_torch", "certificate", "compare", "first_divergence", "summation_order", "sweep",
]  # fmt: skip
