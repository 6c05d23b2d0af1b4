"""`torch.types`: names for annotations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

from ...tensor.dtypes import DType
from ...tensor.memory import device
from ...tensor.size import Size
from ...tensor.tensor import Tensor

__all__ = ["Device", "Number", "Tensor", "_device", "_dtype", "_int", "_size"]

Number = Union[int, float, bool]  # noqa: UP007  (used in isinstance by scripts)
Device = Union[device, str, int, None]  # noqa: UP007
_size = Union[Size, list[int], tuple[int, ...]]  # noqa: UP007
_device, _dtype, _int, _float, _bool = device, DType, int, float, bool
_TensorOrTensors = Union[Tensor, Sequence[Tensor]]  # noqa: UP007
Storage = Any
