"""Compile kernels ahead of their first calls, into the code store shared by all processes of this user.

  minitorch-backends compile --families matmul,conv --precisions ieee,tf32,bf16 --jobs 4

Kernels already in the store are only loaded. `minitorch-backends env` prints the store's location and contents.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, NamedTuple

from .common import positive, write, write_json

HELP = "compile kernels ahead of their first calls"


class _Job(NamedTuple):
    level: str
    family: str
    precision: str

    def __str__(self) -> str:
        return f"{self.family} at {self.precision}, {self.level}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from ..kernels.precisions.products import PRECISIONS
    from ..kernels.runtime import cpu
    from .families import FAMILIES

    own = cpu.LEVELS[1 : cpu.LEVELS.index(cpu.detect()) + 1]
    add = parser.add_argument
    add("--families", type=_some_of(list(FAMILIES)), default=list(FAMILIES), help=f"of {', '.join(FAMILIES)} (all)")
    add("--precisions", type=_some_of(list(PRECISIONS)), default=["ieee", "tf32", "bf16"],
        help="of float32 products (ieee,tf32,bf16)")  # fmt: skip
    add("--levels", type=_levels(list(own)), default=[cpu.capability()],
        help=f"CPU capabilities, of {', '.join(own)}, or all ({cpu.capability()})")  # fmt: skip
    add(
        "--jobs", metavar="N", type=positive, default=1, help="number of processes that compile at a time (%(default)s)"
    )


def _some_of(known: list[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        for name in text.split(","):
            if name not in known:
                raise argparse.ArgumentTypeError(f"must be some of {', '.join(known)}, with commas, got {name!r}")
        return list(dict.fromkeys(text.split(",")))

    return parse


def _levels(own: list[str]) -> Callable[[str], list[str]]:
    return lambda text: own if text == "all" else _some_of(own)(text)


def run(options: argparse.Namespace) -> int:
    from ..kernels.runtime import store
    from ..lab.progress import Progress
    from .families import FAMILIES

    def missing() -> int:
        return store.contents().files

    jobs = [
        _Job(level, family, precision)
        for level in options.levels
        for family in options.families
        for precision in (options.precisions if FAMILIES[family].precisions else ["ieee"])
    ]
    before, rows = missing(), []
    with ThreadPoolExecutor(options.jobs) as pool, Progress("compile", len(jobs)) as bar:
        running = [pool.submit(_run, job) for job in jobs]
        try:
            for done in as_completed(running):
                rows.append(done.result())
                bar.advance(rows[-1]["family"])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    rows.sort(key=lambda row: jobs.index(_Job(row["level"], row["family"], row["precision"])))
    found = {"folder": str(store.cache_folder()), "files": missing(), "added": missing() - before, "jobs": rows}
    if options.json:
        write_json(found)
    else:
        write(_text(found))
    return int(any(row["error"] for row in rows))


def _run(job: _Job) -> dict[str, Any]:
    """Compile in a separate process, limited to the capability level from its start."""
    from ..kernels.runtime import cpu

    start = time.perf_counter()
    command: Sequence[str] = [sys.executable, "-m", "minitorch_backends.cli.families", job.family, job.precision]
    environment = {**os.environ, cpu.VARIABLE: job.level}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    error = done.stderr.strip().splitlines()[-1:] if done.returncode else []
    return {**job._asdict(), "seconds": time.perf_counter() - start, "error": error[0] if error else None}


def _text(found: dict[str, Any]) -> str:
    lines = [
        f"{_Job(row['level'], row['family'], row['precision'])}: {row['error'] or format(row['seconds'], '.1f') + ' s'}"
        for row in found["jobs"]
    ]
    return "\n".join([*lines, f"{found['added']} files added, {found['files']} in {found['folder']}"])
