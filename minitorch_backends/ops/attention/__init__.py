"""Scaled dot product attention and multi-head attention.

`scaled_dot_product` chooses the kernel; `composed` is attention made of ops, where a kernel does not serve;
`without_graph` has the forward and backward of those who keep a graph themselves.
"""
