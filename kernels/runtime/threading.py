"""How many threads kernels use, and the pool that they wait in. Compiled kernels take both as arguments of `launch`.

The threads of the pool are daemon threads of Python that enter one compiled function (`pool_code`) and stay in it,
without the interpreter lock. They are started by the first product that is large enough to share. A forked child
starts its own.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from pathlib import Path

import numpy as np

from . import machine
from .locks import lock

_CGROUP = Path("/sys/fs/cgroup")


def _quota(folder: Path) -> float:
    """CPUs that a control group of version 2 or 1 may use; infinity where it says nothing."""
    try:
        try:
            quota, period = (folder / "cpu.max").read_text().split()
        except FileNotFoundError:
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        cpus = float(quota) / float(period)
    except (OSError, ValueError, ZeroDivisionError):  # "max" says no limit
        return math.inf
    return cpus if cpus > 0 else math.inf


def _cgroup_limit(root: Path = _CGROUP, own: Path = Path("/proc/self/cgroup")) -> float:
    """The smallest quota of the process's control group and its ancestors."""
    try:
        lines = os.fsdecode(own.read_bytes()).splitlines()
    except OSError:
        lines = []
    folders = {root, root / "cpu"}
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers or "cpu" in controllers.split(","):
            base, group = root / "cpu" if controllers else root, Path(path.lstrip("/"))
            folders |= {base / part for part in (group, *group.parents)}
    return min(map(_quota, folders))


def available_cpus() -> int:
    """CPUs that this process may run on: those of its affinity mask, within its control group's quota."""
    return max(1, math.ceil(min(len(machine.granted_cpus()), _cgroup_limit())))


def available_cores() -> int:
    """Physical cores that this process may use: those of its affinity mask, within its control group's quota."""
    return max(1, math.ceil(min(machine.cores(), _cgroup_limit())))


def _default_threads() -> int:
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return min(available_cpus(), int(wanted)) if wanted.isdigit() and int(wanted) > 0 else available_cores()


_PATIENCE, _SPINS = 3e-4, 2000
"""Seconds for which a thread without work spins: what Python takes between two kernels, and more; and spins by which
their time is measured."""


def _spins(spin: Callable[[int, int], None], pool: int) -> int:
    """How often a thread spins in that time, for CPUs differ by a factor of ten (8 ns a spin here)."""
    shortest = math.inf
    for _ in range(3):
        start = time.perf_counter()
        spin(pool, _SPINS)
        shortest = min(shortest, time.perf_counter() - start)
    return max(1, int(_SPINS * _PATIENCE / shortest))


class _Pool:
    """The state that threads share, and the threads that were started."""

    def __init__(self) -> None:
        from . import pool_code

        self._memory = np.zeros(pool_code.state_bytes(MOST_THREADS) // 8 + 8, np.int64)
        self.address = -(-self._memory.ctypes.data // 64) * 64
        first = (self.address - self._memory.ctypes.data) // 8
        code = pool_code.code()
        self._work = code.work
        self._memory[first + pool_code.START // 8] = code.start
        self._memory[first + pool_code.PATIENCE // 8] = _spins(code.spin, self.address)
        self.threads = 1

    def grow(self, threads: int) -> None:
        """Start the missing threads, as many as the system allows and no more than useful: each takes memory mappings,
        and without free ones the process could not load the next kernel."""
        while self.threads < min(threads, MOST_THREADS):
            number = self.threads
            worker = threading.Thread(
                target=self._work, args=(self.address, number), name=f"minitorch-{number}", daemon=True
            )
            self.threads += 1  # before it starts: no other thread has this number, also where `start` is interrupted
            try:
                Context().run(worker.start)  # it serves all callers, and is to inherit nothing of this one
            except RuntimeError:  # no more threads for this process, or the interpreter is ending
                self.threads = number
                return


MOST_THREADS = max(256, os.cpu_count() or 1)

when_changed: list[Callable[[], None]] = []
"""What is called when the number of threads has been set."""

_threads: int | None = None
_pool: _Pool | None = None
_growing = lock()


def get_num_threads() -> int:
    """Threads that one kernel may use. The default is the number of physical cores that the process may use, since two
    threads of a core share its units; OMP_NUM_THREADS sets another one, up to the number of CPUs."""
    global _threads
    if _threads is None:
        _threads = _default_threads()
    return _threads


def set_num_threads(threads: int) -> None:
    """Set the number of threads of kernels in the whole process; at most `MOST_THREADS` are started.

    Results do not depend on it. Cached decisions that depend on the number, such as memory limits, are dropped. Raises
    TypeError for anything but an int, ValueError below 1.
    """
    global _threads
    if isinstance(threads, bool) or not isinstance(threads, int):
        raise TypeError(f"set_num_threads: {threads!r} is not a number of threads; expected an int of at least 1")
    if threads < 1:
        raise ValueError(f"set_num_threads: {threads} is not a number of threads; expected an int of at least 1")
    _threads = threads
    for forget in when_changed:
        forget()


@contextmanager
def num_threads(threads: int | None = None) -> Iterator[None]:
    """Restore the number of threads after the block, which runs with `threads` if that is given."""
    before = get_num_threads()
    try:
        if threads is not None:
            set_num_threads(threads)
        yield
    finally:
        set_num_threads(before)


def pool() -> tuple[int, int]:
    """The address of the pool for `launch`, and the number of threads to use. Starts missing threads."""
    global _pool
    threads = get_num_threads()
    if threads == 1:
        return 0, 1
    if _pool is None or _pool.threads < min(threads, MOST_THREADS):
        with _growing:
            if _pool is None:
                _pool = _Pool()
            _pool.grow(threads)
    return _pool.address, min(threads, _pool.threads)


def _forget_in_child() -> None:
    """The threads of the pool do not exist in a forked child."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
