"""Fresh Python processes, for what can be seen only once, as imports and the environment; and fresh threads."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from minitorch_backends.kernels.runtime import cpu


class Printed(NamedTuple):
    """The output of a process on its two streams."""

    out: str
    error: str


CACHE = "MINITORCH_CACHE_DIR"

PATIENCE = 600
"""Seconds until a process counts as hanging. With no kernel compiled yet, on a busy machine, the README's takes 120."""


def python(code: str, **environment: str) -> Printed:
    """Run `code` in a new interpreter with these environment variables and otherwise none of this package's but the
    folder of compiled code; warnings are errors as in the suite."""
    return _run(["-c", code], environment)


def run_script(path: Path) -> Printed:
    """Run a file in the same way in its folder, at the CPU capability of this process."""
    environment = {name: os.environ[name] for name in (cpu.VARIABLE, cpu.EMULATION) if name in os.environ}
    return _run([str(path)], environment, path.parent)


def _run(arguments: list[str], environment: dict[str, str], folder: Path | None = None) -> Printed:
    clean = {name: value for name, value in os.environ.items() if name == CACHE or not name.startswith("MINITORCH_")}
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        env=clean | environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return Printed(done.stdout, done.stderr)


def in_thread(function: Callable[[], Any]) -> Any:
    """The result of a function in a thread of its own."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]
