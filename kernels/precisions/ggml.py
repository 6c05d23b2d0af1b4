"""The block types of ggml, in which GGUF files keep weights: arrays of float32 to bytes and back, bit for bit.

A block of 32 has a scale in float16, the types with _1 also its least number. A block of 256 (the types with _k) has
sub-blocks whose scales are integers of 6 or 8 bits; scale and offset of each are searched for the least squared error
by the loops of `ggml_loops`. Source: `ggml-quants.c` of ggml (the functions `quantize_row_*_ref`), without an
importance matrix.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Block(NamedTuple):
    """A block type: its number in files, how many values a block has, and its bytes."""

    number: int
    length: int
    size: int


BLOCKS = {
    "q4_0": Block(2, 32, 18), "q4_1": Block(3, 32, 20), "q5_0": Block(6, 32, 22), "q5_1": Block(7, 32, 24),
    "q8_0": Block(8, 32, 34), "q4_k": Block(12, 256, 144), "q5_k": Block(13, 256, 176), "q6_k": Block(14, 256, 210),
}  # fmt: skip
"""The block types by name."""

INSTEAD = {"q4_k": "q5_0", "q5_k": "q5_1", "q6_k": "q8_0"}
"""What llama-quantize takes for a weight whose K a block of 256 does not divide."""


def quantize(x: np.ndarray, name: str) -> np.ndarray:
    """float32 (..., K) as bytes (..., K / length * size).

    Raises ValueError for an unknown type, Inf or NaN, and a length that does not divide K.
    """
    block = _block("quantize", name)
    if x.shape[-1] % block.length:
        raise ValueError(f"quantize(): K must be a multiple of {block.length} for {name}, got {x.shape[-1]}")
    if not np.isfinite(x).all():
        raise ValueError(f"quantize(): x must be finite, since {name} holds no Inf or NaN, got one")
    values = np.ascontiguousarray(x, np.float32).reshape(-1, block.length)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        packed = (_quantize_k if name.endswith("k") else _quantize_32)(values, name)
    return packed.reshape(*x.shape[:-1], x.shape[-1] // block.length * block.size)


def dequantize(packed: np.ndarray, name: str) -> np.ndarray:
    """Bytes (..., count * size) as float32 (..., count * length). Raises ValueError for parts of blocks."""
    block = _block("dequantize", name)
    if packed.shape[-1] % block.size:
        raise ValueError(
            f"dequantize(): the last dimension must be a multiple of {block.size} bytes for {name}, "
            f"got {packed.shape[-1]}"
        )
    found = (_dequantize_k if name.endswith("k") else _dequantize_32)(packed.reshape(-1, block.size), name)
    return found.reshape(*packed.shape[:-1], packed.shape[-1] // block.size * block.length)


def _block(function: str, name: str) -> Block:
    if name not in BLOCKS:
        raise ValueError(f"{function}(): name must be one of {', '.join(BLOCKS)}, got {name!r}")
    return BLOCKS[name]


def _half(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float16).view(np.uint8).reshape(len(x), -1)


def _single(packed: np.ndarray, start: int) -> np.ndarray:
    """The float16 at a place of each block, as a column of float32."""
    return np.ascontiguousarray(packed[:, start : start + 2]).view(np.float16).astype(np.float32)


# Blocks of 32


def _quantize_32(x: np.ndarray, name: str) -> np.ndarray:
    bits, offset = int(name[1]), name[3] == "1"
    if offset:
        low = x.min(1, keepdims=True)
        step = (x.max(1, keepdims=True) - low) / np.float32(2**bits - 1)
        head, counted = [_half(step), _half(low)], (x - low) * _inverse(step) + np.float32(0.5)
    elif bits == 8:
        step = np.abs(x).max(1, keepdims=True) / np.float32(127)
        scaled = x * _inverse(step)
        whole = np.floor(np.abs(scaled))
        rounded = np.copysign(whole + np.floor(2 * (np.abs(scaled) - whole)), scaled)  # ties away from zero
        return np.concatenate([_half(step), rounded.astype(np.int8).view(np.uint8)], 1)
    else:
        largest = np.take_along_axis(x, np.abs(x).argmax(1)[:, None], 1)
        step = largest / np.float32(-(2 ** (bits - 1)))
        head, counted = [_half(step)], x * _inverse(step) + np.float32(2 ** (bits - 1) + 0.5)
    codes = np.trunc(counted).astype(np.uint8).clip(0, 2**bits - 1)
    if bits == 5:
        head.append(np.packbits(codes >> 4, axis=1, bitorder="little"))
    return np.concatenate([*head, codes[:, :16] & 15 | codes[:, 16:] << 4], 1)


def _inverse(step: np.ndarray) -> np.ndarray:
    return np.where(step == 0, np.float32(0), np.float32(1) / step)


def _dequantize_32(packed: np.ndarray, name: str) -> np.ndarray:
    bits, offset = int(name[1]), name[3] == "1"
    step, rest = _single(packed, 0), packed[:, 4 if offset else 2 :]
    if bits == 8:
        return step * rest.view(np.int8)
    codes = np.concatenate([rest[:, -16:] & 15, rest[:, -16:] >> 4], 1)
    if bits == 5:
        codes |= np.unpackbits(np.ascontiguousarray(rest[:, :4]), axis=1, bitorder="little") << 4
    if offset:
        return step * codes + _single(packed, 2)
    return step * (codes.astype(np.int8) - np.int8(2 ** (bits - 1)))


# Blocks of 256


def _quantize_k(x: np.ndarray, name: str) -> np.ndarray:
    from . import ggml_loops as loops

    count, bits = len(x), int(name[1])
    codes = np.empty(x.shape, np.uint8)
    if bits == 6:
        heads, scales = np.empty(count, np.float32), np.empty((count, 16), np.int8)
        loops.search_symmetric(x, codes, heads, scales)
        low = codes.reshape(count, 2, 4, 32)
        nibbles = low[:, :, :2] & 15 | (low[:, :, 2:] & 15) << 4
        high = low >> 4 << np.array([0, 2, 4, 6], np.uint8)[:, None]
        upper = np.bitwise_or.reduce(high, 2)
        parts = nibbles.reshape(count, 128), upper.reshape(count, 64), scales.view(np.uint8), _half(heads[:, None])
        return np.concatenate(parts, 1)
    tops, numbers = np.empty((count, 2), np.float32), np.empty((count, 2, 8), np.uint8)
    loops.search_affine(x, codes, tops, numbers, bits)
    scale, least = numbers[:, 0], numbers[:, 1]
    bytes_of_scales = [scale[:, :4] | scale[:, 4:] >> 4 << 6, least[:, :4] | least[:, 4:] >> 4 << 6]
    bytes_of_scales.append(scale[:, 4:] & 15 | (least[:, 4:] & 15) << 4)
    pairs = codes.reshape(count, 4, 2, 32)
    parts = [_half(tops), *bytes_of_scales]
    if bits == 5:
        upper = pairs >> 4 << np.arange(8, dtype=np.uint8).reshape(4, 2, 1)
        parts.append(np.bitwise_or.reduce(upper.reshape(count, 8, 32), 1))
    parts.append((pairs[:, :, 0] & 15 | (pairs[:, :, 1] & 15) << 4).reshape(count, 128))
    return np.concatenate(parts, 1)


def _dequantize_k(packed: np.ndarray, name: str) -> np.ndarray:
    count, bits = len(packed), int(name[1])
    if bits == 6:
        nibbles, upper = packed[:, :128].reshape(count, 2, 2, 32), packed[:, 128:192].reshape(count, 2, 1, 32)
        codes = np.concatenate([nibbles & 15, nibbles >> 4], 2)
        codes |= (upper >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3) << 4
        scales = _single(packed, 208) * packed[:, 192:208].view(np.int8)
        values = scales[:, :, None] * (codes.astype(np.int8) - np.int8(32)).reshape(count, 16, 16)
        return values.reshape(count, 256)
    first, second, last = packed[:, 4:8], packed[:, 8:12], packed[:, 12:16]
    scale = np.concatenate([first & 63, last & 15 | first >> 6 << 4], 1)
    least = np.concatenate([second & 63, last >> 4 | second >> 6 << 4], 1)
    steps, offsets = _single(packed, 0) * scale, _single(packed, 2) * least
    pairs = packed[:, -128:].reshape(count, 4, 1, 32)
    codes = np.concatenate([pairs & 15, pairs >> 4], 2).reshape(count, 8, 32)
    if bits == 5:
        codes |= (packed[:, 16:48].reshape(count, 1, 32) >> np.arange(8, dtype=np.uint8)[:, None] & 1) << 4
    return (steps[:, :, None] * codes - offsets[:, :, None]).reshape(count, 256)
