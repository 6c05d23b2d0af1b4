"""Einsum: sums of products of tensors whose dimensions have labels.

`equation` reads the notation, `paths` orders the contractions, `steps` has the products that they become, `plan` the
plan and its costs. `program` runs it and records it for gradients, and `api` has the functions that users call.
`slicing` divides a plan, `slice_search` finds how, `sliced_run` runs the parts. `precision_plan` has the errors of
steps, and `plan_run` what a plan's own methods do.
"""

from .api import einsum, einsum_path, einsum_plan

__all__ = ["einsum", "einsum_path", "einsum_plan"]
