"""Losses: `pointwise` compares numbers, the others classes, margins and sequences."""
