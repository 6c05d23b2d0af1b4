"""What is added to the scores of a panel of queries, one in each lane: emitted code."""

from __future__ import annotations

from typing import NamedTuple

from ..gemm.emit import F32, I32, I64, POINTER, broadcast, loop, offset, transpose
from ..gemm.sources import Reader
from ..gemm.tags import instance
from ..jit import intrinsic, types
from .lanes import Form

__all__ = ["LANES", "NoMask", "mask_panel"]

LANES = 16
"""Queries whose mask is read, and transposed, together."""


class NoMask(NamedTuple):
    """In place of a `gemm.sources.Source`: nothing is added."""


@intrinsic
def mask_panel(typingctx, tag, source, scores, keys, scale, at, line_stride, k_stride, lines):
    """scores = scale * scores + mask for `keys` keys and the first `lines` queries of a panel.

    All are int64: addresses, counts, strides in bytes and the bits of the float32 `scale`. Rows of scores exist up to
    a multiple of 16. `source` says how the mask is read, whose lines are queries.
    """

    def codegen(context, builder, signature, arguments):
        _, _, scores, keys, scale, at, line_stride, k_stride, lines = arguments
        if instance(source) is NoMask:
            return context.get_dummy_value()
        form = Form(builder, tag)
        scores, at = builder.inttoptr(scores, POINTER), builder.inttoptr(at, POINTER)
        scale = broadcast(builder, builder.bitcast(builder.trunc(scale, I32), F32), LANES)

        def square(index, _):
            first = builder.mul(index, I64(LANES))
            column = offset(builder, at, builder.mul(first, k_stride))
            for number in range(form.count):
                begin = offset(builder, column, builder.mul(line_stride, I64(LANES * number)))
                left = builder.sub(lines, I64(LANES * number)), builder.sub(keys, first)
                reader = Reader(builder, source, begin, (line_stride, k_stride), *left)
                added = transpose(builder, [reader.along(I64(line)) for line in range(LANES)])
                for key, value in enumerate(added):
                    row = form.row(scores, builder.add(first, I64(key)))
                    form.store(form.fused(form.load(row, number), scale, value), row, number)
            return []

        loop(builder, builder.sdiv(builder.add(keys, I64(LANES - 1)), I64(LANES)), [], square)
        return context.get_dummy_value()

    return types.void(tag, source, *[types.int64] * 7), codegen
