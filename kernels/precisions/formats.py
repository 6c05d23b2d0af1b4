"""The table of formats of operands: an element, the block that has a scale in common, the scale's type and its rule.

A tensor in a format is an array of elements and their scales. The names of `products` that round or scale
operands in one part are rows here, so that both tables describe them once. `add` enters further rows:

    from minitorch_backends.kernels import precisions
    precisions.add(precisions.Format("e4m3-by-64", "e4m3", (1, 64), "bf16"))

Sources: the OCP Microscaling Formats (MX) specification 1.0; NVIDIA's documentation of cuBLAS (block scaling, 1D and
2D) for the rules of E8M0 and NVFP4; "Recipes for pre-training LLMs with MXFP8", arXiv 2506.08027, for "rceil";
"Pretraining large language models with NVFP4", arXiv 2509.25149, for scales of 16 x 16 and the rotation; "DeepSeek-V3
technical report", arXiv 2412.19437, for 1 x 128 and 128 x 128; torchao's `ScaleCalculationMode` for "ceil" and "even",
and its `choose_qparams_affine` for integers.
"""

from __future__ import annotations

from typing import NamedTuple

from .elements import ELEMENTS
from .ggml import BLOCKS
from .products import PRECISIONS, Precision

SCALES = ("fp32", "bf16", "e8m0", "e4m3")
"""Types of scales. Those in "e4m3" follow a float32 scale of the tensor."""

RULES = ("largest", "floor", "rceil", "ceil", "even")
"""Scales from the largest magnitude of a block: it divided by the format's greatest number ("largest"); that rounded up
to a power of two ("rceil"); the power of two below it ("floor", OCP's), above it ("ceil"), or below it once it is
rounded to the element's significand ("even"), each divided by the greatest power of two of the format."""

ROTATIONS = (0, 16, 32)


class Format(NamedTuple):
    """One row of `FORMATS`.

    Attributes:
        element: a key of `elements.ELEMENTS`; its integers are "int8" and "int4".
        block: rows and neighbours along K that have a scale in common; 0 for all of them. None: no scales.
        scale: one of `SCALES`.
        rule: one of `RULES`.
        rounding: "rne", "stochastic", or "" for that of the flag `scaled_rounding`.
        rotation: the size of the Hadamard transform along K in which elements are rounded; 0 for none.
        zero_point: whether integers span the block's least to its greatest number instead of a symmetric range.
        end: the magnitude to which the largest of a block is scaled; 0 for the element's greatest number.
        sums: the profile whose matrix unit sums products of matrices with another format of scaled blocks of the same
            length, each block promoted to float32 and scaled there; "" for float32 sums.
        packed: the block type of ggml ("q4_0" to "q6_k") that replaces element, block and scale; "" for none.
        source: where it is defined or from.
    """

    name: str
    element: str
    block: tuple[int, int] | None = None
    scale: str = "fp32"
    rule: str = "largest"
    rounding: str = ""
    rotation: int = 0
    zero_point: bool = False
    end: float = 0.0
    packed: str = ""
    source: str = ""
    sums: str = ""

    @property
    def is_exact(self) -> bool:
        return self.element == "fp32" and not self.packed

    @property
    def is_integer(self) -> bool:
        return self.element.startswith("int")

    @property
    def meaning(self) -> str:
        """One line for tables."""
        if self.packed:
            return f"ggml's block type {self.packed.upper()}"
        if self.block is None:
            return "as they are" if self.is_exact else f"rounded to {self.element}"
        along = {0: "all"}.get(self.block[1], str(self.block[1]))
        rows = {0: "all rows", 1: "each row"}.get(self.block[0], f"{self.block[0]} rows")
        shared = "the tensor" if self.block == (0, 0) else f"{along} numbers along K of {rows}"
        more = [f"in {self.scale} by {self.rule!r}"] + ["with zero points"] * self.zero_point
        more += [f"after a Hadamard transform of {self.rotation}"] * bool(self.rotation)
        more += [f"rounded {self.rounding}"] * bool(self.rounding)
        more += [f"summed as {self.sums} does, block by block"] * bool(self.sums)
        return f"{self.element}, a scale of {shared}, {', '.join(more)}"


FORMATS: dict[str, Format] = {}
"""Every format by name."""


def add(row: Format) -> None:
    """Enter a row: all flags of `backends.operands` and `precision=(left, right)` take its name.

    Raises ValueError for a name that is taken and for fields outside of their choices.
    """
    if row.name in FORMATS or row.name in ("none", ""):
        raise ValueError(f"add(): name must be new, got {row.name!r}")
    for field, value, choices in (
        ("element", row.element, ELEMENTS), ("scale", row.scale, SCALES), ("rule", row.rule, RULES),
        ("rotation", row.rotation, ROTATIONS), ("rounding", row.rounding, ("", "rne", "stochastic")),
    ):  # fmt: skip
        if value not in choices:
            raise ValueError(f"add(): {field} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    if (row.rule == "largest") == (row.scale == "e8m0") and row.block is not None:
        raise ValueError(f"add(): scales in e8m0, and only they, take a rule of powers of two, got {row.rule!r}")
    if row.zero_point and not row.is_integer:
        raise ValueError(f"add(): zero_point is for int8 and int4, got {row.element!r}")
    FORMATS[row.name] = row


def find_format(name: str) -> Format:
    """The row of a name; a ValueError that lists the names otherwise."""
    row = FORMATS.get(name)
    if row is None and name in PRECISIONS and PRECISIONS[name].parts == 1:  # one that a user added
        row = _of_precision(PRECISIONS[name])
    if row is None:
        raise ValueError(f"{name!r} is not a format of operands; expected one of {', '.join(FORMATS)}")
    return row


def _of_precision(row: Precision) -> Format:
    if row.scale is None:
        return Format(row.name, row.operand)
    rule = "floor" if row.scale.format == "e8m0" else "largest"
    return Format(row.name, row.operand, (int(row.scale.block > 0), row.scale.block), row.scale.format, rule)


for _each in PRECISIONS.values():
    if _each.parts == 1:
        add(_of_precision(_each))

_NVFP4, _MX, _DEEPSEEK = "arXiv 2509.25149", "arXiv 2506.08027", "arXiv 2412.19437"

for _row in (
    Format("mxfp8-e5m2", "e5m2", (1, 32), "e8m0", "floor", source="OCP MX 1.0"),
    Format("mxfp6-e3m2", "e3m2", (1, 32), "e8m0", "floor", source="OCP MX 1.0"),
    Format("mxint8", "int8", (1, 32), "e8m0", "floor", source="OCP MX 1.0, with elements in units of 1"),
    *(
        Format(f"{_name}-{_rule}", _element, (1, 32), "e8m0", _rule, source=_MX if _rule == "rceil" else "torchao")
        for _name, _element in (("mxfp8", "e4m3"), ("mxfp8-e5m2", "e5m2"), ("mxfp6", "e2m3"), ("mxfp4", "e2m1"))
        for _rule in RULES[2:]
    ),
    Format("nvfp4-2d", "e2m1", (16, 16), "e4m3", source=_NVFP4),
    Format("nvfp4-rotated", "e2m1", (1, 16), "e4m3", rotation=16, source=_NVFP4),
    Format("nvfp4-stochastic", "e2m1", (1, 16), "e4m3", rounding="stochastic", source=_NVFP4),
    Format("nvfp4-rotated-stochastic", "e2m1", (1, 16), "e4m3", "largest", "stochastic", 16, source=_NVFP4),
    Format("e4m3-row", "e4m3", (1, 0), source="torchao, rowwise"),
    Format("e5m2-row", "e5m2", (1, 0), source="torchao, rowwise"),
    Format("e4m3-row-pow2", "e4m3", (1, 0), "e8m0", "rceil", source="torchao, round_scales_to_power_of_2"),
    Format("e4m3-pow2", "e4m3", (0, 0), "e8m0", "rceil", source="torchao, round_scales_to_power_of_2"),
    Format("e4m3-1x128", "e4m3", (1, 128), source=_DEEPSEEK),
    Format("e4m3-1x128-promoted", "e4m3", (1, 128), source=_DEEPSEEK, sums="h100"),
    Format("e4m3-128x128", "e4m3", (128, 128), source=_DEEPSEEK),
    Format("int8-row", "int8", (1, 0), end=127.5, source="torchao, Int8WeightOnlyConfig"),
    Format("int4-32", "int4", (1, 32), "bf16", zero_point=True, source="torchao, Int4WeightOnlyConfig"),
    Format("int4-64", "int4", (1, 64), "bf16", zero_point=True, source="torchao, Int4WeightOnlyConfig"),
    Format("int4-128", "int4", (1, 128), "bf16", zero_point=True, source="torchao, Int4WeightOnlyConfig"),
    Format("int4-symmetric-32", "int4", (1, 32), end=7.5, source="torchao, Int8DynamicActivationInt4WeightConfig"),
    *(Format(name, "fp32", packed=name, source="llama.cpp, ggml-quants.c") for name in BLOCKS),
):
    add(_row)
