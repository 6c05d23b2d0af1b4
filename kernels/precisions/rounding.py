"""Rounding of arrays to formats of operands: `round_operand`. Values are those that elements and scales stand for.

Blocks of one row, symmetric, run in the compiled loops of `scaling_loops`; blocks of several rows are laid out so that
each is a row. Integers with a zero point, or scaled to another end than their greatest number, are NumPy's own
arithmetic, for they are formats of weights, which are rounded once.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from ..runtime import threading
from . import scaling
from .elements import ELEMENTS, round_to_format
from .formats import Format, find_format
from .ggml import BLOCKS, INSTEAD, dequantize, quantize

TE_SIGNS = (1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1)
"""The signs of TransformerEngine's Hadamard transform, which are fixed."""


def refusal(name: str, shape: tuple[int, ...], axis: int) -> str | None:
    """Why an array of a shape, with K along an axis, cannot have a format, with the remedy; None if it can."""
    row = find_format(name)
    k = shape[axis] if shape else 1
    whole = row.rotation or (BLOCKS[row.packed].length if row.packed else 0)
    if whole and k % whole:
        what = "Hadamard transform" if row.rotation else "block"
        where = f"K = {k} of the operand of shape {list(shape)}"
        instead = INSTEAD.get(name) if k % BLOCKS["q5_0"].length == 0 else None
        remedy = f"choose {instead!r}, as llama-quantize does there" if instead else "choose another format"
        return f"its {what} of {whole} does not divide {where}; {remedy}"
    return None


def remainder(name: str, length: int) -> str:
    """A remark on the last block of so many numbers along K, where it is shorter than the format's; else empty."""
    row = find_format(name)
    along = row.block[1] if row.block else 0
    rest = length % along if along else 0
    return f"{name}: the last block of {along} along K = {length} has {rest}" if rest else ""


def round_operand(
    x: np.ndarray, name: str, axis: int = -1, rounding: str = "rne", seed: int | None = None
) -> np.ndarray:
    """A float32 array, with K along an axis, rounded to a format: float32 of its shape, in a layout of its own.

    `rounding` is "rne" or "stochastic" where the format leaves it open. The last block along K may be shorter. Inf and
    NaN stay. Raises ValueError where `refusal` has a sentence.
    """
    return round_in_range(x, name, axis, rounding, seed).values


class Rounded:
    """An operand in its format, as float32.

    Attributes:
        values: what it stands for.
        fits_bf16: whether bf16 holds all of them.
        scales: those of rows in float32, with 1 along K, where bf16 holds the `numbers` in front of them; or None.
    """

    __slots__ = ("_numbers", "fits_bf16", "scales", "values")

    def __init__(self, values: np.ndarray, fits_bf16: bool, scales: np.ndarray | None = None) -> None:
        self.values, self.fits_bf16, self.scales = values, fits_bf16, scales
        self._numbers: np.ndarray | None = None

    @property
    def numbers(self) -> np.ndarray:
        """The values without their scales, but for errors of float32, which rounding to bf16 removes."""
        if self._numbers is None:
            self._numbers = self.values if self.scales is None else self.values / self.scales
        return self._numbers


def round_in_range(x: np.ndarray, name: str, axis: int = -1, rounding: str = "rne", seed: int | None = None) -> Rounded:
    """`round_operand`, and whether bf16 holds its values: those of short significands, scaled by powers of two, whose
    numbers are normal."""
    row = find_format(name)
    if row.is_exact or not x.size:
        return Rounded(x, not x.size)
    if row.block is None and not row.packed:
        return Rounded(to_element(x, row.element), row.element == "bf16")
    if sentence := refusal(name, x.shape, axis):
        raise ValueError(f"round_operand(): format {name!r} does not fit, for {sentence}")
    lines = np.moveaxis(x, axis, -1)
    rows = np.ascontiguousarray(lines).reshape(-1, lines.shape[-1])
    if row.rotation:
        turn = _rotation(row.rotation)
        rows = (rows.reshape(-1, row.rotation) @ turn).reshape(rows.shape)
    rounded, least = _round_rows(rows, lines.shape, row, row.rounding or rounding, seed)
    if row.rotation:
        rounded = (rounded.reshape(-1, row.rotation) @ turn.T).reshape(rows.shape)
    short = ELEMENTS[row.element].significand <= 8 and not row.rotation
    fits = short and row.scale == "e8m0" and least >= _LEAST_NORMAL
    values = np.moveaxis(rounded.reshape(lines.shape), -1, axis)
    if not short or row.block != (1, 0) or row.scale != "fp32" or row.end:
        return Rounded(values, fits)
    scales = np.maximum(rows.max(1), -rows.min(1)) / np.float32(ELEMENTS[row.element].greatest)
    scales[scales == 0] = 1
    if not (scales.min() > 2.0**-60 and scales.max() < 2.0**60):  # or NaN: products could leave the range of float32
        return Rounded(values, fits)
    return Rounded(values, fits, np.moveaxis(scales.reshape(*lines.shape[:-1], 1), -1, axis))


_LEAST_NORMAL = 2.0**-126


def numbers_and_scales(x: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    """A matrix (rows, k) as the numbers of a format with float32 scales of blocks along k, and the scale of each block
    of each row (rows, blocks). Their products are `round_operand`'s values."""
    row = find_format(name)
    assert row.block is not None
    across, along = row.block
    rows, k = x.shape
    padded = np.abs(np.pad(np.where(np.isfinite(x), x, 0), ((0, -rows % across), (0, -k % along))))
    largest = padded.reshape(len(padded) // across, across, -1, along).max((1, 3))
    scales = np.repeat(largest / np.float32(ELEMENTS[row.element].greatest), across, 0)[:rows]
    divisors = np.repeat(scales, along, 1)[:, :k]
    numbers = np.divide(x, divisors, out=np.zeros_like(x), where=divisors > 0)
    return np.where(np.isfinite(x), round_to_format(numbers, row.element), x), scales


def to_element(x: np.ndarray, element: str) -> np.ndarray:
    """A float32 array rounded to bf16, fp16 or tf32, or as it is for fp32."""
    from .parts import round_to

    return x if element == "fp32" else round_to(x, element)


def _round_rows(
    rows: np.ndarray, shape: tuple[int, ...], row: Format, rounding: str, seed: int | None
) -> tuple[np.ndarray, float]:
    """Rounded rows, and the least magnitude among those of blocks, or 0 where it is not known."""
    if row.packed:
        return dequantize(quantize(rows, row.packed), row.packed), 0.0
    assert row.block is not None
    across, along = row.block
    if row.zero_point or row.end:
        return _affine(rows, row, along or rows.shape[1]), 0.0
    if across == 1:
        return _round_blocks(rows, along or rows.shape[1], row, rounding, seed)
    if not across:
        found, least = _round_blocks(rows.reshape(1, -1), rows.size, row, rounding, seed)
        return found.reshape(rows.shape), least
    return _in_blocks(rows, shape, across, along, row, rounding, seed)


def _in_blocks(
    rows: np.ndarray, shape: tuple[int, ...], across: int, along: int, row: Format, rounding: str, seed: int | None
) -> tuple[np.ndarray, float]:
    """Each block of several rows of a matrix as a row; zeros complete the last ones."""
    k = rows.shape[1]
    matrices = rows.reshape(-1, shape[-2] if len(shape) > 1 else 1, k)
    batch, height = matrices.shape[:2]
    padded = np.pad(matrices, ((0, 0), (0, -height % across), (0, -k % along)))
    parts = (batch, padded.shape[1] // across, across, padded.shape[2] // along, along)
    blocks = padded.reshape(parts).transpose(0, 1, 3, 2, 4)
    rounded, least = _round_blocks(blocks.reshape(-1, across * along), across * along, row, rounding, seed)
    rounded = rounded.reshape(blocks.shape).transpose(0, 1, 3, 2, 4).reshape(padded.shape)
    return rounded[:, :height, :k].reshape(rows.shape), least


_NUMBERS = 1 << 15
"""Numbers that a thread takes at a time."""


def _round_blocks(
    rows: np.ndarray, block: int, row: Format, rounding: str, seed: int | None
) -> tuple[np.ndarray, float]:
    """Rows rounded by the compiled loops, with symmetric scales of blocks of each row, and the least magnitude."""
    from . import scaling_loops as loops

    form = ELEMENTS[row.element]
    kinds = {"floor": loops.E8M0, "rceil": loops.RCEIL, "ceil": loops.CEIL, "even": loops.EVEN}
    kind = kinds.get(row.rule) or {"fp32": loops.FP32, "bf16": loops.BF16, "e4m3": loops.E4M3}[row.scale]
    rows, (count, k) = np.ascontiguousarray(rows), rows.shape
    out, tensor = np.empty_like(rows), np.float32(1)
    if kind == loops.E4M3:
        tensor = scaling.tensor_scale(rows, scaling.Scale(block, "e4m3"), form.greatest)
    exponent = np.int32(math.frexp(form.greatest)[1] - 1)
    if rounding == "stochastic":
        numbers = (
            np.int32(form.significand),
            np.int32(form.least),
            np.float32(form.greatest),
            np.float32(2.0**form.least),
        )
        draw = np.uint32(scaling.draw_seed() if seed is None else seed)
        loops.round_rows(rows, out, block, kind, tensor, numbers, exponent, True, draw)
        return (np.multiply(out, tensor, out=out) if kind == loops.E4M3 else out), 0.0
    lines = max(1, _NUMBERS // k)
    lows = np.empty(-(-count // lines), np.uint32)
    pool, threads = (0, 1) if len(lows) == 1 else threading.pool()
    loops.run(pool, threads, loops.Rows(
        rows.ctypes.data, out.ctypes.data, lows.ctypes.data, count, k, block, lines, kind, tensor, exponent,
        np.uint32(1 << (23 - form.significand)), np.uint32(24 - form.significand), np.uint32(form.least + 127),
        np.float32(form.greatest),
    ))  # fmt: skip
    least = lows.min() + np.uint32(1)  # 0 where all results are
    return out, float(least.view(np.float32)) if least else math.inf


def _affine(rows: np.ndarray, row: Format, block: int) -> np.ndarray:
    """Integers by torchao's rules: two's complement; with a zero point from the least to the greatest number of a
    block, in tinygemm's form of a float zero point (the middle of the range), or symmetric to `end`."""
    k, bits = rows.shape[1], ELEMENTS[row.element].significand
    padded = np.pad(rows, ((0, 0), (0, -k % block)), mode="edge")
    blocks = padded.reshape(-1, block)
    finite = np.where(np.isfinite(blocks), blocks, 0)
    half = np.float32(1 << (bits - 1))
    if row.zero_point:
        least, most = finite.min(1, keepdims=True), finite.max(1, keepdims=True)
        scale = np.maximum((most - least) / np.float32(2 * half - 1), np.float32(1e-6))
        scale, middle = (to_element(each, row.scale) for each in (scale, least + scale * half))
        least = to_element(middle - to_element(scale * half, row.scale), row.scale)
        whole = np.clip(np.rint((finite - least) / scale), 0, 2 * half - 1)
        values = (whole - half) * scale + middle
    else:
        scale = np.maximum(np.abs(finite).max(1, keepdims=True) / np.float32(row.end), np.finfo(np.float32).eps)
        scale = to_element(scale, row.scale)
        values = np.clip(np.rint(finite * (1 / scale)), -half, half - 1) * scale
    values = np.where(np.isfinite(blocks), values, blocks).astype(np.float32)
    return values.reshape(padded.shape)[:, :k]


@functools.cache
def _rotation(size: int) -> np.ndarray:
    """The orthogonal Hadamard matrix with the fixed signs in front, which are repeated for 32."""
    matrix = np.ones((1, 1), np.float32)
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    signs = np.resize(np.array(TE_SIGNS, np.float32), size)
    turn = signs[:, None] * matrix / np.float32(math.sqrt(size))
    turn.flags.writeable = False
    return turn
