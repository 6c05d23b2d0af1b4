"""The AMX microkernel: a block of 32 x 32 results from bf16 parts, in the eight tile registers of a core.

Tile registers 0 to 3 hold the results, 4 and 5 two tiles of A (16 rows x 32 bf16), 6 and 7 two tiles of B (16 pair-rows
x 16 columns x 2 bf16). What TDPBF16PS computes, in which order and with which roundings, is written in Intel's
Software Developer's Manual; it flushes subnormal operands and results, which `ranges.py` keeps away from it.
"""

from __future__ import annotations

from ..jit import intrinsic, ir, types
from .tags import instance

_I8, _I64, _VOID = ir.IntType(8), ir.IntType(64), ir.VoidType()
_POINTER = _I8.as_pointer()

TILE_BYTES = 1024
ROW_BYTES = 64


def _call(builder: ir.IRBuilder, name: str, *arguments: ir.Value | int) -> ir.Value:
    """Call the LLVM intrinsic `llvm.x86.<name>`, which returns nothing; an `int` argument is a tile register."""
    values = [_I8(a) if isinstance(a, int) else a for a in arguments]
    name, signature = f"llvm.x86.{name}", ir.FunctionType(_VOID, [v.type for v in values])
    function = builder.module.globals.get(name) or ir.Function(builder.module, signature, name)
    return builder.call(function, values)


def _walk_step(builder: ir.IRBuilder, before: tuple, now: tuple, a: ir.Value, b: ir.Value, row: ir.Value) -> None:
    """Add the product of A's part now[0] and B's part now[1], loading only the tiles that the step before had not."""

    def load(register: int, base: ir.Value, part: int, half: int) -> None:
        at = builder.gep(base, [_I64((2 * part + half) * TILE_BYTES)])
        _call(builder, "tileloadd64", register, at, row)

    new_a, new_b = before[0] != now[0], before[1] != now[1]
    if new_a:
        load(4, a, now[0], 0)
    if new_b:
        load(6, b, now[1], 0)
    _call(builder, "tdpbf16ps", 0, 4, 6)
    if new_b:
        load(7, b, now[1], 1)
    _call(builder, "tdpbf16ps", 1, 4, 7)
    if new_a:
        load(5, a, now[0], 1)
    _call(builder, "tdpbf16ps", 2, 5, 6)
    _call(builder, "tdpbf16ps", 3, 5, 7)


@intrinsic
def tile_product(typingctx, tag, steps, a, b, c, accumulate):
    """Emit the whole loop over `steps` groups of 32 along K: c (32 x 32 float32, contiguous) = [c +] a @ b.

    `tag` is an instance of an AMX tag, whose class gives the number of parts and the walk through the cross terms.
    Addresses are int64; `accumulate` is a boolean. Tiles must have been configured.
    """
    layout = instance(tag)

    def codegen(context, builder, signature, arguments):
        _, steps, a, b, c, accumulate = arguments
        row, c_row = _I64(ROW_BYTES), _I64(32 * 4)
        a, b, c = (builder.inttoptr(address, _POINTER) for address in (a, b, c))
        c_tiles = [builder.gep(c, [_I64(offset)]) for offset in (0, 64, 16 * 128, 16 * 128 + 64)]
        with builder.if_else(accumulate) as (load, zero):
            with load:
                for register, at in enumerate(c_tiles):
                    _call(builder, "tileloadd64", register, at, c_row)
            with zero:
                for register in range(4):
                    _call(builder, "tilezero", register)
        entry, loop, done = builder.block, builder.append_basic_block("k"), builder.append_basic_block("k_done")
        builder.branch(loop)
        builder.position_at_end(loop)
        index, a_at, b_at = builder.phi(_I64), builder.phi(_POINTER), builder.phi(_POINTER)
        before = (None, None)
        for now in layout.walk:
            _walk_step(builder, before, now, a_at, b_at, row)
            before = now
        stride = _I64(2 * TILE_BYTES * layout.parts)
        following = builder.add(index, _I64(1)), builder.gep(a_at, [stride]), builder.gep(b_at, [stride])
        for phi, start, after in zip((index, a_at, b_at), (_I64(0), a, b), following, strict=True):
            phi.add_incoming(start, entry)
            phi.add_incoming(after, loop)
        builder.cbranch(builder.icmp_signed("<", following[0], steps), loop, done)
        builder.position_at_end(done)
        for register, at in enumerate(c_tiles):
            _call(builder, "tilestored64", register, at, c_row)
        return context.get_dummy_value()

    integer = types.int64
    return types.void(tag, integer, integer, integer, integer, types.boolean), codegen


@intrinsic
def configure_tiles(typingctx):
    """Give all eight tile registers 16 rows of 64 bytes."""

    def codegen(context, builder, signature, arguments):
        configuration = bytearray(64)
        configuration[0] = 1  # palette
        for register in range(8):
            configuration[16 + 2 * register] = ROW_BYTES
            configuration[48 + register] = 16
        constant = ir.Constant(ir.ArrayType(_I8, 64), configuration)
        slot = builder.alloca(constant.type)
        builder.store(constant, slot)
        _call(builder, "ldtilecfg", builder.bitcast(slot, _POINTER))
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def release_tiles(typingctx):
    """Return the tile registers to their initial state, so that none of it is saved at context switches."""

    def codegen(context, builder, signature, arguments):
        _call(builder, "tilerelease")
        return context.get_dummy_value()

    return types.void(), codegen
