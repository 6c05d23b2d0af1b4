"""Slices that a caller names: parts of subscripts, and indices that a tree of cotengra or quimb slices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .equation import label_name
from .plan import Plan


def blocks_of_parts(sizes: Mapping[int, int], parts: Mapping[str, int]) -> dict[int, int]:
    """The size of the blocks of each label, from the numbers of parts of subscripts.

    Raises ValueError for subscripts that the equation lacks, and for numbers that are not from 1 to the size.
    """
    names = {label_name(label): label for label in sizes}
    blocks = {}
    for name, count in parts.items():
        if name not in names:
            known = ", ".join(names)
            raise ValueError(f"einsum_plan(): slices must name subscripts of the equation ({known}), got {name!r}")
        size = sizes[names[name]]
        if type(count) is not int or not 1 <= count <= size:
            raise ValueError(
                f"einsum_plan(): slices[{name!r}] must be a number of parts from 1 to {size}, got {count!r}"
            )
        blocks[names[name]] = -(-size // count)
    return blocks


def blocks_of_tree(plan: Plan, tree: Any) -> dict[int, int]:
    """The labels that a tree of cotengra slices, to single indices; none for other strategies."""
    sliced = getattr(tree, "sliced_inds", None)
    if not sliced or not hasattr(tree, "inputs"):
        return {}
    return {
        label: 1
        for own, term in zip(tree.inputs, plan.inputs, strict=True)
        for index, label in zip(own, term, strict=True)
        if index in sliced
    }
