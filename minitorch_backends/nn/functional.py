"""The functions of neural networks, under the names of torch.nn.functional.

Each is declared so beside its definition: `ops.functional` has the decorator.
"""

from .. import ops  # noqa: F401  (declares them)
from ..ops.functional import functions

globals().update(functions)

__all__ = list(functions)
