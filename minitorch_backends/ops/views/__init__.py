"""Ops that rearrange: views on the same memory, joined and padded tensors, and the replay of views on new bases."""
