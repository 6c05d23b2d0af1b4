"""The compiler's interface for modules of compiled kernels, without importing Numba: `from .jit import njit, types`.

A function under `njit` is an `Entry` that Python calls: its machine code is loaded from the store, and Numba is
imported only if it must be compiled (`compiler`). Numba's own names, such as `types`, are placeholders until compiled
code, or a function that emits code, uses them.

Importing this module imports `llvmlite.ir` (30 ms), so modules of kernels are imported inside the functions that first
need them.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import native, store
from .first_use import first_use, importing
from .locks import reentrant_lock

with importing("llvmlite"):
    from llvmlite import ir

__all__ = [
    "Entry", "carray", "cgutils", "external", "intrinsic", "ir", "njit", "numba", "subroutine", "types",
    "when_compiling",
]  # fmt: skip

before_compiling: list[Callable[[], None]] = []
"""What the compiler calls before it compiles, once."""


def when_compiling(function: Callable[[], None]) -> Callable[[], None]:
    """Have a function called before anything is compiled: it defines types or operators of Numba's."""
    before_compiling.append(function)
    return function


@functools.cache
def _compiler() -> Any:
    with first_use():
        from . import compiler

        compiler.before_compiling = before_compiling
        return compiler


class _Deferred:
    """A value of Numba's that is made when compiled code first uses it."""

    def __init__(self, define: Callable[[Any], Any]) -> None:
        self._define = define

    @functools.cached_property
    def value(self) -> Any:
        return self._define(_compiler())

    @property
    def _numba_type_(self) -> Any:
        """The type by which compiled code takes this object for the value."""
        return _compiler().type_of(self.value)


class _Names:
    """A module of Numba's."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(_compiler(), self._name), name)


carray: Any = _Deferred(lambda compiler: compiler.numba.carray)
numba: Any = _Names("numba")
types: Any = _Names("types")
cgutils: Any = _Names("cgutils")


def intrinsic(function: Callable | None = None, /, **options: Any) -> Any:
    """`numba.extending.intrinsic`."""
    if function is None:
        return functools.partial(intrinsic, **options)
    return functools.update_wrapper(_Deferred(lambda compiler: compiler.intrinsic(function, options)), function)


def external(name: str, result: str, *arguments: str) -> Any:
    """A C function of the process, by the names of its types."""
    return _Deferred(lambda compiler: compiler.external(name, result, arguments))


class _Subroutine(_Deferred):
    """A function that only compiled code calls."""

    def __init__(self, function: Callable, options: dict[str, Any]) -> None:
        self.py_func, self.options = function, {**_DEFAULTS, **options}
        super().__init__(lambda compiler: compiler.dispatcher(function, self.options))
        functools.update_wrapper(self, function)


_DEFAULTS = {"nopython": True, "nogil": True, "error_model": "numpy", "boundscheck": None}
"""Without the interpreter lock, division as in NumPy (no check for zero, so that loops vectorise), and IEEE arithmetic
(no `fastmath`)."""


class Entry(_Subroutine):
    """A function that Python calls, compiled for each combination of types that it is called with.

    The machine code checks the types of its arguments itself (`native`), so that a call tries the codes at hand.
    """

    def __init__(self, function: Callable, options: dict[str, Any], kept: bool) -> None:
        super().__init__(function, options)
        self._kept = kept and not function.__closure__
        self.signatures: dict[tuple, Callable[..., Any]] = {}
        self._codes: tuple[Callable[..., Any], ...] = ()
        self._lock = reentrant_lock()

    def __call__(self, *arguments: Any) -> Any:
        for code in self._codes:
            result = code(*arguments)
            if result is not NotImplemented:
                return result
        arguments = tuple(map(native.plain, arguments))
        return self.code(tuple(map(native.kind_of, arguments)))(*arguments)

    def code(self, kinds: tuple) -> Callable[..., Any]:
        """The machine code for arguments of these kinds, loaded or compiled."""
        if kinds not in self.signatures:
            with first_use(), self._lock:
                if kinds not in self.signatures:
                    self._make(kinds)
        return self.signatures[kinds]

    def _make(self, kinds: tuple) -> None:
        if not self._kept:
            self._add(kinds, self._compile(kinds))
        elif not self._load(kinds, store.read_installed(self._file, self._name(kinds))):
            path = self.folder / self._name(kinds)
            if not self._load(kinds, store.read(path)):
                with store.one_process(path):
                    if not self._load(kinds, store.read(path)):
                        content = self._compile(kinds)
                        self._add(kinds, content)  # first: a warning of the store may be an error
                        store.write(path, content)

    def compile_ahead(self, kinds: tuple) -> None:
        """Have the machine code in the store, without loading it: the CPU may be another one."""
        path = self.folder / self._name(kinds)
        if store.read(path) is None:
            store.write(path, self._compile(kinds))

    def is_installed(self, *arguments: Any) -> bool:
        """Whether the machine code for arguments like these was installed with the package."""
        return store.read_installed(self._file, self._name(tuple(map(native.kind_of, arguments)))) is not None

    def _compile(self, kinds: tuple) -> bytes:
        store.refuse_to_compile(f"{self.py_func.__qualname__}({native.text(kinds)}) of {self._file.name}")
        return _compiler().compile_entry(self, kinds)

    def _load(self, kinds: tuple, content: bytes | None) -> bool:
        if content is None:
            return False
        store.activity.loaded += 1
        self._add(kinds, content)
        return True

    def _add(self, kinds: tuple, content: bytes) -> None:
        self.signatures[kinds] = native.function(content, kinds)
        self._codes = (self.signatures[kinds], *self._codes)

    @functools.cached_property
    def _file(self) -> Path:
        return Path(inspect.getfile(self.py_func)).resolve()

    @functools.cached_property
    def folder(self) -> Path:
        return store.module_folder(self._file)

    def _name(self, kinds: tuple) -> str:
        """The name of the file of the machine code: a hash of all that it depends on beside its module."""
        code, tags = self.py_func.__code__, sorted(map(store.module_digest, native.modules_of(kinds)))
        known = code.co_firstlineno, self.py_func.__qualname__, native.text(kinds), sorted(self.options.items()), tags
        return f"{code.co_name}-{hashlib.sha256(repr(known).encode()).hexdigest()[:32]}.o"


def njit(function: Callable | None = None, /, *, cache: bool = True, **options: Any) -> Any:
    """Compile a function that Python calls; `options` are those of `numba.njit`. A closure is not kept in the store.

    Arguments are ints, floats, bools, None, NumPy's scalars, arrays, and tuples of these; results are numbers, tuples
    of numbers, or None.
    """
    if function is None:
        return functools.partial(njit, cache=cache, **options)
    return Entry(function, options, cache)


def subroutine(function: Callable | None = None, /, **options: Any) -> Any:
    """`njit` for a function that only compiled code calls: it is optimised and made machine code with its callers.

    Numba by itself does both for every function together with all that it calls, again at every level of calls: a
    factorisation, eight levels deep, took twice as long to compile.
    """
    return functools.partial(subroutine, **options) if function is None else _Subroutine(function, options)
