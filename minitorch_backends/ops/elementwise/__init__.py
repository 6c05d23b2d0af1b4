"""Ops that compute each element from the elements at its place: arithmetic, functions, comparisons, activations.

Activations are in `activations`, `gated_activations` and `shrinkage`, clamp and sign in `rounding`,
conversions in `cast`, rounding to short formats in `formats`.
"""
