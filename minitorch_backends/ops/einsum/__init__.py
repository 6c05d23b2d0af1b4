"""Einsum: sums of products of tensors whose dimensions have labels.

`equation` reads the notation, `paths` orders the contractions and their dimensions, `plan` makes the plan and its
costs, `program` runs it and records it for gradients, and `api` has the functions that users call.
"""

from .api import einsum, einsum_path, einsum_plan

__all__ = ["einsum", "einsum_path", "einsum_plan"]
