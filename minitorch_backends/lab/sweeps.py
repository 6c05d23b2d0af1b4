"""`sweep`: run a function over a grid of parameters, flags and seeds; and its results."""

from __future__ import annotations

import csv
import os
import statistics
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from ..autograd.modes import is_grad_enabled
from ..explain.records import align_columns
from ..kernels import threading
from .executors import results
from .grid import Cell, Flags, cells
from .metrics import Metric, check_metric
from .pareto import Pareto, pareto
from .progress import Progress
from .store import Store, read_rows, source_digest
from .task import Settings


class Sweep:
    """The rows of a sweep, in the order of its grid.

    Attributes:
        rows: a dict for each cell, with its parameters and these keys:
            "flags" as set, "effective" precisions, and "seed";
            "error" (relative, Frobenius norm) and the other measures;
            "seconds", the median of calls after the first; "first_seconds" of the first call, which compiles;
            "peak_bytes";
            "kernels", the implementations that ran and how often;
            "flops" by precision, and the "passes" of a device's units that they take;
            "exception";
            "threads", "host", "cpu", "capability", "versions".
    """

    def __init__(self, name: str, rows: list[dict[str, Any]]) -> None:
        self.name = name
        self.rows = rows

    @classmethod
    def read(cls, store: str | os.PathLike[str]) -> Sweep:
        """Read a store, during the sweep or later; rows are sorted by parameters, flags and seeds.

        Raises ValueError for a folder that is not a store.
        """
        folder = Path(store)
        if not (folder / "manifest.json").is_file():
            raise ValueError(f"Sweep.read(): store must be a folder that a sweep wrote, got {str(store)!r}")
        found = cls(folder.name, list(read_rows(folder).values()))
        names = [*found.parameters(), "flags", "seed"]
        found.rows.sort(key=lambda row: [_place(row.get(name)) for name in names])
        return found

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        failed = sum(row["exception"] is not None for row in self.rows)
        return f"<Sweep of {self.name}: {len(self.rows)} rows{f', {failed} failed' if failed else ''}>"

    def groups(self, *names: str) -> dict[str, list[dict[str, Any]]]:
        """Rows grouped by flags and the named parameters; the labels are these as text."""
        found: dict[str, list[dict[str, Any]]] = {}
        for row in self.rows:
            label = ", ".join([*(f"{name}={row[name]}" for name in names), _text(row["flags"])])
            found.setdefault(label, []).append(row)
        return found

    def table(self, *measures: str) -> str:
        """Medians over seeds as aligned text, a line for each combination of parameters and flags.

        Raises ValueError for measures that no row has.
        """
        return "\n".join(align_columns(self.cells(*measures)))

    def cells(self, *measures: str) -> list[tuple[str, ...]]:
        """The head of the table and its lines."""
        self._check("table", measures)
        measures = measures or ("error", "max_ulp", "seconds")
        parameters = self.parameters()
        lines = [(*parameters, "flags", "rows", "failed", *measures)]
        grouped: dict[tuple, list[dict[str, Any]]] = {}
        for row in self.rows:
            point = *(str(row[name]) for name in parameters), _text(row["flags"])
            grouped.setdefault(point, []).append(row)
        for point, rows in grouped.items():
            failed = sum(row["exception"] is not None for row in rows)
            lines.append((*point, str(len(rows)), str(failed), *(_median(rows, name) for name in measures)))
        return lines

    def __str__(self) -> str:
        return self.table()

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the rows, with dicts as text."""
        columns = list(dict.fromkeys(name for row in self.rows for name in row))
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(
                {name: _text(value) if isinstance(value, dict) else value for name, value in row.items()}
                for row in self.rows
            )

    def pareto(self, x: str = "seconds", y: str = "error", by: Iterable[str] = ()) -> Pareto:
        """The settings of flags (and of the parameters `by`) as points of two measures: medians over the other
        columns.

        Raises ValueError for measures that no row has.
        """
        self._check("pareto", (x, y))
        return pareto(self.groups(*by), x, y)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write one HTML page with the picture, the table and every failure. It loads nothing else."""
        from .report import write

        write(self, path)

    def _check(self, caller: str, measures: Iterable[str]) -> None:
        """Raise ValueError for a measure that no row has, where any row has measures."""
        first: dict[str, Any] = next((row for row in self.rows if row["exception"] is None), {})
        numbers = [name for name, value in first.items() if value is None or isinstance(value, (int, float))]
        unknown = next((name for name in measures if numbers and name not in numbers), None)
        if unknown is not None:
            raise ValueError(f"Sweep.{caller}(): measures must be among {', '.join(numbers)}, got {unknown!r}")

    def parameters(self) -> list[str]:
        """Names of the parameters: the columns before "flags"."""
        first = list(self.rows[0]) if self.rows else ["flags"]
        return first[: first.index("flags")]


def _place(value: Any) -> tuple[bool, float, str]:
    """The sort key of a value: numbers by size, then text in its own order."""
    is_number = isinstance(value, (int, float))
    return not is_number, value if is_number else 0.0, str(value)


def _text(flags: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in flags.items()) or "defaults"


def _median(rows: list[dict[str, Any]], name: str) -> str:
    values = [row[name] for row in rows if row.get(name) is not None]
    return f"{statistics.median(values):.3g}" if values else "-"


def sweep(
    function: Callable[..., Any],
    *,
    over: Mapping[str, Iterable[Any]] | Iterable[Mapping[str, Any]] = (),
    flags: Mapping[str, Iterable[Any]] | Iterable[Flags] | None = None,
    seeds: int | Iterable[int] | None = 1,
    reference: str | Callable[..., Any] | None = "float64",
    metric: Metric = None,
    executor: Executor | int | None = None,
    store: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    timing: str = "shared",
    repeats: int = 3,
    threads: int | None = None,
    entropy: int = 0,
    progress: bool | None = None,
) -> Sweep:
    """Run a function for each combination of parameters, flags and seeds.

    Arguments:
        function: called with the parameters as keywords, and with `seed` if it has such a parameter. It returns a
            tensor, an array, a number, or dicts and sequences of these. Generators are seeded before each call from the
            parameters and the seed, so that all flags use the same random numbers.
        over: lists of values by parameter (all combinations run), or a list of combinations.
        flags: settings for `backends.flags`, or snapshots; or lists of values by flag. None: the current flags.
        seeds: the number of repetitions, or a list of their seeds.
        reference: the truth. "float64": the same call with float64 as default dtype, on the random numbers of the
            current default dtype. "ieee": the same call without flags. Otherwise a function of the same arguments, or
            None.
        metric: "logits", "embedding", "regression" (see `lab.metrics`), or a function of (answer, truth), dicts of
            arrays, that returns a number, or numbers by name.
        executor: None for this process, a number of processes, or any executor of `concurrent.futures`: dask's
            `Client(...).get_executor(pure=False)`, mpi4py's `MPIPoolExecutor()`.
        store: a folder for the rows; rows found there are not run again. `fresh` discards them.
        timing: "exclusive" times one cell per host at a time; "shared" does not wait.
        repeats: the number of timed calls, after an untimed one.
        threads: threads per process. None: all in this process, an equal share in each of several processes; an
            executor's processes keep theirs.
        entropy: the source of all random numbers.
        progress: whether to show progress; None: on a terminal.

    An exception in a cell is recorded in its row. After Ctrl-C or the death of a process, the same call resumes from
    the store. Raises ValueError or TypeError for invalid arguments, and ValueError for a store of another function.
    """
    _check(function, reference, timing, executor, repeats, threads)
    check_metric("sweep", metric)
    grid = cells(over or [{}], flags, seeds)
    if isinstance(executor, int) and threads is None:
        threads = max(1, threading.available_cpus() // executor)
    settings = Settings(
        function=_pickle(function),
        reference=reference if reference is None or isinstance(reference, str) else _pickle(reference),
        metric=metric if metric is None or isinstance(metric, str) else _pickle(metric),
        entropy=entropy,
        repeats=repeats,
        threads=threads,
        grad=is_grad_enabled(),
        exclusive=timing == "exclusive",
    )
    name = getattr(function, "__qualname__", type(function).__name__)
    return Sweep(
        name, _rows(name, settings, grid, executor, _open_store(store, function, reference, entropy, fresh), progress)
    )


def _check(function: Any, reference: Any, timing: Any, executor: Any, repeats: Any, threads: Any) -> None:
    """Raise TypeError or ValueError for invalid arguments of `sweep`."""
    if not callable(function):
        raise TypeError(f"sweep(): function must be callable, got {type(function).__name__}")
    if timing not in ("shared", "exclusive"):
        raise ValueError(f"sweep(): timing must be 'shared' or 'exclusive', got {timing!r}")
    if reference is not None and reference not in ("float64", "ieee") and not callable(reference):
        raise ValueError(f"sweep(): reference must be 'float64', 'ieee', a function or None, got {reference!r}")
    if not (executor is None or _is_count(executor, 1) or callable(getattr(executor, "submit", None))):
        raise ValueError(
            f"sweep(): executor must be a positive number of processes, an Executor or None, got {executor!r}"
        )
    if not _is_count(repeats, 0):
        raise ValueError(f"sweep(): repeats must be a non-negative integer, got {repeats!r}")
    if not (threads is None or _is_count(threads, 1)):
        raise ValueError(f"sweep(): threads must be a positive integer or None, got {threads!r}")


def _is_count(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _pickle(function: Callable[..., Any]) -> bytes:
    try:
        import cloudpickle
    except ImportError:
        raise ImportError("the laboratory needs cloudpickle: pip install 'minitorch-backends[lab]'") from None
    return cloudpickle.dumps(function)


def _open_store(
    folder: str | os.PathLike[str] | None, function: Callable[..., Any], reference: Any, entropy: int, fresh: bool
) -> Store | None:
    if folder is None:
        return None
    truth = source_digest(reference) if callable(reference) else reference
    return Store(folder, {"function": source_digest(function), "reference": truth, "entropy": entropy}, fresh)


def _rows(
    name: str,
    settings: Settings,
    grid: list[Cell],
    executor: Executor | int | None,
    store: Store | None,
    progress: bool | None,
) -> list[dict[str, Any]]:
    """The rows of all cells, including those of the store; each new row is stored at once."""
    found = store.read() if store is not None else {}
    left = [cell for cell in grid if cell.key not in found]
    try:
        with Progress(name, len(grid), len(grid) - len(left), progress) as bar:
            for cell, row in results(settings, left, executor):
                found[cell.key] = row
                if store is not None:
                    store.add(cell.key, row)
                bar.advance()
    finally:
        if store is not None:
            store.close()
    return [found[cell.key] for cell in grid]
