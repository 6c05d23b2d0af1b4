"""Recipes of scales: which elements of an operand have one in common, and how the scales lie in memory.

Sources: torch's documentation; the OCP Microscaling Formats (MX) specification 1.0; NVIDIA's cuBLAS documentation for
the layout in tiles of 128 x 4 (`SWIZZLE_32_4_4`).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from ...kernels.precisions.float8 import to_float32
from ...tensor.dtypes import DType, dtype_of, float8_e4m3fn, float8_e8m0fnu
from ...tensor.registry import functions


class ScalingType(Enum):
    """Which elements of an operand have a scale in common: all, a row, or blocks along K (of a row, or of 128 rows)."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(Enum):
    """How the scales of blocks lie in memory: in rows, or in tiles of 128 x 4 as NVIDIA's units read them."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


for _kind in (ScalingType, SwizzleType):
    functions.declare(_kind.__name__, _kind, __name__)

_TENSOR, _ROW, _BY_16, _BY_32, _BY_128, _BY_SQUARE = ScalingType

BLOCKS = {_TENSOR: 0, _ROW: 0, _BY_16: 16, _BY_32: 32, _BY_128: 128, _BY_SQUARE: 128}
"""The number of places of K that share a scale; 0 for all."""


class Operand(NamedTuple):
    """One operand of a product, seen as (rows, K), and its scale.

    Attributes:
        name: "a" or "b".
        scale: the array of the scale.
        rows: the rows of a, the columns of b.
        k: the length of the sums.
        dtype: of the elements.
    """

    name: str
    scale: np.ndarray
    rows: int
    k: int
    dtype: DType


class _Side(NamedTuple):
    """An operand by a recipe.

    Attributes:
        called: the function that users called.
        tiled: whether the scales of blocks lie in tiles of 128 x 4.
        layouts: the forms that scales of rows and squares may have, the usual one first.
    """

    called: str
    operand: Operand
    recipe: ScalingType
    tiled: bool
    layouts: tuple[str, ...]

    @property
    def parts(self) -> int:
        """The number of scales per row."""
        return -(-self.operand.k // BLOCKS[self.recipe]) if BLOCKS[self.recipe] else 1

    def invalid(self, expected: str) -> ValueError:
        name, scale, dtype = self.operand.name, self.operand.scale, self.operand.dtype
        return ValueError(
            f"{self.called}(): scale_{name} must be {expected} for {self.recipe.name} scales of {dtype!r}, "
            f"got {dtype_of(scale)!r} of shape {list(scale.shape)}"
        )

    def scales(self) -> np.ndarray:
        """The scales in float32, (rows or 1, parts). Raises ValueError for those of another dtype or shape."""
        if self.recipe in (_BY_16, _BY_32):
            return self._of_blocks()
        if self.recipe is _TENSOR:
            if self.operand.scale.dtype != np.float32 or self.operand.scale.size != 1:
                raise self.invalid("one mt.float32 number")
            return self.operand.scale.reshape(1, 1)
        rows, parts = -(-self.operand.rows // 128) if self.recipe is _BY_SQUARE else self.operand.rows, self.parts
        shapes = {"rows": (rows, parts), "turned": (parts, rows), "padded": (-(-parts // 4) * 4, rows)}
        layout = next((each for each in self.layouts if self.operand.scale.shape == shapes[each]), None)
        if self.operand.scale.dtype != np.float32 or layout is None:
            expected = " or ".join(str(list(shapes[each])) for each in self.layouts)
            raise self.invalid(f"mt.float32 of shape {expected}")
        found = self.operand.scale if layout == "rows" else self.operand.scale.T[:, :parts]
        return np.repeat(found, 128, 0)[: self.operand.rows] if self.recipe is _BY_SQUARE else found

    def _of_blocks(self) -> np.ndarray:
        """The scales of blocks of 32 (in e8m0) or 16 (in e4m3)."""
        wanted = float8_e8m0fnu if self.recipe is _BY_32 else float8_e4m3fn
        rows, parts = self.operand.rows, self.parts
        if self.tiled:
            rows, parts = -(-rows // 128) * 128, -(-parts // 4) * 4
        if (
            dtype_of(self.operand.scale) is not wanted
            or self.operand.scale.size != rows * parts
            or not self.operand.scale.flags.c_contiguous
        ):
            where = "in tiles of 128 x 4" if self.tiled else "in rows"
            raise self.invalid(f"{rows} x {parts} contiguous {wanted!r} numbers {where}")
        values = to_float32(self.operand.scale)
        if not self.tiled:
            return values.reshape(rows, parts)
        tiles = values.reshape(rows // 128, parts // 4, 32, 4, 4)  # tile, tile, row % 32, row // 32, column
        return tiles.transpose(0, 3, 2, 1, 4).reshape(rows, parts)[: self.operand.rows, : self.parts]


PAIRS = [(_TENSOR, _TENSOR), (_ROW, _ROW), (_BY_SQUARE, _BY_128), (_BY_128, _BY_SQUARE), (_BY_128, _BY_128)]
"""Recipes of both operands that multiply sums, those with fewer scales first."""


def explicit(called: str, sides: Sequence[Operand], recipes: Any, tiled: Any) -> list[np.ndarray]:
    """The scales of both operands by recipes that are named, in torch's newer layouts or else in its older ones."""
    layouts = {_ROW: (("rows",), ("turned",)), _BY_128: (("rows",), ("rows", "turned"))}
    squares = (("padded", "turned", "rows"),) * 2
    return [
        _Side(called, side, recipe, tiled[place], layouts.get(recipe, squares)[place]).scales()
        for place, (side, recipe) in enumerate(zip(sides, recipes, strict=True))
    ]


def infer_recipes(called: str, sides: Sequence[Operand]) -> tuple[tuple[ScalingType, ScalingType], list[np.ndarray]]:
    """The recipes that match the shapes and dtypes of the scales, and the scales. Raises ValueError if none matches."""
    packed = sides[0].dtype.letter == "p"
    pairs = [*([] if packed else PAIRS), (_BY_32, _BY_32), *([(_BY_16, _BY_16)] if packed else [])]
    for pair in pairs:
        try:
            return pair, [
                _Side(called, side, recipe, True, layouts).scales()
                for side, recipe, layouts in zip(sides, pair, (("rows",), ("turned",)), strict=True)
            ]
        except ValueError:
            continue
    (_, scale_a, m, k, dtype), (_, scale_b, n, _, _) = sides
    blocks, squares = -(-k // 128), (-(-m // 128), -(-n // 128))
    got = " and ".join(f"{dtype_of(each)!r} of shape {list(each.shape)}" for each in (scale_a, scale_b))
    floats = (
        f"one mt.float32 number each, [{m}, 1] and [1, {n}], [{m}, {blocks}] or [{squares[0]}, {blocks}] and "
        f"[{blocks}, {n}] or [{blocks}, {squares[1]}], or "
    )
    raise ValueError(
        f"{called}(): scale_a and scale_b must be {'' if packed else floats}8-bit scales of blocks in tiles of 128 x 4 "
        f"for {dtype!r}, got {got}"
    )
