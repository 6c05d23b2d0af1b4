"""All numbers of the parameters of a model as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from ...autograd.modes import no_grad
from ...ops.views.join import cat
from ...tensor.call_errors import argument_errors
from ...tensor.tensor import Tensor


@argument_errors
def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All numbers of the parameters, one after the other; gradients of it reach them."""
    return cat([each.reshape(-1) for each in parameters])


@argument_errors
@no_grad()
def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Write the numbers of a vector to the parameters, one after the other.

    Raises RuntimeError unless it has as many.
    """
    held = list(parameters)
    sizes = [each.numel() for each in held]
    if vec.ndim != 1 or vec.numel() != sum(sizes):
        raise RuntimeError(
            f"vector_to_parameters(): vec must be a vector of {sum(sizes)} numbers, the total of the parameters, "
            f"got shape {list(vec.shape)}"
        )
    for each, part in zip(held, vec.split(sizes), strict=True):
        each.copy_(part.reshape(each.shape))
