"""Automatic differentiation: modes, the graph, and backward."""
