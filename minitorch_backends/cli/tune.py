"""Measure from which sizes one way of a product is faster than another on this machine, and keep that for this user.

  minitorch-backends tune                  # some minutes; goes on where an interrupted run ended
  minitorch-backends tune --dry-run        # measure and print, and write nothing
  minitorch-backends tune --reset          # go back to the built-in thresholds

Every process of this user that starts afterwards takes its products by these thresholds, on CPUs of the same model.
MINITORCH_CONFIG_DIR names another folder for the file than ~/.config/minitorch_backends. Measure while nothing else
runs. Results stay within their error bounds, and may differ in their last bits from those by the built-in thresholds.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from .common import positive, usage_errors, write, write_json

HELP = "measure this machine's thresholds of matrix products"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--rounds", metavar="N", type=positive, default=7, help="turns of each way at each size (%(default)s)")
    add("--fresh", action="store_true", help="forget what an interrupted run measured")
    add("--dry-run", action="store_true", help="write nothing")
    add("--reset", action="store_true", help="remove the file, and measure nothing")


def run(options: argparse.Namespace) -> int:
    from ..kernels.block import tuning_file

    with usage_errors():
        file = tuning_file.path()
        partial = file.with_suffix(".partial")
        if options.reset:
            there = file.exists()
            for path in (file, partial):
                path.unlink(missing_ok=True)
            _print(options, {"file": str(file), "removed": there}, "removed" if there else "no file")
            return 0
        if not options.dry_run:
            tuning_file.writable()  # says before the minutes of measuring what is wrong
        if options.fresh:
            partial.unlink(missing_ok=True)
        found = _measure(options.rounds, partial)
        if not options.dry_run:
            found["file"] = str(tuning_file.write(found))
            partial.unlink(missing_ok=True)
    _print(options, found, _text(found))
    return 0


def _measure(rounds: int, partial: Any) -> dict[str, Any]:
    """The content of the file, with all that was measured."""
    from ..kernels.runtime import machine, threading
    from ..lab.crossovers import crossovers, measure, path_of
    from ..lab.machine import cpu_name
    from ..lab.progress import Progress

    chosen = crossovers()
    with Progress("tune", sum(len(path_of(each)) for each in chosen), show=True) as bar:
        fitted = measure(chosen, partial, rounds, bar.advance)
    rows: dict[str, dict[str, float]] = {}
    for each in fitted:
        if each.value != each.crossover.built_in:
            rows.setdefault(each.crossover.isa, {})[each.crossover.field] = each.value
    measured = {
        each.crossover.name: {
            "built in": each.crossover.built_in,
            "threshold": each.value,
            "gain": round(each.gain, 3),
            "kind": " ".join(each.crossover.kind),
            "ways": [each.crossover.below, each.crossover.above],
            "points": [
                [at.value, f"[{at.m}, {at.k}] @ [{at.k}, {at.n}]", below, above] for at, below, above in each.points
            ],
        }
        for each in fitted
    }
    return {
        "date": time.strftime("%Y-%m-%d"), "cpu": cpu_name(), "microarchitecture": machine.microarchitecture(),
        "caches": str(machine.caches()), "threads": threading.get_num_threads(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None, "rows": rows, "measured": measured,
    }  # fmt: skip


def _print(options: argparse.Namespace, found: dict[str, Any], text: str) -> None:
    if options.json:
        write_json(found)
    else:
        write(text)


def _text(found: dict[str, Any]) -> str:
    width = max(map(len, found["measured"]))
    lines = [f"{'threshold'.ljust(width)}  {'built in':>12}  {'here':>12}  faster by"]
    for name, row in found["measured"].items():
        gain = f"{row['gain']:.2f}" if row["threshold"] != row["built in"] else "stays"
        lines.append(f"{name.ljust(width)}  {row['built in']:>12,}  {row['threshold']:>12,}  {gain}")
    lines.append(found.get("file") or "nothing was written")
    if found["load"] and found["load"] > found["threads"] + 0.5:
        lines.append(f"the load was {found['load']:.1f}: measure again when nothing else runs")
    return "\n".join(lines)
