"""Mixed precision, under the names of torch.amp: `autocast` and `GradScaler`.

Autocast is a rule about the dtypes of inputs: products compute in a half type, losses, transforms and decompositions in
float32, by the op lists that torch has for the CPU. Flags say how a product of float32 is computed; this says which
products have half types to begin with. The two act together.
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
