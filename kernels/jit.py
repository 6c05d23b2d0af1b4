"""Numba, set up in one place: where compiled code is kept, which CPU it is compiled for, the options of every kernel.

Modules that hold compiled kernels take Numba's names from here (`from .jit import njit, types`), never from
`numba` itself, because two settings must be made before Numba loads or while it decorates. Importing this module
imports Numba (0.4 s), so those modules are imported inside the functions that first need them.

* Compiled code is kept in a folder of this project's own, named by a hash of the sources: Numba's own check looks at
  the file of a function but not at the files of the functions that it inlines. A user's Numba cache is left alone.
* When MINITORCH_CPU_CAPABILITY is below what the CPU has, Numba compiles for that lower CPU. This works when Numba is
  not loaded yet. Otherwise the implementations of higher capability still refuse (`cpu.refusal`), but the loops that
  LLVM vectorises by itself are compiled for the whole CPU.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import itertools
import os
import pickle
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from . import cpu
from .locks import lock, open_in_children

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
from numba.core import cgutils, event  # noqa: E402
from numba.core.codegen import JITCodeLibrary  # noqa: E402
from numba.core.compiler import Compiler  # noqa: E402
from numba.extending import intrinsic  # noqa: E402

__all__ = [
    "CACHE_VARIABLE",
    "cache_folder",
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

CACHE_VARIABLE = "MINITORCH_CACHE_DIR"
"""Environment variable that names the folder for compiled kernels; the default is one in the user's cache folder."""

FOLDERS_KEPT = 4
"""Folders of other versions that are kept; of the rest, those that nobody used for an hour are removed."""

_UNUSED_SECONDS = 3600.0
_KERNELS = Path(__file__).parent
_decorating = lock()
open_in_children(numba.core.compiler_lock.global_compiler_lock._lock, llvmlite.binding.ffi.lib._lock._lock)


def _cache_root() -> Path:
    """Where the folders of all versions lie: the user's choice, or the cache folder of the XDG specification."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    if not os.path.isabs(base):  # a user id without a home folder, as containers have
        raise OSError(f"no cache folder for this user; set {CACHE_VARIABLE}")
    return Path(base) / "minitorch_backends"


def _version() -> str:
    """A name that changes with the text of any kernel, the place where it stands, Numba, and the instructions that
    kernels may use: what is compiled depends on them beside the CPU that Numba compiles for."""
    emulated = [level for level in cpu.LEVELS if cpu.emulated(level)]
    digest = hashlib.sha256(f"{_KERNELS} {numba.__version__} {cpu.capability()} {emulated}".encode())
    for path in sorted(_KERNELS.rglob("*.py")):
        digest.update(str(path.relative_to(_KERNELS)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:20]


def _prune(root: Path, own: Path) -> None:
    """Remove what other versions left behind, so that the cache does not grow as the sources change."""
    others = [path for path in root.iterdir() if path != own and len(path.name) == len(own.name) and path.is_dir()]
    newest_first = sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)
    for path in newest_first[FOLDERS_KEPT:]:
        if time.time() - path.stat().st_mtime > _UNUSED_SECONDS:
            shutil.rmtree(path, ignore_errors=True)


def _temporary_folder() -> Path:
    """A folder that lives as long as this process (a forked child that ends does not take it away)."""
    folder, owner = Path(tempfile.mkdtemp(prefix="minitorch_backends-")), os.getpid()

    @atexit.register
    def remove() -> None:
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)

    return folder


@functools.cache
def cache_folder() -> Path:
    """The folder in which this process keeps compiled kernels; a temporary one where the chosen one is not writable."""
    try:
        root = _cache_root()
        own = root / _version()
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.utime(own)
        tempfile.TemporaryFile(dir=own).close()
    except OSError:
        return _temporary_folder()
    with contextlib.suppress(OSError):  # another process may be pruning the same folders
        _prune(root, own)
    return own


_DIGEST_BYTES = hashlib.sha256().digest_size
_files = itertools.count(1)
_token = os.urandom(6).hex()


def _keep_apart(dispatcher: Any) -> None:
    """Have processes that compile a function at the same time save one after the other, each to files of its own.

    Numba reads the index of a function, extends it and writes it. What another process writes meanwhile would be lost,
    and compiled again; and with it the number of a file, which Numba takes from the index and might give to the code of
    other types. It also reads the whole index for each signature: it is kept here while the file is the same.
    What is damaged is compiled again, and what cannot be kept is used all the same.
    """
    kept = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if kept is None or not hasattr(kept, "_data_name_pattern"):
        return
    pattern, load, save = kept._data_name_pattern, kept._load_index, kept.save
    seen: tuple[Any, dict] = None, {}

    def load_index() -> dict:
        nonlocal seen
        try:
            file = os.stat(kept._index_path)
        except OSError:
            return load()
        state = file.st_ino, file.st_mtime_ns, file.st_size
        if seen[0] != state:
            try:
                seen = state, load()
            except Exception:  # whatever a damaged pickle makes
                return {}
        return dict(seen[1])

    def save_alone(key: Any, data: Any) -> None:
        try:
            with _saving():
                save(key, data)
        except OSError as error:
            warnings.warn(
                f"compiled code cannot be kept in {kept._cache_path} and will be compiled again by the next process: "
                f"{error}; set {CACHE_VARIABLE} to another folder",
                RuntimeWarning, stacklevel=2,
            )  # fmt: skip

    def load_data(name: str) -> Any:
        content = Path(kept._data_path(name)).read_bytes()
        digest, data = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if hashlib.sha256(data).digest() != digest:
            raise OSError(f"{name} is damaged")  # which Numba takes for a file that is not there
        return pickle.loads(data)

    def save_data(name: str, data: Any) -> None:
        content = kept._dump(data)
        with kept._open_for_write(kept._data_path(name)) as file:
            file.write(hashlib.sha256(content).digest() + content)

    kept._data_name = lambda _: pattern.format(number=next(_files)).replace(".nbc", f".{os.getpid()}-{_token}.nbc")
    kept._load_index, kept.save = load_index, save_alone
    kept._load_data, kept._save_data = load_data, save_data


@contextlib.contextmanager
def _saving() -> Iterator[None]:
    """While no other process is here; without a lock where the system has none for files."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            file = stack.enter_context((cache_folder() / "lock").open("a"))
            fcntl.flock(file, fcntl.LOCK_EX)
            stack.callback(fcntl.flock, file, fcntl.LOCK_UN)  # a child that was forked meanwhile has the file open
        yield


def njit(function: Callable | None = None, /, **options: Any) -> Any:
    """`numba.njit` with this project's defaults: kept between processes, without the interpreter lock, division as in
    NumPy (no check for zero, so that loops vectorise), and IEEE arithmetic (no `fastmath`).

    Used as `@njit` or `@njit(parallel=True, ...)`; options override the defaults.
    """
    if function is None:
        return functools.partial(njit, **options)
    with _own_cache():
        dispatcher = numba.njit(**{"cache": True, "nogil": True, "error_model": "numpy", **options})(function)
        _keep_apart(dispatcher)
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
        with _own_cache():
            compiled = numba.core.ccallback.CFunc(function, numba.core.sigutils.normalize_signature(signature), {}, {})
            compiled.enable_caching()
            _keep_apart(compiled)
        compiled.compile()
        return compiled

    return decorate


@contextlib.contextmanager
def _own_cache() -> Iterator[None]:
    """Have Numba keep what is decorated in the block in this project's folder."""
    settings: Any = numba.config
    with _decorating:
        users_folder, settings.CACHE_DIR = settings.CACHE_DIR, str(cache_folder())
        try:
            yield
        finally:
            settings.CACHE_DIR = users_folder
