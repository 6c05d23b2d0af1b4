"""Reading ONNX files: every declared size is compared with the available bytes before memory is allocated.

An untrusted file may declare tensors of any size, name data files anywhere on the disk, and define functions that call
each other in a circle. Each raises a ValueError that names the part of the file.
"""

from __future__ import annotations

import math
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import inliner, numpy_helper

from ...ops.names import from_numpy
from ...tensor.dtypes import DType, dtypes
from ...tensor.tensor import Tensor

OPSETS = range(9, 29)
"""The versions of the standard operators that are read."""

_MOST_NODES = 1_000_000
"""The largest number of nodes of a model, after inlining functions."""

Folder = Path | None
"""The folder of a model's external data; None for a model without a file."""


def read_model(f: Any) -> tuple[onnx.ModelProto, Folder]:
    """The message in a file, with the calls of its functions replaced by their bodies, and the file's folder."""
    if isinstance(f, onnx.ModelProto):
        model, folder = f, None
    elif isinstance(f, (str, os.PathLike)):
        path = Path(f)
        model, folder = _parse(path), path.parent
    else:
        raise TypeError(f"load(): f must be a path or an onnx.ModelProto, got {type(f).__name__}")
    if not model.HasField("graph") or not model.opset_import:
        raise ValueError("load(): the file must be an ONNX model with a graph and a version of its operators, got none")
    if opset_of(model) not in OPSETS:
        raise ValueError(
            f"load(): the opset must be {OPSETS[0]} to {OPSETS[-1]}, got {opset_of(model)}; convert the model with "
            "onnx.version_converter"
        )
    if not model.functions:
        return model, folder
    _check_functions(model)
    try:
        return inliner.inline_local_functions(model), folder
    except Exception as error:  # of a C++ library
        raise ValueError(f"load(): the functions of the model cannot be put in their places: {error}") from None


def _parse(path: Path) -> onnx.ModelProto:
    data, model = path.read_bytes(), onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        raise ValueError(f"load(): {os.fspath(path)!r} must be an ONNX file, and cannot be decoded as one") from None
    return model


def is_standard(domain: str) -> bool:
    return domain in ("", "ai.onnx")


def opset_of(model: onnx.ModelProto) -> int:
    """The version of the standard operators; 0 if the model uses none."""
    return next((each.version for each in model.opset_import if is_standard(each.domain)), 0)


def _check_functions(model: onnx.ModelProto) -> None:
    """Raise ValueError for functions that call themselves, or that call each other so often that no memory holds it."""
    functions = {(each.domain, each.name): each for each in model.functions}
    sizes: dict[tuple[str, str], int | None] = {}

    def size(nodes: Any) -> int:
        return sum(1 + calls((node.domain, node.op_type)) + sum(map(size, _bodies(node))) for node in nodes)

    def calls(key: tuple[str, str]) -> int:
        if key not in functions:
            return 0
        if key not in sizes:
            sizes[key] = None
            sizes[key] = size(functions[key].node)
        found = sizes[key]
        if found is None:
            raise ValueError(f"load(): the function {key[1]!r} of the model calls itself")
        return found

    try:
        total = size(model.graph.node)
    except RecursionError:
        raise ValueError("load(): the functions of the model call each other more than some hundred deep") from None
    if total > _MOST_NODES:
        raise ValueError(f"load(): the model must have at most {_MOST_NODES} nodes with its functions, got {total}")


def _bodies(node: onnx.NodeProto) -> list[Any]:
    return [attribute.g.node for attribute in node.attribute if attribute.HasField("g")]


# Tensors


def dtype_of(element: int, what: str) -> DType:
    """The type of tensors here for one of ONNX's. Raises ValueError for types that tensors do not hold."""
    try:
        name = onnx.helper.tensor_dtype_to_np_dtype(element).name
    except (KeyError, ValueError):
        name = f"number {element}"
    if name not in dtypes:
        name = onnx.TensorProto.DataType.Name(element) if element in onnx.TensorProto.DataType.values() else name
        raise ValueError(f"load(): {what} must have one of the types {', '.join(dtypes)}, got {name}")
    return dtypes[name]


def tensor_of(proto: onnx.TensorProto, folder: Folder) -> Tensor:
    """The tensor in a message, in memory of its own."""
    what = f"the tensor {proto.name!r}" if proto.name else "a tensor of the model"
    shape, dtype = tuple(proto.dims), dtype_of(proto.data_type, what)
    if min(shape, default=0) < 0:
        raise ValueError(f"load(): {what} must have sizes of at least 0, got {list(shape)}")
    count = math.prod(shape)
    needed = count * dtype.itemsize
    if proto.data_location == onnx.TensorProto.EXTERNAL:
        data = _external(proto, what, folder, needed)
        return from_numpy(np.frombuffer(data, dtype.dtype.newbyteorder("<")).astype(dtype.dtype).reshape(shape))
    if proto.HasField("raw_data"):
        _check_size(what, shape, needed, len(proto.raw_data), "bytes")
    else:
        field = getattr(proto, onnx.helper.tensor_dtype_to_field(proto.data_type))
        parts = 2 if dtype.is_complex else 1
        _check_size(what, shape, count * parts, len(field), "numbers")
    array = numpy_helper.to_array(proto)
    return from_numpy(np.array(array, dtype.dtype, copy=True))


def _check_size(what: str, shape: tuple[int, ...], needed: int, found: int, unit: str) -> None:
    if needed != found:
        raise ValueError(f"load(): {what} of shape {list(shape)} must have {needed} {unit}, and the file has {found}")


def _external(proto: onnx.TensorProto, what: str, folder: Folder, needed: int) -> bytearray:
    """The bytes of a tensor in an external file."""
    entries = {each.key: each.value for each in proto.external_data}
    path = _path_in(folder, entries.get("location", ""), what)
    try:
        offset = int(entries.get("offset") or 0)
        length = int(entries.get("length") or needed)
    except ValueError:
        raise ValueError(f"load(): the offset and length of {what} must be integers, got {entries}") from None
    _check_size(what, tuple(proto.dims), needed, length, "bytes")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if not 0 <= offset <= size - length:
            raise ValueError(
                f"load(): {what} must lie in {path.name!r} of {size} bytes, got {length} bytes from {offset}"
            )
        data = bytearray(length)
        file.seek(offset)
        if file.readinto(data) != length:
            raise ValueError(f"load(): {path.name!r} ended within {what}")
    return data


def _path_in(folder: Folder, location: str, what: str) -> Path:
    """The file of external data. Raises ValueError unless it is a plain file in the model's folder."""
    if folder is None:
        raise ValueError(f"load(): {what} is outside of the model; load the model by the path of its file")
    root = folder.resolve()
    try:
        path = (root / location).resolve()
        inside = bool(location) and path.is_relative_to(root) and stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):  # no such file, or a name that is none
        inside = False
    if not inside:
        raise ValueError(f"load(): the data of {what} must be a file in the model's folder, got {location!r}")
    return path
