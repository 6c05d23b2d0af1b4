"""The ground that kernels run on: the CPU and its table, compiling, the store, records, threads, and memory."""
