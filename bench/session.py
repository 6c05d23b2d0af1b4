"""What every part is given: how much to measure, sweeps of the laboratory, and the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable

from minitorch_backends import lab
from minitorch_backends.backends import Snapshot
from minitorch_backends.lab.pages import Table

T = TypeVar("T")

EXTENTS = ("quick", "usual", "full")
"""How much a run measures: what shows that all of it works, what shows what matters, everything."""

PRECISIONS = ("ieee", "tf32", "bf16", "bf16x3", "bf16x6")
"""The precisions that are compared, in the order of tables and plots."""

WIDTH_IN_FILES = 140
"""Columns of tables that no terminal shows, where rich would take 80 and cut names off."""


class NoCellError(Exception):
    """A part has no cell whose label has the text that was asked for."""


class Session:
    """The settings of one run, and its terminal.

    Attributes:
        extent: one of EXTENTS.
        seed: what every random number of the run follows from.
        cells: what the labels of cells must have that measure speed.
    """

    def __init__(self, *, extent: str = "usual", seed: int = 0, cells: str = "") -> None:
        self.extent, self.seed, self.cells = extent, seed, cells
        in_file = not sys.stdout.isatty() and "COLUMNS" not in os.environ
        self.console = Console(width=WIDTH_IN_FILES if in_file else None)

    @property
    def quick(self) -> bool:
        """Whether small sizes and few repeats will do."""
        return self.extent == "quick"

    def choose(self, quick: T, usual: T, full: T) -> T:
        """What this run measures, of the three that a part has for the extents."""
        return {"quick": quick, "usual": usual, "full": full}[self.extent]

    def sweep(self, function: Callable[..., Any], **options: Any) -> list[dict[str, Any]]:
        """The rows of `lab.sweep`, with no other flags than those that it is given, and this run's seed.

        Raises RuntimeError with what the first cell raised that failed.
        """
        with Snapshot(()):
            rows = lab.sweep(function, entropy=self.seed, **options).rows
        for row in rows:
            if row["exception"] is not None:
                raise RuntimeError(f"{function.__qualname__}() with {row['flags']}: {row['exception']}")
        return rows

    def say(self, text: str) -> None:
        self.console.print(escape(text))

    def heading(self, text: str) -> None:
        self.console.rule(f"[bold]{escape(text)}", align="left")

    def show(self, table: Table) -> None:
        """Print a table."""
        style: dict[str, Any] = {"title_justify": "left", "title_style": "bold", "box": box.SIMPLE_HEAD}
        drawn = RichTable(title=escape(table.title), pad_edge=False, collapse_padding=True, **style)
        for position, column in enumerate(table.columns):
            drawn.add_column(escape(column), justify="left" if position < table.names else "right")
        for row in table.rows:
            drawn.add_row(*map(escape, row)) if row else drawn.add_section()
        self.console.print(drawn)

    @contextmanager
    def progress(self, title: str) -> Iterator[Callable[[float, str], None]]:
        """A bar while the block runs; the block calls what it gets: `report(fraction done, what is done now)`.

        It is drawn by these calls only: a thread that redraws it would take the interpreter from what is being timed.
        If the output is not a terminal, one line announces each start.
        """
        if not self.console.is_terminal:
            self.say(f"{title} ...")
            yield lambda fraction, doing: None
            return
        columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TextColumn("{task.fields[doing]}")
        with Progress(*columns, console=self.console, auto_refresh=False, transient=True) as bar:
            task = bar.add_task(title, total=1.0, doing="")

            def report(fraction: float, doing: str) -> None:
                bar.update(task, completed=fraction, doing=doing)
                bar.refresh()

            report(0.0, "")
            yield report
