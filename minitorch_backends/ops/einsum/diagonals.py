"""Labels that one operand has more than once: diagonals, taken as views before anything else happens."""

from __future__ import annotations

import functools

import numpy as np

from ...tensor.tensor import Tensor
from ..views.slices import diagonal
from .equation import Labels

__all__ = ["diagonals_of", "take_diagonals", "without_repeats"]


@functools.lru_cache(1024)
def diagonals_of(term: Labels) -> tuple[tuple[tuple[int, int], ...], Labels]:
    """Pairs of dimensions to take diagonals of, one after the other, and the labels then: each once, in an order that
    diagonals give (the common dimension goes to the end).
    """
    pairs, labels = [], list(term)
    while len(set(labels)) < len(labels):
        second = next(place for place, label in enumerate(labels) if label in labels[:place])
        first = labels.index(labels[second])
        pairs.append((first, second))
        label = labels[first]
        labels = [other for place, other in enumerate(labels) if place not in (first, second)] + [label]
    return tuple(pairs), tuple(labels)


def _order(labels: Labels, term: Labels) -> tuple[int, ...]:
    """Axes that bring the labels to the order of their first places in the term."""
    return tuple(labels.index(label) for label in dict.fromkeys(term))


def without_repeats(array: np.ndarray, term: Labels) -> np.ndarray:
    """The view in which each label has one dimension, in the order of their first places."""
    pairs, labels = diagonals_of(term)
    if not pairs:
        return array
    for first, second in pairs:
        array = array.diagonal(0, first, second)
    return array.transpose(_order(labels, term))


def take_diagonals(tensor: Tensor, term: Labels) -> Tensor:
    """`without_repeats` of a tensor, as recorded views."""
    pairs, labels = diagonals_of(term)
    if not pairs:
        return tensor
    for first, second in pairs:
        tensor = diagonal(tensor, 0, first, second)
    order = _order(labels, term)
    return tensor if order == tuple(range(len(order))) else tensor.permute(*order)
