"""The default algorithm: the first row of `TABLE`, for a kernel and its number of taps, that does not refuse the call
("fft" compares numbers of operations, see `fourier.py`). The measurements are in bench/NOTES.md, "Convolutions"."""

from __future__ import annotations

import math
from typing import NamedTuple

TIMED = "cudnn.benchmark = True times it"
"""What helps where an algorithm is only usually slower."""

_BOTH = ("conv", "conv_input_gradient")
_ALL = (*_BOTH, "conv_weight_gradient")


class Row(NamedTuple):
    """One algorithm of some kernels.

    Attributes:
        least_taps: the minimum number of taps for which it is a default, infinity for never.
        otherwise: why it is not a default below.
    """

    algorithm: str
    kernels: tuple[str, ...]
    least_taps: float = 0
    otherwise: str = ""

    def refusal(self, taps: int) -> str | None:
        """Why the algorithm is not the default for a kernel of so many taps, or None."""
        if taps >= self.least_taps:
            return None
        return f"{self.otherwise}; {TIMED}"


TABLE = (
    Row("winograd2", _BOTH, math.inf, "transforms its weights, which costs more than it saves unless they are kept"),
    Row("fft", _ALL),
    Row("depthwise", _ALL),
    Row("direct", _ALL),
    Row("implicit", _ALL),
    Row("explicit", _ALL),
)
"""Best first."""
