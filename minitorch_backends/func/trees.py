"""Nested tuples, lists and dicts of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Rebuild = Callable[[Sequence[Any]], Any]


def flat(tree: Any) -> tuple[list[Any], Rebuild]:
    """The tensors in nested tuples, lists and dicts, and a function that puts others in their places."""
    if isinstance(tree, dict):
        leaves, rebuild = flat(list(tree.values()))
        return leaves, lambda new: type(tree)(zip(tree, rebuild(new), strict=True))
    if not isinstance(tree, (tuple, list)):
        return [tree], lambda new: new[0]
    parts = [flat(each) for each in tree]
    ends = np.cumsum([0, *(len(leaves) for leaves, _ in parts)]).tolist()

    def rebuilt(new: Sequence[Any]) -> Any:
        made = [rebuild(new[start:stop]) for (_, rebuild), start, stop in zip(parts, ends[:-1], ends[1:], strict=True)]
        return type(tree)(*made) if hasattr(tree, "_fields") else type(tree)(made)

    return [leaf for leaves, _ in parts for leaf in leaves], rebuilt
