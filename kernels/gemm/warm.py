"""Compiling ahead of the first products."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

import numpy as np

from .. import cpu
from ..precision import PRECISIONS

__all__ = ["warmup"]


def _show(done: int, total: int, name: str) -> None:
    """A line on the terminal that counts; nothing where the error stream is not one."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\rcompiling {name:<24} {done}/{total}" + "\n" * (done == total))
        sys.stderr.flush()


def warmup(
    precisions: Iterable[str] = tuple(PRECISIONS), progress: Callable[[int, int, str], None] | None = _show
) -> None:
    """Compile what float32 products at these precisions need, both orders of both operands, with and without addend.

    Compiled code is kept between processes, so that this takes long only once: some 4 s for a precision.
    `progress` is told how many of how many kernels are ready and which is next; None keeps silent.
    """
    from . import compiled, small, small_products
    from .product import product

    precisions = tuple(precisions)
    a = np.ones((40, 40), np.float32)
    stack = np.ones((64, 40, 40), np.float32)
    large = np.ones((300, 300), np.float32)
    wanted = []
    for precision in precisions:
        if precision not in PRECISIONS:
            raise ValueError(f"warmup: {precision!r} is not a precision; expected some of {', '.join(PRECISIONS)}")
        wanted += [(isa, precision) for isa in compiled.usable_isas(precision)]
    wanted = list(
        dict.fromkeys((isa, compiled.computed_by_panels(isa, a.dtype, precision)) for isa, precision in wanted)
    )
    for done, (isa, precision) in enumerate(wanted):
        if progress is not None:
            progress(done, len(wanted), f"{isa} {precision}")
        for left, right in ((a, a), (a.T, a.T), (large, large)):
            product(left, right, isa=isa, precision=precision)
        vectors = next((i for i in small.ISAS if i != "amx" and cpu.refusal(i) is None), isa)
        for own in dict.fromkeys((isa, vectors)):
            of_small = compiled.computed(own, a.dtype, precision) if own in small.ISAS else None
            for left, right in ((a, a), (a.T, a.T), (a, a.T), (a.T, a), (stack, stack)):
                if of_small and small.refuses(own)(left, right, precision) is None:
                    small_products.product(left, right, own, of_small, "rna")
        product(a, a, isa=isa, precision=precision, addend=a)
    for precision in precisions:
        _thin_and_narrow(large, precision)
    if progress is not None and wanted:
        progress(len(wanted), len(wanted), "done")


def _thin_and_narrow(matrix: np.ndarray, precision: str) -> None:
    """Products of few rows and of few columns, by whichever loops they take."""
    from . import matmul

    tall, square = np.ones((1024, 256), np.float32), np.ones((512, 512), np.float32)
    for a, b in (
        (matrix[:1], matrix),
        (matrix[:2], matrix),
        (square[:8], square),
        (square[:16], square),
        (matrix, matrix[:, :2]),
        (tall, tall[:256, :64]),
    ):
        matmul(a, b, precision=precision)
        matmul(a, b.T.copy().T, precision=precision)
