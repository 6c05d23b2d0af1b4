"""Einsum: sums of products of tensors with labelled dimensions.

`equation` parses the notation, `paths` orders the contractions, `steps` lowers them to products, `plan` holds the plan
and its costs: data, on which all else stands. `slicing` divides a plan, `slice_search` finds the division. `program`
runs it, and its slices; `api` records it for gradients. `user_plan` is a plan that computes, with the methods of
`plan_run`, `precision_plan`, `plan_format` and `plot`.
"""
