"""Jobs over groups of small matrices: what their tasks are given, and how a batch is shared out among threads."""

from __future__ import annotations

import functools
from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np

from ..runtime.jit import njit, subroutine
from ..runtime.launch import launch
from ..runtime.raw_memory import get
from ..runtime.threading import pool
from ..runtime.workspace import Workspace, address_of
from .lanes import VECTOR_BYTES, Float32, Float64, PlainFloat32, PlainFloat64

TASKS_PER_THREAD = 4
"""Tasks are handed out one by one, so that a thread that is held up does not hold up the others."""


class Group(NamedTuple):
    """What every task of a job is given; a subclass has, as `run`, the function (task, worker, group). `at` is the
    address of the numbers of `Details`, which a call with many arguments would take 10 us to hand over."""

    tag: Any
    at: int


Details = namedtuple("Details", "tag m n k options count a b x y z info workspace workspace_bytes groups")
"""Addresses a, b are those of the arguments, x, y, z, info those of the results, of `count` matrices each. Each job
defines m, n, k and the options. A task is so many groups; each worker has its own workspace."""


_ARRAYS = ("a", "b", "x", "y", "z", "info")


@subroutine
def details(group):
    at = group.at
    return Details(
        group.tag, get(at, 0), get(at, 1), get(at, 2), get(at, 3), get(at, 4), get(at, 5), get(at, 6), get(at, 7),
        get(at, 8), get(at, 9), get(at, 10), get(at, 11), get(at, 12), get(at, 13),
    )  # fmt: skip


@njit
def _run_groups(pool, threads, tasks, job):
    launch(pool, threads, tasks, job)


@functools.cache
def tag_of(dtype: np.dtype) -> Any:
    from ..runtime import cpu

    plain = cpu.capability() == "portable"
    if dtype.itemsize == 4:
        return PlainFloat32() if plain else Float32()
    return PlainFloat64() if plain else Float64()


def run(
    job: type[Group], dtype: np.dtype, count: int, vectors: int, *, m: int = 0, n: int = 0, k: int = 0,
    options: int = 0, **arrays: np.ndarray | None,
) -> None:  # fmt: skip
    """Run a job over `count` matrices, with arrays by the names of their addresses in `Details`; every thread has a
    workspace of so many vectors."""
    tag = tag_of(dtype)
    lanes = type(tag).lanes
    total = -(-count // lanes)
    state, threads = pool()
    groups = max(1, -(-total // (TASKS_PER_THREAD * threads)))
    tasks = -(-total // groups)
    workspace_bytes = vectors * VECTOR_BYTES
    if not arrays.keys() <= set(_ARRAYS):
        raise TypeError(f"run(): arrays must be {', '.join(_ARRAYS)}, got {', '.join(arrays)}")
    places = [0 if (each := arrays.get(name)) is None else address_of(each) for name in _ARRAYS]
    with Workspace(workspace_bytes * threads) as memory:
        numbers = np.array([m, n, k, options, count, *places, memory, workspace_bytes, groups])
        _run_groups(state, threads, tasks, job(tag, address_of(numbers)))
