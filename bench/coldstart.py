"""`python -m bench.coldstart`: what first calls take, each in a new process with an empty code store.

The parts of a first call are the import of the package, Numba's own import, typing and lowering, LLVM, and the rest,
which is the run itself and the loading of what it needs. All are CPU seconds of the process, so that other work on the
machine changes little. `--warm` runs each call once more, in another new process with the store that the first filled.
With `--wheel FILE` all run from an installed wheel, with an empty home folder, where compiling is forbidden; so do
imports, beside those of NumPy and torch (`imports`).
"""

from __future__ import annotations

import argparse
import compileall
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from . import imports
from .presentation import Table
from .session import Session

_SQUARE = "x, y = new(512, 512), new(512, 512)"
_SYSTEM = "x, y = mt.tensor(np.float32(numbers.normal(size=(400, 400)) + 400 * np.eye(400))), new(400, 3)"
_IMAGES = "x, w = new(2, 32, 28, 28).requires_grad_(), new(32, 32, 3, 3).requires_grad_()"
_HEADS = "q, k, v = (new(2, 4, 128, 64).requires_grad_() for _ in range(3))"
_CLASSES = "x, t = new(32, 256).requires_grad_(), mt.tensor(np.arange(32))"
_LAYER = "net = nn.Linear(512, 512); net.weight.grad = new(512, 512); optimizer = mt.optim.Adam([net.weight])"

CALLS: dict[str, tuple[str, str]] = {
    "matmul 8": ("x = new(8, 8)", "x @ x"),
    "matmul 512": (_SQUARE, "x @ y"),
    "matmul 512, tf32": (_SQUARE, "mt.set_float32_matmul_precision('high'); x @ y"),
    "matmul 512, bf16": (_SQUARE, "mt.set_float32_matmul_precision('medium'); x @ y"),
    "matmul of a batch": ("x = new(64, 40, 40)", "x @ x.mT"),
    "linear, 2 rows": ("x, w = new(2, 700), new(700, 700)", "F.linear(x, w)"),
    "conv2d 3 x 3": (_IMAGES, "with mt.no_grad(): F.conv2d(x, w, padding=1)"),
    "conv2d 3 x 3, backward": (_IMAGES, "F.conv2d(x, w, padding=1).sum().backward()"),
    "conv2d, depthwise": ("x, w = new(2, 32, 28, 28), new(32, 1, 3, 3)", "F.conv2d(x, w, groups=32)"),
    "attention": (_HEADS, "with mt.no_grad(): F.scaled_dot_product_attention(q, k, v)"),
    "attention, backward": (_HEADS, "F.scaled_dot_product_attention(q, k, v).sum().backward()"),
    "lstm": ("x, net = new(6, 4, 16), nn.LSTM(16, 32)", "net(x)"),
    "fft 1000": ("x = new(8, 1000)", "mt.fft.rfft(x)"),
    "fft2 64 x 64": ("x = new(4, 64, 64)", "mt.fft.fft2(x)"),
    "solve 400": (_SYSTEM, "mt.linalg.solve(x, y)"),
    "solve, batch of 8 x 8": ("x, y = new(32, 8, 8), new(32, 8, 2)", "mt.linalg.solve(x, y)"),
    "qr 400": (_SYSTEM, "mt.linalg.qr(x)"),
    "cholesky 400": (f"{_SYSTEM}; x = mt.tensor(x.numpy() + x.numpy().T)", "mt.linalg.cholesky(x)"),
    "layer_norm": ("x = new(32, 256)", "F.layer_norm(x, (256,))"),
    "cross_entropy, backward": (_CLASSES, "F.cross_entropy(x, t).backward()"),
    "sum": ("x = new(512, 512)", "x.sum()"),
    "gelu": ("x = new(512, 512)", "F.gelu(x)"),
    "max_pool2d": ("x = new(2, 64, 56, 56)", "F.max_pool2d(x, 2)"),
    "Adam step": (_LAYER, "optimizer.step()"),
}
"""First calls of all families: what is prepared, without a kernel, and what is measured."""

_SCRIPT = """
import json, sys, time
import numpy as np
start = time.process_time()
import minitorch_backends as mt
from minitorch_backends.kernels.runtime import store
from minitorch_backends import nn
from minitorch_backends.nn import functional as F
imported = time.process_time()
numbers = np.random.default_rng(0)
new = lambda *shape: mt.tensor(np.float32(numbers.normal(size=shape)))
exec(sys.argv[1])
counts = store.activity
before = time.process_time(), counts.compiled, counts.lowering_seconds, counts.llvm_seconds
exec(sys.argv[2])
after = time.process_time(), counts.compiled, counts.lowering_seconds, counts.llvm_seconds
total, compiled, lowering, llvm = (late - early for late, early in zip(after, before))
print(json.dumps({
    "import": imported - start, "first": total, "lowering": lowering, "llvm": llvm,
    "rest": total - lowering - llvm, "signatures": compiled, "numba": "numba" in sys.modules,
}))
"""


def measure(name: str, folder: str) -> dict[str, Any]:
    """The CPU seconds of a first call, and of its parts, in a new process whose code store is `folder`."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment = {**kept, "MINITORCH_CACHE_DIR": folder}
    command = [sys.executable, "-c", _SCRIPT, *CALLS[name]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr.strip().splitlines()[-1]}")
    return {"call": name, **json.loads(done.stdout.splitlines()[-1])}


def _write_bytecode() -> None:
    """Write bytecode as pip does when it installs a package: without it an import takes twice as long."""
    for package in ("minitorch_backends", "minitorch_backends.kernels"):
        compileall.compile_dir(os.path.dirname(importlib.import_module(package).__file__ or ""), quiet=1)


def tables(rows: list[list[dict[str, Any]]]) -> Iterator[Table]:
    """One table of the calls with an empty store, and one of those with what they left in it."""
    columns = "call", "first call", "typing, lowering", "LLVM", "rest", "signatures"
    for title, those in zip(("Empty code store", "Filled code store"), zip(*rows, strict=True), strict=False):
        parts = "first", "lowering", "llvm", "rest"
        cells = [(row["call"], *(f"{row[part]:.2f}" for part in parts), str(row["signatures"])) for row in those]
        first = [row["first"] for row in those]
        total = ("median, sum", f"{median(first):.2f}", *[""] * 2, f"{sum(first):.2f}", "")
        caption = f"{title}: CPU seconds, beside {median(row['import'] for row in those):.2f} of the import"
        yield Table(caption, columns, [*cells, (), total])


def _use_wheel(wheel: Path, folder: Path) -> None:
    """Have the processes to come run from a wheel, with nothing of this user's."""
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder / "site"), str(wheel)]
    subprocess.run(pip, check=True)
    os.environ |= {"PYTHONPATH": str(folder / "site"), "HOME": str(folder), "MINITORCH_COMPILE": "never"}
    os.chdir(folder)  # away from the checkout


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.coldstart", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("calls", nargs="*", help="parts of the names of calls (all)")
    parser.add_argument("--warm", action="store_true", help="run each once more with the store filled")
    parser.add_argument("--wheel", metavar="FILE", type=Path, help="run from this wheel, where nothing may be compiled")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the numbers there")
    options = parser.parse_args()
    names = [name for name in CALLS if not options.calls or any(part in name for part in options.calls)]
    session, file = Session(), options.json and options.json.absolute()
    with tempfile.TemporaryDirectory() as folder:
        if options.wheel:
            session.say(f"{options.wheel}: {options.wheel.stat().st_size / 1e6:.1f} MB")
            _use_wheel(options.wheel.absolute(), Path(folder))
        else:
            _write_bytecode()
        rows = []
        with session.progress("coldstart") as report:
            for name in names:
                report(len(rows) / len(names), name)
                with tempfile.TemporaryDirectory() as store:
                    rows.append([measure(name, store) for _ in range(1 + options.warm)])
        for table in tables(rows):
            session.show(table)
        imported = imports.run(session) if options.wheel else None
        os.chdir(os.path.dirname(folder))
    for table in imports.tables(imported) if imported else ():
        session.show(table)
    if file:
        file.write_text(json.dumps({"calls": rows, "imports": imported}, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
