"""Scaled dot product attention and multi-head attention.

`scaled_dot_product` chooses the kernel; `composed` is attention made of ops, where a kernel does not serve.
"""
