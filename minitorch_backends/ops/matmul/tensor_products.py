"""Products over other dimensions than the last two, outer ones, and products of chains of matrices."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

from ...autograd.modes import derives_from
from ...dispatch.op import composite, synonyms
from ...tensor.dtypes import promote_types
from ...tensor.tensor import Tensor, adopt
from ..dims import wrap_dim
from .dispatch import shape_error
from .matmul import matmul, of_dims

__all__ = ["chain_matmul", "ger", "inner", "kron", "outer", "tensordot"]


@composite(takes="ifc", product="matmul", autocast="unchanged")
def inner(input: Tensor, other: Tensor, *, precision: str | None = None) -> Tensor:
    """Sums of products over the last dimension of both; a 0-dim operand scales the other. Raises RuntimeError for last
    dimensions of different sizes."""
    if input.ndim == 0 or other.ndim == 0:
        return input * other
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            f"inner(): the last dimension must match, and the shapes are {list(input.shape)} and {list(other.shape)}"
        )
    return tensordot(input, other, dims=([-1], [-1]), precision=precision)


@composite()
def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product: each element of `input` times the whole of `other`, dimension by dimension."""
    first, second = (1,) * (other.ndim - input.ndim) + input.shape, (1,) * (input.ndim - other.ndim) + other.shape
    left, right = [n for each in first for n in (each, 1)], [n for each in second for n in (1, each)]
    shape = list(map(operator.mul, first, second))
    if derives_from(input) or derives_from(other):
        return (input.reshape(left) * other.reshape(right)).reshape(shape)
    return adopt((adopt(input._array.reshape(left)) * adopt(other._array.reshape(right)))._array.reshape(shape))


@composite(method=False, takes="ifc", product="matmul", aliases={"axes": "dims"}, autocast="lower")
def tensordot(a: Tensor, b: Tensor, dims: Any = 2, *, precision: str | None = None) -> Tensor:
    """Sums of products over `dims`: the last ones of `a` and the first of `b` (an int), or two lists of dimensions.

    A summed dimension of size 1 meets any size. Raises RuntimeError for other sizes that differ.
    """
    if isinstance(dims, int):
        if not 0 <= dims <= min(a.ndim, b.ndim):
            raise RuntimeError(
                f"tensordot expects 0 <= dims <= {min(a.ndim, b.ndim)} for shapes {list(a.shape)} and "
                f"{list(b.shape)}, got {dims}"
            )
        dims = (list(range(a.ndim - dims, a.ndim)), list(range(dims)))
    summed_a, summed_b = (
        [wrap_dim(dim, each.ndim) for dim in listed] for listed, each in zip(dims, (a, b), strict=True)
    )
    for dim_a, dim_b in zip(summed_a, summed_b, strict=False):
        if a.shape[dim_a] == 1 != b.shape[dim_b]:
            b = b.sum(dim_b, True, dtype=b.dtype)
        elif b.shape[dim_b] == 1 != a.shape[dim_a]:
            a = a.sum(dim_a, True, dtype=a.dtype)
    if [a.shape[dim] for dim in summed_a] != [b.shape[dim] for dim in summed_b]:
        raise RuntimeError(
            f"tensordot: contracted dimensions need to match, but {dims} of shapes {list(a.shape)} and "
            f"{list(b.shape)} do not"
        )
    kept_a = [dim for dim in range(a.ndim) if dim not in summed_a]
    kept_b = [dim for dim in range(b.ndim) if dim not in summed_b]
    inner_size = math.prod(a.shape[dim] for dim in summed_a)
    shape_a, shape_b = [a.shape[dim] for dim in kept_a], [b.shape[dim] for dim in kept_b]
    rows = a.permute([*kept_a, *summed_a]).reshape(math.prod(shape_a), inner_size)
    columns = b.permute([*summed_b, *kept_b]).reshape(inner_size, math.prod(shape_b))
    return matmul(rows, columns, precision=precision).reshape(shape_a + shape_b)


@composite(method=False, takes="ifc", product="matmul")
def multi_dot(tensors: Sequence[Tensor], *, precision: str | None = None) -> Tensor:
    """The product of two or more matrices in the cheapest order; the first and the last may be vectors.

    The order comes from the classical dynamic programme (Cormen et al., Introduction to Algorithms, section 14.2).
    Raises RuntimeError for fewer than two tensors and for mismatched sizes.
    """
    tensors = list(tensors)
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    first_is_row, last_is_column = tensors[0].ndim == 1, tensors[-1].ndim == 1
    tensors[0] = tensors[0].unsqueeze(0) if first_is_row else tensors[0]
    tensors[-1] = tensors[-1].unsqueeze(1) if last_is_column else tensors[-1]
    of_dims("multi_dot", *[(f"tensors[{index}]", tensor, 2) for index, tensor in enumerate(tensors)])
    for left, right in itertools.pairwise(tensors):
        if left.shape[1] != right.shape[0]:
            raise shape_error(left._array, right._array)
    splits = _cheapest_splits([tensor.shape[0] for tensor in tensors] + [tensors[-1].shape[1]])
    result = _multiply_chain(tensors, splits, 0, len(tensors) - 1, precision)
    result = result.squeeze(-1) if last_is_column else result
    return result.squeeze(0) if first_is_row else result


def _multiply_chain(
    tensors: list[Tensor], splits: dict[tuple[int, int], int], start: int, stop: int, precision: str | None
) -> Tensor:
    """The product of the matrices from `start` to `stop`, in the order of `splits`."""
    if start == stop:
        return tensors[start]
    middle = splits[start, stop]
    left = _multiply_chain(tensors, splits, start, middle, precision)
    return matmul(left, _multiply_chain(tensors, splits, middle + 1, stop, precision), precision=precision)


def _cheapest_splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """For each run of matrices, given the sizes between them, after which one to split it."""
    count = len(sizes) - 1
    cost = {(index, index): 0 for index in range(count)}
    splits: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for start in range(count - length):
            stop = start + length
            options = [
                (
                    cost[start, middle] + cost[middle + 1, stop] + sizes[start] * sizes[middle + 1] * sizes[stop + 1],
                    middle,
                )
                for middle in range(start, stop)
            ]
            cost[start, stop], splits[start, stop] = min(options)
    return splits


@composite(method=False, takes="ifc", product="matmul")
def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of one or more matrices in the cheapest order."""
    return matrices[0] if len(matrices) == 1 else multi_dot(matrices)


@composite(product="matmul", autocast="unchanged")
def outer(input: Tensor, vec2: Tensor, *, precision: str | None = None) -> Tensor:
    """The product of every element of one vector with every element of another, a matrix of their common type."""
    of_dims("outer", ("input", input, 1), ("vec2", vec2, 1))
    if input._array.dtype is not vec2._array.dtype:
        dtype = promote_types(input.dtype, vec2.dtype)
        input, vec2 = input.to(dtype), vec2.to(dtype)
    column, row = input.unsqueeze(1), vec2.unsqueeze(0)
    return matmul(column, row, precision=precision) if input.dtype.category else column & row


ger = outer
synonyms(ger=outer)
