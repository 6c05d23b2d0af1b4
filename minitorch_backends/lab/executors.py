"""Running cells: in this process, in worker processes, or on any executor of `concurrent.futures`."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, Protocol, TypeVar

_MOST_WAITING = 256
"""The number of cells that an executor holds at a time: enough for a cluster, and a bound on the number of futures."""

_MOST_DEATHS = 3
"""The number of workers that may die of one cell before it counts as failed."""


def check_executor(caller: str, executor: Any) -> None:
    """Raise ValueError unless this is a positive number of processes, an executor or None."""
    is_number = isinstance(executor, int) and not isinstance(executor, bool) and executor > 0
    if not (executor is None or is_number or callable(getattr(executor, "submit", None))):
        raise ValueError(
            f"{caller}(): executor must be a positive number of processes, an Executor or None, got {executor!r}"
        )


def pickle_by_value(value: Any) -> bytes:
    """A value by cloudpickle, which takes functions and classes of scripts by value."""
    try:
        import cloudpickle
    except ImportError:
        raise ImportError("the laboratory needs cloudpickle: pip install 'minitorch-backends[lab]'") from None
    return cloudpickle.dumps(value)


class Cell(Protocol):
    """The subject of a task: a cell of a sweep, or a trial of an audit."""

    @property
    def key(self) -> str: ...

    def row_of_death(self) -> dict[str, Any]:
        """The row where worker processes died of it."""
        ...


C = TypeVar("C", bound=Cell)
Task = Callable[[C], dict[str, Any]]
"""Makes the row of a cell, in any process."""


def results(task: Task[C], cells: Sequence[C], executor: Executor | int | None) -> Iterator[tuple[C, dict[str, Any]]]:
    """Yield cells with their rows, in order of completion."""
    if executor is None:
        return ((cell, task(cell)) for cell in cells)
    if isinstance(executor, int):
        return _on_processes(task, cells, executor)
    return _submit(executor, task, cells, _MOST_WAITING)


def _submit(executor: Executor, task: Task[C], cells: Sequence[C], most: int) -> Iterator[tuple[C, dict[str, Any]]]:
    """Submit cells in order, at most `most` at a time."""
    left, running = deque(cells), dict[Future, C]()
    try:
        while left or running:
            while left and len(running) < most:
                cell = left.popleft()
                running[executor.submit(task, cell)] = cell
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()
    finally:
        for future in running:
            future.cancel()


def _on_processes(task: Task[C], cells: Sequence[C], count: int) -> Iterator[tuple[C, dict[str, Any]]]:
    """Run cells on worker processes, and start new ones when one dies.

    The cells that were running are then run again, finally one at a time, to find the one that kills its process.
    """
    left, deaths = list(cells), dict[str, int]()
    while left:
        suspects = [cell for cell in left if deaths.get(cell.key, 0) >= _MOST_DEATHS - 1]
        batch, width = (suspects[:1], 1) if suspects else (left, count)
        done = set()
        try:
            for cell, row in _on_one_pool(task, batch, width):
                done.add(cell.key)
                yield cell, row
        except BrokenProcessPool:
            unfinished = [cell for cell in batch if cell.key not in done][: 2 * width]
            for cell in unfinished:
                deaths[cell.key] = deaths.get(cell.key, 0) + 1
                if deaths[cell.key] >= _MOST_DEATHS and len(batch) == 1:
                    done.add(cell.key)
                    yield cell, cell.row_of_death()
        left = [cell for cell in left if cell.key not in done]


class _Worker(SpawnProcess):
    """A process that does not run the user's script again, as `multiprocessing` does to find functions in it: those of
    a sweep are pickled by value. So the script needs no `if __name__ == "__main__":`."""

    @staticmethod
    def _Popen(process: Any) -> Any:
        main = sys.modules["__main__"]
        with _starting:
            file, spec = vars(main).pop("__file__", None), main.__spec__
            main.__spec__ = None
            try:
                return SpawnProcess._Popen(process)
            finally:
                main.__spec__ = spec
                if file is not None:
                    main.__file__ = file


class _Workers(SpawnContext):
    Process = _Worker


_starting = threading.Lock()


def _on_one_pool(task: Task[C], cells: Sequence[C], count: int) -> Iterator[tuple[C, dict[str, Any]]]:
    pool = ProcessPoolExecutor(min(count, len(cells)), mp_context=_Workers(), initializer=_prepare)
    try:
        yield from _submit(pool, task, cells, 2 * count)  # few cells become suspects on a death
    except BaseException:
        for process in list((pool._processes or {}).values()):  # they may be in the middle of a long cell
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _prepare() -> None:
    """Set up a worker: it ignores Ctrl-C, which its parent handles, and ends when its parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.join,), daemon=True).start()


def _end_with(join: Callable[[], Any]) -> None:
    join()
    os._exit(1)
