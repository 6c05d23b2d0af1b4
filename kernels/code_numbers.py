"""Arithmetic of compiled code: what operators and functions of numbers emit, by Numba's rules of types.

Integers of up to 64 bits are worked with in 64; unsigned ones stay unsigned among themselves. An integer beside a
float, or two floats of different width, give float64. Division by zero of integers is zero.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from .code_types import (
    BOOLEAN,
    FLOAT32,
    FLOAT64,
    INT64,
    UINT64,
    Array,
    Items,
    Lanes,
    Mask,
    Number,
    Pointer,
    Type,
    UnsupportedError,
    Value,
    constant,
)
from .jit import ir

_PYTHON: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add, "Sub": operator.sub, "Mult": operator.mul, "FloorDiv": operator.floordiv, "Mod": operator.mod,
    "BitAnd": operator.and_, "BitOr": operator.or_, "BitXor": operator.xor, "LShift": operator.lshift,
    "RShift": operator.rshift,
}  # fmt: skip
_COMPARISONS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "Eq": ("==", operator.eq), "NotEq": ("!=", operator.ne), "Lt": ("<", operator.lt), "LtE": ("<=", operator.le),
    "Gt": (">", operator.gt), "GtE": (">=", operator.ge),
}  # fmt: skip
_INTEGER = {"Add": "add", "Sub": "sub", "Mult": "mul", "BitAnd": "and_", "BitOr": "or_", "BitXor": "xor"}
_FLOAT = {"Add": "fadd", "Sub": "fsub", "Mult": "fmul", "Div": "fdiv"}


def convert(builder: ir.IRBuilder, value: Value, kind: Type) -> Value:
    """A value as one of another type, where that is done without being asked for."""
    if value.type == kind:
        return value
    if isinstance(value.type, Number) and isinstance(kind, Number) and value.type.kind == "f" != kind.kind:
        raise UnsupportedError(f"{value.type} as {kind}")
    if isinstance(value.type, Pointer) and (kind == INT64 or _is_base(kind, value.type)):
        return Value(kind, value.parts)
    if isinstance(value.type, Items) and isinstance(kind, Items) and len(value.type) == len(kind):
        items = [convert(builder, value.type.item(value, i), each) for i, each in enumerate(kind)]
        return Value(kind, [part for item in items for part in item.parts])
    if isinstance(value.type, Array) and kind == Array(value.type.number, value.type.ndim, False):
        return Value(kind, value.parts)
    return cast(builder, value, kind)


def cast(builder: ir.IRBuilder, value: Value, kind: Type) -> Value:
    """A number as one of another type."""
    if isinstance(value.type, Pointer):
        value = Value(INT64, value.parts)
    if not isinstance(value.type, Number) or not isinstance(kind, Number):
        raise UnsupportedError(f"{value.type} as {kind}")
    return value if value.type == kind else Value(kind, [_number(builder, value, kind)])


def _is_base(kind: Type, pointer: Pointer) -> bool:
    return isinstance(kind, Pointer) and issubclass(pointer.record, kind.record)


def _number(builder: ir.IRBuilder, value: Value, kind: Number) -> ir.Value:
    (x,), own = value.parts, value.type
    assert isinstance(own, Number)
    if "c" in (own.kind, kind.kind):
        raise UnsupportedError("complex numbers")
    if value.number is not None and kind.kind != "b":
        number = value.number
        if kind.is_integer:
            number = math.trunc(number) & ((1 << kind.bits) - 1)
            number -= (number >> (kind.bits - 1) << kind.bits) if kind.kind == "i" else 0
        elif kind.bits == 64:
            number = float(number)
        if kind.is_integer or kind.bits == 64:
            return kind.ir(number)
    if kind.kind == "b":
        return truth(builder, value)
    if kind.is_integer:
        if own.kind == "f":
            return builder.fptosi(x, kind.ir) if kind.kind == "i" else builder.fptoui(x, kind.ir)
        if kind.bits < own.bits and own.kind != "b":
            return builder.trunc(x, kind.ir)
        if kind.bits == own.bits:
            return x
        return builder.sext(x, kind.ir) if own.kind == "i" else builder.zext(x, kind.ir)
    if own.kind == "f":
        return builder.fptrunc(x, kind.ir) if kind.bits < own.bits else builder.fpext(x, kind.ir)
    return builder.sitofp(x, kind.ir) if own.kind == "i" else builder.uitofp(x, kind.ir)


def common(a: Type, b: Type) -> Type:
    """The type that holds the values of both: of a variable, of a conditional expression."""
    if a == b:
        return a
    if isinstance(a, Pointer) and isinstance(b, (Pointer, Number)):
        return common(INT64, b) if isinstance(b, Number) else INT64
    if isinstance(b, Pointer):
        return common(b, a)
    if isinstance(a, Items) and isinstance(b, Items) and len(a) == len(b) and a.instance_class is b.instance_class:
        return Items(a.instance_class, tuple(map(common, a.types, b.types)))
    if isinstance(a, Array) and isinstance(b, Array) and (a.number, a.ndim) == (b.number, b.ndim):
        return Array(a.number, a.ndim, False)
    if not isinstance(a, Number) or not isinstance(b, Number):
        raise UnsupportedError(f"either {a} or {b}")
    return _operands(a, b)


def _operands(a: Number, b: Number) -> Number:
    """The type that an operator of two numbers works with."""
    if "c" in (a.kind, b.kind):
        raise UnsupportedError("complex numbers")
    if "f" in (a.kind, b.kind):
        if a.kind == b.kind:
            return a if a.bits >= b.bits else b
        other = b if a.kind == "f" else a
        if other.is_integer and other.bits >= 32:
            return FLOAT64
        raise UnsupportedError(f"{a} beside {b}")
    if a.kind == b.kind == "u":
        return UINT64
    if UINT64 in (a, b):
        raise UnsupportedError(f"{a} beside {b}")  # float64, as in NumPy
    return INT64


def binary(builder: ir.IRBuilder, name: str, a: Value, b: Value) -> Value:
    """The operator of Python's syntax trees by its name."""
    if isinstance(a.type, Pointer) or isinstance(b.type, Pointer):
        a, b = (convert(builder, x, INT64) if isinstance(x.type, Pointer) else x for x in (a, b))
    if isinstance(a.type, (Lanes, Mask)) and a.type == b.type:
        return _of_lanes(builder, name, a, b)
    if not isinstance(a.type, Number) or not isinstance(b.type, Number):
        raise UnsupportedError(f"{name} of {a.type} and {b.type}")
    if a.type.kind == b.type.kind == "b" and name.startswith("Bit"):
        return Value(BOOLEAN, [getattr(builder, _INTEGER[name])(*a.parts, *b.parts)])
    if name == "Pow":
        return _power(builder, a, b)
    kind = _operands(a.type, b.type)
    if name == "Div" and kind.kind != "f":
        kind = FLOAT64
    if name.endswith("Shift") and a.type.kind != b.type.kind:
        kind = UINT64 if a.type.kind == "u" else INT64
    if kind.kind == "f":
        if name == "Mod":
            return _float_rest(builder, convert(builder, a, kind), convert(builder, b, kind))
        if name not in _FLOAT:
            raise UnsupportedError(f"{name} of floats")
        x, y = (convert(builder, each, kind).parts[0] for each in (a, b))
        return Value(kind, [getattr(builder, _FLOAT[name])(x, y)])
    if a.number is not None and b.number is not None and not (name in ("FloorDiv", "Mod") and b.number == 0):
        found = _PYTHON[name](a.number, b.number)
        return convert(builder, Value(INT64, [INT64.ir((found + 2**63) % 2**64 - 2**63)]), kind)
    a, b = convert(builder, a, kind), convert(builder, b, kind)
    return Value(kind, [_integer(builder, name, kind, a, b)])


def _integer(builder: ir.IRBuilder, name: str, kind: Number, a: Value, b: Value) -> ir.Value:
    (x,), (y,), zero = a.parts, b.parts, kind.ir(0)
    if (name in ("Add", "Sub") and b.number == 0) or (name == "Mult" and b.number == 1):
        return x
    if (name == "Add" and a.number == 0) or (name == "Mult" and a.number == 1):
        return y
    if name in _INTEGER:
        return getattr(builder, _INTEGER[name])(x, y)
    if name == "LShift":
        return builder.shl(x, y)
    if name == "RShift":
        return builder.ashr(x, y) if kind.kind == "i" else builder.lshr(x, y)
    if name not in ("FloorDiv", "Mod"):
        raise UnsupportedError(f"{name} of integers")
    if kind.kind == "u":
        raise UnsupportedError(f"{name} of unsigned integers")
    known = b.number
    if known and known > 0 and known & (known - 1) == 0:
        shift = kind.ir(known.bit_length() - 1)
        return builder.ashr(x, shift) if name == "FloorDiv" else builder.and_(x, kind.ir(known - 1))
    fails = None
    if not known or known == -1:
        least = builder.and_(builder.icmp_signed("==", x, kind.ir(-(2**63))), builder.icmp_signed("==", y, kind.ir(-1)))
        fails = builder.or_(least, builder.icmp_signed("==", y, zero))
        y = builder.select(fails, kind.ir(1), y)
    rest = builder.srem(x, y)
    other_sign = builder.icmp_signed("<", builder.xor(y, rest), zero)
    adjusted = builder.and_(builder.icmp_signed("!=", rest, zero), other_sign)
    if name == "Mod":
        found = builder.add(rest, builder.select(adjusted, y, zero))
    else:
        found = builder.add(builder.sdiv(x, y), builder.sext(adjusted, kind.ir))
    return builder.select(fails, zero, found) if fails is not None else found


def _float_rest(builder: ir.IRBuilder, a: Value, b: Value) -> Value:
    """a % b, which has the sign of b."""
    (x,), (y,), kind = a.parts, b.parts, a.type
    assert isinstance(kind, Number)
    zero, rest = kind.ir(0.0), builder.frem(x, y)
    other_sign = builder.xor(builder.fcmp_ordered("<", y, zero), builder.fcmp_ordered("<", rest, zero))
    moved = builder.select(other_sign, builder.fadd(rest, y), rest)
    signed = float_function(builder, "copysign", Value(kind, [zero]), b).parts[0]
    return Value(kind, [builder.select(builder.fcmp_unordered("!=", rest, zero), moved, signed)])


def _power(builder: ir.IRBuilder, a: Value, b: Value) -> Value:
    """A power of a float: of constants, the square, or one whose exponent is a float."""
    if not isinstance(a.type, Number) or a.type.kind != "f":
        raise UnsupportedError("a power of an integer")
    if a.number is not None and b.number is not None:
        return constant(float(a.number**b.number))
    if b.type == INT64 and b.number == 2:
        return Value(a.type, [builder.fmul(a.parts[0], a.parts[0])])
    if b.type != FLOAT64:
        raise UnsupportedError("a power whose exponent is not 2 and not a float")
    return float_function(builder, "pow", a, b)


def _of_lanes(builder: ir.IRBuilder, name: str, a: Value, b: Value) -> Value:
    names = _FLOAT if isinstance(a.type, Lanes) else {"BitAnd": "and_", "BitOr": "or_"}
    if name not in names:
        raise UnsupportedError(f"{name} of {a.type}")
    return Value(a.type, [getattr(builder, names[name])(*a.parts, *b.parts)])


def compare(builder: ir.IRBuilder, name: str, a: Value, b: Value) -> Value:
    """A comparison by the name of its operator; those of vectors give a mask."""
    if name not in _COMPARISONS:
        raise UnsupportedError(f"the comparison {name}")
    sign, python = _COMPARISONS[name]
    if isinstance(a.type, Lanes) and a.type == b.type:
        emit = builder.fcmp_unordered if name == "NotEq" else builder.fcmp_ordered
        return Value(Mask(a.type.tag), [emit(sign, *a.parts, *b.parts)])
    a, b = (convert(builder, x, INT64) if isinstance(x.type, Pointer) else x for x in (a, b))
    if not isinstance(a.type, Number) or not isinstance(b.type, Number):
        raise UnsupportedError(f"{name} of {a.type} and {b.type}")
    if a.number is not None and b.number is not None:
        return constant(python(a.number, b.number))
    kind = BOOLEAN if a.type == b.type == BOOLEAN else _operands(a.type, b.type)
    x, y = (convert(builder, each, kind).parts[0] for each in (a, b))
    if kind.kind == "f":
        emit = builder.fcmp_unordered if name == "NotEq" else builder.fcmp_ordered
        return Value(BOOLEAN, [emit(sign, x, y)])
    emit = builder.icmp_signed if kind.kind == "i" else builder.icmp_unsigned
    return Value(BOOLEAN, [emit(sign, x, y)])


def truth(builder: ir.IRBuilder, value: Value) -> ir.Value:
    """Whether a number is not zero, as a bit."""
    if isinstance(value.type, Pointer):
        value = convert(builder, value, INT64)
    if not isinstance(value.type, Number):
        raise UnsupportedError(f"the truth of {value.type}")
    if value.type == BOOLEAN:
        return value.parts[0]
    if value.number is not None:
        return BOOLEAN.ir(int(bool(value.number)))
    if value.type.kind == "f":
        return builder.fcmp_unordered("!=", value.parts[0], value.type.ir(0.0))
    return builder.icmp_signed("!=", value.parts[0], value.type.ir(0))


def negative(builder: ir.IRBuilder, value: Value) -> Value:
    if value.number is not None and value.type != FLOAT32:
        return constant(-value.number)
    if isinstance(value.type, Number) and value.type.kind == "f":
        return Value(value.type, [builder.fneg(value.parts[0])])
    value = convert(builder, value, INT64)
    return Value(INT64, [builder.neg(value.parts[0])])


def absolute(builder: ir.IRBuilder, value: Value) -> Value:
    if isinstance(value.type, Lanes):
        from .linalg.lanes import masked_bits

        return Value(value.type, [masked_bits(builder, value.type.tag, value.parts[0], value.type.tag.sign_mask)])
    if isinstance(value.type, Number) and value.type.kind == "f":
        return float_function(builder, "fabs", value)
    value = convert(builder, value, INT64)
    less = builder.icmp_signed("<", value.parts[0], INT64.ir(0))
    return Value(INT64, [builder.select(less, builder.neg(value.parts[0]), value.parts[0])])


def float_function(builder: ir.IRBuilder, name: str, *values: Value) -> Value:
    """A function of floats that LLVM has: `floor`, `rint`, `trunc`, `sqrt`, `fabs`, `copysign`, `pow`."""
    kind = values[0].type
    for value in values[1:]:
        kind = common(kind, value.type)
    if not isinstance(kind, Number) or kind.kind != "f":
        kind = FLOAT64
    arguments = [convert(builder, value, kind).parts[0] for value in values]
    taken = ir.FunctionType(kind.ir, [kind.ir] * len(arguments))
    function = builder.module.declare_intrinsic(f"llvm.{name}", [kind.ir], taken)
    return Value(kind, [builder.call(function, arguments)])


def extreme(builder: ir.IRBuilder, name: str, values: list[Value]) -> Value:
    """`min` or `max` by Python's rule: a later value is taken where it compares less, or greater."""
    if len(values) < 2:
        raise UnsupportedError(f"{name} of one value")
    found = values[0]
    for value in values[1:]:
        kind = common(found.type, value.type)
        a, b = convert(builder, found, kind), convert(builder, value, kind)
        taken = compare(builder, "Lt" if name == "min" else "Gt", b, a)
        if taken.number is not None:
            found = b if taken.number else a
        else:
            found = Value(kind, [builder.select(taken.parts[0], b.parts[0], a.parts[0])])
    return found
