"""One self-contained HTML page of an audit."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .machine import machine
from .pages import Code, Section, Soft, Table, draw_picture, write_page

if TYPE_CHECKING:
    from .audits import Audit

_ABOUT_ERRORS = (
    "Forward rows give the error of the outputs, other rows that of all parameter gradients. The local error is "
    "the largest of a single product."
)

_COUNTS = ("overflow", "saturated", "underflow", "subnormal")


def write(audit: Audit, path: str | os.PathLike[str]) -> None:
    """The summary, the picture, the policy and torch's lines for it, all rows, and the ranges of the operands."""
    from .plots import audit as draw

    caption = (
        "Left: the effect of each layer's forward pass alone on the outputs; layers with a star keep a higher "
        "precision there. Right: the error as layers are lowered, cheapest first; dots are measured"
    )
    measured = [(name, f"{value:.3g}", _error_bound(audit, name)) for name, value in audit.measured.items()]
    ranges = ("module", "product", "operand", "format", "values", *_COUNTS)
    sections = [
        Section("", [audit.summary(), draw_picture(functools.partial(draw, audit), caption)]),
        Section("Answers under the policy", [Table("", ("measure", "value", "budget"), measured)]),
        Section("Policy", [Code(str(audit.policy)), *_for_others(audit)]),
        Section("Layers", [Soft(_ABOUT_ERRORS), Table("", audit.header(), list(audit.cells()), names=3)]),
        Section("Values outside the normal range of a format", [Table("", ranges, list(_ranges(audit)), names=4)]),
    ]
    about = machine()
    subtitle = f"{about['host']}: {about['cpu']}, {about['capability']}; {about['versions']}"
    write_page(path, f"Audit of {audit.name}", subtitle, sections, style="audit.css", width="96rem")


def _for_others(audit: Audit) -> Iterator[str]:
    """The policy in the words of the programs that run such a model on a GPU."""
    if audit.is_onnx:
        yield "The same policy for ONNX Runtime and TensorRT, as far as they support it:"
        yield Code(audit.policy.onnx(layer for part in audit.parts.values() for layer in part))
    else:
        yield "The same policy for a torch model on a GPU, as far as torch supports it:"
        yield Code(audit.policy.torch())


def _error_bound(audit: Audit, name: str) -> str:
    return f"{audit.budget[name]:.3g}" if name in audit.budget else ""


def _ranges(audit: Audit) -> Iterator[tuple[str, ...]]:
    """A line for each operand and format that loses values, of the rows at the fastest precision."""
    for row in audit.rows:
        if row["precision"] != audit.precisions[0] or row["module"] is None:
            continue
        for place, operand in enumerate(row["operands"]):
            for name, counts in operand.items():
                if any(counts[each] for each in _COUNTS):
                    yield (row["module"] or "(itself)", row["product"], str(place + 1), name, *_figures(counts))


def _figures(counts: dict[str, Any]) -> tuple[str, ...]:
    return tuple(f"{counts[each]:,}" for each in ("size", *_COUNTS))
