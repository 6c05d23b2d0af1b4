"""Einsum: sums of products of tensors with labelled dimensions.

`equation` parses the notation, `paths` orders the contractions, `steps` lowers them to products, `plan` holds the plan
and its costs. `program` runs it and records it for gradients; `api` has the public functions. `slicing` divides a plan,
`slice_search` finds the division, `sliced_run` runs the slices. `precision_plan` estimates the errors of steps, and
`plan_run` implements a plan's own methods.
"""

from .api import einsum, einsum_path, einsum_plan

__all__ = ["einsum", "einsum_path", "einsum_plan"]
