"""The outputs of models and functions as NumPy arrays."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..kernels.runtime.first_use import load


def arrays_of(answer: Any, name: str = "") -> dict[str, np.ndarray]:
    """A function's results as arrays by name: a tensor, an array, a number, or dicts, sequences and dataclasses of
    these. None, text and objects of other classes (caches) are left out of them.

    Raises TypeError where nothing is left.
    """
    found = dict(_arrays(answer, name))
    if not found:
        raise TypeError(f"expected tensors, arrays or numbers as answers, got {type(answer).__name__}")
    return found


def left_out_of(answer: Any, name: str = "") -> dict[str, str]:
    """Parts of an answer that `arrays_of` leaves out: their classes by name, without None."""
    parts = _parts_of(answer)
    if parts is None:
        value = as_array(answer)
        is_kept = value is None or isinstance(value, _NUMBERS)
        return {} if is_kept else {name or "(the whole)": type(answer).__name__}
    found = (left_out_of(part, f"{name}.{key}" if name else str(key)) for key, part in parts)
    return {path: kind for each in found for path, kind in each.items()}


_NUMBERS = (np.ndarray, np.generic, bool, int, float, complex)


def _parts_of(answer: Any) -> list[tuple[Any, Any]] | None:
    """The parts of a container by name or place; None for anything else."""
    if isinstance(answer, Mapping):
        return list(answer.items())
    if isinstance(answer, (tuple, list)):
        return list(enumerate(answer))
    if dataclasses.is_dataclass(answer) and not isinstance(answer, type):
        return [(each.name, getattr(answer, each.name)) for each in dataclasses.fields(answer)]
    return None


def _arrays(answer: Any, name: str) -> list[tuple[str, np.ndarray]]:
    parts = _parts_of(answer)
    if parts is None:
        value = as_array(answer)
        return [(name, np.asarray(value))] if isinstance(value, _NUMBERS) else []
    return [each for key, part in parts for each in _arrays(part, f"{name}.{key}" if name else str(key))]


def as_array(value: Any) -> Any:
    """A tensor of ours or of torch as an array; anything else unchanged."""
    if not hasattr(value, "detach"):
        return value
    value = value.detach()
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return value.numpy()
    value = value.cpu().resolve_conj().resolve_neg()
    try:
        return value.numpy()
    except TypeError:  # NumPy lacks the type; ml_dtypes may have it
        name = str(value.dtype).removeprefix("torch.")
        dtype = np.dtype(getattr(load("ml_dtypes"), name))
        return value.view(torch.int16 if dtype.itemsize == 2 else torch.uint8).numpy().view(dtype)


def module_of(caller: str, model: Any) -> Any:
    """The module that a model is, or whose method (`model.generate`) or pipeline it is. Raises TypeError for others."""
    for each in (model, getattr(model, "__self__", None), getattr(model, "model", None)):
        if hasattr(each, "named_modules"):
            return each
    raise TypeError(f"{caller}(): model must be a Module, a method of one or a pipeline, got {type(model).__name__}")
