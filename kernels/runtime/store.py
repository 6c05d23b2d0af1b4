"""Compiled code that outlives its process: one file for each compiled signature of a function.

A file is named by a hash of all that its code depends on: the function, the types of its arguments, the modules of this
package that the function and the tags among its arguments import from (directly or not), LLVM and the CPU that is
compiled for. So no index lists the files, nothing is ever rewritten, processes that save at the same time need no lock,
and an edit of one module leaves the code of others valid. Code does not depend on the versions of Python and Numba: it
reads objects in the same way in all of them (`entry_point`).

Code that was installed with the package (`prebuilt/`, an archive for each folder) is taken whatever LLVM made it.

The files hold machine code. They are read only from folders in which no other user than root can write (one of mode
770 only where its group has no other members), and each begins with a checksum over its name and its content: what is
damaged, or was put under another name, is compiled again.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import hashlib
import os
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from . import cpu
from .archive import Archive
from .context import warn_caller
from .files import danger, open_trusted, refuse_what_others_can_write, write_file

if sys.platform != "win32":
    import fcntl

CACHE_VARIABLE = "MINITORCH_CACHE_DIR"
"""Environment variable that names the folder for compiled kernels; the default is one in the user's cache folder."""

COMPILE_VARIABLE = "MINITORCH_COMPILE"
"""Environment variable: "never" forbids to compile, so that what is neither installed nor in the store is an error."""

FOLDERS_KEPT = 8
"""Folders of a module's other versions that are kept; the rest go when they were not used for an hour."""


@dataclasses.dataclass
class Activity:
    """What this process compiled and loaded: signatures, and the CPU seconds of the threads that compiled."""

    compiled: int = 0
    loaded: int = 0
    lowering_seconds: float = 0.0
    """Of typing, and of emitting LLVM's language."""
    llvm_seconds: float = 0.0
    """Of optimising that, and of emitting machine code."""


activity = Activity()

_UNUSED_SECONDS = 3600.0
_KERNELS = Path(__file__).resolve().parents[1]
_PREBUILT = _KERNELS / "prebuilt"
_IMPORT = re.compile(rb"^[ \t]*from (\.+)([\w.]*) import (?:\(([^)]*)\)|([^#\n]*))", re.MULTILINE)
_NOT_CODE = {
    _KERNELS / f"{name}.py"
    for name in (
        "__init__", "block/__init__", "block/tuning", "block/tuning_file", "runtime/__init__", "runtime/archive",
        "runtime/context", "runtime/cpu", "runtime/files", "runtime/first_use", "runtime/jit", "runtime/locks",
        "runtime/machine", "runtime/native", "runtime/notice", "runtime/store", "runtime/threading",
    )
}  # fmt: skip
"""Modules that compiled functions import but whose statements are not compiled: an edit of the file handling leaves the
files valid. Compilation options, and the instructions reported by `cpu`, are part of a file's name."""


def _cache_root() -> Path:
    """The folder of all modules' folders: the user's choice, or the one that the XDG specification names."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        try:
            return Path(chosen).expanduser().absolute()
        except RuntimeError:  # the home folder of an unknown user
            raise OSError(f"{CACHE_VARIABLE} must be a folder, got {chosen!r}") from None
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    if not os.path.isabs(base):  # a user id without a home folder, as containers have
        raise OSError("this user has no cache folder")
    return Path(base) / "minitorch_backends"


@functools.cache
def _temporary_folder() -> Path:
    """A folder that lives as long as this process (a forked child that ends does not take it away)."""
    folder, owner = Path(tempfile.mkdtemp(prefix="minitorch_backends-")), os.getpid()

    @atexit.register
    def remove() -> None:
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)

    return folder


_warnings_due: list[str] = []


def _temporary_folder_because(reason: object) -> Path:
    if not _temporary_folder.cache_info().currsize:
        _warnings_due.append(
            f"compiled code is kept in a temporary folder, for this process only: {reason}; "
            f"set {CACHE_VARIABLE} to a folder that only you can write to"
        )
    return _temporary_folder()


@functools.cache
def cache_folder() -> Path:
    """The folder of this process's compiled kernels: `MINITORCH_CACHE_DIR`, or one in the user's cache folder.

    Where that cannot be used it is a temporary one, and the first compilation warns.
    """
    try:
        root = _cache_root()
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        refuse_what_others_can_write(root)
        tempfile.TemporaryFile(dir=root).close()
        return Path(os.path.realpath(root))
    except OSError as error:
        return _temporary_folder_because(error)


@functools.cache
def _source(path: Path) -> bytes:
    return path.read_bytes()


@functools.cache
def _imported_modules(path: Path) -> frozenset[Path]:
    """The modules of this package that the module in the file `path` imports from."""
    found = set()
    for dots, module, *names in _IMPORT.findall(_source(path)):
        base = path.parents[len(dots) - 1].joinpath(*module.decode().split("."))
        parts = [part.split() for part in b"".join(names).split(b",")]
        found.add(base)
        found.update(base / part[0].decode() for part in parts if part)
    files = {file for place in found for file in (place.with_suffix(".py"), place / "__init__.py")}
    return frozenset(file for file in files if file.is_relative_to(_KERNELS) and file.is_file())


_COMPILER = [_KERNELS / f"runtime/{name}.py" for name in ("compiler", "entry_point", "translation")]
"""Modules that decide how all others are compiled: their edits leave no object file valid."""


@functools.cache
def _llvm() -> str:
    """The version of LLVM that compiles in this process."""
    from llvmlite import binding

    return ".".join(map(str, binding.llvm_version_info))


@functools.cache
def _compiled_by() -> str:
    """The compiler and the CPU that it compiles for: object files are the same for equal ones."""
    from .targets import target

    emulated = [level for level in cpu.LEVELS if cpu.is_emulated(level)]
    sources = hashlib.sha256(b"\n".join(map(_source, _COMPILER))).hexdigest()
    objects = sys.byteorder, object.__basicsize__, float.__basicsize__  # free-threaded builds have a longer head
    return repr((sources, objects, platform.system(), cpu.capability(), emulated, tuple(target())))


@functools.cache
def module_digest(path: Path) -> str:
    """A hash of a module, of all modules of this package that its code may come from, and of what compiles it."""
    files, waiting = set(), [path]
    while waiting:
        file = waiting.pop()
        if file not in files:
            files.add(file)
            waiting.extend(_imported_modules(file) - _NOT_CODE)
    digest = hashlib.sha256(_compiled_by().encode())
    for file in sorted(files):
        inside = file.is_relative_to(_KERNELS)
        digest.update(f"\n{file.relative_to(_KERNELS) if inside else file}\n".encode() + _source(file))
    return digest.hexdigest()[:20]


@functools.cache
def module_folder(path: Path) -> Path:
    """The folder for the code of the module in the file `path`, as it is now. Folders of other versions of the module
    are pruned when it is new."""
    folder = cache_folder() / f"{_folder_name(path)}-{_llvm()}"
    with contextlib.suppress(OSError):  # saving reports the error
        if not folder.is_dir():
            folder.mkdir(mode=0o700, exist_ok=True)
            _prune(folder)
        if reason := danger(folder, os.lstat(folder)):  # made when others could write to the folder around it
            folder = _temporary_folder_because(reason) / folder.name
            folder.mkdir(exist_ok=True)
        os.utime(folder)
    return folder


def _folder_name(path: Path) -> str:
    """The name of a module's folder, but for the version of LLVM."""
    inside = path.is_relative_to(_KERNELS)
    name = ".".join(path.relative_to(_KERNELS).with_suffix("").parts) if inside else path.stem
    return f"{name}-{module_digest(path)}"


class Contents(NamedTuple):
    """The contents of a folder of compiled code: bytes and files in total, and signatures by folders of modules that
    this installation would load at the current capability."""

    size: int
    files: int
    loadable: dict[str, int]


def contents() -> Contents:
    """What `cache_folder` holds."""
    found = [(path, path.stat().st_size) for path in cache_folder().glob("*/*.o")]
    loadable: dict[str, int] = {}
    for path, _ in sorted(found):
        module = path.parent.name.partition("-")[0]
        source = _KERNELS.joinpath(*module.split(".")).with_suffix(".py")
        if source.is_file() and path.parent.name == f"{_folder_name(source)}-{_llvm()}":
            group = module.split(".")[-2:][0]
            loadable[group] = loadable.get(group, 0) + 1
    return Contents(sum(size for _, size in found), len(found), loadable)


def _prune(own: Path) -> None:
    """Remove what other versions of a module left behind, so that the cache does not grow as the sources change."""
    name = own.name.partition("-")[0]
    others = [path for path in own.parent.iterdir() if path != own and path.name.partition("-")[0] == name]
    newest_first = sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)
    for path in newest_first[FOLDERS_KEPT:]:
        if time.time() - path.stat().st_mtime > _UNUSED_SECONDS:
            shutil.rmtree(path, ignore_errors=True)


@functools.cache
def _prebuilt() -> tuple[Path, ...]:
    """The archives of code that was installed with the package; none for a package without it, or where others could
    write to it."""
    try:
        refuse_what_others_can_write(_PREBUILT)
        return tuple(_PREBUILT.glob("*.code"))
    except OSError:
        return ()


@functools.cache
def _archives(module: Path) -> tuple[tuple[Path, Archive], ...]:
    """Those of a module as it is now, for this CPU, with the folders that they stand for."""
    start, found = f"{_folder_name(module)}-" if _prebuilt() else "", []
    for path in _prebuilt():
        if path.name.startswith(start):
            with contextlib.suppress(OSError, ValueError), open_trusted(path) as file:  # ValueError: a damaged index
                found.append((path.with_suffix(""), Archive(file.read())))
    return tuple(found)


def read_installed(module: Path, name: str) -> bytes | None:
    """The code that was installed for a file of a module's folder; None as for `read`."""
    for folder, archive in _archives(module):
        if (content := archive.read(name)) is not None:
            return _verify(folder / name, content)
    return None


def count_installed() -> int:
    """How many functions for this CPU were installed with the package."""
    modules = {path.name.partition("-")[0] for path in _prebuilt()}
    sources = [_KERNELS.joinpath(*module.split(".")).with_suffix(".py") for module in sorted(modules)]
    return sum(len(archive) for path in sources if path.is_file() for _, archive in _archives(path))


def refuse_to_compile(what: str) -> None:
    """Raise RuntimeError where the user forbids to compile, and ValueError for another value of the variable."""
    chosen = os.environ.get(COMPILE_VARIABLE, "")
    if chosen == "never":
        raise RuntimeError(
            f"{what} is not compiled, and {COMPILE_VARIABLE}=never; unset it, or compile ahead by warmup() or "
            "`minitorch-backends compile`"
        )
    if chosen:
        raise ValueError(f"{COMPILE_VARIABLE} must be 'never' or unset, got {chosen!r}")


def read(path: Path) -> bytes | None:
    """The content that `write` stored in a file of a module's folder.

    None if it is missing, damaged, or belongs to another file, or if another user wrote it while the folder was open to
    others.
    """
    try:
        with open_trusted(path) as file:
            content = file.read()
    except OSError:
        return None
    return _verify(path, content)


def _verify(path: Path, content: bytes) -> bytes | None:
    """What follows the checksum, if it is that of a file of this name."""
    size = hashlib.sha256().digest_size
    return content[size:] if content[:size] == _checksum(path, content[size:]) else None


def write(path: Path, content: bytes) -> None:
    """Keep compiled code in a file of a module's folder. A RuntimeWarning says where that is not possible."""
    while _warnings_due:
        warn_caller(_warnings_due.pop(), RuntimeWarning)
    try:
        write_file(path, _checksum(path, content) + content, 0o600)
    except OSError as error:
        warn_caller(
            f"compiled code cannot be kept in {path.parent} and will be compiled again by the next process: {error}; "
            f"set {CACHE_VARIABLE} to another folder",
            RuntimeWarning,
        )


_LONGEST_WAIT, _LOOK_AGAIN = 60.0, 0.02
"""Seconds for which a process waits for another one that compiles, and after which it looks whether that is done."""


@contextlib.contextmanager
def one_process(path: Path) -> Iterator[None]:
    """Compile in the block what goes to a file: other processes that need it wait, for a minute at most.

    The lock is that of one byte of a file of the folder, which the system releases when a process ends.
    """
    if sys.platform == "win32":
        yield
        return
    place, due = (
        int.from_bytes(hashlib.sha256(path.name.encode()).digest()[:4], "big"),
        time.monotonic() + _LONGEST_WAIT,
    )
    try:
        lock = open(path.parent / "lock", "ab")  # noqa: SIM115
    except OSError:
        yield
        return
    with lock:
        while time.monotonic() < due:
            try:
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
                break
            except OSError:
                time.sleep(_LOOK_AGAIN)
        yield


def _checksum(path: Path, content: bytes) -> bytes:
    return hashlib.sha256(f"{path.parent.name}/{path.name}\n".encode() + content).digest()
