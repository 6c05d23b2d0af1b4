"""The first call whose results differ between two runs by more than their precisions explain."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ..explain.records import as_text
from ..kernels.precisions.products import PRECISIONS, predicted_error

FACTOR = 8.0
"""Of the explained difference, for layers that amplify errors."""

_LENGTH = 1024
"""The K for which a product's error is estimated; the accumulation's share hardly depends on it."""

_Place = tuple[str | None, str]
"""A module and a direction."""


class Divergence(NamedTuple):
    """A call that differs.

    Attributes:
        a, b: its positions in the two runs; None if only the other run has it.
        module, kernel, shapes, direction: of the call.
        precisions: the precisions of the two runs.
        error: the relative difference of its results; None if unknown.
        explained: the difference that the precisions of this call and the preceding ones explain.
    """

    a: int | None
    b: int | None
    module: str | None
    kernel: str
    shapes: tuple[tuple[int, ...], ...]
    direction: str
    precisions: tuple[str | None, str | None]
    error: float | None
    explained: float

    def __str__(self) -> str:
        where = f"{self.kernel} of {as_text(self.shapes)}, {self.direction}, in module {self.module or '(itself)'!r}"
        if self.a is None or self.b is None:
            return f"call {self.b if self.a is None else self.a}, {where}: only one run has it"
        how = "differs" if self.error is None else f"differs by {self.error:.2e}"
        names = " and ".join(dict.fromkeys(filter(None, map(str, self.precisions)))) or "the calls before it"
        why = f"{names} explain {self.explained:.2e}"
        return f"call {self.a}, {where}: {how}; {why}"


def find_divergence(calls: list[dict[str, Any]], factor: float) -> tuple[Divergence | None, str]:
    """The first call of `Comparison.calls` that precision does not explain, and which calls were skipped, as text."""
    square = 0.0
    lone = {status: _kernels_by_place(calls, status) for status in ("removed", "inserted")}
    skipped: dict[_Place, None] = {}
    found = None
    for row in calls:
        kernels = [places.get(_place(row)) for places in lone.values()]
        if row["status"] in lone and None not in kernels and kernels[0] != kernels[1]:
            skipped[_place(row)] = None
            continue
        square += _expected_error(row) ** 2 if row["status"] == "differs" else 0.0
        explained = factor * math.sqrt(square)
        if row["status"] == "same" or (row["error"] is not None and row["error"] <= explained):
            continue
        found = _divergence(row, explained)
        break
    return found, "; ".join(_skip(calls, place) for place in skipped)


def _kernels_by_place(calls: list[dict[str, Any]], status: str) -> dict[_Place, list[str]]:
    found: dict[_Place, list[str]] = {}
    for row in calls:
        if row["status"] == status:
            found.setdefault(_place(row), []).append(row["kernel"])
    return found


def _skip(calls: list[dict[str, Any]], place: _Place) -> str:
    """A module and direction, with the kernels that only one of the runs has there."""
    sides = (
        dict.fromkeys(row["kernel"] for row in calls if _place(row) == place and row["status"] == status)
        for status in ("removed", "inserted")
    )
    return f"module {place[0] or '(itself)'!r}, {place[1]}: {' against '.join(map(', '.join, sides))}"


def _place(row: dict[str, Any]) -> _Place:
    return row["module"], row["direction"]


def _expected_error(row: dict[str, Any]) -> float:
    """The expected relative error (rms) of the lower precision of the two calls; that of fp32 for other kernels."""
    precisions = (row["precision_a"], row["precision_b"])
    sigmas = (predicted_error(each, _LENGTH).sigma for each in precisions if each in PRECISIONS)
    return max(sigmas, default=predicted_error("ieee", _LENGTH).sigma) / math.sqrt(_LENGTH)


def _divergence(row: dict[str, Any], explained: float) -> Divergence:
    named = {name: row[name] for name in ("a", "b", "module", "kernel", "shapes", "direction", "error")}
    return Divergence(**named, precisions=(row["precision_a"], row["precision_b"]), explained=explained)
