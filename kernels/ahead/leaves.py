"""The leaves that compiled code calls by their addresses, at the capability in force: kind x tags, as tables have them.

What is compiled ahead is listed here, and not what some workload reaches. Nothing that runs a kernel imports this
module. Choices that depend on the CPU's row of `block/tuning.py` are left open: both sides are listed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from ..block import plans
from ..block.conversions import CONVERSIONS, PAIRED, PAIRED_IN_PLACE
from ..block.loops import MultiplyBlock, PackRange
from ..block.microkernels import Affine, Less, Plain
from ..block.packing import OfA, OfB, TilePanel, VectorPanel
from ..block.sources import ELEMENTS, UNFUSED, Across, AlongK, Contiguous, Source, Strided
from ..gemm.compiled import isa_of_parts, vector_isa
from ..precisions.products import OF_HALF
from ..runtime import cpu

_HALVES = tuple(OF_HALF)
_ORDERS, _SPACINGS = (AlongK(), Across()), (Contiguous(), Strided())
_ROUNDED = ("bf16", "fp16", "tf32", "tf32x3")
"""Precisions at which vector units multiply rounded values, beside exact ones."""


def _keys(*precisions: str) -> list[tuple[str, str | None]]:
    return [key for key in CONVERSIONS if key[0] in precisions]


def _conversions(dtype: str, *others: str) -> list[Any]:
    """The conversions of operands of a dtype that make one number of each value."""
    return [CONVERSIONS[key] for key in _keys("ieee", *(_ROUNDED if dtype == "float32" else others))]


def _elements(*dtypes: str) -> list[str]:
    """The dtypes among these that loops read on this CPU."""
    return [dtype for dtype in dtypes or ELEMENTS if dtype != "float16" or cpu.converts_half()]


def _sources(dtype: str, orders: tuple[Any, ...] = _ORDERS) -> list[Any]:
    return [Source(order, spacing, ELEMENTS[dtype]) for order in orders for spacing in _SPACINGS]


def _with_low(kernel: Any) -> list[Any]:
    """A microkernel, and that for few rows in its place."""
    low = plans._LOW_KERNELS.get(type(kernel))
    return [kernel] if low is None else [kernel, low]


def _of_vectors() -> Iterator[tuple[Any, str, list[Any]]]:
    """Microkernels of vectors, the dtypes of their operands, and their conversions, whose products are of panels."""
    isa = vector_isa()
    for name in dict.fromkeys((isa, f"{isa}_unfused")):
        for dtype in _elements() if (name, 4) in plans._KERNELS else ():
            kernel = plans._KERNELS[name, 8 if dtype == "float64" else 4]
            yield from ((each, dtype, _conversions(dtype, OF_HALF.get(dtype, "ieee"))) for each in _with_low(kernel))
    for each in _with_low(plans._KERNELS_IN_TWO[isa]):
        yield each, "float32", [CONVERSIONS["bf16x3", None]]
    for (name, size), kernel in plans._INTEGER_KERNELS.items():
        if name == isa:
            yield kernel, f"float{8 * size}", [CONVERSIONS["ieee", None]]


def _of_parts() -> Iterator[tuple[Any, str, list[Any]]]:
    """Microkernels of bf16 parts, the dtypes of their operands, and their conversions."""
    if cpu.refusal(isa := isa_of_parts()) is None:
        for precision, (kernel, _) in plans._KERNELS_OF_PARTS[isa].items():
            found = [CONVERSIONS[key] for key in _keys(precision)]
            for dtype in ("float32", *(half for half in _HALVES if OF_HALF[half] == precision)):
                yield kernel, dtype, found


def _panels() -> Iterator[Any]:
    """The leaves of products of packed panels."""
    for kernel, dtype, conversions in _of_vectors():
        for conversion, side, source in itertools.product(conversions, (OfA(), OfB()), _sources(dtype)):
            yield PackRange(source, VectorPanel(side, conversion, kernel))
    for _, dtype, conversions in _of_parts():
        for conversion, side, source in itertools.product(conversions, (OfA(), OfB()), _sources(dtype)):
            yield PackRange(source, TilePanel(side, conversion))
    for kernel, dtype, _ in (*_of_vectors(), *_of_parts()):
        subtracts = dtype in ("float32", "float64") and type(kernel) not in map(type, plans._INTEGER_KERNELS.values())
        for finish in (Plain(), *map(Affine, _SPACINGS), *([Less()] if subtracts else [])):
            yield MultiplyBlock(kernel, ELEMENTS[dtype], finish)


def _small_products() -> Iterator[Any]:
    """The leaves of products without panels, by vectors, and of conversions of lines."""
    from ..gemm import small_lines, small_vectors
    from ..gemm.small_batch import Alone, InARow

    if vector_isa() == "portable":
        return
    yield small_vectors.Strips()
    for dtype in _elements():
        kernel = plans._KERNELS[vector_isa(), 8 if dtype == "float64" else 4]
        for ahead in (Alone(), InARow()):
            yield small_vectors.MultiplySmall(kernel, ELEMENTS[dtype], ahead)
        for source, conversion in itertools.product(_sources(dtype, (AlongK(),)), _conversions(dtype)):
            yield small_lines.ConvertLines(source, conversion, small_lines.InTurn())
    of_one = plans._KERNELS_IN_TWO[vector_isa()].of_one()
    for ahead in (Alone(), InARow()):
        yield small_vectors.MultiplySmall(of_one, ELEMENTS["float32"], ahead)
    for source in _sources("float32", (AlongK(),)):
        for way in (small_lines.InTurn, small_lines.ApartOfA, small_lines.ApartOfB):
            yield small_lines.ConvertLines(source, CONVERSIONS["bf16x3", None], way())


def _products_in_place() -> Iterator[Any]:
    """The leaves of products that read operands in place, and of those of few rows."""
    from ..block import unpacked_strips
    from ..gemm.skinny_kernels import ROWS, ROWS_ALONG_K
    from ..gemm.skinny_loops import AddRows, ConvertRow, SumRows

    for (isa, _), kernel in unpacked_strips.KERNELS.items():
        if isa == vector_isa():
            yield unpacked_strips.FinishUnpacked(kernel)
            yield from (unpacked_strips.MultiplyUnpacked(kernel, order) for order in _ORDERS)
    for dtype in _elements() if vector_isa() in ROWS else ():
        found = [*_conversions(dtype), *([CONVERSIONS["bf16x3", None]] if dtype == "float32" else [])]
        for conversion in found:
            tags, table = (ELEMENTS[dtype], conversion), ROWS[vector_isa()].values()
            along = (ROWS_ALONG_K if conversion is CONVERSIONS["ieee", None] else ROWS)[vector_isa()].values()
            if conversion.vector_parts == 1:
                yield ConvertRow(*tags)
            yield from (AddRows(*tags, rows) for rows in table)
            yield from (SumRows(*tags, rows) for rows in along)


def _small_tiles() -> Iterator[Any]:
    from ..gemm import small_packing, small_tiles
    from ..gemm.small_batch import Alone, InARow

    for kernel, dtype, conversions in _of_parts() if cpu.refusal("amx") is None else ():
        for conversion in [CONVERSIONS["ieee", None]] if dtype == "bfloat16" else conversions:
            looks = (small_packing.Exactly(), small_packing.Roughly())
            for how in itertools.product(_ORDERS, _ORDERS, looks, (Alone(), InARow())):
                yield small_tiles.TilesInARow(kernel, conversion, ELEMENTS[dtype], *how)


def _attention() -> Iterator[Any]:
    from ..attention import lanes
    from ..attention.flash import reads_masks
    from ..attention.forward import AttendTask
    from ..attention.masks import NoMask

    isa, known = vector_isa(), {"float32": 4, "float64": 8}
    found = [
        (plans._KERNELS[isa, known.get(each, 4)], each, _conversions(each, OF_HALF.get(each, "ieee")), VectorPanel)
        for each in _elements()
    ]
    found.append((plans._KERNELS_IN_TWO[isa], "float32", [CONVERSIONS["bf16x3", None]], VectorPanel))
    found += [(*each, TilePanel) for each in _of_parts()]
    each_way = [(kernel, dtype, each, kind) for kernel, dtype, those, kind in found for each in those]
    for kernel, dtype, conversion, kind in each_way:
        panel = VectorPanel(OfB(), conversion, kernel) if kind is VectorPanel else TilePanel(OfB(), conversion)
        for mask in (NoMask(), *(_sources(dtype, (AlongK(),)) if reads_masks(kernel) else ())):
            yield AttendTask(kernel, lanes.Weights(panel, kernel), ELEMENTS[dtype], mask)


def _recurrence() -> Iterator[Any]:
    from ..recurrence import loops
    from ..recurrence.cells import TAGS

    block = loops.OneVector() if cpu.refusal("avx512") else loops.FourVectors()
    for tag, dtype in itertools.product(TAGS.values(), ("float32", "float64")):
        yield loops.StepLeaf(tag(), ELEMENTS[dtype])
        yield loops.SequenceLeaf(tag(), ELEMENTS[dtype], block)


def _arrays() -> Iterator[Any]:
    """The leaves of elementwise functions, maps of rows, sums and copies in another order."""
    from ..arrays.elementwise import maps, turns
    from ..arrays.rows import functions, loops, standardization
    from ..arrays.sums.loops import Reduction
    from ..arrays.sums.vectors import FUNCTIONS

    dtypes = _elements()
    for (function, dtype), elements in itertools.product(_functions(), (ELEMENTS, UNFUSED)):
        yield maps.Map(function(), elements[dtype])
    for half in _elements(*_HALVES):
        yield maps.Cast(ELEMENTS[half], ELEMENTS["float32"])
        yield maps.Cast(ELEMENTS["float32"], ELEMENTS[half])
    yield from map(turns.Turn, turns.WORDS.values())
    yield from (Reduction(each, ELEMENTS[dtype]) for each in FUNCTIONS.values() for dtype in dtypes)
    tags = [(kind, each()) for kind in (loops.Rows, loops.Strips) for each in _classes(functions)]
    for way in (standardization.Standardize, standardization.StandardizeGradient):
        for (lie, weights), statistics in itertools.product(
            standardization.WEIGHTS.items(), standardization.STATISTICS.values()
        ):
            kinds = (loops.Rows, loops.Strips) if lie == "rows" else (loops.Rows,)
            tags += [(kind, way(weights, statistics)) for kind in kinds]
    for (kind, tag), dtype, elements in itertools.product(tags, dtypes, (ELEMENTS, UNFUSED)):
        yield kind(tag, elements[dtype])


def _functions() -> list[tuple[Any, str]]:
    """Elementwise functions and the dtypes that each is computed in."""
    from ..arrays.elementwise import MAPPED, angles, functions, gamma, mathematics
    from ..arrays.elementwise.threaded import _IN_VECTORS, _TAGS

    classes = {each.__name__: each for module in (functions, mathematics, angles, gamma) for each in _classes(module)}
    of_all = [*_TAGS.values(), *(each.tag for each in MAPPED.values())]
    found = [(tag, dtype) for tag in of_all for dtype in _elements()]
    for (_, size), tag in _IN_VECTORS.items():  # under `invariant`, half types have those of float32 in one rounding
        found += [(tag, dtype) for dtype in _elements(*(["float64"] if size == 8 else ["float32", *_HALVES]))]
    return [(classes[tag], dtype) for tag, dtype in found]


def _classes(module: Any) -> list[Any]:
    """The functions that a module defines, as classes of tags."""
    return [each for each in vars(module).values() if hasattr(each, "emit") and each.__module__ == module.__name__]


def _transforms() -> Iterator[Any]:
    from ..fft import codelets, lengths, registers
    from ..fft.chirp import Multiply
    from ..fft.real_split import Tangle, TangleOfLanes
    from ..fft.row_access import Interleaved, Split, Streamed, Twiddled, writer_of
    from ..fft.wide import wide_leaf

    for size in (4, 8):
        most = lengths.lanes_of(size)
        for lanes in (most >> by for by in range(3) if (most >> by) * size >= 16):
            tag, whole = codelets.vectors(size, lanes * size), lanes == most
            ends = {
                (Split, Split), (Interleaved, Split), (Interleaved, Twiddled), (Split, Twiddled), (Split, Interleaved),
            }  # fmt: skip
            ends |= {(Split, Streamed)} if lanes * size >= 32 else set()
            if whole:
                ends |= {(Interleaved, Interleaved), *((Split, writer_of(rows, lanes)) for rows in range(4, lanes + 1))}
            for radix, (source, target) in itertools.product(range(2, 17), sorted(ends, key=str)):
                yield codelets.Pass(tag, codelets.radix(radix), source(), target())
            yield from (codelets.Square(tag), Multiply(tag), Tangle(tag, codelets.vectors(size, size)))
            if whole:
                yield TangleOfLanes(tag)
                for rows in range(4, lanes + 1):
                    width = lengths.columns_of_wide(rows, lanes)
                    yield from (wide_leaf(rows, columns, size, lanes) for columns in (width - 1, width))
        for n, real, inverse in itertools.product(lengths.IN_REGISTERS, ("", "real", "halved"), (False, True)):
            fitting = lengths.lanes_in_registers(n, size, real)
            if fitting is not None and real != ("real" if inverse else "halved"):
                yield registers.leaf_of(n, size, fitting, inverse, lengths.spectra_in_registers(n, fitting, real))


def _convolutions() -> Iterator[Any]:
    """The leaves of convolutions by vectors, and by pairs of bf16."""
    from ..conv import implicit, in_place, pack_planes, weight_rows, weights, winograd_loops
    from ..conv.blocks import ConvolveVectors
    from ..conv.winograd_plans import _kernel

    if (isa := vector_isa()) == "portable":
        return
    paces = (pack_planes._InRows, pack_planes._EveryOther, pack_planes._Anywhere, pack_planes._Squares)
    units = []
    for dtype in _elements():
        of_one = plans._KERNELS[isa, 8 if dtype == "float64" else 4]
        units += [(dtype, how, of_one, of_one) for how in _conversions(dtype)]
    units.append(("float32", CONVERSIONS["bf16x3", None], plans._KERNELS[isa, 4], plans._KERNELS_IN_TWO[isa]))
    if cpu.refusal("avx512_bf16") is None:
        pairs = implicit.pairs.Avx512Pairs()
        for table, (precision, dtype) in itertools.product((PAIRED, PAIRED_IN_PLACE), _pairs_of_dtypes()):
            units.append((dtype, table[precision], pairs, pairs))
    for (dtype, how, of_one, whole), narrow in itertools.product(units, (False, True)):
        kernel, panel = (implicit._NARROW.get(type(each), each) if narrow else each for each in (of_one, whole))
        yield from (pack_planes.PackPlanes(ELEMENTS[dtype], how, pace()) for pace in paces)
        yield ConvolveVectors(kernel, ELEMENTS[dtype])
        for source in _sources(dtype):
            if how.paired:
                rows = VectorPanel(OfB(), CONVERSIONS["ieee", None], panel)
                yield weights.PackPairs(source, rows, how)
            else:
                yield weights.PackWeights(source, VectorPanel(OfB(), how, panel))
        yield from (weight_rows.MultiplyRows(kernel, how), weight_rows.OrderRows(kernel))
        if isa == "avx512" and not narrow and (how.paired or dtype == "float32"):
            yield in_place.ConvolveInPlace(kernel, ELEMENTS[dtype])
    yield in_place.FindMagnitudes()
    yield winograd_loops.Tiles(_kernel(isa))


def _pairs_of_dtypes() -> list[tuple[str, str]]:
    return [("bf16", "float32"), ("bf16x3", "float32"), ("bf16", "bfloat16")]


_LAYERS = [((n, n), (k, k), (s, s)) for n in (7, 14, 28, 56, 112) for k, s in ((3, 1), (3, 2), (5, 1), (5, 2), (7, 1))]
_LAYERS += [((128,), (k,), (1,)) for k in (3, 4)]
"""Images, windows and strides of depthwise layers that have code of their own here; the others share that of any window
(`conv.channelwise`), to the same bits."""


def _depthwise() -> Iterator[Any]:
    from ..conv.depthwise import Depthwise, DepthwiseWeight, PackWeights

    if vector_isa() == "portable":
        return
    for dtype in _elements():
        if dtype in ("float32", "float64"):
            yield PackWeights(ELEMENTS[dtype], CONVERSIONS["ieee", None])
        windows = {each.__name__: each for each in _any_windows()}
        for window, conversion in itertools.product(windows.values(), _conversions(dtype)):
            yield (DepthwiseWeight if window.weighs else Depthwise)(ELEMENTS[dtype], conversion, window())
        for window in _usual_windows(dtype) if dtype in ("float32", "bfloat16") else ():
            kind = DepthwiseWeight if window.weighs else Depthwise
            yield kind(ELEMENTS[dtype], CONVERSIONS["ieee", None], window())


def _any_windows() -> Iterator[Any]:
    """Tags of any window: of lanes that are channels, all of them or some, and of columns."""
    from ..conv.channelwise import _ANY_OUTPUTS, _SEGMENTS
    from ..conv.depthwise_lanes import window_tag
    from ..conv.fast import MOST_ACROSS

    for weighs, spreads in ((0, 0), (0, 1), (1, 0)):
        for across in range(MOST_ACROSS + 1):
            segments = (
                (0, 1) if across == 0 else [1 << by for by in range(_SEGMENTS.bit_length())] if across < 3 else (1,)
            )
            outputs = {_ANY_OUTPUTS // max(across, 1), 1} if spreads else {_ANY_OUTPUTS}
            for each, count in itertools.product(segments, outputs):
                yield window_tag(weighs, spreads, 0, 0, 0, 0, count, across, each, 1, 1)


def _usual_windows(dtype: str) -> Iterator[Any]:
    import numpy as np

    from ..conv.channelwise import _Case
    from ..conv.params import setting_of

    channels = 64
    for (size, kernel, stride), last in itertools.product(_LAYERS, (False, True)):
        dims, padding = len(size), [k // 2 if len(size) > 1 else k - 1 for k in kernel]
        output = [(n + 2 * p - k) // s + 1 for n, p, k, s in zip(size, padding, kernel, stride, strict=True)]
        x, w, g = (1, channels, *size), (channels, 1, *kernel), (1, channels, *output)
        cases = ("forward", x, w, {}), ("input", g, w, {"input_size": size}), ("weight", x, g, {"kernel_size": kernel})
        for kind, first, second, sizes in cases:
            setting = setting_of(kind, dims, stride=stride, padding=padding, groups=channels, **sizes)
            yield _Case(setting, first, second, np.dtype("float32"), last).window


def _convolutions_on_tiles() -> Iterator[Any]:
    from ..conv import epilogue, pack_tiles, pipeline, pointwise_nchw, pointwise_nhwc, tiles, weight_tiles
    from ..conv.weights import PackTapped, PackWeights

    if cpu.refusal("amx") is not None:
        return
    for dtype, order in itertools.product(_elements("float32", *_HALVES), _ORDERS):
        yield epilogue.FinishBlock(order, ELEMENTS[dtype])
    for kernel in {type(kernel): kernel for kernel, _, _ in _of_parts()}.values():
        yield from (weight_tiles.MultiplyPairs(kernel), tiles.ConvolveBlock(kernel))
    for kernel, dtype, conversions in _of_parts():
        for conversion in conversions:
            for order in (*_ORDERS, pack_tiles.AlongTaps()):
                yield pack_tiles.PackLines(Source(order, Contiguous(), ELEMENTS[dtype]), conversion)
            for side, source in itertools.product((OfA(), OfB()), _sources(dtype)):
                yield PackWeights(source, TilePanel(side, conversion))
            rows = VectorPanel(OfB(), CONVERSIONS["ieee", None], plans._KERNELS["avx512", 4])
            for order in _ORDERS:
                source, between = (
                    Source(AlongK(), Contiguous(), ELEMENTS[dtype]),
                    Source(order, Contiguous(), ELEMENTS["float32"]),
                )
                yield PackTapped(source, rows, between, TilePanel(OfB(), conversion))
            yield pointwise_nchw.MultiplyRows(kernel, ELEMENTS[dtype], conversion)
            for order in (pipeline.Picked(), pipeline.InOrder()):
                yield pointwise_nhwc.MultiplyFlat(kernel, ELEMENTS[dtype], conversion, order)


FAMILIES = (
    _panels, _small_products, _products_in_place, _small_tiles, _attention, _recurrence, _arrays, _transforms,
    _convolutions, _depthwise, _convolutions_on_tiles,
)  # fmt: skip


def leaves() -> Iterator[Any]:
    """All of them; some more than once."""
    for family in FAMILIES:
        yield from family()
