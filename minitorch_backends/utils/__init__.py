"""Tools that work on functions and models, under the names of torch.utils."""

from . import checkpoint

__all__ = ["checkpoint"]
