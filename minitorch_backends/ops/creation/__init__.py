"""Tensors made anew: `factories` (zeros, arange, linspace, from data), `sampling` (random numbers), and the `options`
that all of them take (dtype, device, requires_grad, pin_memory)."""
