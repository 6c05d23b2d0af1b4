"""The set-up of Numba, in one place: the target CPU, the settings of every kernel, object files of entry points.

Only modules that compile import this one, and with it Numba (0.3 s with its registries).

* Kernels are compiled for the current capability with Numba's default settings. A user's Numba settings, such as
  NUMBA_CPU_NAME or NUMBA_DISABLE_JIT, apply to the user's own functions only.
* A function that Python calls becomes one module with all its callees, which LLVM optimises once (`compile_entry`).
* Signals that arrive while Numba is imported or compiles are handled right afterwards (`first_use`).
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from . import native, notice, store, targets
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
        from llvmlite import binding
        from numba import types
        from numba.core import cgutils, codegen, registry

    from .entry_point import EntryPoint, type_of_kind
    from .translation import Compiler, Context, Library, quickly

    numba.config.reload_config()

if TYPE_CHECKING:
    from .jit import Entry

__all__ = ["cgutils", "compile_entry", "dispatcher", "external", "intrinsic", "numba", "type_of", "types"]

before_compiling: list[Callable[[], None]] = []
"""`jit.before_compiling`, which `jit` puts here."""

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


def _modules(library: Library, done: set[int]) -> Iterator[Any]:
    """The modules of a library and of all that it links, each once."""
    if id(library) in done:
        return
    done.add(id(library))
    yield from map(binding.parse_assembly, library.texts)
    for each in library.linked:
        yield from _modules(each, done)


def _machine() -> Any:
    return native.target_machine(*targets.target())


def _optimise(library: Library) -> Any:
    """The module of a library with all that it links, optimised.

    Level 3 inlines more, and takes longer. To optimise functions before they are linked, as Numba does, takes half of
    LLVM's time again.
    """
    found, machine = binding.parse_assembly(""), _machine()
    found.triple, found.data_layout = binding.get_process_triple(), str(machine.target_data)
    for each in _modules(library, set()):
        found.link_in(each)
    found.verify()
    options = binding.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization, options.slp_vectorization = True, False
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(found, builder)
    return found


class _Codegen(codegen.JITCPUCodegen):
    """Numba's, which makes libraries of ours."""

    def create_library(self, name: str) -> Library:
        return Library(self, name)


class _Target(registry.CPUTarget):
    """Numba's target with that code generator, and the same types and functions."""

    typing_context = property(lambda self: registry.cpu_target.typing_context)

    @cached_property
    def target_context(self) -> Any:
        with _own_settings():
            context = registry.cpu_target.target_context.subtarget(_internal_codegen=_Codegen("minitorch_backends"))
        context.__class__, context.cached_internal_func = Context, {}
        load = registry.cpu_target.target_context.load_additional_registries  # of both, and Numba's runtime
        context.load_additional_registries = lambda: None  # each call of an intrinsic would search them all
        context.load_registries = load
        return context


_SETTINGS = {
    "ALWAYS_WARN_UNINIT_VAR": 0, "BOUNDSCHECK": None, "DEBUGINFO_DEFAULT": 0, "DEBUG_NRT": 0, "DISABLE_JIT": 0,
    "EXTEND_VARIABLE_LIFETIMES": 0, "JIT_COVERAGE": 0,
}  # fmt: skip
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
    return _Dispatcher(function, targetoptions=settings, pipeline_class=Compiler)


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
    while before_compiling:
        before_compiling.pop(0)()
    context = _Dispatcher.targetdescr.target_context
    _import_without_blas()
    context.load_registries()
    context.refresh()


def _needs_of_this_process(module: Any) -> list[str]:
    """Functions of Numba's runtime that a module calls, and objects that it names by their addresses."""
    called = [each.name for each in module.functions if each.is_declaration]
    needed = [name for name in called if name.startswith(("numba_", "NRT_", "numba."))]
    return needed + [each.name for each in module.global_variables if each.name.startswith("numba.dynamic.globals")]


def entry_module(entry: Entry, kinds: tuple) -> Any:
    """LLVM's module of a function for arguments of these kinds (`native`), with all that it calls, optimised."""
    with (
        first_use(),
        _own_settings(),
        notice.compiling(entry.py_func.__module__),
        quickly(dispatcher),
        _count_time("lowering_seconds"),
    ):
        _prepare()
        function, arguments = entry.value, tuple(map(type_of_kind, kinds))
        function.compile(arguments)
        compiled, context = function.overloads[arguments], function.targetctx
        library = Library(context.codegen(), native.ENTRY)
        module = library.create_ir_module(native.ENTRY)
        EntryPoint(context, module, compiled.fndesc, entry.options["nogil"]).emit(kinds)
        library.add_ir_module(module)
        library.add_linking_library(compiled.library)
        with _count_time("llvm_seconds"):
            optimised = _optimise(library)
    if needed := _needs_of_this_process(optimised):
        raise TypeError(f"{entry.py_func.__qualname__} needs {', '.join(needed)}, which no other process has")
    return optimised


def compile_entry(entry: Entry, kinds: tuple) -> bytes:
    """The object file of that module."""
    module = entry_module(entry, kinds)
    with _count_time("llvm_seconds"):
        content = _machine().emit_object(module)
    store.activity.compiled += 1
    return content
