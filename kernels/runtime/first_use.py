"""First use: imports of libraries and compilation of functions run to completion.

An exception in between, such as the KeyboardInterrupt of Ctrl-C, would leave Numba's registries or SciPy's modules
incomplete, and every later call would fail. So would a child forked meanwhile, which lacks the thread that would
finish. Therefore signal handlers run right after such work, and a fork waits until no other thread is in a first use.
It also waits until none is in BLAS or LAPACK: OpenBLAS ends its threads at a fork, and a call that shares its work
with them would wait for them forever.

Modules of this package that are imported on first use are executed in the same way.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging  # noqa: F401  (whose lock a fork takes: hooks that are registered later run earlier, and ours must)
import mmap
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib.machinery import ExtensionFileLoader, ModuleSpec, SourceFileLoader
from types import CodeType, FrameType, ModuleType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_PACKAGE = __name__.partition(".")[0]


def _refuse_subinterpreters() -> None:
    """Raise ImportError outside of the main interpreter, where no signal can be handled, and NumPy shares its state."""
    for name in ("_interpreters", "_xxsubinterpreters"):  # from Python 3.13 on; before
        try:
            interpreters = importlib.import_module(name)
        except ImportError:
            continue
        if interpreters.get_current() != interpreters.get_main():
            raise ImportError(
                f"import {_PACKAGE}: the interpreter must be the main one of its process, got a subinterpreter; "
                "use processes or threads"
            )


_refuse_subinterpreters()


class _OfThread(threading.local):
    inside = False
    seconds = 0.0


_thread = _OfThread()
_importing = threading.RLock()
_awaited: list[Any] = []
_work = threading.Condition(threading.Lock())  # guards these two
_working: set[int] = set()  # threads that are in a first use
_forks = 0  # threads that fork, or wait to
_callers: set[CodeType] = set()  # of functions that call BLAS
_handlers: dict[int, Any] = {}  # of the user, by signal, while they are deferred
_arrived: dict[int, FrameType | None] = {}  # signals that wait for their handlers, and where they arrived


def stopwatch() -> Callable[[], tuple[float, float]]:
    """A function that returns the seconds since now that this thread has spent outside of first uses, and in them."""
    start, before = time.perf_counter(), _thread.seconds

    def elapsed_seconds() -> tuple[float, float]:
        inside = _thread.seconds - before
        return time.perf_counter() - start - inside, inside

    return elapsed_seconds


@contextlib.contextmanager
def first_use() -> Iterator[None]:
    """Import or compile in the block: handlers of signals run after it."""
    if _thread.inside:
        yield
        return
    start = time.perf_counter()
    _thread.inside = True
    try:
        with _deferred_signals(), _seen_by_forks():
            yield
    except (ImportError, OSError) as error:  # of the dynamic linker: it has no error of its own for want of memory
        if _has_room():
            raise
        message = "a library does not fit the limit of this process's address space (RLIMIT_AS); raise it"
        raise MemoryError(message) from error
    finally:
        _thread.inside = False
        _thread.seconds += time.perf_counter() - start


_ROOM = 1 << 28
"""Bytes of addresses for the largest library, LLVM."""


def _has_room() -> bool:
    """Whether a library could be mapped."""
    try:
        mmap.mmap(-1, _ROOM).close()
    except OSError:
        return False
    return True


@contextlib.contextmanager
def importing(*libraries: str) -> Iterator[None]:
    """Import libraries in the block. If that fails, for lack of memory for example, the next attempt imports them
    again.

    Partial imports are forgotten, except for complete extension modules, which a process can initialise only once.
    """
    with first_use(), _importing:
        before = set(sys.modules)
        try:
            yield
        except BaseException:
            for name in sys.modules.keys() - before:
                spec = getattr(sys.modules[name], "__spec__", None)
                if name.partition(".")[0] in libraries and not isinstance(
                    getattr(spec, "loader", None), ExtensionFileLoader
                ):
                    del sys.modules[name]
            raise


@functools.cache
def load(name: str) -> ModuleType:
    """Import a module of another library."""
    with importing(name.partition(".")[0]):
        if name.startswith("scipy.") and not _has_room():  # its OpenBLAS would ask for memory without end
            raise ImportError(name)
        return importlib.import_module(name)


class _Finder:
    """Finds the modules of this package as others do, and has them executed in `first_use`."""

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] != _PACKAGE:
            return None
        others = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, others), None)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):  # each module has its own
            spec.loader.exec_module = first_use()(spec.loader.exec_module)
        return spec


def _is_finder(found: Any) -> bool:
    return (type(found).__module__, type(found).__qualname__) == (_Finder.__module__, _Finder.__qualname__)


# One finder, also where the package is imported again: two would ask each other without end.
sys.meta_path[:] = [_Finder(), *(each for each in sys.meta_path if not _is_finder(each))]


@contextlib.contextmanager
def _deferred_signals() -> Iterator[None]:
    """Have each signal that a Python function handles wait until the block ends. Only the main thread runs handlers."""
    if _handlers or threading.current_thread() is not threading.main_thread():
        yield
        return
    signals = signal.valid_signals()
    handlers: dict[int, Any] = {number: handler for number in signals if callable(handler := signal.getsignal(number))}
    try:
        _handlers.update(handlers)
        for number in handlers:
            signal.signal(number, _arrived.__setitem__)
        yield
    finally:
        _resume_signals()


def _resume_signals() -> None:
    """Put the handlers back and call those whose signals have arrived: all of them, also where one raises."""
    try:
        while _handlers:
            number, handler = next(iter(_handlers.items()))
            signal.signal(number, handler)
            del _handlers[number]
            if number in _arrived:
                handler(number, _arrived.pop(number))
    finally:
        if _handlers:
            _resume_signals()


@contextlib.contextmanager
def _seen_by_forks() -> Iterator[None]:
    """Have forks of other threads wait until the block ends. Those that wait already go first."""
    thread = threading.get_ident()
    if _forks:
        _let_fork()
    with _work:
        _working.add(thread)
    try:
        yield
    finally:
        with _work:
            _working.discard(thread)
            _work.notify_all()


def calls_blas(function: Callable[P, R]) -> Callable[P, R]:
    """A function that calls BLAS or LAPACK: a fork by another thread waits until its calls have ended."""

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        if _forks:
            _let_fork()
        return function(*args, **options)

    _callers.add(call.__code__)
    return call


def _let_fork() -> None:
    """Wait for forks that wait. They may wait for what this thread holds, as the lock of a module that it imports:
    hence the limit."""
    with _work:
        _work.wait_for(lambda: not _forks, timeout=0.1)


def _is_in_blas(frame: FrameType | None) -> bool:
    """Whether a thread, whose innermost frame this is, is in a function that calls BLAS, and not before it."""
    while frame is not None and frame.f_code not in _callers:
        if frame.f_code is _let_fork.__code__:
            return False
        frame = frame.f_back
    return frame is not None


def await_before_fork(lock: Any) -> None:
    """Have a fork wait until no other thread holds this reentrant lock."""
    _awaited.append(lock)


def _can_fork() -> bool:
    """Whether no other thread is in BLAS, in a first use, or holds an awaited lock; if so, this thread has acquired all
    locks. A first use that forks waits for locks only, since others may be waiting for it."""
    thread = threading.get_ident()
    if not _thread.inside:
        # Without this thread's own frame, which would hold itself, and all that its callers hold, until collected.
        frames = [frame for other, frame in sys._current_frames().items() if other != thread]
        if _working - {thread} or any(map(_is_in_blas, frames)):
            return False
    for i, lock in enumerate(_awaited):
        if not lock.acquire(blocking=False):
            for acquired in _awaited[:i]:
                acquired.release()
            return False
    return True


def _before_fork() -> None:
    global _forks
    with _deferred_signals():
        _work.acquire()
        _forks += 1
        while not _can_fork():
            _work.wait(timeout=0.01)  # the release of an awaited lock, or the end of a call, notifies no thread


def _after_fork() -> None:
    global _forks
    _forks -= 1
    for lock in _awaited:
        lock.release()
    _work.notify_all()
    _work.release()


def _in_child() -> None:
    """In a forked child only the forking thread exists: reset the state of working and waiting threads, and of deferred
    signal handlers unless this thread deferred them."""
    global _forks
    _forks = 1
    _working.intersection_update({threading.get_ident()})
    _after_fork()
    if not _thread.inside:
        _arrived.clear()
        _resume_signals()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
