"""Invariance of bits: the demands of the caller, and the guarantees of implementations.

`batch`: the bits of a row, image, sequence or matrix do not depend on the rest of its batch, nor on its position there.
`isa`: bits do not depend on the instruction set. They never depend on the number of threads.

The order of a sum then follows from its length, the dtype and the precision alone: products are chains along K in steps
of `Scheme.kc`, other sums are chains of float64 over fixed lanes (`sums`, `rows`). Under `isa` a product is rounded
before it is added, since not all instruction sets have fused operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Demand(NamedTuple):
    batch: bool = False
    isa: bool = False


_NOTHING = Demand()

BATCH, BOTH = Demand(True, False), Demand(True, True)
"""What an implementation may keep."""

possible = False
"""Whether any demand was made in this process so far; until then no further check is needed."""

of_caller: Callable[[], Demand] = lambda: _NOTHING  # noqa: E731  (`backends` puts the flag's here)

_waiting: list[Callable[[], None]] = []


def start() -> None:
    """From now on callers may demand something."""
    global possible
    possible = True
    while _waiting:
        _waiting.pop()()


def on_first_demand(prepare: Callable[[], None]) -> None:
    """Call `prepare` before the first demand, or now if there was one."""
    if possible:
        prepare()
    else:
        _waiting.append(prepare)


def current_demand() -> Demand:
    """What the caller demands."""
    return of_caller() if possible else _NOTHING


def is_demanded() -> bool:
    """Whether the caller demands anything."""
    return possible and any(of_caller())


def isa_demanded() -> bool:
    return possible and of_caller().isa


def refuse_library(name: str) -> None:
    """Raise RuntimeError where the functions of another library must not be called, whose bits are those of the
    instructions that it finds."""
    if isa_demanded():
        raise RuntimeError(f"{name} has bits of this CPU; take 'isa' out of backends.invariant to call it")


def refusal(keeps: Demand) -> str | None:
    """Why an implementation that keeps so much may not run, or None."""
    wanted = current_demand()
    if wanted.batch and not keeps.batch:
        return "the order of its sums depends on the shape of the batch, and backends.invariant has 'batch'"
    if wanted.isa and not keeps.isa:
        return "its bits depend on the CPU's instructions, and backends.invariant has 'isa'"
    return None
