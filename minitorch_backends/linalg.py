"""Linear algebra under the names of `torch.linalg`."""

from .ops.contract import multi_dot

__all__ = ["multi_dot"]
