"""The affine map of a layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..op import composite
from ..samples import Sample, between, sample
from ..tensor import Tensor

__all__ = ["linear"]


def _samples() -> Iterator[Sample]:
    weight, bias = between(-1, 1, 3, 4, seed=1), between(-1, 1, 3, seed=2)
    yield sample(between(-1, 1, 2, 4), weight)
    yield sample(between(-1, 1, 2, 5, 4), weight, bias)
    yield sample(between(-1, 1, 8, 4)[::2, ::-2].T, weight, bias)
    yield sample(between(-1, 1, 4), weight, bias)
    yield sample(between(-1, 1, 2, 4), weight[0])
    yield sample(between(-1, 1, 0, 4), weight, bias)


def _reference(input: Any, weight: Any, bias: Any = 0) -> Any:
    return input @ weight.T + bias


@composite(takes="ifc", method=False, reference=_reference, samples=_samples)
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias.

    input: (..., in_features); weight: (out_features, in_features) or (in_features); bias: (out_features) or ().
    """
    product = input @ weight.t()
    return product if bias is None else product + bias
