"""The numbers of a plan, as compiled loops read them, and the job that every task is given."""

from __future__ import annotations

from collections import namedtuple

from ..block.emit import POINTER, prefetch_to_write
from ..runtime.emitter import emitter

Fields = namedtuple(
    "Fields",
    "kind real n lanes size row square down down_count across across_count a b roots phases tangle tangle_roots "
    "column_bytes worker_bytes whole share inverse abreast",
)
"""What the int64 of a plan's table mean: `Plan` says it."""

AT = Fields(*range(len(Fields._fields)))
"""Where the table has each of them."""

KINDS = ("short", "long", "along", "whole", "wide")
REALS = ("", "real", "halved")

SHORT, LONG, ALONG, IN_REGISTERS, WIDE = range(5)
FORWARD, HALVED = 1, 2

ONE = 0x3FF0000000000000  # the bits of 1.0


@emitter
def ask_to_write(builder, address) -> None:
    """Ask for a cache line that is written soon."""
    prefetch_to_write(builder, builder.inttoptr(address, POINTER))


Job = namedtuple(
    "Job",
    "table swap scale source source_step source_row target target_step target_row batch inner chunk memory work "
    "backwards",
)
"""What every task is given.

Attributes:
    table: the address of the plan's numbers.
    swap: whether real and imaginary parts change places, which makes the inverse transform.
    source_step, source_row: bytes between transforms, and along an axis that is not the last between its numbers.
    chunk: units of work (groups of transforms, transforms, vectors of columns) in a task.
    backwards: whether a task takes its units from the last to the first.
"""
