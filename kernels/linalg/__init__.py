"""Dense linear algebra: factorisations and solvers, each in several families (see `contract.py`).

The modules with the implementations are imported in the order of preference, the one that refuses nothing last.
"""

# ruff: noqa: F401, F403, I001  (the order of the imports is the order in which implementations are asked)

from . import contract

# Implementations, best first. Each module declares its own with `@contract.cholesky.impl("magma", refuses=...)`.
from . import batched
from . import jacobi
from . import magma
from . import reflections
from . import lapack

from .contract import *

__all__ = contract.__all__
