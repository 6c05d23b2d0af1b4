"""Autograd extras: `Function`, forward mode, Jacobians, gradient checks, parallel backward passes, graph statistics,
hooks of saved tensors, and settings that few use.

The parent package depends on this folder only for the calls that install these features.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import parallel as parallel  # `namespaces` loads it at its first use
