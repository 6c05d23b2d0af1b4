"""`torch.distributed` for a world of one process: collective functions leave tensors as they are, or copy them.

Raises RuntimeError for a world of more, and ValueError, as torch does, before `init_process_group`.
"""

from __future__ import annotations

import os
from enum import Enum
from typing import Any

from ...tensor.tensor import Tensor
from .parallel import DistributedDataParallel as _DistributedDataParallel

__all__ = [
    "ReduceOp", "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "barrier", "broadcast",
    "broadcast_object_list", "destroy_process_group", "gather", "get_backend", "get_rank", "get_world_size",
    "group", "init_process_group", "is_available", "is_gloo_available", "is_initialized", "is_mpi_available",
    "is_nccl_available", "is_torchelastic_launched", "new_group", "reduce", "reduce_scatter", "scatter",
]  # fmt: skip

DistributedDataParallel = _DistributedDataParallel

_backend: str | None = None


class ReduceOp(Enum):
    """How values of processes are combined."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)


class group:
    """The group of all processes."""

    WORLD = None


class _Work:
    """What asynchronous functions return: it is done."""

    def wait(self, timeout: Any = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True


def is_available() -> bool:
    """Whether these functions can be called: True, in one process."""
    return True


is_gloo_available = is_available


def is_initialized() -> bool:
    """Whether `init_process_group` was called."""
    return _backend is not None


def is_nccl_available() -> bool:
    """Whether there is a library for several processes: False."""
    return False


is_mpi_available = is_nccl_available


def is_torchelastic_launched() -> bool:
    """Whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def init_process_group(
    backend: str | None = None, init_method: str | None = None, timeout: Any = None, world_size: int = -1,
    rank: int = -1, store: Any = None, group_name: str = "", pg_options: Any = None, device_id: Any = None,
) -> None:  # fmt: skip
    """Begin with one process. The environment's WORLD_SIZE counts when `world_size` is not given."""
    global _backend
    size = world_size if world_size != -1 else int(os.environ.get("WORLD_SIZE", "1"))
    if size != 1:
        raise RuntimeError(f"init_process_group(): world_size must be 1, got {size}; start one process")
    if _backend is not None:
        raise ValueError("init_process_group(): must be called once; use destroy_process_group() before")
    _backend = backend or "gloo"


def _check(name: str) -> None:
    if _backend is None:
        raise ValueError(f"{name}(): the process group must be initialized; call init_process_group() first")


def destroy_process_group(group: Any = None) -> None:
    """End what `init_process_group` began."""
    global _backend
    _check("destroy_process_group")
    _backend = None


def get_backend(group: Any = None) -> str:
    """The name that `init_process_group` was given."""
    _check("get_backend")
    return str(_backend)


def get_default_backend_for_device(device: Any) -> str:
    """The name of torch's library for tensors on the CPU."""
    return "gloo"


def get_rank(group: Any = None) -> int:
    """The number of this process: 0."""
    _check("get_rank")
    return 0


def get_world_size(group: Any = None) -> int:
    """The number of processes: 1."""
    _check("get_world_size")
    return 1


def new_group(ranks: Any = None, **options: Any) -> None:
    """The group of all processes, None."""
    _check("new_group")


def _finished_work(name: str, async_op: bool) -> _Work | None:
    _check(name)
    return _Work() if async_op else None


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> _Work | None:
    """Return at once: this process is the only one."""
    return _finished_work("barrier", async_op)


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> _Work | None:
    """Combine the tensors of all processes in place: of one, it is the tensor."""
    return _finished_work("all_reduce", async_op)


def reduce(
    tensor: Tensor, dst: Any = 0, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> _Work | None:
    """Combine the tensors of all processes in that of one of them."""
    return _finished_work("reduce", async_op)


def broadcast(tensor: Tensor, src: Any = 0, group: Any = None, async_op: bool = False) -> _Work | None:
    """Copy the tensor of one process to the others."""
    return _finished_work("broadcast", async_op)


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False) -> _Work | None:
    """Copy the tensors of all processes into those of a list of one."""
    work = _finished_work("all_gather", async_op)
    tensor_list[0].copy_(tensor)
    return work


def gather(
    tensor: Tensor, gather_list: list[Tensor] | None = None, dst: Any = 0, group: Any = None, async_op: bool = False
) -> _Work | None:
    """Copy the tensors of all processes into those of a list of one."""
    work = _finished_work("gather", async_op)
    if gather_list:
        gather_list[0].copy_(tensor)
    return work


def scatter(
    tensor: Tensor, scatter_list: list[Tensor] | None = None, src: Any = 0, group: Any = None, async_op: bool = False
) -> _Work | None:
    """Copy each tensor of a list to its process."""
    work = _finished_work("scatter", async_op)
    if scatter_list:
        tensor.copy_(scatter_list[0])
    return work


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> _Work | None:
    """Copy the tensors of all processes into one."""
    work = _finished_work("all_gather_into_tensor", async_op)
    output_tensor.copy_(input_tensor.reshape(output_tensor.shape))
    return work


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> _Work | None:
    """Combine the lists of all processes, and copy each tensor to its process."""
    work = _finished_work("reduce_scatter", async_op)
    output.copy_(input_list[0])
    return work


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Put the objects of all processes into a list."""
    _check("all_gather_object")
    object_list[0] = obj


def broadcast_object_list(object_list: list[Any], src: Any = 0, group: Any = None, device: Any = None) -> None:
    """Copy objects of one process to the others."""
    _check("broadcast_object_list")
