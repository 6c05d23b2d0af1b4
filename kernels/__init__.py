"""Kernels that obey the backend flags, without tensors and gradients."""

from .runtime import first_use  # noqa: F401  (before the modules that it has executed)
