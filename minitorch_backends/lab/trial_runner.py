"""Trials of an audit on any executor, with a store from which an audit resumes."""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, NamedTuple

from .. import backends
from ..kernels.runtime import threading as kernel_threads
from ..kernels.runtime.context import restore_on_failure
from ..kernels.runtime.files import write_file
from .dependencies import dependencies, fingerprint
from .executors import pickle_by_value, results
from .machine import machine
from .progress import Progress
from .store import Store
from .trials import Autocast, Trial, Trials, autocast_as, run_trial

_INLINE_BYTES = 1 << 20
"""The size of a pickled model that travels with each task; larger ones are a file that workers read once."""


class Source(NamedTuple):
    """The source of a worker's trials.

    Attributes:
        key: of the pickled arguments of `Trials`; they are `data`, or in the file at `path`.
        flags, autocast: those of the audit.
        threads: per process; None for the process's own number.
    """

    key: str
    data: bytes
    path: str
    flags: backends.Snapshot
    autocast: Autocast
    threads: int | None


class Runner:
    """Runs trials in this process, or on an executor; rows of a store are read from there, and new ones written."""

    def __init__(
        self, trials: Trials, executor: Executor | int | None, store: str | os.PathLike[str] | None,
        reuse: bool | None, progress: bool | None,
    ) -> None:  # fmt: skip
        self.trials, self.executor, self.progress = trials, executor, progress
        self.store = None if store is None else Store(store, self._depends_on(), reuse, "audit")

    def _depends_on(self) -> dict[str, Any]:
        """All that the rows of a store depend on."""
        trials, about = self.trials, machine()
        functions = [each for each in (trials.metric,) if callable(each)]
        flags = [[path, repr(value)] for path, value in backends.snapshot().values]
        return {
            "functions": dependencies(trials.call, *functions),
            "model": fingerprint(trials.model),
            "metric": trials.metric if trials.metric is None or isinstance(trials.metric, str) else "function",
            "inputs": fingerprint(trials.inputs),
            "labels": fingerprint(trials.labels),
            "device": None if trials.device is None else trials.device.name,
            "levels": [[level.name, level.flags] for level in trials.levels],
            "groups": trials.parts,
            "flags": flags,
            **{name: about[name] for name in ("versions", "capability")},
        }

    def run(self, wanted: list[Trial]) -> Iterator[tuple[Trial, dict[str, Any]]]:
        """Yield trials with their rows. Raises RuntimeError where workers died of one."""
        rows = self.store.read() if self.store is not None else {}
        left = [trial for trial in wanted if trial.key not in rows]
        yield from ((trial, rows[trial.key]) for trial in wanted if trial.key in rows)
        name = f"audit of {type(self.trials.model).__name__}"
        try:
            with self._task() as task, Progress(name, len(wanted), len(wanted) - len(left), self.progress) as bar:
                for trial, row in results(task.function, left, self.executor):
                    if row["exception"] is not None:
                        raise RuntimeError(f"audit(): {row['exception']}, in {trial.product} of {trial.layer!r}")
                    if self.executor is not None:
                        self.trials.runs += row["runs"]
                    if self.store is not None:
                        self.store.add(trial.key, row)
                    bar.advance()
                    yield trial, row
        finally:
            if self.store is not None:
                self.store.close()

    def _task(self) -> _Task:
        if self.executor is None:
            return _Task(functools.partial(run_trial, self.trials))
        trials, threads = self.trials, None
        arguments = (trials.call, trials.inputs, trials.metric, trials.levels, len(trials.products) > 1,
                     trials.measures_gradients, trials.labels, trials.parts, trials.device)  # fmt: skip
        data = pickle_by_value(arguments)
        if isinstance(self.executor, int):
            threads = max(1, kernel_threads.available_cpus() // self.executor)
        key, path, folder = hashlib.sha256(data).hexdigest()[:24], "", None
        if len(data) > _INLINE_BYTES:
            if self.store is None:
                folder = tempfile.TemporaryDirectory(prefix="minitorch-audit-")
            place = Path(folder.name) if folder is not None else self.store.folder  # type: ignore[union-attr]
            path, data = str(place.resolve() / f"model-{key}.pickle"), _write(place / f"model-{key}.pickle", data)
        source = Source(key, data, path, backends.snapshot(), trials.autocast, threads)
        return _Task(functools.partial(_run_in_worker, source), folder)


def _write(path: Path, data: bytes) -> bytes:
    write_file(path, data)
    return b""


class _Task:
    """A function of a trial, and the folder that it needs meanwhile."""

    def __init__(self, function: Callable[[Trial], dict[str, Any]], folder: Any = None) -> None:
        self.function, self._folder = function, folder

    def __enter__(self) -> _Task:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()


_loaded = threading.local()
"""The trials of this worker, a process or a thread: `key` of their source and `trials`, the last alone. A model is
called by one thread at a time, since scopes of its layers belong to the model."""


@restore_on_failure
def _run_in_worker(source: Source, trial: Trial) -> dict[str, Any]:
    """The row of a trial in another process. The first one there reads the model and runs it for the truth."""
    if source.threads is not None:
        kernel_threads.set_num_threads(source.threads)
    with source.flags, autocast_as(source.autocast):
        if getattr(_loaded, "key", None) != source.key:
            _loaded.trials, _loaded.key = _load(source), source.key
        trials: Trials = _loaded.trials
        before = trials.runs
        return {**run_trial(trials, trial), "runs": trials.runs - before}


def _load(source: Source) -> Trials:
    import cloudpickle

    data = source.data or Path(source.path).read_bytes()  # written by the process that runs the audit
    return Trials(*cloudpickle.loads(data))
