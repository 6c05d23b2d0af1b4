"""Progress of long work on stderr: items done, rate, and remaining time."""

from __future__ import annotations

import importlib
import sys
import time
from typing import Any

_LINE_SECONDS = 10.0
"""Seconds between lines, if stderr is not a terminal."""


class Progress:
    """`with Progress(name, total, done, show) as bar: bar.advance()`. Shown on a terminal, or as `show` says.

    Terminals and notebooks get a bar, drawn by rich if it is installed; in notebooks it needs ipywidgets. Other outputs
    get lines.
    """

    def __init__(self, name: str, total: int, done: int = 0, show: bool | None = None) -> None:
        self._name, self._total, self._done, self._first = name, total, done, done
        watched = sys.stderr.isatty() or _is_notebook()
        self._shown = watched if show is None else show
        self._bar: Any = _bar() if self._shown and watched else None
        self._start = self._last = time.monotonic()

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._task = self._bar.add_task(self._name, total=self._total, completed=self._done, rate="", doing="")
            self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, doing: str = "") -> None:
        """Count one more item; `doing` describes the current one."""
        self._done += 1
        now = time.monotonic()
        rate = (self._done - self._first) / max(now - self._start, 1e-9)
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done, rate=f"{rate:.3g}/s", doing=doing)
        elif self._shown and (now - self._last >= _LINE_SECONDS or self._done >= self._total):
            self._last = now
            left = _duration((self._total - self._done) / rate)
            sys.stderr.write(f"{self._name}: {self._done} of {self._total}, {rate:.3g} a second, {left} left\n")
            sys.stderr.flush()


def _is_notebook() -> bool:
    """Whether this is a kernel of Jupyter, whose shell shows widgets."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def _bar() -> Any:
    """A bar of rich's; None without rich, or without ipywidgets in a notebook."""
    try:
        if _is_notebook():
            importlib.import_module("ipywidgets")
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar
    except ImportError:
        return None
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(), TextColumn("elapsed,"), TimeRemainingColumn(), TextColumn("left {task.fields[doing]}"),
    )  # fmt: skip
    return Bar(*columns, console=Console(stderr=True))


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
