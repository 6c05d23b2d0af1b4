"""Sums in parts: of a product's K or of a reduction, which devices, blocks of a grid, or workers compute apart and add.

Tensor parallelism splits K among devices whose results an all-reduce adds; split-K and stream-K split it among blocks
of one device. What differs is how many parts there are, the dtype in which they are sent, and the order of additions:

* "sequential": one part after the other, as blocks that wait for their predecessor (stream-K's fix-up) do.
* "pairwise": neighbours, then neighbouring pairs: recursive doubling.
* "tree": partners half of the parts apart first: recursive halving.
* "ring": the result is cut into as many chunks as there are parts, and the chain of each starts one part later, so that
  an element's order depends on its place (reduce-scatter of a ring; P. Patarasu, X. Yuan, "Bandwidth optimal all-reduce
  algorithms for clusters of workstations", 2009). The chunks of a library depend on its buffers too.

With `leaves` a part is itself the pairwise sum of leaves whose borders do not depend on the number of parts. Parts of a
power of two, added in pairs, are then subtrees of one tree, whatever their number (tree-based invariant kernels:
Z. Zhang et al., arXiv 2511.17826).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .precisions.products import OF_HALF
from .registry import ArraySpec, Kernel, without_observers
from .runtime.context import restore_on_failure
from .runtime.first_use import load

DTYPES = ("unrounded", "result", "float32", "bfloat16", "float16")
"""In which parts are added: that of their sums (float32 of half types), that of the result, or a named one."""

LEAVES = 16
"""Leaves of a sum whose bits do not depend on the number of parts, and the most parts of one."""


class PartialSums(NamedTuple):
    """How many parts a sum has, in which order (a key of `ORDERS`) and dtype (of `DTYPES`) they are added, and of how
    many leaves the whole sum consists; 0 for parts that are summed in any order."""

    parts: int
    order: str = "pairwise"
    dtype: str = "unrounded"
    leaves: int = 0

    def __repr__(self) -> str:
        leaves = f", of {self.leaves} leaves" * bool(self.leaves)
        return f"{self.parts} parts, {self.order}, {self.dtype}{leaves}"


possible = False
"""Whether sums were ever split in this process."""

splits = 0
"""The number of sums that were split so far."""

of_caller: Callable[[], PartialSums | None] = lambda: None  # noqa: E731  (`backends` puts the flags' here)


def start() -> None:
    """From now on callers may split sums."""
    global possible
    possible = True


def _sequential(parts: Sequence[np.ndarray]) -> np.ndarray:
    return list(itertools.accumulate(parts, np.add))[-1]


def _pairwise(parts: Sequence[Any]) -> Any:
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=False)  # None: a leaf without terms, which holds its place
        sums = [y if x is None else x if y is None else np.add(x, y) for x, y in pairs]
        parts = [*sums, *parts[len(parts) - len(parts) % 2 :]]
    return parts[0]


def _tree(parts: Sequence[np.ndarray]) -> np.ndarray:
    while len(parts) > 1:
        half = -(-len(parts) // 2)
        sums = [np.add(*pair) for pair in zip(parts[:half], parts[half:], strict=False)]
        parts = [*sums, *parts[len(sums) : half]]
    return parts[0]


def _ring(parts: Sequence[np.ndarray]) -> np.ndarray:
    flat = [part.reshape(-1) for part in parts]
    out = np.empty_like(flat[0])
    for chunk, places in enumerate(_slices(out.size, len(parts))):
        out[places] = _sequential([flat[(chunk + 1 + step) % len(parts)][places] for step in range(len(parts))])
    return out.reshape(parts[0].shape)


ORDERS = {"sequential": _sequential, "pairwise": _pairwise, "tree": _tree, "ring": _ring}


def _slices(size: int, parts: int) -> Iterator[slice]:
    """Equal parts but for one place; borders are those of any multiple of the number too."""
    return itertools.starmap(slice, itertools.pairwise(size * part // parts for part in range(parts + 1)))


def total(sum_of: Callable[[slice], np.ndarray], size: int, how: PartialSums, result: np.dtype) -> np.ndarray:
    """The sum of `size` terms in parts, `sum_of(places)` each, in the dtype in which they are added."""
    global splits
    splits += 1
    each = max(how.leaves // how.parts, 1)
    leaves = [sum_of(places) if places.start < places.stop else None for places in _slices(size, how.parts * each)]
    found = [_pairwise(leaves[first : first + each]) for first in range(0, len(leaves), each)]
    parts = [np.asarray(x) if x is not None else x for x in found if how.leaves or x is not None]
    if how.dtype != "unrounded":
        load("ml_dtypes")  # registers bfloat16 with NumPy
        dtype = result if how.dtype == "result" else np.dtype(how.dtype)
        with np.errstate(over="ignore"):
            parts = [_real(part).astype(dtype if dtype.kind != "c" else _real(part).dtype) for part in parts]
    with np.errstate(over="ignore", invalid="ignore"):
        added = ORDERS[how.order](parts)
    return _complex(added, result) if result.kind == "c" and added.dtype.kind != "c" else added


def _real(x: np.ndarray) -> np.ndarray:
    """Complex numbers as pairs, along a further dimension."""
    return x if x.dtype.kind != "c" else np.array(x, order="C")[..., None].view(x.real.dtype)


def _complex(pairs: np.ndarray, dtype: np.dtype) -> np.ndarray:
    out = np.empty(pairs.shape[:-1], dtype)
    out.real, out.imag = pairs[..., 0], pairs[..., 1]
    return out


def refuses(a: ArraySpec, b: ArraySpec, partial: PartialSums | None = None, **_: Any) -> str | None:
    """Why a product is not the sum of parts."""
    if partial is None:
        return "adds parts of K, and backends.partial_sums has one part"
    return None if a.shape[-1] else "has no terms to split"


def implementation(kernel: Kernel) -> Callable[..., np.ndarray]:
    """The product in parts of K, by the other implementations of a kernel; those of half types in float32."""

    @restore_on_failure
    def run(a: np.ndarray, b: np.ndarray, *, partial: PartialSums, **keywords: Any) -> np.ndarray:
        left, right = a, b
        if (name := OF_HALF.get(a.dtype.name)) is not None:
            left, right = a.astype(np.float32), b.astype(np.float32)
            keywords["precision"] = name  # all of their values

        def of_places(places: slice) -> np.ndarray:
            return kernel(left[..., places], right[..., places, :], **keywords)

        with without_observers():
            return total(of_places, a.shape[-1], partial, a.dtype).astype(a.dtype, copy=False)

    return run


def reduce(
    sum_of: Callable[..., Any], x: np.ndarray, axes: Any, keepdims: bool, mean: bool, how: PartialSums
) -> np.ndarray:
    """The sum or mean by parts of the first of the dimensions that are summed over, `sum_of(part, axes, keepdims)`
    each."""
    given = range(x.ndim) if axes is None else axes if isinstance(axes, tuple) else (axes,)
    first = next(iter(given)) % x.ndim
    found = total(
        lambda places: sum_of(x[(slice(None),) * first + (places,)], axes, keepdims), x.shape[first], how, x.dtype
    )
    kept = np.dtype(np.float32) if x.dtype.itemsize == 2 else x.dtype
    count = x.size // max(found.size, 1)
    return (found.astype(kept) / kept.type(count) if mean else found.astype(kept)) if found.size else found
