"""Ops that compute each element from the elements at its place: arithmetic, functions, comparisons, activations.

`comparison` has clamp too, `rounding` signs and rounding to formats; conversions are in `cast`.
"""
