"""The function that Python calls, emitted in LLVM's language: it reads its arguments as `native` says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import native
from .code_types import NOTHING, Array, Items, Number, Pointer, Type, UnsupportedError, Value
from .jit import ir


def type_of_kind(kind: Any) -> Type:
    """The type of compiled code for a kind of arguments."""
    if isinstance(kind, native.Array):
        return Array(Number(kind.dtype), kind.ndim, kind.contiguous)
    if isinstance(kind, native.Items):
        return Items(kind.of, tuple(map(type_of_kind, kind.kinds)))
    if isinstance(kind, native.Pointer):
        return Pointer(kind.of)
    return NOTHING if kind == "none" else Number(kind.rpartition(".")[2])


_I8, _I32, _I64 = map(ir.IntType, (8, 32, 64))
_OBJECT = _I8.as_pointer()
_TYPE, _ITEMS, _VALUE = object.__basicsize__ - 8, tuple.__basicsize__, object.__basicsize__
_DATA, _NDIM, _SHAPE, _STRIDES, _DTYPE, _FLAGS = (object.__basicsize__ + 8 * place for place in (0, 1, 2, 3, 5, 6))
_C_CONTIGUOUS, _ALIGNED = 0x1, 0x100


class EntryPoint:
    """Emits the function that Python calls (`native`)."""

    def __init__(self, module: ir.Module, without_lock: bool) -> None:
        self.module, self.without_lock = module, without_lock
        kind = ir.FunctionType(_OBJECT, [_OBJECT, _OBJECT, _I64])
        self.function = ir.Function(module, kind, native.ENTRY)
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.mismatch, self.failure = map(self.function.append_basic_block, ("mismatch", "failure"))
        self.compared = 0

    def emit(self, kinds: tuple, run: Callable[[ir.IRBuilder, list[Value]], tuple[ir.Value | None, Value]]) -> None:
        """Emit it for arguments of these kinds: `run` emits the call, and returns whether it failed, and the result."""
        builder, (_, items, count) = self.builder, self.function.args
        self._unless(builder.icmp_signed("==", count, _I64(len(kinds))))
        values = [self._value(kind, self._object(items, 8 * place)) for place, kind in enumerate(kinds)]
        thread = self._call("PyEval_SaveThread", _OBJECT) if self.without_lock else None
        failed, result = run(builder, values)
        if self.without_lock:
            self._call("PyEval_RestoreThread", ir.VoidType(), thread)
        if failed is not None:
            with builder.if_then(failed, likely=False):
                error = self._object(self.function.args[0], _ITEMS + 8 * self.compared)
                self._call("PyErr_SetString", ir.VoidType(), error, self._text(b"a compiled kernel failed\0"))
                builder.branch(self.failure)
                builder.position_at_end(self.function.append_basic_block("unreachable"))
                builder.branch(self.failure)
        builder.ret(self._box(result))
        builder.position_at_end(self.mismatch)
        builder.ret(self._new_reference("_Py_NotImplementedStruct"))
        builder.position_at_end(self.failure)
        builder.ret(_OBJECT(None))

    def _text(self, text: bytes) -> ir.Value:
        kind = ir.ArrayType(_I8, len(text))
        found = ir.GlobalVariable(self.module, kind, "text")
        found.initializer, found.global_constant, found.linkage = kind(bytearray(text)), True, "internal"
        return self.builder.bitcast(found, _OBJECT)

    def _call(self, name: str, result: ir.Type, *arguments: ir.Value) -> ir.Value:
        kind = ir.FunctionType(result, [each.type for each in arguments])
        return self.builder.call(self.module.globals.get(name) or ir.Function(self.module, kind, name), arguments)

    def _new_reference(self, name: str) -> ir.Value:
        found = self.module.globals.get(name) or ir.GlobalVariable(self.module, _I8, name)
        self._call("Py_IncRef", ir.VoidType(), found)
        return found

    def _unless(self, same: ir.Value) -> None:
        """Go on where that is so."""
        following = self.function.append_basic_block()
        self.builder.cbranch(same, following, self.mismatch)
        self.builder.position_at_end(following)

    def _field(self, base: ir.Value, offset: int, kind: ir.Type) -> ir.Value:
        at = self.builder.gep(base, [_I64(offset)])
        return self.builder.load(self.builder.bitcast(at, kind.as_pointer()))

    def _object(self, base: ir.Value, offset: int) -> ir.Value:
        return self._field(base, offset, _OBJECT)

    def _compare(self, found: ir.Value) -> None:
        """Go on where an object is the next one of those expected."""
        wanted = self._object(self.function.args[0], _ITEMS + 8 * self.compared)
        self.compared += 1
        self._unless(self.builder.icmp_unsigned("==", found, wanted))

    def _value(self, kind: Any, item: ir.Value) -> Value:
        """The value of an argument."""
        self._compare(self._object(item, _TYPE))
        own = type_of_kind(kind)
        if isinstance(kind, native.Array):
            return self._array(kind, item)
        if isinstance(kind, native.Items):
            self._unless(self.builder.icmp_signed("==", self._field(item, _VALUE, _I64), _I64(len(kind.kinds))))
            values = [self._value(inner, self._object(item, _ITEMS + 8 * i)) for i, inner in enumerate(kind.kinds)]
            return Value(own, [part for value in values for part in value.parts])
        if kind == "int64" or isinstance(kind, native.Pointer):
            value = self._call("PyLong_AsLongLong", _I64, item)
            with self.builder.if_then(self.builder.icmp_signed("==", value, _I64(-1)), likely=False):
                error = self._call("PyErr_Occurred", _OBJECT)
                with self.builder.if_then(self.builder.icmp_unsigned("!=", error, _OBJECT(None)), likely=False):
                    self.builder.ret(_OBJECT(None))
            return Value(own, [value])
        if kind == "float64":
            return Value(own, [self._call("PyFloat_AsDouble", ir.DoubleType(), item)])
        if kind == "bool":
            return Value(own, [self.builder.trunc(self._call("PyObject_IsTrue", _I32, item), ir.IntType(1))])
        return Value(own, [self._field(item, _VALUE, part) for part in own.parts])

    def _array(self, kind: native.Array, item: ir.Value) -> Value:
        builder, own = self.builder, type_of_kind(kind)
        self._compare(self._object(item, _DTYPE))
        self._unless(builder.icmp_signed("==", self._field(item, _NDIM, _I32), _I32(kind.ndim)))
        wanted = _ALIGNED | (_C_CONTIGUOUS if kind.contiguous else 0)
        flags = builder.and_(self._field(item, _FLAGS, _I32), _I32(wanted))
        self._unless(builder.icmp_signed("==", flags, _I32(wanted)))
        sizes = [
            self._field(self._object(item, place), 8 * axis, _I64)
            for place in (_SHAPE, _STRIDES)
            for axis in range(kind.ndim)
        ]
        return Value(own, [builder.bitcast(self._object(item, _DATA), own.parts[0]), *sizes])

    def _box(self, value: Value) -> ir.Value:
        """A result as Python has it."""
        kind, builder = value.type, self.builder
        if kind == NOTHING:
            return self._new_reference("_Py_NoneStruct")
        if isinstance(kind, Pointer):
            return self._call("PyLong_FromLongLong", _OBJECT, value.parts[0])
        if isinstance(kind, Number) and kind.kind in "bfiu":
            (found,) = value.parts
            if kind.kind == "b":
                return self._call("PyBool_FromLong", _OBJECT, builder.zext(found, _I64))
            if kind.kind == "f":
                wide = found if kind.bits == 64 else builder.fpext(found, ir.DoubleType())
                return self._call("PyFloat_FromDouble", _OBJECT, wide)
            if kind.kind == "i":
                wide = found if kind.bits == 64 else builder.sext(found, _I64)
                return self._call("PyLong_FromLongLong", _OBJECT, wide)
            wide = found if kind.bits == 64 else builder.zext(found, _I64)
            return self._call("PyLong_FromUnsignedLongLong", _OBJECT, wide)
        if isinstance(kind, Items):
            made = self._call("PyTuple_New", _OBJECT, _I64(len(kind)))
            for place in range(len(kind)):
                item = self._box(kind.item(value, place))
                at = builder.gep(made, [_I64(_ITEMS + 8 * place)])
                builder.store(item, builder.bitcast(at, _OBJECT.as_pointer()))
            return made
        raise UnsupportedError(f"a function that Python calls returns numbers, tuples of numbers or None, not {kind}")
