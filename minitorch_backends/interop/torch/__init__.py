"""torch models under the flags of this package.

    with interop.torch.emulate(fp32_precision="tf32") as mode:
        model(x).sum().backward()        # a torch.nn.Module, torch tensors
    print(mode.products)                 # what ran here: kernel, precision, calls, operations
    print(mode.left)                     # the products that torch computed itself, and why

Products of torch's CPU tensors (matrix products, convolutions, attention, recurrent layers, linear algebra) run on the
kernels of this package, forward and backward, without copying their memory. Other operators stay with torch.

Below torch's autograd, a dispatch mode replaces single operators (`mode`, `table` and the modules of operators). Above
it, a function mode takes calls that torch would decompose: einsum of three or more operands, and recurrent layers
(`whole_calls`, `recorded`).
"""

from __future__ import annotations

from .counts import Counts, Left, LeftProductWarning, Product
from .mode import Emulation, emulate

__all__ = ["Counts", "Emulation", "Left", "LeftProductWarning", "Product", "emulate"]
