"""What compiled loops know of a convolution: integers at an address, by name.

A plan is many numbers that do not depend on addresses and values. They are written once into an array of int64, and the
loops read them where they need them: an argument of compiled code costs a tenth of a microsecond in every call.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..block.emit import I64, POINTER, load
from ..runtime.jit import ir
from ..runtime.record import Record


def _record(name: str, fields: str) -> Any:
    """A class of records of integers with these names."""
    return type(name, (Record,), {"__module__": __name__, "__annotations__": dict.fromkeys(fields.split(), int)})


Plan = _record("Plan", """
    pack groups period_stride runs offsets tables planes channels count blocks parts all_groups group_stride zeros depth
    ahead array_bytes part_bytes region_bytes region_groups front_groups strip_table strips pack_chunk array_chunk
    plane_table convolve finish channel_groups columns channel_stride relu direct panels chunk sums_bytes passes
    pass_table group_bytes bias_group
""")  # fmt: skip
"""Fields of a convolution: of reading (spots of the array, its channels, and the leaf that packs), of the packed form
(the groups of a region, and those in front of a strip), and of computing and writing."""

PassPlan = _record("PassPlan", """
    steps table end groups period_stride runs offsets block_chunk panel_chunk blocks starts period
""")  # fmt: skip
"""Fields of each pass, one after the other at `pass_table`."""

Plane = _record("Plane", """
    origin first_d last_d first_h last_h first_w last_w step_d step_h step_w rows columns image images image_stride
""")  # fmt: skip
"""Fields of the reading of each plane, one after the other at `plane_table`: bytes to where its first place would be,
for each dimension the places that exist and the bytes between them, rows and columns, and positions of an image."""

WeightPlan = _record("WeightPlan", """
    leaf steps chunk panels blocks taps panel_chunk tap_chunk table a_panel b_part b_block outputs channels row_stride
    channel_stride tap_stride sums_bytes parities odd partitions front_groups lines_x lines_g panels_bytes
""")  # fmt: skip
"""Fields of the gradient with respect to a weight."""

DepthwisePlan = _record("DepthwisePlan", """
    leaf pack whole_from whole_to images channels units unit_table plane_table line_table line_row rows all_rows
    row_source x_image out_image out_plane out_row first advance positions results reach read_step write_step
    plane_step line_step plane_source plane_tap inner_table inner_source inner_weight output_source line_source
    line_tap plane_weight line_weight tap reads group_step group_weight read_channel write_channel
    weight_channel columns result_columns relu all_taps unit_bytes part_bytes chunk chunks strip strips pieces
    all_pieces pieces_each
""")  # fmt: skip
"""Fields of a depthwise convolution and of its gradients."""

NchwPlan = _record("NchwPlan", """
    leaf channels columns steps chunk panels panel_chunk block_bytes strip strips groups positions size x_image
    x_group x_channel out_image out_group out_channel a_panel relu direct packed_bytes runs offsets spots
""")  # fmt: skip
"""Fields of a convolution of one tap."""

NhwcPlan = _record("NhwcPlan", """
    leaf steps panels panel_chunk x_row a_row out_row relu positions strip strips write_each table ahead
    out_ahead worker_bytes
""")  # fmt: skip
"""Fields of a convolution of one tap with its channels last."""


def plan_with(fields: dict[str, int]) -> Any:
    """A plan with these fields, and 0 in all others."""
    return Plan(**dict.fromkeys(Plan.places(), 0) | fields)


def table_of(kind: type[Record], rows: list[dict[str, int]]) -> np.ndarray:
    """Records of a class, one after the other."""
    return np.array([[row[name] for name in kind.places()] for row in rows], np.int64).reshape(-1, kind.words())


def read_field(builder: ir.IRBuilder, kind: type[Record], address: ir.Value, name: str) -> ir.Value:
    """The field of a plan at an address."""
    at = builder.gep(builder.inttoptr(address, POINTER), [I64(8 * kind.places()[name][0])])
    return load(builder, I64, at, 8)
