"""The zip layer: aligned, uncompressed records, located and checked without reading them."""

from __future__ import annotations

import mmap
import os
import struct
import sys
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

_ALIGNMENT = 64
_HEADER = struct.Struct("<4s22xHH")
"""A local file header: its signature, and the lengths of the name and of the extra field that follow it."""

_ZIP64_LIMIT = 2**31 - 1
_ZIP64_EXTRA = 20


def write_archive(file: Any, pickled: bytes, storages: Mapping[str, np.ndarray]) -> None:
    """Write a pickle and its storages."""
    small = {".format_version": b"1", ".storage_alignment": str(_ALIGNMENT).encode()}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _write(archive, "data.pkl", pickled)
        for name, text in {**small, "byteorder": sys.byteorder.encode()}.items():
            _write(archive, name, text)
        for key, data in storages.items():
            _write(archive, f"data/{key}", data.data)
        _write(archive, "version", b"3\n")


def _write(archive: zipfile.ZipFile, name: str, data: bytes | memoryview) -> None:
    """Add a record whose data start at a multiple of the alignment, by an extra field of padding."""
    info = zipfile.ZipInfo(f"archive/{name}")
    large = len(data) > _ZIP64_LIMIT
    start = archive.fp.tell() + _HEADER.size + len(info.filename) + 4 + (_ZIP64_EXTRA if large else 0)  # type: ignore[union-attr]
    padding = -start % _ALIGNMENT
    info.extra = struct.pack("<2sH", b"FB", padding) + b"Z" * padding
    with archive.open(info, "w", force_zip64=large) as record:
        record.write(data)


class Archive:
    """The records of a file: where each lies, all of them checked against the file's size when it is opened."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._size = file.seek(0, os.SEEK_END)
        self._map: mmap.mmap | None = None
        try:
            with zipfile.ZipFile(file) as archive:
                infos = archive.infolist()
        except (
            zipfile.BadZipFile,
            zipfile.LargeZipFile,
            NotImplementedError,
            ValueError,
            struct.error,
            OSError,
        ) as why:
            raise RuntimeError(self._no_archive(why)) from None
        self._root = next((each.filename.partition("/")[0] for each in infos), "")
        self._infos: dict[str, zipfile.ZipInfo] = {}
        for info in infos:
            self._add(info)
        if sum(info.file_size for info in infos) > self._size:
            raise RuntimeError("load(): the file's records overlap; it was not written by torch or by save()")
        if "data.pkl" not in self._infos:
            raise RuntimeError("load(): the archive has no record 'data.pkl'; it must be written by torch or by save()")
        order = bytes(self.read("byteorder")).decode("latin-1") if "byteorder" in self._infos else "little"
        if order != sys.byteorder:
            raise RuntimeError(f"load(): the file's byte order must be {sys.byteorder!r}, got {order[:16]!r}")

    def _no_archive(self, why: Exception) -> str:
        """The error message for a file that is not a zip archive."""
        self._file.seek(0)
        start = self._file.read(265)
        if start[257:262] == b"ustar":
            return (
                "load(): the file has torch's tar format from before version 0.1.10, which is not read here; load it "
                "in torch and save it again"
            )
        state = "is truncated" if start.startswith(b"PK\x03\x04") else "is not a zip archive"
        return f"load(): the file {state} ({why}); it must be one that torch or save() wrote, and complete"

    def _add(self, info: zipfile.ZipInfo) -> None:
        """Note a record. Raises RuntimeError for a name that leaves the archive, compression and impossible sizes."""
        root, _, name = info.orig_filename.partition("/")
        if root != self._root or not name or "\0" in name or "\\" in name or ".." in name.split("/") or name[0] == "/":
            raise RuntimeError(f"load(): the record {info.orig_filename!r} is outside the archive's folder")
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
            raise RuntimeError(f"load(): the record {name!r} must be stored without compression or encryption")
        if info.file_size != info.compress_size or not 0 <= info.header_offset <= self._size - info.file_size:
            raise RuntimeError(
                f"load(): the record {name!r} has {info.file_size} bytes by its entry, but the file has "
                f"{self._size}; it is truncated or damaged"
            )
        if name in self._infos:
            raise RuntimeError(f"load(): the archive has two records {name!r}")
        self._infos[name] = info

    def size_of(self, name: str) -> int | None:
        """The number of bytes of a record; None for an unknown record."""
        info = self._infos.get(name)
        return None if info is None else info.file_size

    def _start_of(self, name: str) -> int:
        """Where the data of a record start. Raises RuntimeError if they do not lie in the file."""
        info = self._infos[name]
        self._file.seek(info.header_offset)
        header = self._file.read(_HEADER.size)
        if len(header) == _HEADER.size:
            signature, name_length, extra_length = _HEADER.unpack(header)
            start = info.header_offset + _HEADER.size + name_length + extra_length
            if signature == b"PK\x03\x04" and start + info.file_size <= self._size:
                return start
        raise RuntimeError(f"load(): the record {name!r} does not lie in the file; it is truncated or damaged")

    def read(self, name: str) -> np.ndarray:
        """The bytes of a record, in new memory."""
        self._file.seek(self._start_of(name))
        data = np.empty(self._infos[name].file_size, np.uint8)
        if self._file.readinto(data.data) != data.nbytes:
            raise RuntimeError(f"load(): the file ended within the record {name!r}")
        return data

    def map(self, name: str) -> np.ndarray:
        """The bytes of a record in pages of the file; writes stay in this process."""
        start, size = self._start_of(name), self._infos[name].file_size
        if size == 0:
            return np.empty(0, np.uint8)
        if self._map is None:
            self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_COPY)
        return np.frombuffer(self._map, np.uint8, size, start)
