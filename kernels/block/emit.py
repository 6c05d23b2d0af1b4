"""What the functions that emit LLVM instructions share: types, vectors, counted loops, calls of LLVM's intrinsics."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..runtime.jit import ir


class _BFloat(ir.Type):
    """LLVM's bfloat, for which llvmlite has no class."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash(_BFloat)


I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
BF16, F16, F32, F64, VOID = _BFloat(), ir.HalfType(), ir.FloatType(), ir.DoubleType(), ir.VoidType()
POINTER = I8.as_pointer()

LINE = 64
"""Bytes of a cache line, of a whole vector and of one of a tile's lines."""

TILE = 16 * LINE


def vector(element: ir.Type, lanes: int = 16) -> ir.VectorType:
    return ir.VectorType(element, lanes)


def suffix(element: ir.Type, lanes: int) -> str:
    """How LLVM's intrinsics name a vector of these."""
    return f"v{lanes}" + {F16: "f16", F32: "f32", F64: "f64", I16: "i16", I32: "i32", I64: "i64"}[element]


def splat(element: ir.Type, value: float, lanes: int = 16) -> ir.Constant:
    """A constant vector of equal elements."""
    return ir.Constant(vector(element, lanes), [value] * lanes)


def masked_bits(builder: ir.IRBuilder, value: ir.Value, integer: ir.Type, mask: int) -> ir.Value:
    """A vector with only the bits of its elements that are set in `mask`; `integer` has the width of an element."""
    bits = vector(integer, value.type.count)
    kept = builder.and_(builder.bitcast(value, bits), splat(integer, mask, value.type.count))
    return builder.bitcast(kept, value.type)


def lane_numbers(lanes: int = 16, first: int = 0) -> ir.Constant:
    return ir.Constant(vector(I32, lanes), list(range(first, first + lanes)))


def zero(kind: ir.Type) -> ir.Constant:
    return ir.Constant(kind, None)


def broadcast(builder: ir.IRBuilder, value: ir.Value, lanes: int = 16) -> ir.Value:
    """A vector whose elements are all `value`."""
    empty = ir.Constant(vector(value.type, lanes), ir.Undefined)
    return builder.shuffle_vector(builder.insert_element(empty, value, I32(0)), empty, splat(I32, 0, lanes))


def call(builder: ir.IRBuilder, name: str, result: ir.Type, *arguments: ir.Value) -> ir.Value:
    """Call the LLVM intrinsic `name`, declaring it where the module has not."""
    signature = ir.FunctionType(result, [a.type for a in arguments])
    function = builder.module.globals.get(name) or ir.Function(builder.module, signature, name)
    return builder.call(function, arguments)


def call_outlined(
    builder: ir.IRBuilder, name: str, result: ir.Type, arguments: Sequence[ir.Value], emit: Callable
) -> ir.Value:
    """Call a function of the module's own, which is defined once by `emit(builder, *arguments)` and not inlined."""
    module = builder.module
    function = module.globals.get(name)
    if function is None:
        function = ir.Function(module, ir.FunctionType(result, [a.type for a in arguments]), name)
        function.linkage = "internal"
        function.attributes.add("noinline")
        inside = ir.IRBuilder(function.append_basic_block("entry"))
        value = emit(inside, *function.args)
        if result == VOID:
            inside.ret_void()
        else:
            inside.ret(value)
    return builder.call(function, arguments)


def offset(builder: ir.IRBuilder, base: ir.Value, byte: ir.Value | int) -> ir.Value:
    """The pointer `byte` bytes after `base`."""
    return builder.gep(base, [I64(byte) if isinstance(byte, int) else byte])


def pointers(builder: ir.IRBuilder, base: ir.Value, offsets: ir.Value, element: ir.Type) -> ir.Value:
    """Pointers to elements, each so many bytes after `base`."""
    lanes = offsets.type.count
    places = builder.add(
        broadcast(builder, builder.ptrtoint(base, I64), lanes), builder.sext(offsets, vector(I64, lanes))
    )
    return builder.inttoptr(places, vector(element.as_pointer(), lanes))


def masked_load(
    builder: ir.IRBuilder, kind: ir.VectorType, at: ir.Value, align: int, mask: ir.Value, stride: ir.Value | None = None
) -> ir.Value:
    """A vector of what lies from `at` on, side by side or `stride` bytes apart, where the mask says so; else zero."""
    lanes, name = kind.count, suffix(kind.element, kind.count)
    if stride is None:
        at = builder.bitcast(at, kind.as_pointer())
        return call(builder, f"llvm.masked.load.{name}.p0", kind, at, I32(align), mask, zero(kind))
    steps = builder.mul(broadcast(builder, stride, lanes), builder.sext(lane_numbers(lanes), vector(I64, lanes)))
    places = pointers(builder, at, steps, kind.element)
    return call(builder, f"llvm.masked.gather.{name}.v{lanes}p0", kind, places, I32(align), mask, zero(kind))


def masked_store(builder: ir.IRBuilder, value: ir.Value, at: ir.Value, align: int, mask: ir.Value) -> None:
    """Store the lanes of a vector where the mask says so."""
    name, at = suffix(value.type.element, value.type.count), builder.bitcast(at, value.type.as_pointer())
    call(builder, f"llvm.masked.store.{name}.p0", VOID, value, at, I32(align), mask)


def first_lanes(builder: ir.IRBuilder, left: ir.Value, lanes: int = 16, first: int = 0) -> ir.Value:
    """The mask of the lanes, numbered from `first` on, that are below an int64."""
    return builder.icmp_signed("<", lane_numbers(lanes, first), broadcast(builder, builder.trunc(left, I32), lanes))


def relu(builder: ir.IRBuilder, value: ir.Value, wanted: ir.Value) -> ir.Value:
    """max(value, 0) where `wanted`, an int64, is not 0; NaN stays."""
    wanted = broadcast(builder, builder.icmp_signed("!=", wanted, I64(0)), value.type.count)
    negative = builder.and_(builder.fcmp_ordered("<", value, zero(value.type)), wanted)
    return builder.select(negative, zero(value.type), value)


def opaque(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """An integer that is opaque to LLVM. Of addresses of rows that lie a stride apart it makes one pointer otherwise,
    which it moves from row to row: additions that wait for one another."""
    kind = ir.FunctionType(value.type, [value.type])
    return builder.asm(kind, "", "=r,0", [value], side_effect=False)


def align_stack(builder: ir.IRBuilder) -> None:
    """Begin the stack of the function that is emitted on a cache line, and keep it apart from its callers, whose stacks
    do not: spilled vectors of 64 bytes would otherwise cross two lines."""
    builder.function.attributes.alignstack = 64
    builder.function.attributes.add("noinline")


def store(builder: ir.IRBuilder, value: ir.Value, at: ir.Value, align: int) -> None:
    builder.store(value, builder.bitcast(at, value.type.as_pointer()), align=align)


def store_past_caches(builder: ir.IRBuilder, value: ir.Value, at: ir.Value, align: int) -> None:
    """Store a vector, aligned to its size in bytes, without reading its cache line before. Other threads see
    it after the next atomic exchange or addition of this one."""
    written = builder.store(value, builder.bitcast(at, value.type.as_pointer()), align=align)
    written.set_metadata("nontemporal", builder.module.add_metadata([I32(1)]))


def load(builder: ir.IRBuilder, kind: ir.Type, at: ir.Value, align: int) -> ir.Value:
    return builder.load(builder.bitcast(at, kind.as_pointer()), align=align)


def _prefetch(builder: ir.IRBuilder, at: ir.Value, lines: int, to_write: int, locality: int) -> None:
    for line in range(lines):
        place = offset(builder, at, 64 * line)
        call(builder, "llvm.prefetch.p0", VOID, place, I32(to_write), I32(locality), I32(1))


def prefetch_to_l2(builder: ir.IRBuilder, at: ir.Value, lines: int) -> None:
    """Ask for cache lines that are read soon. LLVM's locality 1 is PREFETCHT2, which fills the L2 cache: 3420 GFLOP/s
    where locality 2 (T1) gave 2900 to 3170, 3 (T0) 3300, and no prefetch 2960 (bf16, n = 1024 to 4096)."""
    _prefetch(builder, at, lines, 0, 1)


def prefetch(builder: ir.IRBuilder, at: ir.Value, lines: int = 1) -> None:
    """Ask for cache lines that are read soon."""
    _prefetch(builder, at, lines, 0, 3)


def prefetch_to_write(builder: ir.IRBuilder, at: ir.Value, lines: int = 1) -> None:
    """Ask for cache lines that are read and written soon."""
    _prefetch(builder, at, lines, 1, 3)


def loop(
    builder: ir.IRBuilder, count: ir.Value, carried: Sequence[ir.Value],
    body: Callable[[ir.Value, list[ir.Value]], Sequence[ir.Value]],
) -> list[ir.Value]:  # fmt: skip
    """Emit `for index in range(count)`, of at least one turn, around `body(index, values)`, which returns the values
    that the next turn sees. The values after the last turn are the result."""
    entry, block = builder.block, builder.append_basic_block("loop")
    builder.branch(block)
    builder.position_at_end(block)
    phis = [builder.phi(value.type) for value in (count, *carried)]
    after = [builder.add(phis[0], count.type(1)), *body(phis[0], phis[1:])]
    last, done = builder.block, builder.append_basic_block("loop_done")
    for phi, start, value in zip(phis, (count.type(0), *carried), after, strict=True):
        phi.add_incoming(start, entry)
        phi.add_incoming(value, last)
    builder.cbranch(builder.icmp_signed("<", after[0], count), block, done)
    builder.position_at_end(done)
    return after[1:]


def either(builder: ir.IRBuilder, condition: ir.Value, yes: Callable[[], list], no: Callable[[], list]) -> list:
    """What `yes` or `no` emits and returns."""
    with builder.if_else(condition) as (then, otherwise):
        with then:
            first = yes()
            end_of_first = builder.block
        with otherwise:
            second = no()
            end_of_second = builder.block
    merged = [builder.phi(value.type) for value in first]
    for phi, one, other in zip(merged, first, second, strict=True):
        phi.add_incoming(one, end_of_first)
        phi.add_incoming(other, end_of_second)
    return merged


def loop_of_any(
    builder: ir.IRBuilder, count: ir.Value, carried: Sequence[ir.Value],
    body: Callable[[ir.Value, list[ir.Value]], Sequence[ir.Value]],
) -> list[ir.Value]:  # fmt: skip
    """`loop` of any number of turns."""
    some = builder.icmp_signed(">", count, count.type(0))
    return either(builder, some, lambda: loop(builder, count, carried, body), lambda: list(carried))


def transpose(builder: ir.IRBuilder, lines: list[ir.Value], width: int = 1) -> list[ir.Value]:
    """Transpose a square of vectors, in rounds of exchanges at distances 1, 2, 4, ...; of longer vectors, every square
    that lies in them. An element is `width` lanes."""
    lanes, distance = lines[0].type.count, 1
    while distance < len(lines):
        some = distance * width
        low = [lane if not lane & some else lanes + lane - some for lane in range(lanes)]
        high = [lane + some if not lane & some else lanes + lane for lane in range(lanes)]
        masks = [ir.Constant(vector(I32, lanes), order) for order in (low, high)]
        lines = [
            builder.shuffle_vector(lines[index & ~distance], lines[index | distance], masks[bool(index & distance)])
            for index in range(len(lines))
        ]
        distance *= 2
    return lines
