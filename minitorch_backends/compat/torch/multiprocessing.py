"""`torch.multiprocessing`: Python's own. Tensors are shared after `share_memory_`; others travel by value, and what a
process writes to these is not seen by others."""

from __future__ import annotations

import multiprocessing as _multiprocessing
from collections.abc import Callable
from multiprocessing import *  # noqa: F403
from typing import Any


def get_all_sharing_strategies() -> set[str]:
    """How tensors travel between processes: by value, whatever torch's strategy."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    """torch's default name."""
    return "file_descriptor"


def set_sharing_strategy(new_strategy: str) -> None:
    """Without effect. Raises ValueError for a name that torch does not have."""
    if new_strategy not in get_all_sharing_strategies():
        raise ValueError(f"set_sharing_strategy(): new_strategy must be one of torch's, got {new_strategy!r}")


def spawn(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> Any:  # fmt: skip
    """Run `fn(index, *args)` in each of `nprocs` processes.

    One process with `join` runs in the caller's. Raises RuntimeError when one of several fails.
    """
    if nprocs == 1 and join:
        fn(0, *args)
        return None
    context: Any = _multiprocessing.get_context(start_method)
    processes = [context.Process(target=fn, args=(index, *args), daemon=daemon) for index in range(nprocs)]
    for process in processes:
        process.start()
    if not join:
        return processes
    for process in processes:
        process.join()
    if failed := [index for index, process in enumerate(processes) if process.exitcode]:
        raise RuntimeError(f"spawn(): processes {failed} of {nprocs} failed; their tracebacks are above")
    return None
