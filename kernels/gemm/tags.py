"""Tags: one small NamedTuple class per microkernel and precision."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..jit import intrinsic, types


def instance(tag: Any) -> type:
    return tag.instance_class


@intrinsic(prefer_literal=True)
def constant(typingctx, tag, name):
    """The integer `name` of the tag's class, as a constant that the compiler sees."""
    value = int(getattr(tag.instance_class, name.literal_value))

    def codegen(context, builder, signature, arguments):
        return context.get_constant(types.int64, value)

    return types.int64(tag, name), codegen


class Bf16(NamedTuple):
    kc: int
    mr = nr = 32
    step = 32
    parts = 1
    walk = ((0, 0),)


class Bf16x3(NamedTuple):
    kc: int
    mr = nr = 32
    step = 32
    parts = 2
    walk = ((1, 0), (0, 0), (0, 1))


class Tf32(NamedTuple):
    kc: int
    mr = nr = 32
    step = 32
    parts = 2
    walk = ((1, 1), (1, 0), (0, 0), (0, 1))


class Bf16x6(NamedTuple):
    kc: int
    mr = nr = 32
    step = 32
    parts = 3
    walk = ((2, 0), (1, 0), (1, 1), (0, 1), (0, 0), (0, 2))
