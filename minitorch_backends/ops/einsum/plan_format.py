"""Plans as text and as JSON."""

from __future__ import annotations

import json
import math
from typing import Any, TypeVar

from ...backends.strategies import check_strategy, checked_slices
from .equation import Labels, label_name, text_of
from .paths import OBJECTIVES, checked_path
from .plan import Plan
from .slicing import slice_labels, with_limit

_FORMAT = 1
"""Raised when the meaning of a field changes."""


def text(plan: Plan) -> str:
    cells = rows(plan)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join([summary(plan), *lines])


def rows(plan: Plan) -> list[tuple[str, ...]]:
    """The head of the table of steps, and its lines."""
    found: list[tuple[str, ...]] = [("", "contraction", "flops", "elements", "flops/element", "kernel", "seconds")]
    last = plan.measured[-1] if plan.measured else None
    for term, shape, preparation in zip(plan.inputs, plan.term_shapes, plan.preparations, strict=True):
        if preparation.summed:
            size, flops = math.prod(preparation.shape), math.prod(shape)
            intensity = f"{flops / (flops + size):.3g}"
            found.append(("", text_of([term], preparation.labels), f"{flops:,}", f"{size:,}", intensity, "sum", ""))
    for number, step in enumerate(plan.steps):
        seconds = f"{last.step_seconds[number]:.3g}" if last else ""
        values, counts = " ".join(map(str, step.operands)), (f"{step.flops:,}", f"{step.size:,}")
        found.append((values, step.equation, *counts, f"{step.intensity:.3g}", step.kernel, seconds))
    return found


def summary(plan: Plan) -> str:
    """The equation, the order, the costs, the slices, and the last measurement, a line each."""
    last = plan.measured[-1] if plan.measured else None
    sizes = ", ".join(f"{label_name(label)}={size}" for label, size in sorted(plan.sizes.items()))
    costs = (
        f"{plan.flops:,} flops ({_count(plan.naive_flops)} in one loop), largest intermediate "
        f"{plan.largest_intermediate:,}, peak {plan.peak_elements:,} elements, writes {plan.writes:,}"
    )
    if plan.search_seconds is not None:
        costs += f"; order found in {plan.search_seconds:.2g} s"
    aim = "" if plan.minimize == "flops" else f", minimizing {plan.minimize}"
    found = "as given" if isinstance(plan.strategy, tuple) else f"by strategy {plan.strategy!r}{aim}"
    order = f"path {list(plan.path)} {'seen from the operand, of the order ' if plan.is_derived else ''}{found}"
    head = [f"Plan of {plan.equation} with {sizes or 'no dimensions'}; {order}", costs]
    if plan.slicing is not None:
        head.append(str(plan.slicing))
    if last:
        head.append(f"measured: {last.seconds:.3g} s, peak {last.peak:,} bytes")
    return "\n".join(head)


def _count(number: int) -> str:
    return f"{number:,}" if number < 10**15 else f"{number:.3g}"


def to_json(plan: Plan) -> str:
    strategy = plan.strategy if isinstance(plan.strategy, (str, tuple)) else None
    names = "inputs", "output", "shapes", "path", "minimize", "memory_limit", "slices", "itemsize"
    fields: dict[str, Any] = {"format": _FORMAT, "strategy": strategy, **{name: getattr(plan, name) for name in names}}
    fields["blocks"] = None if plan.slicing is None else list(plan.slicing.blocks.items())
    return json.dumps(fields)


_Plan = TypeVar("_Plan", bound=Plan)


def from_json(kind: type[_Plan], written: str) -> _Plan:
    try:
        fields = json.loads(written)
        if fields["format"] != _FORMAT:
            raise ValueError(f"format {fields['format']!r} instead of {_FORMAT}")
        inputs, shapes, path = (_tuples(fields[name]) for name in ("inputs", "shapes", "path"))
        (output,) = _tuples([fields["output"]])
        strategy, minimize, blocks = fields["strategy"], fields["minimize"], fields["blocks"]
        strategy = None if strategy is None else check_strategy(strategy)
        limit, slices, itemsize = fields["memory_limit"], checked_slices(fields["slices"]), fields["itemsize"]
        if minimize not in OBJECTIVES or not (limit is None or type(limit) is int) or type(itemsize) is not int:
            raise ValueError(f"minimize={minimize!r}, memory_limit={limit!r}, itemsize={itemsize!r}")
        if len(shapes) != len(inputs) or any(map(_differ, inputs, shapes)) or not {*output} <= {*sum(inputs, ())}:
            raise ValueError("labels and shapes that do not fit")
        checked_path(path, len(inputs), f"the path {list(path)}")
        plan = kind(inputs, output, shapes, strategy, path=path, minimize=minimize)
        if blocks is not None:
            plan = slice_labels(plan, {label: max(block, 1) for label, block in _tuples(blocks)})
        return plan if limit is None and slices is None else with_limit(plan, limit, slices, itemsize)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"Plan.from_json(): text must be what Plan.to_json() writes, got {_short(written)}: {error}"
        ) from None


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:80]}..."


def _differ(term: Labels, shape: tuple[int, ...]) -> bool:
    return len(term) != len(shape)


def _tuples(lists: Any) -> tuple[tuple[int, ...], ...]:
    """Lists of non-negative integers as tuples."""
    found = tuple(tuple(each) for each in lists)
    for each in found:
        if any(type(number) is not int or number < 0 for number in each):
            raise ValueError(f"{list(each)} with other than non-negative integers")
    return found
