"""Products with a right operand that is kept: packed once, for many left operands.

Call form: `linear(a, kept[, addend], *, precision="ieee", rounding="rna")` is a @ b + addend, where `kept` is
`Kept(b, ...)` for the same precision and rounding, and the addend broadcasts to the product. What the packed form
cannot hold (values that its splits would lose) is multiplied from the array.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from ..block.tuning import tuning
from ..precisions.products import PRODUCT_BOUND
from ..registry import ArraySpec, Kernel, Refused
from ..runtime.invariance import BOTH, Demand, current_demand
from .compiled import ISAS, multiply_packed, pack, vector_isa


class Kept:
    """A right operand (k, n) with its packed form, which is a copy: it must be made anew when the array changes."""

    __slots__ = ("array", "dtype", "packed", "shape")

    def __init__(self, array: np.ndarray, precision: str = "ieee", rounding: str = "rna") -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype
        self.packed = pack(array, precision if array.dtype.itemsize > 2 else "bf16", rounding)


def exact_linear(a: np.ndarray, kept: Kept, addend: np.ndarray | None = None, **_: str) -> np.ndarray:
    """The product and the sum in float64."""
    product = np.matmul(a.astype(np.float64), kept.array.astype(np.float64))
    return product if addend is None else product + addend.astype(np.float64)


linear = Kernel("linear", reference=exact_linear, bound=PRODUCT_BOUND)


def gains_by_packing(a: ArraySpec, b: ArraySpec, precision: str = "ieee", rounding: str = "rna") -> bool:
    """Whether `matmul` prefers loops that read packed operands for products of these shapes and dtypes."""
    return _prefer(a, b, precision, rounding, current_demand()) in ISAS


def gains_by_keeping(a: ArraySpec, b: ArraySpec, precision: str = "ieee", rounding: str = "rna") -> bool:
    """Whether such loops are the best for a right operand that is packed already: also where `matmul` only prefers not
    to pack it. All rows of a are one matrix."""
    rows, columns = math.prod(a.shape[:-1]), b.shape[-1]
    name = _prefer(a._replace(shape=(rows, a.shape[-1])), b, precision, rounding, current_demand())
    return name in ISAS or (name == "rows" and columns >= rows > tuning(vector_isa()).rows_kept_most)


@functools.lru_cache(maxsize=4096)
def _prefer(a: ArraySpec, b: ArraySpec, precision: str, rounding: str, _: Demand) -> str:
    from .contract import matmul

    return matmul.decide(a, b, precision=precision, rounding=rounding).candidates[0].name


@linear.impl("packed", keeps=BOTH)
def linear_packed(
    a: np.ndarray, kept: Kept, addend: np.ndarray | None = None, *, precision: str = "ieee", rounding: str = "rna"
) -> np.ndarray:
    """The product from the packed form, the addend added while it is stored."""
    if kept.packed is None:
        raise Refused(f"no loops here read a packed {kept.dtype} operand at {precision}")
    result = multiply_packed(a, kept.packed, addend=addend)
    if result is None:
        raise Refused(f"the values do not admit the packed form for {precision}")
    return result


@linear.impl("array", scales=True, keeps=BOTH)
def linear_from_array(
    a: np.ndarray, kept: Kept, addend: np.ndarray | None = None, *, precision: str = "ieee", rounding: str = "rna"
) -> np.ndarray:
    """The product as `matmul` does it, and then the sum."""
    from .contract import matmul

    product = matmul(a, kept.array, precision=precision, rounding=rounding)
    return product if addend is None else np.add(product, addend, dtype=product.dtype)
