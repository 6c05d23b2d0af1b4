"""Rows brought to a common scale: normalisation layers, and softmax.

`standardize` is the op under all normalisations; `softmax` has softmax and its logarithm.
"""
