"""Products of arrays under the flags in force: which kernel is called at which precision, by whose decision."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...backends.precision_policy import Choice, chosen, precision_of
from ...flags import State, current
from ...kernels.gemm import addmm as kernel_addmm
from ...kernels.gemm import gains_by_packing
from ...kernels.gemm import matmul as kernel
from ...kernels.gemm.blas import dots, product_of_dots
from ...kernels.gemm.half import half_matmul
from ...kernels.precision import PRECISIONS, named
from ...kernels.registry import ArraySpec, Kernel, Refused
from . import answers

__all__ = [
    "EXACT",
    "WITH_PRECISION",
    "call_of",
    "choice_of",
    "fused_sum",
    "plain_call",
    "product",
    "straight_dots",
    "straight_product",
]

WITH_PRECISION = np.dtype(np.float32), np.dtype(np.complex64)
"""What flags have a say in: the type whose values the precisions round, and that of pairs of them."""

EXACT = Choice("ieee", "precision flags act on float32 and complex64 products only")
_REDUCTIONS = {"float16": "cuda.matmul.fp16_reduction", "bfloat16": "cuda.matmul.bf16_reduction"}

_CALLS_KEPT = 512
"""Pairs of shapes for which a state of the flags keeps what is called, for each dtype, under NumPy's number of it."""

_LAYOUTS_TAUGHT = 4
"""Times that the table of `answers` is told of products of two shapes, each with other strides."""


def product(a: np.ndarray, b: np.ndarray, precision: str | None = None, kind: str = "matmul") -> np.ndarray:
    """(..., m, k) times (..., k, n) at the precision of the call, or of the flags in force for this kind of product;
    float32 and complex64 only have a choice.
    """
    if kind == "matmul" and a.dtype is b.dtype and (precision is None or type(precision) is str):
        call = _kept_call(a, b, precision)
        return call(a, b) if call is not None else _new_call(a, b, precision)(a, b)
    planned = _plan(a, precision, kind)
    return planned.kernel(a, b, decided_by=planned.decided_by, **planned.keywords)


def call_of(dtype: np.dtype, precision: str | None, kind: str) -> tuple[str, dict[str, Any]]:
    """Who decides, and the keywords, for a kernel that makes products of this kind of arrays of a dtype."""
    choice = choice_of(precision, kind) if dtype in WITH_PRECISION else EXACT
    return _call(current(), choice)


_Call = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _kept_call(a: np.ndarray, b: np.ndarray, precision: str | None) -> _Call | None:
    """What a product of these shapes and of the dtype of both called before, at the precision of the call or, where it
    names none, of the flags in force."""
    kept = current().derived.get(a.dtype.num if precision is None else (a.dtype.num, precision))
    return None if kept is None else kept.get((a.shape, b.shape))


def _new_call(a: np.ndarray, b: np.ndarray, precision: str | None) -> _Call:
    """What products of two shapes and of one dtype call at the flags in force; kept by their state, where the direction
    of the pass does not matter. Found anew each time, float64 products took 4 us longer and bfloat16 ones 8."""
    state, planned = current(), _plan(a, precision)
    specs = ArraySpec(a.shape, a.dtype), ArraySpec(b.shape, b.dtype)
    call = planned.kernel.prepared(*specs, planned.decided_by, **planned.keywords)
    if a.dtype not in WITH_PRECISION or precision is not None or "float32 product" in state.derived:
        kept = state.derived.setdefault(a.dtype.num if precision is None else (a.dtype.num, precision), {})
        if len(kept) >= _CALLS_KEPT:
            kept.clear()
        job_of, name = None, answers.MATMUL.get(precision)
        if planned.kernel is kernel and name is not None:
            job_of = getattr(kernel.first(*specs, **planned.keywords), "job_of", None)
        kept[a.shape, b.shape] = call if job_of is None else _teaching(name, call, job_of, kept)
    return call


def _teaching(
    name: object, call: Callable[..., np.ndarray], job_of: Callable[..., Any], kept: dict[tuple, Callable]
) -> _Call:
    """`call`, after which the table of `answers` knows such calls by a name, for the first few layouts of the
    operands."""
    left = _LAYOUTS_TAUGHT

    def teach(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        nonlocal left
        out = call(a, b)
        try:
            job = job_of(a.strides, b.strides)
        except Refused:
            job = None
        left = left - 1 if job is not None and answers.remember(current(), name, (a, b), out, job) else 0
        if left <= 0:
            kept[a.shape, b.shape] = call
        return out

    return teach


def straight_product(a: ArraySpec, b: ArraySpec, precision: str | None = None) -> Callable[..., np.ndarray] | None:
    """The function that `product` ends in for operands of these shapes and dtypes at a precision (None: that of the
    flags in force), while nobody observes the kernels; None where it depends on more than these. It raises `Refused`
    where `product` would go on to the next implementation.
    """
    if a.dtype.itemsize == 2:
        return None
    if a.dtype not in WITH_PRECISION:
        return kernel.first(a, b, **_keywords(current(), "ieee"))
    state = current()
    if precision is not None:
        return kernel.first(a, b, **_keywords(state, choice_of(precision, "matmul").precision))
    keywords = _float32_call(state)[1]
    return kernel.first(a, b, **keywords) if "float32 product" in state.derived else None


def straight_dots(a: ArraySpec, b: ArraySpec, precision: str | None = None) -> Callable[..., np.ndarray] | None:
    """What makes of (..., k) and (..., k) the sums (...) that `straight_product` makes of (..., 1, k) and (..., k, 1),
    where such a function is all there is to it; else None.
    """
    return dots if straight_product(a, b, precision) is product_of_dots else None


_LEAST_FUSED = 500_000
"""Elements of a result from which a pass over it takes longer than what a product with an addend does before its loops:
float32 256 x 256 290 and 244 us, 512 x 512 1600 and 1500, 2048 x 256 566 and 575, 1024 x 1024 9.3 and 9.7 ms."""


def fused_sum(
    a: np.ndarray, b: np.ndarray, addend: np.ndarray, alpha: float, beta: float, precision: str | None
) -> np.ndarray | None:
    """alpha * (a @ b) + beta * addend, added while the product is stored; of half types it is rounded once.

    None where flags have sums of half types rounded on the way, and, of other types, for small results and where
    something else than the loops that add makes the product.
    """
    if a.dtype.kind == "c" or a.dtype.kind in "biu":
        return None
    planned = plain_call(a, precision)
    if planned is None:
        return None
    if a.dtype.name not in _REDUCTIONS and (
        "prefer" in planned.keywords
        or math.prod(a.shape[:-1]) * b.shape[-1] < _LEAST_FUSED
        or not gains_by_packing(ArraySpec(a.shape, a.dtype), ArraySpec(b.shape, b.dtype), **planned.keywords)
    ):
        return None
    sums: dict[str, Any] = {"alpha": float(alpha), "beta": float(beta)}
    return kernel_addmm(a, b, addend, decided_by=planned.decided_by, **sums, **planned.keywords)


def _float32_call(state: State) -> tuple[str, dict[str, Any]]:
    """Who decides, and the keywords of the kernel, for products at the precision of the flags in force."""
    choice = precision_of("matmul")
    call = _call(state, choice)
    if state.derived["matmul"] is choice:  # and so the same in forward and in backward passes
        state.derived["float32 product"] = call
    return call


class _Plan(NamedTuple):
    """Which kernel is called for two operands, with which keywords, and who decided."""

    kernel: Kernel
    keywords: dict[str, Any]
    decided_by: str | None


def _plan(a: np.ndarray, precision: str | None = None, kind: str = "matmul") -> _Plan:
    """How a product of arrays of the dtype of `a` is called."""
    state = current()
    if a.dtype in WITH_PRECISION:
        if precision is None and kind == "matmul":
            decided_by, keywords = state.derived.get("float32 product") or _float32_call(state)
            return _Plan(kernel, keywords, decided_by)
    elif (sums := _half_sums(state, a.dtype.name)) is not None:
        return _Plan(half_matmul, {"sums": sums.precision}, sums.decided_by)
    decided_by, keywords = call_of(a.dtype, precision, kind)
    return _Plan(kernel, keywords, decided_by)


def plain_call(a: np.ndarray, precision: str | None = None) -> _Plan | None:
    """The same where it is the kernel `matmul`: None where sums of halves are rounded on the way."""
    planned = _plan(a, precision)
    return planned if planned.kernel is kernel else None


def _call(state: State, choice: Choice) -> tuple[str, dict[str, Any]]:
    """Who decides, and the keywords, at a precision that was chosen."""
    keywords = _keywords(state, choice.precision)
    asked_first = "; cuda.blas_library = 'cublaslt'" if "prefer" in keywords else ""
    return choice.decided_by + asked_first, keywords


def _keywords(state: State, precision: str) -> dict[str, Any]:
    """How the flags have the kernel called at a precision. Defaults are left out: each would cost 0.3 us a call."""
    keywords: dict[str, Any] = {} if precision == "ieee" else {"precision": precision}
    if precision == "tf32":
        keywords["rounding"] = state.read("tf32_rounding")
    if state.read("cuda.blas_library") == "cublaslt":
        keywords["prefer"] = "blas"
    return keywords


def choice_of(precision: str | None, product: str) -> Choice:
    """The precision that a call names, or else the flags, for a kind of product; raises ValueError for names that there
    are not."""
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
