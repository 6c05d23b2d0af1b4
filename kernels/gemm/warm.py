"""Compiling ahead of the first products."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ..precisions.products import PRECISIONS
from ..runtime.first_use import load

_DTYPES = ("float32", "float64", "float16", "bfloat16")

_SHAPES = (
    ((60, 60), (60, 60)), ((64, 40, 40), (64, 40, 40)), ((4, 300, 300), (4, 300, 300)), ((300, 300), (300, 300)),
    ((1024, 1024), (1024, 1024)), ((1024, 256), (256, 64)), ((40, 900), (900, 40)), ((300, 300), (300, 2)),
    ((1, 300), (300, 300)), ((2, 300), (300, 300)), ((3, 700), (700, 700)), ((8, 512), (512, 512)),
    ((16, 512), (512, 512)), ((1, 2048), (2048, 2048)),
)  # fmt: skip
"""One product for each way in which products are divided, or operands packed."""


def show_progress(done: int, total: int, name: str) -> None:
    """A line on the terminal that counts; nothing where the error stream is not one."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\rcompiling {name:<24} {done}/{total}" + "\n" * (done == total))
        sys.stderr.flush()


def warmup(
    precisions: str | Iterable[str] = tuple(PRECISIONS),
    progress: Callable[[int, int, str], None] | None = show_progress,
    *,
    dtypes: str | Iterable[Any] = ("float32",),
) -> None:
    """Compile what products of these dtypes need, both orders of both operands, with and without addend.

    Arguments:
        precisions: the name of one, or several, of float32 products; the other dtypes have one.
        progress: told how many of how many products are ready and of what the next is; None keeps silent.
        dtypes: one or some of float32, float64, float16 and bfloat16, by name or as dtypes.

    Compiled code is kept between processes, so that this takes long only once: some 15 s for the first precision or
    dtype, and 5 for each more. Raises ValueError for other precisions and dtypes, before anything is compiled.
    """
    from . import addmm, matmul

    precisions = (precisions,) if isinstance(precisions, str) else tuple(precisions)
    wanted = list(dict.fromkeys(_requested_pairs(precisions, (dtypes,) if isinstance(dtypes, str) else dtypes)))
    total = len(wanted) * len(_SHAPES)
    for done, ((dtype, precision), shapes) in enumerate(itertools.product(wanted, _SHAPES)):
        if progress is not None:
            progress(done, total, f"{dtype.name} {precision}" if dtype == np.float32 else dtype.name)
        rows, columns = (_both_orders(shape, dtype) for shape in shapes)
        for a, b in itertools.product(rows, columns):
            matmul(a, b, precision=precision)
            if a.ndim == 2:
                addmm(a, b, b[:1], precision=precision)
    if progress is not None and total:
        progress(total, total, "done")


def _requested_pairs(precisions: tuple[str, ...], dtypes: Iterable[Any]) -> Iterator[tuple[np.dtype, str]]:
    """Pairs of a dtype and a precision; of the former's own where it has no choice."""
    for precision in precisions:
        if precision not in PRECISIONS:
            raise ValueError(f"warmup: {precision!r} is not a precision; expected some of {', '.join(PRECISIONS)}")
    for each in dtypes:
        name = each if isinstance(each, str) else getattr(each, "name", None) or getattr(each, "__name__", repr(each))
        if name not in _DTYPES:
            raise ValueError(f"warmup: no products of {name!r} are compiled; expected some of {', '.join(_DTYPES)}")
        for precision in precisions if name == "float32" else ("ieee",):
            yield _dtype(name), precision


def _dtype(name: str) -> np.dtype:
    if name != "bfloat16":
        return np.dtype(name)
    bfloat16 = load("ml_dtypes").bfloat16
    return np.dtype(bfloat16)


def _both_orders(shape: tuple[int, ...], dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Arrays of ones whose last dimension, or the one before, is contiguous."""
    *batch, rows, columns = shape
    return np.ones(shape, dtype), np.ones((*batch, columns, rows), dtype).swapaxes(-1, -2)
