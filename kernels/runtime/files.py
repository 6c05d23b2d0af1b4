"""Writing files whole or not at all: what everything that this package saves goes through.

A file is written under a name of its own beside its path, and renamed when it is complete: a failure leaves the old
file, other threads and processes that save to the path do not see it half, and memory mapped from the old file stays.
Where a rename would change more than the content, the complete file is copied into the one that is there: devices and
pipes, files with several hard links, and files in a folder that cannot be written to.

Beside it: whether files that this process would obey could have been written by another user.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import shutil
import stat
import struct
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

if sys.platform != "win32":
    import fcntl


class Replacement:
    """The file that takes the place of the one at a path, with its mode and owner. A symbolic link is followed.

    Attributes:
        name: of the temporary file.

    Raises OSError for a folder, and for a file that this user may not write to.
    """

    def __init__(self, path: str | os.PathLike[str], mode: int = 0o666) -> None:
        self.target, self._mode = os.path.realpath(path), mode
        try:
            self._found: os.stat_result | None = os.stat(path)
        except FileNotFoundError:
            self._found = None
        if self._found is not None and not stat.S_ISREG(self._found.st_mode):
            self.target = os.fspath(path)  # /dev/stdout is a link to a pipe, which has no path
        folder, base = os.path.split(self.target)
        if self._found is not None:
            if stat.S_ISDIR(self._found.st_mode):
                raise IsADirectoryError(f"a file to write must not be a folder, got {os.fspath(path)!r}")
            if not os.access(self.target, os.W_OK):
                raise PermissionError(f"this user may not write to {os.fspath(path)!r}")
        self._renames = self._found is None or (
            stat.S_ISREG(self._found.st_mode) and self._found.st_nlink == 1 and os.access(folder, os.W_OK)
        )
        beside = folder if self._renames else tempfile.gettempdir()
        self.name = os.path.join(beside, f".{base[:40]}.{secrets.token_hex(8)}.partial")

    def open(self) -> Any:
        """The temporary file, to write and to read."""
        mode = self._mode if self._renames else 0o600
        file = open(self.name, "x+b", opener=partial(os.open, mode=mode))  # noqa: SIM115
        self._mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        return file

    def finish(self) -> None:
        """Put the temporary file, which is complete and closed, in its place."""
        if not self._renames:
            self._copy()
            return
        if self._found is not None:
            if hasattr(os, "chown") and os.stat(self.name).st_uid != self._found.st_uid:
                with contextlib.suppress(OSError):  # only root may give files away
                    os.chown(self.name, self._found.st_uid, self._found.st_gid)
            self._mode = stat.S_IMODE(self._found.st_mode)
        os.chmod(self.name, self._mode)  # also where a library has put a file of its own there
        os.replace(self.name, self.target)

    def discard(self) -> None:
        """Remove the temporary file, if it is still there."""
        with contextlib.suppress(OSError):
            os.unlink(self.name)

    def _copy(self) -> None:
        regular = self._found is not None and stat.S_ISREG(self._found.st_mode)
        if regular and _is_mapped(self._found):
            raise OSError(
                f"{self.target!r} cannot be written to: this process has tensors mapped from it, and the file has "
                "other names or lies in a folder that cannot be written to; save to another path"
            )
        descriptor = os.open(self.target, os.O_WRONLY)
        with open(self.name, "rb") as source, open(descriptor, "wb", buffering=0) as target:
            if regular and sys.platform != "win32":
                fcntl.flock(target, fcntl.LOCK_EX)  # of this opened file: threads wait for each other too
            shutil.copyfileobj(source, target, 1 << 20)
            if regular:
                target.truncate()


def _is_mapped(found: Any) -> bool:
    """Whether this process has mapped a file into memory, where the system says so."""
    device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}" if hasattr(os, "major") else ""
    try:
        lines = Path("/proc/self/maps").read_bytes().splitlines()  # paths are in any encoding
    except OSError:
        return False
    return any(line.split()[3:5] == [device.encode(), b"%d" % found.st_ino] for line in lines)


DAMAGE = (
    ValueError, KeyError, TypeError, AttributeError, IndexError, EOFError, NotImplementedError, OverflowError,
    MemoryError, RuntimeError, OSError, SyntaxError, struct.error, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""Exceptions that the libraries raise for a damaged file or text, RecursionError among them."""


@contextlib.contextmanager
def one_sentence(subject: str, expected: str) -> Iterator[None]:
    """Turn whatever reading a damaged file or text raises in the block into one ValueError: `subject` must be
    `expected`. Open files before, so that a missing one stays a FileNotFoundError."""
    try:
        yield
    except DAMAGE as problem:
        reason = " ".join(str(problem).split())[:300] or type(problem).__name__
        raise ValueError(f"{subject} must be {expected}, and complete, got another one ({reason})") from None


def write_files(files: Mapping[Any, Callable[[BinaryIO], Any]], mode: int = 0o666) -> None:
    """Write files by functions of an opened file, and put them in their places when all are complete.

    Raises OSError where that is not possible; nothing is left behind, and no file has changed before all are written.
    """
    replacements: list[Replacement] = []
    try:
        for path, write in files.items():
            replacements.append(Replacement(path, mode))
            with replacements[-1].open() as file:
                write(file)
        for each in replacements:
            each.finish()
    finally:
        for each in replacements:
            each.discard()


def write_file(
    path: str | os.PathLike[str], content: bytes | str | Callable[[BinaryIO], Any], mode: int = 0o666
) -> None:
    """Write one file: bytes, text in UTF-8, or what a function writes to an opened file. See `write_files`."""
    if isinstance(content, str):
        content = content.encode()
    data = content
    write_files({path: content if callable(content) else lambda file: file.write(data)}, mode)


def refuse_what_others_can_write(folder: Path) -> None:
    """Raise PermissionError if a user other than this one and root could write to `folder`, or replace it.

    A sticky folder on the path (such as /tmp) is safe: only owners can replace its entries.
    """
    places = {folder, Path(os.path.realpath(folder))}
    for path in {level for place in places for level in (place, *place.parents)}:
        found = os.lstat(path)
        sticky = path not in places and found.st_mode & stat.S_ISVTX
        if reason := danger(path, found, bool(sticky)):
            raise PermissionError(reason)


def danger(path: Path, found: os.stat_result, sticky: bool = False) -> str | None:
    """A sentence if a user other than this one and root may have written a file, or could; else None. What lies in a
    sticky folder is its owners'."""
    if not hasattr(os, "geteuid"):
        return None
    if found.st_uid not in (0, os.geteuid()):
        return f"{path} belongs to another user (uid {found.st_uid})"
    mode = 0 if sticky or stat.S_ISLNK(found.st_mode) else found.st_mode
    if mode & stat.S_IWOTH or (mode & stat.S_IWGRP and not _is_private_group(found.st_gid)):
        return f"other users can write to {path} (mode {stat.S_IMODE(mode):o})"
    return None


def open_trusted(path: Path) -> BinaryIO:
    """Open a file to read. Raises OSError unless it is a regular one that no other user could write to; a pipe is not
    waited for."""
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0)))  # noqa: SIM115
    found = os.fstat(file.fileno())
    reason = danger(path, found) if stat.S_ISREG(found.st_mode) else f"{path} is not a regular file"
    if reason:
        file.close()
        raise PermissionError(reason)
    return file


@functools.cache
def _is_private_group(group: int) -> bool:
    """Whether a group has no members but the user and root, as in that which many systems make with each user.

    A group of others cannot be told from their having no entry in the system's tables; so a group without one is not
    private.
    """
    import grp
    import pwd

    try:
        members = set(grp.getgrgid(group).gr_mem)
    except KeyError:
        return False
    users = [each for each in pwd.getpwall() if each.pw_gid == group or each.pw_name in members]
    return all(each.pw_uid in (0, os.geteuid()) for each in users) and members <= {each.pw_name for each in users}
