"""From which size one way of a product is faster than another on this machine.

Each crossover of the table in `kernels/block/tuning.py` lies on a path of shapes, along which its value grows. Both
ways race at each point of the path. The threshold is that which costs the least over all points, by the sum of the
logarithms of times; where the built-in one costs hardly more, it stays, so that noise moves nothing.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..kernels.block import plans, tuning, tuning_file
from ..kernels.gemm import compiled, matmul
from ..kernels.registry import ArraySpec
from ..kernels.runtime import threading
from ..kernels.runtime.files import DAMAGE, write_file
from .race import OPENBLAS_REST, Contestant, race

_LEAST_GAIN = 1.03
"""How much faster over all points a measured threshold must be than the built-in one to replace it."""


class Point(NamedTuple):
    """A place on a path: the value of the threshold's unit, and a product (m, k) @ (k, n)."""

    value: int
    m: int
    k: int
    n: int


class Crossover(NamedTuple):
    """A threshold of an instruction set.

    Attributes:
        isa, field: where it is in the table.
        below, above: the ways on its two sides.
        last: whether its value is the last of `below`, or the first of `above`.
        kind: the dtype, and the precision of float32.
        path: points in the order of their values.
        along_k: whether the right operand is a transposed view, whose columns run along K.
    """

    isa: str
    field: str
    below: str
    above: str
    last: bool
    kind: tuple[str, str]
    path: tuple[Point, ...]
    along_k: bool = False

    @property
    def name(self) -> str:
        return f"{self.isa}.{self.field}"

    @property
    def built_in(self) -> float:
        return getattr(tuning.default(self.isa), self.field)


class Fitted(NamedTuple):
    """A threshold that was measured.

    Attributes:
        value: the threshold; the built-in one where that is nearly as good.
        gain: how many times faster it is than the built-in one, as a geometric mean over the points.
        points: each with the microseconds below and above.
    """

    crossover: Crossover
    value: float
    gain: float
    points: tuple[tuple[Point, float, float], ...]


def _squares(*sizes: int, value: Callable[[int], int] = lambda n: n**3) -> tuple[Point, ...]:
    return tuple(Point(value(n), n, n, n) for n in sizes)


def crossovers() -> list[Crossover]:
    """Those of the capability in force."""
    isa = compiled.vector_isa()
    if isa == "portable":
        return [Crossover(isa, "integer_products", "definition", "integer", False, ("int32", "ieee"), _INTEGERS)]
    float32 = ("float32", "ieee")
    found = [
        Crossover(isa, "exact_small_products", "blas", "small", False, float32, _SMALL),
        Crossover(isa, "exact_products", "blas", isa, False, float32, _PANELS),
        Crossover(isa, "outer_products", "blas", isa, False, float32, _OUTER),
        Crossover(isa, "exact_row_bytes", "blas", "rows", False, float32, _ROW),
        Crossover(isa, "exact_split_products", "blas", "split_k", False, float32, _DEEP),
        Crossover(isa, "integer_products", "definition", "integer", False, ("int32", "ieee"), _INTEGERS),
        Crossover(isa, "rows_most", "rows", isa, True, float32, _ROWS, along_k=True),
        Crossover(isa, "rows_across_most", "rows", isa, True, float32, _ROWS_ACROSS),
        Crossover(isa, "columns_most", "rows", isa, True, float32, _COLUMNS),
        Crossover(isa, "split_results_most", "split_k", isa, True, ("float32", "tf32"), _RESULTS),
        Crossover(isa, "spread_microseconds", "1 thread", "all threads", False, float32, ()),
    ]  # fmt: skip
    if compiled.passed_over("avx512_bf16") is None:
        field = "vector_products_beside_pairs_most"
        path = _squares(48, 64, 72, 80, 96, 112, 128)
        found.append(Crossover(isa, field, "small", "avx512_bf16", False, ("float32", "bf16"), path))
    return found


_SMALL = _squares(8, 12, 16, 20, 24, 32, 48, 64, 80, 96, 112)
_PANELS = _squares(48, 64, 80, 96, 128, 160, 200, 256, 320)
_INTEGERS = _squares(12, 16, 20, 24, 28, 32, 40)
_OUTER = tuple(Point(n * n, n, 1, n) for n in (100, 150, 200, 250, 300, 400, 600))
_ROW = tuple(Point(4 * n * n, 1, n, n) for n in (256, 362, 512, 640, 768, 1024, 1448, 2048))
_DEEP = tuple(Point(256 * k, 16, k, 16) for k in (512, 1024, 2048, 3072, 4096, 8192, 16384))
_ROWS = tuple(Point(m, m, 1024, 1024) for m in (8, 16, 24, 32, 48, 64, 96, 128, 160))
_ROWS_ACROSS = tuple(Point(m, m, 1024, 1024) for m in (2, 4, 6, 8, 12, 16, 24, 32))
_COLUMNS = tuple(Point(n, 1024, 1024, n) for n in (4, 6, 8, 12, 16, 24, 32, 48))
_RESULTS = tuple(Point(n * n, n, 4096, n) for n in (48, 64, 80, 96, 112, 128))


def path_of(crossover: Crossover) -> tuple[Point, ...]:
    """The points of a crossover; those of threads are in microseconds, by the estimate of a plan."""
    if crossover.path:
        return crossover.path
    speed = plans.plan_for(crossover.isa, "ieee", "rna", 4).products_per_microsecond
    return _squares(32, 48, 64, 80, 96, 112, 128, 160, value=lambda n: max(1, round(n**3 / speed)))


def measure(
    chosen: list[Crossover], partial: Path, rounds: int, advance: Callable[[str], None] = lambda name: None
) -> list[Fitted]:
    """Race at all points and fit. What is measured is added to the file `partial`, from which an interrupted call goes
    on; `advance` is called after each point."""
    times, found = _read_partial(partial), []
    for crossover in chosen:
        points: list[tuple[Point, float, float]] = []
        for point in path_of(crossover):
            key = f"{crossover.name} {point.value} {rounds}"
            if key not in times:
                times[key] = _race(crossover, point, rounds)
                _save(partial, times)
            if times[key]:
                below, above = times[key]
                points.append((point, below, above))
            advance(crossover.name)
        found.append(fit(crossover, points))
    return found


def _read_partial(partial: Path) -> dict[str, list[float]]:
    """What an interrupted call measured; nothing where its file is damaged, or another user could write to it."""
    try:
        found = tuning_file.load(partial).items()
        return {key: row for key, row in found if not row or (len(row) == 2 and 0 < min(row) <= max(row) < math.inf)}
    except DAMAGE:
        return {}


def _save(path: Path, content: Any) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_file(path, json.dumps(content))


def _race(crossover: Crossover, point: Point, rounds: int) -> list[float]:
    """Microseconds of the two ways at a point; nothing where one of them cannot do it."""
    dtype, precision = np.dtype(crossover.kind[0]), crossover.kind[1]
    rng = np.random.default_rng(0)
    shapes = (point.m, point.k), (point.n, point.k) if crossover.along_k else (point.k, point.n)
    a, b = ((rng.standard_normal(shape) * 9).astype(dtype) for shape in shapes)
    b = b.T if crossover.along_k else b
    by_threads = crossover.field == "spread_microseconds"
    woken = tuning.thresholds(crossover.isa).override(spread_microseconds=0.0)
    with woken if by_threads else nullcontext():
        ways = [_way(name, crossover.isa, a, b, precision) for name in (crossover.below, crossover.above)]
        times = race(ways, rounds)
    return [round(each.median * 1e6, 4) for each in times.values()] if len(times) == len(ways) else []


def _way(name: str, isa: str, a: np.ndarray, b: np.ndarray, precision: str) -> Contestant:
    """A way to multiply, whatever it refuses by sizes."""
    if name.endswith(("thread", "threads")):
        count = 1 if name == "1 thread" else threading.get_num_threads()
        return Contestant(name, functools.partial(_by_threads, count, matmul.implementations[isa].run, a, b))
    implementation = matmul.implementations[name]
    specs = ArraySpec(a.shape, a.dtype), ArraySpec(b.shape, b.dtype)
    short = implementation.specialise(*specs, precision=precision) if implementation.specialise else None
    run = short or functools.partial(implementation.run, precision=precision)
    return Contestant(name, functools.partial(run, a, b), OPENBLAS_REST if name == "blas" else 0.0)


def _by_threads(count: int, run: Callable[..., Any], a: np.ndarray, b: np.ndarray) -> None:
    with threading.num_threads(count):
        run(a, b)


def fit(crossover: Crossover, points: list[tuple[Point, float, float]]) -> Fitted:
    """The threshold that costs the least over points, each with the microseconds below and above."""
    if not points:
        return Fitted(crossover, crossover.built_in, 1.0, ())
    values = [point.value for point, _, _ in points]
    between = [round(math.sqrt(a * b)) for a, b in itertools.pairwise(values)]
    edges = (values[0] - 1, values[-1]) if crossover.last else (values[0], values[-1] + 1)
    kept = crossover.built_in
    candidates = [edges[0], *(_first_digits(value) for value in between), edges[1]]

    def cost(threshold: float) -> float:
        """The mean logarithm of the times of the ways that a threshold chooses."""
        takes_below = [value <= threshold if crossover.last else value < threshold for value in values]
        times = [below if low else above for low, (_, below, above) in zip(takes_below, points, strict=True)]
        return sum(map(math.log, times)) / len(times)

    best = min(candidates, key=lambda each: (cost(each), abs(math.log((each + 1) / (kept + 1)))))
    gain = math.exp(min(cost(kept) - cost(best), 50.0))
    outside = not values[0] <= kept <= values[-1] and best in edges
    value = kept if gain < _LEAST_GAIN or outside else best
    return Fitted(crossover, value, gain if value != kept else 1.0, tuple(points))


def _first_digits(value: int) -> int:
    """A number rounded to three digits."""
    unit = 10 ** max(0, len(str(value)) - 3)
    return round(value / unit) * unit
