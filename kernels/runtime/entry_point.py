"""The function that Python calls, emitted in LLVM's language: it reads its arguments as `native` says."""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils

from . import native
from .record_types import Pointer


def type_of_kind(kind: Any) -> Any:
    """Numba's type of a kind of arguments."""
    if isinstance(kind, native.Array):
        dtype = numba.from_dtype(native.np.dtype(kind.dtype))
        return types.Array(dtype, kind.ndim, "C" if kind.contiguous else "A")
    if isinstance(kind, native.Items):
        return types.BaseTuple.from_types(tuple(map(type_of_kind, kind.kinds)), kind.of)
    if isinstance(kind, native.Pointer):
        return Pointer(kind.of)
    return getattr(types, kind.rpartition(".")[2])


_I8, _I32, _I64 = map(ir.IntType, (8, 32, 64))
_OBJECT = _I8.as_pointer()
_TYPE, _VALUE = object.__basicsize__ - 8, object.__basicsize__
_DATA, _NDIM, _SHAPE, _STRIDES, _DTYPE, _FLAGS = (object.__basicsize__ + 8 * place for place in (0, 1, 2, 3, 5, 6))
_C_CONTIGUOUS, _ALIGNED = 0x1, 0x100


class EntryPoint:
    """Emits the function that Python calls (`native`).

    What it reads at an offset that is written into it is the same in all versions of Python: an object's type, a
    tuple's length, and what NumPy's inline functions read. Tuples' items are not (3.14 has a hash before them): their
    offset is that of the process (`native.TUPLE_ITEMS`).
    """

    def __init__(self, context: Any, module: ir.Module, callee: Any, without_lock: bool) -> None:
        self.context, self.module, self.callee, self.without_lock = context, module, callee, without_lock
        kind = ir.FunctionType(_OBJECT, [_OBJECT, _OBJECT, _I64])
        self.function = ir.Function(module, kind, native.ENTRY)
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.mismatch, self.failure = map(self.function.append_basic_block, ("mismatch", "failure"))
        self.compared = 0

    def emit(self, kinds: tuple) -> None:
        builder, (_, items, count) = self.builder, self.function.args
        self._unless(builder.icmp_signed("==", count, _I64(len(kinds))))
        values = [self._value(kind, self._object(items, 8 * place)) for place, kind in enumerate(kinds)]
        callee = self.context.declare_function(self.module, self.callee)
        thread = self._call("PyEval_SaveThread", _OBJECT) if self.without_lock else None
        status, result = self.context.call_conv.call_function(
            builder, callee, self.callee.restype, self.callee.argtypes, values
        )
        if self.without_lock:
            self._call("PyEval_RestoreThread", ir.VoidType(), thread)
        with builder.if_then(status.is_error, likely=False):
            error = self._item(self.function.args[0], self.compared)
            text = self.context.insert_const_string(self.module, "a compiled kernel failed")
            self._call("PyErr_SetString", ir.VoidType(), error, text)
            builder.branch(self.failure)
            builder.position_at_end(self.function.append_basic_block("unreachable"))
            builder.branch(self.failure)
        builder.ret(self._box(self.callee.restype, result))
        builder.position_at_end(self.mismatch)
        builder.ret(self._new_reference("_Py_NotImplementedStruct"))
        builder.position_at_end(self.failure)
        builder.ret(_OBJECT(None))

    def _call(self, name: str, result: ir.Type, *arguments: ir.Value) -> ir.Value:
        kind = ir.FunctionType(result, [each.type for each in arguments])
        return self.builder.call(cgutils.get_or_insert_function(self.module, kind, name), arguments)

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

    def _item_at(self, base: ir.Value, place: int) -> ir.Value:
        """Where an item of a tuple is."""
        found = self.module.globals.get(native.TUPLE_ITEMS) or ir.GlobalVariable(self.module, _I64, native.TUPLE_ITEMS)
        offset = self.builder.add(self.builder.load(found), _I64(8 * place))
        return self.builder.bitcast(self.builder.gep(base, [offset]), _OBJECT.as_pointer())

    def _item(self, base: ir.Value, place: int) -> ir.Value:
        return self.builder.load(self._item_at(base, place))

    def _compare(self, found: ir.Value) -> None:
        """Go on where an object is the next one of those expected."""
        wanted = self._item(self.function.args[0], self.compared)
        self.compared += 1
        self._unless(self.builder.icmp_unsigned("==", found, wanted))

    def _value(self, kind: Any, item: ir.Value) -> ir.Value:
        """The value of an argument, as compiled code has it."""
        self._compare(self._object(item, _TYPE))
        if isinstance(kind, native.Array):
            return self._array(kind, item)
        if isinstance(kind, native.Items):
            self._unless(self.builder.icmp_signed("==", self._field(item, _VALUE, _I64), _I64(len(kind.kinds))))
            values = [self._value(inner, self._item(item, place)) for place, inner in enumerate(kind.kinds)]
            return self.context.make_tuple(self.builder, type_of_kind(kind), values)
        if kind == "int64" or isinstance(kind, native.Pointer):
            value = self._call("PyLong_AsLongLong", _I64, item)
            with self.builder.if_then(self.builder.icmp_signed("==", value, _I64(-1)), likely=False):
                error = self._call("PyErr_Occurred", _OBJECT)
                with self.builder.if_then(self.builder.icmp_unsigned("!=", error, _OBJECT(None)), likely=False):
                    self.builder.ret(_OBJECT(None))
            return value
        if kind == "float64":
            return self._call("PyFloat_AsDouble", ir.DoubleType(), item)
        if kind == "bool":
            return self.builder.trunc(self._call("PyObject_IsTrue", _I32, item), ir.IntType(1))
        if kind == "none":
            return self.context.get_dummy_value()
        data = self.builder.gep(item, [_I64(_VALUE)])
        model = self.context.data_model_manager[type_of_kind(kind)]
        return model.load_from_data_pointer(
            self.builder, self.builder.bitcast(data, model.get_data_type().as_pointer())
        )

    def _array(self, kind: native.Array, item: ir.Value) -> ir.Value:
        builder, array = self.builder, type_of_kind(kind)
        self._compare(self._object(item, _DTYPE))
        self._unless(builder.icmp_signed("==", self._field(item, _NDIM, _I32), _I32(kind.ndim)))
        wanted = _ALIGNED | (_C_CONTIGUOUS if kind.contiguous else 0)
        flags = builder.and_(self._field(item, _FLAGS, _I32), _I32(wanted))
        self._unless(builder.icmp_signed("==", flags, _I32(wanted)))
        shape, strides = (
            [self._field(self._object(item, place), 8 * axis, _I64) for axis in range(kind.ndim)]
            for place in (_SHAPE, _STRIDES)
        )
        made = self.context.make_array(array)(self.context, builder)
        data = builder.bitcast(self._object(item, _DATA), made.data.type)
        itemsize = self.context.get_constant(types.intp, native.np.dtype(kind.dtype).itemsize)
        numba.np.arrayobj.populate_array(made, data, shape, strides, itemsize, None)
        return made._getvalue()

    def _box(self, kind: Any, value: ir.Value) -> ir.Value:
        """A result as Python has it."""
        if isinstance(kind, types.NoneType):
            return self._new_reference("_Py_NoneStruct")
        if isinstance(kind, types.Boolean):
            return self._call("PyBool_FromLong", _OBJECT, self.builder.zext(value, _I64))
        if isinstance(kind, types.Float):
            wide = value if value.type == ir.DoubleType() else self.builder.fpext(value, ir.DoubleType())
            return self._call("PyFloat_FromDouble", _OBJECT, wide)
        if isinstance(kind, types.Integer) and kind.signed:
            wide = value if value.type == _I64 else self.builder.sext(value, _I64)
            return self._call("PyLong_FromLongLong", _OBJECT, wide)
        if isinstance(kind, types.Integer):
            wide = value if value.type == _I64 else self.builder.zext(value, _I64)
            return self._call("PyLong_FromUnsignedLongLong", _OBJECT, wide)
        if isinstance(kind, types.BaseTuple):
            made = self._call("PyTuple_New", _OBJECT, _I64(len(kind)))
            for place, inner in enumerate(kind):
                item = self._box(inner, self.builder.extract_value(value, place))
                self.builder.store(item, self._item_at(made, place))
            return made
        raise TypeError(f"a function that Python calls returns numbers, tuples of numbers or None, not {kind}")
