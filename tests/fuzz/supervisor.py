"""Worker processes, and what they find."""

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import NamedTuple

from .worker import SECONDS

__all__ = ["Find", "fuzz", "watch"]

CASES = 2000
"""How many cases one process runs, before a fresh one takes over."""


class Find(NamedTuple):
    """A case with a fault."""

    code: str
    fault: str

    @property
    def kind(self) -> str:
        """The fault without the values, by which finds are told apart."""
        return re.sub(r"\d+(?!\d*:)|'[^']*'|\[[^]]*\]|\([^)]*\)", "*", self.fault)[:160]


def fuzz(seed: int, start: int = 0, count: int = 0, seconds: float = 0, only: str = "") -> Iterator[Find | int]:
    """Run `count` cases, or as many as `seconds` allow; yield the finds, and after each process its number of cases."""
    end, ran = time.monotonic() + seconds, 0
    while ran < count or time.monotonic() < end:
        numbers = seed, start + ran, min(count - ran, CASES) if count else CASES
        for find in watch([sys.executable, "-m", "tests.fuzz.worker", *map(str, numbers), only]):
            if isinstance(find, int):
                ran += find
            yield find


def watch(command: list[str]) -> Iterator[Find | int]:
    """Run a worker; yield the finds, at last the number of cases."""
    ran, code, finished = 0, "", False
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
            for line in process.stdout:  # type: ignore[union-attr]
                record = json.loads(line)
                if "code" in record:
                    code, ran = record["code"], ran + 1
                elif "fault" in record:
                    yield Find(code, record["fault"])
                finished = finished or "done" in record
            status = process.wait()
        errors.seek(0)
        trace = errors.read()
    if not finished:
        if not code:
            raise RuntimeError(f"the worker does not start: {trace}")
        lines = [line.strip() for line in trace.splitlines() if "File" in line or "Error" in line]
        kind = f"took more than {SECONDS} s" if "Timeout" in trace else f"killed the process, status {status}"
        yield Find(code, f"{kind}: {' < '.join(lines[:6])}")
    yield ran
