"""Numba, set up in one place: where compiled code is kept, which CPU it is compiled for, the options of every kernel.

Modules that hold compiled kernels take Numba's names from here (`from .jit import njit, types`), never from `numba`
itself. Importing this module imports Numba (0.4 s), so those modules are imported inside the functions that first need
them.

* Compiled code is kept in files of this project's own (`store`): Numba's check looks at the file of a function but not
  at the files of the functions that it inlines. A user's Numba cache is left alone.
* Kernels are compiled for the capability in force, and with Numba's default settings. What a user asks of Numba, as
  NUMBA_CPU_NAME or NUMBA_DISABLE_JIT, holds for the user's own functions.
* Signals that arrive while Numba is imported or compiles are handled right afterwards (`first_use`).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import os
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from . import cpu, notice, store
from .first_use import await_before_fork, first_use, importing
from .locks import cached_property, open_in_children


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
        import llvmlite.binding.ffi
        import numba
        from llvmlite import binding, ir
        from numba import carray, types
        from numba.core import caching, cgutils, codegen, registry
        from numba.core.compiler import Compiler, CompileResult
        from numba.extending import intrinsic
    numba.config.reload_config()

__all__ = [
    "carray",
    "cgutils",
    "intrinsic",
    "ir",
    "njit",
    "numba",
    "subroutine",
    "types",
]

_compiling = numba.core.compiler_lock.global_compiler_lock._lock
await_before_fork(_compiling)
open_in_children(llvmlite.binding.ffi.lib._lock._lock)

_TARGETS = {"portable": "x86-64", "avx2": "x86-64-v3", "avx512": "x86-64-v4", "avx512_bf16": "cooperlake"}
"""LLVM's names of the levels: "x86-64-v3" is AVX2 and FMA, "x86-64-v4" is AVX-512 F, BW, CD, DQ and VL, and the first
CPU with AVX512_BF16 adds that and AVX512_VNNI."""


class _Codegen(codegen.JITCPUCodegen):
    """Machine code for the capability in force, whatever Numba compiles a user's functions for."""

    def _get_host_cpu_name(self) -> str:
        target = min(cpu.capability(), cpu.hardware(), key=cpu.LEVELS.index)
        return binding.get_host_cpu_name() if target == cpu.hardware() else _TARGETS[target]

    def _get_host_cpu_features(self) -> str:
        if self._get_host_cpu_name() != binding.get_host_cpu_name():
            return ""
        features = binding.get_host_cpu_features()
        for name in features:
            features[name] &= cpu.capability() != "portable" or not name.startswith("avx")
        return features.flatten()


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


class _Dispatcher(registry.CPUDispatcher):
    """A function that is compiled for each combination of types that it is called with."""

    targetdescr = _Target("cpu")

    def compile(self, signature: Any) -> Any:
        with first_use(), _own_settings():
            return super().compile(signature)


with first_use():
    _Dispatcher.targetdescr.target_context.refresh()


class _CodeFiles(caching._Cache):
    """Numba's cache of one function, in files of the store."""

    def __init__(self, function: Callable, options: dict[str, Any]) -> None:
        self._function = function
        self._options = sorted(options.items())
        self._compiler = f"numba {numba.__version__}"
        self._folder = store.module_folder(Path(inspect.getfile(function)).resolve(), self._compiler)
        self._enabled = True

    @property
    def cache_path(self) -> str:
        return str(self._folder)

    def enable(self) -> None:
        self._enabled = True

    def disable(self) -> None:
        self._enabled = False

    def flush(self) -> None:
        for path in self._folder.glob(f"{self._function.__qualname__.rpartition('.')[2]}-*.nbc"):
            path.unlink(missing_ok=True)

    def path(self, signature: Any, codegen: Any) -> Path | None:
        """The file of a compiled signature; None where the types of its arguments have no name that other processes
        would give them, as those of functions have not."""
        types = str(signature)
        if " at 0x" in types:
            return None
        code = self._function.__code__
        closure = tuple(cell.cell_contents for cell in self._function.__closure__ or ())
        tags = sorted(store.module_digest(path, self._compiler) for path in _modules_of(signature))
        known = code.co_firstlineno, self._function.__qualname__, types, codegen.magic_tuple(), self._options, tags
        digest = hashlib.sha256(repr(known).encode() + code.co_code + (caching.dumps(closure) if closure else b""))
        return self._folder / f"{code.co_name}-{digest.hexdigest()[:32]}.nbc"

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """The compiled signature, or None where it must be compiled."""
        target_context.refresh()
        path = self.path(signature, target_context.codegen()) if self._enabled else None
        if path is None:
            return None
        content = store.read(path)
        return content and CompileResult._rebuild(target_context, *pickle.loads(content))

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep a compiled signature, where other processes can use it."""
        path = self.path(signature, compiled.codegen) if self._enabled else None
        if path is not None and not compiled.lifted and not compiled.library.has_dynamic_globals:
            store.write(path, caching.dumps(compiled._reduce()))


def _modules_of(kind: Any) -> set[Path]:
    """The files that define the tags among types of arguments, or among their fields: tags emit code."""
    kind = getattr(kind, "args", kind)
    found = {Path(inspect.getfile(kind.instance_class)).resolve()} if hasattr(kind, "instance_class") else set[Path]()
    inner = kind if isinstance(kind, (tuple, types.BaseTuple)) else ()
    return found.union(*map(_modules_of, inner))


def njit(function: Callable | None = None, /, **options: Any) -> Any:
    """`numba.njit` with this project's defaults: kept between processes, without the interpreter lock, division as in
    NumPy (no check for zero, so that loops vectorise), and IEEE arithmetic (no `fastmath`).

    Used as `@njit` or `@njit(parallel=True, ...)`; options override the defaults.
    """
    if function is None:
        return functools.partial(njit, **options)
    keep, pipeline = options.pop("cache", True), options.pop("pipeline_class", _Compiler)
    settings = {"nopython": True, "nogil": True, "error_model": "numpy", "boundscheck": None, **options}
    dispatcher = _Dispatcher(function, targetoptions=settings, pipeline_class=pipeline)
    if keep:
        dispatcher._cache = _CodeFiles(function, dispatcher.targetoptions)
    return dispatcher


class _Compiler(Compiler):
    """Numba's compiler, which says so where it takes long."""

    def _compile_core(self) -> Any:
        with notice.compiling(self.state.func_id.modname):
            return super()._compile_core()


class _Unfinished(codegen.JITCodeLibrary):
    """LLVM's code of a function as Numba translates it, for others to link: not optimised, and no machine code."""

    codegen = property(lambda self: self)  # what links it is asked for machine code, and given the environment

    def set_env(self, name: str, environment: Any) -> None:
        pass

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True


class _Translator(_Compiler):
    """Numba's compiler, into an `_Unfinished` library."""

    def _compile_core(self) -> Any:
        self.state.library = _Unfinished(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        return super()._compile_core()


def subroutine(function: Callable | None = None, /, **options: Any) -> Any:
    """`njit` for a function that only compiled code calls: it is optimised and made machine code with its callers.

    Numba by itself does both for every function together with all that it calls, again at every level of calls: a
    factorisation, eight levels deep, took twice as long to compile.
    """
    settings = {"cache": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": _Translator}
    return njit(function, **settings, **options)
