"""Passes the settings of `backends.invariant` and `backends.partial_sums` on to the kernels
(`kernels/runtime/invariance.py`, `kernels/partial_sums.py`)."""

from __future__ import annotations

import itertools

from ..flags import State, per_state
from ..kernels import partial_sums
from ..kernels.partial_sums import LEAVES, PartialSums
from ..kernels.runtime import invariance
from ..kernels.runtime.invariance import Demand

_KINDS = ("batch", "isa", "shards")
INVARIANCES = ("none", *(",".join(kinds) for n in (1, 2, 3) for kinds in itertools.combinations(_KINDS, n)))


def check_value(value: object) -> str:
    """The value as it is stored."""
    if not isinstance(value, str):
        raise TypeError(
            f"invariant must be one of {', '.join(map(repr, INVARIANCES))}, got {value!r} of type "
            f"{type(value).__name__}"
        )
    found = ",".join(sorted(part.strip() for part in value.split(",")))
    if found not in INVARIANCES:
        raise RuntimeError(f"invariant must be one of {', '.join(map(repr, INVARIANCES))}, got {value!r}")
    return found


@per_state()
def _demand(state: State) -> Demand:
    value = state.read("invariant")
    return Demand("batch" in value, "isa" in value)


@per_state()
def partial_of(state: State) -> PartialSums | None:
    """How the flags split sums; None for whole ones.

    Raises RuntimeError for parts whose sum depends on their number where `invariant` has "shards".
    """
    parts, order, dtype = (state.read(f"partial_sums.{name}") for name in ("parts", "order", "dtype"))
    if "shards" not in state.read("invariant"):
        return PartialSums(parts, order, dtype) if parts > 1 else None
    for name, value, expected in (("order", order, "pairwise"), ("dtype", dtype, "unrounded")):
        if parts > 1 and value != expected:
            raise RuntimeError(
                f"partial_sums.{name} = {value!r} gives bits that depend on the number of parts, and "
                f"backends.invariant has 'shards'; set it to {expected!r}"
            )
    if LEAVES % parts:
        raise RuntimeError(
            f"partial_sums.parts must be a power of two up to {LEAVES} where backends.invariant has 'shards', got "
            f"{parts}"
        )
    return PartialSums(parts, leaves=LEAVES)


invariance.of_caller = _demand
partial_sums.of_caller = partial_of
