"""Which flags do not act, and why: those whose kernels are still to come, and those that have nothing to act on.

A test holds that every other flag changes a kernel, a bit or a trace, and the README shows both lists.
"""

from __future__ import annotations

__all__ = ["HONEST_CONSTANTS", "NOT_YET_ACTING"]

NOT_YET_ACTING: dict[str, str] = {}
"""The kernels that each of these flags waits for. They are declared, validated, scoped and documented all the same."""

HONEST_CONSTANTS = {
    "cudnn.rnn.fp32_precision": "there are no recurrent kernels; a recurrence is made of matrix products",
    "mkldnn.rnn.fp32_precision": "there are no recurrent kernels; a recurrence is made of matrix products",
    "mkldnn.deterministic": "every product gives the same bits in every run and for every number of threads already",
    "cuda.cudnn_sdp": "cuDNN's attention kernel does not exist here",
    "cuda.rocm_fa_library": "AMD's attention kernels do not exist here",
    "miopen.immediate": "MIOpen is not used",
    "python_native.cutedsl.enabled": "no kernel is written in it",
    "python_native.triton.enabled": "no kernel is written in it",
}
"""Flags that are stored, and change nothing for the reason given."""
