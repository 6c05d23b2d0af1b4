"""Mixed precision, under the names of torch.amp: `autocast` and `GradScaler`.

Autocast decides the dtypes of inputs, by torch's op lists for the CPU: products compute in a half type; losses,
transforms and decompositions in float32. Flags decide how a float32 product is computed. The two are independent and
combine.
"""

from .autocast import (
    autocast,
    custom_bwd,
    custom_fwd,
    get_autocast_dtype,
    is_autocast_available,
    is_autocast_cache_enabled,
    is_autocast_enabled,
)
from .grad_scaler import GradScaler

__all__ = [
    "GradScaler", "autocast", "custom_bwd", "custom_fwd", "get_autocast_dtype",
    "is_autocast_available", "is_autocast_cache_enabled", "is_autocast_enabled",
]  # fmt: skip
