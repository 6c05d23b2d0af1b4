"""Scaled dot product attention and multi-head attention.

`scaled_dot_product` chooses the kernel, and has forward and backward functions for callers that keep a graph of their
own. `composed` builds attention from ops, for calls that no kernel supports.
"""
