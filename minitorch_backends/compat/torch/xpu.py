"""`torch.xpu`: no Intel GPU is available."""

from .mps import device_count, empty_cache, is_available, manual_seed, seed

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "seed"]
