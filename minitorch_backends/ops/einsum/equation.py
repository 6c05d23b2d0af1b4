"""The notation of einsum: equations to labels, labels and shapes to sizes.

A label is an integer. 0 to 51 stand for A to Z and a to z (the order of torch's sublists). Labels 52 and above stand
for the dimensions of an ellipsis, the last dimension having the highest. Non-ASCII characters, which plans accept, have
their code points, which are larger still.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

Labels = tuple[int, ...]
Shape = tuple[int, ...]

LETTERS = string.ascii_uppercase + string.ascii_lowercase
ELLIPSIS = -1
"""Stands for the dimensions of "..." in a term until shapes determine their number."""

_FIRST_COVERED = len(LETTERS)
_FIRST_BEYOND_ASCII = 128
_GREEK = "αβγδεζηθικλμνξοπρστυφχψω"


class Equation(NamedTuple):
    """The terms of the operands and of the result (None: implied)."""

    text: str
    terms: tuple[Labels, ...]
    output: Labels | None


def label_name(label: int) -> str:
    """A label as plans show it: its letter, or a Greek one for a dimension covered by an ellipsis."""
    if label < _FIRST_COVERED:
        return LETTERS[label]
    if label >= _FIRST_BEYOND_ASCII:
        return chr(label)
    covered = label - _FIRST_COVERED
    return _GREEK[covered] if covered < len(_GREEK) else chr(0x400 + covered)


def text_of(inputs: Sequence[Sequence[int]], output: Sequence[int]) -> str:
    """The equation of these labels, as plans show it."""
    terms = ["".join(map(label_name, term)) for term in (*inputs, output)]
    return ",".join(terms[:-1]) + "->" + terms[-1]


def parse(equation: str, any_letter: bool = False) -> Equation:
    """Parse an equation; with `any_letter`, non-ASCII characters are subscripts, as in opt_einsum.

    Raises RuntimeError, with the 0-based index of the error, for malformed text.
    """
    arrow = equation.find("->")
    end = len(equation) if arrow < 0 else arrow
    terms: list[Labels] = []
    start = 0
    for index in range(end + 1):
        if index == end or equation[index] == ",":
            terms.append(_term(equation, start, index, f"operand {len(terms)}", any_letter))
            start = index + 1
    if arrow < 0:
        return Equation(equation, tuple(terms), None)
    output = _term(equation, arrow + 2, len(equation), "the output", any_letter)
    for label, count in Counter(output).items():
        if count > 1:
            raise RuntimeError(
                f"einsum(): output subscript {label_name(label)!r} appears more than once in the output of "
                f"{equation!r}, at index {equation.rindex(label_name(label))}; expected each at most once"
            )
        if label != ELLIPSIS and not any(label in term for term in terms):
            index = equation.index(label_name(label), arrow)
            raise RuntimeError(
                f"einsum(): output subscript {label_name(label)!r} at index {index} of {equation!r} does not appear in "
                "any operand; expected subscripts of operands"
            )
    return Equation(equation, tuple(terms), output)


def _term(equation: str, start: int, stop: int, where: str, any_letter: bool) -> Labels:
    labels: list[int] = []
    index = start
    while index < stop:
        character = equation[index]
        if character == ".":
            if ELLIPSIS in labels:
                raise RuntimeError(
                    f"einsum(): found '.' at index {index} of {equation!r} in {where}, for which an ellipsis was "
                    "already found; expected at most one"
                )
            if equation[index : min(index + 3, stop)] != "...":
                raise RuntimeError(
                    f"einsum(): found '.' at index {index} of {equation!r} that is not part of any ellipsis, in "
                    f"{where}; expected three dots"
                )
            labels.append(ELLIPSIS)
            index += 3
            continue
        if character != " ":
            if not (character.isalpha() if character.isascii() else any_letter and not character.isspace()):
                raise RuntimeError(
                    f"einsum(): invalid subscript {character!r} at index {index} of {equation!r}, in {where}; expected "
                    "letters a-z and A-Z, spaces, '...', and between terms ',' or one '->'"
                )
            labels.append(LETTERS.index(character) if character.isascii() else ord(character))
        index += 1
    return tuple(labels)


def equation_of_sublists(sublists: Sequence[Any], output: Any) -> str:
    """The equation equivalent to sublists of numbers and Ellipsis; `output` is a list too, or None."""
    text = ",".join(_text_of_sublist(each, f"the sublist of operand {index}") for index, each in enumerate(sublists))
    return text if output is None else f"{text}->{_text_of_sublist(output, 'the output sublist')}"


def _text_of_sublist(sublist: Any, where: str) -> str:
    if isinstance(sublist, (str, bytes)) or not hasattr(sublist, "__iter__"):
        raise TypeError(f"einsum(): {where} must list integers or Ellipsis, got {sublist!r}")
    parts = []
    for position, entry in enumerate(sublist):
        if entry is Ellipsis:
            parts.append("...")
            continue
        number = entry.item() if hasattr(entry, "item") else entry
        if not isinstance(number, int):
            raise TypeError(
                f"einsum(): {where} has {entry!r} of type {type(entry).__name__} at index {position}; expected an "
                "integer or Ellipsis"
            )
        if not 0 <= number < len(LETTERS):
            raise ValueError(
                f"einsum(): subscript {number} at index {position} of {where} is not within the valid range [0, 52)"
            )
        parts.append(LETTERS[number])
    return "".join(parts)


def resolve(equation: Equation, shapes: Sequence[Shape]) -> tuple[tuple[Labels, ...], Labels]:
    """The labels of every dimension of the operands, and those of the result.

    Raises RuntimeError where the operands' number or dimensions are not those of the equation.
    """
    if len(shapes) != len(equation.terms):
        fewer = "fewer" if len(shapes) < len(equation.terms) else "more"
        raise RuntimeError(
            f"einsum(): {fewer} operands were provided than specified in the equation {equation.text!r}: expected "
            f"{len(equation.terms)}, got {len(shapes)}"
        )
    covered = [_ellipsis_dims(equation, index, shape) for index, shape in enumerate(shapes)]
    most = max(covered, default=0)
    stop = _FIRST_COVERED + most
    inputs = tuple(_spread(term, stop - own, stop) for term, own in zip(equation.terms, covered, strict=True))
    if equation.output is not None:
        return inputs, _spread(equation.output, _FIRST_COVERED, stop)
    counts = Counter(label for term in equation.terms for label in term)
    once = sorted(label for label, count in counts.items() if count == 1 and label != ELLIPSIS)
    return inputs, (*range(_FIRST_COVERED, stop), *once)


def _ellipsis_dims(equation: Equation, index: int, shape: Shape) -> int:
    """The number of dimensions that an operand's ellipsis covers."""
    term = equation.terms[index]
    named = len(term) - (ELLIPSIS in term)
    if ELLIPSIS not in term and named != len(shape):
        raise RuntimeError(
            f"einsum(): the number of subscripts in the equation {equation.text!r} ({named}) does not match the number "
            f"of dimensions ({len(shape)}) for operand {index} of shape {list(shape)}, and no ellipsis was given"
        )
    if named > len(shape):
        raise RuntimeError(
            f"einsum(): the number of subscripts in the equation {equation.text!r} ({named}) is more than the number "
            f"of dimensions ({len(shape)}) for operand {index} of shape {list(shape)}"
        )
    return len(shape) - named


def _spread(term: Labels, start: int, stop: int) -> Labels:
    labels: list[int] = []
    for label in term:
        labels += range(start, stop) if label == ELLIPSIS else [label]
    return tuple(labels)


def sizes_of(inputs: Sequence[Labels], shapes: Sequence[Shape]) -> dict[int, int]:
    """The size of each label, 1 giving way to others. Raises RuntimeError where sizes do not agree."""
    sizes: dict[int, int] = {}
    for index, (term, shape) in enumerate(zip(inputs, shapes, strict=True)):
        own: dict[int, int] = {}
        for label, size in zip(term, shape, strict=True):
            if own.setdefault(label, size) != size:
                raise RuntimeError(
                    f"einsum(): subscript {label_name(label)!r} is repeated for operand {index} but the sizes don't "
                    f"match, {size} != {own[label]}; the operand has shape {list(shape)}"
                )
        for label, size in own.items():
            if sizes.get(label, 1) not in (1, size) and size != 1:
                what = "dimension covered by an ellipsis" if label >= _FIRST_COVERED else "subscript"
                raise RuntimeError(
                    f"einsum(): {what} {label_name(label)!r} has size {size} for operand {index} of shape "
                    f"{list(shape)}, which does not broadcast with previously seen size {sizes[label]}; expected equal "
                    "sizes, or 1"
                )
            if sizes.get(label, 1) == 1:
                sizes[label] = size
    return sizes


def diagonals_of(term: Labels) -> tuple[tuple[tuple[int, int], ...], tuple[int, ...]]:
    """Return how a view gives each label of a term one dimension: pairs of dimensions to take diagonals of, and axes.

    The diagonals are taken one after the other. Each moves the common dimension of its pair to the end. The axes then
    bring the labels to the order of their first places.
    """
    pairs, labels = [], list(term)
    while len(set(labels)) < len(labels):
        second = next(place for place, label in enumerate(labels) if label in labels[:place])
        first = labels.index(labels[second])
        pairs.append((first, second))
        label = labels[first]
        labels = [other for place, other in enumerate(labels) if place not in (first, second)] + [label]
    return tuple(pairs), tuple(labels.index(label) for label in dict.fromkeys(term))
