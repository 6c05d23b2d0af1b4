"""Fourier transforms: time beside torch's and SciPy's, what a kept plan saves, and how errors grow with the length."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from timeit import Timer
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

import minitorch_backends as mt
from minitorch_backends import backends
from minitorch_backends.display.figures import show_sizes
from minitorch_backends.kernels.fft import fft as kernel
from minitorch_backends.kernels.runtime import threading

from . import peers
from .presentation import PEERS, Plot, Table, number, paragraphs, ratio, seconds
from .session import Session
from .timing import OPENMP_REST, time_interleaved

__all__ = ["PLOTS", "TITLE", "run", "summary", "tables"]

TITLE = "Fourier transforms"

NUMBERS = 1 << 18
"""Numbers in a batch of transforms, or in one transform where its length is more."""

POWERS = tuple(1 << exponent for exponent in range(6, 21))
SMOOTH = (60, 96, 144, 192, 210, 240, 360, 720, 1000, 3600, 10_000, 46_080, 248_832, 1_000_000)
OTHERS = (127, 1021, 4099, 65_537)
"""Primes, for which no library has passes."""

QUICK = (64, 1000, 4096, 65_536)
USUAL = (*POWERS[::2], 60, 1000, 46_080, 1021)
DTYPES = ("float32", "float64")

LENGTHS_OF_ERRORS = (64, 256, 1000, 1024, 4096)
QUICK_LENGTHS_OF_ERRORS = (64, 1000, 1024)


class Case(NamedTuple):
    """Transforms of one length, of complex or of real numbers; `dtype` is that of real and imaginary parts."""

    n: int
    batch: int
    real: bool
    dtype: str

    @property
    def function(self) -> str:
        return "rfft" if self.real else "fft"

    @property
    def operations(self) -> float:
        """5 n log2 n for each transform, the custom of the field, and half of it for real numbers."""
        return (2.5 if self.real else 5.0) * self.n * math.log2(self.n) * self.batch

    @property
    def kind(self) -> str:
        """The class of sizes whose ratios are averaged."""
        of = "powers of two" if self.n & (self.n - 1) == 0 else "primes" if self.n in OTHERS else "smooth"
        amount = "one" if self.batch == 1 and self.n < NUMBERS else "batched"
        return f"{of}, {amount}" if of != "primes" else of


def cases(session: Session) -> Iterator[Case]:
    """What is timed."""
    if session.quick:
        for n in QUICK:
            yield Case(n, max(1, NUMBERS // n), n == 4096, "float32")
        return
    for n in session.choose((), USUAL, (*POWERS, *SMOOTH, *OTHERS)):
        for real in (False, True):
            for dtype in session.choose((), DTYPES[:1], DTYPES):
                yield Case(n, max(1, NUMBERS // n), real, dtype)
                if 2 * n <= NUMBERS and n not in OTHERS:
                    yield Case(n, 1, real, dtype)


def _input(session: Session, case: Case) -> np.ndarray:
    random = np.random.default_rng([session.seed, case.n, case.batch])
    x = random.standard_normal((case.batch, case.n))
    if not case.real:
        x = x + 1j * random.standard_normal(x.shape)
    dtype = np.dtype(case.dtype)
    return x.astype(dtype if case.real else np.result_type(dtype, np.complex64))


def _candidates(case: Case, x: np.ndarray) -> dict[str, Callable[[], Any]]:
    """What is timed, by name; SciPy on one thread, and on all of them for a batch."""
    import scipy.fft

    by_scipy = getattr(scipy.fft, case.function)
    found = {"mt": functools.partial(getattr(mt.fft, case.function), mt.from_numpy(x))}
    found["SciPy"] = functools.partial(by_scipy, x)
    if case.batch > 1:
        found["SciPy, threads"] = functools.partial(by_scipy, x, workers=threading.get_num_threads())
    torch = peers.torch_if_installed()
    if torch is not None:
        found["torch"] = functools.partial(getattr(torch.fft, case.function), torch.from_numpy(x))
    return found


def run(session: Session) -> dict[str, Any]:
    """Time every case beside the peers, then plans, then measure errors."""
    listed = list(cases(session))
    measured = []
    with session.progress(TITLE) as report, mt.no_grad():
        for done, case in enumerate(listed):
            report(done / (len(listed) + 2), f"{case.function} of {case.batch} x {case.n}, {case.dtype}")
            measured.append(_measure(session, case))
        report(len(listed) / (len(listed) + 2), "plans")
        plans = [_plan(session, n) for n in session.choose(QUICK, USUAL, USUAL)]
    errors = [
        _errors(session, n) for n in session.choose(QUICK_LENGTHS_OF_ERRORS, LENGTHS_OF_ERRORS, LENGTHS_OF_ERRORS)
    ]
    return {"compared_with_torch": peers.torch_is_installed(), "cases": measured, "plans": plans, "errors": errors}


def _measure(session: Session, case: Case) -> dict[str, Any]:
    x = _input(session, case)
    candidates = _candidates(case, x)
    options = {"kind": "real" if case.real else "forward", "axes": (1,), "scaling": "none", "last": 0}
    taken = time_interleaved(
        {name: Timer(candidate) for name, candidate in candidates.items()},
        seconds=0.05 if session.quick else 0.1,
        shortest=1e-3,
        rounds=5,
        rests={"torch": OPENMP_REST},
    )
    medians = {name: timing.median for name, timing in taken.items()}
    return {
        **case._asdict(),
        "function": case.function,
        "kind": case.kind,
        "implementation": kernel.decide(x, **options).candidates[0].name,
        "median_seconds": medians,
        "gflops": 1e-9 * case.operations / medians["mt"],
        "best_other_over_mt": min(value for name, value in medians.items() if name != "mt") / medians["mt"],
    }


def _plan(session: Session, n: int) -> dict[str, Any]:
    """Time of a call with its plan kept, and of one that has to make it."""
    cache = backends.cuda.cufft_plan_cache
    x = mt.from_numpy(_input(session, Case(n, max(1, (1 << 14) // n), False, "float32")))

    def with_plans(kept: int) -> None:
        with cache.flags(max_size=kept):
            mt.fft.fft(x)

    cache.clear()
    taken = time_interleaved(
        {"kept": Timer(lambda: with_plans(64)), "made": Timer(lambda: with_plans(0))},
        seconds=0.05,
        shortest=4e-3,
        rounds=5,
        rests={"kept": 0.0},  # and so a call that is not timed comes first, and makes the plan that the other dropped
    )
    cache.clear()
    with_plans(64)
    found = {"n": n, "plans": cache.size, "bytes": cache.bytes}
    cache.clear()
    return found | {f"{name}_seconds": timing.median for name, timing in taken.items()}


def _errors(session: Session, n: int) -> dict[str, Any]:
    """Errors relative to the norm, in roundings, against the sums in long double."""
    found: dict[str, Any] = {"n": n}
    for dtype, unit in (("float32", 2.0**-24), ("float64", 2.0**-53)):
        x = _input(session, Case(n, max(1, (1 << 14) // n), False, dtype))
        options = {"kind": "forward", "axes": (1,), "scaling": "none", "last": 0}
        wanted = kernel.reference(x[:4], **options)
        for name, out in (("mt", kernel(x, **options)), ("SciPy", kernel["scipy"](x, **options))):
            found[f"{name} {dtype}"] = float(np.linalg.norm(out[:4] - wanted) / np.linalg.norm(wanted)) / unit
    return found


def tables(result: dict[str, Any]) -> list[Table]:
    return [_time_table(result["cases"]), _mean_table(result["cases"]), _plan_table(result), _error_table(result)]


def _time_table(measured: list[dict[str, Any]]) -> Table:
    names = ("mt", "SciPy", "SciPy, threads", "torch")
    rows = []
    for entry in measured:
        times = [seconds(entry["median_seconds"].get(name)) for name in names]
        what = (f"{entry['batch']} x {entry['n']}", entry["function"], entry["dtype"], entry["implementation"])
        rows.append((*what, *times, number(entry["gflops"]), ratio(entry["best_other_over_mt"])))
    columns = ("transforms", "function", "parts", "by", *names, "GFLOP/s", "best other / mt")
    return Table("Time of Fourier transforms", columns, rows, names=4)


def means(measured: list[dict[str, Any]]) -> dict[str, float]:
    """Geometric means of the best other's time over ours, by class, and of all."""
    groups: dict[str, list[float]] = {}
    for entry in measured:
        for name in (entry["kind"], f"{entry['function']} {entry['dtype']}", "all"):
            groups.setdefault(name, []).append(entry["best_other_over_mt"])
    return {name: math.exp(sum(map(math.log, found)) / len(found)) for name, found in sorted(groups.items())}


def _mean_table(measured: list[dict[str, Any]]) -> Table:
    rows = [(name, ratio(value)) for name, value in means(measured).items()]
    return Table("Best other / mt, geometric means", ("of", "ratio"), rows)


def _plan_table(result: dict[str, Any]) -> Table:
    rows = [
        (
            str(entry["n"]),
            seconds(entry["kept_seconds"]),
            seconds(entry["made_seconds"]),
            ratio(entry["made_seconds"] / entry["kept_seconds"]),
            number(entry["bytes"] / 1024),
        )
        for entry in result["plans"]
    ]
    return Table("A call with its plan kept, and made anew", ("n", "kept", "made", "made / kept", "plan KiB"), rows)


def _error_table(result: dict[str, Any]) -> Table:
    names = [f"{name} {dtype}" for dtype in ("float32", "float64") for name in ("mt", "SciPy")]
    rows = [
        (str(entry["n"]), *(ratio(entry[name]) for name in names), ratio(math.log2(entry["n"])))
        for entry in result["errors"]
    ]
    return Table("Errors relative to the norm, in roundings", ("n", *names, "log2 n"), rows)


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    others = "SciPy and torch" if result["compared_with_torch"] else "SciPy"
    averages = means(result["cases"])
    growth = max(
        entry[name] / math.log2(entry["n"]) for entry in result["errors"] for name in entry if name[:2] == "mt"
    )
    return paragraphs(
        f"""
        The best of {others} takes {averages["all"]:.2f} times as long (geometric mean).

        Times are medians of interleaved samples of the public functions, `mt.fft.fft` and `torch.fft.fft` of tensors,
        with their plans kept. GFLOP/s counts 5 n log2(n) operations for n complex numbers, half of that for real ones.
        SciPy is run on one thread and, for batches, on all.

        Errors are at most {growth:.2f} roundings for each level of log2(n), against sums in long double.
        """
    )


# The picture


def _draw(figure: Figure, result: dict[str, Any]) -> None:
    complex_rows = [row for row in result["cases"] if not row["real"] and row["dtype"] == "float32"]
    groups = {
        "Many at once": [row for row in complex_rows if row["batch"] > 1],
        "One": [row for row in complex_rows if row["batch"] == 1],
    }
    groups = {title: rows for title, rows in groups.items() if rows}
    for axes, (title, rows) in zip(figure.subplots(1, len(groups), squeeze=False)[0], groups.items(), strict=True):
        powers = [row for row in rows if _is_power_of_two(row["n"])]
        others = [row for row in rows if not _is_power_of_two(row["n"])]
        for name in dict.fromkeys(name for row in rows for name in row["median_seconds"]):
            colour, marker = PEERS.get(name, ("#0072B2", "o"))
            style = {"marker": marker, "color": colour, "markersize": 7}
            label = "minitorch-backends" if name == "mt" else name
            axes.plot(*_speeds(powers, name), ":" if name in PEERS else "-", label=label, **style)
            axes.plot(*_speeds(others, name), ls="", fillstyle="none", **style)
        if others:
            axes.plot([], [], ls="", fillstyle="none", marker="o", color="0.4", markersize=7, label="other lengths")
        axes.set(title=f"{title}: complex numbers, float32", xlabel="length", ylabel="GFLOP/s, 5 n log2(n) counted")
        show_sizes(axes, sorted({row["n"] for row in powers}))
        axes.tick_params(axis="x", rotation=35)
        axes.set_ylim(0, None)
        axes.legend()


def _is_power_of_two(n: int) -> bool:
    return n & (n - 1) == 0


def _speeds(rows: list[dict[str, Any]], name: str) -> tuple[list[int], list[float]]:
    """Lengths and GFLOP/s of the library timed under a name, by length."""
    some = sorted((row for row in rows if name in row["median_seconds"]), key=lambda row: row["n"])
    taken = [row["median_seconds"] for row in some]
    speeds = [row["gflops"] * each["mt"] / each[name] for row, each in zip(some, taken, strict=True)]
    return [row["n"] for row in some], speeds


PLOTS = [
    Plot(
        "fft-speed",
        "Up is faster. Lines join powers of two; empty marks are other lengths, the lowest of them primes.",
        (12, 4.6),
        _draw,
    )
]
