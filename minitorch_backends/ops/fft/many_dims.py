"""Fourier transforms over two or more dimensions, under torch's names. `one_dim` has the shared parts."""

from __future__ import annotations

from typing import Any

from ...dispatch.op import composite
from ...tensor.tensor import Tensor
from ..dims import integer, wrap_dim
from .one_dim import complex_input, real_input, refuse_length, resize, scaling_of
from .transforms import LAST_TWO, halved_transform, real_transform, straight, transform

Dims = tuple[int, ...]


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


def _complex(name: str, input: Any, s: Any, dim: Any, norm: Any, forward: bool) -> Tensor:
    kind, scaling = ("forward", "none") if forward else ("inverse", "size")
    if (out := straight(input, s, dim, norm, kind, scaling)) is not None:
        return out
    input, scaling = complex_input(name, input), scaling_of(norm, forward)
    dims, sizes = _dims_and_sizes(name, input, s, dim)
    return transform(resize(input, _lengths(input, dims, sizes)), dims, scaling, forward)


def _real(name: str, input: Any, s: Any, dim: Any, norm: Any, forward: bool) -> Tensor:
    """Forward, or (ihfft) inverse, which is the conjugate of the forward transform of a real tensor."""
    if forward and (out := straight(input, s, dim, norm, "real", "none")) is not None:
        return out
    input, scaling = real_input(name, input), scaling_of(norm, forward)
    dims, sizes = _dims_and_sizes(name, input, s, dim)
    _refuse_no_dims(name, dims)
    found = real_transform(resize(input, _lengths(input, dims, sizes)), dims, scaling)
    return found if forward else found.conj()


def _transform_half(name: str, input: Any, s: Any, dim: Any, norm: Any, forward: bool) -> Tensor:
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


# References and samples


# Transforms

Sizes = int | tuple[int, ...] | None


@composite(method=False, autocast="float32")
def fftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
    """`fft` along each of some dims, all by default; `s` has the length along each, -1 for the input's own.

    Raises RuntimeError for no data points, repeated dims, half types, an unknown norm, and where s and dim differ in
    length; IndexError for a dim that does not exist.
    """
    return _complex("fftn", input, s, dim, norm, True)


@composite(method=False, autocast="float32")
def ifftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
    """The inverse of `fftn`, with its errors."""
    return _complex("ifftn", input, s, dim, norm, False)


@composite(method=False, takes="bif", also="c", autocast="float32")
def rfftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
    """`fftn` of a real tensor; the last of the dims keeps the frequencies 0 to n // 2. Errors as for `fftn`.

    Also raises RuntimeError for complex tensors and for an empty list of dims.
    """
    return _real("rfftn", input, s, dim, norm, True)


@composite(method=False, autocast="float32")
def irfftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
    """The inverse of `rfftn`, real, 2 * (size - 1) long in the last of the dims by default; errors as in `fftn`."""
    return _transform_half("irfftn", input, s, dim, norm, False)


@composite(method=False)
def hfftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
    """`fftn` of a signal with conjugate symmetry, half of it given in the last of the dims: real; errors as there."""
    return _transform_half("hfftn", input, s, dim, norm, True)


@composite(method=False, takes="bif", also="c")
def ihfftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
    """The inverse of `hfftn`: half of `ifftn` of a real tensor, with the errors of `rfftn`."""
    return _real("ihfftn", input, s, dim, norm, False)


@composite(method=False, autocast="float32")
def fft2(input: Tensor, s: Sizes = None, dim: Sizes = LAST_TWO, norm: str | None = None) -> Tensor:
    """`fftn` over the last two dims."""
    return _complex("fft2", input, s, dim, norm, True)


@composite(method=False, autocast="float32")
def ifft2(input: Tensor, s: Sizes = None, dim: Sizes = LAST_TWO, norm: str | None = None) -> Tensor:
    """`ifftn` over the last two dims."""
    return _complex("ifft2", input, s, dim, norm, False)


@composite(method=False, takes="bif", also="c", autocast="float32")
def rfft2(input: Tensor, s: Sizes = None, dim: Sizes = LAST_TWO, norm: str | None = None) -> Tensor:
    """`rfftn` over the last two dims."""
    return _real("rfft2", input, s, dim, norm, True)


@composite(method=False, autocast="float32")
def irfft2(input: Tensor, s: Sizes = None, dim: Sizes = LAST_TWO, norm: str | None = None) -> Tensor:
    """`irfftn` over the last two dims."""
    return _transform_half("irfft2", input, s, dim, norm, False)


@composite(method=False)
def hfft2(input: Tensor, s: Sizes = None, dim: Sizes = LAST_TWO, norm: str | None = None) -> Tensor:
    """`hfftn` over the last two dims."""
    return _transform_half("hfft2", input, s, dim, norm, True)


@composite(method=False, takes="bif", also="c")
def ihfft2(input: Tensor, s: Sizes = None, dim: Sizes = LAST_TWO, norm: str | None = None) -> Tensor:
    """`ihfftn` over the last two dims."""
    return _real("ihfft2", input, s, dim, norm, False)
