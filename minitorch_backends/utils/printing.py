"""The text of a tensor in torch's layout: `tensor([1.0000, 2.5000])`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import index
from typing import Any

import numpy as np

from ..tensor.call_errors import argument_errors
from ..tensor.casting import cast_checked
from ..tensor.dtypes import COMPLEX, FLOATING, bool_, dtype_of, get_default_dtype, int64
from ..tensor.tensor import Parameter, Tensor


@dataclass(frozen=True)
class Options:
    """Print options.

    Attributes:
        precision: digits after the point.
        threshold: the number of elements above which a tensor is summarised by its edges.
        edgeitems: the number of elements at each edge of a dimension in a summary.
        linewidth: columns per line.
        sci_mode: scientific notation always (True), never (False), or (None) where numbers differ by a factor above
            1000, or lie above 1e8 or below 1e-4.
    """

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES = {"default": Options(), "short": Options(precision=2, edgeitems=2), "full": Options(threshold=math.inf)}
_options = Options()


@argument_errors
def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set the print options of the whole process; see `Options`. None keeps an option, except for `sci_mode`.

    `profile` ("default", "short" or "full") is applied before the other arguments. Raises ValueError for another
    profile and for negative numbers.
    """
    global _options
    if profile is not None and profile not in _PROFILES:
        raise ValueError(f"set_printoptions(): profile must be one of {', '.join(_PROFILES)}, got {profile!r}")
    given: dict[str, Any] = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    for name, value in given.items():
        if value is not None and name != "threshold":
            index(value)
        if value is not None and value < 0:
            raise ValueError(f"set_printoptions(): {name} must be at least 0, got {value!r}")
    options = _options if profile is None else _PROFILES[profile]
    options = replace(options, **{name: value for name, value in given.items() if value is not None})
    _options = replace(options, sci_mode=sci_mode)


def text_of(tensor: Tensor) -> str:
    """The text of a tensor: its elements (the edges only, if it is large) and its notes. Pairs of 4-bit numbers print
    as bytes."""
    array = tensor._array.view(np.uint8).astype(np.float32) if tensor.dtype.letter == "p" else tensor._array
    head = "tensor("
    if array.size:
        shown = _edges(array) if array.size > _options.threshold else array
        write, width = _writer(shown)
        body = _write_nested(array, len(head), array.size > _options.threshold, write, width)
    else:
        body = "[]"
    text = _with_notes(head + body, _notes(tensor), len(head)) + ")"
    return f"Parameter containing:\n{text}" if type(tensor) is Parameter else text


def _notes(tensor: Tensor) -> list[str]:
    """The notes after the elements: size, dtype, node or requires_grad."""
    notes, dtype = [], tensor.dtype
    default = get_default_dtype()
    if tensor.numel() == 0 and tensor.ndim != 1:
        notes.append(f"size={tuple(tensor.shape)}")
    usual = (default,) if tensor.numel() == 0 else (default, default.to_complex(), int64, bool_)
    if dtype not in usual:
        notes.append(f"dtype={dtype!r}")
    try:
        node = tensor.grad_fn
    except RuntimeError:  # a view that cannot follow a write to its base
        notes.append("grad_fn=<Invalid>")
        return notes
    if node is not None:
        notes.append(f"grad_fn={node!r}")
    elif tensor.requires_grad:
        notes.append("requires_grad=True")
    return notes


def _with_notes(text: str, notes: list[str], indent: int) -> str:
    """Append the notes, separated by commas; start a new line where the last one is full."""
    used = len(text) - text.rfind("\n") + 1
    for note in notes:
        if used + len(note) + 2 > _options.linewidth:
            text += ",\n" + " " * indent + note
            used = indent + len(note)
        else:
            text += ", " + note
            used += len(note) + 2
    return text


def _edges(array: np.ndarray) -> np.ndarray:
    """The elements of a large array that a summary shows."""
    return array[np.ix_(*map(_visible_positions, array.shape))]


def _visible_positions(size: int) -> list[int]:
    """The positions along a dimension that a summary shows."""
    edge = _options.edgeitems
    return [*range(edge), *range(size - edge, size)] if size > 2 * edge else list(range(size))


def _write_nested(array: np.ndarray, indent: int, summarized: bool, write: Callable[[Any], str], width: int) -> str:
    """Lay out nested brackets: one more column per dimension, and blank lines between matrices."""
    if array.ndim == 0:
        return write(array[()])
    size, edge = array.shape[0], _options.edgeitems
    cut = summarized and size > 2 * edge
    positions = _visible_positions(size) if cut else range(size)
    if array.ndim > 1:
        parts = [_write_nested(array[position], indent + 1, summarized, write, width) for position in positions]
        if cut:
            parts.insert(edge, "...")
        return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(parts) + "]"
    texts = [write(array[position]) for position in positions]
    if cut:
        texts.insert(edge, " ...")
    per_line = max(1, (_options.linewidth - indent) // (width + 2))
    lines = [", ".join(texts[start : start + per_line]) for start in range(0, len(texts), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _writer(array: np.ndarray) -> tuple[Callable[[Any], str], int]:
    """Return a function that formats one element of `array`, and its width, so that all elements line up."""
    category = dtype_of(array).category
    if category == COMPLEX:
        real, real_width = _float_writer(array.real)
        imag, imag_width = _float_writer(array.imag)

        def write_complex(value: Any) -> str:
            part = imag(value.imag).lstrip()
            return real(value.real) + ("" if part.startswith("-") else "+") + part + "j"

        return write_complex, real_width + imag_width + 1
    if category == FLOATING:
        return _float_writer(array)
    width = max(len(str(value)) for value in array.ravel().tolist())
    return (lambda value: str(value).rjust(width)), width


def _float_writer(array: np.ndarray) -> tuple[Callable[[Any], str], int]:
    """`_writer` for real floats: no digits for whole numbers, scientific notation for widely spread ones."""
    values = array.astype(np.float64).ravel()
    zero = float(cast_checked(np.asarray(0.0), dtype_of(array)))  # e8m0 has no zero; its least number takes that place
    values = values[np.isfinite(values) & (values != zero)]
    whole = bool((values == np.ceil(values)).all())
    scientific = _options.sci_mode
    if scientific is None:
        least, most = np.abs(values).min(initial=math.inf), np.abs(values).max(initial=0.0)
        scientific = bool(values.size and (most > 1000 * least or most > 1e8 or (not whole and least < 1e-4)))
    digits = _options.precision

    def text(value: float) -> str:
        if scientific:
            return f"{value:.{digits}e}"
        if whole:
            return f"{value:.0f}." if math.isfinite(value) else f"{value:.0f}"
        return f"{value:.{digits}f}"

    width = max((len(text(value)) for value in values.tolist()), default=1)
    return (lambda value: text(float(value)).rjust(width)), width


Tensor.__repr__ = text_of  # type: ignore[assignment, method-assign]
