"""Numba, set up in one place: which CPU it compiles for, the settings of every kernel, object files of entries.

Only what has to be compiled imports this module, and with it Numba (0.4 s with its registries).

* Kernels are compiled for the capability in force, and with Numba's default settings. What a user asks of Numba, as
  NUMBA_CPU_NAME or NUMBA_DISABLE_JIT, holds for the user's own functions.
* A function that Python calls becomes one module with all that it calls, which LLVM optimises once (`compile_entry`).
* Signals that arrive while Numba is imported or compiles are handled right afterwards (`first_use`).
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

from . import jit, native, notice, store, targets
from .first_use import await_before_fork, first_use, importing
from .locks import cached_property


@contextlib.contextmanager
def _importable() -> Iterator[None]:
    """Import Numba in the block: without NUMBA_DISABLE_JIT, with which it would not compile functions of its own that
    kernels call, and without numbers of threads that it refuses."""
    hidden = {"NUMBA_DISABLE_JIT"}
    if re.fullmatch(r"\s*(0+|-\d+)\s*", os.environ.get("NUMBA_NUM_THREADS", "")):
        hidden.add("NUMBA_NUM_THREADS")
    users = {name: os.environ.pop(name) for name in hidden & os.environ.keys()}
    try:
        yield
    finally:
        os.environ.update(users)


with importing("numba", "llvmlite"):
    with _importable():
        import numba
        from llvmlite import ir
        from numba import types
        from numba.core import cgutils, codegen, registry
        from numba.core.compiler import Compiler
        from numba.np.arrayobj import populate_array
    numba.config.reload_config()

__all__ = ["cgutils", "compile_entry", "dispatcher", "external", "intrinsic", "numba", "type_of", "types"]

_compiling = numba.core.compiler_lock.global_compiler_lock._lock
await_before_fork(_compiling)


@contextlib.contextmanager
def _counted(phase: str) -> Iterator[None]:
    """Add the CPU time of the block, less what is counted in it, to a field of `store.activity`."""
    counts, start = store.activity, time.thread_time()
    inner = counts.lowering_seconds + counts.llvm_seconds
    try:
        yield
    finally:
        inner = counts.lowering_seconds + counts.llvm_seconds - inner
        setattr(counts, phase, getattr(counts, phase) + time.thread_time() - start - inner)


class _Library(codegen.JITCodeLibrary):
    """LLVM's code of a function as Numba translates it, for others to link: not optimised, and no machine code."""

    codegen = property(lambda self: self)  # what links it is asked for machine code, and given the environment

    def set_env(self, name: str, environment: Any) -> None:
        pass

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0

    def _optimize_functions(self, module: Any) -> None:
        with _counted("llvm_seconds"):
            super()._optimize_functions(module)

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _Entry(_Library):
    """A function with all that it calls, optimised: an object file."""

    content = b""

    def _optimize_final_module(self) -> None:
        with _counted("llvm_seconds"):
            codegen.JITCodeLibrary._optimize_final_module(self)

    def _finalize_final_module(self) -> None:
        super()._finalize_final_module()
        with _counted("llvm_seconds"):
            self.content = self._codegen._tm.emit_object(self._final_module)

    def needs_of_numba(self) -> set[str]:
        """The functions of Numba's runtime that it calls."""
        names = {each.name for each in self._final_module.functions if each.is_declaration}
        return {name for name in names if name.startswith(("numba_", "NRT_", "numba."))}


class _Codegen(codegen.JITCPUCodegen):
    """Machine code for the capability in force, whatever Numba compiles a user's functions for."""

    def _get_host_cpu_name(self) -> str:
        return targets.target().cpu

    def _get_host_cpu_features(self) -> str:
        return targets.target().features


class _Target(registry.CPUTarget):
    """Numba's target with that code generator; it knows the same types and functions."""

    typing_context = property(lambda self: registry.cpu_target.typing_context)

    @cached_property
    def target_context(self) -> Any:
        with _own_settings():
            return registry.cpu_target.target_context.subtarget(_internal_codegen=_Codegen("minitorch_backends"))


_SETTINGS = {
    "ALWAYS_WARN_UNINIT_VAR": 0,
    "BOUNDSCHECK": None,
    "DEBUGINFO_DEFAULT": 0,
    "DEBUG_NRT": 0,
    "DISABLE_JIT": 0,
    "EXTEND_VARIABLE_LIFETIMES": 0,
    "JIT_COVERAGE": 0,
    "LLVM_REFPRUNE_FLAGS": "all",
    "LLVM_REFPRUNE_PASS": 1,
    "LOOP_VECTORIZE": 1,
    "OPT": numba.config._OptLevel(3),
    "SLP_VECTORIZE": 0,
}
"""Numba's settings that change what is compiled, by their names in `numba.config`, with Numba's defaults."""


@contextlib.contextmanager
def _own_settings() -> Iterator[None]:
    """Compile in the block with `_SETTINGS`."""
    settings = vars(numba.config)
    with _compiling:
        numba.config.reload_config()  # not in the midst of the block, where the environment has changed
        users = {name: settings[name] for name in _SETTINGS}
        settings.update(_SETTINGS)
        try:
            yield
        finally:
            settings.update(users)


class _Compiler(Compiler):
    """Numba's compiler, into a `_Library`."""

    def _compile_core(self) -> Any:
        self.state.library = _Library(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        return super()._compile_core()


class _Dispatcher(registry.CPUDispatcher):
    """A function that is compiled for each combination of types that compiled code calls it with."""

    targetdescr = _Target("cpu")

    def compile(self, signature: Any) -> Any:
        with first_use(), _own_settings(), _counted("lowering_seconds"):
            return super().compile(signature)


def dispatcher(function: Callable, options: dict[str, Any]) -> Any:
    """A function as compiled code calls it."""
    settings = {**options, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return _Dispatcher(function, targetoptions=settings, pipeline_class=_Compiler)


def intrinsic(function: Callable, options: dict[str, Any]) -> Any:
    """A function that emits code, as compiled code calls it."""
    made = numba.extending.intrinsic
    return made(**options)(function) if options else made(function)


def external(name: str, result: str, arguments: tuple[str, ...]) -> Any:
    """Numba's type of a C function."""
    return types.ExternalFunction(name, getattr(types, result)(*(getattr(types, each) for each in arguments)))


def type_of(value: Any) -> Any:
    """Numba's type of a value that compiled code names."""
    context = registry.cpu_target.typing_context
    try:
        return context.resolve_value_type(value)
    except ValueError:  # declared since the context was last refreshed
        context.refresh()
        return context.resolve_value_type(value)


def _prepare() -> None:
    """Define what modules of kernels have to define before anything is compiled."""
    while jit.before_compiling:
        jit.before_compiling.pop(0)()
    _Dispatcher.targetdescr.target_context.refresh()


def compile_entry(entry: jit.Entry, kinds: tuple) -> _Entry:
    """The library of a function for arguments of these kinds (`native`): `content` is its object file."""
    with first_use(), _own_settings(), notice.compiling(entry.py_func.__module__), _counted("lowering_seconds"):
        _prepare()
        function, arguments = entry.value, tuple(map(_type, kinds))
        function.compile(arguments)
        compiled, context = function.overloads[arguments], function.targetctx
        library = _Entry(context.codegen(), native.ENTRY)
        module = library.create_ir_module(native.ENTRY)
        _Wrapper(context, module, compiled.fndesc, entry.options["nogil"]).emit(kinds)
        library.add_ir_module(module)
        library.add_linking_library(compiled.library)
        library.finalize()
        if library.has_dynamic_globals:
            raise TypeError(f"{entry.py_func.__qualname__} names an object by its address, which no other process has")
        if missing := library.needs_of_numba() - native.RUNTIME:
            raise TypeError(
                f"{entry.py_func.__qualname__} calls {missing}, which is there only while Numba is imported"
            )
        store.activity.compiled += 1
        return library


def _type(kind: Any) -> Any:
    """Numba's type of a kind of arguments."""
    if isinstance(kind, native.Array):
        dtype = numba.from_dtype(native.np.dtype(kind.dtype))
        return types.Array(dtype, kind.ndim, "C" if kind.contiguous else "A")
    if isinstance(kind, native.Items):
        return types.BaseTuple.from_types(tuple(map(_type, kind.kinds)), kind.of)
    return getattr(types, kind.rpartition(".")[2])


_I8, _I32, _I64 = map(ir.IntType, (8, 32, 64))
_OBJECT = _I8.as_pointer()
_TYPE, _ITEMS, _VALUE = object.__basicsize__ - 8, tuple.__basicsize__, object.__basicsize__
_DATA, _NDIM, _SHAPE, _STRIDES, _DTYPE, _FLAGS = (object.__basicsize__ + 8 * place for place in (0, 1, 2, 3, 5, 6))
_C_CONTIGUOUS, _ALIGNED = 0x1, 0x100


class _Wrapper:
    """Emits the function that Python calls (`native`)."""

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
            error = self._object(self.function.args[0], _ITEMS + 8 * self.compared)
            text = self.context.insert_const_string(self.module, "a compiled kernel failed")
            self._call("PyErr_SetString", ir.VoidType(), error, text)
            builder.branch(self.failure)
            builder.position_at_end(self.function.append_basic_block("unreachable"))
            builder.branch(self.failure)
        builder.ret(self._boxed(self.callee.restype, result))
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

    def _compare(self, found: ir.Value) -> None:
        """Go on where an object is the next one of those expected."""
        wanted = self._object(self.function.args[0], _ITEMS + 8 * self.compared)
        self.compared += 1
        self._unless(self.builder.icmp_unsigned("==", found, wanted))

    def _value(self, kind: Any, item: ir.Value) -> ir.Value:
        """The value of an argument, as compiled code has it."""
        self._compare(self._object(item, _TYPE))
        if isinstance(kind, native.Array):
            return self._array(kind, item)
        if isinstance(kind, native.Items):
            self._unless(self.builder.icmp_signed("==", self._field(item, _VALUE, _I64), _I64(len(kind.kinds))))
            values = [self._value(inner, self._object(item, _ITEMS + 8 * i)) for i, inner in enumerate(kind.kinds)]
            return self.context.make_tuple(self.builder, _type(kind), values)
        if kind == "int64":
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
        model = self.context.data_model_manager[_type(kind)]
        return model.load_from_data_pointer(
            self.builder, self.builder.bitcast(data, model.get_data_type().as_pointer())
        )

    def _array(self, kind: native.Array, item: ir.Value) -> ir.Value:
        builder, array = self.builder, _type(kind)
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
        populate_array(made, data, shape, strides, itemsize, None)
        return made._getvalue()

    def _boxed(self, kind: Any, value: ir.Value) -> ir.Value:
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
                item = self._boxed(inner, self.builder.extract_value(value, place))
                at = self.builder.gep(made, [_I64(_ITEMS + 8 * place)])
                self.builder.store(item, self.builder.bitcast(at, _OBJECT.as_pointer()))
            return made
        raise TypeError(f"a function that Python calls returns numbers, tuples of numbers or None, not {kind}")
