"""Fourier transforms beside torch's and SciPy's."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import minitorch_backends as mt
from minitorch_backends.kernels.fft import fft as kernel
from minitorch_backends.kernels.runtime import threading
from minitorch_backends.lab.race import Contestant

from . import peers, speed
from .presentation import paragraphs
from .session import Session

TITLE = "Fourier transforms"

NUMBERS = 1 << 18
"""Numbers in a batch of transforms, or in one transform where its length is more."""

POWERS = tuple(1 << exponent for exponent in range(6, 21))
SMOOTH = (60, 96, 144, 192, 210, 240, 360, 720, 1000, 3600, 10_000, 46_080, 248_832, 1_000_000)
PRIMES = (127, 1021, 4099, 65_537)
"""Prime lengths, which no library divides into passes."""

QUICK = (64, 1000, 4096, 65_536)
USUAL = (*POWERS[::2], 60, 1000, 46_080, 1021)
DTYPES = ("float32", "float64")


class Case(NamedTuple):
    """Transforms of one length, of complex or of real numbers; `dtype` is that of real and imaginary parts."""

    n: int
    batch: int
    real: bool
    dtype: str

    @property
    def function(self) -> str:
        return "rfft" if self.real else "fft"

    @property
    def operations(self) -> float:
        """5 n log2 n for each transform, the custom of the field, and half of it for real numbers."""
        return (2.5 if self.real else 5.0) * self.n * math.log2(self.n) * self.batch

    @property
    def group(self) -> str:
        of = "Powers of two" if self.n & (self.n - 1) == 0 else "Primes" if self.n in PRIMES else "Smooth lengths"
        amount = "one" if self.batch == 1 and self.n < NUMBERS else "batched"
        return f"{of}, {amount}" if of != "Primes" else of

    @property
    def name(self) -> str:
        return f"{self.function} of {self.batch} x {self.n}, {self.dtype}"


def cases(session: Session) -> Iterator[Case]:
    """What is timed."""
    if session.quick:
        for n in QUICK:
            yield Case(n, max(1, NUMBERS // n), n == 4096, "float32")
        return
    for n in session.choose((), USUAL, (*POWERS, *SMOOTH, *PRIMES)):
        for real in (False, True):
            for dtype in session.choose((), DTYPES[:1], DTYPES):
                yield Case(n, max(1, NUMBERS // n), real, dtype)
                if 2 * n <= NUMBERS and n not in PRIMES:
                    yield Case(n, 1, real, dtype)


def _cell(seed: int, case: Case) -> speed.Cell:
    import scipy.fft

    random = np.random.default_rng([seed, case.n, case.batch])
    x = random.standard_normal((case.batch, case.n))
    if not case.real:
        x = x + 1j * random.standard_normal(x.shape)
    x = x.astype(case.dtype if case.real else np.result_type(np.dtype(case.dtype), np.complex64))
    by_scipy = getattr(scipy.fft, case.function)
    contestants = [
        Contestant("mt", partial(getattr(mt.fft, case.function), mt.from_numpy(x))),
        Contestant("SciPy", partial(by_scipy, x)),
    ]
    if case.batch > 1:
        contestants.append(Contestant("SciPy, threads", partial(by_scipy, x, workers=threading.get_num_threads())))
    contestants += peers.by_torch(lambda torch: partial(getattr(torch.fft, case.function), torch.from_numpy(x)))
    options = {"kind": "real" if case.real else "forward", "axes": (1,), "scaling": "none", "last": 0}
    facts = {"by": kernel.decide(x, **options).candidates[0].name}
    return speed.Cell(case.group, case.name, contestants, operations=case.operations, facts=facts)


def run(session: Session) -> dict[str, Any]:
    """Time every case beside the peers."""
    return speed.run(session, TITLE, {case.name: partial(_cell, session.seed, case) for case in cases(session)})


tables = speed.tables


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    text = """
        The public functions, `mt.fft.fft` and `torch.fft.fft` of tensors, with their plans kept; SciPy on one thread
        and, for batches, on all. GFLOP/s counts 5 n log2(n) operations for n complex numbers, half of that for real
        ones.
    """
    return [*paragraphs(text), *speed.sentences(result)]


PLOTS = [speed.plot("fft-speed")]
