"""What one operation costs besides arithmetic: 8 x 8 tensors, scopes and flags; torch's beside it where installed."""

from __future__ import annotations

from timeit import Timer
from typing import Any

import minitorch_backends as mt

from . import peers
from .presentation import Table, paragraphs, ratio, seconds
from .session import Session
from .timing import time_interleaved

__all__ = ["TITLE", "run", "summary", "tables"]

TITLE = "Overhead"

_TRAINING = """
layers = [(library.randn(64, 64) / 8, library.zeros(64)) for _ in range(50)]
parameters = [each.requires_grad_() for layer in layers for each in layer]
rows, optimizer = library.randn(64, 64), library.optim.SGD(parameters, lr=0.01)

def step():
    optimizer.zero_grad()
    hidden = rows
    for weight, bias in layers:
        hidden = (hidden @ weight + bias).relu()
    (hidden * hidden).mean().backward()
    optimizer.step()
"""

CASES: dict[str, tuple[str, str, float | None, float | None]] = {
    "a + b": ("a + b", "", 0.7, None),
    "a + b, recorded": ("w + b", "", 0.7, None),
    "forward and backward": ("((a @ w) + b).relu().sum().backward()", "", 0.5, None),
    "in place": ("a.add_(c)", "c = library.ones(8, 8)", None, 1e-6),
    "training step": ("step()", _TRAINING, 1.0, None),
    "no_grad scope": ("with no_grad(): pass", "no_grad = library.no_grad", 0.5, None),
    "flag read": ("flags.fp32_precision", "flags = library.backends.cuda.matmul", None, 0.2e-6),
}
"""By name: the statement, its setup, the most time allowed relative to torch's, and the most seconds allowed.

`a` needs no gradient; `w` and `b` do where the statement is recorded.
"""

SAMPLE_SECONDS = 2e-3


def _names(library: Any, recorded: bool) -> dict[str, Any]:
    library.manual_seed(0)
    a, w, b = (library.randn(8, 8) for _ in range(3))
    if recorded:
        w.requires_grad_()
        b.requires_grad_()
    return {"library": library, "a": a, "w": w, "b": b}


def run(session: Session) -> dict[str, Any]:
    """Time each case with both libraries, interleaved."""
    with session.progress(TITLE) as report:
        report(0, "loading torch")
        libraries = {"minitorch": mt} | ({"torch": torch} if (torch := peers.torch_if_installed()) else {})
        cases = []
        for done, (name, case) in enumerate(CASES.items()):
            report(done / len(CASES), name)
            cases.append(_measure(session, name, libraries, *case))
    return {"compared_with_torch": "torch" in libraries, "cases": cases}


def _measure(
    session: Session,
    name: str,
    libraries: dict[str, Any],
    statement: str,
    setup: str,
    bar: float | None,
    limit: float | None,
) -> dict[str, Any]:
    timers = {
        library: Timer(statement, setup or "pass", globals=_names(module, "w" in statement))
        for library, module in libraries.items()
    }
    timings = time_interleaved(timers, seconds=0.3 if session.quick else 1.5, shortest=SAMPLE_SECONDS, rounds=10)
    ours, theirs = timings["minitorch"], timings.get("torch")
    relative = ours.median / theirs.median if theirs else None
    met = None if relative is None or bar is None else relative <= bar
    if limit is not None:
        met = ours.median <= limit
    return {
        "name": name,
        "statement": statement,
        "median_seconds": ours.median,
        "minimum_seconds": ours.minimum,
        "torch_median_seconds": theirs.median if theirs else None,
        "torch_minimum_seconds": theirs.minimum if theirs else None,
        "samples": ours.samples,
        "relative_to_torch": relative,
        "allowed_relative_to_torch": bar,
        "allowed_seconds": limit,
        "met": met,
    }


def tables(result: dict[str, Any]) -> list[Table]:
    columns, of = ["operation", "median", "fastest"], " of torch's"
    if result["compared_with_torch"]:
        columns, of = [*columns, "torch", "fastest", "ratio"], ""
    rows = []
    for case in result["cases"]:
        row = [case["name"], seconds(case["median_seconds"]), seconds(case["minimum_seconds"])]
        if result["compared_with_torch"]:
            row += [seconds(case["torch_median_seconds"]), seconds(case["torch_minimum_seconds"])]
            row += [ratio(case["relative_to_torch"])]
        limit = case["allowed_seconds"]
        target = seconds(limit) if limit else ratio(case["allowed_relative_to_torch"]) + of
        rows.append((*row, target, {True: "yes", False: "no", None: ""}[case["met"]]))
    return [Table("Time of one operation", (*columns, "at most", "met"), rows)]


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    text = """
        Tensors are 8 x 8. Forward and backward are those of ((a @ w) + b).relu().sum(), the scope is
        `with no_grad(): pass`, and the flag is backends.cuda.matmul.fp32_precision. The training step is one of SGD for
        50 layers of width 64 and 64 rows.

        Each statement runs in samples of at least 2 ms, the two libraries in turn; the ratio is that of the medians.
        The targets are this project's own: a share of torch's time in the same run, or a time.
    """
    if not result["compared_with_torch"]:
        text += "\n\ntorch is not installed here; its CPU build is enough to compare with: pip install torch."
    missed = [case["name"] for case in result["cases"] if case["met"] is False]
    if missed:
        text += f"\n\nMissed: {'; '.join(missed)}."
    return paragraphs(text)
