"""Runs as files: every kernel call of a block and the output of each module after the module's calls, with hashes,
statistics or values of the results.

`capture` writes a run, `Run.read` reads it. A run is a zip archive of JSON and NumPy arrays, so that other tools can
read it, and nothing in it is executed:

    run.json       where and how the block ran: format, version, results, calls, started, seconds, exception, host, cpu,
                   capability, versions, threads, grad, flags
    calls.jsonl    a line for each call: the attributes of `explain.Record`, and its "results", a list with for each
                   array its shape, dtype and hash (BLAKE2b of the elements in C order, 16 bytes); with statistics also
                   norm, largest magnitude and mean of its finite elements, and the numbers of "nan" and "inf"
    sketches.npy   with statistics: float64 (arrays, 128), in the order of calls.jsonl
    values/3.0.npy with values: array 0 of call 3; dtypes that NumPy lacks as unsigned integers of their width

The difference of two sketches has about the norm of the difference of their arrays, so that two runs can be compared
where neither holds values. A sketch adds each element, with a random sign, to a random one of 128 sums (the count
sketch of Charikar, Chen and Farach-Colton, 2002); the relative standard deviation of the norm is 1 / sqrt(256).
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import math
import os
import time
import weakref
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .. import backends
from ..autograd.extras.module_scope import current_module, follow_modules, observe_outputs
from ..autograd.modes import is_grad_enabled, is_in_backward
from ..explain.records import OUTPUT, Log, Record, arrays_of, record_of
from ..kernels.registry import Call, observe
from ..kernels.runtime import threading as kernel_threads
from ..kernels.runtime.files import Replacement, one_sentence
from ..kernels.runtime.first_use import load
from .machine import machine
from .metrics import as_reals
from .torch_capture import FORMAT, KINDS, VERSION, WIDTH, RunWriter, Stored, about_run, as_plain, hash_of


class Run:
    """A captured run.

    Attributes:
        path: of its file.
        about: the object of run.json.
        log: the calls, an `explain.Log`.
        results: for each call a list of dicts, one per array: "shape", "dtype", "hash", and the statistics.
    """

    def __init__(self, path: Path, about: dict[str, Any], log: Log, results: list[list[dict[str, Any]]]) -> None:
        self.path, self.about, self.log, self.results = path, about, log, results
        self._held: list[list[np.ndarray]] | None = None

    def __len__(self) -> int:
        return len(self.log)

    def __repr__(self) -> str:
        return f"<Run {str(self.path)!r}: {len(self)} calls, {self.about['results']}>"

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Run:
        """Read a file that `capture` wrote. Raises ValueError, in one sentence, for any other file."""
        with _archive(path) as archive:
            about = json.loads(archive.read("run.json"))
            if about.get("format") != FORMAT or about.get("version") != VERSION:
                raise ValueError(f"its format is {about.get('format')!r}, version {about.get('version')!r}")
            if about["results"] not in KINDS:
                raise ValueError(f"results must be one of {', '.join(KINDS)}, got {about['results']!r:.40}")
            entries = [json.loads(line) for line in archive.read("calls.jsonl").splitlines()]
            results = [_check_results(entry.pop("results")) for entry in entries]
            return cls(Path(path), about, Log.from_entries(entries), results)

    @classmethod
    def of_values(cls, values: Any, label: str) -> Run:
        """A run in memory with an entry for each tensor, array and number of `values`, as `arrays_of` finds them.

        Raises TypeError where there are none.
        """
        named = arrays_of(values)
        log = Log(_output(name or None, [each], "") for name, each in named.items())
        hashed = ((each, hash_of(_as_numpy_has(np.ascontiguousarray(each)))) for each in named.values())
        results = [[{"shape": list(each.shape), "dtype": each.dtype.name, "hash": digest}] for each, digest in hashed]
        found = cls(Path(label), {"results": "values", "flags": {}}, log, results)
        found._held = [[each.copy()] for each in named.values()]
        return found

    def values(self, call: int) -> list[np.ndarray]:
        """The arrays that a call returned. Raises ValueError for a run without values."""
        if self._held is not None:
            return self._held[call]
        if self.about["results"] != "values":
            raise ValueError(
                f"values(): {str(self.path)!r} holds {self.about['results']}; capture with results='values'"
            )
        with _archive(self.path) as archive:
            names = [f"values/{call}.{place}.npy" for place in range(len(self.results[call]))]
            pairs = zip(names, self.results[call], strict=True)
            arrays = [_read_array(archive, name).view(_dtype(each["dtype"])) for name, each in pairs]
            for array, each in zip(arrays, self.results[call], strict=True):
                if list(array.shape) != each["shape"]:
                    raise ValueError(f"a value has the shape {list(array.shape)}, and {each['shape']} by its line")
            return arrays

    @functools.cached_property
    def sketches(self) -> list[np.ndarray] | None:
        """Sketches of the results of each call, (arrays, 128); None for a run of hashes, and in memory. Raises
        ValueError for a file that does not match the calls."""
        if self.about["results"] == "hashes" or self._held is not None:
            return None
        with _archive(self.path) as archive:
            rows = _read_array(archive, "sketches.npy")
            if rows.shape != (sum(map(len, self.results)), WIDTH) or rows.dtype != np.float64:
                raise ValueError(f"sketches.npy must have a row of {WIDTH} for each result, got {list(rows.shape)}")
            return np.split(rows, np.cumsum([len(each) for each in self.results])[:-1])


@contextlib.contextmanager
def _archive(path: str | os.PathLike[str]) -> Iterator[zipfile.ZipFile]:
    """The archive of a run. What a damaged one raises is a ValueError with its path."""
    expected = "a run that lab.capture of this version wrote"
    with open(path, "rb") as file, one_sentence(repr(os.fspath(path)), expected), zipfile.ZipFile(file) as archive:
        yield archive


def _check_results(found: Any) -> list[dict[str, Any]]:
    """The results of a call. Raises ValueError for other objects than `capture` writes."""
    types = {"shape": list, "dtype": str, "hash": str}
    if not isinstance(found, list) or any(
        not isinstance(each.get(name), kind) for each in map(dict, found) for name, kind in types.items()
    ):
        raise ValueError(f"results of a call must be a list of shapes, dtypes and hashes, got {found!r:.60}")
    return found


def _read_array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """An array, whose declared size is compared with that of its record before memory is taken."""
    file = io.BytesIO(archive.read(name))
    version = np.lib.format.read_magic(file)
    header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
    shape, _, dtype = header(file)
    if math.prod(shape) * dtype.itemsize != len(file.getbuffer()) - file.tell():
        raise ValueError(f"{name} declares an array of {list(shape)}, but has another number of bytes")
    file.seek(0)
    return np.load(file, allow_pickle=False)


def _dtype(name: str) -> np.dtype:
    try:
        return np.dtype(name)
    except TypeError:
        return np.dtype(getattr(load("ml_dtypes"), name))


@contextlib.contextmanager
def capture(path: str | os.PathLike[str], *, results: str = "statistics") -> Iterator[Log]:
    """Write every kernel call of this thread or task, and the output of each module, to a file while the block runs:
    `with lab.capture("a.run"):`. Outputs are entries of the kernel "output", left out where a module returns that of
    its last part unchanged.

    Arguments:
        path: the file. It appears complete at the end of the block, even if the block raises.
        results: what to store of each result. "hashes" detect whether two runs have the same bits. "statistics" also
            estimate the difference, to about 6 %. "values" also store the arrays, so that differences are exact.

    Returns the `explain.Log` of the calls, like `explain.record`. `compare` compares two files. Raises ValueError for
    other `results`, and OSError before the block runs if the file cannot be written.
    """
    threads, flags = kernel_threads.get_num_threads(), as_plain(backends.snapshot().values)
    about = about_run(results, **machine(), threads=threads, grad=is_grad_enabled(), flags=flags)
    start, replacement, writer, complete = time.perf_counter(), Replacement(path), None, False
    try:
        with replacement.open() as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            writer = _Writer(archive, results)
            try:
                with follow_modules(), observe(writer), observe_outputs(writer.note_output):
                    yield writer.log
            except BaseException as error:
                about["exception"] = f"{type(error).__name__}: {error}"
                raise
            finally:
                writer.finish({**about, "seconds": time.perf_counter() - start})
                archive.close()
                complete = writer.writes
    finally:
        if complete:
            replacement.finish()
        if writer is None or writer.writes:
            replacement.discard()


class _Writer(RunWriter):
    """The observer that describes results at once; it must not keep references to them.

    Attributes:
        log: the calls.
        writes: whether this process writes the run. Forked ones do not: their calls are not of the thread.
    """

    def __init__(self, archive: zipfile.ZipFile, kind: str) -> None:
        super().__init__(archive, kind)
        self.log, self.writes, self._process = Log(), True, os.getpid()
        self._last: list[tuple[Any, ...]] = []
        _writers.add(self)

    def detach(self) -> None:
        """Send what a forked process still writes to the file of its parent nowhere, buffered bytes too."""
        self.writes = self._process == os.getpid()
        if not self.writes and self._archive.fp is not None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, self._archive.fp.fileno())
            os.close(nowhere)
            self._archive.fp = None  # closed

    def __call__(self, call: Call) -> None:
        if not self.writes:
            return
        several = call.result if isinstance(call.result, tuple) else (call.result,)
        self._add(record_of(call), [each for each in several if isinstance(each, np.ndarray)])

    def note_output(self, module: Any, output: Any) -> None:
        """Write the output of a module, unless it is that of its last part, unchanged."""
        try:
            arrays = list(arrays_of(output).values())
        except (TypeError, RuntimeError):  # no values, or tensors that have none
            return
        hashes = [(each.shape, each.dtype.name, hash_of(np.ascontiguousarray(each))) for each in arrays]
        if self.log and self.log[-1].kernel == OUTPUT and hashes == self._last:
            return
        self._last = hashes
        self._add(_output(current_module(), arrays, type(module).__name__), arrays)

    def _add(self, record: Record, arrays: list[np.ndarray]) -> None:
        if not self.writes:
            return
        arrays = [np.ascontiguousarray(each).reshape(each.shape) for each in arrays]
        self.log.append(record)
        self.add(
            record._asdict(), [Stored(_as_numpy_has(each), each.dtype.name, partial(as_reals, each)) for each in arrays]
        )

    def finish(self, about: dict[str, Any]) -> None:
        if self.writes:
            super().finish(about)


def _output(module: str | None, arrays: list[np.ndarray], made_by: str) -> Record:
    """The entry of outputs."""
    return Record(
        kernel=OUTPUT,
        shapes=tuple(each.shape for each in arrays),
        dtypes=tuple(each.dtype.name for each in arrays),
        precision="",
        options=(),
        implementation=made_by,
        refusals=(),
        decided_by=None,
        direction="backward" if is_in_backward() else "forward",
        seconds=0.0,
        module=module,
    )


_writers: weakref.WeakSet[_Writer] = weakref.WeakSet()


def _detach_writers() -> None:
    for each in _writers:
        each.detach()


os.register_at_fork(after_in_child=_detach_writers)


def _as_numpy_has(array: np.ndarray) -> np.ndarray:
    return array if array.dtype.kind in "biufc" else array.view(f"u{array.dtype.itemsize}")
