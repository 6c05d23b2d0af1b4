"""Many small files in one, compressed by what they have in common: the compiled functions of a module in a wheel.

An archive is the length of an index, the index in JSON (where each file lies, and how long it is), the bytes that all
files are compressed with, and the files. The build backend, which cannot import the package, runs this file.
"""

import json
import zlib
from pathlib import Path

_COMMON_BYTES, _SAMPLES, _SHARE = 1 << 15, 8, 16
"""The window of zlib, how many files are in it, and the part of all bytes that it may be."""


def pack(folder: Path, pattern: str) -> bytes:
    """The files of a folder whose names match, as an archive."""
    contents = {file.name: file.read_bytes() for file in sorted(folder.glob(pattern))}
    most = min(_COMMON_BYTES, sum(map(len, contents.values())) // _SHARE)
    common = b"".join(list(contents.values())[:: max(1, len(contents) // _SAMPLES)])[:most]
    places, blocks, size = {"": (0, len(common))}, [common], len(common)
    for name, content in contents.items():
        packer = zlib.compressobj(9, zdict=common)
        blocks.append(packer.compress(content) + packer.flush())
        places[name] = size, len(blocks[-1])
        size += len(blocks[-1])
    index = json.dumps(places).encode()
    return b"".join([len(index).to_bytes(4, "little"), index, *blocks])


class Archive:
    """The files of an archive."""

    def __init__(self, content: bytes) -> None:
        start = 4 + int.from_bytes(content[:4], "little")
        self._places: dict[str, tuple[int, int]] = json.loads(content[4:start] or "{}")
        self._content = memoryview(content)[start:]

    def __len__(self) -> int:
        return max(0, len(self._places) - 1)

    def read(self, name: str) -> bytes | None:
        """A file's content; None if it is missing, or cannot be read."""
        if name not in self._places:
            return None
        common, packed = (self._content[start : start + size] for start, size in (self._places[""], self._places[name]))
        try:
            return zlib.decompressobj(zdict=common).decompress(packed)
        except zlib.error:
            return None
