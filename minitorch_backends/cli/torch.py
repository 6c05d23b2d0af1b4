"""Run a torch program, unmodified, with its products on the kernels of this package, under flags.

  minitorch-backends torch --flag fp32_precision=tf32 train.py --epochs 3
  minitorch-backends torch --profile h100 --json report.json -m package.module
  MINITORCH_TORCH=1 MINITORCH_FP32_PRECISION=bf16 torchrun --nproc-per-node 2 train.py

The program runs as under `python`, with its threads and the Python processes that it starts; `torch.compile` returns
what it is given. At the end, stderr lists what ran at what precision, and the products that torch computed itself. The
exit code is the program's; 1 if that is 0 and a policy fits no module or changes nothing. With MINITORCH_TORCH=1 in the
environment, any Python process does the same; flags come from MINITORCH_ variables, a JSON file, policy and record from
MINITORCH_TORCH_JSON, MINITORCH_TORCH_POLICY and MINITORCH_TORCH_RECORD.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from ..flags import rows
from ..flags.environment import parse_assignments
from .common import UsageError, usage_errors

HELP = "run a torch program under flags"

_FORWARDED = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--flag", metavar="NAME=VALUE", action="append", default=[], help="a flag, as fp32_precision=tf32")
    add("--profile", metavar="DEVICE", help="the device whose matrix unit sums products, as h100")
    add("--recipe", metavar="NAME", help="a named set of formats of operands, as te-mxfp8")
    add("--policy", metavar="PATH", help="flags by module, from `minitorch-backends audit --policy`")
    add("--record", metavar="DIR", help="capture the kernel calls of each process to a run in this new folder")
    add("--json", metavar="PATH", help="write the report for programs")
    add("-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE", help="run a module, with its arguments")
    add("program", nargs=argparse.REMAINDER, metavar="SCRIPT ...", help="a script, and its arguments")


def run(options: argparse.Namespace) -> int:
    command = ["-m", *options.module] if options.module is not None else options.program
    if not command or command == ["-m"]:
        raise UsageError("a script, or -m and a module, must follow the options")
    if importlib.util.find_spec("torch") is None:
        raise UsageError("torch is not installed: pip install 'minitorch-backends[torch]'")
    environment = {**os.environ, **_variables(options)}
    folder = environment["MINITORCH_TORCH_COUNTS"] = tempfile.mkdtemp(prefix="minitorch-torch-")
    from ..interop.program.counts import report

    try:
        start = time.perf_counter()
        status = _run(command, environment)
        code = os.waitstatus_to_exitcode(status)
        with usage_errors():
            found = report(folder, time.perf_counter() - start, code, options.json)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if code < 0:  # end in the same way, for the shell to see
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code or int(bool(found["problems"]))


def _variables(options: argparse.Namespace) -> dict[str, str]:
    """The environment variables of the program's processes. Raises UsageError for options that they would reject."""
    from ..interop.program import startup

    path = [*startup.__path__, *filter(None, [os.environ.get("PYTHONPATH")])]
    found = {"MINITORCH_TORCH": "1", "PYTHONPATH": os.pathsep.join(path), **_flags(options)}
    with usage_errors():
        if options.policy:
            from ..lab import Policy

            Policy.from_json(Path(options.policy).read_text(encoding="utf-8"))
            found["MINITORCH_TORCH_POLICY"] = os.path.abspath(options.policy)
        if options.record:
            Path(options.record).mkdir(parents=True, exist_ok=True)
            if any(Path(options.record).iterdir()):
                raise UsageError(f"--record must be a new folder, got {options.record!r} with files")
            found["MINITORCH_TORCH_RECORD"] = os.path.abspath(options.record)
        if options.json:
            Path(options.json).touch()
            options.json = os.path.abspath(options.json)
    return found


def _flags(options: argparse.Namespace) -> dict[str, str]:
    named = {"profile": options.profile, "operands.recipe": options.recipe}
    texts = options.flag + [f"{path}={value}" for path, value in named.items() if value is not None]
    with usage_errors():
        parse_assignments(texts)
    pairs = (text.split("=", 1) for text in texts)
    return {rows[path].environment: value for path, value in pairs}


def _run(command: list[str], environment: dict[str, str]) -> int:
    """Run Python with these arguments, and wait. Returns its status, as `os.waitpid` does.

    Signals from a terminal reach the program by themselves, since it is of the same process group. Those that a process
    sends to this one are passed on.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_FORWARDED, signal.SIGCHLD})
    try:
        child = os.posix_spawn(sys.executable, [sys.executable, *command], environment, setsigmask=before)
        while True:
            found = signal.sigwaitinfo({*_FORWARDED, signal.SIGCHLD})
            if found.si_signo == signal.SIGCHLD:
                ended, status = os.waitpid(child, os.WNOHANG)
                if ended:
                    return status
            elif found.si_pid:
                os.kill(child, found.si_signo)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
