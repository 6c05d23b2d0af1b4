"""Which kernels of attention may run: torch.nn.attention's scope and names."""

from __future__ import annotations

from ..backends.attention import sdpa_kernel
from ..backends.libraries import SDPBackend

__all__ = ["WARN_FOR_UNFUSED_KERNELS", "SDPBackend", "sdpa_kernel"]

WARN_FOR_UNFUSED_KERNELS = False
"""torch's constant of that name, which torch reads for its subclasses of biases alone. There are none here, and nothing
reads it: `backends.cuda.can_use_flash_attention(params, debug=True)` and its companions say why a kernel does not run.
"""
