"""The three linear maps that all Fourier transforms are: complex to complex, real to half a spectrum, and back.

Each one's gradient is another of them: with F the matrix of the transform, that of F x is F^H g, the transform of the
other direction with the same scaling.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...dispatch.op import Array, composite, op
from ...flags import State, current, per_state
from ...kernels import registry
from ...kernels.fft import fft as kernel
from ...kernels.registry import ArraySpec
from ...tensor import instrumentation
from ...tensor.casting import cast_unchecked
from ...tensor.dtypes import COMPLEX, FLOATING, INTEGER, default_floating, dtype_or_default
from ...tensor.tensor import Tensor, adopt, not_a_tensor
from ..creation.factories import factory
from ..dims import existing_dim, integer, wrap_dim
from ..views.padding import constant_pad
from ..views.rearrange import roll
from ..views.slices import narrow

__all__ = ["LAST_TWO", "halved_transform", "real_transform", "straight", "transform"]


Dims = tuple[int, ...]

LAST_TWO = (-2, -1)
"""The dims of transforms of matrices, unless they are given."""

Run = Callable[[np.ndarray], np.ndarray]


def _run(x: np.ndarray, kind: str, dims: Dims, scaling: str, last: int = 0) -> np.ndarray:
    call = _call(x.shape, x.dtype, kind, dims, scaling, last)
    if call is not None and not registry.observing:
        return call(x)
    return kernel(x, **_options(current(), kind, dims, scaling, last))


def _options(state: State, kind: str, dims: Dims, scaling: str, last: int) -> dict[str, Any]:
    """The keywords of the kernel."""
    plans = state.read("cuda.cufft_plan_cache.max_size")
    return {"kind": kind, "axes": dims, "scaling": scaling, "last": last, "plans": plans}


@per_state()
def _call(state: State, shape: Dims, dtype: np.dtype, kind: str, dims: Dims, scaling: str, last: int) -> Run | None:
    """The function that the kernel ends in for a signature, which it takes a microsecond to find."""
    return kernel.first(ArraySpec(shape, dtype), **_options(state, kind, dims, scaling, last))


@per_state()
def _usual_call(_: State, shape: Dims, dtype: np.dtype, n: Any, dim: Any, kind: str, scaling: str) -> Run | None:
    """Convert the arguments of a public function to those of the transform; None if truncation or padding is needed."""
    dims = _plain_dims(dim, len(shape))
    if dims is None or dtype.char not in ("fd" if kind == "real" else "FD"):
        return None
    length = shape[dims[-1]]
    last = (2 * (length - 1) if n is None else n) if kind == "halved" else 0
    if n is not None and ((n // 2 + 1 if last else n) != length or len(dims) > 1):
        return None
    if length <= (kind == "halved") or shape[dims[0]] == 0:
        return None
    return _call(shape, dtype, kind, dims, scaling, last)


def straight(input: Any, n: Any, dim: Any, norm: Any, kind: str, scaling: str) -> Tensor | None:
    """The transform along one dim, or the last two, of an unrecorded tensor; None if the general path is needed.

    It takes at most half the time of the op. The meaning of the arguments is cached.
    """
    if norm is not None or type(input) is not Tensor or input._node is not None or instrumentation.is_observed():
        return None
    if not (type(dim) is int and (n is None or type(n) is int)) and not (dim is LAST_TWO and n is None):
        return None  # Equal values of other types, such as 1.0, are rejected.
    x = input._array
    call = _usual_call(x.shape, x.dtype, n, dim, kind, scaling)
    return None if call is None or registry.observing else adopt(call(x))


def _plain_dims(dim: Any, ndim: int) -> Dims | None:
    """One dim, or the last two as `fft2` has them by default, counted from the front; None for others."""
    if type(dim) is int:
        return (dim % ndim,) if -ndim <= dim < ndim else None
    last_two = type(dim) is tuple and dim == LAST_TWO and [*map(type, dim)] == [int, int]
    return (ndim - 2, ndim - 1) if last_two and ndim > 1 else None


@op(
    input=lambda g, dims, scaling, forward: transform(g, dims, scaling, not forward),
    name="fft_c2c",
    traits="function silent",
    takes="c",
    batch="transform dims",
)
def transform(input: Array, dims: Dims, scaling: str, forward: bool) -> Array:
    """The transform of complex numbers over dims counted from the front, divided by `scaling`."""
    return _run(input, "forward" if forward else "inverse", dims, scaling)


def _counts(g: Tensor, dim: int, last: int) -> Tensor:
    """The multiplicity of each frequency of a half spectrum in the full one, shaped for g's dim: 1, 2, 2, ..., 2, 1."""
    counts = np.full(last // 2 + 1, 2.0, g._array.real.dtype)
    counts[0] = 1
    if last % 2 == 0:
        counts[-1] = 1
    return adopt(counts.reshape([-1 if each == dim else 1 for each in range(g.ndim)]))


def _real_gradient(g: Tensor, input_shape: tuple[int, ...], dims: Dims, scaling: str) -> Tensor:
    """The real part of F^H g, with zeros for the omitted frequencies. The inverse transform adds their conjugates and
    so counts twice the terms that are halved first."""
    last = input_shape[dims[-1]]
    return halved_transform(g / _counts(g, dims[-1], last), dims, scaling, last)


@op(input=_real_gradient, name="fft_r2c", traits="function silent", takes="f", batch="transform dims")
def real_transform(input: Array, dims: Dims, scaling: str) -> Array:
    """The forward transform of real numbers; the last dim keeps the frequencies up to n/2."""
    return _run(input, "real", dims, scaling)


@op(
    input=lambda g, dims, scaling, last: real_transform(g, dims, scaling) * _counts(g, dims[-1], last),
    name="fft_c2r",
    traits="function silent",
    takes="c",
    batch="transform dims",
)
def halved_transform(input: Array, dims: Dims, scaling: str, last: int) -> Array:
    """The inverse transform of half a spectrum, with last // 2 + 1 frequencies in the last dim, to real numbers."""
    return _run(input, "halved", dims, scaling, last)


# Fourier transforms along one dimension, under torch's names.
#
# `norm` determines where sums are divided by the length n: "backward" (the default) in the inverse transforms,
# "forward" in the forward ones, "ortho" in both by sqrt(n). `n` truncates the input or pads it with zeros first.
# Integers are cast to the default dtype. (https://pytorch.org/docs/stable/fft.html)


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


# Fourier transforms over two or more dimensions, under torch's names. `one_dim` has the shared parts


# Arguments


def _integers(name: str, argument: str, value: Any) -> list[int]:
    return [
        integer(f"fft_{name}", argument, each) for each in (value if isinstance(value, (tuple, list)) else (value,))
    ]


def _dims_and_sizes(name: str, input: Tensor, s: Any, dim: Any) -> tuple[Dims, list[int | None]]:
    """The dims, counted from the front, and the length along each (None for the input's own).

    Without dims the last len(s) dims are used, or all of them. Raises RuntimeError for mismatched arguments.
    """
    sizes: list[int | None] | None = None if s is None else [*_integers(name, "s", s)]
    if dim is not None:
        if not input.ndim and len(_integers(name, "dim", dim)):
            raise IndexError(f"fft_{name}(): Dimension specified as {dim} but tensor has no dimensions")
        dims = tuple(wrap_dim(each, input.ndim) for each in _integers(name, "dim", dim))
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"FFT dims must be unique, got {list(dims)}; name each one once")
        if sizes is not None and len(sizes) != len(dims):
            raise RuntimeError(
                f"When given, dim and shape arguments must have the same length, got {list(dims)} and {sizes}"
            )
    elif sizes is not None:
        if len(sizes) > input.ndim:
            raise RuntimeError(
                f"Got shape with {len(sizes)} values but input tensor only has {input.ndim} dimensions; give a size "
                "for each dimension at most"
            )
        dims = tuple(range(input.ndim - len(sizes), input.ndim))
    else:
        dims = tuple(range(input.ndim))
    return dims, [None] * len(dims) if sizes is None else [None if each == -1 else each for each in sizes]


def _lengths(input: Tensor, dims: Dims, sizes: list[int | None]) -> dict[int, int]:
    found = {dim: input.shape[dim] if size is None else size for dim, size in zip(dims, sizes, strict=True)}
    for length in found.values():
        refuse_length(length)
    return found


def _refuse_no_dims(name: str, dims: Dims) -> None:
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis; name one in dim")


# The four kinds


def _complex_of_dims(name: str, input: Any, s: Any, dim: Any, norm: Any, forward: bool) -> Tensor:
    kind, scaling = ("forward", "none") if forward else ("inverse", "size")
    if (out := straight(input, s, dim, norm, kind, scaling)) is not None:
        return out
    input, scaling = complex_input(name, input), scaling_of(norm, forward)
    dims, sizes = _dims_and_sizes(name, input, s, dim)
    return transform(resize(input, _lengths(input, dims, sizes)), dims, scaling, forward)


def _real_of_dims(name: str, input: Any, s: Any, dim: Any, norm: Any, forward: bool) -> Tensor:
    """Forward, or (ihfft) inverse, which is the conjugate of the forward transform of a real tensor."""
    if forward and (out := straight(input, s, dim, norm, "real", "none")) is not None:
        return out
    input, scaling = real_input(name, input), scaling_of(norm, forward)
    dims, sizes = _dims_and_sizes(name, input, s, dim)
    _refuse_no_dims(name, dims)
    found = real_transform(resize(input, _lengths(input, dims, sizes)), dims, scaling)
    return found if forward else found.conj()


def _half_of_dims(name: str, input: Any, s: Any, dim: Any, norm: Any, forward: bool) -> Tensor:
    """Inverse, or (hfft) forward, which is the inverse transform of the conjugate."""
    if not forward and (out := straight(input, s, dim, norm, "halved", "size")) is not None:
        return out
    input, scaling = complex_input(name, input), scaling_of(norm, forward)
    dims, sizes = _dims_and_sizes(name, input, s, dim)
    _refuse_no_dims(name, dims)
    last = 2 * (input.shape[dims[-1]] - 1) if sizes[-1] is None else sizes[-1]
    refuse_length(last)
    lengths = _lengths(input, dims, [*sizes[:-1], last // 2 + 1])
    if forward:
        input = input.conj()
    return halved_transform(resize(input, lengths), dims, scaling, last)


# Transforms

Sizes = int | tuple[int, ...] | None


@composite(method=False, autocast="float32")
def fftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
    """`fft` along each of some dims, all by default; `s` has the length along each, -1 for the input's own.

    Raises RuntimeError for no data points, repeated dims, half types, an unknown norm, and where s and dim differ in
    length; IndexError for a dim that does not exist.
    """
    return _complex_of_dims("fftn", input, s, dim, norm, True)


@composite(method=False, autocast="float32")
def ifftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
    """The inverse of `fftn`, with its errors."""
    return _complex_of_dims("ifftn", input, s, dim, norm, False)


@composite(method=False, takes="bif", also="c", autocast="float32")
def rfftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
    """`fftn` of a real tensor; the last of the dims keeps the frequencies 0 to n // 2. Errors as for `fftn`.

    Also raises RuntimeError for complex tensors and for an empty list of dims.
    """
    return _real_of_dims("rfftn", input, s, dim, norm, True)


@composite(method=False, autocast="float32")
def irfftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
    """The inverse of `rfftn`, real, 2 * (size - 1) long in the last of the dims by default; errors as in `fftn`."""
    return _half_of_dims("irfftn", input, s, dim, norm, False)


@composite(method=False)
def hfftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
    """`fftn` of a signal with conjugate symmetry, half of it given in the last of the dims: real; errors as there."""
    return _half_of_dims("hfftn", input, s, dim, norm, True)


@composite(method=False, takes="bif", also="c")
def ihfftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
    """The inverse of `hfftn`: half of `ifftn` of a real tensor, with the errors of `rfftn`."""
    return _real_of_dims("ihfftn", input, s, dim, norm, False)


@composite(method=False, autocast="float32")
def fft2(input: Tensor, s: Sizes = None, dim: Sizes = LAST_TWO, norm: str | None = None) -> Tensor:
    """`fftn` over the last two dims."""
    return _complex_of_dims("fft2", input, s, dim, norm, True)


@composite(method=False, autocast="float32")
def ifft2(input: Tensor, s: Sizes = None, dim: Sizes = LAST_TWO, norm: str | None = None) -> Tensor:
    """`ifftn` over the last two dims."""
    return _complex_of_dims("ifft2", input, s, dim, norm, False)


@composite(method=False, takes="bif", also="c", autocast="float32")
def rfft2(input: Tensor, s: Sizes = None, dim: Sizes = LAST_TWO, norm: str | None = None) -> Tensor:
    """`rfftn` over the last two dims."""
    return _real_of_dims("rfft2", input, s, dim, norm, True)


@composite(method=False, autocast="float32")
def irfft2(input: Tensor, s: Sizes = None, dim: Sizes = LAST_TWO, norm: str | None = None) -> Tensor:
    """`irfftn` over the last two dims."""
    return _half_of_dims("irfft2", input, s, dim, norm, False)


@composite(method=False)
def hfft2(input: Tensor, s: Sizes = None, dim: Sizes = LAST_TWO, norm: str | None = None) -> Tensor:
    """`hfftn` over the last two dims."""
    return _half_of_dims("hfft2", input, s, dim, norm, True)


@composite(method=False, takes="bif", also="c")
def ihfft2(input: Tensor, s: Sizes = None, dim: Sizes = LAST_TWO, norm: str | None = None) -> Tensor:
    """`ihfftn` over the last two dims."""
    return _real_of_dims("ihfft2", input, s, dim, norm, False)


# The frequencies of a transform, and their order


def _frequencies(name: str, numbers: Any, n: Any, d: float, dtype: Any) -> np.ndarray:
    n, kind = integer(f"fft_{name}", "n", n), dtype_or_default(dtype)
    if kind.category < FLOATING:
        raise RuntimeError(f"{name} requires a floating point or complex dtype, got {kind!r}; expected mt.float32")
    if kind.category > FLOATING:
        raise NotImplementedError(f"{name} makes no {kind!r}; expected a floating dtype, convert the result with .to()")
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]; expected at least 0")
    with np.errstate(divide="ignore", invalid="ignore"):
        values = numbers(n).astype(np.float64) * (np.float64(1.0) / np.float64(n * d))
    return cast_unchecked(values, kind.dtype)


@factory()
def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None) -> np.ndarray:
    """The frequencies of `fft` of n samples with a distance of d: 0, 1, ..., -2, -1 over n * d, in its order.

    Raises RuntimeError for a negative n and for integer dtypes, NotImplementedError for complex ones.
    """

    def numbers(n: int) -> np.ndarray:
        return np.concatenate([np.arange((n + 1) // 2), np.arange(-(n // 2), 0)])

    return _frequencies("fftfreq", numbers, n, d, dtype)


@factory()
def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None) -> np.ndarray:
    """The frequencies of `rfft`: 0 to n // 2 over n * d, with the errors of `fftfreq`."""
    return _frequencies("rfftfreq", lambda n: np.arange(n // 2 + 1), n, d, dtype)


def _roll_frequencies(input: Tensor, dim: Any, inverse: bool) -> Tensor:
    given = range(input.ndim) if dim is None else dim if isinstance(dim, (tuple, list)) else (dim,)
    dims = tuple(existing_dim(each, input.ndim) for each in given)
    if not dims:
        raise RuntimeError("`shifts` required: a tensor without dimensions has no frequencies to shift")
    shifts = tuple((input.shape[each] + inverse) // 2 for each in dims)
    return roll(input, shifts, dims)


@composite(method=False)
def fftshift(input: Tensor, dim: int | tuple[int, ...] | None = None) -> Tensor:
    """The frequencies in ascending order, 0 in the middle, along `dim` (all by default).

    Raises IndexError for a dim that does not exist, RuntimeError for a tensor without dimensions.
    """
    return _roll_frequencies(input, dim, False)


@composite(method=False)
def ifftshift(input: Tensor, dim: int | tuple[int, ...] | None = None) -> Tensor:
    """The inverse of `fftshift`, with its errors."""
    return _roll_frequencies(input, dim, True)
