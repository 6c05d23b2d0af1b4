"""Distances and similarities: of pairs of vectors, and between all vectors of two tensors."""
