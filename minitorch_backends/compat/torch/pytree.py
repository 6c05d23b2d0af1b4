"""`torch.utils._pytree`: nested tuples, lists and dicts, as other libraries use them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["TreeSpec", "tree_flatten", "tree_leaves", "tree_map", "tree_map_only", "tree_unflatten"]


class TreeSpec(NamedTuple):
    """The structure of a tree: None for a leaf, else the container's type, its keys or None, and its children."""

    type: Any
    context: Any
    children_specs: list[Any]


_LEAF = TreeSpec(None, None, [])


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree in order, and its structure."""
    if (is_leaf and is_leaf(tree)) or not isinstance(tree, (tuple, list, dict)):
        return [tree], _LEAF
    keys, values = (list(tree), list(tree.values())) if isinstance(tree, dict) else (None, list(tree))
    leaves, specs = [], []
    for value in values:
        found, spec = tree_flatten(value, is_leaf)
        leaves += found
        specs.append(spec)
    return leaves, TreeSpec(type(tree), keys, specs)


def tree_unflatten(leaves: Any, treespec: TreeSpec) -> Any:
    """The tree of a structure with other leaves."""
    rest = iter(leaves)

    def build(spec: TreeSpec) -> Any:
        if spec.type is None:
            return next(rest)
        values = [build(each) for each in spec.children_specs]
        if spec.context is not None:
            return spec.type(zip(spec.context, values, strict=True))
        return spec.type(*values) if hasattr(spec.type, "_fields") else spec.type(values)

    return build(treespec)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves of a tree in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """The tree of the results of `func` for each leaf and the corresponding leaves of other trees."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return tree_unflatten(map(func, leaves, *(tree_leaves(each, is_leaf) for each in rests)), spec)


def tree_map_only(kind: Any, func: Callable[[Any], Any], tree: Any) -> Any:
    """`tree_map` of leaves that are instances of `kind`; others stay."""
    return tree_map(lambda leaf: func(leaf) if isinstance(leaf, kind) else leaf, tree)
