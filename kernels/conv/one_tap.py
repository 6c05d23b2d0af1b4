"""Convolutions of one tap whose channels are neighbours in memory: a product of the positions, as they lie, with the
weights, which are packed once where they are kept."""

from __future__ import annotations

import numpy as np

from ..elementwise import each
from ..gemm.compiled import vector_isa
from ..gemm.product import Packed, product
from .kept import Kept, form_of
from .reading import is_channels_last, is_one_row
from .setting import Setting

__all__ = ["convolve", "takes"]


def takes(setting: Setting, x: np.ndarray, w: np.ndarray | Kept) -> bool:
    """Whether each position uses one tap, positions are consecutive, and channels form one group."""
    stride, padding, _ = setting.at
    return (
        max(w.shape[2:]) == setting.groups == max(stride) == 1
        and max(padding) == 0
        and is_channels_last(x.shape, x.strides, x.itemsize)
        and is_one_row(x.shape, x.strides, x.itemsize)
    )


def convolve(setting: Setting, x: np.ndarray, w: np.ndarray | Kept, bias: np.ndarray | None = None) -> np.ndarray:
    """`implicit.convolve` of what is taken."""
    isa = vector_isa()
    precision, rounding = setting.conversion(isa, x.dtype)
    rounding = rounding or "rna"

    def pack(array: np.ndarray) -> Packed:
        matrix = array.reshape(array.shape[:2])
        return Packed(matrix if setting.gradient else matrix.T, isa, precision, rounding)

    rows = np.moveaxis(x, 1, -1)
    weights = form_of(w, ("one tap", isa, precision, rounding, setting.gradient), pack)
    addend = None if bias is None else bias.astype(x.dtype, copy=False)
    out = product(
        rows.reshape(-1, rows.shape[-1]), weights, isa=isa, precision=precision, rounding=rounding, addend=addend
    )
    if setting.relu:
        each(np.maximum, out, out.dtype.type(0), out=out)
    return np.moveaxis(out.reshape(*rows.shape[:-1], -1), -1, 1)
