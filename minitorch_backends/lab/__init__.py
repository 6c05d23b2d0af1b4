"""The laboratory: experiments on the user's own functions, over grids of parameters, flags and seeds.

`sweep` runs a function over a grid, in this process or on any `concurrent.futures.Executor`, and keeps each row in a
store from which an interrupted sweep goes on.
"""

from __future__ import annotations

from .pareto import Pareto
from .sweeps import Sweep, sweep

__all__ = ["Pareto", "Sweep", "sweep"]
