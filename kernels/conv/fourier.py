"""Convolution by the fast Fourier transform: products of spectra, frequency by frequency, summed over channels.

A convolution of stride and dilation 1 is a correlation. Its spectrum is that of the input times the conjugate of the
weight's; its transposes are products of two of the three spectra in the same way. The transforms are as long as the
padded input, so that nothing wraps around; their plans are cached. (M. Mathieu, M. Henaff, Y. LeCun, "Fast training of
convolutional networks through FFTs", arXiv 1312.5851.)

An error is about log2(length) roundings relative to the largest entries, not to each entry's own terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..arrays.elementwise.turned import in_order
from ..fft import irfftn, rfftn
from ..fft.contract import DEFAULT_PLANS
from ..gemm import matmul
from ..registry import ArraySpec, Refused, without_observers
from ..runtime.context import restore_on_failure
from ..runtime.first_use import load
from .heuristic import TIMED
from .shapes import empty_output, is_channels_last, lay_out_weight, output_size, steps

_SPECTRA = {np.dtype(np.float32): np.dtype(np.complex64), np.dtype(np.float64): np.dtype(np.complex128)}


def _refusal(dtype: np.dtype, dims: int, keywords: dict[str, Any]) -> str | None:
    if dtype not in _SPECTRA:
        return f"has no transforms for {dtype.name}"
    precision = keywords.get("precision", "ieee")
    if precision != "ieee":
        return f"sums spectra in full precision, and not products of operands rounded to {precision}"
    for name in ("stride", "dilation"):
        value = keywords.get(name, ())
        if any(each != 1 for each in value):
            return f"takes steps of 1 only, and {name} is {tuple(value)}"
    return None


def _lengths(size: Sequence[int]) -> tuple[int, ...]:
    """Even lengths without large factors: real transforms need a half-length complex transform."""
    next_fast_len = load("scipy.fft").next_fast_len
    return tuple(2 * next_fast_len((length + 1) // 2, real=True) for length in size)


_PRODUCTS_PER_NUMBER, _PRODUCTS_PER_CALL = 250, 18_000_000
"""Products of other algorithms that take as long as a number of a transform, and as what each call takes besides."""


class _Task(NamedTuple):
    """The cost of a convolution by spectra and directly.

    Attributes:
        spectra: the number of spectra, of all three arrays.
        size: the padded input's, the minimum length of the transforms.
        products: the number of multiplications in the definition.
    """

    spectra: int
    size: list[int]
    products: int

    def workspace(self, itemsize: int) -> int:
        """The bytes of the spectra, of their reordered copies, and of the numbers that they are the spectra of."""
        *outer, last = _lengths(self.size)
        return self.spectra * math.prod(outer) * (2 * 2 * (last // 2 + 1) + last) * itemsize

    def slower(self) -> str | None:
        most = (self.products - _PRODUCTS_PER_CALL) // _PRODUCTS_PER_NUMBER
        numbers = self.spectra * math.prod(self.size)  # at least; SciPy finds the lengths, and takes 0.2 s to load
        if numbers <= most:
            numbers = self.spectra * math.prod(_lengths(self.size))
        if numbers <= most:
            return None
        return f"takes longer for transforms of {numbers:,} numbers than {self.products:,} products do; {TIMED}"


def _task(
    images: int, channels: int, outputs: int, groups: int, size: Sequence[int], padding: Sequence[int], taps: int,
    places: int,
) -> _Task:  # fmt: skip
    between = outputs * (channels // groups)
    return _Task(images * channels + between + images * outputs, _wide(size, padding), images * between * taps * places)


def _of_conv(
    x: ArraySpec, weight: ArraySpec, *_: ArraySpec, padding: Sequence[int] = (), groups: int = 1, **__: Any
) -> _Task:
    kernel = weight.shape[2:]
    places = math.prod(output_size(x.shape[2:], kernel, steps(len(kernel), (), padding)))
    return _task(x.shape[0], x.shape[1], weight.shape[0], groups, x.shape[2:], padding, math.prod(kernel), places)


def _of_input_gradient(
    g: ArraySpec, weight: ArraySpec, *, input_size: Sequence[int], padding: Sequence[int] = (), groups: int = 1,
    **_: Any,
) -> _Task:  # fmt: skip
    places, taps = math.prod(g.shape[2:]), math.prod(weight.shape[2:])
    return _task(g.shape[0], weight.shape[1] * groups, g.shape[1], groups, input_size, padding, taps, places)


def _of_weight_gradient(
    x: ArraySpec, g: ArraySpec, *, kernel_size: Sequence[int], padding: Sequence[int] = (), groups: int = 1, **_: Any
) -> _Task:
    places, taps = math.prod(g.shape[2:]), math.prod(kernel_size)
    return _task(x.shape[0], x.shape[1], g.shape[1], groups, x.shape[2:], padding, taps, places)


def _refuses(x: ArraySpec, other: ArraySpec, *_: ArraySpec, **keywords: Any) -> str | None:
    if 0 in x.shape or 0 in other.shape:
        return f"transforms no empty arrays, {list(x.shape)} and {list(other.shape)}"
    return _refusal(x.dtype, len(x.shape) - 2, keywords)


def _wide(size: Sequence[int], padding: Sequence[int]) -> list[int]:
    return [length + 2 * pad for length, pad in zip(size, padding or (0,) * len(size), strict=True)]


def _declaration(run: Callable[..., np.ndarray], task: Callable[..., _Task]) -> dict[str, Any]:
    """The arguments of `declare` for one of the three."""

    @restore_on_failure
    def alone(*arrays: np.ndarray, **keywords: Any) -> np.ndarray:
        with without_observers():  # of its transforms and products
            return run(*arrays, **keywords)

    return {
        "run": alone,
        "refuses": _refuses,
        "workspace": lambda *specs, **keywords: task(*specs, **keywords).workspace(specs[0].dtype.itemsize),
        "slower": lambda *specs, **keywords: task(*specs, **keywords).slower(),
        "takes": "plans",
    }


_MOST_UNEVEN = 16.0
"""The largest ratio of root mean square to mean magnitude of an array for which a transform's errors are as small as
those of direct sums for most results. It is 1.25 for normal numbers, and 64 for one large number among 4096."""


def _require_even(x: np.ndarray) -> None:
    """Raise `Refused` if a few values are so large that they swamp the others."""
    magnitudes = np.abs(x)
    mean, largest = float(magnitudes.mean(dtype=np.float64)), float(magnitudes.max())
    if mean > 0 and largest < np.inf and largest > _MOST_UNEVEN * mean:
        square = float(np.square(magnitudes / largest, dtype=np.float64).mean()) ** 0.5 * largest
        if square > _MOST_UNEVEN * mean:
            raise Refused(f"few values of {largest:.3g} would cost the others, of a mean of {mean:.3g}, their accuracy")


def _spectrum(
    x: np.ndarray, groups: int, lengths: Sequence[int], rows: int, plans: int, padding: Sequence[int] = ()
) -> np.ndarray:
    """(frequencies, groups, rows, columns) of an array (A, B, *S), padded on both sides and filled up to `lengths`,
    whose `rows`-th dimension (0 or 1) of A and B has the groups."""
    _require_even(x)
    wide = np.zeros((*x.shape[:2], *lengths), x.dtype)
    pads = padding or (0,) * len(lengths)
    inside: Any = [slice(pad, pad + size) for pad, size in zip(pads, x.shape[2:], strict=True)]
    wide[(..., *inside)] = x
    found = rfftn(wide, range(2, x.ndim), plans)
    shape = [found.shape[0], found.shape[1]]
    shape[rows : rows + 1] = [groups, shape[rows] // groups]
    split = found.reshape(*shape, math.prod(found.shape[2:]))
    return in_order(np.moveaxis(split, (3, rows), (0, 1)))


def _back(spectrum: np.ndarray, lengths: Sequence[int], inside: Any, channels_last: bool, plans: int) -> np.ndarray:
    """The part `inside` of what has this spectrum (frequencies, groups, A, B), as (A, groups x B, *S)."""
    _, groups, rows, columns = spectrum.shape
    ordered = in_order(np.moveaxis(spectrum, (2, 1, 3), (0, 1, 2)))
    frequencies = (*lengths[:-1], lengths[-1] // 2 + 1)
    ordered = ordered.reshape(rows, groups * columns, *frequencies)
    found = irfftn(ordered, range(2, 2 + len(lengths)), lengths[-1], plans)[(..., *inside)]
    if not np.isfinite(found).all():
        raise Refused("a spectrum is not finite, or its sums are not, and would spread over the whole result")
    result = empty_output(found.shape, found.dtype, channels_last)
    result[...] = found
    return result


def _conv(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None, *, padding: Sequence[int] = (), groups: int = 1,
    relu: bool = False, plans: int = DEFAULT_PLANS, **_: Any,
) -> np.ndarray:  # fmt: skip
    """x times the conjugate of the weight, at every frequency."""
    kernel = weight.shape[2:]
    at = steps(len(kernel), (), padding)
    output, lengths = output_size(x.shape[2:], kernel, at), _lengths(_wide(x.shape[2:], at.padding))
    left = _spectrum(x, groups, lengths, 1, plans, at.padding)
    right = _spectrum(weight, groups, lengths, 0, plans)
    y = _back(matmul(left, right.conj().mT), lengths, [slice(count) for count in output], is_channels_last(x), plans)
    if bias is not None:
        y += bias.reshape(len(bias), *(1,) * len(kernel))
    return np.maximum(y, 0, out=y) if relu else y


def _input_gradient(
    g: np.ndarray, weight: np.ndarray, *, input_size: Sequence[int], padding: Sequence[int] = (), groups: int = 1,
    plans: int = DEFAULT_PLANS, **_: Any,
) -> np.ndarray:  # fmt: skip
    """g times the weight, at every frequency."""
    at = steps(len(input_size), (), padding)
    lengths = _lengths(_wide(input_size, at.padding))
    left, right = _spectrum(g, groups, lengths, 1, plans), _spectrum(weight, groups, lengths, 0, plans)
    inside = [slice(pad, pad + size) for pad, size in zip(at.padding, input_size, strict=True)]
    return _back(matmul(left, right), lengths, inside, is_channels_last(g), plans)


def _weight_gradient(
    x: np.ndarray, g: np.ndarray, *, kernel_size: Sequence[int], padding: Sequence[int] = (), groups: int = 1,
    plans: int = DEFAULT_PLANS, **_: Any,
) -> np.ndarray:  # fmt: skip
    """x times the conjugate of g, at every frequency."""
    at = steps(len(kernel_size), (), padding)
    lengths = _lengths(_wide(x.shape[2:], at.padding))
    left, right = _spectrum(g, groups, lengths, 1, plans), _spectrum(x, groups, lengths, 1, plans, at.padding)
    product = matmul(left.conj().mT, right)  # (frequencies, groups, O/groups, C/groups)
    rows = product.reshape(len(product), 1, groups * product.shape[2], product.shape[3])
    return lay_out_weight(_back(rows, lengths, [slice(taps) for taps in kernel_size], False, plans), x)


FOURIER = {
    "conv": _declaration(_conv, _of_conv),
    "conv_input_gradient": _declaration(_input_gradient, _of_input_gradient),
    "conv_weight_gradient": _declaration(_weight_gradient, _of_weight_gradient),
}
"""The arguments of `declare` for each kernel."""
