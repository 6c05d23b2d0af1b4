"""Models in GGUF, the files of llama.cpp: tensors read on demand, metadata, and the tokenizer.

    file = interop.gguf.load("SmolLM2-135M-Instruct.Q4_1.gguf")
    file.metadata["llama.block_count"], file.tensors["blk.0.attn_q.weight"]
    file.tokenizer.decode(file.tokenizer.encode("A language model"))

The file is mapped into memory, and read by this module alone: a header of little-endian numbers and strings, each
checked against the size of the file. Quantised tensors have the block types of `kernels.precisions.ggml`. Source: the
description of the format in ggml (docs/gguf.md), versions 2 and 3.
"""

from __future__ import annotations

import heapq
import math
import os
import re
import struct
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..kernels.precisions.ggml import BLOCKS, dequantize
from ..ops.names import from_numpy
from ..tensor.dtypes import bfloat16
from ..tensor.size import MOST_ELEMENTS
from ..tensor.tensor import Tensor

__all__ = ["GGUF", "Tokenizer", "load"]

_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Types of values in the header, by `struct`'s letters."""
_STRING, _ARRAY, _MOST_NESTED, _MOST_DIMS = 8, 9, 4, 4

_PLAIN: dict[int, Any] = {
    0: np.float32, 1: np.float16, 24: np.int8, 25: np.int16, 26: np.int32, 27: np.int64, 28: np.float64,
    30: bfloat16.dtype,
}  # fmt: skip
_BLOCK_NAMES = {block.number: name for name, block in BLOCKS.items()}


def _short(text: str) -> str:
    """A name of the file in a sentence: a damaged one may be as long as the file."""
    return repr(text if len(text) <= 80 else text[:77] + "...")


class _Header:
    """Reads values one after another; raises ValueError where the file ends before."""

    def __init__(self, path: str, memory: np.ndarray) -> None:
        self.path, self.memory, self.at = path, memory.data, 0

    def fail(self, expectation: str, got: object) -> ValueError:
        return ValueError(f"load(): {self.path!r} must be a GGUF file whose {expectation}, got {got}")

    def take(self, size: int, what: str) -> memoryview:
        if size > len(self.memory) - self.at:
            raise self.fail(f"{what} lies inside of its {len(self.memory)} bytes", f"{size} bytes at {self.at}")
        self.at += size
        return self.memory[self.at - size : self.at]

    def number(self, letter: str, what: str) -> Any:
        return struct.unpack("<" + letter, self.take(struct.calcsize("<" + letter), what))[0]

    def text(self, what: str) -> str:
        raw = bytes(self.take(self.number("Q", what), what))
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise self.fail(f"{what} is UTF-8", repr(raw[:40])) from None

    def value(self, kind: int, what: str, depth: int = 0) -> Any:
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind], what)
        if kind == _STRING:
            return self.text(what)
        if kind != _ARRAY or depth == _MOST_NESTED:
            raise self.fail(f"{what} has a known type, nested at most {_MOST_NESTED} times", f"type {kind}")
        element, count = self.number("I", what), self.number("Q", what)
        if element in _NUMBERS:
            letter = _NUMBERS[element]
            size = struct.calcsize("<" + letter)
            return list(struct.unpack(f"<{count}{letter}", self.take(count * size, what)))
        if count > len(self.memory) - self.at:
            raise self.fail(f"{what} lies inside of its {len(self.memory)} bytes", f"{count} elements")
        return [self.value(element, what, depth + 1) for _ in range(count)]


class _Place(NamedTuple):
    """The location of a tensor: ggml's number of its type, its shape, and where its bytes are in the file."""

    kind: int
    shape: tuple[int, ...]
    start: int
    size: int


class _Tensors(Mapping[str, Tensor]):
    """The tensors of a file by name. Each is read when it is asked for, quantised ones as float32."""

    def __init__(self, memory: np.ndarray, places: Mapping[str, _Place]) -> None:
        self._memory, self._places = memory, places

    def __getitem__(self, name: str) -> Tensor:
        place = self._places[name]
        raw = self._memory[place.start : place.start + place.size]
        if place.kind in _PLAIN:
            return from_numpy(raw.view(_PLAIN[place.kind]).reshape(place.shape).copy())
        block = _BLOCK_NAMES[place.kind]
        if not place.size:
            return from_numpy(np.empty(place.shape, np.float32))
        rows = raw.reshape(*place.shape[:-1], -1)
        return from_numpy(np.ascontiguousarray(dequantize(rows, block)))

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def type_of(self, name: str) -> str:
        """The type in the file: a block type such as "q4_0", or a dtype's name."""
        kind = self._places[name].kind
        return _BLOCK_NAMES.get(kind) or np.dtype(_PLAIN[kind]).name


class GGUF:
    """A file of `load`.

    Attributes:
        metadata: every value of the header by its key: numbers, strings, bools, and lists of them.
        tensors: the tensors by name; `tensors.type_of(name)` is a tensor's type in the file.
    """

    def __init__(self, path: str, memory: np.ndarray, metadata: dict[str, Any], places: Mapping[str, _Place]) -> None:
        self._path, self.metadata, self.tensors = path, metadata, _Tensors(memory, places)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer in the header. Raises ValueError for a file without one or with a damaged one, and for other
        kinds than byte-level BPE (`tokenizer.ggml.model` "gpt2")."""
        try:
            return Tokenizer(self.metadata)
        except ValueError as error:
            raise ValueError(f"{error} (in {self._path!r})") from None

    def __repr__(self) -> str:
        name = self.metadata.get("general.name", self.metadata.get("general.architecture", "model"))
        return f"<GGUF {name!r}: {len(self.tensors)} tensors, {len(self.metadata)} values, {self._path!r}>"


def load(path: str | os.PathLike[str]) -> GGUF:
    """Open a GGUF file (version 2 or 3). Nothing but its header is read before a tensor is asked for.

    Raises ValueError for a file that is damaged, or has tensors of types besides F32, F16, BF16, F64, integers and the
    block types of `kernels.precisions.ggml`. Raises OSError if it cannot be opened.
    """
    name = os.fspath(path)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
    memory = np.memmap(path, np.uint8, "r") if size else np.empty(0, np.uint8)
    header = _Header(name, memory)
    if bytes(header.take(4, "magic number")) != b"GGUF":
        raise header.fail("first bytes are b'GGUF'", repr(bytes(memory[:4])))
    version = header.number("I", "version")
    if version not in (2, 3):
        raise header.fail("version is 2 or 3, little-endian", version)
    tensors, values = header.number("Q", "number of tensors"), header.number("Q", "number of values")
    if max(tensors, values) > size:
        raise header.fail(f"counts fit its {size} bytes", f"{tensors} tensors and {values} values")
    metadata: dict[str, Any] = {}
    for _ in range(values):
        key = header.text("key")
        if key in metadata:
            raise header.fail("keys are unique", _short(key))
        metadata[key] = header.value(header.number("I", f"type of {_short(key)}"), f"value of {_short(key)}")
    found = list(_infos(header, tensors))
    alignment = metadata.get("general.alignment", 32)
    if type(alignment) is not int or not 0 < alignment <= 1 << 20 or alignment & (alignment - 1):
        raise header.fail("alignment is a power of two", repr(alignment))
    base = -(-header.at // alignment) * alignment
    return GGUF(name, memory, metadata, dict(_locate(header, base, found)))


def _infos(header: _Header, count: int) -> Iterator[tuple[str, tuple[int, ...], int, int]]:
    """The name, shape, type and offset of each tensor. Sizes are in ggml's order, the contiguous one first."""
    for _ in range(count):
        name = header.text("name of a tensor")
        dims = header.number("I", f"number of dimensions of {_short(name)}")
        if not 0 <= dims <= _MOST_DIMS:
            raise header.fail(f"tensor {_short(name)} has at most {_MOST_DIMS} dimensions", dims)
        shape = struct.unpack(f"<{dims}Q", header.take(8 * dims, f"shape of {_short(name)}"))[::-1]
        yield (
            name,
            shape,
            header.number("I", f"type of {_short(name)}"),
            header.number("Q", f"offset of {_short(name)}"),
        )


def _locate(header: _Header, base: int, infos: Sequence[tuple]) -> Iterator[tuple[str, _Place]]:
    seen = set()
    for name, shape, kind, offset in infos:
        if name in seen:
            raise header.fail("names of tensors are unique", _short(name))
        seen.add(name)
        if kind in _PLAIN:
            length, size = 1, np.dtype(_PLAIN[kind]).itemsize
        elif kind in _BLOCK_NAMES:
            _, length, size = BLOCKS[_BLOCK_NAMES[kind]]
        else:
            known = ", ".join(("F32", "F16", "BF16", "F64", "integers", *(each.upper() for each in BLOCKS)))
            raise header.fail(f"tensors have one of the types {known}", f"type {kind} of {_short(name)}")
        if (shape[-1] if shape else 1) % length:
            raise header.fail(f"tensor {_short(name)} has whole blocks of {length}", f"shape {list(shape)}")
        used = math.prod(shape) // length * size
        if base + offset + used > len(header.memory) or math.prod(filter(None, shape)) > MOST_ELEMENTS:
            raise header.fail(
                f"tensor {_short(name)} lies inside of its {len(header.memory)} bytes",
                f"shape {list(shape)} at {offset}",
            )
        yield name, _Place(kind, shape, base + offset, used)


# The tokenizer

_CONTROL, _USER_DEFINED = 3, 4
_CONTRACTIONS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")
_DIGITS_APART = {"gpt-2": False, "default": False, "smollm": True}
"""Whether every digit is a word of its own, by `tokenizer.ggml.pre`."""


def _byte_letters() -> list[str]:
    """GPT-2's printable letter for each byte."""
    shown = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte) if byte in shown else chr(next(others)) for byte in range(256)]


_LETTERS = _byte_letters()
_BYTES = {letter: byte for byte, letter in enumerate(_LETTERS)}


class Tokenizer:
    """Byte-level BPE from the header of a GGUF file.

    Attributes:
        tokens: the text of each token, in GPT-2's letters for bytes.
        special: ids of control tokens and tokens of users, by their text; `encode` finds them in the text.
    """

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        def read(key: str, kind: type) -> Any:
            value = metadata.get(f"tokenizer.ggml.{key}")
            if not isinstance(value, kind) or (
                isinstance(value, list) and not all(isinstance(each, str) for each in value)
            ):
                expected = "a list of text" if kind is list else "text"
                got = repr(value) if not isinstance(value, list) else f"a list of {len(value)} values"
                raise ValueError(f"tokenizer: metadata must have tokenizer.ggml.{key}, {expected}, got {got}")
            return value

        model = read("model", str)
        if model != "gpt2":
            raise ValueError(f"tokenizer: tokenizer.ggml.model must be 'gpt2', byte-level BPE, got {model!r}")
        self.tokens: list[str] = read("tokens", list)
        merges = [tuple(each.split(" ")) for each in read("merges", list)]
        self._ids = {token: index for index, token in enumerate(self.tokens)}
        pieces = (first + second for first, second in _pairs(merges))
        if (missing := next((piece for piece in pieces if piece not in self._ids), None)) is not None:
            raise ValueError(f"tokenizer: tokens must have the result of each merge, got no {missing!r}")
        self._ranks = {pair: rank for rank, pair in enumerate(merges)}
        kinds = metadata.get("tokenizer.ggml.token_type", [])
        if not isinstance(kinds, list):
            raise ValueError(f"tokenizer: tokenizer.ggml.token_type must be a list of numbers, got {kinds!r}")
        special = [index for index, kind in enumerate(kinds) if kind in (_CONTROL, _USER_DEFINED)]
        self.special = {self.tokens[index]: index for index in special if index < len(self.tokens)}
        self._pre = metadata.get("tokenizer.ggml.pre", "default")

    def encode(self, text: str) -> list[int]:
        """The ids of a text's tokens, without others before or behind it. Raises ValueError for a file whose rule of
        words (`tokenizer.ggml.pre`) is not known, and for bytes without a token."""
        if self._pre not in _DIGITS_APART:
            known = ", ".join(map(repr, _DIGITS_APART))
            raise ValueError(f"encode(): tokenizer.ggml.pre must be one of {known}, got {self._pre!r}")
        names = sorted(self.special, key=len, reverse=True)
        parts = re.split(f"({'|'.join(map(re.escape, names))})", text) if names else [text]
        ids: list[int] = []
        for part in parts:
            if part in self.special:
                ids.append(self.special[part])
                continue
            for word in _words(part, _DIGITS_APART[self._pre]):
                ids += [self._id(piece) for piece in self._merge([_LETTERS[byte] for byte in word.encode()])]
        return ids

    def _id(self, piece: str) -> int:
        if piece not in self._ids:  # vocabularies may leave out bytes of control characters
            raise ValueError(f"encode(): text must consist of bytes that have tokens, got {_BYTES[piece]:#04x}")
        return self._ids[piece]

    def _merge(self, pieces: list[str]) -> list[str]:
        """Merge the pair of the least rank until none is left: a heap of pairs, with links between the pieces."""
        before, behind = list(range(-1, len(pieces) - 1)), [*range(1, len(pieces)), -1]
        heap: list[tuple[int, int, str, str]] = []

        def offer(left: int) -> None:
            right = behind[left] if left >= 0 else -1
            rank = self._ranks.get((pieces[left], pieces[right])) if right >= 0 else None
            if rank is not None:
                heapq.heappush(heap, (rank, left, pieces[left], pieces[right]))

        for place in range(len(pieces)):
            offer(place)
        while heap:
            _, left, first, second = heapq.heappop(heap)
            right = behind[left]
            if pieces[left] != first or right < 0 or pieces[right] != second:
                continue  # one of them was merged since
            pieces[left], pieces[right], behind[left] = first + second, "", behind[right]
            if behind[right] >= 0:
                before[behind[right]] = left
            offer(before[left])
            offer(left)
        return [piece for piece in pieces if piece]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens. Raises ValueError for an id beyond the vocabulary; bytes outside of UTF-8 become
        U+FFFD."""
        raw = bytearray()
        for index in ids:
            if not 0 <= int(index) < len(self.tokens):
                raise ValueError(f"decode(): ids must be from 0 to {len(self.tokens) - 1}, got {index}")
            token = self.tokens[int(index)]
            plain = token in self.special or not _BYTES.keys() >= set(token)
            raw += token.encode() if plain else bytes(_BYTES[letter] for letter in token)
        return raw.decode(errors="replace")


def _pairs(merges: Iterable[tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    for pair in merges:
        if len(pair) != 2:
            raise ValueError(f"tokenizer: merges must be two tokens with a space between, got {' '.join(pair)[:80]!r}")
        yield pair[0], pair[1]


def _kind(letter: str) -> str:
    """ "L" for letters, "N" for numbers, "S" for white space, "O" for others, by Unicode."""
    category = unicodedata.category(letter)[0]
    return category if category in "LN" else "S" if letter.isspace() else "O"


def _words(text: str, digits_apart: bool) -> Iterator[str]:
    """GPT-2's words: contractions; letters, numbers or others with a space before; white space, whose last character
    goes to the next word where it is a space. With `digits_apart` each digit, first, is a word of its own."""
    if digits_apart:
        start = 0
        for place, letter in enumerate(text):
            if _kind(letter) == "N":
                yield from _words(text[start:place], False)
                yield letter
                start = place + 1
        yield from _words(text[start:], False)
        return
    place, size = 0, len(text)
    while place < size:
        contraction = next((each for each in _CONTRACTIONS if text.startswith(each, place)), None)
        if contraction is not None:
            yield contraction
            place += len(contraction)
            continue
        first = place + (text[place] == " " and place + 1 < size and _kind(text[place + 1]) != "S")
        kind, end = _kind(text[first]), first
        while end < size and _kind(text[end]) == kind:
            end += 1
        if kind == "S" and end < size and end - place > 1:
            end -= 1  # the last one belongs to the next word, or stands alone
        yield text[place:end]
        place = end
