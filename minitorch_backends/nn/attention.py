"""Which kernels of attention may run: torch.nn.attention's scope and names."""

from __future__ import annotations

from ..backends.attention import sdpa_kernel
from ..backends.libraries import SDPBackend

__all__ = ["WARN_FOR_UNFUSED_KERNELS", "SDPBackend", "sdpa_kernel"]

WARN_FOR_UNFUSED_KERNELS = False
"""torch's constant of this name, which has no effect here. `backends.cuda.can_use_flash_attention(params, debug=True)`
and its companions explain why a kernel does not run."""
