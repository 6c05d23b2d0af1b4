"""Batches of items, as tensors."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...ops.creation.factories import as_tensor, tensor
from ...ops.views.join import stack
from ...tensor.dtypes import float64
from ...tensor.tensor import Tensor


def _is_text(array: np.ndarray | np.generic) -> bool:
    return array.dtype.kind in "SUO"


def default_convert(data: Any) -> Any:
    """NumPy arrays and numbers as tensors, also those inside mappings and sequences; other objects stay."""
    if isinstance(data, (np.ndarray, np.generic)):
        return data if _is_text(data) else as_tensor(np.asarray(data))
    if isinstance(data, (Tensor, str, bytes)):
        return data
    if isinstance(data, Mapping):
        return _like_mapping(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, Sequence):
        return _like_sequence(data, [default_convert(value) for value in data])
    return data


def default_collate(batch: Sequence[Any]) -> Any:
    """Items as one object with a batch dimension in front.

    Tensors, arrays and numbers become one tensor; of mappings, tuples and lists, the entries do. Texts stay in a list.
    Raises RuntimeError for sequences of several lengths, TypeError for other objects.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(list(batch))
    if isinstance(first, (np.ndarray, np.generic)):
        if _is_text(first):
            raise TypeError(
                f"default_collate(): items must be numbers, got an array of {first.dtype}; give a collate_fn"
            )
        return stack([as_tensor(np.asarray(each)) for each in batch])
    if isinstance(first, float):
        return tensor(list(batch), dtype=float64)
    if isinstance(first, int):
        return tensor(list(batch))
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return _like_mapping(first, {key: default_collate([each[key] for each in batch]) for key in first})
    if isinstance(first, Sequence):
        lengths = {len(each) for each in batch}
        if len(lengths) > 1:
            raise RuntimeError(
                f"default_collate(): items must have equal length, got {sorted(lengths)}; give a collate_fn"
            )
        columns = [default_collate(column) for column in zip(*batch, strict=True)]
        return columns if type(first) is tuple else _like_sequence(first, columns)
    raise TypeError(
        "default_collate(): items must be tensors, arrays, numbers, texts, mappings or sequences, got "
        f"{type(first).__name__}; give a collate_fn"
    )


def _like_mapping(like: Any, entries: dict[Any, Any]) -> Any:
    """A mapping of the same type with other values, or a dict where the type cannot be made."""
    try:
        made = copy.copy(like)
        made.update(entries)
    except (AttributeError, TypeError):
        return entries
    return made


def _like_sequence(like: Any, values: list[Any]) -> Any:
    """A sequence of the same type, or a list where the type cannot be made."""
    make: Callable[..., Any] = type(like)
    try:
        return make(*values) if hasattr(like, "_fields") else make(values)
    except TypeError:
        return values
