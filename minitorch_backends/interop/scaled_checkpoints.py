"""Weights of 4 and 8 bits in safetensors files, with the scales beside them: their values, read on demand.

    weights = interop.safetensors.load_weights("model.safetensors.index.json")
    model.load_state_dict(weights)

Stored forms, by the names of tensors; all shapes are checked before a value is read:

* `w` in FP8 or INT8 with `w_scale_inv` of blocks of 128 x 128 (DeepSeek-V3), or `w_scale` of the tensor, of rows or of
  groups along them (compressed-tensors);
* `w_packed` with `w_scale` (compressed-tensors): INT4 or INT8 in int32, E2M1 pairs in bytes with scales in E8M0, or in
  E4M3 behind `w_global_scale` (NVFP4);
* `w_blocks` and `w_scales` (gpt-oss): E2M1 pairs with scales in E8M0, whose last two dimensions are returned exchanged,
  as transformers has these parameters;
* `m._w_qdata` and `m._w_scale` (torchao), in FP8 and INT8;
* `m.qweight`, `m.qzeros` and `m.scales` (GPTQ, AWQ): integers with zero points in int32, whose weight is `m.weight`.

Sources: the checkpoints deepseek-ai/DeepSeek-V3 and openai/gpt-oss-20b; compressed-tensors' compressors;
torchao.prototype.safetensors; QuantLinear of AutoGPTQ and GPTQModel; WQLinear_GEMM of AutoAWQ.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..kernels.precisions.float8 import is_float8, to_float32, unpack
from ..kernels.runtime.files import one_sentence
from ..ops.names import from_numpy
from ..tensor import dtypes
from ..tensor.casting import cast_unchecked
from ..tensor.dtypes import DType
from ..tensor.tensor import Tensor

Read = Callable[[str], np.ndarray]
"""Returns a tensor of the file by its name."""


class Stored(NamedTuple):
    """The dtype and shape of a tensor in a file."""

    dtype: DType
    shape: tuple[int, ...]


class _Weight(NamedTuple):
    """A weight in the model: the stored form, the tensors that hold it, and how its values follow from them."""

    form: str
    parts: tuple[str, ...]
    values: Callable[[Read], np.ndarray]


class Weights(Mapping[str, Tensor]):
    """The tensors of `load_weights` by the model's names. Each is read when it is asked for, in memory of its own."""

    def __init__(self, path: str, stored: Mapping[str, Stored], read: Read, dtype: DType) -> None:
        self._read, self._dtype, self._stored = read, dtype, stored
        self._weights: dict[str, _Weight] = {}
        for name, weight in _find(path, stored):
            if name in self._weights or (name in stored and name not in weight.parts):
                raise ValueError(f"load_weights(): {path!r} must hold {name!r} once, got it in two forms")
            self._weights[name] = weight
        held = {part for each in self._weights.values() for part in each.parts}
        self._names = [*self._weights, *(name for name in stored if name not in held)]

    def __getitem__(self, name: str) -> Tensor:
        weight = self._weights.get(name)
        if weight is None:
            if name not in self._names:
                raise KeyError(name)
            return from_numpy(np.array(self._read(name)))
        return from_numpy(cast_unchecked(np.ascontiguousarray(weight.values(self._read)), self._dtype.dtype))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def form_of(self, name: str) -> str:
        """How a tensor is stored: a sentence for one with scales, otherwise its dtype."""
        return self._weights[name].form if name in self._weights else self._stored[name].dtype.name


def _find(path: str, stored: Mapping[str, Stored]) -> Iterator[tuple[str, _Weight]]:
    """Each weight with scales."""
    for name, (dtype, _) in stored.items():
        stem = name.removesuffix("_packed")
        owner, _, last = name.rpartition(".")
        is_bytes = dtype is dtypes.uint8
        if is_bytes and name.endswith("_blocks") and (scales := f"{name.removesuffix('_blocks')}_scales") in stored:
            yield name.removesuffix("_blocks"), _of_blocks(path, stored, name, scales)
        elif stem != name and f"{stem}_scale" in stored:
            yield stem, _of_packed(path, stored, stem)
        elif last.endswith("_qdata") and last.startswith("_") and f"{name.removesuffix('qdata')}scale" in stored:
            own = f"{owner}{'.' * bool(owner)}{last[1:].removesuffix('_qdata')}"
            yield own, _of_numbers(path, stored, name, f"{name.removesuffix('qdata')}scale")
        elif (
            last == "qweight"
            and f"{(own := name.removesuffix('qweight'))}qzeros" in stored
            and f"{own}scales" in stored
        ):
            yield f"{own}weight", _of_zero_points(path, stored, own)
        elif is_float8(dtype.dtype) or dtype is dtypes.int8:
            scale = next((each for each in (f"{name}_scale_inv", f"{name}_scale") if each in stored), None)
            if scale is not None:
                yield name, _of_numbers(path, stored, name, scale)


def _refuse(path: str, name: str, expectation: str, got: object) -> ValueError:
    return ValueError(f"load_weights(): {path!r} must have {name!r} {expectation}, got {got}")


def _floats(array: np.ndarray) -> np.ndarray:
    return to_float32(array) if is_float8(array.dtype) else array.astype(np.float32)


def _of_numbers(path: str, stored: Mapping[str, Stored], name: str, scale: str) -> _Weight:
    """Numbers with scales of the tensor, of rows, of groups along rows, or of blocks of 128."""
    kind, shape = stored[name]
    if not (is_float8(kind.dtype) or kind is dtypes.int8):
        raise _refuse(path, name, "of FP8 or int8", kind.name)
    if stored[scale].dtype.category < dtypes.float32.category:
        raise _refuse(path, scale, "of a floating-point type", stored[scale].dtype.name)
    block = 128 if scale.endswith("_scale_inv") else 0
    repeats = _repeats(path, scale, stored[scale].shape, shape, block)
    zero = f"{name}_zero_point"
    if zero in stored:
        raise _refuse(path, zero, "absent, for symmetric numbers", f"shape {list(stored[zero].shape)}")

    def values(read: Read) -> np.ndarray:
        return _scale(_floats(read(name)), _floats(read(scale)), repeats)

    return _Weight(f"{kind.name}, scales of shape {list(stored[scale].shape)}", (name, scale), values)


def _repeats(path: str, name: str, scales: tuple[int, ...], shape: tuple[int, ...], block: int) -> list[int]:
    """How many neighbours share a scale, along each dimension of a tensor; empty for one scale of all."""
    if math.prod(scales) == 1:
        return []
    scales = (*scales, *(1,) * (len(shape) - len(scales))) if block == 0 else scales
    repeats = []
    for count, size in zip(scales, shape, strict=False):
        repeats.append(block or (-(-size // count) if count else 0))
    fits = len(scales) == len(shape) and all(
        count > 0 and -(-size // each) == count and (block or size % count == 0)
        for count, size, each in zip(scales, shape, repeats, strict=True)
        if each
    )
    if not fits or 0 in repeats:
        what = f"in blocks of {block}" if block else "of rows or groups"
        raise _refuse(path, name, f"with scales {what} of a tensor of shape {list(shape)}", f"shape {list(scales)}")
    return repeats


def _scale(numbers: np.ndarray, scales: np.ndarray, repeats: list[int]) -> np.ndarray:
    """Numbers times the scales of their blocks, in float32."""
    if not repeats:
        return numbers * scales.reshape(())
    scales = scales.reshape(*scales.shape, *(1,) * (numbers.ndim - scales.ndim))
    for axis, count in enumerate(repeats):
        if scales.shape[axis] > 1 and count > 1:
            scales = np.repeat(scales, count, axis).take(range(numbers.shape[axis]), axis)
    return numbers * scales


def _powers(codes: np.ndarray) -> np.ndarray:
    """The values of E8M0."""
    return to_float32(codes.view(dtypes.float8_e8m0fnu.dtype))


def _of_blocks(path: str, stored: Mapping[str, Stored], name: str, scales: str) -> _Weight:
    (kind, shape), (of_scales, groups) = stored[name], stored[scales]
    if kind is not dtypes.uint8 or of_scales is not dtypes.uint8 or len(shape) < 3 or shape[:-1] != groups:
        raise _refuse(path, name, f"of uint8 (..., {groups[-1] if groups else 'groups'}, bytes of a group) beside "
                      f"uint8 scales {list(groups)}", f"{kind.name} {list(shape)} and {of_scales.name}")  # fmt: skip

    def values(read: Read) -> np.ndarray:
        found = unpack(read(name), len(shape) - 1) * _powers(read(scales))[..., None]
        return found.reshape(*shape[:-2], -1).swapaxes(-1, -2)

    return _Weight("E2M1 in groups of 32, scales in E8M0", (name, scales), values)


def _of_packed(path: str, stored: Mapping[str, Stored], stem: str) -> _Weight:
    """compressed-tensors' packed weights: words of int32, or bytes of two E2M1."""
    name, scale = f"{stem}_packed", f"{stem}_scale"
    (kind, shape), (of_scale, groups) = stored[name], stored[scale]
    parts = [name, scale, *(each for end in ("shape", "global_scale") if (each := f"{stem}_{end}") in stored)]
    for end in ("zero_point", "g_idx"):
        if f"{stem}_{end}" in stored:
            raise _refuse(path, f"{stem}_{end}", "absent, for symmetric numbers in order", "it")
    if len(shape) != 2 or len(groups) != 2 or groups[0] != shape[0] or groups[1] < 1:
        raise _refuse(path, scale, f"with a row of scales for each of {shape[0] if shape else 0} rows", list(groups))
    if kind is dtypes.uint8:
        return _of_pairs(path, stored, stem, tuple(parts))
    if kind is not dtypes.int32 or f"{stem}_shape" not in stored or stored[f"{stem}_shape"].shape != (2,):
        raise _refuse(path, name, f"of uint8, or of int32 beside '{stem}_shape' of 2", kind.name)

    def values(read: Read) -> np.ndarray:
        rows, k = map(int, read(f"{stem}_shape"))
        bits = 4 if shape[1] == -(-k // 8) else 8
        if rows != shape[0] or k < 1 or shape[1] != -(-k * bits // 32) or k % groups[1]:
            raise _refuse(path, f"{stem}_shape", f"that fits {list(shape)} words and {list(groups)} scales", [rows, k])
        numbers = _integers(read(name), bits)[:, :k].astype(np.float32) - np.float32(2 ** (bits - 1))
        return _scale(numbers, _floats(read(scale)), [1, k // groups[1]])

    return _Weight(f"integers in int32, scales of shape {list(groups)} in {of_scale.name}", tuple(parts), values)


def _of_pairs(path: str, stored: Mapping[str, Stored], stem: str, parts: tuple[str, ...]) -> _Weight:
    (_, shape), (of_scale, groups) = stored[f"{stem}_packed"], stored[f"{stem}_scale"]
    k, whole = 2 * shape[1], f"{stem}_global_scale"
    is_power = of_scale in (dtypes.uint8, dtypes.float8_e8m0fnu)
    if k % groups[1] or not (is_power or of_scale is dtypes.float8_e4m3fn):
        raise _refuse(path, f"{stem}_scale", f"in E8M0 or E4M3, of groups of {k} numbers", f"{list(groups)}")
    if not is_power and (whole not in stored or math.prod(stored[whole].shape) != 1):
        raise _refuse(path, whole, "with one number", "none" if whole not in stored else list(stored[whole].shape))

    def values(read: Read) -> np.ndarray:
        scales = read(f"{stem}_scale")
        found = _powers(scales) if is_power else _floats(scales) / _floats(read(whole)).reshape(())
        return _scale(unpack(read(f"{stem}_packed"), 1), found, [1, k // groups[1]])

    return _Weight(f"E2M1, scales of shape {list(groups)} in {of_scale.name}", parts, values)


_AWQ_PLACES = [0, 4, 1, 5, 2, 6, 3, 7]
"""Where a word of AWQ has each of eight neighbours."""


def _integers(words: np.ndarray, bits: int) -> np.ndarray:
    """Unsigned numbers in the last dimension's int32, the lowest bits first; those of 3 bits cross words."""
    stream = np.unpackbits(np.ascontiguousarray(words).astype("<i4", copy=False).view(np.uint8), -1, None, "little")
    return np.packbits(stream.reshape(*words.shape[:-1], -1, bits), -1, "little")[..., 0]


def _of_zero_points(path: str, stored: Mapping[str, Stored], owner: str) -> _Weight:
    """GPTQ's words along inputs, and AWQ's along outputs; scales and zero points are (groups of inputs, outputs)."""
    name, zero, scale, order = (f"{owner}{end}" for end in ("qweight", "qzeros", "scales", "g_idx"))
    (kind, shape), (of_zeros, zeros), (of_scale, groups) = stored[name], stored[zero], stored[scale]
    if of_scale.category < dtypes.float32.category or len(groups) != 2 or 0 in groups:
        raise _refuse(path, scale, "of a floating-point type, (groups, outputs)", f"{of_scale.name} {list(groups)}")
    count, outputs = groups
    bits = 32 * zeros[-1] // outputs if zeros else 0
    if of_zeros is not dtypes.int32 or zeros != (count, outputs * bits // 32) or bits not in (2, 3, 4, 8):
        wanted = f"of int32, 2, 3, 4 or 8 bits for each of {list(groups)} scales"
        raise _refuse(path, zero, wanted, f"{of_zeros.name} {list(zeros)}")
    is_gptq = shape[1:] == (outputs,)
    inputs = shape[0] * 32 // bits if is_gptq else shape[0] if shape else 0
    fits = inputs > 0 and (inputs * bits % 32 == 0 if is_gptq else bits == 4 and 8 * shape[-1] == outputs)
    if kind is not dtypes.int32 or len(shape) != 2 or not fits or not (order in stored or inputs % count == 0):
        raise _refuse(path, name, f"of int32 that fits {list(groups)} scales", f"{kind.name} {list(shape)}")
    if order in stored and stored[order] not in [(each, (inputs,)) for each in (dtypes.int32, dtypes.int64)]:
        raise _refuse(path, order, f"with the group of each of {inputs} inputs", list(stored[order].shape))
    first = 1 if is_gptq and not _is_second_format(path) else 0  # such files hold zero points less 1

    def values(read: Read) -> np.ndarray:
        numbers, points = _integers(read(name).T if is_gptq else read(name), bits), _integers(read(zero), bits)
        if not is_gptq:
            numbers, points = (each.reshape(len(each), -1, 8)[..., _AWQ_PLACES] for each in (numbers, points))
            numbers, points = numbers.reshape(inputs, outputs).T, points.reshape(count, outputs)
        group = np.asarray(read(order)) if order in stored else np.arange(inputs) // (inputs // count)
        if group.min() < 0 or group.max() >= count:
            raise _refuse(path, order, f"of numbers from 0 to {count - 1}", [int(group.min()), int(group.max())])
        wide = points.T.astype(np.float32) + np.float32(first)
        return (numbers.astype(np.float32) - wide[:, group]) * _floats(read(scale)).T[:, group]

    parts = tuple(each for each in (name, zero, scale, order) if each in stored)
    return _Weight(f"{'GPTQ' if is_gptq else 'AWQ'} of {bits} bits, scales of shape {list(groups)}", parts, values)


def _is_second_format(path: str) -> bool:
    """Whether the configuration beside a file names GPTQModel's format, which holds zero points as they are."""
    folder, found = Path(path).parent, dict[str, object]()
    for file in (folder / "config.json", folder / "quantize_config.json"):
        if file.is_file():
            with one_sentence(f"load_weights(): {str(file)!r}", "an object of JSON"):
                settings = dict(json.loads(file.read_bytes()))
                found |= dict(settings.get("quantization_config", {} if file.name == "config.json" else settings))
    return found.get("checkpoint_format") == "gptq_v2"
