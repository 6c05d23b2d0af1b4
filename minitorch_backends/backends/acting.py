"""Which flags do not act, and why: they have nothing to act on.

A test holds that every other flag changes a kernel, a bit or a trace, and the README shows the reasons.
"""

from __future__ import annotations

__all__ = ["HONEST_CONSTANTS"]

HONEST_CONSTANTS = {
    "mkldnn.deterministic": "every product gives the same bits in every run and for every number of threads already",
    "cuda.cudnn_sdp": "cuDNN's attention kernel does not exist here",
    "cuda.rocm_fa_library": "AMD's attention kernels do not exist here",
    "miopen.immediate": "MIOpen is not used",
    "python_native.cutedsl.enabled": "no kernel is written in it",
    "python_native.triton.enabled": "no kernel is written in it",
}
"""Flags that are stored, and change nothing for the reason given."""
