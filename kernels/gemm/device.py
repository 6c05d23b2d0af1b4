"""Matrix products of float32 and half arrays as the matrix unit of another device sums them (`kernels/matrix_units`).

Operands are rounded to the unit's format as the precision says, and each entry of the result is one chain of blocks
along K, in float32, which half types round at the end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..matrix_units import Rule
from ..precisions.products import OF_HALF
from ..registry import ArraySpec, without_observers
from ..runtime.context import restore_on_failure, warn_caller
from ..runtime.invariance import current_demand
from ..runtime.shapes import broadcast_shapes


class Unit(NamedTuple):
    """A matrix unit, of the device that a profile describes."""

    profile: str
    operand: str
    """The format that it multiplies, a key of `elements.ELEMENTS`."""
    rule: Rule | None
    """How it sums; None for float32 sums."""
    evidence: str
    """What bears the rule out: "hardware", "model", "inferred" or "measured"."""
    promote: int = 0
    """Places of K after which libraries add partial sums outside of the unit; 0 for never."""
    scaled_blocks: tuple[int, ...] = ()
    """Sizes of blocks along K whose scales, powers of two, the unit applies itself."""
    exact_gemv: bool = False
    """Whether products with one row or column are float32's."""
    flushes: bool = False
    """Whether subnormal operands and results count as zero."""
    depths: tuple[int, ...] = ()
    """Start, stop and step of the range of K for which a measured rule is shown; () for all."""
    halve_to: int = 0
    """The multiple at which a rest of less than two times `promote` places is halved; 0 for never."""

    def warn_beyond(self, depth: int) -> None:
        """Warn of a K for which the rule was not shown: a library may choose other blocks."""
        if depth and self.depths and depth not in range(*self.depths):
            first, stop, step = self.depths
            every = f" in steps of {step}" if step > 1 else ""
            warn_caller(
                f"profile {self.profile!r}: the sums of {self.operand} were measured for K = {first} to {stop - 1}"
                f"{every}, not {depth}; the device may add these otherwise"
            )

    def __repr__(self) -> str:
        halves = {0: "", -1: ", a short K in halves"}.get(self.halve_to, f", a rest in halves of {self.halve_to}")
        promoted = f", partial sums leave the unit every {self.promote} places{halves}" if self.promote else ""
        shown = f" for K of {range(*self.depths)!r}" if self.depths else ""
        return f"{self.profile} {self.operand}: {self.rule or 'float32 sums'!r}{promoted}, by {self.evidence}{shown}"


def refuses(
    a: ArraySpec, b: ArraySpec, precision: str = "ieee", rounding: str = "rna", unit: Unit | None = None
) -> str | None:
    """Why no unit multiplies these."""
    if unit is None:
        return "sums by a device's rule, and backends.profile names none"
    if a.dtype == np.float32 or a.dtype.name in OF_HALF:
        return None
    return f"multiplies float32 and half arrays, not {a.dtype.name}"


def matmul(
    a: np.ndarray, b: np.ndarray, *, unit: Unit, precision: str = "ieee", rounding: str = "rna",
    scales: tuple[np.ndarray, np.ndarray] | None = None,
) -> np.ndarray:  # fmt: skip
    """The product, one matrix of the batch after the other. `scales` are powers of two for the numbers of a and b that
    the unit applies itself."""
    from ..matrix_units import multiply

    if unit.rule is None:
        return in_float32(a, b, unit, OF_HALF.get(a.dtype.name, precision), rounding).astype(a.dtype, copy=False)
    unit.warn_beyond(a.shape[-1])
    if a.dtype == np.float32 and unit.operand != "fp32":
        from ..precisions.parts import round_to

        left, right = (round_to(x, unit.operand, rounding) for x in (a, b))
    else:
        left, right = (x.astype(np.float32) for x in (a, b))
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    left, right, *powers = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (left, right, *(scales or ())))
    out = np.empty((*batch, a.shape[-2], b.shape[-1]), np.float32)
    for place in np.ndindex(*batch):
        own = (powers[0][place], powers[1][place]) if powers else None
        operands = left[place], right[place]
        out[place] = multiply(
            unit.rule, unit.operand, *operands, promote=unit.promote, halve_to=unit.halve_to, scales=own
        )
    return out.astype(a.dtype, copy=False)


@restore_on_failure
def in_float32(a: np.ndarray, b: np.ndarray, unit: Unit, precision: str, rounding: str = "rna") -> np.ndarray:
    """The product of a unit whose order of sums is not known."""
    from .contract import matmul as product

    left, right = (_flush_subnormals(x.astype(np.float32, copy=False), unit) for x in (a, b))
    if unit.exact_gemv and 1 in (a.shape[-2], b.shape[-1]) and not current_demand().batch:
        precision = "ieee"
    with without_observers():
        return _flush_subnormals(product(left, right, precision=precision, rounding=rounding), unit)


def _flush_subnormals(x: np.ndarray, unit: Unit) -> np.ndarray:
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x) if unit.flushes else x
