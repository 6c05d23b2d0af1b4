"""Fourier transforms along one dimension, under torch's names.

`norm` determines where sums are divided by the length n: "backward" (the default) in the inverse transforms, "forward"
in the forward ones, "ortho" in both by sqrt(n). `n` truncates the input or pads it with zeros first. Integers are cast
to the default dtype. (https://pytorch.org/docs/stable/fft.html)
"""

from __future__ import annotations

from typing import Any

from ...dispatch.op import composite
from ...tensor.dtypes import COMPLEX, INTEGER, default_floating
from ...tensor.tensor import Tensor, not_a_tensor
from ..dims import existing_dim, integer
from ..views.padding import constant_pad
from ..views.slices import narrow
from .transforms import halved_transform, real_transform, straight, transform

_FORWARD = {"backward": "none", "ortho": "root", "forward": "size"}
_INVERSE = {"backward": "size", "ortho": "root", "forward": "none"}
_TORCH_NAMES = {"float16": "Half", "bfloat16": "BFloat16", "complex64": "ComplexFloat", "complex128": "ComplexDouble"}


# Arguments


def scaling_of(norm: Any, forward: bool) -> str:
    """The divisor of the sums. Raises RuntimeError for an unknown norm."""
    name = "backward" if norm is None else norm
    if not isinstance(name, str):
        raise TypeError(f"norm is one of backward, ortho and forward, got {norm!r}")
    if name not in _FORWARD:
        raise RuntimeError(f'Invalid normalization mode: "{name}"; expected backward, ortho or forward')
    return (_FORWARD if forward else _INVERSE)[name]


def floating(name: str, input: Any) -> Tensor:
    """Cast the input to a floating or complex dtype. Raises TypeError for values that are not tensors, RuntimeError for
    half types."""
    if not isinstance(input, Tensor):
        raise not_a_tensor(name, "input", input)
    if input.dtype.category <= INTEGER:
        return input.to(default_floating(input.dtype))
    if input.dtype.itemsize < 4:
        dtype = _TORCH_NAMES.get(input.dtype.name, input.dtype.name)
        raise RuntimeError(
            f"Unsupported dtype {dtype}; transforms take float32, float64 and complex types, convert with .float()"
        )
    return input


def real_input(name: str, input: Any) -> Tensor:
    """The same for transforms of real tensors. Raises RuntimeError for complex ones."""
    if isinstance(input, Tensor) and input.dtype.category == COMPLEX:
        kind = "real-valued" if name[-1] in "2n" else "real"
        raise RuntimeError(
            f"{name} expects a {kind} input tensor, but got {_TORCH_NAMES[input.dtype.name]}; use {name[-4:]} of "
            "input.real, or a transform of complex tensors"
        )
    return floating(name, input)


def complex_input(name: str, input: Any) -> Tensor:
    input = floating(name, input)
    return input if input.dtype.category == COMPLEX else input.to(input.dtype.to_complex())


def dim_of(name: str, input: Tensor, dim: Any) -> int:
    """A dim counted from the front. Raises IndexError if it is out of range."""
    dim = integer(f"fft_{name}", "dim", dim)
    return existing_dim(dim, input.ndim)


def refuse_length(length: int) -> None:
    if length < 1:
        raise RuntimeError(f"Invalid number of data points ({length}) specified; expected at least 1")


def resize(input: Tensor, lengths: dict[int, int]) -> Tensor:
    """The dims cut off, or filled up with zeros, to these lengths."""
    shape = input._array.shape
    for dim, length in lengths.items():
        if length < shape[dim]:
            input = narrow(input, dim, 0, length)
    if any(length > shape[dim] for dim, length in lengths.items()):
        missing = [max(lengths.get(dim, size) - size, 0) for dim, size in enumerate(shape)]
        input = constant_pad(input, tuple((0, count) for count in missing))
    return input


def spectrum_length(name: str, n: Any, size: int) -> tuple[int, int]:
    """The length of the real result, 2 * (size - 1) by default, and the number of frequencies that it needs."""
    last = 2 * (size - 1) if n is None else integer(f"fft_{name}", "n", n)
    refuse_length(last)
    return last, last // 2 + 1


def _length(name: str, n: Any, size: int) -> int:
    length = size if n is None else integer(f"fft_{name}", "n", n)
    refuse_length(length)
    return length


# Samples


# Transforms


def _complex(name: str, input: Any, n: Any, dim: Any, norm: Any, forward: bool) -> Tensor:
    input, scaling = complex_input(name, input), scaling_of(norm, forward)
    axis = dim_of(name, input, dim)
    length = _length(name, n, input.shape[axis])
    return transform(resize(input, {axis: length}), (axis,), scaling, forward)


@composite(method=False, autocast="float32")
def fft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The sums over j of input[j] exp(-2 pi i j k / n) for k = 0 to n - 1, along `dim`, complex.

    Raises RuntimeError for no data points, half types and an unknown norm, IndexError for a dim that does not exist.
    """
    if (out := straight(input, n, dim, norm, "forward", "none")) is not None:
        return out
    return _complex("fft", input, n, dim, norm, True)


@composite(method=False, autocast="float32")
def ifft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `fft`, with its errors."""
    if (out := straight(input, n, dim, norm, "inverse", "size")) is not None:
        return out
    return _complex("ifft", input, n, dim, norm, False)


def _real(name: str, input: Any, n: Any, dim: Any, scaling: str) -> Tensor:
    axis = dim_of(name, input, dim)
    length = _length(name, n, input.shape[axis])
    return real_transform(resize(input, {axis: length}), (axis,), scaling)


@composite(method=False, takes="bif", also="c", autocast="float32")
def rfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The first n // 2 + 1 values of `fft` of a real tensor, with its errors; the others are their conjugates.

    Raises RuntimeError for complex tensors as well.
    """
    if (out := straight(input, n, dim, norm, "real", "none")) is not None:
        return out
    return _real("rfft", real_input("rfft", input), n, dim, scaling_of(norm, True))


@composite(method=False, takes="bif", also="c", autocast="float32")
def ihfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `hfft`: the first n // 2 + 1 values of `ifft` of a real tensor, with the errors of `rfft`."""
    return _real("ihfft", real_input("ihfft", input), n, dim, scaling_of(norm, False)).conj()


def _transform_half(name: str, input: Tensor, n: Any, dim: Any, scaling: str) -> Tensor:
    axis = dim_of(name, input, dim)
    last, count = spectrum_length(name, n, input.shape[axis])
    return halved_transform(resize(input, {axis: count}), (axis,), scaling, last)


@composite(method=False, autocast="float32")
def irfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `rfft`: n real values, 2 * (size - 1) by default, from the first n // 2 + 1 frequencies.

    The imaginary parts at frequency 0 and (for even n) n/2 are ignored. Errors are those of `fft`.
    """
    if (out := straight(input, n, dim, norm, "halved", "size")) is not None:
        return out
    return _transform_half("irfft", complex_input("irfft", input), n, dim, scaling_of(norm, False))


@composite(method=False, autocast="float32")
def hfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """`fft` of a Hermitian-symmetric signal, given its first half `input`: n real values.

    Errors are those of `fft`.
    """
    return _transform_half("hfft", complex_input("hfft", input).conj(), n, dim, scaling_of(norm, True))
