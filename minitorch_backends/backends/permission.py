"""The rule of permission: which precision a float32 product runs at, and which flag decided.

Every family of flags keeps its own tree. A flag is a permission: a product runs at the fastest precision that any
family has been explicitly set to allow, and at ieee when none has. A default that nobody set permits nothing, unless
`backends.emulate` names its family. The answer is a pure function of the flags' values, never of the order in which
they were set.
"""

from __future__ import annotations

from typing import NamedTuple

from ..flags import State, current
from .table import XLA_PRECISIONS

__all__ = ["FAMILIES", "Choice", "fastest_first", "precision_of"]

FAMILIES: dict[str, dict[str, str]] = {
    "cuda": {"matmul": "cuda.matmul.fp32_precision"},
    "mkldnn": {"matmul": "mkldnn.matmul.fp32_precision"},
    "xla": {"matmul": "xla.mat_mul_precision"},
}
"""For each family and kind of product, the flag that speaks for it."""

fastest_first = ("bf16", "fp16", "bf16x3", "tf32", "tf32x3", "bf16x6", "bf16x9", "ieee")


class Choice(NamedTuple):
    """A precision, and who decided that a product runs at it."""

    precision: str
    decided_by: str


def precision_of(product: str) -> Choice:
    """The precision at which a float32 product (`"matmul"`) runs here and now, and the flag that decided.

    The dispatcher calls this very function. Raises ValueError for a product that no family knows.
    """
    state = current()
    choice = state.derived.get(product)
    if choice is None:
        choice = state.derived[product] = _decide(state, product)
    return choice


def _decide(state: State, product: str) -> Choice:
    emulated = state.read("emulate")
    families = [emulated] if emulated else list(FAMILIES)
    opinions = []
    for family in families:
        flags = FAMILIES[family]
        if product not in flags:
            known = ", ".join(sorted({name for family in FAMILIES.values() for name in family}))
            raise ValueError(f"no precision flag governs {product!r}; expected one of {known}")
        opinion = _opinion(state, flags[product], emulated)
        if opinion is not None:
            opinions.append(opinion)
    if not opinions:
        return Choice("ieee", f"no {emulated + ' ' if emulated else ''}flag allows less than ieee")
    return min(opinions, key=lambda opinion: fastest_first.index(opinion.precision))


def _opinion(state: State, path: str, emulated: str | None) -> Choice | None:
    """What one family allows, or None when nobody has set its flags."""
    value, decided_by = state.resolve(path)
    precision = XLA_PRECISIONS.get(value, value)
    if precision == "none" or (decided_by is None and not emulated):
        return None
    if decided_by is None:
        return Choice(precision, f"emulate = {emulated!r}, whose default of {path} is {value!r}")
    inherited = "" if decided_by == path else f", inherited by {path}"
    return Choice(precision, f"{decided_by} = {value!r}{inherited}")
