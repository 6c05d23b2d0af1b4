"""Dimensions in another order, always as views."""

from __future__ import annotations

from typing import Any

from ...dispatch.op import Array, Forms, composite, op, synonyms
from ...tensor.tensor import Tensor
from ..dims import wrap_dim, wrap_dims

__all__ = ["adjoint", "moveaxis", "movedim", "permute", "swapaxes", "swapdims", "t", "transpose"]


@op(
    name="transpose",
    input=lambda g, dim0, dim1: transpose(g, dim0, dim1),
    traits="view unwidened function",
    forms=Forms(aliases={"axis0": "dim0", "axis1": "dim1"}),
    batch="shift dim0 dim1",
)
def _exchange(input: Array, dim0: int, dim1: int) -> Array:
    dim0, dim1 = wrap_dim(dim0, input.ndim), wrap_dim(dim1, input.ndim)
    return input.swapaxes(dim0, dim1) if input.ndim else input[...]


def transpose(*args: Any, **named: Any) -> Tensor:
    """`transpose(input, dim0, dim1)`: a view with two dimensions exchanged. A tuple in their place is a permutation, as
    in NumPy. Raises IndexError for a dim out of range."""
    if len(args) == 2 and isinstance(args[1], (tuple, list)) and not named:
        return permute(*args)
    return _exchange(*args, **named)


transpose.__wrapped__ = _exchange  # type: ignore[attr-defined]
transpose.op, transpose.overloads = _exchange.op, _exchange.overloads  # type: ignore[attr-defined]
_exchange.op.public = Tensor.transpose = transpose  # type: ignore[method-assign]


@op(input=lambda g: mT(g), traits="view unwidened function", batch="trailing 2")
def mT(input: Array) -> Array:
    """A view with the last two dimensions exchanged. Raises RuntimeError for fewer than two."""
    if input.ndim < 2:
        raise RuntimeError(
            f"tensor.mT is only supported on matrices or batches of matrices, got shape {list(input.shape)}; use "
            "unsqueeze"
        )
    return input.swapaxes(-2, -1)


def _inverse(dims: Any, ndim: int) -> tuple[int, ...]:
    inverse = [0] * ndim
    for position, dim in enumerate(wrap_dims(tuple(dims), ndim)):
        inverse[dim] = position
    return tuple(inverse)


@op(
    input=lambda g, input_shape, dims: permute(g, _inverse(dims, len(input_shape))),
    traits="view unwidened",
    forms=Forms(variadic="dims"),
    batch="permute",
)
def permute(input: Array, dims: Any) -> Array:
    """A view with the dimensions in the order `dims`. Raises RuntimeError unless each is named exactly once,
    TypeError for None."""
    if dims is None:
        raise TypeError("permute(): argument 'dims' must be a sequence of int, not None")
    if len(dims) != input.ndim:
        raise RuntimeError(
            f"permute: dims {list(dims)} must name each of the {input.ndim} dimensions of {list(input.shape)} once"
        )
    try:
        if not dims or -input.ndim <= min(dims) <= max(dims) < input.ndim:  # NumPy cuts others to 32 bits
            return input.transpose(dims)
    except (ValueError, TypeError):
        pass
    return input.transpose(wrap_dims(tuple(dims), input.ndim))


@composite()
def t(input: Tensor) -> Tensor:
    """The transpose of a matrix; vectors and scalars are unchanged.

    Raises RuntimeError for more than two dimensions.
    """
    if input._array.ndim > 2:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 dimensions, got shape {list(input._array.shape)}; use mT or permute"
        )
    return mT(input) if input._array.ndim == 2 else input.view(input._array.shape)


def _reverse_dims(self: Tensor) -> Tensor:
    """The dimensions in reverse order: the transpose of a matrix."""
    ndim = self._array.ndim
    return mT(self) if ndim == 2 else permute(self, tuple(range(ndim - 1, -1, -1)))


@composite(method=False, name="H")
def _hermitian(input: Tensor) -> Tensor:
    """The conjugate transpose of a matrix (or a scalar). Raises RuntimeError for other tensors."""
    if input._array.ndim not in (0, 2):
        raise RuntimeError(
            f"tensor.H is only supported on matrices (2-D tensors), got shape {list(input._array.shape)}; use mH "
            "for batches"
        )
    return adjoint(input) if input._array.ndim else input.conj()


@composite()
def adjoint(input: Tensor) -> Tensor:
    """The conjugate transpose of a matrix or a batch of matrices; for real tensors the same as `mT`."""
    return mT(input).conj() if input.is_complex() else mT(input)


Tensor.mT, Tensor.T = property(mT), property(_reverse_dims)  # type: ignore[assignment, method-assign]
Tensor.H, Tensor.mH = property(_hermitian), property(adjoint)  # type: ignore[assignment, method-assign]


@composite()
def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """A view with the dimensions `source` moved to `destination`; the others keep their order. Raises RuntimeError
    unless both are equally many."""
    ndim = input._array.ndim
    source, destination = wrap_dims(source, ndim), wrap_dims(destination, ndim)
    if len(source) != len(destination):
        raise RuntimeError(
            f"movedim: source {list(source)} and destination {list(destination)} dims must be equally many"
        )
    rest = iter(dim for dim in range(ndim) if dim not in source)
    back = dict(zip(destination, source, strict=True))
    return permute(input, tuple(back[dim] if dim in back else next(rest) for dim in range(ndim)))


swapaxes = swapdims = transpose
moveaxis = movedim
synonyms(swapaxes=transpose, swapdims=transpose, moveaxis=movedim)
