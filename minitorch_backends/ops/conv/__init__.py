"""Convolution: `functions` has torch's functions, `convolution` the three ops whose gradients are each other.

`im2col` and `fold` have sliding windows as columns, `packed` the weight that a layer keeps packed for inference.
"""
