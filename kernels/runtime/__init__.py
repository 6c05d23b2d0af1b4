"""What kernels run on: the CPU and its table, compiling, the store, records, the pool of threads, and memory."""
