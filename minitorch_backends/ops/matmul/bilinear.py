"""The bilinear map of a layer."""

from __future__ import annotations

from ...autograd.half_types import product_precision, rounding_once
from ...dispatch.op import composite
from ...tensor.tensor import Tensor
from ..einsum.api import einsum
from ..functional import functional


@functional
@composite(method=False, takes="ifc", product="matmul")
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The sums over i and j of input1[..., i] * weight[o, i, j] * input2[..., j], for each o, and a bias.

    input1: (..., in1); input2: (..., in2), with equal leading sizes; weight: (out, in1, in2); bias: (out). Runs the
    kernels of matmul, at its precision. Raises RuntimeError for shapes that do not fit.
    """
    first, second, sizes = list(input1.shape), list(input2.shape), list(weight.shape)
    fits = len(sizes) == 3 and first[-1:] == sizes[1:2] and second[-1:] == sizes[2:] and first[:-1] == second[:-1]
    if not fits or (bias is not None and list(bias.shape) != sizes[:1]):
        raise RuntimeError(
            f"bilinear(): expected inputs (..., in1) and (..., in2), a weight (out, in1, in2) and a bias (out), "
            f"got {first}, {second}, {sizes} and {None if bias is None else list(bias.shape)}"
        )
    return _sums(input1, input2, weight, bias, product_precision(input1))


@rounding_once
def _sums(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None, precision: str | None) -> Tensor:
    result = einsum("...i,oij,...j->...o", input1, weight, input2, precision=precision)
    return result if bias is None else result + bias
