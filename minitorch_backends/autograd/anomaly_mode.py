"""Anomaly detection: call sites of ops, the line of an in-place write, and the gradient that became NaN.

The setting is process-wide. While it is on, every op takes its general path and stores the stack of its call.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import Any, NamedTuple

from .. import kernels
from ..flags.scopes import Scope
from ..kernels.runtime.context import warn_caller
from ..kernels.runtime.locks import lock
from ..tensor import instrumentation

__all__ = ["detect_anomaly", "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "set_detect_anomaly"]

_OURS = (str(Path(__file__).absolute().parents[1]), *map(os.path.abspath, kernels.__path__))
"""The directories of this package."""

_lock = lock()


class _Diagnosis(NamedTuple):
    enabled: bool
    check_nan: bool


_current = _Diagnosis(False, True)


def is_anomaly_enabled() -> bool:
    """Whether `set_detect_anomaly` is on, for all threads."""
    return _current.enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Whether backward passes raise for NaN while anomaly detection is on."""
    return _current.check_nan


def _put(wanted: _Diagnosis) -> None:
    global _current
    with _lock:
        instrumentation.observe_calls(wanted.enabled - _current.enabled)
        _current = wanted


class set_detect_anomaly(Scope):
    """Turn anomaly detection on or off for all threads, at once or while a block or a function runs.

    While it is on:

    * an error in a backward pass comes with a warning that shows the forward call;
    * the error for a saved tensor that was modified in place names the line of the write;
    * errors about inference tensors name the line that made them;
    * a NaN in a gradient is an error, unless `check_nan` is False.

    All operations are slower. Raises TypeError for values other than True and False.
    """

    __slots__ = ("_before", "wanted")

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        for name, value in (("mode", mode), ("check_nan", check_nan)):
            if value is not True and value is not False:
                raise TypeError(f"{type(self).__name__}: {name} must be True or False, got {value!r}")
        self.wanted, self._before = _Diagnosis(mode, check_nan), [_current]
        _put(self.wanted)

    def __call__(self, function: Any) -> Any:
        _put(self._before[0])
        return super().__call__(function)

    def __enter__(self) -> None:
        self._before.append(_current if self._before[1:] else self._before[0])
        _put(self.wanted)

    def __exit__(self, *exception: object) -> None:
        _put(self._before.pop())


class detect_anomaly(set_detect_anomaly):
    """`set_detect_anomaly(True)` as a context manager, with a warning about its cost."""

    __slots__ = ()

    def __init__(self, check_nan: bool = True) -> None:
        warn_caller("anomaly detection is for debugging only: it slows down every operation")
        before = _current
        super().__init__(True, check_nan)
        _put(before)


def stack() -> traceback.StackSummary:
    """The caller's frames outside this package, outermost first. Source lines are read only for printing."""
    frames = [(frame, line) for frame, line in traceback.walk_stack(sys._getframe(1)) if _is_outside(frame)]
    return traceback.StackSummary.extract(reversed(frames), lookup_lines=False)


def _is_outside(frame: Any) -> bool:
    path = os.path.abspath(frame.f_code.co_filename)
    return not any(path.startswith(folder + os.sep) for folder in _OURS)


def site() -> str | None:
    """The innermost line outside this package, as `file:line in function: code`, while anomaly detection is on."""
    if not _current.enabled:
        return None
    frames = stack()
    if not frames:
        return None
    last = frames[-1]
    return f"{last.filename}:{last.lineno} in {last.name}: {last.line}"


def note_call(node: Any) -> None:
    """Store the call site of an op with its node while anomaly detection is on, and count the node for a growth
    limit."""
    if _current.enabled:
        node.trace = stack()
    if instrumentation.counted is not None:
        instrumentation.counted(node)


def told_of_writes(cell: list[Any], version: int) -> str:
    """A remark that names the line that first wrote to memory after `version`, or says how to find it."""
    lines = [line for count, line in cell[1].sites if count > version] if len(cell) > 1 else []
    if lines:
        return f", first written to at {lines[0]}"
    return "" if _current.enabled else " (set_detect_anomaly(True) would name the line that wrote)"


def warn_of_forward(node: Any) -> None:
    """Warn with the call site of a node's op."""
    trace = getattr(node, "trace", None)
    where = (
        "no forward call was recorded, since anomaly detection was off"
        if trace is None
        else "traceback of the forward call that caused the error (most recent call last):\n" + "".join(trace.format())
    )
    warn_caller(f"error detected in {node.name()}; {where}")
