"""What one operation costs besides arithmetic: 8 x 8 tensors, scopes and flags; torch's beside it where installed."""

from __future__ import annotations

from functools import partial
from timeit import Timer
from typing import Any

import minitorch_backends as mt
from minitorch_backends.lab.race import Contestant

from . import peers, speed
from .presentation import paragraphs
from .session import Session

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

CASES: dict[str, tuple[str, str, float]] = {
    "a + b": ("a + b", "", 1 / 0.7),
    "a + b, recorded": ("w + b", "", 1 / 0.7),
    "forward and backward": ("((a @ w) + b).relu().sum().backward()", "", 2.0),
    "in place": ("a.add_(c)", "c = library.ones(8, 8)", 1.5),
    "training step": ("step()", _TRAINING, 1.0),
    "no_grad scope": ("with no_grad(): pass", "no_grad = library.no_grad", 2.0),
    "flag read": ("flags.fp32_precision", "flags = library.backends.cuda.matmul", 6.0),
}
"""By name: the statement, its setup, and torch's time over ours that is the target.

`a` needs no gradient; `w` and `b` do where the statement is recorded.
"""


def _names(library: Any, recorded: bool) -> dict[str, Any]:
    library.manual_seed(0)
    a, w, b = (library.randn(8, 8) for _ in range(3))
    if recorded:
        w.requires_grad_()
        b.requires_grad_()
    return {"library": library, "a": a, "w": w, "b": b}


def _cell(name: str) -> speed.Cell:
    statement, setup, wanted = CASES[name]

    def timer(library: Any) -> Timer:
        return Timer(statement, setup or "pass", globals=_names(library, "w" in statement))

    contestants = [Contestant("mt", timer(mt)), *peers.by_torch(timer, wakes_threads=False)]
    return speed.Cell("Time of one operation", name, contestants, {"mt": "torch"}, {"mt": ("torch", wanted)})


def run(session: Session) -> dict[str, Any]:
    """Time each case with both libraries."""
    return speed.run(session, TITLE, {name: partial(_cell, name) for name in CASES})


tables = speed.tables


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    text = """
        Tensors are 8 x 8. Forward and backward are those of ((a @ w) + b).relu().sum(), the scope is
        `with no_grad(): pass`, and the flag is backends.cuda.matmul.fp32_precision. The training step is one of SGD for
        50 layers of width 64 and 64 rows.
    """
    return [*paragraphs(text), *speed.sentences(result)]
