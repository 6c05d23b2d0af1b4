"""The functions of neural networks, under the names of torch.nn.functional.

The decorator of `ops.functional` declares each of them beside its definition.
"""

from .. import ops  # noqa: F401  (declares them)
from ..ops.functional import functions

globals().update(functions)

__all__ = list(functions)
