"""`torch.nn.parallel` for one device: wrappers that call their module."""

from __future__ import annotations

import contextlib
from typing import Any

from ...nn.module import Module

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]


class DataParallel(Module):
    """Calls `module`, which state dicts name with the prefix "module.", as in torch."""

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[Any] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What `module` returns."""
        return self.module(*inputs, **kwargs)


class DistributedDataParallel(DataParallel):
    """Calls `module`: gradients of one process are those of all."""

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0, **options: Any
    ) -> None:
        super().__init__(module, device_ids, output_device, dim)

    def no_sync(self) -> contextlib.AbstractContextManager[None]:
        """A block without effect."""
        return contextlib.nullcontext()


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: Any = None,
) -> Any:
    """Call `module` with `inputs`, a tensor or a tuple."""
    return module(*(inputs if isinstance(inputs, tuple) else (inputs,)), **(module_kwargs or {}))
