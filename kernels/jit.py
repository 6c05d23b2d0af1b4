"""Numba, set up in one place: where compiled code is kept, which CPU it is compiled for, the options of every kernel.

Modules that hold compiled kernels take Numba's names from here (`from .jit import njit, types`), never from
`numba` itself, because two settings must be made before Numba loads or while it decorates. Importing this module
imports Numba (0.4 s), so those modules are imported inside the functions that first need them.

* Compiled code is kept in files of this project's own (`store`): Numba's check looks at the file of a function but not
  at the files of the functions that it inlines. A user's Numba cache is left alone.
* When MINITORCH_CPU_CAPABILITY is below what the CPU has, Numba compiles for that lower CPU. This works when Numba is
  not loaded yet. Otherwise the implementations of higher capability still refuse (`cpu.refusal`), but the loops that
  LLVM vectorises by itself are compiled for the whole CPU.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import cpu, store
from .locks import open_in_children

# LLVM's names of the levels: "x86-64-v3" is AVX2 and FMA, "x86-64-v4" is AVX-512 F, BW, CD, DQ and VL,
# and the first CPU with AVX512_BF16 adds that and AVX512_VNNI.
_TARGETS = {"portable": "x86-64", "avx2": "x86-64-v3", "avx512": "x86-64-v4", "avx512_bf16": "cooperlake"}


def _cap_target() -> None:
    """Have Numba compile for the capability in force where that is less than the CPU's; a user's own choice stands.

    Numba reads these variables again with every compilation, so they stay, and child processes inherit them: one that
    has another capability replaces what its parent set here.
    """
    name, features = os.environ.get("NUMBA_CPU_NAME"), os.environ.get("NUMBA_CPU_FEATURES")
    inherited = name in _TARGETS.values() and features == ""
    if not inherited and (name, features) != (None, None):
        return
    target = min(cpu.capability(), cpu.hardware(), key=cpu.LEVELS.index)
    if target != cpu.hardware():
        os.environ.update(NUMBA_CPU_NAME=_TARGETS[target], NUMBA_CPU_FEATURES="")
    elif inherited:
        del os.environ["NUMBA_CPU_NAME"], os.environ["NUMBA_CPU_FEATURES"]


if "numba" not in sys.modules:
    _cap_target()

import llvmlite.binding.ffi  # noqa: E402  (after the target is set)
import numba.core.ccallback  # noqa: E402
from llvmlite import ir  # noqa: E402
from numba import carray, types  # noqa: E402
from numba.core import caching, cgutils, event  # noqa: E402
from numba.core.codegen import JITCodeLibrary  # noqa: E402
from numba.core.compiler import Compiler, CompileResult  # noqa: E402
from numba.extending import intrinsic  # noqa: E402

__all__ = [
    "carray",
    "cfunc",
    "cgutils",
    "event",
    "intrinsic",
    "ir",
    "njit",
    "numba",
    "subroutine",
    "types",
]

open_in_children(numba.core.compiler_lock.global_compiler_lock._lock, llvmlite.binding.ffi.lib._lock._lock)


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
    keep = options.pop("cache", True)
    dispatcher = numba.njit(**{"nogil": True, "error_model": "numpy", **options})(function)
    if keep:
        dispatcher._cache = _CodeFiles(function, dispatcher.targetoptions)
    return dispatcher


class _Unfinished(JITCodeLibrary):
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


class _Translator(Compiler):
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


def cfunc(signature: Any) -> Callable[[Callable], Any]:
    """`numba.cfunc` with the same cache: a function of the C convention, whose code is at `.address`. It is compiled
    when it is decorated."""

    def decorate(function: Callable) -> Any:
        compiled = numba.core.ccallback.CFunc(function, numba.core.sigutils.normalize_signature(signature), {}, {})
        compiled._cache = _CodeFiles(function, {})
        compiled.compile()
        return compiled

    return decorate
