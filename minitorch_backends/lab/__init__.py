"""The laboratory: experiments on the user's own functions, over grids of parameters, flags and seeds.

`sweep` runs a function over a grid, in this process or on any `concurrent.futures.Executor`, and keeps each row in a
store from which an interrupted sweep goes on. `capture` writes what a block computed into a file, and `compare` aligns
two such runs, of two processes or machines, and lists how far each call's results are apart; `first_divergence` finds
the first one that precision does not explain. `audit` measures what each layer of a model does to the answers at lower
precisions, and proposes a `Policy`.
"""

from __future__ import annotations

from .audits import Audit, audit
from .comparison import Comparison, compare
from .divergence import Divergence, first_divergence
from .pareto import Pareto
from .policy import Policy, Rule
from .runs import Run, capture
from .sweeps import Sweep, sweep

__all__ = [
    "Audit", "Comparison", "Divergence", "Pareto", "Policy", "Rule", "Run", "Sweep", "audit", "capture", "compare",
    "first_divergence", "sweep",
]  # fmt: skip
