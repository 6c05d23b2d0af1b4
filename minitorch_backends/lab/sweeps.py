"""`sweep`: run a function over a grid of parameters, flags and seeds; and its results."""

from __future__ import annotations

import csv
import functools
import io
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..autograd.modes import is_grad_enabled
from ..explain.records import align_columns
from ..kernels.runtime import threading
from ..kernels.runtime.context import warn_caller
from ..kernels.runtime.files import write_file
from ..tensor.dtypes import get_default_dtype
from .columns import (
    MOST_PANELS,
    SPREADS,
    axes_of,
    flat,
    panels,
    place_of,
    quantile,
    to_latex,
    to_markdown,
    with_settings,
)
from .dependencies import dependencies
from .devices import Device, find_device
from .executors import check_executor, pickle_by_value, results
from .grid import Cell, Flags, cells
from .machine import machine
from .metrics import Metric, check_metric
from .pareto import Pareto, pareto
from .progress import Progress
from .store import Store, read_rows
from .task import Settings, replay, run
from .trials import autocast_types

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
            "products", the number that "obeyed" precision flags, and of others by kind;
            "reference", the truth, or "none: " and the reason;
            "exception";
            "threads", "host", "cpu", "capability", "versions".
            Values that are dicts are hashable, so that tables can group by them.
    """

    def __init__(
        self, name: str, rows: list[dict[str, Any]], settings: Settings | None = None, grid: Sequence[Cell] = ()
    ) -> None:
        self.name, self._settings, self._grid = name, settings, grid
        self.rows = [with_settings(row) for row in rows]

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
        for row in found.rows:
            if missing := [name for name in names[:-2] if name not in row]:
                raise ValueError(
                    f"Sweep.read(): every row of the store {str(store)!r} must have {', '.join(names[:-2])}, got one "
                    f"without {missing[0]!r}; it is damaged"
                )
        found.rows.sort(key=lambda row: [place_of(row.get(name)) for name in names])
        return found

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        failed = sum(row["exception"] is not None for row in self.rows)
        return f"<Sweep of {self.name}: {len(self.rows)} rows{f', {failed} failed' if failed else ''}>"

    def _repr_html_(self) -> str:
        from ..display.html import Rows, as_html

        return as_html(repr(self)[1:-1], Rows(self.cells(), len(self.parameters()) + 1), *self.failures())

    def where(self, **values: Any) -> Sweep:
        """The rows with these values of parameters, flags or other columns. Raises ValueError for unknown names."""
        known = dict.fromkeys(name for row in self.rows for name in (*row, *row["flags"]))
        if unknown := [name for name in values if name not in known and known]:
            raise ValueError(f"Sweep.where(): names must be among {', '.join(known)}, got {unknown[0]!r}")
        rows = [row for row in self.rows if all(row.get(n, row["flags"].get(n)) == v for n, v in values.items())]
        return Sweep(self.name, rows, self._settings, self._grid)

    def table(self, *measures: str, quantiles: Sequence[float] = (0.5,)) -> str:
        """Medians over seeds (or other quantiles) as aligned text, a line for each combination of parameters and flags.

        Raises ValueError for measures that no row has, and for quantiles that are not from 0 to 1.
        """
        return "\n".join(align_columns(self.cells(*measures, quantiles=quantiles)))

    def cells(self, *measures: str, quantiles: Sequence[float] = (0.5,)) -> list[tuple[str, ...]]:
        """The head of the table and its lines. Raises ValueError for quantiles outside of [0, 1]."""
        self._check("table", measures)
        if not all(0 <= each <= 1 for each in quantiles):
            raise ValueError(f"Sweep.table(): quantiles must be from 0 to 1, got {quantiles!r}")
        measures = measures or ("error", "max_ulp", "seconds")
        parameters = self.parameters()
        names = [f"{name} {q:.0%}" if q != 0.5 else name for name in measures for q in quantiles]
        lines = [(*parameters, "flags", "rows", "failed", *names)]
        grouped: dict[tuple, list[dict[str, Any]]] = {}
        for row in self.rows:
            point = *(str(row[name]) for name in parameters), str(row["flags"])
            grouped.setdefault(point, []).append(row)
        for point, rows in grouped.items():
            failed = sum(row["exception"] is not None for row in rows)
            values = (_quantile(rows, name, q) for name in measures for q in quantiles)
            lines.append((*point, str(len(rows)), str(failed), *values))
        return lines

    def failures(self) -> list[str]:
        """A sentence for each exception that rows record, the most frequent first."""
        counts = Counter(row["exception"] for row in self.rows if row["exception"] is not None)
        return [f"{count} of {len(self)} rows failed: {exception}" for exception, count in counts.most_common()]

    def __str__(self) -> str:
        return "\n\n".join([self.table(), *self.failures()])

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the rows, with dicts as text."""
        columns = list(dict.fromkeys(name for row in self.rows for name in row))
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, columns)
        writer.writeheader()
        writer.writerows(self.rows)
        write_file(path, text.getvalue())

    def to_pandas(self) -> Any:
        """The rows as a `pandas.DataFrame` with flat columns.

        A flag has a column of its own name, and "effective", "flops" and "passes" one for each of their keys. Names
        that pandas uses for attributes get an underscore at their end. Raises ImportError without pandas.
        """
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("Sweep.to_pandas() needs pandas: pip install 'minitorch-backends[pandas]'") from None
        return pd.DataFrame([flat(row, pd.DataFrame) for row in self.rows])

    def to_markdown(self, *measures: str, quantiles: Sequence[float] = (0.5,)) -> str:
        """The table in Markdown."""
        return to_markdown(self.cells(*measures, quantiles=quantiles), len(self.parameters()) + 1)

    def to_latex(self, *measures: str, quantiles: Sequence[float] = (0.5,)) -> str:
        """The table in LaTeX, for the package booktabs."""
        return to_latex(self.cells(*measures, quantiles=quantiles), len(self.parameters()) + 1)

    def rerun(self, row: Mapping[str, Any]) -> Any:
        """Call the function for one row again, here: with its parameters, flags, grad mode and random numbers.

        Returns what the function returns; an exception that the row records is raised where it arises. Raises
        ValueError for rows of other sweeps, and for a sweep that was read from a store, which holds no function.
        """
        if self._settings is None:
            raise ValueError(
                "Sweep.rerun(): the function must be known, got a sweep that was read from a store; call lab.sweep "
                "with its function and the store"
            )
        cell = next((each for each in self._grid if each.is_of(row)), None)
        if cell is None:
            raise ValueError("Sweep.rerun(): row must be one of this sweep's, got other parameters, flags or seed")
        return replay(self._settings, cell)

    def plot(
        self,
        x: str | None = None,
        y: str = "error",
        by: str | Iterable[str] | None = None,
        *,
        spread: str | None = "quantiles",
        path: str | os.PathLike[str] | None = None,
        ax: Axes | None = None,
    ) -> Figure:
        """Draw a measure along an axis, with a line for each setting; returns the figure.

        Arguments:
            x: a parameter or flag. None: the first parameter of several numbers, otherwise the first axis that varies.
            y: the measure: medians over seeds.
            by: what distinguishes lines; None: the flags. A combination of the other axes has a panel of its own.
            spread: the band over seeds: "quantiles" (from 25 % to 75 %), "range" or None.
            path: a file to write, as PNG, PDF or SVG by the end of its name.
            ax: axes to draw in.

        Raises ValueError for unknown names, for more than 12 panels, and for several with `ax`.
        """
        from .plots import curves

        x, found = self.panels(x, y, by, spread)
        if not found:
            raise ValueError(f"Sweep.plot(): rows must have the measure {y!r}, got {len(self)} rows without it")
        if len(found) > (1 if ax is not None else MOST_PANELS):
            raise ValueError(
                f"Sweep.plot(): rows must make at most {1 if ax is not None else MOST_PANELS} panels, got {len(found)} "
                f"({next(iter(found))}, ...); choose rows by where(), or name more axes in by="
            )
        return curves(found, x, y, path, ax)

    def panels(self, x: str | None, y: str, by: str | Iterable[str] | None, spread: str | None) -> tuple[str, Any]:
        """The axis x of a plot, and the lines of each panel. Raises ValueError for another `spread`, and for axes that
        the rows lack."""
        axes, parameters = axes_of(self.rows, self.parameters()), self.parameters()
        known = [*parameters, *dict.fromkeys(name for row in self.rows for name in row["flags"])]
        if not known:
            raise ValueError("Sweep.plot(): rows must have a parameter or a flag as an axis, got none")
        self._check("plot", (y,))
        numeric = [n for n in parameters if n in axes and all(isinstance(each, (int, float)) for each in axes[n])]
        x = next(iter((*numeric, *axes, *known))) if x is None else x
        flags = [name for name in axes if name not in parameters]
        lines = [name for name in flags if name != x] if by is None else [by] if isinstance(by, str) else list(by)
        if unknown := [name for name in (x, *lines) if name not in known]:
            raise ValueError(f"Sweep.plot(): axes must be among {', '.join(known)}, got {unknown[0]!r}")
        if spread not in SPREADS:
            raise ValueError(f"Sweep.plot(): spread must be 'quantiles', 'range' or None, got {spread!r}")
        return x, panels(self.rows, axes, x, y, lines, spread)

    def pareto(self, x: str = "seconds", y: str = "error", by: str | Iterable[str] = ()) -> Pareto:
        """The settings of flags (and of the parameters `by`) as points of two measures: medians over seeds.

        Points are compared with those of the same other parameters only: each size has a front of its own. Raises
        ValueError for measures that no row has, where all values are None, and where `by` names no parameter.
        """
        self._check("pareto", (x, y))
        by = [by] if isinstance(by, str) else list(by)
        if unknown := [name for name in by if name not in self.parameters()]:
            known = ", ".join(self.parameters()) or "none"
            raise ValueError(f"Sweep.pareto(): by must be among the parameters ({known}), got {unknown[0]!r}")
        others = [
            name for name in axes_of(self.rows, self.parameters()) if name in self.parameters() and name not in by
        ]
        groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for row in self.rows:
            label = ", ".join([*(f"{name}={row[name]}" for name in by), str(row["flags"])])
            groups.setdefault((", ".join(f"{name}={row[name]}" for name in others), label), []).append(row)
        found = pareto(groups, x, y)
        if self.rows and not found:
            raise ValueError(f"Sweep.pareto(): rows must have {x!r} and {y!r}, got {len(self)} rows without them")
        return found

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write one HTML page with the pictures, the table and every failure. It loads nothing else."""
        from .pages import write_sweep

        write_sweep(self, path)

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


def _quantile(rows: list[dict[str, Any]], name: str, share: float) -> str:
    values = [row[name] for row in rows if row.get(name) is not None]
    return f"{quantile(values, share):.3g}" if values else "-"


def sweep(  # noqa: PLR0913 (one each for what a sweep can vary)
    function: Callable[..., Any],
    *,
    over: Mapping[str, Iterable[Any]] | Iterable[Mapping[str, Any]] = (),
    flags: Mapping[str, Iterable[Any]] | Iterable[Flags] | None = None,
    seeds: int | Iterable[int] | None = 1,
    reference: str | Callable[..., Any] | None = "float64",
    metric: Metric = None,
    executor: Executor | int | None = None,
    store: str | os.PathLike[str] | None = None,
    reuse: bool | None = None,
    timing: str = "shared",
    repeats: int = 3,
    threads: int | None = None,
    entropy: int = 0,
    device: str | os.PathLike[str] | Device | None = None,
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
        store: a folder for the rows; rows found there are not run again.
        reuse: whether to keep rows whose dependencies changed: the source of the function, and what it reaches in your
            own files (helpers, classes, constants, models), the versions of packages, or the CPU's capability. None
            raises ValueError, which names what changed; False discards all rows.
        timing: "exclusive" times one cell per host at a time; "shared" does not wait.
        repeats: the number of timed calls, after an untimed one.
        threads: threads per process. None: all in this process, an equal share in each of several processes; an
            executor's processes keep theirs.
        entropy: the source of all random numbers.
        device: a name in `lab.devices.DEVICES`, or a file of measured speeds: rows then have "predicted_seconds", the
            least time of the products on it, as `pareto(x="predicted_seconds")` takes it.
        progress: whether to show progress; None: on a terminal.

    An exception in a cell is recorded in its row. After Ctrl-C or the death of a process, the same call resumes from
    the store. A function that calls torch runs inside `interop.torch.emulate`, and its float64 reference on converted
    tensors. A cell whose flags choose a precision, and in which no product obeyed it, has an exception. Where the
    reference is not float64, "reference" says why, the errors are None, and a UserWarning says so. Raises ValueError or
    TypeError for invalid arguments, and ValueError for a store that depends on something else.
    """
    _check(function, reference, timing, executor, repeats, threads)
    check_metric("sweep", metric)
    grid = cells(over or [{}], flags, seeds)
    if isinstance(executor, int) and threads is None:
        threads = max(1, threading.available_cpus() // executor)
    settings = Settings(
        function=pickle_by_value(function),
        reference=reference if reference is None or isinstance(reference, str) else pickle_by_value(reference),
        metric=metric if metric is None or isinstance(metric, str) else pickle_by_value(metric),
        entropy=entropy,
        repeats=repeats,
        threads=threads,
        grad=is_grad_enabled(),
        exclusive=timing == "exclusive",
        device=None if device is None else find_device(device),
        dtype=get_default_dtype().name,
        autocast=autocast_types(),
    )
    name = getattr(function, "__qualname__", type(function).__name__)
    kept = None if store is None else _open_store(store, settings, reuse, (function, reference, metric))
    rows = _rows(name, settings, grid, executor, kept, progress)
    missing = {row["reference"] for row in rows if str(row.get("reference")).startswith("none: ")}
    for each in sorted(missing):
        warn_caller(f"sweep(): {name} has no float64 reference: {each.removeprefix('none: ')}")
    return Sweep(name, rows, settings, grid)


def _check(function: Any, reference: Any, timing: Any, executor: Any, repeats: Any, threads: Any) -> None:
    """Raise TypeError or ValueError for invalid arguments of `sweep`."""
    if not callable(function):
        raise TypeError(f"sweep(): function must be callable, got {type(function).__name__}")
    if timing not in ("shared", "exclusive"):
        raise ValueError(f"sweep(): timing must be 'shared' or 'exclusive', got {timing!r}")
    if reference is not None and reference not in ("float64", "ieee") and not callable(reference):
        raise ValueError(f"sweep(): reference must be 'float64', 'ieee', a function or None, got {reference!r}")
    check_executor("sweep", executor)
    if not _is_count(repeats, 0):
        raise ValueError(f"sweep(): repeats must be a non-negative integer, got {repeats!r}")
    if not (threads is None or _is_count(threads, 1)):
        raise ValueError(f"sweep(): threads must be a positive integer or None, got {threads!r}")


def _is_count(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _open_store(folder: str | os.PathLike[str], settings: Settings, reuse: bool | None, functions: Any) -> Store:
    manifest: dict[str, Any] = {"functions": dependencies(*filter(callable, functions))}
    for name, value in (("reference", settings.reference), ("metric", settings.metric)):
        manifest[name] = "function" if isinstance(value, bytes) else value
    if settings.device is not None:
        manifest["device"] = settings.device.name
    if settings.dtype != "float32":
        manifest["default dtype"] = settings.dtype
    if any(settings.autocast):
        manifest["autocast"] = list(settings.autocast)
    about = {name: machine()[name] for name in ("versions", "capability")}
    return Store(folder, {**manifest, "entropy": settings.entropy, "grad": settings.grad, **about}, reuse)


def _rows(
    name: str, settings: Settings, grid: list[Cell], executor: Executor | int | None, store: Store | None,
    progress: bool | None,
) -> list[dict[str, Any]]:  # fmt: skip
    """The rows of all cells, including those of the store; each new row is stored at once."""
    found = store.read() if store is not None else {}
    left = [cell for cell in grid if cell.key not in found]
    try:
        with Progress(name, len(grid), len(grid) - len(left), progress) as bar:
            for cell, row in results(functools.partial(run, settings), left, executor):
                found[cell.key] = row
                if store is not None:
                    store.add(cell.key, row)
                bar.advance()
    finally:
        if store is not None:
            store.close()
    return [found[cell.key] for cell in grid]
