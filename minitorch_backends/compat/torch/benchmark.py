"""`torch.utils.benchmark`: times of statements."""

from __future__ import annotations

import statistics
import sys
import timeit
from collections.abc import Sequence
from typing import Any

from ...kernels import threading

__all__ = ["Compare", "Measurement", "Timer"]


class Measurement:
    """Times of one statement.

    Attributes:
        raw_times: in seconds, of `number_per_run` executions each.
        times: seconds of one execution, for each run.
    """

    def __init__(self, number_per_run: int, raw_times: Sequence[float], label: str, num_threads: int) -> None:
        self.number_per_run, self.raw_times, self.label = number_per_run, list(raw_times), label
        self.num_threads = num_threads

    @property
    def times(self) -> list[float]:
        return [each / self.number_per_run for each in self.raw_times]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.times)

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    @property
    def iqr(self) -> float:
        """The distance of the quartiles, in seconds; 0 for fewer than two runs."""
        if len(self.times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4)
        return high - low

    def __repr__(self) -> str:
        scale, unit = next((s, u) for s, u in ((1, "s"), (1e-3, "ms"), (1e-6, "us"), (0, "ns")) if self.median >= s)
        runs = f"{len(self.times)} runs of {self.number_per_run}, {self.num_threads} threads"
        return f"{self.label}\n  Median: {self.median / (scale or 1e-9):.2f} {unit}\n  {runs}"


class Timer:
    """Times a statement, with `num_threads` threads of the engine; 1 by default, as in torch."""

    def __init__(
        self, stmt: str = "pass", setup: str = "pass", global_setup: str = "", timer: Any = timeit.default_timer,
        globals: dict[str, Any] | None = None, label: str | None = None, sub_label: str | None = None,
        description: str | None = None, env: str | None = None, num_threads: int = 1, language: Any = None,
    ) -> None:  # fmt: skip
        self._timer = timeit.Timer(stmt, setup, timer, globals=globals)
        self._label = ": ".join(filter(None, (label or stmt, sub_label, description)))
        self._threads = num_threads

    def _measure(self, number: int, runs: int) -> Measurement:
        with threading.num_threads(self._threads):
            return Measurement(number, self._timer.repeat(runs, number), self._label, self._threads)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """Execute the statement `number` times, after a hundredth of these to warm up."""
        self._measure(max(number // 100, 2), 1)
        return self._measure(number, 1)

    def _number(self, seconds: float) -> int:
        """The number of runs of the statement in `seconds`."""
        number = 1
        while (taken := sum(self._measure(number, 1).raw_times)) < seconds:
            number = max(2 * number, min(10 * number, int(1.1 * number * seconds / max(taken, 1e-9))))
        return number

    def blocked_autorange(self, callback: Any = None, min_run_time: float = 0.2) -> Measurement:
        """Execute blocks of the statement that take a hundredth of `min_run_time`, for that time."""
        number = self._number(min_run_time / 100)
        return self._measure(number, 100)

    def adaptive_autorange(self, threshold: float = 0.1, *, min_run_time: float = 0.01, **options: Any) -> Measurement:
        """`blocked_autorange` of `min_run_time`."""
        return self.blocked_autorange(min_run_time=min_run_time)


class Compare:
    """Prints several measurements below each other."""

    def __init__(self, results: Sequence[Measurement]) -> None:
        self._results = list(results)

    def extend_results(self, results: Sequence[Measurement]) -> None:
        """Add measurements."""
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Without effect."""

    def colorize(self, rowwise: bool = False) -> None:
        """Without effect."""

    def __str__(self) -> str:
        return "\n".join(map(repr, self._results))

    def print(self) -> None:
        """Print the measurements."""
        sys.stdout.write(f"{self}\n")
