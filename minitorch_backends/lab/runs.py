"""Runs as files: every kernel call of a block, with hashes, statistics or values of its results.

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
import datetime as dt
import functools
import hashlib
import io
import json
import math
import os
import threading
import time
import weakref
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .. import backends
from ..autograd.extras.module_scope import follow_modules
from ..autograd.modes import is_grad_enabled
from ..explain.records import Log, record_of
from ..kernels import threading as kernel_threads
from ..kernels.files import Replacement, one_sentence
from ..kernels.first_use import load
from ..kernels.registry import Call, observe
from .machine import machine
from .measures import as_reals

_FORMAT, _VERSION = "minitorch-backends run", 1
_KINDS = ("hashes", "statistics", "values")
_WIDTH = 128
"""Number of sums in a sketch. Seven bits choose the sum, one bit the sign."""


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

    def __len__(self) -> int:
        return len(self.log)

    def __repr__(self) -> str:
        return f"<Run {str(self.path)!r}: {len(self)} calls, {self.about['results']}>"

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Run:
        """Read a file that `capture` wrote. Raises ValueError, in one sentence, for any other file."""
        with _archive(path) as archive:
            about = json.loads(archive.read("run.json"))
            if about.get("format") != _FORMAT or about.get("version") != _VERSION:
                raise ValueError(f"its format is {about.get('format')!r}, version {about.get('version')!r}")
            if about["results"] not in _KINDS:
                raise ValueError(f"results must be one of {', '.join(_KINDS)}, got {about['results']!r:.40}")
            entries = [json.loads(line) for line in archive.read("calls.jsonl").splitlines()]
            results = [_check_results(entry.pop("results")) for entry in entries]
            return cls(Path(path), about, Log.from_entries(entries), results)

    def values(self, call: int) -> list[np.ndarray]:
        """The arrays that a call returned. Raises ValueError for a run without values."""
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
        """For each call the sketches of its results, (arrays, 128); None for a run of hashes."""
        if self.about["results"] == "hashes":
            return None
        with _archive(self.path) as archive:
            rows = _read_array(archive, "sketches.npy")
            if rows.shape != (sum(map(len, self.results)), _WIDTH) or rows.dtype != np.float64:
                raise ValueError(f"sketches.npy must have a row of {_WIDTH} for each result, got {list(rows.shape)}")
            return np.split(rows, np.cumsum([len(each) for each in self.results])[:-1])


@contextlib.contextmanager
def _archive(path: str | os.PathLike[str]) -> Iterator[zipfile.ZipFile]:
    """The archive of a run. What a damaged one raises is a ValueError with its path."""
    expected = "a run that lab.capture of this version wrote"
    with open(path, "rb") as file, one_sentence(path, expected), zipfile.ZipFile(file) as archive:
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
    """Write every kernel call of this thread or task to a file while the block runs: `with lab.capture("a.run"):`.

    Arguments:
        path: the file. It appears complete at the end of the block, even if the block raises.
        results: what to store of each result. "hashes" detect whether two runs have the same bits. "statistics" also
            estimate the difference, to about 6 %. "values" also store the arrays, so that differences are exact.

    Returns the `explain.Log` of the calls, like `explain.record`. `compare` compares two files. Raises ValueError for
    other `results`, and OSError before the block runs if the file cannot be written.
    """
    if results not in _KINDS:
        raise ValueError(f"capture(): results must be 'hashes', 'statistics' or 'values', got {results!r}")
    about = {
        "format": _FORMAT, "version": _VERSION, "results": results,
        "started": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"), **machine(),
        "threads": kernel_threads.get_num_threads(), "grad": is_grad_enabled(), "exception": None,
        "flags": {name: value if _is_plain(value) else repr(value) for name, value in backends.snapshot().values},
    }  # fmt: skip
    start, partial, writer, complete = time.perf_counter(), Replacement(path), None, False
    try:
        with partial.open() as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            writer = _Writer(archive, results)
            try:
                with follow_modules(), observe(writer):
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
            partial.finish()
        if writer is None or writer.writes:
            partial.discard()


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))


class _Writer:
    """The observer that describes results at once; it must not keep references to them.

    Attributes:
        writes: whether this process writes the run. Forked ones do not: their calls are not of the thread.
    """

    def __init__(self, archive: zipfile.ZipFile, kind: str) -> None:
        self.log = Log()
        self._archive, self._kind = archive, kind
        self._results: list[list[dict[str, Any]]] = []
        self._sketches: list[np.ndarray] = []
        self._lock = threading.Lock()  # a context, and its observer, may be copied to other threads
        self.writes, self._process = True, os.getpid()
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
        arrays = [np.ascontiguousarray(each).reshape(each.shape) for each in several if isinstance(each, np.ndarray)]
        described: list[dict[str, Any]] = [
            {"shape": each.shape, "dtype": each.dtype.name, "hash": _hash(each)} for each in arrays
        ]
        sketches = []
        if self._kind != "hashes":
            for array, entry in zip(arrays, described, strict=True):
                statistics, sketch = _statistics(array)
                entry |= statistics
                sketches.append(sketch)
        with self._lock:
            number = len(self.log)
            self.log.append(record_of(call))
            self._results.append(described)
            self._sketches += sketches
            for place, array in enumerate(arrays if self._kind == "values" else ()):
                self._write(f"values/{number}.{place}.npy", _as_numpy_has(array))

    def _write(self, name: str, array: np.ndarray) -> None:
        entry = zipfile.ZipInfo(name)  # uncompressed, since floating-point bits do not compress
        with self._archive.open(entry, "w", force_zip64=True) as file:
            np.lib.format.write_array(file, array, allow_pickle=False)

    def finish(self, about: dict[str, Any]) -> None:
        if not self.writes:
            return
        entries = ({**entry._asdict(), "results": each} for entry, each in zip(self.log, self._results, strict=True))
        self._archive.writestr("calls.jsonl", "".join(json.dumps(entry) + "\n" for entry in entries))
        if self._kind != "hashes":
            self._write("sketches.npy", np.array(self._sketches).reshape(-1, _WIDTH))
        self._archive.writestr("run.json", json.dumps({**about, "calls": len(self.log)}, indent=1))


_writers: weakref.WeakSet[_Writer] = weakref.WeakSet()
os.register_at_fork(after_in_child=lambda: [each.detach() for each in _writers])


def _hash(array: np.ndarray) -> str:
    return hashlib.blake2b(array.reshape(-1).view(np.uint8).data, digest_size=16).hexdigest()


def _as_numpy_has(array: np.ndarray) -> np.ndarray:
    return array if array.dtype.kind in "biufc" else array.view(f"u{array.dtype.itemsize}")


def _statistics(array: np.ndarray) -> tuple[dict[str, float | None], np.ndarray]:
    """Statistics of the finite elements, and their sketch. A complex element counts as two numbers."""
    numbers = as_reals(array)
    nan, infinite = np.isnan(numbers), np.isinf(numbers)
    finite = np.where(nan | infinite, 0.0, numbers)
    with np.errstate(over="ignore"):
        found = {
            "norm": float(np.linalg.norm(finite)),
            "largest": float(np.abs(finite).max(initial=0.0)),
            "mean": float(finite.sum() / max(finite.size, 1)),
        }
        sketch = _sketch(finite)
    counts = {"nan": int(nan.sum()), "inf": int(infinite.sum())}
    return {name: value if np.isfinite(value) else None for name, value in found.items()} | counts, sketch


def _sketch(numbers: np.ndarray) -> np.ndarray:
    """Sums of the elements with random signs. Signs and places come from Philox with key 0, equal on every machine."""
    raw = np.random.Philox(key=0).random_raw(-(-numbers.size // 8))
    places = np.asarray(raw, "<u8").view(np.uint8)[: numbers.size]
    sums = np.bincount(places, weights=numbers, minlength=2 * _WIDTH)
    return sums[:_WIDTH] - sums[_WIDTH:]
