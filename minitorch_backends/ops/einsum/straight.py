"""Programs as straight lines of Python: what a call costs beside its kernels is what these lines cost.

A program knows, for the flags of one moment, the function of arrays that each of its products ends in. Its lines are
written out and compiled once, so that a call of an 8 x 8 product takes 0.9 us in place of 1.7, and one of five
operands 3 in place of 7 (bench/NOTES.md). It gives the bits of `Program.run`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...kernels.quiet import restore, silence

if TYPE_CHECKING:
    from .execute import Program

__all__ = ["straightened"]


def straightened(program: Program, precision: str | None = None) -> Callable[..., np.ndarray] | None:
    """The program as a function of its operands' arrays, at a precision (None: that of the flags), for the
    flags in force; None where it must look at more than
    these with each call. The function raises `Refused` where a kernel finds values that it cannot take.
    """
    if program.asks_for_memory():
        return None
    names: dict[str, Any] = {"silence": silence, "restore": restore}

    def bind(value: Any) -> str:
        name = f"c{len(names)}"
        names[name] = value
        return name

    count, last = len(program.plan.inputs), len(program.plan.inputs) + len(program.steps) - 1
    lines = [f"x{place} = {prepare.code(f'x{place}', bind)}" for place, prepare in program.first]
    for value, (contract, left, right, done) in enumerate(program.steps, count):
        expression = contract.code(f"x{left}", f"x{right}", bind, precision)
        if expression is None:
            return None
        lines.append(f"x{value} = {expression}")
        lines += [f"del x{place}" for place in done if place >= count and value < last]
    lines.append(f"return {program.last.code(f'x{last}', bind)}")
    arguments = ", ".join(f"x{place}" for place in range(count))
    head, body = f"def run({arguments}):\n    token = silence()\n    try:", "\n        ".join(lines)
    exec(f"{head}\n        {body}\n    finally:\n        restore(token)", names)
    return names["run"]
