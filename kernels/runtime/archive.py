"""Many small files in one, compressed in blocks: the compiled functions of a module in a wheel.

An archive is the length of an index, the index in JSON (for each file its block, where it begins in there and its
length; under "" where the blocks begin and end), and the blocks. Variants of a function are of like length, and so are
neighbours. The build backend, which cannot import the package, runs this file.
"""

import functools
import json
from contextlib import suppress
from pathlib import Path

_BLOCK_BYTES = 1 << 19
"""From which on a block is full. One of 512 KiB takes 6 ms to read; smaller ones compress less well."""


def pack(folder: Path, pattern: str) -> bytes:
    """The files of a folder whose names match, as an archive."""
    import lzma

    blocks, places = [bytearray()], {}
    for file in sorted(folder.glob(pattern), key=lambda file: (file.stat().st_size, file.name)):
        if len(blocks[-1]) >= _BLOCK_BYTES:
            blocks.append(bytearray())
        content = file.read_bytes()
        places[file.name] = len(blocks) - 1, len(blocks[-1]), len(content)
        blocks[-1] += content
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9, "dict_size": 2 * _BLOCK_BYTES}]  # a reader reserves so much
    packed = [lzma.compress(block, filters=filters) for block in blocks]
    ends = [sum(map(len, packed[:count])) for count in range(len(packed) + 1)]
    index = json.dumps({"": ends, **places}).encode()
    return b"".join([len(index).to_bytes(4, "little"), index, *packed])


@functools.lru_cache(8)  # the functions of a call lie in few blocks
def _block(content: bytes, first: int, end: int) -> bytes:
    """A block of an archive; nothing where it cannot be read."""
    with suppress(ImportError):  # some builds of Python lack it
        import lzma

        with suppress(lzma.LZMAError):
            return lzma.decompress(content[first:end])
    return b""


class Archive:
    """The files of an archive."""

    def __init__(self, content: bytes) -> None:
        self._content, self._start = content, 4 + int.from_bytes(content[:4], "little")
        self._places: dict[str, tuple[int, int, int]] = json.loads(content[4 : self._start] or '{"": []}')
        self._ends = self._places.pop("")

    def __len__(self) -> int:
        return len(self._places)

    def read(self, name: str) -> bytes | None:
        """A file's content; None if it is missing, or cannot be read."""
        if name not in self._places:
            return None
        block, first, size = self._places[name]
        places = (self._start + self._ends[block + each] for each in (0, 1))
        return _block(self._content, *places)[first : first + size] or None
