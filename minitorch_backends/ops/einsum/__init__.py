"""einsum: equations, plans, the search for an order, and programs that run on the product kernels."""

from .call import einsum, einsum_path, einsum_plan

__all__ = ["einsum", "einsum_path", "einsum_plan"]
