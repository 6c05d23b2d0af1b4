"""`torch.xpu`: there is no GPU of Intel's."""

from .mps import device_count, empty_cache, is_available, manual_seed, seed

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "seed"]
