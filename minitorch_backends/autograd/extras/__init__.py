"""Autograd beyond recording and going backward: Jacobians, several threads, statistics of the graph, saved tensors.

Nothing in the parent folder needs these, but for the calls that install them.
"""
