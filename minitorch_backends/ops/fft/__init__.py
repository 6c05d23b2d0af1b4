"""Fourier transforms, their frequencies, window functions, and short-time transforms.

`transforms` has the three linear maps that all of them rest on.
"""
