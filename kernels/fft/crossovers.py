"""From where one way of a Fourier transform is faster than another. `bench/NOTES.md` has the measurements."""

from __future__ import annotations

from typing import NamedTuple

from ..block.tuning import Thresholds
from ..runtime.plan_cache import fft_plans
from .contract import fft


class Crossovers(NamedTuple):
    """Lengths and numbers are complex ones unless the comment says otherwise."""

    # Stockham's algorithm
    numbers: int = 1 << 13
    """Numbers in an array from which compiled passes over several axes are faster than SciPy, which starts in less
    time. Over one axis, or over the last two matrix by matrix, they always are."""
    along_most: int = 2048
    """Length along an axis that is not the last, whose two buffers of columns must stay in the L2 cache."""
    lanes_most: int = 1024
    """Length up to which batches are faster as lanes than as square matrices."""
    wide: int = 160
    wide_most: int = 1 << 16
    """Lengths from and up to which matrices of few rows are faster than lanes and square matrices."""
    spilled: int = 144
    """Length from which 16 vectors of 32 bytes hold too little of a transform."""

    # Threads and caches
    threads_bytes: int = 1 << 16
    """Bytes of an array from which other threads are woken."""
    shared_steps_bytes: int = 1 << 18
    """Bytes of a transform from which threads share its steps, where there are fewer transforms than threads."""
    beyond_caches_bytes: int = 3 << 19
    """Bytes of a transform that with its result and workspace exceeds the caches of two cores: stores pass them by."""

    # Bluestein's algorithm
    chirp_numbers: int = 1000
    """Numbers in an array from which it is faster than SciPy, which starts in less time."""
    chirp_real_length: int = 64
    chirp_real_numbers: int = 1 << 13
    """Length of one real transform, and real numbers of all, from which two rows as one are faster."""
    chirp_real_long: int = 2000
    """Length from which few real rows are faster too."""


crossovers = Thresholds(Crossovers())
crossovers.when_changed += [fft_plans.clear, fft.forget]
