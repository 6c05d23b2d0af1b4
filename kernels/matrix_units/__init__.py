"""Products as the matrix units of other devices compute them, bit for bit: `definition` and `multiply`.

A unit is a rule of `rules`, an operand format (a key of `OPERANDS`), and a result in float32 or float16.
"""

from __future__ import annotations

from .products import definition, multiply
from .rules import OPERANDS, Aligned, Chain, Exact, Halves, Lanes, Rule, Tiles, Tree, TwoStage

__all__ = [
    "OPERANDS", "Aligned", "Chain", "Exact", "Halves", "Lanes", "Rule", "Tiles", "Tree", "TwoStage", "definition",
    "multiply",
]  # fmt: skip
