"""Matrix products. All of them end in one function, `product`, which asks the flags for the precision and calls the
kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .. import watch
from ..backends.permission import Choice, chosen, precision_of
from ..dtypes import dtype_of
from ..flags import State, current
from ..kernels.gemm import addmm as kernel_addmm
from ..kernels.gemm import gains_by_packing
from ..kernels.gemm import matmul as kernel
from ..kernels.gemm.blas import dots, product_of_dots
from ..kernels.gemm.half import half_matmul
from ..kernels.precision import PRECISIONS, named
from ..kernels.registry import ArraySpec, Kernel
from ..op import Array, composite, op
from ..samples import Sample, between, sample
from ..tensor import Tensor, adopt

__all__ = ["bmm", "dot", "matmul", "mm", "mv", "outer", "vdot"]

_FLOAT32 = np.dtype(np.float32)
_EXACT = Choice("ieee", "precision flags act on float32 products only")
_REDUCTIONS = {"float16": "cuda.matmul.fp16_reduction", "bfloat16": "cuda.matmul.bf16_reduction"}

_CALLS_KEPT = 512
"""Pairs of shapes for which a state of the flags keeps what is called, for each dtype, under NumPy's number of it."""


def product(a: np.ndarray, b: np.ndarray, precision: str | None = None) -> np.ndarray:
    """(..., m, k) times (..., k, n) at the precision of the call, or of the flags in force; float32 only has a
    choice.
    """
    if a.dtype is b.dtype and (precision is None or type(precision) is str):
        call = _kept_call(a, b, precision)
        return call(a, b) if call is not None else _new_call(a, b, precision)(a, b)
    planned = _plan(a, precision)
    return planned.kernel(a, b, decided_by=planned.decided_by, **planned.keywords)


def _kept_call(
    a: np.ndarray, b: np.ndarray, precision: str | None = None
) -> Callable[[np.ndarray, np.ndarray], np.ndarray] | None:
    """What a product of these shapes and of the dtype of both called before, at the precision of the call or of the
    flags in force."""
    kept = current().derived.get(a.dtype.num if precision is None else (a.dtype.num, precision))
    return None if kept is None else kept.get((a.shape, b.shape))


def _new_call(
    a: np.ndarray, b: np.ndarray, precision: str | None = None
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """What products of two shapes and of one dtype call at the flags in force; kept by their state, where the direction
    of the pass does not matter. Found anew each time, float64 products took 4 us longer and bfloat16 ones 8."""
    state, planned = current(), _plan(a, precision)
    specs = ArraySpec(a.shape, a.dtype), ArraySpec(b.shape, b.dtype)
    call = planned.kernel.prepared(*specs, planned.decided_by, **planned.keywords)
    if a.dtype is not _FLOAT32 or precision is not None or "float32 product" in state.derived:
        kept = state.derived.setdefault(a.dtype.num if precision is None else (a.dtype.num, precision), {})
        if len(kept) >= _CALLS_KEPT:
            kept.clear()
        kept[a.shape, b.shape] = call
    return call


def straight_product(a: ArraySpec, b: ArraySpec, precision: str | None = None) -> Callable[..., np.ndarray] | None:
    """The function that `product` ends in for operands of these shapes and dtypes and this precision (None: that of the
    flags in force), while
    nobody observes the kernels; None where it depends on more than these. It raises `Refused` where `product` would go
    on to the next implementation.
    """
    if a.dtype.itemsize == 2:
        return None
    if a.dtype is not _FLOAT32:
        return kernel.first(a, b, **_keywords(current(), "ieee"))
    state = current()
    if precision is not None:
        return kernel.first(a, b, **_keywords(state, choice_of(precision, "matmul").precision))
    keywords = float32_call(state)[1]
    return kernel.first(a, b, **keywords) if "float32 product" in state.derived else None


def straight_dots(a: ArraySpec, b: ArraySpec, precision: str | None = None) -> Callable[..., np.ndarray] | None:
    """What makes of (..., k) and (..., k) the sums (...) that `straight_product` makes of (..., 1, k) and (..., k, 1),
    where such a function is all there is to it; else None.
    """
    return dots if straight_product(a, b, precision) is product_of_dots else None


def fused_sum(
    a: np.ndarray, b: np.ndarray, addend: np.ndarray, alpha: float, beta: float, precision: str | None
) -> np.ndarray | None:
    """alpha * (a @ b) + beta * addend, added while the product is stored; of half types it is rounded once.

    None where flags have sums of half types rounded on the way, and, of other types, where something else than the
    loops that add makes the product.
    """
    if a.dtype.kind == "c" or a.dtype.kind in "biu":
        return None
    planned = _plan(a, precision)
    if planned.kernel is not kernel:
        return None
    if a.dtype.name not in _REDUCTIONS and (
        "prefer" in planned.keywords
        or not gains_by_packing(ArraySpec(a.shape, a.dtype), ArraySpec(b.shape, b.dtype), **planned.keywords)
    ):
        return None
    sums: dict[str, Any] = {"alpha": float(alpha), "beta": float(beta)}
    return kernel_addmm(a, b, addend, decided_by=planned.decided_by, **sums, **planned.keywords)


def float32_call(state: State) -> tuple[str, dict[str, Any]]:
    """Who decides, and the keywords of the kernel, for products at the precision of the flags in force."""
    choice = precision_of("matmul")
    call = choice.decided_by, _keywords(state, choice.precision)
    if state.derived["matmul"] is choice:  # and so the same in forward and in backward passes
        state.derived["float32 product"] = call
    return call


class _Plan(NamedTuple):
    """Which kernel is called for two operands, with which keywords, and who decided."""

    kernel: Kernel
    keywords: dict[str, Any]
    decided_by: str | None


def _plan(a: np.ndarray, precision: str | None = None) -> _Plan:
    """How a product of arrays of the dtype of `a` is called."""
    state, choice = current(), _EXACT
    if a.dtype == _FLOAT32:
        if precision is None:
            decided_by, keywords = state.derived.get("float32 product") or float32_call(state)
            return _Plan(kernel, keywords, decided_by)
        choice = choice_of(precision, "matmul")
    elif (sums := _half_sums(state, a.dtype.name)) is not None:
        return _Plan(half_matmul, {"sums": sums.precision}, sums.decided_by)
    return _Plan(kernel, _keywords(state, choice.precision), choice.decided_by)


def _keywords(state: State, precision: str) -> dict[str, Any]:
    """How the flags have the kernel called at a precision. Defaults are left out: each would cost 0.3 us a call."""
    keywords: dict[str, Any] = {} if precision == "ieee" else {"precision": precision}
    if precision == "tf32":
        keywords["rounding"] = state.read("tf32_rounding")
    if state.read("cuda.blas_library") == "cublaslt":
        keywords["prefer"] = "blas"
    return keywords


def choice_of(precision: str, product: str) -> Choice:
    """The precision that a call names, for a kind of product; raises ValueError for names that there are not."""
    if type(precision) is str:
        try:
            precision = named(precision).name
        except ValueError:
            known = ", ".join(map(repr, PRECISIONS))
            raise ValueError(
                f"precision={precision!r} is unknown; expected None (ask the flags) or one of {known}"
            ) from None
    return chosen(precision, product)


def _half_sums(state: State, dtype: str) -> Choice | None:
    """Where the flags let the sums of half products be rounded on the way, and who decided; None for nowhere."""
    if dtype not in _REDUCTIONS or state.read("emulate") not in (None, "cuda"):
        return None
    if dtype == "float16" and state.read("cuda.matmul.allow_fp16_accumulation"):
        return Choice("half", "cuda.matmul.allow_fp16_accumulation = True")
    value, decided_by = state.resolve(_REDUCTIONS[dtype])
    if value != "reduced" or (decided_by is None and state.read("emulate") is None):
        return None
    return Choice("parts", f"{decided_by} = 'reduced'" if decided_by else "emulate = 'cuda', whose default it is")


def refuse_mixed(a: np.ndarray, b: np.ndarray) -> None:
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"expected both factors to have the same dtype, but got {dtype_of(a)!r} and {dtype_of(b)!r}; convert one "
            "with .to(dtype)"
        )


def shape_error(a: np.ndarray, b: np.ndarray) -> RuntimeError:
    first, second = ("x".join(map(str, each.shape)) for each in (a, b))
    return RuntimeError(
        f"mat1 and mat2 shapes cannot be multiplied ({first} and {second}); "
        f"expected the last size of the first, {a.shape[-1]}, to equal the size of the second it meets, "
        f"{b.shape[max(b.ndim - 2, 0)]}"
    )


# Gradients. A vector stands as a matrix of one row (on the left) or one column (on the right).


def _gradient_of_left(g: Tensor, other: Tensor, input_shape: tuple, precision: str | None) -> Tensor:
    if _is_plain(g, other) and len(input_shape) == 2:
        return adopt(product(g._array, other._array.T, precision))
    if other.ndim == 1:
        g, other = g.unsqueeze(-1), other.unsqueeze(-1)
    if len(input_shape) == 1:
        return times(g.unsqueeze(-2), adjoint(other), precision).squeeze(-2)
    return times(g, adjoint(other), precision)


def _gradient_of_right(g: Tensor, input: Tensor, other_shape: tuple, precision: str | None) -> Tensor:
    if _is_plain(g, input) and len(other_shape) == 2:
        return adopt(product(input._array.T, g._array, precision))
    if input.ndim == 1:
        g, input = g.unsqueeze(-1 if len(other_shape) == 1 else -2), input.unsqueeze(0)
    elif len(other_shape) == 1:
        g = g.unsqueeze(-1)
    if len(other_shape) == 1:
        g = g if g.ndim > 1 else g.unsqueeze(-1)
        return times(adjoint(input), g, precision).squeeze(-1)
    return times(adjoint(input), g, precision)


def _is_plain(g: Tensor, factor: Tensor) -> bool:
    """Whether both are real matrices of one type with nothing to record: then the product of their arrays is the
    gradient, in half the time of views and ops."""
    x, y = g._array, factor._array
    plain = g._node is None and factor._node is None and x.ndim == 2 and y.ndim == 2
    return plain and x.dtype is y.dtype and x.dtype.kind == "f" and not watch.calls


def times(a: Tensor, b: Tensor, precision: str | None) -> Tensor:
    """The product at a precision, or at that of the flags, for which a call without keywords takes half the time."""
    return matmul(a, b) if precision is None else matmul(a, b, precision=precision)


def adjoint(matrix: Tensor) -> Tensor:
    return matrix.mT.conj() if matrix._array.dtype.kind == "c" else matrix.mT


# Samples


def _matrices() -> Iterator[Sample]:
    yield sample(between(-1, 1, 3, 4), between(-1, 1, 4, 2, seed=1))
    yield sample(between(-1, 1, 4, 3).T, between(-1, 1, 2, 4, seed=1).T)
    yield sample(between(-1, 1, 0, 4), between(-1, 1, 4, 2, seed=1))


def _products() -> Iterator[Sample]:
    yield from _matrices()
    yield sample(between(-1, 1, 2, 1, 3, 4), between(-1, 1, 3, 4, 2, seed=1))
    yield sample(between(-1, 1, 6, 8)[::2, ::-2], between(-1, 1, 4, seed=1))
    yield sample(between(-1, 1, 3), between(-1, 1, 2, 3, 4, seed=1))
    yield sample(between(-1, 1, 2, 3, 4), between(-1, 1, 4, seed=1))
    yield sample(between(-1, 1, 3), between(-1, 1, 3, seed=1))
    yield sample(between(-1, 1, 3, 0), between(-1, 1, 0, 2, seed=1))


def _vectors() -> Iterator[Sample]:
    yield sample(between(-1, 1, 4), between(-1, 1, 4, seed=1))
    yield sample(between(-1, 1, 8)[::-2], between(-1, 1, 4, seed=1))
    yield sample(between(-1, 1, 0), between(-1, 1, 0, seed=1))


# The ops


@op(
    operators=("__matmul__", "__rmatmul__"),
    takes="ifc",
    widen=False,
    warns=False,
    product="matmul",
    input=_gradient_of_left,
    other=_gradient_of_right,
    reference=np.matmul,
    samples=_products,
)
def matmul(input: Array, other: Array, *, precision: str | None = None) -> np.ndarray:
    """The matrix product of the last two dimensions; the others broadcast. Vectors are rows on the left, columns on
    the right.

    `precision` names the precision of this one float32 product; None asks the flags (`explain.precision_of("matmul")`).
    Raises RuntimeError for sizes that do not meet and for operands of different dtypes.
    """
    if precision is None and input.dtype is other.dtype:
        kept = current().derived.get(input.dtype.num)  # here and not in `_kept_call`: a call takes 0.1 us
        call = None if kept is None else kept.get((input.shape, other.shape))
        if call is not None:  # and so the shapes fit
            return call(input, other)
    if input.dtype is not other.dtype:
        refuse_mixed(input, other)
    if input.ndim == 2 and other.ndim == 2:
        if input.shape[1] != other.shape[0]:
            raise shape_error(input, other)
        return product(input, other, precision)
    if input.ndim == 0 or other.ndim == 0:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {input.ndim}D and {other.ndim}D; use * "
            "for scalars"
        )
    if input.shape[-1] != other.shape[max(other.ndim - 2, 0)]:
        raise shape_error(input, other)
    rows = input[None, :] if input.ndim == 1 else input
    columns = other[:, None] if other.ndim == 1 else other
    try:
        np.broadcast_shapes(rows.shape[:-2], columns.shape[:-2])
    except ValueError:
        raise RuntimeError(
            f"the batch dimensions {list(rows.shape[:-2])} and {list(columns.shape[:-2])} do not broadcast; "
            "expected equal sizes, or 1, counted from the right"
        ) from None
    result = product(rows, columns, precision)
    result = result[..., 0] if other.ndim == 1 else result
    return result[..., 0, :] if input.ndim == 1 and other.ndim > 1 else result[..., 0] if input.ndim == 1 else result


def of_dims(name: str, *expected: tuple[str, Tensor, int]) -> None:
    for argument, tensor, dims in expected:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name}(): argument {argument!r} must be a Tensor, not {type(tensor).__name__}")
        if tensor.ndim != dims:
            raise RuntimeError(
                f"{name}(): argument {argument!r} must be {dims}-D, and it has shape {list(tensor.shape)}"
            )


@composite(takes="ifc", reference=np.matmul, samples=_matrices)
def mm(input: Tensor, mat2: Tensor, *, precision: str | None = None) -> Tensor:
    """The product of two matrices; see `matmul`."""
    of_dims("mm", ("input", input, 2), ("mat2", mat2, 2))
    return matmul(input, mat2, precision=precision)


def _batches() -> Iterator[Sample]:
    yield sample(between(-1, 1, 2, 3, 4), between(-1, 1, 2, 4, 5, seed=1))
    yield sample(between(-1, 1, 2, 4, 3).transpose(0, 2, 1), between(-1, 1, 2, 4, 5, seed=1)[::-1])
    yield sample(between(-1, 1, 0, 3, 4), between(-1, 1, 0, 4, 5, seed=1))


@composite(takes="ifc", reference=np.matmul, samples=_batches)
def bmm(input: Tensor, mat2: Tensor, *, precision: str | None = None) -> Tensor:
    """The products of two batches of matrices, (b, n, m) and (b, m, p); batches do not broadcast."""
    of_dims("bmm", ("input", input, 3), ("mat2", mat2, 3))
    if input.shape[0] != mat2.shape[0]:
        raise RuntimeError(f"bmm(): expected batches of equal size, and got {input.shape[0]} and {mat2.shape[0]}")
    return matmul(input, mat2, precision=precision)


@composite(
    takes="ifc",
    reference=np.matmul,
    samples=lambda: iter(
        [sample(between(-1, 1, 4, 3).T, between(-1, 1, 4)), sample(between(-1, 1, 0, 3), between(-1, 1, 3))]
    ),
)
def mv(input: Tensor, vec: Tensor, *, precision: str | None = None) -> Tensor:
    """The product of a matrix and a vector."""
    of_dims("mv", ("input", input, 2), ("vec", vec, 1))
    return matmul(input, vec, precision=precision)


@composite(takes="ifc", reference=np.dot, samples=_vectors)
def dot(input: Tensor, tensor: Tensor, *, precision: str | None = None) -> Tensor:
    """The sum of the products of two vectors, without conjugation."""
    of_dims("dot", ("input", input, 1), ("tensor", tensor, 1))
    return matmul(input, tensor, precision=precision)


@composite(takes="ifc", reference=np.vdot, samples=_vectors)
def vdot(input: Tensor, other: Tensor, *, precision: str | None = None) -> Tensor:
    """The sum of the products of two vectors, the first conjugated."""
    of_dims("vdot", ("input", input, 1), ("other", other, 1))
    return matmul(input.conj() if input.is_complex() else input, other, precision=precision)


@composite(
    takes="ifc",
    reference=np.outer,
    samples=lambda: iter(
        [
            sample(between(-1, 1, 3), between(-1, 1, 4)),
            sample(between(-1, 1, 6)[::-2], between(-1, 1, 0)),
        ]
    ),
)
def outer(input: Tensor, vec2: Tensor, *, precision: str | None = None) -> Tensor:
    """The product of every element of one vector with every element of another, a matrix."""
    of_dims("outer", ("input", input, 1), ("vec2", vec2, 1))
    return matmul(input.unsqueeze(1), vec2.unsqueeze(0), precision=precision)
