"""Weights that are cached from call to call, with their packed forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


class Kept:
    """A weight with its packed forms, which are copies: it must be made anew when the array changes.

    It stands in for the weight's array in calls of the kernels of convolution; implementations that do not pack take
    `array`.
    """

    __slots__ = ("array", "dtype", "forms", "ndim", "shape")

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.shape, self.dtype, self.ndim = array, array.shape, array.dtype, array.ndim
        self.forms: dict[Any, Any] = {}


def array_of(weight: np.ndarray | Kept) -> np.ndarray:
    return weight.array if isinstance(weight, Kept) else weight


def form_of(weight: np.ndarray | Kept, key: Any, make: Callable[[np.ndarray], Any]) -> Any:
    """The packed form of a weight: the cached one if there is one, otherwise made by `make(array)`."""
    if not isinstance(weight, Kept):
        return make(weight)
    form = weight.forms.get(key)
    if form is None:
        form = weight.forms[key] = make(weight.array)
    return form
