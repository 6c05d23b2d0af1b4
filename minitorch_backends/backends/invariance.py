"""Passes the setting of `backends.invariant` on to the kernels (`kernels/invariance.py`)."""

from __future__ import annotations

from ..flags import State, per_state
from ..kernels import invariance
from ..kernels.invariance import Demand

INVARIANCES = ("none", "batch", "isa", "batch,isa")


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


invariance.of_caller = _demand
