"""Names of `torch` that `minitorch_backends` provides on access."""

from __future__ import annotations

import math
from typing import Any

from ...amp import autocast, get_autocast_dtype, is_autocast_cache_enabled, is_autocast_enabled  # noqa: F401
from ...dispatch.call_errors import warn_caller
from ...kernels.threading import get_num_threads as get_num_interop_threads  # noqa: F401
from ...ops.creation.factories import arange
from ...tensor.dtypes import float64, get_default_dtype
from ...tensor.memory import CPU, device, refuse_device
from ...tensor.tensor import Tensor
from .compiler import compile  # noqa: A004, F401
from .legacy import TENSORS, set_default_tensor_type  # noqa: F401

NAMES = [
    "_assert", "_check", "autocast", "compile", "get_autocast_dtype", "get_default_device", "get_num_interop_threads",
    "cond", "is_autocast_cache_enabled", "is_autocast_enabled", "is_distributed", "is_storage",
    "is_warn_always_enabled", "range", "set_default_device",
    "set_default_tensor_type", "set_flush_denormal", "set_num_interop_threads", "set_warn_always", "typename", *TENSORS,
]  # fmt: skip

globals().update(TENSORS)


def _assert(condition: Any, message: Any = "") -> None:
    """Raise AssertionError unless `condition` holds."""
    if not condition:
        raise AssertionError(message)


def _check(cond: Any, message: Any = None) -> None:
    """Raise RuntimeError unless `cond` holds, with the text that `message()` returns."""
    if not cond:
        raise RuntimeError("_check(): expected a condition that holds" if message is None else message())


def cond(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    """`true_fn(*operands)` where `pred` holds, else `false_fn(*operands)`."""
    return true_fn(*operands) if pred else false_fn(*operands)


def range(
    start: float = 0, end: float | None = None, step: float = 1, *, out: Any = None, dtype: Any = None,
    layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Numbers from `start` to `end`, which is included. torch's old function; the new one is `arange`."""
    warn_caller("torch.range is deprecated, since it includes the end; use torch.arange")
    start, end = (0, start) if end is None else (start, end)
    if not step or (end - start) / step < 0:
        raise RuntimeError(f"range(): step must lead from start to end, got {start}, {end} and {step}")
    numbers = arange(math.floor((end - start) / step) + 1, dtype=float64) * step + start
    made = numbers.to(get_default_dtype() if dtype is None else dtype).requires_grad_(requires_grad)
    return made if out is None else out.resize_(made.shape).copy_(made)


def is_distributed(input: Any) -> bool:
    """Whether the tensor is spread over processes: False."""
    return False


def get_default_device() -> device:
    """The device of new tensors: the CPU."""
    return CPU


def set_default_device(device: Any) -> None:
    """Without effect for the CPU. Raises for another device."""
    refuse_device(device)


def set_num_interop_threads(threads: int) -> None:
    """Without effect: ops run one after the other."""


def set_flush_denormal(mode: bool) -> bool:
    """Return False: denormal numbers are kept."""
    return False


def is_storage(obj: Any) -> bool:
    """Whether it is a storage: False, memory is held by NumPy arrays."""
    return False


def is_warn_always_enabled() -> bool:
    """Whether warnings are repeated: False."""
    return False


def set_warn_always(b: bool, /) -> None:
    """No effect: Python's filters decide which warnings are repeated."""


def typename(obj: Any, /) -> str:
    """The name of a value's type, "torch.FloatTensor" for a tensor."""
    return obj.type() if isinstance(obj, Tensor) else f"{type(obj).__module__}.{type(obj).__qualname__}"
