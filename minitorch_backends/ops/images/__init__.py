"""Ops on images: pooling, interpolation, sampling at places between pixels."""
