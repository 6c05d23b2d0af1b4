"""The set-up of Numba, in one place: the target CPU, the settings of every kernel, object files of entry points.

Only modules that compile import this one, and with it Numba (0.4 s with its registries).

* Kernels are compiled for the current capability with Numba's default settings. A user's Numba settings, such as
  NUMBA_CPU_NAME or NUMBA_DISABLE_JIT, apply to the user's own functions only.
* A function that Python calls becomes one module with all its callees, which LLVM optimises once (`compile_entry`).
* Signals that arrive while Numba is imported or compiles are handled right afterwards (`first_use`).
"""

from __future__ import annotations

import contextlib
import gc
import inspect
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
    """Import Numba in the block, ignoring NUMBA_DISABLE_JIT, which would also disable functions of Numba that kernels
    call, and thread counts that Numba rejects."""
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
        from numba import types
        from numba.core import cgutils, codegen, registry, untyped_passes
        from numba.core.compiler import Compiler
        from numba.core.compiler_machinery import register_pass
        from numba.core.typed_passes import NopythonRewrites
    from .entry_point import EntryPoint, type_of_kind

    numba.config.reload_config()

__all__ = ["cgutils", "compile_entry", "dispatcher", "external", "intrinsic", "numba", "type_of", "types"]

_compiling = numba.core.compiler_lock.global_compiler_lock._lock
await_before_fork(_compiling)


@contextlib.contextmanager
def _count_time(phase: str) -> Iterator[None]:
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
        with _count_time("llvm_seconds"):
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
        with _count_time("llvm_seconds"):
            codegen.JITCodeLibrary._optimize_final_module(self)

    def _finalize_final_module(self) -> None:
        super()._finalize_final_module()
        with _count_time("llvm_seconds"):
            self.content = self._codegen._tm.emit_object(self._final_module)

    def needs_of_numba(self) -> set[str]:
        """The functions of Numba's runtime that it calls."""
        names = {each.name for each in self._final_module.functions if each.is_declaration}
        return {name for name in names if name.startswith(("numba_", "NRT_", "numba."))}


class _Codegen(codegen.JITCPUCodegen):
    """Machine code for the current capability, whatever target Numba uses for a user's functions."""

    def _get_host_cpu_name(self) -> str:
        return targets.target().cpu

    def _get_host_cpu_features(self) -> str:
        return targets.target().features


class _Target(registry.CPUTarget):
    """Numba's target with that code generator, and the same types and functions."""

    typing_context = property(lambda self: registry.cpu_target.typing_context)

    @cached_property
    def target_context(self) -> Any:
        with _own_settings():
            context = registry.cpu_target.target_context.subtarget(_internal_codegen=_Codegen("minitorch_backends"))
        load = context.load_additional_registries
        context.load_additional_registries = lambda: None  # each call of an intrinsic would search them all
        context.load_registries = load
        return context


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


@register_pass(mutates_CFG=True, analysis_only=False)
class _ArrayRewrites(NopythonRewrites):
    """Numba's rewrites of typed functions, which are about expressions of arrays."""

    _name = "minitorch_backends_array_rewrites"

    def run_pass(self, state: Any) -> bool:
        arrays = any(isinstance(each, types.Array) for each in state.typemap.values())
        return bool(arrays and super().run_pass(state))


class _Compiler(Compiler):
    """Numba's compiler, into a `_Library`, without the passes that do not affect kernels: contexts, nested functions
    and array expressions would each take another analysis of every function."""

    def define_pipelines(self) -> list[Any]:
        (pipeline,) = super().define_pipelines()
        unused: set[Any] = {untyped_passes.WithLifting}
        if not any(map(inspect.iscode, self.state.func_id.code.co_consts)):
            unused |= {untyped_passes.InlineClosureLikes, untyped_passes.MakeFunctionToJitFunction}
        passes = [(each, text) for each, text in pipeline.passes if each not in unused]
        pipeline.passes = [(_ArrayRewrites if each is NopythonRewrites else each, text) for each, text in passes]
        pipeline.finalize()
        return [pipeline]

    def _compile_core(self) -> Any:
        self.state.library = _Library(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        return super()._compile_core()


class _Dispatcher(registry.CPUDispatcher):
    """A function that is compiled for each combination of types that compiled code calls it with."""

    targetdescr = _Target("cpu")

    def compile(self, signature: Any) -> Any:
        if isinstance(signature, tuple) and signature in self.overloads:  # at each call in compiled code
            return None
        with first_use(), _own_settings(), _count_time("lowering_seconds"):
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


_resolved: dict[tuple, Any] = {}
"""What operators and builtin functions of numbers are typed as."""


def _age_objects() -> None:
    """Move objects to the oldest generation of the cycle collector, which would otherwise visit all that the compiler
    made as soon as it is on again, 20 ms for each function."""
    if not gc.get_freeze_count():  # those of a user stay frozen
        gc.freeze()
        gc.unfreeze()


@contextlib.contextmanager
def _quickly() -> Iterator[None]:
    """Compile in the block without what took a third of the time of typing and lowering.

    `_resolved` is looked up, where Numba tries the forms for arrays, with literals and without, at each use in each
    function; and the cycle collector is off, since Numba makes few cycles among many objects.
    """
    context = registry.cpu_target.typing_context
    resolve, modules = context.resolve_function_type, ("_operator", "builtins")

    def resolve_once(function: Any, arguments: tuple, keywords: dict[str, Any]) -> Any:
        numbers = all(isinstance(each, types.Number | types.Boolean) for each in arguments)
        if keywords or not numbers or not isinstance(function, types.Function):
            return resolve(function, arguments, keywords)
        if getattr(function.typing_key, "__module__", None) not in modules:
            return resolve(function, arguments, keywords)
        key = function, *arguments
        if key not in _resolved:
            _resolved[key] = resolve(function, arguments, keywords)
        return _resolved[key]

    context.resolve_function_type = resolve_once
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        del context.resolve_function_type
        if enabled:
            _age_objects()
            gc.enable()


def _import_without_blas() -> None:
    """Import what looks for SciPy's BLAS, which takes 0.1 s, as it finds it."""
    from numba.np import linalg

    find, linalg.ensure_blas = linalg.ensure_blas, lambda: None
    try:
        from numba.np import arraymath
    finally:
        linalg.ensure_blas = find
    arraymath.ensure_blas = find


def _prepare() -> None:
    """Define what modules of kernels have to define before anything is compiled."""
    while jit.before_compiling:
        jit.before_compiling.pop(0)()
    context = _Dispatcher.targetdescr.target_context
    _import_without_blas()
    context.load_registries()
    context.refresh()


def compile_entry(entry: jit.Entry, kinds: tuple) -> _Entry:
    """The library of a function for arguments of these kinds (`native`): `content` is its object file."""
    with (
        first_use(),
        _own_settings(),
        notice.compiling(entry.py_func.__module__),
        _quickly(),
        _count_time("lowering_seconds"),
    ):
        _prepare()
        function, arguments = entry.value, tuple(map(type_of_kind, kinds))
        function.compile(arguments)
        compiled, context = function.overloads[arguments], function.targetctx
        library = _Entry(context.codegen(), native.ENTRY)
        module = library.create_ir_module(native.ENTRY)
        EntryPoint(context, module, compiled.fndesc, entry.options["nogil"]).emit(kinds)
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
