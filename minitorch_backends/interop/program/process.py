"""One process of a torch program: the mode in each of its threads, counts of its products, and its end.

`enter` runs once, when the process has imported torch. The environment says what to do:

    MINITORCH_TORCH_COUNTS   the folder of the counts. Without it, this process prints the report at its end.
    MINITORCH_TORCH_JSON     the file to which such a process writes its report
    MINITORCH_TORCH_POLICY   a file with the policy, from `Policy.to_json`
    MINITORCH_TORCH_RECORD   a folder: each process captures its kernel calls to a run there

Torch's modes belong to one thread, and so each new thread enters them. It runs in a copy of the context of `enter`,
which has the policy and the observer of the capture. A forked process keeps the modes of the thread that forked; its
counts and its run begin anew.
"""

from __future__ import annotations

import atexit
import multiprocessing.process
import multiprocessing.util
import os
import shutil
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from contextvars import Context, copy_context
from pathlib import Path
from types import TracebackType
from typing import Any

from ...flags.environment import parse_assignments
from ...flags.writes import assign
from ...kernels.runtime.context import warn_caller
from .counts import Counts, Key, note_policy, read_counts, report, text_of

_PACKAGE = str(Path(__file__).parents[2]) + os.sep
_FORWARDING = tuple(
    os.path.join("torch", *file.split("/"))
    for file in ("_ops.py", "overrides.py", "utils/_python_dispatch.py", "_compile.py", "_dynamo/eval_frame.py")
)
"""Files of torch whose functions call our modes, or are called by them."""


class _Process:
    """The state that `enter` set up.

    Attributes:
        counts: what the process counts.
        context: the context that new threads copy.
        ends: what happens at the end of the process.
        start: of its time.
    """

    def __init__(self, folder: str) -> None:
        self.counts, self.ends = Counts(folder), ExitStack()
        self.context: Context | None = None
        self.start = time.perf_counter()


_process: _Process | None = None


def enter(notebook: bool = False) -> None:
    """Run the products of this process on our kernels from now on, in this thread and in those that start later. A
    notebook's has other threads already, and prints its report when it is asked."""
    global _process
    if _process is not None:
        return
    os.environ["TORCHDYNAMO_DISABLE"] = "1"  # torch.compile returns its argument
    folder = os.environ.get("MINITORCH_TORCH_COUNTS")
    _process = _Process(tempfile.mkdtemp(prefix="minitorch-torch-") if folder is None else folder)
    if not notebook and threading.active_count() > 1:
        warn_caller(
            "threads that started before torch was imported compute their products with torch; import torch first"
        )
    if folder is None and not notebook:
        _report_at_the_end()
    atexit.register(_process.ends.close)
    os.register_at_fork(after_in_child=_after_fork)
    _enter_policy(_process)
    _capture(_process)
    _process.context = copy_context()
    _close_with_multiprocessing(_process)
    from .thread_mode import mode_of_thread

    _process.ends.enter_context(mode_of_thread(_add))
    _follow_threads(mode_of_thread)
    _hide_our_frames()


def report_until_now() -> str:
    """The report of this program, before its end."""
    assert _process is not None
    return text_of({**read_counts(_process.counts.folder), "seconds": time.perf_counter() - _process.start})


def _add(key: Key, *amounts: int) -> None:
    assert _process is not None  # another one after a fork
    _process.counts.add(key, *amounts)


def _enter_policy(process: _Process) -> None:
    path = os.environ.get("MINITORCH_TORCH_POLICY")
    if path is None:
        return
    from ...lab import Policy

    policy, folder = Policy.from_json(Path(path).read_text(encoding="utf-8")), process.counts.folder
    policy.__enter__()

    def leave() -> None:
        found = ""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                policy.__exit__()
            except (ValueError, UserWarning) as problem:
                found = str(problem)
        note_policy(folder, found)

    process.ends.callback(leave)


def _capture(process: _Process) -> None:
    """Capture the calls of this process to the folder of the record."""
    folder = os.environ.get("MINITORCH_TORCH_RECORD")
    if folder is None:
        return
    from ...lab import capture

    path = Path(folder, f"process-{os.getpid()}")
    process.ends.callback(lambda: path.replace(_unused(path.parent, _name())))
    process.ends.enter_context(capture(path))


def _name() -> str:
    """A name of this process that another run of the program has too. A forked process gets it after the fork."""
    name, rank = multiprocessing.process.current_process().name, os.environ.get("RANK")
    name = "main" if name == "MainProcess" else name
    return name if rank is None else f"rank{rank}" if name == "main" else f"rank{rank}-{name}"


def _unused(folder: Path, name: str) -> Path:
    """A path in the folder that no process has taken."""
    number = 1
    while True:
        path = folder / (f"{name}.run" if number == 1 else f"{name}-{number}.run")
        try:
            path.open("x").close()
        except FileExistsError:
            number += 1
        else:
            return path


def _follow_threads(mode_of_thread: Callable[..., AbstractContextManager[None]]) -> None:
    """Enter the mode in each thread that starts from now on."""
    bootstrap: Callable[[threading.Thread], None] = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    def with_mode(thread: threading.Thread) -> None:
        with mode_of_thread(_add):
            bootstrap(thread)

    def in_context(thread: threading.Thread) -> None:
        assert _process is not None
        assert _process.context is not None
        _process.context.copy().run(with_mode, thread)

    threading.Thread._bootstrap_inner = in_context  # type: ignore[attr-defined]


def _after_fork() -> None:
    """Count and capture for the child alone."""
    global _process
    assert _process is not None
    _process, context = _Process(_process.counts.folder), _process.context
    _capture(_process)
    _process.context = context if "MINITORCH_TORCH_RECORD" not in os.environ else copy_context()
    atexit.register(_process.ends.close)
    multiprocessing.util.register_after_fork(_process, _close_with_multiprocessing)


def _close_with_multiprocessing(process: _Process) -> None:
    """Have multiprocessing close the process: its children end without atexit."""
    multiprocessing.util.Finalize(None, process.ends.close, exitpriority=0)


def _report_at_the_end() -> None:
    """Print the report when this process ends, after everything that its program does at exit."""
    assert _process is not None
    folder, start, pid = _process.counts.folder, _process.start, os.getpid()
    os.environ["MINITORCH_TORCH_COUNTS"] = folder  # for the processes that this one starts

    def end() -> None:
        if os.getpid() == pid:
            report(folder, time.perf_counter() - start, None, os.environ.get("MINITORCH_TORCH_JSON"))
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)


def _hide_our_frames() -> None:
    """Print tracebacks as they are without the modes."""
    shown, shown_of_thread = sys.excepthook, threading.excepthook

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        _strip(error)
        shown(kind, error, error.__traceback__)

    def show_of_thread(arguments: Any) -> None:
        if arguments.exc_value is not None:
            _strip(arguments.exc_value)
            arguments = threading.ExceptHookArgs(
                (arguments.exc_type, arguments.exc_value, arguments.exc_value.__traceback__, arguments.thread)
            )
        shown_of_thread(arguments)

    sys.excepthook, threading.excepthook = show, show_of_thread


def _strip(error: BaseException) -> None:
    """Remove our frames, and those of torch between them, from the tracebacks of an exception and of its causes."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        waiting += [each.__cause__, each.__context__]
        entries: list[TracebackType] = []
        inside, trace = False, each.__traceback__
        while trace is not None:
            file = trace.tb_frame.f_code.co_filename
            if file.startswith(_PACKAGE):
                inside = True
                while entries and entries[-1].tb_frame.f_code.co_filename.endswith(_FORWARDING):
                    entries.pop()
            elif not (inside and file.endswith(_FORWARDING)):
                inside = False
                entries.append(trace)
            trace = trace.tb_next
        for entry, following in zip(entries, [*entries[1:], None], strict=True):
            entry.tb_next = following
        each.__traceback__ = entries[0] if entries else None


def load_ipython_extension(shell: Any) -> None:
    """Run torch's products on our kernels in all later cells, and define `%minitorch`.

    `%minitorch fp32_precision=tf32 profile=h100` sets flags. `%minitorch` alone prints what has run since the extension
    was loaded, and the products that torch computed itself.
    """
    import torch  # noqa: F401  (the mode is entered after it, and this raises ImportError where it is not installed)

    enter(notebook=True)

    def minitorch(line: str) -> None:
        if line.strip():
            assign(parse_assignments(line.split()))
        else:
            print(report_until_now())  # noqa: T201  (the output of the cell)

    shell.register_magic_function(minitorch, "line", "minitorch")
