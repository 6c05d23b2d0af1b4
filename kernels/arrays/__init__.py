"""Kernels of one way each: elementwise functions, rows, sums, pooling, gathering, and others."""
