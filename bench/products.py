"""Bare products: speed and error of each precision beside NumPy's product and torch's."""

from __future__ import annotations

import time
from functools import partial
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from matplotlib.figure import Figure

from minitorch_backends.display.figures import MARKS, place_labels
from minitorch_backends.kernels.gemm import matmul
from minitorch_backends.kernels.runtime import cpu
from minitorch_backends.lab.race import Contestant

from . import peers, speed
from .presentation import Table, error, paragraphs, plot
from .session import PRECISIONS, Session

TITLE = "Bare products beside other libraries"


class Shape(NamedTuple):
    """a (batch..., m, k) @ b (batch..., k, n); `transposed` operands are views of their transposes."""

    group: str
    m: int
    k: int
    n: int
    batch: int = 1
    transposed: str = ""

    @property
    def label(self) -> str:
        batch = f"{self.batch} x " if self.batch > 1 else ""
        return f"{batch}[{self.m}, {self.k}] @ [{self.k}, {self.n}]{f' {self.transposed}ᵀ' if self.transposed else ''}"

    @property
    def flops(self) -> float:
        return 2.0 * self.batch * self.m * self.k * self.n


SHAPES = [
    *(Shape("Squares", n, n, n) for n in (64, 128, 256, 512, 1024, 2048, 4096)),
    Shape("Thin", 8192, 64, 8192),
    Shape("Thin", 16, 4096, 4096),
    Shape("Thin", 8192, 4096, 32),
    Shape("Vectors", 1, 4096, 4096),
    Shape("Vectors", 4096, 4096, 1),
    Shape("Transformers", 2048, 768, 3072),
    Shape("Transformers", 2048, 3072, 768),
    Shape("Transformers", 256, 4096, 4096),
    Shape("Transformers", 1024, 64, 1024, batch=16),
    Shape("Transformers", 128, 784, 512),
    Shape("Batches", 32, 32, 32, batch=1024),
    Shape("Batches", 128, 128, 128, batch=64),
    Shape("Transposed", 1024, 1024, 1024, transposed="A"),
    Shape("Transposed", 1024, 1024, 1024, transposed="B"),
    Shape("Transposed", 1024, 1024, 1024, transposed="AB"),
]


def operands(shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    """Two float32 arrays of normal variates."""
    rng = np.random.default_rng(0)
    lead = (shape.batch,) if shape.batch > 1 else ()

    def one(rows: int, columns: int, transposed: bool) -> np.ndarray:
        if transposed:
            return rng.standard_normal((*lead, columns, rows), np.float32).swapaxes(-1, -2)
        return rng.standard_normal((*lead, rows, columns), np.float32)

    return one(shape.m, shape.k, "A" in shape.transposed), one(shape.k, shape.n, "B" in shape.transposed)


HALF = "bf16 tensors"
"""Ours of bfloat16 tensors."""

WANTED: dict[str, dict[str, tuple[str, float]]] = {
    "amx": {
        "ieee": ("torch fp32", 1.0), "tf32": ("torch fp32", 2.0), "bf16x3": ("torch fp32", 2.2),
        "bf16x6": ("torch fp32", 1.3), "bf16": ("torch mkldnn bf16", 2.2), HALF: (f"torch {HALF}", 1.0),
    },
    "avx512_bf16": {"ieee": ("torch fp32", 1.0), "bf16": ("torch mkldnn bf16", 1.0), HALF: (f"torch {HALF}", 1.0)},
    "avx512": {"ieee": ("torch fp32", 1.0), "tf32": ("NumPy fp32", 0.9), "bf16": ("NumPy fp32", 0.9)},
    "avx2": {"tf32": ("NumPy fp32", 0.85), "bf16": ("NumPy fp32", 0.85)},
}  # fmt: skip
"""By CPU capability and precision: a peer, and the target for its time over ours, for squares of at least 1024."""


def _contestants(a: np.ndarray, b: np.ndarray) -> list[Contestant]:
    """Ours at each precision, NumPy's product, and torch's."""
    found = []
    for precision in PRECISIONS:
        by_blas = matmul.decide(a, b, precision=precision).candidates[0].name == "blas"
        run = partial(matmul, a, b, precision=precision)
        found.append(Contestant(precision, run, peers.blas_rest() if by_blas else 0.0))
    half = [each.astype(ml_dtypes.bfloat16) for each in (a, b)]
    found.append(Contestant(HALF, partial(matmul, *half)))
    return [*found, peers.by_numpy("NumPy fp32", np.matmul, a, b), *peers.torch_products(a, b)]


def _cell(shape: Shape) -> speed.Cell:
    has_torch = peers.torch_is_installed()
    against = dict.fromkeys(PRECISIONS, "torch fp32" if has_torch else "NumPy fp32") | {HALF: f"torch {HALF}"}
    wanted = WANTED.get(cpu.capability(), {}) if shape.group == "Squares" and shape.n >= 1024 else {}
    return speed.Cell(shape.group, shape.label, _contestants(*operands(shape)), against, wanted, shape.flops)


def run(session: Session) -> dict[str, Any]:
    """Time products of each shape, and measure the errors of one square."""
    shapes = session.choose([Shape("Squares", n, n, n) for n in (128, 256)], SHAPES[1:6], SHAPES)
    size = session.choose(256, 1024, 1024)
    a, b = operands(Shape("Squares", size, size, size))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    errors = {each.name: _error(each, exact) for each in _contestants(a, b)}
    time.sleep(peers.blas_rest())
    found = speed.run(session, TITLE, {shape.label: partial(_cell, shape) for shape in shapes})
    return found | {"square": Shape("Squares", size, size, size).label, "errors": errors}


def _error(contestant: Contestant, exact: np.ndarray) -> float:
    """Rms, relative to the standard deviation of an entry."""
    contestant.before()
    found = contestant.call()  # type: ignore[operator]
    found = found if isinstance(found, np.ndarray) else found.float().numpy()
    return float(np.sqrt(np.mean((found - exact) ** 2) / len(exact)))


def tables(result: dict[str, Any]) -> list[Table]:
    rows = [(name, error(value)) for name, value in result["errors"].items()]
    return [*speed.tables(result), Table(f"Errors of {result['square']}", ("product", "rms error / sqrt(n)"), rows)]


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    text = """
        Operands are float32 in memory, and conversions are included. GFLOP/s counts 2 m n k operations, whatever a
        precision really does. bf16 tensors are converted beforehand, and their result is rounded to bf16 as
        well. `python -m bench.order` has every way to compute each product.
    """
    return [*paragraphs(text), *speed.sentences(result)]


OTHER_MARKS = {
    "bf16 tensors": ("#D55E00", "p"),
    "NumPy fp32": ("#5f5f5f", "P"),
    "torch fp32": ("#6b6b6b", "X"),
    "torch bf16 tensors": ("#6b6b6b", "*"),
    "torch mkldnn bf16": ("#6b6b6b", "h"),
}


def _square_row(result: dict[str, Any]) -> Any:
    return next((row for row in result["rows"] if row["name"] == result["square"]), None)


@plot("products-tradeoff", "Up is faster, left is more accurate.", (7, 4.2), lambda result: bool(_square_row(result)))
def tradeoff(figure: Figure, result: dict[str, Any]) -> None:
    axes, row, points = figure.subplots(), _square_row(result), {}
    for name, taken in row["seconds"].items():
        colour, mark = (MARKS | OTHER_MARKS)[name]
        points[name] = result["errors"][name], 1e-9 * row["operations"] / taken
        axes.plot(*points[name], mark, color=colour, markersize=11, mec="white", mew=0.5)
    axes.set(
        title=f"Speed against error, {result['square']}", xscale="log", ylabel="GFLOP/s (2 n³ counted)",
        xlabel="rms error relative to sqrt(n)",
    )  # fmt: skip
    axes.set_ylim(0, 1.12 * max(speed for _, speed in points.values()))
    axes.set_xlim(right=30 * max(error for error, _ in points.values()))  # for the names
    place_labels(axes, list(points.values()), list(points), len(points))


PLOTS = [tradeoff, speed.plot("products-speed")]
