"""Traces of kernel calls in the formats of oneDNN and MKL: one line per call, while a block runs.

`backends.mkldnn.verbose(level)` prints lines in the columns of oneDNN's verbose mode, version 1 (its documentation,
"Verbose Mode", and `src/common/verbose.cpp`). `backends.mkl.verbose(enable)` prints lines in the style of MKL's ("Using
Intel oneMKL Verbose Mode" in its developer guide). Lines go to `sys.stdout`, or to a logger if one is given. Regions
belong to the thread or task, and may be nested. An inner region replaces the outer one, so that one at level 0 is
silent.
"""

from __future__ import annotations

import functools
import logging
import os
import sys
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any

from ...flags.scopes import Scope
from ...kernels.registry import Call, observe_everywhere, start_observing, stop_observing
from .mkl import mkl_lines
from .onednn import onednn_lines

__all__ = ["MklVerbose", "OneDnnVerbose", "read_environment"]


class _Region:
    """One level of tracing of a thread or task, above its parent level; the innermost one prints."""

    __slots__ = ("current", "lines", "logger", "parent", "started")

    def __init__(
        self,
        current: ContextVar[_Region | None],
        lines: Callable[[Call, bool], Iterable[str]],
        logger: logging.Logger | None,
    ) -> None:
        self.current, self.lines, self.logger = current, lines, logger
        self.parent, self.started = current.get(), False

    def __call__(self, call: Call) -> None:
        innermost = self.current.get()
        if innermost is self or innermost is None:
            for line in self.lines(call, not self.started):
                self.started = True
                if self.logger is None:
                    sys.stdout.write(line + "\n")
                else:
                    self.logger.info(line)


class _Verbose(Scope):
    """A region with traced calls. As in torch, the arguments are checked on entry."""

    __slots__ = ("level", "logger")

    level: int
    logger: logging.Logger | None
    _current: ContextVar[_Region | None]
    _levels: tuple[int, ...]

    def _lines(self, call: Call, first: bool) -> Iterable[str]:
        raise NotImplementedError

    def __enter__(self) -> Any:
        name = f"{'mkl' if isinstance(self, MklVerbose) else 'mkldnn'}.verbose"
        if not isinstance(self.level, int):
            raise TypeError(f"{name} takes one of {self._levels}, got {self.level!r}")
        if self.level not in self._levels:
            raise AssertionError(f"{name} takes one of {self._levels}, got {self.level}")
        region = _Region(self._current, self._lines, self.logger)
        self._current.set(region)
        start_observing(region)
        return self if self.level else None

    def __exit__(self, *exception: object) -> None:
        region = self._current.get()
        if region is not None:
            self._current.set(region.parent)
            stop_observing(region)


# oneDNN


class OneDnnVerbose(_Verbose):
    """Print a line in oneDNN's columns for each kernel call while a block runs: `with mkldnn.verbose(level):`.

    Arguments:
        level: VERBOSE_OFF; VERBOSE_ON for a line after each call, with a note before it where the call compiled its
            kernel; VERBOSE_ON_CREATION for a line with all columns in place of the note. The time of a call is
            without that of compiling.
        logger: takes the lines, at level INFO, in place of `sys.stdout`.
    """

    __slots__ = ()

    _current = ContextVar("onednn_region", default=None)
    _levels = (0, 1, 2)

    def __init__(self, level: int, *, logger: logging.Logger | None = None) -> None:
        self.level, self.logger = level, logger

    def _lines(self, call: Call, first: bool) -> Iterable[str]:
        return onednn_lines(call, first, _ONEDNN_WORDS[str(int(self.level))])


# MKL


class MklVerbose(_Verbose):
    """Print a line in MKL's style for each matrix product of a type that BLAS has: `with mkl.verbose(enable):`.

    Arguments:
        enable: VERBOSE_OFF or VERBOSE_ON; 2 is VERBOSE_ON.
        logger: takes the lines, at level INFO, in place of `sys.stdout`.
    """

    __slots__ = ()

    _current = ContextVar("mkl_region", default=None)
    _levels = (0, 1, 2)

    def __init__(self, enable: int, *, logger: logging.Logger | None = None) -> None:
        self.level, self.logger = enable, logger

    def _lines(self, call: Call, first: bool) -> Iterable[str]:
        return mkl_lines(call, first) if self.level else ()


# The environment

_ONEDNN_WORDS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("0", "none", "error", "warn", "check"), frozenset()),
    **dict.fromkeys(("1", "profile_exec"), frozenset({"exec", "info"})),
    "profile_create": frozenset({"create"}),
    **dict.fromkeys(("2", "profile"), frozenset({"exec", "create"})),
    "dispatch": frozenset({"dispatch"}),
    "all": frozenset({"exec", "create", "dispatch"}),
}


def read_environment() -> None:
    """Start the traces that MKL_VERBOSE, and ONEDNN_VERBOSE or DNNL_VERBOSE, request, in every thread.

    Raises ValueError, naming the variable, for an invalid text.
    """
    text = os.environ.get("MKL_VERBOSE", "").strip()
    if text not in ("", "0", "1", "2"):
        raise ValueError(f"the environment variable MKL_VERBOSE={text!r} is not understood; expected 0, 1 or 2")
    if text in ("1", "2"):
        observe_everywhere(_Region(MklVerbose._current, mkl_lines, None))
    what = _requested_kinds("ONEDNN_VERBOSE") or _requested_kinds("DNNL_VERBOSE")
    if what:
        observe_everywhere(_Region(OneDnnVerbose._current, functools.partial(onednn_lines, what=what), None))


def _requested_kinds(variable: str) -> frozenset[str]:
    """The kinds of lines that a variable of oneDNN's requests."""
    text = os.environ.get(variable, "").strip()
    words = text.split(",") if text else []
    if any(word not in _ONEDNN_WORDS for word in words):
        known = ", ".join(_ONEDNN_WORDS)
        raise ValueError(
            f"the environment variable {variable}={text!r} is not understood; expected some of {known}, with commas"
        )
    return frozenset().union(*(_ONEDNN_WORDS[word] for word in words))
