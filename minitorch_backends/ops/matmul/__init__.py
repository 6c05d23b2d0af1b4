"""Matrix products: matmul and its relatives, addmm, linear, bilinear, and tensor products.

All call `dispatch.product`, which resolves the precision and calls the kernel.
"""
