"""GGUF files: tensors and metadata as they were written, the tokenizer, and what damaged or hostile files get."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends.interop import gguf
from minitorch_backends.kernels.precisions import ggml

LETTERS = {"B": 0, "b": 1, "H": 2, "h": 3, "I": 4, "i": 5, "f": 6, "?": 7, "Q": 10, "q": 11, "d": 12}


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def pack(value: Any) -> tuple[int, bytes]:
    """The type and the bytes of a value of the header."""
    if isinstance(value, str):
        return 8, text(value)
    if isinstance(value, bool):
        return 7, struct.pack("<?", value)
    if isinstance(value, (int, float)):
        letter = "I" if isinstance(value, int) else "f"
        return LETTERS[letter], struct.pack("<" + letter, value)
    kinds, parts = zip(*map(pack, value), strict=True)
    return 9, struct.pack("<IQ", kinds[0], len(value)) + b"".join(parts)


def file_of(values: dict[str, Any], tensors: dict[str, tuple[int, tuple[int, ...], bytes]], **changes: Any) -> bytes:
    """A file with values and tensors: each a type, a shape and its bytes. `changes` replace numbers of the header."""
    magic, version = changes.get("magic", b"GGUF"), changes.get("version", 3)
    out = magic + struct.pack("<IQQ", version, changes.get("count", len(tensors)), changes.get("keys", len(values)))
    for key, value in values.items():
        kind, raw = pack(value)
        out += text(key) + struct.pack("<I", changes.get("kind", kind)) + raw
    offset, body = 0, b""
    for name, (kind, shape, raw) in tensors.items():
        sizes = shape[::-1]
        out += text(name) + struct.pack(f"<I{len(sizes)}Q", changes.get("dims", len(sizes)), *sizes)
        out += struct.pack("<IQ", kind, changes.get("offset", offset))
        body += raw + b"\0" * (-len(raw) % 32)
        offset = len(body)
    return out + b"\0" * (-len(out) % 32) + body


def write(folder: Path, content: bytes) -> Path:
    path = folder / "model.gguf"
    path.write_bytes(content)
    return path


X = np.random.default_rng(0).standard_normal((3, 512)).astype(np.float32)


def test_tensors_and_values_are_those_that_were_written(tmp_path: Path) -> None:
    values = {
        "general.architecture": "llama",
        "n": 7,
        "eps": 0.5,
        "flag": True,
        "names": ["a", "b"],
        "deep": [[1, 2], [3]],
    }
    tensors = {
        "whole": (0, X.shape, X.tobytes()),
        "half": (1, X.shape, X.astype(np.float16).tobytes()),
        "brain": (30, X.shape, X.astype(ml_dtypes.bfloat16).tobytes()),
        "counts": (26, (4,), np.arange(4, dtype=np.int32).tobytes()),
        **{name: (ggml.BLOCKS[name].number, X.shape, ggml.quantize(X, name).tobytes()) for name in ggml.BLOCKS},
    }
    file = gguf.load(write(tmp_path, file_of(values, tensors)))
    assert file.metadata == values
    assert list(file.tensors) == list(tensors)
    np.testing.assert_array_equal(file.tensors["whole"].numpy(), X)
    np.testing.assert_array_equal(file.tensors["half"].numpy(), X.astype(np.float16))
    assert file.tensors["brain"].dtype is mt.bfloat16
    assert file.tensors["counts"].tolist() == [0, 1, 2, 3]
    for name in ggml.BLOCKS:
        found = file.tensors[name]
        assert (found.dtype, file.tensors.type_of(name)) == (mt.float32, name)
        np.testing.assert_array_equal(found.numpy(), ggml.dequantize(ggml.quantize(X, name), name))
    file.tensors["whole"].add_(1)
    np.testing.assert_array_equal(file.tensors["whole"].numpy(), X, "a tensor is a copy, and the file stays as it is")
    with pytest.raises(KeyError):
        file.tensors["other"]


@pytest.mark.parametrize(
    ("sentence", "make"),
    [
        ("first bytes are b'GGUF', got b'GGML'", lambda: file_of({}, {}, magic=b"GGML")),
        ("version is 2 or 3, little-endian, got 1", lambda: file_of({}, {}, version=1)),
        ("counts fit its", lambda: file_of({}, {}, count=1 << 60)),
        ("counts fit its", lambda: file_of({}, {}, keys=1 << 60)),
        ("magic number lies inside of its 0 bytes", lambda: b""),
        ("has a known type", lambda: file_of({"a": 1}, {}, kind=77)),
        ("alignment is a power of two, got 48", lambda: file_of({"general.alignment": 48}, {})),
        ("at most 4 dimensions, got 9", lambda: file_of({}, {"x": (0, (4,), b"\0" * 16)}, dims=9)),
        ("lies inside of its", lambda: file_of({}, {"x": (0, (400,), b"\0" * 16)})),
        ("lies inside of its", lambda: file_of({}, {"x": (0, (4,), b"\0" * 16)}, offset=1 << 62)),
        ("lies inside of its", lambda: file_of({}, {"x": (0, (1 << 40, 1 << 40), b"\0" * 16)})),
        ("lies inside of its", lambda: file_of({}, {"x": (2, (0, 1 << 62), b"")})),
        ("lies inside of its", lambda: file_of({}, {"x": (0, (0, 1 << 31, 1 << 31), b"")})),
        ("have one of the types F32", lambda: file_of({}, {"x": (99, (4,), b"\0" * 16)})),
        ("whole blocks of 32, got shape [2, 16]", lambda: file_of({}, {"x": (2, (2, 16), b"\0" * 36)})),
    ],
)  # fmt: skip
def test_hostile_files_are_refused_in_one_sentence(tmp_path: Path, sentence: str, make: Callable[[], bytes]) -> None:
    content = make()
    with pytest.raises(ValueError, match=r"^load\(\): ") as info:
        gguf.load(write(tmp_path, content))
    assert sentence in str(info.value)


def test_any_end_of_a_file_is_refused(tmp_path: Path) -> None:
    """Cut anywhere, a file raises ValueError, and nothing else."""
    content = file_of({"a": "text", "b": [1, 2, 3]}, {"x": (2, (2, 32), ggml.quantize(X[:2, :32], "q4_0").tobytes())})
    for size in range(len(content) - 32):
        with pytest.raises(ValueError, match=r"^load\(\): "):
            gguf.load(write(tmp_path, content[:size]))


def test_empty_tensors_are_read(tmp_path: Path) -> None:
    for kind in (0, 2):
        for shape in ((0, 32), (2, 0), (3, 0, 64)):
            found = gguf.load(write(tmp_path, file_of({}, {"x": (kind, shape, b"")}))).tensors["x"]
            assert (tuple(found.shape), found.dtype) == (shape, mt.float32)


def test_keys_are_unique(tmp_path: Path) -> None:
    content = b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + 2 * (text("a") + struct.pack("<II", 4, 1))
    with pytest.raises(ValueError, match="keys are unique, got 'a'"):
        gguf.load(write(tmp_path, content))


def test_nested_arrays_end(tmp_path: Path) -> None:
    raw = struct.pack("<IQ", 9, 1) * 200
    content = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("a") + struct.pack("<I", 9) + raw
    with pytest.raises(ValueError, match="nested at most 4 times"):
        gguf.load(write(tmp_path, content))


# The tokenizer

MERGES = ["l o", "lo w", "Ġ low", "e r", "low er", "Ġ lower"]
TOKENS = [*(gguf._LETTERS), "lo", "low", "Ġlow", "er", "lower", "Ġlower", "<|end|>"]


def tokenizer(pre: str = "gpt-2", **others: Any) -> gguf.Tokenizer:
    kinds = [1] * (len(TOKENS) - 1) + [3]
    values = {"model": "gpt2", "pre": pre, "tokens": TOKENS, "merges": MERGES, "token_type": kinds, **others}
    return gguf.Tokenizer({f"tokenizer.ggml.{name}": value for name, value in values.items()})


def test_merges_go_by_rank() -> None:
    """The least rank first, wherever it is: "lower" is never "Ġlow" and "er", since "low er" ranks before."""
    found = tokenizer()
    assert [TOKENS[each] for each in found.encode("low lower")] == ["low", "Ġlow", "er"]
    assert [TOKENS[each] for each in found.encode("lowerlow")] == ["lower", "low"]


@pytest.mark.parametrize(
    "sentence", ["low 12", "a  b\n\n c ", "Hé wörld 日本", "it's we'll", " ", "", "x²³½", "<|end|>low"]
)
@pytest.mark.parametrize("pre", ["gpt-2", "smollm"])
def test_texts_return(sentence: str, pre: str) -> None:
    found = tokenizer(pre)
    assert found.decode(found.encode(sentence)) == sentence


def test_words() -> None:
    words = lambda sentence, apart: list(gguf._words(sentence, apart))  # noqa: E731
    assert words("We'll pay  $12 now\n\n x", False) == ["We", "'ll", " pay", " ", " $", "12", " now", "\n\n", " x"]
    assert words("pay 12  3", True) == ["pay", " ", "1", "2", "  ", "3"]
    assert words("a \n b  ", False) == ["a", " \n", " b", "  "]


def test_special_tokens_are_found_in_texts() -> None:
    found = tokenizer()
    assert found.encode("low<|end|>")[-1] == TOKENS.index("<|end|>")
    assert found.special == {"<|end|>": len(TOKENS) - 1}


def test_unknown_tokenizers_are_refused() -> None:
    with pytest.raises(ValueError, match="must be 'gpt2', byte-level BPE, got 'llama'"):
        tokenizer(model="llama")
    with pytest.raises(ValueError, match=r"must have tokenizer\.ggml\.merges"):
        tokenizer(merges=None)
    with pytest.raises(ValueError, match="must have the result of each merge, got no 'owe'"):
        tokenizer(merges=["ow e"])
    without = tokenizer(tokens=[each for each in TOKENS if each != "Ą"])  # SmolLM2's file lacks this byte too
    assert without.decode(without.encode("low")) == "low"
    with pytest.raises(ValueError, match=r"encode\(\): text must consist of bytes that have tokens, got 0x04"):
        without.encode("low\x04")
    with pytest.raises(ValueError, match=r"tokens, a list of text, got a list of 2 values"):
        tokenizer(tokens=["a", 1])
    with pytest.raises(ValueError, match="merges must be two tokens with a space between, got 'low'"):
        tokenizer(merges=["low"])
    with pytest.raises(ValueError, match=r"encode\(\): tokenizer.ggml.pre must be one of .*, got 'qwen2'"):
        tokenizer("qwen2").encode("x")
    with pytest.raises(ValueError, match=r"decode\(\): ids must be from 0 to 262, got 263"):
        tokenizer().decode([263])
