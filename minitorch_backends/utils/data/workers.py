"""Worker processes of a loader.

The parent sends each worker tasks, numbered in batch order, over a separate pipe, and waits for all pipes at once. No
lock is shared, so a killed worker blocks no other process: its pipe ends. In a worker a thread reads tasks from the
pipe, so that neither side waits for the other to read. A worker ignores Ctrl-C, which its parent handles, and ends with
its parent.

A worker inherits the current flags, grad mode and default dtype, and the folder of compiled code. It has one thread,
and a seed of its own for the default generator, `random` and NumPy.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import queue
import random
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ... import backends
from ...autograd.modes import is_grad_enabled, set_grad_enabled
from ...kernels.store import CACHE_VARIABLE, cache_folder
from ...kernels.threading import set_num_threads
from ...random import manual_seed
from ...tensor.dtypes import get_default_dtype, set_default_dtype


class _End:
    def __reduce__(self) -> str:
        return "END"


END = _End()
"""A worker's reply for a task after the end of its iterable dataset."""

_RESET = None
"""The place of a task that has workers begin again."""

_POLITE_SECONDS = 5.0
"""How long a worker may take to finish its batch before it is terminated."""


class WorkerInfo(NamedTuple):
    """A worker's description of itself: its number, the number of workers, its seed, and its copy of the dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """The description of the current worker process; None in the parent."""
    return _info


class Setting(NamedTuple):
    """What all workers of a loader share, in a form that any way to start processes can hand over."""

    dataset: Any
    iterable: bool
    batched: bool
    drop_last: bool
    collate: Callable[[Any], Any]
    init: Callable[[int], Any] | None
    flags: Any
    grad: bool
    dtype: Any
    code: str
    seed: int
    workers: int

    @classmethod
    def of(cls, loader: Any, seed: int) -> Setting:
        """The setting of a loader, with the current flags and modes."""
        return cls(
            loader.dataset, loader.is_iterable, loader.is_batched, loader.drop_last, loader.collate_fn,
            loader.worker_init_fn, backends.snapshot(), is_grad_enabled(), get_default_dtype(), str(cache_folder()),
            seed, loader.num_workers,
        )  # fmt: skip


class Failure(NamedTuple):
    """An exception in a worker, as its type and text."""

    kind: type
    text: str

    def raise_again(self, worker: int) -> None:
        """Raise it in the parent, with the worker's traceback in the message."""
        message = f"{self.kind.__name__} in DataLoader worker {worker}; its traceback:\n{self.text}"
        try:
            error = self.kind(_Message(message) if issubclass(self.kind, KeyError) else message)
        except TypeError:  # whose constructor takes something else
            error = RuntimeError(message)
        raise error


class _Message(str):
    """Text that a KeyError shows as it is."""

    def __repr__(self) -> str:
        return str(self)


def fetcher(dataset: Any, iterable: bool, batched: bool, drop_last: bool, collate: Callable[[Any], Any]) -> Any:
    """The function from the indices of a batch, or the index of one item, to the loader's result.

    For an iterable dataset it takes the next items, as many as there are indices, and raises StopIteration at the end.
    """
    if not iterable:
        if not batched:
            return lambda index: collate(dataset[index])
        at_once = getattr(dataset, "__getitems__", None)
        return lambda indices: collate(at_once(indices) if at_once else [dataset[index] for index in indices])
    items = iter(dataset)
    if not batched:
        return lambda index: collate(next(items))

    def next_batch(indices: Sequence[Any]) -> Any:
        batch = [item for _, item in zip(indices, items, strict=False)]
        if not batch or (drop_last and len(batch) < len(indices)):
            raise StopIteration
        return collate(batch)

    return next_batch


# In the worker


def _work(number: int, connection: Any, setting: Setting, others: Sequence[Any]) -> None:
    """Run a worker until its pipe ends or None comes."""
    for each in others:  # of workers that were started before, which a fork has copied
        each.close()
    _prepare(number, setting)
    tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(connection, tasks), daemon=True).start()
    failure = _attempt(lambda: setting.init(number) if setting.init is not None else None)
    fetch: Any = None
    while (task := tasks.get()) is not None:
        place, indices = task
        if place is _RESET:
            fetch = None
            continue
        if fetch is None:
            fetch = _attempt(lambda: fetcher(*setting[:5]))
        wrong = next((each for each in (failure, fetch) if isinstance(each, Failure)), None)
        result = wrong or _attempt(lambda: fetch(indices))  # noqa: B023
        try:
            connection.send((place, result))
        except (BrokenPipeError, ConnectionResetError):
            return
        except Exception as error:  # what cannot be pickled
            connection.send((place, Failure(type(error), traceback.format_exc())))


def _prepare(number: int, setting: Setting) -> None:
    global _info
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent: Any = multiprocessing.parent_process()
    threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()
    os.environ.setdefault(CACHE_VARIABLE, setting.code)
    set_num_threads(1)
    backends.restore(setting.flags)
    set_grad_enabled(setting.grad)
    set_default_dtype(setting.dtype)
    seed = setting.seed + number
    random.seed(seed)
    manual_seed(seed)
    np.random.seed(np.random.SeedSequence(seed % 2**64).generate_state(4))  # noqa: NPY002  (of the user's functions)
    _info = WorkerInfo(number, setting.workers, seed, setting.dataset)


def _receive(connection: Any, tasks: Any) -> None:
    """Take tasks off the pipe until it ends."""
    task: Any = True
    while task is not None:
        try:
            task = connection.recv()
        except (EOFError, OSError):
            task = None
        tasks.put(task)


def _attempt(function: Callable[[], Any]) -> Any:
    """The result of a function, END for StopIteration, or the failure."""
    try:
        return function()
    except StopIteration:
        return END
    except Exception as error:
        return Failure(type(error), traceback.format_exc())


# In the parent


@contextlib.contextmanager
def _interrupts_later() -> Iterator[None]:
    """Delay Ctrl-C until the block ends: Python drops exceptions raised during a fork or in a `__del__`, including the
    interrupt. It applies to the main thread only, which alone is interrupted."""
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or usual is None:
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
        if came:
            signal.raise_signal(signal.SIGINT)


class Pool:
    """The workers of one loader: `submit` gives one a task, `receive` waits for the next results of any."""

    def __init__(self, setting: Setting, context: Any) -> None:
        self._connections: list[Any] = []
        self._processes: list[Any] = []
        try:
            with _interrupts_later():
                for number in range(setting.workers):
                    self._start(number, setting, context)
        except BaseException:
            self.close()
            raise

    def _start(self, number: int, setting: Setting, context: Any) -> None:
        """Start one worker. The end of the pipe that it has is closed and collected here on return."""
        own, other = context.Pipe()
        self._connections.append(own)
        inherited = self._connections if context.get_start_method() == "fork" else []
        process = context.Process(target=_work, args=(number, other, setting, inherited), daemon=True)
        process.start()
        self._processes.append(process)
        other.close()

    def submit(self, worker: int, place: int | None, indices: Any) -> None:
        """Give a worker the indices of a batch. Raises RuntimeError when the worker is dead."""
        try:
            self._connections[worker].send((place, indices))
        except (BrokenPipeError, ConnectionResetError):
            self._raise_death(worker)

    def reset(self) -> None:
        """Have all workers begin again."""
        for worker in range(len(self._connections)):
            self.submit(worker, _RESET, None)

    def receive(self, timeout: float) -> Iterator[tuple[int, int, Any]]:
        """Wait for results, and yield each with the worker and the place of the batch.

        Raises RuntimeError when a worker died, and after `timeout` seconds, unless that is 0.
        """
        ready: list[Any] = multiprocessing.connection.wait(self._connections, timeout or None)
        if not ready:
            raise RuntimeError(
                f"DataLoader: no batch came for {timeout} seconds; raise timeout, or look at the dataset"
            )
        for connection in ready:
            worker = self._connections.index(connection)
            try:
                place, result = connection.recv()
            except (EOFError, ConnectionResetError):
                self._raise_death(worker)
            yield worker, place, result

    def _raise_death(self, worker: int) -> None:
        process = self._processes[worker]
        process.join(_POLITE_SECONDS)
        code = process.exitcode
        reason = f"by {signal.Signals(-code).name}" if code is not None and code < 0 else f"with exit code {code}"
        raise RuntimeError(
            f"DataLoader: worker {worker} (pid {process.pid}) died {reason}; "
            "num_workers=0 shows the error in this process"
        )

    def close(self, seconds: float = _POLITE_SECONDS) -> None:
        """End all workers: idle ones at once, others after their batch or after `seconds`."""
        for connection in self._connections:
            with contextlib.suppress(OSError):  # of one that is dead
                connection.send(None)
            connection.close()
        deadline = time.monotonic() + seconds
        for process in self._processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.terminate()
                process.join()
