"""Ops that compute each element from the elements at its place: arithmetic, functions, comparisons, activations.

`rounding` has clamp and sign too, and rounding to formats; conversions are in `cast`.
"""
