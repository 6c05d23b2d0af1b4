"""Matrix products: every implementation, precision and shape against NumPy and PyTorch, in one run.

    python -m bench.kernels                  # all shapes, some minutes
    python -m bench.kernels --only squares   # the shapes that the targets are about
    python -m bench.kernels --rounds 5 --out bench-results

Contestants take turns, so that a slow moment of the machine falls on all of them, and each figure is the median of its
turns. float32 goes in and out, packing and rounding included, unless the name says otherwise. After NumPy's and
PyTorch's turns there is a rest, because their threads spin on and would halve the speed of whoever comes next.

Writes kernels.json (every figure) and kernels.png (speed over arithmetic intensity, with the machine's ceilings).
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import platform
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from minitorch_backends.display.figures import MARKS as PRECISION_MARKS
from minitorch_backends.kernels.block import loops, plans
from minitorch_backends.kernels.gemm import divisions, matmul
from minitorch_backends.kernels.gemm.compiled import ISAS, OF_PARTS, computed_precision, isa_of_parts, passed_over
from minitorch_backends.kernels.gemm.product import Packed, product, target_for
from minitorch_backends.kernels.precisions.products import PRECISIONS
from minitorch_backends.kernels.runtime import cpu, threading, workspace
from minitorch_backends.lab.race import LEAST_SECONDS, OPENBLAS_REST, Contestant, race, turn

from .fair import restart_where_held
from .peers import torch_multiplies_bf16
from .timing import OPENMP_REST

try:
    import torch
except ImportError:
    torch = None


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

    @property
    def bytes(self) -> float:
        """What must be moved at the least: float32 operands once, and the result once."""
        return 4.0 * self.batch * (self.m * self.k + self.k * self.n + self.m * self.n)


SHAPES = [
    *(Shape("squares", n, n, n) for n in (64, 128, 256, 512, 1024, 2048, 4096)),
    Shape("thin", 8192, 64, 8192),
    Shape("thin", 16, 4096, 4096),
    Shape("thin", 8192, 4096, 32),
    Shape("vector", 1, 4096, 4096),
    Shape("vector", 4096, 4096, 1),
    Shape("transformer", 2048, 768, 3072),
    Shape("transformer", 2048, 3072, 768),
    Shape("transformer", 256, 4096, 4096),
    Shape("attention", 1024, 64, 1024, batch=16),
    Shape("mlp", 128, 784, 512),
    Shape("batched", 32, 32, 32, batch=1024),
    Shape("batched", 128, 128, 128, batch=64),
    Shape("transposed", 1024, 1024, 1024, transposed="A"),
    Shape("transposed", 1024, 1024, 1024, transposed="B"),
    Shape("transposed", 1024, 1024, 1024, transposed="AB"),
]


class Operands(NamedTuple):
    """The operands of one shape, as arrays and as torch tensors that share their memory."""

    a: np.ndarray
    b: np.ndarray
    shape: Shape

    def arrays(self, dtype: Any = np.float32) -> tuple[np.ndarray, np.ndarray]:
        return self.a.astype(dtype), self.b.astype(dtype)

    def tensors(self, dtype: Any) -> tuple[Any, Any]:
        return tuple(torch.from_numpy(np.ascontiguousarray(x)).to(dtype) for x in (self.a, self.b))


def operands(shape: Shape) -> Operands:
    rng = np.random.default_rng(0)
    lead = (shape.batch,) if shape.batch > 1 else ()

    def one(rows: int, columns: int, transposed: bool) -> np.ndarray:
        if transposed:
            return rng.standard_normal((*lead, columns, rows), np.float32).swapaxes(-1, -2)
        return rng.standard_normal((*lead, rows, columns), np.float32)

    return Operands(
        one(shape.m, shape.k, "A" in shape.transposed), one(shape.k, shape.n, "B" in shape.transposed), shape
    )


def ours(at: Operands) -> Iterator[Contestant]:
    """Each implementation at each precision that it takes, then bfloat16 tensors, and a right operand packed before."""
    for name, implementation in matmul.implementations.items():
        if implementation.isa is not None and cpu.refusal(implementation.isa) is None:
            for precision in PRECISIONS:
                call = functools.partial(matmul[name], at.a, at.b, precision=precision)
                yield Contestant(f"{name} {precision}", call)
    isa = isa_of_parts()
    if passed_over(isa) is None:
        yield Contestant(f"{isa} bfloat16 tensors", functools.partial(matmul[isa], *at.arrays(ml_dtypes.bfloat16)))
        if at.b.ndim == 2:
            packed = Packed(at.b, isa, "bf16", "rna")
            call = functools.partial(product, at.a, packed, isa=isa, precision="bf16")
            yield Contestant(f"{isa} bf16, packed weight", call)


def blas(at: Operands) -> Iterator[Contestant]:
    """NumPy itself, and what it runs at each precision."""
    yield Contestant("numpy fp32", functools.partial(np.matmul, at.a, at.b), OPENBLAS_REST)
    for precision in PRECISIONS:
        call = functools.partial(matmul["blas"], at.a, at.b, precision=precision)
        yield Contestant(f"blas {precision}", call, OPENBLAS_REST)


def torchs(at: Operands) -> Iterator[Contestant]:
    """PyTorch: float32, its bf16 mode, and bfloat16 tensors."""
    if torch is None:
        return
    a, b = (torch.from_numpy(x) for x in (at.a, at.b))

    def fast() -> Any:
        torch.backends.mkldnn.matmul.fp32_precision = "bf16"
        try:
            return torch.matmul(a, b)
        finally:
            torch.backends.mkldnn.matmul.fp32_precision = "ieee"

    yield Contestant("torch fp32", functools.partial(torch.matmul, a, b), OPENMP_REST)
    yield Contestant("torch fp32, mkldnn bf16", fast, OPENMP_REST)
    if torch_multiplies_bf16():
        call = functools.partial(torch.matmul, *at.tensors(torch.bfloat16))
        yield Contestant("torch bfloat16 tensors", call, OPENMP_REST)


def measure(shapes: list[Shape], rounds: int, chosen: str | None) -> list[dict[str, Any]]:
    """A row for each contestant and shape."""
    rows = []
    for shape in shapes:
        at = operands(shape)
        everyone = [contestant for group in (ours, torchs, blas) for contestant in group(at)]
        parts = chosen.split(",") if chosen else [""]
        kept = [contestant for contestant in everyone if any(part in contestant.name for part in parts)]
        for name, seconds in race(kept, rounds).items():
            rows.append({"shape": shape.label, "group": shape.group, "name": name, "seconds": seconds,
                         "gflops": shape.flops / seconds / 1e9, "intensity": shape.flops / shape.bytes})  # fmt: skip
        print(".", end="", flush=True)
    print()
    return rows


TARGETS = [
    ("amx bf16", "torch fp32, mkldnn bf16", 2.2),
    ("amx bf16", "torch bfloat16 tensors", 1.0),
    ("amx tf32", "torch fp32", 2.0),
    ("amx bf16x3", "torch fp32", 2.2),
    ("amx bf16x6", "torch fp32", 1.3),
    ("amx ieee", "torch fp32", 1.0),
    ("amx ieee", "numpy fp32", 1.0),
    ("avx512_bf16 bf16", "torch fp32, mkldnn bf16", 1.0),
    ("avx512_bf16 bfloat16 tensors", "torch bfloat16 tensors", 1.0),
    ("avx512 ieee", "torch fp32", 1.0),
    ("avx512 ieee", "numpy fp32", 1.0),
    ("avx512 bf16", "numpy fp32", 0.9),
    ("avx512 tf32", "numpy fp32", 0.9),
    ("avx2 bf16", "numpy fp32", 0.85),
    ("avx2 tf32", "numpy fp32", 0.85),
]
"""(ours, peer, least ratio of speeds), geometric mean over squares of 1024, 2048 and 4096."""


def targets(rows: list[dict[str, Any]]) -> list[tuple[str, str, float, float]]:
    speed = {(row["shape"], row["name"]): row["gflops"] for row in rows}
    labels, found = [Shape("squares", n, n, n).label for n in (1024, 2048, 4096)], []
    for mine, peer, least in TARGETS:
        ratios = [speed[x, mine] / speed[x, peer] for x in labels if (x, mine) in speed and (x, peer) in speed]
        if len(ratios) == len(labels):
            found.append((mine, peer, least, math.prod(ratios) ** (1 / len(ratios))))
    return found


def table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=max(120, Console().width))
    shapes = list(dict.fromkeys(row["shape"] for row in rows))
    for first in range(0, len(shapes), 7):
        some = shapes[first : first + 7]
        out = Table("GFLOP/s", *some, title="Medians; packing and rounding included")
        speed = {(row["name"], row["shape"]): row["gflops"] for row in rows}
        for name in dict.fromkeys(row["name"] for row in rows):
            cells = [speed.get((name, shape)) for shape in some]
            out.add_row(
                name, *("" if cell is None else f"{cell:,.0f}" if cell >= 10 else f"{cell:.2g}" for cell in cells)
            )
        console.print(out)
    out = Table("ours", "peer", "at least", "measured", title="Targets: geometric mean over 1024, 2048, 4096")
    for mine, peer, least, ratio in targets(rows):
        out.add_row(mine, peer, f"{least}", f"[{'green' if ratio >= least else 'red'}]{ratio:.2f}")
    console.print(out)


def copy_speed() -> float:
    """GB/s, read and written, of a copy of 256 MiB by all threads."""
    threads = threading.get_num_threads()
    sources, targets = ([np.ones((1 << 26) // threads, np.float32) for _ in range(threads)] for _ in range(2))
    with ThreadPoolExecutor(threads) as pool:
        seconds = min(turn(lambda: list(pool.map(np.copyto, targets, sources)), 1) for _ in range(7))
    return 2 * sum(source.nbytes for source in sources) / seconds / 1e9


def microkernel_speed(isa: str, precision: str) -> float | None:
    """GFLOP/s of all threads; each multiplies one block after another from packed operands that stay in its L2
    cache: what a product would do that neither packs nor waits for memory. None where `isa` has no such loops."""
    inner = computed_precision(isa, np.dtype(np.float32), precision)
    if passed_over(isa) is not None or inner is None:
        return None
    plan, (pool, threads) = plans.plan_for(isa, inner, "rna", 4), threading.pool()
    scheme, dtype = plan.scheme, np.dtype(np.float32)
    m, n, k = threads * scheme.mc, scheme.nc, scheme.kc
    a, b = np.ones((m, k), dtype), np.ones((k, n), dtype)
    c = workspace.empty((m, n), dtype)
    packed, sides = [], []
    for x, is_a, lines in ((a, True, m), (b, False, n)):
        side = plans.side(plan, is_a, dtype, lines, k, *(x.strides if is_a else x.strides[::-1]))
        memory = workspace.aligned_bytes(side.bytes(lines) + threads * loops.LIMITS_BYTES)
        at = workspace.address_of(memory)
        how = divisions.packing(side, lines, threads)
        loops.pack(pool, threads, how, workspace.address_of(x), at, at + side.bytes(lines))
        packed.append(memory)
        sides.append(side)
    sums = scheme.mc * scheme.nc * scheme.kernel.size
    scratch = workspace.aligned_bytes(threads * sums)
    of_a, of_b, of_c, of_scratch = (workspace.address_of(x) for x in (*packed, c, scratch))
    sizes = divisions.sizes(sides[0], n, scheme.mc, scheme.nc, sums)
    target = target_for(plan, dtype, c.strides[0])
    call = functools.partial(loops.multiply, pool, threads, sizes, target, of_a, of_b, of_c, 0, of_scratch)
    once = turn(call, 20)
    return 2e-9 * m * n * k / min(turn(call, max(1, int(LEAST_SECONDS / once))) for _ in range(10))


COLOURS = {precision: colour for precision, (colour, _) in PRECISION_MARKS.items()}

MARKS = {
    "amx": ("o", "AMX tiles"),
    "amx_small": ("p", "AMX tiles, small"),
    "avx512_bf16": ("h", "AVX512_BF16"),
    "avx512": ("^", "AVX-512"),
    "small": ("v", "vectors, small"),
    "rows": ("D", "vectors, few rows or columns"),
    "avx2": (">", "AVX2"),
    "portable": ("P", "any CPU"),
}
"""By implementation: mark and name in the legend."""

PEERS = {
    "numpy fp32": ("+", "NumPy fp32"),
    "torch fp32": ("x", "torch fp32"),
    "torch fp32, mkldnn bf16": ("1", "torch fp32, bf16 mode"),
    "torch bfloat16 tensors": ("2", "torch bfloat16 tensors"),
}


def ceilings() -> dict[str, Any]:
    """What the machine can do: the speed of a copy, and those of the microkernels by implementation and precision."""
    found = {isa: {name: microkernel_speed(isa, name) for name in COLOURS} for isa in ISAS}
    speeds = {isa: {name: speed for name, speed in row.items() if speed} for isa, row in found.items()}
    return {"copy (GB/s)": copy_speed(), "microkernels (GFLOP/s)": speeds}


def plot(rows: list[dict[str, Any]], limits: dict[str, Any], path: Path) -> None:
    """Speed over arithmetic intensity, under the roofs that memory and each microkernel set."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.lines import Line2D

    figure, axes = plt.subplots(figsize=(11, 7), layout="constrained")
    reach = [0.8 * min(row["intensity"] for row in rows), 1.25 * max(row["intensity"] for row in rows)]
    handles = []
    for isa, (mark, label) in MARKS.items():
        own = [row for row in rows if row["name"].rpartition(" ")[0] == isa]
        for precision, colour in COLOURS.items():
            points = [(row["intensity"], row["gflops"]) for row in own if row["name"] == f"{isa} {precision}"]
            if points:
                axes.scatter(*zip(*points, strict=True), marker=mark, s=30, color=colour, zorder=3)
        if own:
            handles.append(Line2D([], [], color="#555555", marker=mark, ls="", label=label))
    for name, (mark, label) in PEERS.items():
        points = [(row["intensity"], row["gflops"]) for row in rows if row["name"] == name]
        if points:
            axes.scatter(*zip(*points, strict=True), marker=mark, s=50, color="#8a8a8a", zorder=2)
            handles.append(Line2D([], [], color="#8a8a8a", marker=mark, ls="", label=label))
    handles += [Line2D([], [], color=colour, lw=4, label=name) for name, colour in COLOURS.items()]
    _roofs(axes, limits, reach)
    axes.set(xscale="log", yscale="log", xlim=reach, ylabel="GFLOP/s")
    axes.set_xscale("log", base=2)
    axes.set_xlabel("arithmetic intensity: FLOP per byte of float32 operands and result")
    axes.set_title("Matrix products, packing and rounding included; lines are measured ceilings", loc="left")
    axes.grid(alpha=0.25)
    figure.legend(handles=handles, loc="outside lower center", ncols=5, fontsize=9, frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _roofs(axes: Any, limits: dict[str, Any], reach: list[float]) -> None:
    """A slope for memory, and for each microkernel a level from where the slope meets it."""
    bandwidth, speeds = limits["copy (GB/s)"], limits["microkernels (GFLOP/s)"]
    top = max([speed for row in speeds.values() for speed in row.values()], default=1e3)
    axes.plot([reach[0], top / bandwidth], [bandwidth * reach[0], top], "--", color="#555555", lw=1)
    middle = math.sqrt(reach[0] * 4)
    axes.annotate(f"copy by all threads: {bandwidth:.0f} GB/s", (middle, bandwidth * middle), xytext=(8, -12),
                  textcoords="offset points", fontsize=8, color="#555555")  # fmt: skip
    for isa, row in speeds.items():
        for precision, speed in row.items():
            if isa in OF_PARTS or precision == "ieee":
                axes.plot([speed / bandwidth, reach[1]], [speed, speed], "-", color=COLOURS[precision], lw=1)
                axes.annotate(f"{MARKS[isa][1]}, {precision}: {speed:,.0f}", (reach[1], speed), xytext=(5, -3),
                              textcoords="offset points", fontsize=8, color=COLOURS[precision])  # fmt: skip


def positive(text: str) -> int:
    """The number of rounds in an argument."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rounds; expected an integer of at least 1")
    return int(text)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--only", help="groups of shapes, separated by commas")
    arguments.add_argument("--names", help="contestants whose name has one of these parts, separated by commas")
    arguments.add_argument("--rounds", type=positive, default=7)
    arguments.add_argument("--out", type=Path, default=Path("bench-results"))
    chosen = arguments.parse_args()
    if torch is not None:
        torch.set_num_threads(threading.get_num_threads())
    groups = list(dict.fromkeys(shape.group for shape in SHAPES))
    wanted = groups if chosen.only is None else chosen.only.split(",")
    if unknown := [name for name in wanted if name not in groups]:
        arguments.error(
            f"argument --only: {unknown[0]!r} is not a group of shapes; expected some of {', '.join(groups)}"
        )
    shapes = [shape for shape in SHAPES if shape.group in wanted]
    limits = ceilings()
    rows = measure(shapes, chosen.rounds, chosen.names)
    table(rows)
    chosen.out.mkdir(parents=True, exist_ok=True)
    machine = {"cpu": cpu.capability(), "threads": threading.get_num_threads(), "python": platform.python_version(),
               "numpy": np.__version__, "torch": getattr(torch, "__version__", None), **limits}  # fmt: skip
    (chosen.out / "kernels.json").write_text(json.dumps({"machine": machine, "rows": rows}, indent=1))
    plot(rows, limits, chosen.out / "kernels.png")
    print(machine)


if __name__ == "__main__":
    restart_where_held()
    main()
