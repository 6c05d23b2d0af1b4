"""Which way each product takes, and what the other ways take there: the guard of a change to the kernels, as data.

    python -m bench.order                           # every level of this CPU, an hour; bench/order/CPU.json, ORDER.md
    python -m bench.order --quick --levels avx512   # three precisions and short turns, some minutes
    python -m bench.order --resume                  # goes on where an interrupted run ended
    python -m bench.order --quick --out new.json --against bench/order/CPU.json
    python -m bench.order compare OLD.json NEW.json

For each level, shape and precision every implementation runs that may: those that do not refuse, and beside them,
whatever they say, the loops over packed panels and BLAS, which take every shape. Turns are interleaved, figures are
medians. Each level runs in a process of its own, which MINITORCH_CPU_CAPABILITY caps; a cell is written as soon as it
is measured.

A cell's noise is how much two runs of the way that is taken differ, as turns of one race. A gain below three times that
counts as none. A way must gain 10 % on the shapes that it takes, in geometric mean, on two CPUs of its level:
`python -m bench.order worth` says which do, by all files.

A comparison divides each cell's time by that of the same cell before, and by how much BLAS, which no change here
reaches, differs between the two runs. It fails where the geometric mean is above 1.02 or a cell above 1.10.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from minitorch_backends.kernels.gemm import blas, compiled, matmul
from minitorch_backends.kernels.precisions.products import PRECISIONS
from minitorch_backends.kernels.registry import ArraySpec
from minitorch_backends.kernels.runtime import cpu, machine
from minitorch_backends.kernels.runtime.files import write_file
from minitorch_backends.lab.race import OPENBLAS_REST, Contestant, race

from . import environment
from .fair import restart_where_held
from .presentation import number
from .products import Shape, operands

FOLDER = Path(__file__).parent / "order"
PAGE = Path(__file__).parent / "ORDER.md"

SHAPES = [
    *(Shape("square", n, n, n) for n in (8, 16, 32, 64, 96, 128, 256, 512, 1024)),
    *(Shape("rows", m, 1024, 1024) for m in (1, 2, 8, 16, 32, 64, 128)),
    *(Shape("columns", 1024, 1024, n) for n in (1, 2, 8, 32, 128)),
    Shape("tall", 8192, 64, 64),
    Shape("wide", 64, 64, 8192),
    *(Shape("deep", *sizes) for sizes in ((16, 8192, 16), (64, 1024, 64), (64, 8192, 64), (128, 8192, 128))),
    Shape("outer", 512, 1, 512),
    Shape("batch", 16, 16, 16, batch=512),
    Shape("batch", 64, 64, 64, batch=64),
    Shape("batch", 256, 256, 256, batch=8),
]

KINDS: dict[str, tuple[Any, str]] = {
    **{name: (np.float32, name) for name, row in PRECISIONS.items() if row.scale is None},
    **{np.dtype(each).name: (each, "ieee") for each in (np.float64, np.float16, ml_dtypes.bfloat16)},
    "complex64, tf32": (np.complex64, "tf32"),
    "int32": (np.int32, "ieee"),
}
"""Columns of the page: a precision of float32 products, or another dtype."""

QUICK = ("ieee", "tf32", "bf16")

NEXT_BEST = 0.9
"""The multiple below which a cell of the page is marked: what two runs differ by on a shared machine."""

MOST_MEAN, MOST_CELL = 1.02, 1.10
"""What a change may cost, in geometric mean and in a cell."""

LEAST_GAIN, FLOORS = 1.10, 3
"""The least multiple of a way's time that the next best must take, and how many times the noise a gain must be."""

HEAD = f"""# The order of implementations, measured

`python -m bench.order` makes this page from the files in `bench/order`. For each shape (float32 unless the column says
otherwise) and precision: the implementation that is taken, its microseconds, and the next best with its time as a
multiple. A multiple below {NEXT_BEST} is bold: there the choice was not the best on that machine. Where only one is
named no other takes the call. "Busy": more ran on the machine than these products.
"""

AGAIN = "again"
"""The way that is taken, a second time: what the two differ by is noise."""

Cell = dict[str, Any]
Guard = dict[str, Any]


def contestants(a: np.ndarray, b: np.ndarray, precision: str) -> Iterator[Contestant]:
    """What is taken first, then the others."""
    specs = ArraySpec(a.shape, a.dtype), ArraySpec(b.shape, b.dtype)
    runs: dict[str, Any] = {}
    for each in matmul.decide(*specs, precision=precision).candidates:
        runs[each.name] = matmul.first(*specs, prefer=each.name, precision=precision)
    for isa in compiled.ISAS:
        if compiled.passed_over(isa) is None and compiled.computed_by_panels(isa, a.dtype, precision) is not None:
            runs.setdefault(isa, functools.partial(compiled.implementation(isa), precision=precision))
    if blas.refuses(*specs, precision=precision) is None:
        short = blas.specialise(*specs, precision=precision)
        runs.setdefault("blas", short or functools.partial(blas.matmul, precision=precision))
    if len(runs) > 1:
        runs.pop("definition", None)
    runs[AGAIN] = matmul.prepare(*specs, precision=precision)  # the first may leave these strides to the next
    for name, run in runs.items():
        yield Contestant(name, functools.partial(run, a, b), OPENBLAS_REST if name == "blas" else 0.0)


def measure(shape: Shape, kind: str, rounds: int, scale: float = 1.0) -> dict[str, float]:
    """Median seconds by implementation, that which is taken first; `scale` shortens turns."""
    dtype, precision = KINDS[kind]
    a, b = (each.astype(dtype) for each in operands(shape))
    taken = race(contestants(a, b, precision), rounds, 4e-2 * scale, 1e-2 * scale)
    return {name: timing.median for name, timing in taken.items()}


def key(cell: Cell) -> tuple[str, str, str]:
    return cell["level"], cell["shape"], cell["kind"]


def about() -> dict[str, Any]:
    """The machine and the source, as a file says of them."""
    found = environment.collect()
    return {
        "cpu": found["cpu"], "microarchitecture": machine.microarchitecture(), "caches": str(machine.caches()),
        "threads": found["threads"]["minitorch_backends"], "blas": found["blas"], "commit": found["commit"],
        "versions": {name: found["versions"][name] for name in ("numpy", "numba", "llvmlite")},
    }  # fmt: skip


def read(path: Path) -> Guard:
    """A guard's file. Raises ValueError where it is none."""
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict) or not {"machine", "cells"} <= found.keys():
        raise ValueError(f"{path} holds no measurements of bench.order")
    return found


def write(path: Path, guard: Guard) -> None:
    """Write a guard's file, a line for each cell, whole or not at all."""
    cells = ",\n".join(json.dumps(cell) for cell in guard["cells"])
    write_file(path, f'{{"machine": {json.dumps(guard["machine"])},\n"cells": [\n{cells}\n]}}\n')


def measure_level(path: Path, kinds: list[str], rounds: int, scale: float) -> None:
    """Measure what a file does not hold yet of the capability in force, cell by cell."""
    level, guard = cpu.capability(), read(path)
    done = {key(cell) for cell in guard["cells"]}
    wanted = [(shape, kind) for shape in SHAPES for kind in kinds if (level, shape.label, kind) not in done]
    for index, (shape, kind) in enumerate(wanted):
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\033[K{level} {index + 1}/{len(wanted)} {shape.label} {kind}")
            sys.stderr.flush()
        seconds = measure(shape, kind, rounds, scale)
        times = {name: round(each * 1e6, 4) for name, each in seconds.items()}
        taken = next(iter(times))
        cell = {"level": level, "shape": shape.label, "kind": kind, "taken": taken, "microseconds": times}
        cell["noise"] = round(abs(math.log(times.pop(AGAIN) / times[taken])), 4)
        cell |= {"date": time.strftime("%Y-%m-%d"), "load": round(os.getloadavg()[0], 1)}
        guard["cells"].append(cell)
        write(path, guard)


def is_busy(guard: Guard, level: str) -> bool:
    """Whether more ran beside at least a tenth of a level's cells than these products."""
    loads = [cell["load"] for cell in guard["cells"] if cell["level"] == level and "load" in cell]
    return sum(load > guard["machine"]["threads"] + 0.5 for load in loads) * 10 > len(loads)


def text_of(times: dict[str, float]) -> str:
    """A cell of the page."""
    (taken, own), *others = times.items()
    text = f"{taken} {number(own)}"
    if not others:
        return text
    name, best = min(others, key=lambda each: each[1])
    multiple = f"{name} {best / own:.2f}"
    return f"{text}, {f'**{multiple}**' if best / own < NEXT_BEST else multiple}"


def part(name: str, guard: Guard, level: str) -> str:
    """One level of one CPU."""
    about, cells = guard["machine"], [cell for cell in guard["cells"] if cell["level"] == level]
    kinds = [kind for kind in KINDS if any(cell["kind"] == kind for cell in cells)]
    shapes = list(dict.fromkeys(cell["shape"] for cell in cells))
    texts = {(cell["shape"], cell["kind"]): text_of(cell["microseconds"]) for cell in cells}
    dates = sorted({cell["date"] for cell in cells if "date" in cell}) or ["date unknown"]
    lines = [f"## {name}, {level}", ""]
    versions = ", ".join(f"{each} {version}" for each, version in about["versions"].items())
    busy = ", busy" if is_busy(guard, level) else ""
    lines += [f"{about['cpu']}, {about['threads']} threads, {about['blas']}, {versions}, commit {about['commit']},"]
    lines += [f"{' to '.join(dict.fromkeys((dates[0], dates[-1])))}{busy}.", ""]
    lines += [f"| shape | {' | '.join(kinds)} |", f"|{'---|' * (len(kinds) + 1)}"]
    lines += [f"| {' | '.join([shape, *(texts.get((shape, kind), '') for kind in kinds)])} |" for shape in shapes]
    return "\n".join(lines) + "\n"


def page(guards: dict[str, Guard]) -> str:
    """All CPUs' files as one page."""
    parts = [
        part(name, guard, level)
        for name, guard in sorted(guards.items())
        for level in cpu.LEVELS
        if any(cell["level"] == level for cell in guard["cells"])
    ]
    return "\n".join([HEAD, *parts])


def _mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else 1.0


def compare(old: Guard, new: Guard, worst: int = 10) -> tuple[str, bool]:
    """The cells that both have, by level, as text; whether a change keeps to the limits."""
    before, lines, kept = {key(cell): cell for cell in old["cells"]}, [], True
    for level in cpu.LEVELS:
        both = [(before[key(cell)], cell) for cell in new["cells"] if cell["level"] == level and key(cell) in before]
        if not both:
            continue
        times = [(a["microseconds"], b["microseconds"]) for a, b in both]
        drift = _mean([b["blas"] / a["blas"] for a, b in times if a.get("blas") and b.get("blas")])
        rows = [(y["microseconds"][y["taken"]] / x["microseconds"][x["taken"]] / drift, x, y) for x, y in both]
        mean = _mean([ratio for ratio, _, _ in rows])
        rows.sort(key=lambda row: -row[0])
        kept = kept and mean <= MOST_MEAN and rows[0][0] <= MOST_CELL
        lines.append(f"{level}: {len(rows)} cells, geometric mean {mean:.3f} (BLAS, divided out: {drift:.3f})")
        lines += [
            f"  {ratio:.2f}  {y['shape']} {y['kind']}: {x['taken']} {number(x['microseconds'][x['taken']])}, "
            f"{y['taken']} {number(y['microseconds'][y['taken']])} us"
            for ratio, x, y in rows[:worst]
            if ratio > 1.02
        ]
    return "\n".join(lines) or "the two files have no cell in common", kept


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rounds; expected an integer of at least 1")
    return int(text)


def gain(cell: Cell) -> float:
    """The next best time as a multiple of that of the way that is taken; 1 where noise may have made the difference."""
    times = cell["microseconds"]
    found = min(each for name, each in times.items() if name != cell["taken"]) / times[cell["taken"]]
    return 1.0 if abs(math.log(found)) < FLOORS * cell.get("noise", 0.0) else found


def worth(guards: dict[str, Guard]) -> str:
    """A line for each way of a level: the verdict, then for each CPU the gain and the number of cells it rests on."""
    groups: dict[tuple[str, str], dict[str, list[float]]] = {}
    for name, guard in guards.items():
        for cell in guard["cells"]:
            if len(cell["microseconds"]) > 1 and cell["taken"] in cell["microseconds"]:
                group = groups.setdefault((cell["level"], cell["taken"]), {})
                group.setdefault(name, []).append(gain(cell))
    lines = []
    for (level, way), by_cpu in sorted(groups.items()):
        gains = {name: _mean(found) for name, found in by_cpu.items()}
        keeps = sum(each >= LEAST_GAIN for each in gains.values())
        verdict = "kept" if keeps > 1 else "one CPU" if len(gains) == 1 else "not kept"
        each = ", ".join(f"{name} {gains[name]:.2f} ({len(found)} cells)" for name, found in by_cpu.items())
        lines.append(f"{level} {way}: {verdict}; {each}")
    return "\n".join(lines)


def _levels(text: str) -> list[str]:
    own = cpu.LEVELS[: cpu.LEVELS.index(cpu.capability()) + 1]
    names = list(own) if text == "all" else text.split(",")
    if unknown := [name for name in names if name not in own]:
        raise argparse.ArgumentTypeError(f"must be all or some of {', '.join(own)}, got {unknown[0]!r}")
    return names


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    name = machine.microarchitecture() or machine.identity()
    add = parser.add_argument
    add("--rounds", type=_positive, help="turns of each implementation (5, or 3 with --quick)")
    add("--levels", type=_levels, default=_levels("all"), help="capabilities, with commas (all of this CPU)")
    add("--quick", action="store_true", help=f"of {', '.join(QUICK)} only, in turns of a quarter of the length")
    add("--resume", action="store_true", help="keep the cells that the file has, and measure the others")
    add("--out", type=Path, default=FOLDER / f"{name}.json", help="the file (%(default)s)")
    add("--against", type=Path, metavar="FILE", help="compare with this file afterwards")
    return parser


def _start(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Make the file that cells are added to. What cannot be read or written is said before the minutes of measuring."""
    try:
        if options.against is not None:
            read(options.against)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        kept = read(options.out)["cells"] if options.out.exists() else []
        if not options.resume:
            kept = [cell for cell in kept if cell["level"] not in options.levels]
        write(options.out, {"machine": about(), "cells": kept})
    except (OSError, ValueError) as problem:
        parser.error(f"argument --out: cannot use {str(options.out)!r} ({problem}); name a file of bench.order")


def _measure(options: argparse.Namespace) -> None:
    kinds, rounds = list(QUICK if options.quick else KINDS), options.rounds or (3 if options.quick else 5)
    for level in options.levels:
        if level == cpu.capability():
            measure_level(options.out, kinds, rounds, 0.25 if options.quick else 1.0)
            continue
        command = [sys.executable, "-m", "bench.order", "--resume", "--levels", level, "--rounds", str(rounds)]
        command += ["--out", str(options.out), *(["--quick"] if options.quick else [])]
        environment = {**os.environ, cpu.VARIABLE: level}
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    if options.out.parent == FOLDER:
        PAGE.write_text(page({path.stem: read(path) for path in FOLDER.glob("*.json")}), encoding="utf-8")


def main() -> int:
    if sys.argv[1:2] == ["worth"]:
        sys.stdout.write(f"{worth({path.stem: read(path) for path in sorted(FOLDER.glob('*.json'))})}\n")
        return 0
    if sys.argv[1:2] == ["compare"]:
        parser = argparse.ArgumentParser(prog="order compare", description=compare.__doc__)
        parser.add_argument("files", type=Path, nargs=2, metavar="FILE")
        try:
            old, new = map(read, parser.parse_args(sys.argv[2:]).files)
        except (OSError, ValueError) as problem:
            parser.error(str(problem))
    else:
        parser = _arguments()
        options = parser.parse_args()
        _start(parser, options)
        _measure(options)
        if options.against is None:
            sys.stdout.write(f"{options.out}\n")
            return 0
        old, new = read(options.against), read(options.out)
    text, kept = compare(old, new)
    sys.stdout.write(f"{text}\n")
    return 0 if kept else 1


if __name__ == "__main__":
    restart_where_held()
    sys.exit(main())
