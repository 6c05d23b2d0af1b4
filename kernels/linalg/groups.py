"""Jobs over groups of small matrices: what their tasks are given, and how a batch is shared out among threads."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..gemm.workspace import address_of, return_workspace, take_workspace
from ..jit import njit
from ..launch import launch
from ..threading import pool
from .lanes import VECTOR_BYTES, Float32, Float64, PlainFloat32, PlainFloat64

__all__ = ["Group", "run", "tag_of"]

TASKS_PER_THREAD = 4
"""Tasks are handed out one by one, so that a thread that is held up does not hold up the others."""


class Group(NamedTuple):
    """What every task of a job is given; a subclass has, as `run`, the function (task, worker, job).

    Addresses a, b are those of the arguments, x, y, z, info those of the results, of `count` matrices each. What m, n,
    k and the options mean is told by the subclass.
    """

    tag: Any
    m: int
    n: int
    k: int
    options: int
    count: int
    a: int
    b: int
    x: int
    y: int
    z: int
    info: int
    workspace: int
    workspace_bytes: int
    groups: int


@njit
def _run_groups(pool, threads, tasks, job):
    launch(pool, threads, tasks, job)


def tag_of(dtype: np.dtype) -> Any:
    from .. import cpu

    plain = cpu.capability() == "portable"
    if dtype.itemsize == 4:
        return PlainFloat32() if plain else Float32()
    return PlainFloat64() if plain else Float64()


def run(
    job: type[Group],
    dtype: np.dtype,
    count: int,
    vectors: int,
    *,
    m: int = 0,
    n: int = 0,
    k: int = 0,
    options: int = 0,
    **arrays: np.ndarray | None,
) -> None:
    """Run a job over `count` matrices; every thread has a workspace of so many vectors."""
    tag = tag_of(dtype)
    lanes = type(tag).lanes
    total = -(-count // lanes)
    state, threads = pool()
    groups = max(1, -(-total // (TASKS_PER_THREAD * threads)))
    tasks = -(-total // groups)
    workspace_bytes = vectors * VECTOR_BYTES
    memory = take_workspace(workspace_bytes * threads)
    places = {name: address_of(each) for name, each in arrays.items() if each is not None}
    where = [places.get(name, 0) for name in ("a", "b", "x", "y", "z", "info")]
    _run_groups(
        state, threads, tasks,
        job(tag, m, n, k, options, count, *where, address_of(memory), workspace_bytes, groups),
    )  # fmt: skip
    return_workspace(memory)
