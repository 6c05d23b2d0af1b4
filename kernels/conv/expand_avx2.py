"""Positions that exist among sixteen, and neighbours in memory: expansion and compression without AVX-512.

A register's lanes are permuted by a table with a row for each mask of them: for expansion the number of lanes before
each, for compression the lanes that exist, one after the other.
"""

from __future__ import annotations

from typing import Any

from ..block import emit as e
from ..block.microkernels import convert
from ..runtime.jit import ir
from .geometry import GROUP

_REGISTER = 32
"""Bytes of a vector of AVX2."""


def _rows(lanes: int, expands: bool) -> list[list[int]]:
    """For each mask of so many lanes, which words of a register each word of the result takes."""
    words, rows = 8 // lanes, []
    for mask in range(1 << lanes):
        there = [lane for lane in range(lanes) if mask >> lane & 1]
        if expands:
            order = [there.index(lane) if lane in there else 0 for lane in range(lanes)]
        else:
            order = there + [0] * (lanes - len(there))
        rows.append([words * lane + word for lane in order for word in range(words)])
    return rows


def _permute(builder: ir.IRBuilder, value: ir.Value, mask: ir.Value, expands: bool) -> ir.Value:
    """The lanes of a register in the order of the table's row for a mask (int32)."""
    lanes, module = value.type.count, builder.module
    name = f"{'expansion' if expands else 'compression'}_of_{lanes}"
    table = module.globals.get(name)
    if table is None:
        row = ir.ArrayType(e.I8, 8)
        rows = [ir.Constant(row, each) for each in _rows(lanes, expands)]
        table = ir.GlobalVariable(module, ir.ArrayType(row, len(rows)), name)
        table.initializer, table.global_constant, table.linkage = ir.Constant(table.value_type, rows), True, "internal"
    at = builder.gep(table, [e.I32(0), mask, e.I32(0)])
    order = builder.zext(e.load(builder, e.vector(e.I8, 8), at, 1), e.vector(e.I32, 8))
    words = builder.bitcast(value, e.vector(e.I32, 8))
    return builder.bitcast(e.call(builder, "llvm.x86.avx2.permd", words.type, words, order), value.type)


def _registers(builder: ir.IRBuilder, mask: ir.Value, lanes: int) -> list[tuple[ir.Value, ir.Value, ir.Value]]:
    """For each register of a group: its mask, how many of its lanes exist, and how many positions lie before it."""
    found, before = [], e.I32(0)
    for first in range(0, GROUP, lanes):
        here = builder.and_(builder.lshr(mask, e.I32(first)), e.I32((1 << lanes) - 1))
        count = e.call(builder, "llvm.ctpop.i32", e.I32, here)
        found.append((here, count, before))
        before = builder.add(before, count)
    return found


def _first(builder: ir.IRBuilder, count: ir.Value, lanes: int) -> ir.Value:
    return builder.icmp_signed("<", e.lane_numbers(lanes), e.broadcast(builder, count, lanes))


def spread(builder: ir.IRBuilder, element: Any, at: ir.Value, mask: ir.Value) -> ir.Value:
    """The values of 16 positions, zero where they do not exist: those that do lie side by side from `at` on, float32 or
    float64. `mask` is int32."""
    lanes = _REGISTER // element.size
    kind = e.vector(element.stored, lanes)
    parts = []
    for here, count, before in _registers(builder, mask, lanes):
        place = e.offset(builder, at, builder.mul(builder.zext(before, e.I64), e.I64(element.size)))
        dense = e.masked_load(builder, kind, place, element.size, _first(builder, count, lanes))
        there = builder.bitcast(builder.trunc(here, ir.IntType(lanes)), e.vector(e.I1, lanes))
        parts.append(builder.select(there, _permute(builder, dense, here, True), e.zero(kind)))
    while len(parts) > 1:
        order = ir.Constant(e.vector(e.I32, 2 * parts[0].type.count), list(range(2 * parts[0].type.count)))
        parts = [builder.shuffle_vector(*pair, order) for pair in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def gather_and_store(builder: ir.IRBuilder, element: Any, value: ir.Value, at: ir.Value, there: ir.Value) -> None:
    """Store the values of the positions that are `there`, of 16, side by side from `at` on."""
    size = 8 if value.type.element is e.F64 else 4
    lanes = _REGISTER // size
    mask = builder.zext(builder.bitcast(there, e.I16), e.I32)
    for index, (here, count, before) in enumerate(_registers(builder, mask, lanes)):
        order = ir.Constant(e.vector(e.I32, lanes), list(range(index * lanes, index * lanes + lanes)))
        dense = _permute(builder, builder.shuffle_vector(value, value, order), here, False)
        dense = convert(builder, dense, element)
        place = e.offset(builder, at, builder.mul(builder.zext(before, e.I64), e.I64(element.size)))
        e.masked_store(builder, dense, place, element.size, _first(builder, count, lanes))
