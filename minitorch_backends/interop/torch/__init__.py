"""Torch's own models under the flags of this package.

    with interop.torch.emulate(fp32_precision="tf32") as mode:
        model(x).sum().backward()        # a torch.nn.Module, torch tensors
    print(mode.left)                     # the products that torch computed itself, and why

Products of torch's CPU tensors (matrix products, convolutions, attention, recurrent layers, linear algebra) run on the
kernels of this package, forward and backward, without a copy of their memory. What is no product stays torch's.

Below torch's autograd, a dispatch mode replaces single operators (`mode`, `table` and the modules of operators). Above
it, a function mode takes those calls whole that torch would take apart: einsum of three and more operands, recurrent
layers (`whole_calls`, `recorded`).
"""

from __future__ import annotations

from .left import Left, LeftProductWarning
from .mode import Emulation, emulate

__all__ = ["Emulation", "Left", "LeftProductWarning", "emulate"]
