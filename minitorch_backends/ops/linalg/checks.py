"""Shared parts of the linear algebra functions: their declaration, and torch's errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...backends.precision_policy import resolve
from ...dispatch.op import composite
from ...flags import State, current
from ...kernels.linalg.choice import preferred_name
from ...kernels.registry import Kernel
from ...tensor.tensor import Tensor, not_a_tensor
from .cross_check import cross_check, second_family


class LinAlgError(RuntimeError):
    """Raised if the values (not shapes or dtypes) make a factorisation or a solution impossible."""


def declare(*, name: str | None = None, takes: str = "fc", **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Declare a function of `mt.linalg` composed of ops; torch's name is `linalg_<name>`; `options` as `composite`."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        return composite(name=name or "linalg_" + function.__name__, method=False, takes=takes, **options)(function)

    return declare


def tensor_argument(function: str, name: str, value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise not_a_tensor(f"linalg.{function}", name, value)
    return value


def of_floating(function: str, A: Tensor, name: str = "A") -> Tensor:
    """Raise RuntimeError unless the tensor is floating or complex."""
    if tensor_argument(function, name, A)._array.dtype.kind not in "fcV":
        raise NotImplementedError(
            f"linalg.{function}() is not implemented for {A.dtype!r}; expected a floating point or complex tensor, "
            "convert it with .to(dtype)"
        )
    return A


def of_numbers(function: str, x: Tensor, name: str) -> None:
    """Raise RuntimeError for a boolean tensor."""
    if tensor_argument(function, name, x)._array.dtype.kind == "b":
        raise NotImplementedError(f"linalg.{function}() is not implemented for {x.dtype!r}; convert it with .to(dtype)")


def of_matrices(function: str, A: Any, name: str = "A") -> None:
    """Raise RuntimeError unless the array (or tensor) is a matrix or a batch of them."""
    if A.ndim < 2:
        raise RuntimeError(
            f"linalg.{function}: The input tensor {name} must have at least 2 dimensions, and its shape is "
            f"{list(A.shape)}"
        )


def of_square(function: str, A: Any, name: str = "A") -> None:
    of_matrices(function, A, name)
    m, n = A.shape[-2:]
    if m != n:
        raise RuntimeError(
            f"linalg.{function}: {name} must be batches of square matrices, but they are {m} by {n} matrices"
        )


def of_finite(
    function: str, A: np.ndarray, error: type[RuntimeError] = LinAlgError, triangle: Callable | None = None
) -> None:
    """Raise unless every number is finite, since iterations might not end. Only one triangle (np.tril or np.triu) is
    checked if only that is read."""
    finite = np.isfinite(A) if triangle is None else ~triangle(~np.isfinite(A))
    if finite.all():
        return
    wrong = np.argwhere(~finite)[0]
    raise error(
        f"linalg.{function}: The algorithm failed to converge because the input matrix contained non-finite values: "
        f"A{wrong.tolist()} is {A[tuple(wrong)]}; expected finite numbers only"
    )


def raise_for(function: str, info: Any, sentence: str) -> None:
    """Raise LinAlgError with `sentence` (its `{info}` filled in) for the first matrix of the batch that failed."""
    info = info._array if isinstance(info, Tensor) else info
    if not np.count_nonzero(info):  # takes a tenth of the time of `any`
        return
    where = np.argwhere(info)[0]
    number = int(info[tuple(where)])
    index = int(np.ravel_multi_index(tuple(where), info.shape)) if info.ndim else 0
    batch = f"(Batch element {index}): " if info.ndim else ""
    raise LinAlgError(f"linalg.{function}: {batch}{sentence.format(info=number)}")


def empty_factors(like: np.ndarray) -> np.ndarray:
    """Placeholders for factors that were not requested."""
    return np.empty((0,), like.dtype)


# Calls of linear algebra kernels under the flags: the family tried first, the precision, and the cross-check by a
# second family.


def call(kernel: Kernel, *arrays: np.ndarray, driver: str | None = None, **keywords: Any) -> Any:
    """The kernel's result, by the family that the flag or the call's driver prefers."""
    state, choice = current(), resolve("linalg", arrays[0].dtype).choice
    if driver is not None:
        keywords["driver"] = driver
    decision = _decision(state, driver)
    if choice.precision != "ieee":
        decision += f"; {choice.decided_by} acts in solve, inv, lstsq and cholesky_solve, which refine their results"
    return _run(state, kernel, arrays, keywords, decision, driver)


def call_at_precision(
    kernel: Kernel, *arrays: np.ndarray, precision: str | None, refine: bool = True, **keywords: Any
) -> Any:
    """The same for a task that can run at a lower precision and be refined: the call's precision, or the flags'."""
    state, lower = current(), resolve("linalg", arrays[0].dtype, precision)
    if not lower.keywords:
        return _run(state, kernel, arrays, keywords, _decision(state, None), None)
    keywords |= lower.keywords
    if not refine:
        keywords["refine"] = False
    return _run(state, kernel, arrays, keywords, lower.decided_by, None)


def _decision(state: State, driver: str | None) -> str:
    if driver is not None:
        return f"driver={driver!r} of the call"
    library = state.read("cuda.linalg_library")
    return f"cuda.linalg_library = {library!r}" + (", by size" if library == "default" else "")


def _run(
    state: State, kernel: Kernel, arrays: tuple, keywords: dict[str, Any], decided_by: str, driver: str | None
) -> Any:
    lowered = "precision" in keywords
    prefer = preferred_name(kernel.name, arrays[0].shape, state.read("cuda.linalg_library"), driver, lowered)
    if not state.read("cross_check"):
        return kernel(*arrays, decided_by=decided_by, prefer=prefer, **keywords)
    names = second_family(kernel, arrays, keywords, prefer)
    if names is None:
        decided_by += "; cross_check finds no second family that takes this"
    result = kernel(*arrays, decided_by=decided_by, prefer=prefer, **keywords)
    if names is not None:
        cross_check(kernel, arrays, keywords, result, names)
    return result


def transpose_last(a: np.ndarray) -> np.ndarray:
    return a.swapaxes(-1, -2)
