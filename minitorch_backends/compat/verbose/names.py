"""What both kinds of trace agree on."""

from __future__ import annotations

__all__ = ["ENGINE", "PRODUCTS"]

ENGINE = "minitorch-backends"
"""The name of the library that banners show."""

PRODUCTS = ("matmul", "addmm", "linear", "half_matmul", "scaled_matmul")
"""Kernels that are matrix products: GEMM to MKL; oneDNN calls their arguments src, wei and bia."""
