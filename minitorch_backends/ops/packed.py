"""Packed and rounded forms of a layer's weight, kept for inference while its version is unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..autograd.versions import writes
from ..tensor.tensor import Tensor

_MOST_FORMS = 4
"""Two formats or precisions, each rounded and packed: what an audit alternates between. A form may be as large as the
weight itself."""


class Forms:
    """Forms of one version of a weight by key; the oldest of more than `_MOST_FORMS` are dropped."""

    __slots__ = ("_found", "array", "version")

    def __init__(self, array: np.ndarray, version: Any) -> None:
        self.array, self.version = array, version
        self._found: dict[tuple, Any] = {}

    def get(self, key: tuple, make: Callable[[], Any]) -> Any:
        """A form, made if it is missing."""
        found = self._found.get(key)
        if found is None:
            for oldest in list(self._found)[: max(0, len(self._found) + 1 - _MOST_FORMS)]:
                self._found.pop(oldest, None)
            found = self._found[key] = make()
        return found


class Packed:
    """Forms of a layer's weight, cached while its memory and version are unchanged.

    Inference with fixed weights rounds and packs once, for each of the last few formats and precisions. In-place
    operations on the weight are detected, also through `weight.data`. Direct writes to the underlying array
    (`weight.detach().numpy()[...] = ...`), or through another tensor made from the same array, are not.
    """

    __slots__ = ("_forms",)

    def __init__(self) -> None:
        self._forms: Forms | None = None

    def __reduce__(self) -> tuple:
        return type(self), ()

    def forms_of(self, weight: Tensor) -> Forms | None:
        """The forms of the weight as it is now; None where its version is unknown."""
        version, forms = writes(weight), self._forms
        if version is None:
            return None
        if forms is None or forms.array is not weight._array or forms.version != version:
            forms = self._forms = Forms(weight._array, version)
        return forms
