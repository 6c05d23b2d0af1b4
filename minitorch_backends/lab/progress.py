"""Progress of long work on stderr: how much is done, how fast, and how long it will take."""

from __future__ import annotations

import sys
import time

__all__ = ["Progress"]


class Progress:
    """`with Progress(name, total, done, show) as bar: bar.advance()`. Shown on a terminal, or where `show` says so."""

    def __init__(self, name: str, total: int, done: int = 0, show: bool | None = None) -> None:
        self._name, self._total, self._done, self._first = name, total, done, done
        self._shown = sys.stderr.isatty() if show is None else show
        self._live = sys.stderr.isatty()
        self._start = self._last = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._shown and self._live and self._done > self._first:
            sys.stderr.write("\n")

    def advance(self) -> None:
        """Count one more item. Prints at most ten lines a second on a terminal, one every ten seconds elsewhere."""
        self._done += 1
        now = time.monotonic()
        if not self._shown or (now - self._last < (0.1 if self._live else 10.0) and self._done < self._total):
            return
        self._last = now
        rate = (self._done - self._first) / max(now - self._start, 1e-9)
        left = _duration((self._total - self._done) / rate)
        line = f"{self._name}: {self._done} of {self._total}, {rate:.3g} a second, {left} left"
        sys.stderr.write(f"\r\x1b[K{line}" if self._live else f"{line}\n")
        sys.stderr.flush()


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
