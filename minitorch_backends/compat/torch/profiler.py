"""`torch.profiler`: the time of blocks under `record_function`, and the number of runs of each kernel."""

from __future__ import annotations

import contextlib
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from enum import Enum
from typing import Any

from ...kernels.registry import observe

__all__ = ["ProfilerAction", "ProfilerActivity", "profile", "record_function", "schedule", "tensorboard_trace_handler"]


class ProfilerActivity(Enum):
    """What torch's profiler can follow; here it is the CPU."""

    CPU, CUDA, XPU, MTIA, HPU, PrivateUse1 = range(6)


class ProfilerAction(Enum):
    """The states of a schedule."""

    NONE, WARMUP, RECORD, RECORD_AND_SAVE = range(4)


_active: ContextVar[profile | None] = ContextVar("profile", default=None)


class Averages(list):
    """One row of (name, calls, seconds) for each block and kernel; of kernels only calls are counted."""

    def table(self, sort_by: str | None = None, row_limit: int = 100, **options: Any) -> str:
        """The rows as text, longest time first."""
        rows = sorted(self, key=lambda row: (-row[2], -row[1]))[: row_limit if row_limit > 0 else None]
        width = max([4, *(len(name) for name, _, _ in rows)])
        lines = [f"{name:{width}}  {calls:8}  {1e3 * seconds:12.3f}" for name, calls, seconds in rows]
        return "\n".join([f"{'Name':{width}}  {'Calls':>8}  {'CPU time, ms':>12}", *lines])


class profile:
    """Time blocks and count kernel calls, while a block runs or from `start()` to `stop()`.

    `schedule` and `on_trace_ready` are called as in torch; other options have no effect.
    """

    def __init__(
        self, *, activities: Any = None, schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None, **options: Any,
    ) -> None:  # fmt: skip
        self._schedule, self._ready, self.step_num = schedule, on_trace_ready, 0
        self._counts: dict[str, list[float]] = defaultdict(lambda: [0, 0.0])
        self._stack = contextlib.ExitStack()

    def note(self, name: str, seconds: float) -> None:
        """Add one call."""
        entry = self._counts[name]
        entry[0] += 1
        entry[1] += seconds

    def start(self) -> None:
        """Begin."""
        self._stack.enter_context(observe(lambda call: self.note(f"{call.kernel}: {call.implementation}", 0.0)))
        token = _active.set(self)
        self._stack.callback(_active.reset, token)
        self._stack.enter_context(record_function("profile"))

    def stop(self) -> None:
        """End; `on_trace_ready` gets this object."""
        self._stack.close()
        if self._ready is not None and self._schedule is None:
            self._ready(self)

    def step(self) -> None:
        """Advance the schedule by one step."""
        action = self._schedule(self.step_num) if self._schedule is not None else ProfilerAction.RECORD
        if action is ProfilerAction.RECORD_AND_SAVE and self._ready is not None:
            self._ready(self)
        self.step_num += 1

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def key_averages(self, *args: Any, **options: Any) -> Averages:
        """A row for each block and kernel."""
        return Averages((name, int(calls), seconds) for name, (calls, seconds) in self._counts.items())

    def export_chrome_trace(self, path: str) -> None:
        """Raises RuntimeError: only averages are stored."""
        raise RuntimeError("export_chrome_trace(): single events are not kept; print key_averages().table()")


@contextlib.contextmanager
def record_function(name: str, args: str | None = None) -> Iterator[None]:
    """A block, or a decorated function, that an active profiler times under `name`."""
    start = time.perf_counter()
    try:
        yield
    finally:
        if (profiler := _active.get()) is not None:
            profiler.note(name, time.perf_counter() - start)


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, **options: Any
) -> Callable[[int], ProfilerAction]:
    """The action of each step: `skip_first` steps of none, then cycles of `wait`, `warmup` and `active` steps."""
    cycle = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        if step < 0 or (repeat and step >= repeat * cycle) or (place := step % cycle) < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if place == cycle - 1 else ProfilerAction.RECORD

    return action


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None, use_gzip: bool = False) -> Any:
    """A function for `on_trace_ready` that prints the averages: no trace is written."""
    return lambda profiler: sys.stdout.write(f"{profiler.key_averages().table()}\n")
