"""Creation of tensors: `factories` (zeros, arange, linspace, from data), `sampling` (random numbers), and `options`,
the arguments common to all (dtype, device, requires_grad, pin_memory). `from_data` reads numbers, sequences and arrays
of any library, `dlpack` exchanges arrays with other libraries."""
