"""What ran, at which precision, by which implementation, and who decided."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from .autograd.modes import is_in_backward
from .backends.permission import Choice, precision_of
from .kernels.registry import Call, observe
from .ops.einsum import einsum_plan
from .ops.einsum.plan import Plan

__all__ = ["Choice", "Contractions", "Log", "Record", "einsum", "precision_of", "record"]


class Record(NamedTuple):
    """One kernel call.

    Attributes:
        kernel: the task, "matmul".
        shapes, dtypes: of the array arguments.
        precision: what the kernel was asked for.
        implementation: which of the kernel's implementations ran.
        refusals: pairs of an implementation that would have been preferred and the sentence with which it refused.
        decided_by: the flag, argument or rule that chose the precision.
        direction: "forward" or "backward".
        seconds: wall time of the implementation.
    """

    kernel: str
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    precision: str
    implementation: str
    refusals: tuple[tuple[str, str], ...]
    decided_by: str | None
    direction: str
    seconds: float


class Log(list[Record]):
    """The records of a block, in the order in which the kernels ran."""

    def table(self) -> str:
        """The records as aligned text, one line each."""
        header = ("kernel", "shapes", "dtype", "precision", "implementation", "direction", "ms", "decided by")
        rows = [header, *map(_cells, self)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        return "\n".join(line.rstrip() for line in lines)

    __str__ = table


def _cells(entry: Record) -> tuple[str, ...]:
    shapes = " @ ".join("x".join(map(str, shape)) for shape in entry.shapes)
    dtypes = ", ".join(dict.fromkeys(entry.dtypes))
    milliseconds = f"{entry.seconds * 1e3:.3f}"
    described = (entry.kernel, shapes, dtypes, entry.precision, entry.implementation, entry.direction)
    return (*described, milliseconds, entry.decided_by or "")


@contextmanager
def record() -> Iterator[Log]:
    """List every kernel call that this thread or task makes while the block runs: `with explain.record() as log:`."""
    log = Log()

    def note(call: Call) -> None:
        log.append(
            Record(
                kernel=call.kernel,
                shapes=call.shapes,
                dtypes=call.dtypes,
                precision=call.keywords.get("precision", "ieee"),
                implementation=call.implementation,
                refusals=call.refusals,
                decided_by=call.decided_by,
                direction="backward" if is_in_backward() else "forward",
                seconds=call.seconds,
            )
        )

    with observe(note):
        yield log


class Contractions(NamedTuple):
    """The plan of an einsum, and those of the gradients of its operands, which are einsums as well."""

    forward: Plan
    cotangents: tuple[Plan, ...]

    def __str__(self) -> str:
        parts = [str(self.forward)]
        parts += [f"Gradient of operand {index}: {plan}" for index, plan in enumerate(self.cotangents)]
        return "\n\n".join(parts)


def einsum(*args: Any, **options: Any) -> Contractions:
    """How an einsum and its gradients would be contracted; the arguments are those of `einsum_plan`."""
    plan = einsum_plan(*args, **options)
    return Contractions(plan, plan.cotangents())
