"""Checkpoints in the safetensors format, whole or in shards with an index (extra `safetensors`).

    model.load_state_dict(interop.safetensors.load_file("model.safetensors.index.json"))

The `safetensors` package reads and checks a file's header: types, shapes, and that the tensors fill the file without
gaps. Where each lies follows from that, and NumPy maps the file, so that types that NumPy lacks are read too.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import safetensors

from ..kernels.runtime.files import write_files
from ..ops.creation.from_data import refuse_device
from ..ops.names import from_numpy
from ..tensor import dtypes
from ..tensor.dtypes import DType, float4_e2m1fn_x2
from ..tensor.size import MOST_ELEMENTS
from ..tensor.tensor import Tensor, kind_of
from .scaled_checkpoints import Stored, Weights

__all__ = ["load_file", "load_weights", "safe_open", "save_file"]

_DTYPES = {
    "BOOL": dtypes.bool_, "U8": dtypes.uint8, "I8": dtypes.int8, "U16": dtypes.uint16, "I16": dtypes.int16,
    "U32": dtypes.uint32, "I32": dtypes.int32, "U64": dtypes.uint64, "I64": dtypes.int64, "F16": dtypes.float16,
    "BF16": dtypes.bfloat16, "F32": dtypes.float32, "F64": dtypes.float64, "C64": dtypes.complex64,
    "F8_E4M3": dtypes.float8_e4m3fn, "F8_E5M2": dtypes.float8_e5m2, "F8_E4M3FNUZ": dtypes.float8_e4m3fnuz,
    "F8_E5M2FNUZ": dtypes.float8_e5m2fnuz, "F8_E8M0": dtypes.float8_e8m0fnu, "F4": float4_e2m1fn_x2,
}  # fmt: skip
"""By the format's own names."""

_INDEX = ".index.json"


# Reading


class _Place(NamedTuple):
    """The location of a tensor in a file."""

    dtype: DType
    shape: tuple[int, ...]
    start: int


class _File:
    """One file, mapped into memory."""

    def __init__(self, function: str, path: Path) -> None:
        self.path = path
        try:
            with safetensors.safe_open(path, framework="np") as file:
                self.metadata: dict[str, str] = file.metadata() or {}
                found = {name: file.get_slice(name) for name in file.offset_keys()}
                self.places = dict(self._places(function, found))
        except safetensors.SafetensorError as error:
            raise ValueError(f"{function}(): {os.fspath(path)!r} must be a safetensors file, got {error}") from None
        self._memory = np.memmap(path, np.uint8, "r")

    def _places(self, function: str, slices: Mapping[str, Any]) -> Iterator[tuple[str, _Place]]:
        """Each tensor, in the order of the file, which they fill behind the header."""
        with open(self.path, "rb") as file:
            start = 8 + int.from_bytes(file.read(8), "little")
        for name, found in slices.items():
            code, shape = found.get_dtype(), tuple(found.get_shape())
            where = f"{function}(): {name!r} in {os.fspath(self.path)!r} must have"
            if code not in _DTYPES:
                raise ValueError(f"{where} one of the types {', '.join(_DTYPES)}, got {code}")
            if math.prod(filter(None, shape)) > MOST_ELEMENTS:
                raise ValueError(f"{where} a shape that fits into memory, got {list(shape)}")
            dtype = _DTYPES[code]
            if dtype is float4_e2m1fn_x2:  # two numbers a byte
                shape = (*shape[:-1], shape[-1] // 2)
            yield name, _Place(dtype, shape, start)
            start += math.prod(shape) * dtype.itemsize

    def map(self, name: str) -> np.ndarray:
        """A tensor as an array in the file's pages, which cannot be written to."""
        dtype, shape, start = self.places[name]
        return self._memory[start : start + math.prod(shape) * dtype.itemsize].view(dtype.dtype).reshape(shape)


class _Slice:
    """A tensor of a file; an index reads only the part that it selects."""

    def __init__(self, array: np.ndarray, dtype: DType) -> None:
        self._array, self._dtype = array, dtype

    def get_shape(self) -> list[int]:
        """The sizes."""
        return list(self._array.shape)

    def get_dtype(self) -> DType:
        """The type of the elements."""
        return self._dtype

    def __getitem__(self, index: Any) -> Tensor:
        return from_numpy(np.array(self._array[index]))


class safe_open:
    """The tensors of a file, or of the shards of an index, read on demand.

        with safe_open("model.safetensors") as file:
            rows = file.get_slice("embedding")[:100]

    Raises ValueError for a damaged file, and for an index that names files outside its folder.
    """

    def __init__(self, filename: str | os.PathLike[str], framework: str = "mt", device: Any = "cpu") -> None:
        refuse_device(device)
        if framework not in ("mt", "pt"):
            raise ValueError(f"safe_open(): framework must be 'mt', or 'pt', which means the same, got {framework!r}")
        self._files = _files_of("safe_open", filename)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._files = {}

    def keys(self) -> list[str]:
        """The names of the tensors."""
        return list(self._files)

    def metadata(self) -> dict[str, str]:
        """The file's metadata; of all shards together."""
        return {key: text for file in dict.fromkeys(self._files.values()) for key, text in file.metadata.items()}

    def get_tensor(self, name: str) -> Tensor:
        """A tensor, in memory of its own. Raises KeyError for a name that is not in the file."""
        return from_numpy(np.array(self._of(name).map(name)))

    def get_slice(self, name: str) -> _Slice:
        """A tensor that is read in parts by `[...]`. Raises KeyError for an unknown name."""
        file = self._of(name)
        return _Slice(file.map(name), file.places[name].dtype)

    def _of(self, name: str) -> _File:
        if name not in self._files:
            raise KeyError(f"tensor {name!r} is not in the file, or the file is closed")
        return self._files[name]


def load_file(filename: str | os.PathLike[str], device: Any = "cpu") -> dict[str, Tensor]:
    """All tensors by name, in memory of their own, of a file or of the shards of an index (`*.index.json`).

    Raises ValueError for a file that is damaged, and for an index that names files outside of its folder.
    """
    refuse_device(device)
    return {name: from_numpy(np.array(file.map(name))) for name, file in _files_of("load_file", filename).items()}


def load_weights(filename: str | os.PathLike[str], dtype: Any = dtypes.float32) -> Weights:
    """The tensors of a file or of the shards of an index by the model's names, those of 4 and 8 bits multiplied by
    their scales (`interop.scaled_checkpoints`), in a dtype.

    A mapping: nothing but headers is read before a tensor is asked for, and the scales are not tensors of their own.
    Raises ValueError, with the path, for damaged files and for scales that do not fit.
    """
    files = _files_of("load_weights", filename)
    stored = {name: Stored(*file.places[name][:2]) for name, file in files.items()}
    return Weights(os.fspath(filename), stored, lambda name: files[name].map(name), dtypes.to_dtype(dtype))


def _files_of(function: str, filename: str | os.PathLike[str]) -> dict[str, _File]:
    """The file of each tensor."""
    path = Path(filename)
    if not path.name.endswith(_INDEX):
        file = _File(function, path)
        return dict.fromkeys(file.places, file)
    try:
        names = json.loads(path.read_bytes())["weight_map"]
        if not all(isinstance(each, str) for each in (*names, *names.values())):
            raise TypeError
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        wanted = "a JSON object with the names of files by those of tensors in 'weight_map'"
        raise ValueError(f"{function}(): {path.name!r} must be {wanted}, got something else") from None
    files = {each: _File(function, _shard(function, path, each)) for each in sorted(set(names.values()))}
    for name, shard in names.items():
        if name not in files[shard].places:
            raise ValueError(f"{function}(): {path.name!r} says that {name!r} is in {shard!r}, which does not have it")
    return {name: files[shard] for name, shard in names.items()}


def _shard(function: str, index: Path, name: str) -> Path:
    """The path of a shard. Raises ValueError unless it is a file in the folder of the index."""
    if Path(name).name != name or "\0" in name or not (index.parent / name).is_file():
        raise ValueError(f"{function}(): shards must be files in the folder of {index.name!r}, got {name!r}")
    return index.parent / name


# Writing


def save_file(
    tensors: Mapping[str, Tensor],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
    *,
    max_shard_size: int | None = None,
) -> None:
    """Write tensors by name.

    With `max_shard_size`, in bytes, `filename` is an index (`*.safetensors.index.json`), and the tensors go to files
    beside it, each of at most that size or with one tensor. Files are replaced only when complete. Raises TypeError for
    values that are not tensors, RuntimeError for tensors that share memory, and ValueError for dtypes that the format
    lacks.
    """
    arrays = {name: _array(name, each) for name, each in tensors.items()}
    _refuse_shared(arrays)
    if metadata is not None and not all(isinstance(each, str) for each in (*metadata, *metadata.values())):
        raise TypeError(f"save_file(): metadata must be text by names, got {dict(metadata)!r}")
    path = Path(filename)
    if max_shard_size is None:
        write_files({path: _writer(arrays, metadata)})
        return
    if not path.name.endswith(f".safetensors{_INDEX}"):
        raise ValueError(f"save_file(): filename must end in '.safetensors{_INDEX}' for shards, got {path.name!r}")
    shards = _shards(arrays, max_shard_size)
    stem = path.name.removesuffix(f".safetensors{_INDEX}")
    names = [f"{stem}-{number:05d}-of-{len(shards):05d}.safetensors" for number in range(1, len(shards) + 1)]
    index = {
        "metadata": {"total_size": sum(each.nbytes for each in arrays.values())},
        "weight_map": {name: file for file, shard in zip(names, shards, strict=True) for name in shard},
    }
    writers = {path.with_name(name): _writer(shard, metadata) for name, shard in zip(names, shards, strict=True)}
    write_files({**writers, path: lambda file: file.write(json.dumps(index, indent=2).encode())})


def _array(name: str, tensor: Any) -> np.ndarray:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"save_file(): {name!r} must be a Tensor, got {kind_of(tensor)}")
    if tensor.dtype not in _DTYPES.values():
        raise ValueError(
            f"save_file(): {name!r} must have one of the types {', '.join(map(repr, _DTYPES.values()))}, got "
            f"{tensor.dtype!r}"
        )
    return tensor.detach().numpy()


def _refuse_shared(arrays: Mapping[str, np.ndarray]) -> None:
    """Raise RuntimeError for a tensor that has memory in common with one that starts before it."""
    filled = [(name, each) for name, each in arrays.items() if each.size]
    spans = sorted((*np.lib.array_utils.byte_bounds(each), name) for name, each in filled)
    reach, furthest = 0, ""
    for start, end, name in spans:
        if start < reach and np.shares_memory(arrays[furthest], arrays[name]):
            raise RuntimeError(f"save_file(): {furthest!r} and {name!r} share memory; clone one of them")
        if end > reach:
            reach, furthest = end, name


def _shards(arrays: Mapping[str, np.ndarray], most: int) -> list[dict[str, np.ndarray]]:
    """The tensors in order, each in the last shard if it fits in there, or else in a new one."""
    if not isinstance(most, int) or most < 1:
        raise ValueError(f"save_file(): max_shard_size must be a positive integer, got {most!r}")
    shards: list[dict[str, np.ndarray]] = [{}]
    room = most
    for name, array in arrays.items():
        if array.nbytes > room and shards[-1]:
            shards.append({})
            room = most
        shards[-1][name] = array
        room -= array.nbytes
    return shards


def _writer(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None) -> Callable[[Any], None]:
    def write(file: Any) -> None:
        dense = {name: np.ascontiguousarray(each).reshape(each.shape) for name, each in arrays.items()}
        specs = {name: _spec(each) for name, each in dense.items()}
        safetensors.serialize_file(specs, file.name, dict(metadata) if metadata is not None else None)

    return write


def _spec(array: np.ndarray) -> Any:
    return safetensors.TensorSpec(
        dtype=dtypes.dtype_of(array).name, shape=array.shape, data_ptr=array.ctypes.data, data_len=array.nbytes
    )
