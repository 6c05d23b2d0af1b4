"""Which implementation of the product is taken for each precision and size, and what the others take there.

    python -m bench.order                    # some minutes; rewrites this CPU's part of bench/ORDER.md

For each shape and precision every implementation runs that may: those that do not refuse, and beside them, whatever
they say, the loops over packed panels and BLAS, which take every shape. Turns are interleaved, figures are medians. A
cell of the table has what is taken, its microseconds, and the next best with its time as a multiple of that: a
multiple below 1 is a choice that was not the best here.

Parts of the file are by capability, so that one machine replaces only what it has measured.
"""

from __future__ import annotations

import argparse
import functools
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from minitorch_backends.kernels import cpu
from minitorch_backends.kernels.gemm import blas, compiled, matmul
from minitorch_backends.kernels.precision import PRECISIONS
from minitorch_backends.kernels.registry import ArraySpec

from . import environment
from .kernels import Contestant, Shape, operands, positive, race
from .tables import number
from .timing import OPENBLAS_REST

FILE = Path(__file__).parent / "ORDER.md"

SHAPES = [
    *(Shape("square", n, n, n) for n in (8, 16, 32, 64, 96, 128, 256, 512, 1024)),
    *(Shape("rows", m, 1024, 1024) for m in (1, 2, 8, 32, 128)),
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
    **{precision: (np.float32, precision) for precision in PRECISIONS},
    **{np.dtype(each).name: (each, "ieee") for each in (np.float64, np.float16, ml_dtypes.bfloat16)},
    "complex64, tf32": (np.complex64, "tf32"),
    "int32": (np.int32, "ieee"),
}
"""Columns of the table: a precision of float32 products, or another dtype."""

NEXT_BEST = 0.9
"""The multiple below which a cell is marked: what two runs differ by on a shared machine."""


HEAD = f"""# The order of implementations, measured

`python -m bench.order` makes this file. For each shape (float32 unless the column says otherwise) and precision: the
implementation that is taken, its microseconds, and the next best with its time as a multiple. A multiple below
{NEXT_BEST} is bold: there the choice was not the best on that machine. Where only one is named no other takes the call.
"""


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
    for name, run in runs.items():
        yield Contestant(name, functools.partial(run, a, b), OPENBLAS_REST if name == "blas" else 0.0)


def measured(shape: Shape, kind: str, rounds: int) -> dict[str, float]:
    """Median seconds by implementation, that which is taken first."""
    dtype, precision = KINDS[kind]
    return race(list(contestants(*operands(shape).arrays(dtype), precision)), rounds)


def cell(seconds: dict[str, float]) -> str:
    (taken, own), *others = seconds.items()
    text = f"{taken} {number(own * 1e6)}"
    if not others:
        return text
    name, best = min(others, key=lambda each: each[1])
    multiple = f"{name} {best / own:.2f}"
    return f"{text}, {f'**{multiple}**' if best / own < NEXT_BEST else multiple}"


def table(rounds: int) -> list[list[str]]:
    """The names of the columns, then a row for each shape; tells the terminal how far it is."""
    rows, total = [["shape", *KINDS]], len(SHAPES) * len(KINDS)
    for index, shape in enumerate(SHAPES):
        cells = [shape.label]
        for place, kind in enumerate(KINDS):
            if sys.stderr.isatty():
                sys.stderr.write(f"\r{index * len(KINDS) + place + 1}/{total} {shape.label} {kind:<20}")
                sys.stderr.flush()
            cells.append(cell(measured(shape, kind, rounds)))
        rows.append(cells)
    return rows


def part(rows: list[list[str]]) -> str:
    """This machine's part of the file."""
    about = environment.collect()
    versions = ", ".join(f"{name} {about['versions'][name]}" for name in ("numpy", "numba"))
    machine = f"{about['cpu']}, {about['threads']['minitorch_backends']} threads, {about['blas']}, {versions}"
    lines = [f"## {cpu.capability()}", "", f"{machine}, commit {about['commit']}.", ""]
    head, *body = [f"| {' | '.join(row)} |" for row in rows]
    lines += [head, f"|{'---|' * len(rows[0])}", *body]
    return "\n".join(lines) + "\n"


def replaced(file: str, new: str) -> str:
    """The text of the file with a part in the place of that of the same title, or at the end."""
    _, *parts = re.split(r"^(?=## )", file, flags=re.MULTILINE)
    kept = {each.partition("\n")[0]: each.rstrip() + "\n" for each in (*parts, new)}
    return "\n".join([HEAD, *kept.values()])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=positive, default=5)
    arguments.add_argument("--out", type=Path, default=FILE)
    chosen = arguments.parse_args()
    try:
        before = chosen.out.read_text(encoding="utf-8") if chosen.out.exists() else ""
        chosen.out.touch()  # what cannot be written is said before the minutes of measuring
    except (OSError, UnicodeDecodeError) as problem:
        arguments.error(f"argument --out: cannot rewrite {str(chosen.out)!r} ({problem}); name a text file")
    new = part(table(chosen.rounds))
    chosen.out.write_text(replaced(before, new), encoding="utf-8")
    sys.stdout.write(f"\n{new}\n{chosen.out}\n")


if __name__ == "__main__":
    main()
