"""Matrix products: matmul and its relatives, addmm, linear, bilinear, and products over other dimensions.

All end in `dispatch.product`, which resolves the precision in force and calls the kernel.
"""
