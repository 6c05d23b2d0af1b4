"""Compile kernels ahead, for wheels: lists of the leaves and entries that exist, and a command that compiles them."""
