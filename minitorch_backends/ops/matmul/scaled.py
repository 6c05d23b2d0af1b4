"""Products of 8-bit and 4-bit floats with scales: `_scaled_mm`, and `nn.functional.scaled_mm` with named recipes.

`scales` converts the scales of both operands to float32 arrays of shape (rows or 1, parts of K) and (parts of K,
columns or 1), for one kernel. Scales of Hopper's recipes (tensor, rows, 1 x 128 and 128 x 128) multiply sums. Those of
the OCP's and NVIDIA's blocks of 32 and 16, in 8-bit floats, multiply operands, exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from ...dispatch.op import Array, composite, op
from ...kernels.precisions.float8 import FORMATS, PACKED, to_float32, unpack
from ...tensor.casting import cast_unchecked
from ...tensor.dtypes import DType, bfloat16, dtype_of, float8_e4m3fn, float8_e8m0fnu, to_dtype
from ...tensor.registry import functions
from ...tensor.tensor import Tensor
from ..functional import functional
from ..gradients import no_derivative
from .dispatch import wide_product

__all__ = ["_scaled_mm"]


# Recipes of scales: which elements of an operand have one in common, and how the scales lie in memory.
#
# Sources: torch's documentation; the OCP Microscaling Formats (MX) specification 1.0; NVIDIA's cuBLAS documentation for
# the layout in tiles of 128 x 4 (`SWIZZLE_32_4_4`).


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


_PACKED_BY = {ScalingType.BlockWise1x16: (True,), ScalingType.BlockWise1x32: (False, True)}
"""The recipes whose operands may be pairs of 4-bit numbers."""


def _checked_factors(called: str, a: np.ndarray, b: np.ndarray) -> None:
    """Raise ValueError for operands of other dtypes, RuntimeError for shapes that do not multiply."""
    for name, each in (("a", a), ("b", b)):
        if each.dtype != PACKED and each.dtype.name not in FORMATS:
            raise ValueError(
                f"{called}(): mat_{name} must be of an 8-bit floating dtype or mt.float4_e2m1fn_x2, got "
                f"{dtype_of(each)!r}; scale it and use .to(mt.float8_e4m3fn)"
            )
        if each.ndim != 2:
            raise RuntimeError(f"{called}(): mat_{name} must be a matrix, got shape {list(each.shape)}")
    if a.shape[1] != b.shape[0]:
        shapes = " and ".join("x".join(map(str, each.shape)) for each in (a, b))
        raise RuntimeError(f"{called}(): mat_a and mat_b shapes cannot be multiplied ({shapes})")
    if (a.dtype == PACKED) != (b.dtype == PACKED):
        raise ValueError(
            f"{called}(): both operands must have 4 bits or neither, got {dtype_of(a)!r} and {dtype_of(b)!r}"
        )


_NO_GRADIENT: dict[str, Any] = dict.fromkeys(
    ("mat_a", "mat_b", "scale_a", "scale_b", "bias", "tensor_a", "tensor_b", "scale_result"), no_derivative("scaled_mm")
)


@op(
    traits="function unwidened",
    takes="fnp",
    product="matmul",
    **_NO_GRADIENT,
    batch="loop: a fixed number of dimensions",
)
def scaled_product(
    mat_a: Array,
    mat_b: Array,
    scale_a: Array,
    scale_b: Array,
    bias: Array | None = None,
    tensor_a: Array | None = None,
    tensor_b: Array | None = None,
    scale_result: Array | None = None,
    *,
    recipes: Any = None,
    tiled: Any = (False, False),
    out_dtype: Any = None,
    use_fast_accum: bool = False,
    called: str = "scaled_mm",
) -> np.ndarray:
    """The product of scaled operands, plus a bias; divided by `scale_result` where `out_dtype` is an 8-bit float.

    `recipes` names those of both operands; None stands for the first pair of recipes whose scales have these shapes.
    """
    _checked_factors(called, mat_a, mat_b)
    wanted = dtype_of(mat_a) if out_dtype is None else to_dtype(out_dtype)
    if wanted.letter not in "fn":
        raise ValueError(f"{called}(): out_dtype must be a floating dtype, got {wanted!r}")
    k = mat_a.shape[1] * (2 if mat_a.dtype == PACKED else 1)
    sides = (
        Operand("a", scale_a, mat_a.shape[0], k, dtype_of(mat_a)),
        Operand("b", scale_b, mat_b.shape[1], k, dtype_of(mat_b)),
    )
    if recipes is not None and (mat_a.dtype == PACKED) not in _PACKED_BY.get(recipes[0], (False,)):
        raise ValueError(f"{called}(): {recipes[0].name} scales must not be those of {dtype_of(mat_a)!r}")
    if use_fast_accum and mat_a.dtype == PACKED:
        raise ValueError(f"{called}(): use_fast_accum must be False for {dtype_of(mat_a)!r}, got True")
    if recipes is None:
        recipes, scales = infer_recipes(called, sides)
    else:
        scales = explicit(called, sides, recipes, tiled)
    result = _product(
        mat_a,
        mat_b,
        scales[0],
        scales[1].T,
        BLOCKS[recipes[0]],
        recipes[0] in (ScalingType.BlockWise1x16, ScalingType.BlockWise1x32),
        use_fast_accum,
    )
    for each in (tensor_a, tensor_b):
        if each is not None:
            result = result * _one_number(called, "scale of the tensor", each)
    if bias is not None:
        if bias.size != mat_b.shape[1]:
            raise RuntimeError(f"{called}(): bias must have {mat_b.shape[1]} elements, got {bias.size}")
        result = result + cast_unchecked(bias, np.dtype(np.float32)).reshape(-1)
    if scale_result is not None:
        divisor = _one_number(called, "scale_result", scale_result)
        result = result / divisor if wanted.letter == "n" and out_dtype is not None else result
    return cast_unchecked(result, wanted.dtype)


def _one_number(called: str, name: str, array: np.ndarray) -> np.ndarray:
    if array.dtype != np.float32 or array.size != 1:
        raise ValueError(
            f"{called}(): {name} must be one mt.float32 number, got {dtype_of(array)!r} of shape {list(array.shape)}"
        )
    return array.reshape(())


def _product(
    a: np.ndarray, b: np.ndarray, scale_a: np.ndarray, scale_b: np.ndarray, block: int, inside: bool, fast: bool
) -> np.ndarray:
    """The product in float32 of operands and scales of the kernel's form."""
    kinds = (a.dtype, b.dtype)
    if a.dtype == PACKED:
        a, b = unpack(a, 1), unpack(b, 0)
    scales = (np.ascontiguousarray(scale_a), np.ascontiguousarray(scale_b))
    return wide_product(a, b, *scales, kinds=kinds, block=block, inside=inside, fast=fast)


@composite(method=False, product="matmul")
def _scaled_mm(
    input: Tensor,
    mat2: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None = None,
    scale_result: Tensor | None = None,
    out_dtype: Any = None,
    use_fast_accum: bool = False,
) -> Tensor:
    """The product of matrices of 8-bit floats (M, K) and (K, N), or of packed 4-bit ones, times their scales, in
    `out_dtype` (that of `input` by default).

    The shapes of the scales determine the recipe: one float32 number each (tensor), (M, 1) and (1, N) (rows), (M,
    K/128) or (M/128, K/128) with (K/128, N) or (K/128, N/128) (blocks). Scales in float8_e8m0fnu belong to blocks of 32
    along K, and those in float8_e4m3fn to blocks of 16 of 4-bit numbers, in tiles of 128 x 4 as NVIDIA's units read
    them.

    The bias (N) is added in float32, and an 8-bit result is divided by `scale_result`. `use_fast_accum` omits the sums
    outside the unit that `backends.profile` may request. Raises ValueError for other dtypes and shapes of scales.
    """
    return scaled_product(
        input, mat2, scale_a, scale_b, bias, None, None, scale_result,
        out_dtype=out_dtype, use_fast_accum=use_fast_accum, called="_scaled_mm",
    )  # fmt: skip


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _recipe(name: str, scale: Any, recipe: Any) -> tuple[Any, ScalingType, Any]:
    """The scale and recipe of blocks, rows or the tensor, and the tensor's scale for blocks of 16."""
    scales, recipes = _as_list(scale), _as_list(recipe)
    for each in recipes:
        if not isinstance(each, ScalingType):
            raise TypeError(f"scaled_mm(): scale_recipe_{name} must be a ScalingType, got {each!r}")
    if len(scales) == len(recipes) == 1:
        return scales[0], recipes[0], None
    if len(scales) == len(recipes) == 2 and recipes == [ScalingType.BlockWise1x16, ScalingType.TensorWise]:
        return scales[0], recipes[0], scales[1]
    kinds = ", ".join(each.name for each in recipes)
    raise ValueError(
        f"scaled_mm(): scale_{name} must be one tensor for one recipe, or two for BlockWise1x16 and TensorWise, got "
        f"{len(scales)} for {kinds}"
    )


def _is_tiled(name: str, swizzle: Any) -> bool:
    for each in _as_list(swizzle):
        if each is not None and not isinstance(each, SwizzleType):
            raise TypeError(f"scaled_mm(): swizzle_{name} must be a SwizzleType or None, got {each!r}")
    return SwizzleType.SWIZZLE_32_4_4 in _as_list(swizzle)


@functional
@composite(method=False, product="matmul")
def scaled_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    scale_a: Tensor | list[Tensor],
    scale_recipe_a: ScalingType | list[ScalingType],
    scale_b: Tensor | list[Tensor],
    scale_recipe_b: ScalingType | list[ScalingType],
    swizzle_a: SwizzleType | list[SwizzleType] | None = None,
    swizzle_b: SwizzleType | list[SwizzleType] | None = None,
    bias: Tensor | None = None,
    output_dtype: DType | None = bfloat16,
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
) -> Tensor:
    """The product of matrices of 8-bit floats (M, K) and (K, N), or of packed 4-bit ones, times their scales, whose
    layout the recipes name.

    Scales are float32: one number (TensorWise), (M, 1) and (1, N) (RowWise), (M, K/128) and (N, K/128)
    (BlockWise1x128), (K/128, M/128) and (K/128, N/128), where the first size may be rounded up to a multiple of four
    (BlockWise128x128). Those of blocks of 32 are float8_e8m0fnu. Those of blocks of 16 of 4-bit numbers are
    float8_e4m3fn, in a list with a second float32 number (TensorWise); in rows or, with SWIZZLE_32_4_4, in tiles.
    `contraction_dim` names the dimensions of K. The other arguments are those of `_scaled_mm`. Raises ValueError for
    recipes that do not go together, for a scale of one tensor alone, and for other `contraction_dim`.
    """
    first, recipe_a, tensor_a = _recipe("a", scale_a, scale_recipe_a)
    second, recipe_b, tensor_b = _recipe("b", scale_b, scale_recipe_b)
    if (recipe_a, recipe_b) not in [
        *PAIRS,
        (ScalingType.BlockWise1x32, ScalingType.BlockWise1x32),
        (ScalingType.BlockWise1x16, ScalingType.BlockWise1x16),
    ]:
        raise ValueError(
            "scaled_mm(): recipes must be equal, or BlockWise1x128 beside BlockWise128x128, got "
            f"{recipe_a.name} and {recipe_b.name}"
        )
    if (tensor_a is None) != (tensor_b is None):
        raise ValueError("scaled_mm(): both operands must have a scale of the tensor or neither, got one")
    if contraction_dim:
        if len(contraction_dim) != 2 or not {*contraction_dim} <= {0, 1, -1, -2}:
            raise ValueError(f"scaled_mm(): contraction_dim must be two of 0 and 1, got {tuple(contraction_dim)}")
        mat_a = mat_a if contraction_dim[0] in (1, -1) else mat_a.t()
        mat_b = mat_b if contraction_dim[1] in (0, -2) else mat_b.t()
    return scaled_product(
        mat_a, mat_b, first, second, bias, tensor_a, tensor_b, None,
        recipes=(recipe_a, recipe_b), tiled=(_is_tiled("a", swizzle_a), _is_tiled("b", swizzle_b)),
        out_dtype=output_dtype, use_fast_accum=use_fast_accum,
    )  # fmt: skip
