"""`torch.cuda.amp`, whose blocks and scalers are for a device that is not there: they warn and do nothing."""

from __future__ import annotations

import functools
from typing import Any

from ...amp import GradScaler as _GradScaler
from ...amp import autocast as _autocast
from ...amp import custom_bwd as _custom_bwd
from ...amp import custom_fwd as _custom_fwd

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(_autocast):
    """`amp.autocast` for "cuda"."""

    __slots__ = ()

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(_GradScaler):
    """`amp.GradScaler` for "cuda"."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__("cuda", *args, **named)


custom_fwd = functools.partial(_custom_fwd, device_type="cuda")
custom_bwd = functools.partial(_custom_bwd, device_type="cuda")
