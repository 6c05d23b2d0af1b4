"""Timing of the algorithms of a convolution on its first call, and a cache of the fastest.

Results are stored under a line of text with everything that the time depends on: the task, dtypes, shapes, layouts,
keywords, the admitted algorithms, the number of algorithms to time if not all, the CPU's capability and the number of
threads. A saved cache can therefore be loaded on any machine, and serves calls measured on a similar one.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..registry import Decision, Kernel, Refused, kernels, without_observers
from ..runtime import cpu, threading
from ..runtime.context import restore_on_failure
from ..runtime.files import one_sentence, write_file
from .packed_weight import array_of
from .shapes import is_channels_last

STEERING = ("without", "workspace_limit", "every", "plans")
"""Keywords of the kernels that their implementations do not see, unless they are declared with it."""

_FORMAT = 1
_RUNS, _SECONDS = 3, 0.2
"""An algorithm is run so often after a first time, or for so long; the shortest run counts."""

_KEPT = 4096
"""Calls that are looked up without making their line of text; past it all are forgotten."""


class BenchmarkCache(Mapping[str, dict[str, float]]):
    """What was measured: for each line of text the seconds of the algorithms that were timed, the fastest first."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[str, float]] = {}
        self._calls: dict[tuple, tuple[str, ...]] = {}  # with their limits; several may have the same line
        self._latest: dict[tuple, tuple[str, ...]] = {}

    def __getitem__(self, line: str) -> dict[str, float]:
        return dict(self._entries[line])

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        lines = [
            f"  {line}: " + ", ".join(f"{name} {seconds * 1e3:.3f} ms" for name, seconds in times.items())
            for line, times in list(self._entries.items())
        ]
        return "\n".join([f"<benchmark cache of {len(self)} convolutions>", *lines])

    def clear(self) -> None:
        """Forget everything, so that the next calls measure anew."""
        self._entries.clear()
        self._forget_calls()

    def _forget_calls(self) -> None:
        self._calls.clear()
        self._latest.clear()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a file, as JSON."""
        write_file(path, json.dumps({"format": _FORMAT, "entries": dict(self._entries)}, indent=1))

    def load(self, path: str | os.PathLike[str]) -> None:
        """Add what `save` wrote, in place of what is known of the same calls. Raises ValueError for another file."""
        content = Path(path).read_bytes()
        with one_sentence(repr(os.fspath(path)), "a benchmark cache that `save` wrote"):
            entries = _check_content(json.loads(content))
        self._entries.update(entries)
        self._forget_calls()

    def timings(self, kernel: str, arrays: tuple[Any, ...], keywords: Mapping[str, Any]) -> tuple[str, ...]:
        """The algorithms that were timed for a call, the fastest first, under the limit that it had last; none if it
        was not measured."""
        return self._latest.get(_key(kernel, arrays, keywords), ())

    def knows(self, kernel: str, arrays: tuple[Any, ...], keywords: Mapping[str, Any], limit: int | None) -> bool:
        """Whether `fastest` has been asked the same."""
        return (_key(kernel, arrays, keywords), limit or None) in self._calls

    def fastest(
        self, kernel: Kernel, arrays: tuple[np.ndarray, ...], keywords: Mapping[str, Any], limit: int | None
    ) -> str | None:
        """The fastest algorithm for a call, measured now unless cached.

        `limit` is the number of algorithms to time, in the kernel's order of preference (admitted ones last); 0 or None
        for all.
        """
        key, limit = _key(kernel.name, arrays, keywords), limit or None
        names = self._calls.get((key, limit))
        if names is None:
            decision = kernel.decide(*arrays, **keywords)
            line = _line(kernel, arrays, keywords, decision) + (f" limit={limit}" if limit else "")
            times = self._entries.get(line)
            if times is None:
                times = self._entries[line] = _measure(kernel, arrays, keywords, decision, limit)
            if len(self._calls) >= _KEPT:
                self._forget_calls()
            names = self._calls[key, limit] = tuple(times)
        self._latest[key] = names
        return next(iter(names), None)


def _check_content(content: Any) -> dict[str, dict[str, float]]:
    if content["format"] != _FORMAT:
        raise ValueError(f"its format is {content['format']!r}, and this is {_FORMAT}")
    entries = {}
    for line, times in content["entries"].items():
        kernel = kernels.get(line.split(" ")[0])
        unknown = [name for name in times if kernel is None or name not in kernel.implementations]
        if unknown:
            raise ValueError(f"algorithm {unknown[0]!r} for {line!r} does not exist")
        entries[line] = {str(name): float(seconds) for name, seconds in times.items()}
    return entries


def _is_last(x: Any) -> bool:
    return x.ndim > 1 and is_channels_last(array_of(x))


def _key(kernel: str, arrays: tuple[Any, ...], keywords: Mapping[str, Any]) -> tuple:
    described = tuple((x.shape, x.dtype, _is_last(x)) for x in arrays)
    return kernel, threading.get_num_threads(), described, tuple(keywords.items())


def _line(kernel: Kernel, arrays: tuple[Any, ...], keywords: Mapping[str, Any], decision: Decision) -> str:
    def text(value: Any) -> str:
        return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)

    shapes = [text(x.shape) + ("-last" if _is_last(x) else "") for x in arrays]
    options = [f"{name}={text(value)}" for name, value in keywords.items() if name == "every" or name not in STEERING]
    admitted = ",".join(each.name for each in decision.candidates)
    machine = f"{cpu.capability()} threads={threading.get_num_threads()}"
    return " ".join([kernel.name, arrays[0].dtype.name, *shapes, *options, f"of={admitted}", machine])


@restore_on_failure
def _measure(
    kernel: Kernel, arrays: tuple[np.ndarray, ...], keywords: Mapping[str, Any], decision: Decision, limit: int | None
) -> dict[str, float]:
    usual = {name: value for name, value in keywords.items() if name != "every"}
    default = {each.name for each in kernel.decide(*arrays, **usual).candidates}
    candidates, times = sorted(decision.candidates, key=lambda each: each.name not in default), {}
    for candidate in candidates[:limit]:
        try:
            with without_observers():
                times[candidate.name] = _seconds(partial(candidate.run, *arrays, **keywords))
        except Refused:
            continue
    return dict(sorted(times.items(), key=lambda item: item[1]))


def _seconds(call: Callable[[], Any]) -> float:
    call()
    began, shortest = time.perf_counter(), float("inf")
    for _ in range(_RUNS):
        start = time.perf_counter()
        call()
        end = time.perf_counter()
        shortest = min(shortest, end - start)
        if end - began > _SECONDS:
            break
    return shortest


benchmark_cache = BenchmarkCache()
"""What `cudnn.benchmark` has measured in this process."""
