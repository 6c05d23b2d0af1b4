"""Numba's types of vectors and of masks as values of compiled code (`lanes`), and their operators.

Imported by the compiler alone: it defines classes on Numba's.
"""

from __future__ import annotations

import operator
from typing import Any

from ..block.emit import I1, masked_bits, vector
from ..runtime.jit import numba, types


class Lanes(types.Type):
    """Numba's type of a vector of a tag."""

    def __init__(self, tag: Any) -> None:
        self.tag = tag
        super().__init__(f"Lanes({tag.__name__})")


class Mask(types.Type):
    """Numba's type of one truth value for each lane."""

    def __init__(self, tag: Any) -> None:
        self.tag = tag
        super().__init__(f"Mask({tag.__name__})")


@numba.extending.register_model(Lanes)
class _LanesModel(numba.extending.models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Lanes) -> None:
        super().__init__(manager, kind, vector(kind.tag.element, kind.tag.lanes))


@numba.extending.register_model(Mask)
class _MaskModel(numba.extending.models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Mask) -> None:
        super().__init__(manager, kind, vector(I1, kind.tag.lanes))


def _operator(function: Any, operand: type, result: type, emit: Any) -> None:
    """Define an operator of two values of type `operand`; `emit(builder, a, b)`."""

    @numba.extending.type_callable(function)
    def typing(context: Any) -> Any:
        def typer(a: Any, b: Any) -> Any:
            return result(a.tag) if isinstance(a, operand) and a == b else None

        return typer

    @numba.extending.lower_builtin(function, operand, operand)
    def lowering(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return emit(builder, *arguments)


_operator(operator.add, Lanes, Lanes, lambda builder, a, b: builder.fadd(a, b))
_operator(operator.sub, Lanes, Lanes, lambda builder, a, b: builder.fsub(a, b))
_operator(operator.mul, Lanes, Lanes, lambda builder, a, b: builder.fmul(a, b))
_operator(operator.truediv, Lanes, Lanes, lambda builder, a, b: builder.fdiv(a, b))
_operator(operator.gt, Lanes, Mask, lambda builder, a, b: builder.fcmp_ordered(">", a, b))
_operator(operator.lt, Lanes, Mask, lambda builder, a, b: builder.fcmp_ordered("<", a, b))
_operator(operator.le, Lanes, Mask, lambda builder, a, b: builder.fcmp_ordered("<=", a, b))
_operator(operator.eq, Lanes, Mask, lambda builder, a, b: builder.fcmp_ordered("==", a, b))
_operator(operator.ne, Lanes, Mask, lambda builder, a, b: builder.fcmp_unordered("!=", a, b))
_operator(operator.and_, Mask, Mask, lambda builder, a, b: builder.and_(a, b))
_operator(operator.or_, Mask, Mask, lambda builder, a, b: builder.or_(a, b))


@numba.extending.type_callable(abs)
def _type_abs(context):
    def typer(a: Any) -> Any:
        return a if isinstance(a, Lanes) else None

    return typer


@numba.extending.lower_builtin(abs, Lanes)
def _lower_abs(context, builder, signature, arguments):
    tag = signature.return_type.tag
    return masked_bits(builder, arguments[0], tag.integer, tag.sign_mask)
