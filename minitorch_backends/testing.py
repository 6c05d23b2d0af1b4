"""Comparisons for tests. Tolerances follow from the dtype, or from the expected error of a precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .backends.precision_policy import precision_of
from .kernels.precisions.products import predicted_error
from .ops.creation.factories import as_tensor
from .ops.limits import finfo
from .tensor.call_errors import argument_errors
from .tensor.dtypes import FLOATING, bfloat16, complex64, complex128, dtype_of, float16, float32, float64
from .tensor.tensor import Tensor, is_foreign

__all__ = ["assert_close"]

_TOLERANCES = {
    float16: (1e-3, 1e-5),
    bfloat16: (1.6e-2, 1e-5),
    float32: (1.3e-6, 1e-5),
    float64: (1e-7, 1e-7),
    complex64: (1.3e-6, 1e-5),
    complex128: (1e-7, 1e-7),
}
"""torch's relative and absolute tolerances by dtype; 0 for other dtypes. For two dtypes the larger ones apply."""

observers: list[Callable[[float, str], None]] = []
"""Callbacks for each pair of arrays that `assert_close` compares. Arguments: the share of the tolerance that the
difference uses (more than 1 where they are not close), and a description of the tolerance."""

_MARGIN = 2.0
"""The tolerance is this factor times the largest error expected of normally distributed operands."""

_NUMBERS = (bool, int, float, complex, np.generic)

__tracebackhide__ = True  # pytest shows a failure at the test's own line


class _Allowed(NamedTuple):
    rtol: float
    atol: float
    why: str


@argument_errors
def assert_close(  # noqa: PLR0913 (torch's)
    actual: Any,
    expected: Any,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_dtype: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
    k: int | None = None,
    precision: str | None = None,
    scale: float | None = None,
) -> None:
    """Raise AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere.

    `actual` and `expected` are tensors (torch's too), arrays, numbers, or sequences or mappings of these. `rtol` and
    `atol` are given together; without them torch's tolerances apply, by dtype.

    With `k` the tolerance is that of a sum of k products: twice the largest error expected of normally distributed
    operands at `precision`. The default precision is the one that the flags select for float32 products. A test that
    passes in IEEE float32 then also passes under TF32, and a result with a larger error fails.

    `scale` is the magnitude that errors are relative to: the size of a sum of products with random signs. The default
    is the root mean square of `expected`. Where sums cancel more, pass sqrt(k) times the root mean squares of both
    operands.

    `msg` replaces the message, or is a function of the default message. Raises TypeError for values that cannot be
    compared, and ValueError for options that exclude each other.
    """
    if (rtol is None) != (atol is None):
        raise ValueError(f"assert_close(): rtol and atol must be given together, got {rtol=}, {atol=}")
    if k is None and (precision is not None or scale is not None):
        raise ValueError(
            "assert_close(): precision and scale require k, the number of products in a sum; give k as well"
        )
    if k is not None and rtol is not None:
        raise ValueError("assert_close(): k and rtol, atol both set the tolerance; give one of them")

    def tolerance(a: np.ndarray, b: np.ndarray) -> _Allowed:
        if rtol is not None and atol is not None:
            return _Allowed(rtol, atol, "")
        return _by_type(a, b) if k is None else _of_products(b, k, precision, scale)

    for path, a, b in _pairs(actual, expected, ""):
        found = _difference(a, b, tolerance, equal_nan, check_dtype, check_stride)
        if found is not None:
            text = found + (f"\n\nThis is item {path}." if path else "")
            raise AssertionError(text if msg is None else msg if isinstance(msg, str) else msg(text))


def _by_type(a: np.ndarray, b: np.ndarray) -> _Allowed:
    rtol, atol = map(max, *(_TOLERANCES.get(dtype_of(each), (0.0, 0.0)) for each in (a, b)))
    return _Allowed(rtol, atol, "")


def _of_products(expected: np.ndarray, k: int, precision: str | None, scale: float | None) -> _Allowed:
    chosen = precision_of("matmul").precision if precision is None else precision
    largest = predicted_error(chosen, k, entries=max(expected.size, 2)).maximum / math.sqrt(max(k, 1))
    wide, dtype = expected.astype(np.complex128), dtype_of(expected)
    size = float(np.linalg.norm(wide)) / math.sqrt(max(wide.size, 1)) if scale is None else scale
    unit = finfo(dtype).eps / 2 if dtype.category >= FLOATING else 0.0
    return _Allowed(unit, _MARGIN * largest * size, f", as expected of sums of {k} products at {chosen}")


def _pairs(actual: Any, expected: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Pair up the leaves of both arguments, each with its path."""
    if _is_array(expected) and _is_array(actual):
        yield path, actual, expected
    elif isinstance(expected, Mapping) and isinstance(actual, Mapping):
        if actual.keys() != expected.keys():
            raise AssertionError(
                f"The mappings have different keys{path and ' at ' + path}: {sorted(map(str, actual.keys()))} and "
                f"{sorted(map(str, expected.keys()))}."
            )
        for key in expected:
            yield from _pairs(actual[key], expected[key], f"{path}[{key!r}]")
    elif _is_sequence(expected) and _is_sequence(actual):
        if len(actual) != len(expected):
            raise AssertionError(
                f"The sequences have different lengths{path and ' at ' + path}: {len(actual)} and {len(expected)}."
            )
        for place, (a, b) in enumerate(zip(actual, expected, strict=True)):
            yield from _pairs(a, b, f"{path}[{place}]")
    else:
        raise TypeError(
            "assert_close(): values must be tensors, arrays, numbers, or sequences and mappings of these, got "
            f"{type(actual).__name__} and {type(expected).__name__}{path and ' at ' + path}"
        )


def _is_array(value: Any) -> bool:
    return isinstance(value, (Tensor, np.ndarray, *_NUMBERS)) or is_foreign(value)


def _as_array(value: Any) -> np.ndarray:
    """The array of a tensor, of a torch tensor on any device, or of another array."""
    if is_foreign(value):
        if hasattr(value, "resolve_conj"):  # torch's, whose views may be lazily conjugated
            value = value.detach().cpu().resolve_conj().resolve_neg()
        value = as_tensor(value)
    return value._array if isinstance(value, Tensor) else np.asarray(value)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _difference(
    actual: Any,
    expected: Any,
    allowed: Callable[[np.ndarray, np.ndarray], _Allowed],
    equal_nan: bool,
    check_dtype: bool,
    check_stride: bool,
) -> str | None:
    """Describe the difference of two arrays; None if they are close."""
    a, b = _as_array(actual), _as_array(expected)
    if a.shape != b.shape:
        return f"The shapes differ: {list(a.shape)} is not {list(b.shape)}."
    if check_dtype and a.dtype != b.dtype:
        return f"The types differ: {dtype_of(a)!r} is not {dtype_of(b)!r}; check_dtype=False compares values alone."
    if check_stride and a.strides != b.strides:
        return f"The strides differ: {a.strides} is not {b.strides}, in bytes."
    limits = allowed(a, b)
    wide = np.complex128 if "c" in a.dtype.kind + b.dtype.kind else np.float64
    exact = a.dtype.kind in "biu" and b.dtype.kind in "biu"
    with np.errstate(all="ignore"):
        x, y = a.astype(wide), b.astype(wide)
        distance, size = np.abs(x - y), np.abs(y)
        same = (a == b) | (np.isnan(x) & np.isnan(y) if equal_nan else False)
        close = same | (
            np.isfinite(y) & (distance <= limits.atol + limits.rtol * size) & (not exact or limits.atol > 0)
        )
        for observer in observers:
            observer(_share(np.where(same, 0.0, distance), limits.atol + limits.rtol * size), limits.why)
        if close.all():
            return None
        relative = np.divide(distance, size)
    wrong = ~close
    lines = [f"{int(wrong.sum())} of {close.size} elements differ by more than is allowed{limits.why}."]
    for name, values, most in (("absolute", distance, limits.atol), ("relative", relative, limits.rtol)):
        place = np.unravel_index(int(np.argmax(np.where(wrong & ~same, values, -1))), values.shape)
        lines.append(f"Largest {name} difference: {values[place]:.3g}{_at(place)}; allowed are {most:.3g}.")
        if name == "absolute":
            lines[-1] += f" Found {a[place]} there, expected {b[place]}."
    return "\n".join(lines)


def _share(distance: np.ndarray, tolerance: np.ndarray) -> float:
    """The largest share of the tolerance that a difference uses; infinite for NaN."""
    shares = np.divide(distance, tolerance, out=np.zeros_like(distance), where=distance != 0)
    return float(np.where(np.isnan(shares), np.inf, shares).max(initial=0.0))


def _at(place: tuple[Any, ...]) -> str:
    return f" at {[int(each) for each in place]}" if place else ""
