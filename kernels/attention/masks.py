"""What is added to the scores of a panel of queries, one in each lane: emitted code."""

from __future__ import annotations

from typing import NamedTuple

from ..block.emit import I64, POINTER, loop, offset, transpose
from ..block.sources import Reader
from ..block.tags import instance
from ..runtime.emitter import Type, emitter
from .lanes import Form


class NoMask(NamedTuple):
    """In place of a `block.sources.Source`: nothing is added."""


@emitter
def mask_panel(builder, tag: Type, source: Type, scores, keys, scale, at, line_stride, k_stride, lines) -> None:
    """scores = scale * scores + mask for `keys` keys and the first `lines` queries of a panel.

    All are int64: addresses, counts, strides in bytes and the bits of `scale`. As many queries and keys as a vector of
    64 bytes has numbers are read, and transposed, together: rows of scores exist up to a multiple of that. `source`
    says how the mask is read, whose lines are queries.
    """
    if instance(source) is NoMask:
        return
    form = Form(builder, tag)
    scores, at = builder.inttoptr(scores, POINTER), builder.inttoptr(at, POINTER)
    scale, lanes = form.broadcast(scale), form.lanes

    def square(index, _):
        first = builder.mul(index, I64(lanes))
        column = offset(builder, at, builder.mul(first, k_stride))
        for number in range(form.count):
            begin = offset(builder, column, builder.mul(line_stride, I64(lanes * number)))
            left = builder.sub(lines, I64(lanes * number)), builder.sub(keys, first)
            reader = Reader(builder, source, begin, (line_stride, k_stride), *left)
            added = transpose(builder, [reader.along(I64(line)) for line in range(lanes)])
            for key, value in enumerate(added):
                row = form.row(scores, builder.add(first, I64(key)))
                form.store(form.fma(form.load(row, number), scale, value), row, number)
        return []

    loop(builder, builder.sdiv(builder.add(keys, I64(lanes - 1)), I64(lanes)), [], square)
