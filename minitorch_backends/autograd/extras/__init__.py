"""Autograd extras: names of modules, parallel backward passes, conditions of a replay, hooks of saved tensors, and
settings that few use.

The parent package depends on this folder only for the calls that install these features.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import parallel as parallel  # `namespaces` loads it at its first use
