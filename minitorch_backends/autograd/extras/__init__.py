"""Autograd extras: Jacobians, parallel backward passes, graph statistics, hooks of saved tensors.

The parent package depends on this folder only for the calls that install these features.
"""
