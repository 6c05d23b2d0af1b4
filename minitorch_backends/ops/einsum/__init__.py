"""Einsum: sums of products of tensors with labelled dimensions.

`equation` parses the notation, `paths` orders the contractions, `steps` lowers them to products, `plan` holds the plan
and its costs: data, on which all else stands. `slicing` finds a division of a plan, and divides it. `program` runs it,
and its slices; `api` records it for gradients. `user_plan` is a plan that computes, with its text and JSON;
`precision_plan` and `plot` are methods of it.
"""
