"""Samples and references of `ops/linalg/eigen.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from minitorch_backends.tensor.tensor import Tensor, adopt

from ..linalg.samples import absolute_results, eye_plus, of_hermitian, squares, symmetric
from ..samples import Sample, between, sample
from ..table import declare


def _lower_part(A: Any, UPLO: str) -> Any:
    return np.linalg.eigh(A, "L" if UPLO.upper() == "L" else "U")


def _hermitian() -> Iterator[Sample]:
    yield from squares(symmetric)()
    yield from squares(symmetric, UPLO="U")()


declare(
    "eigh_of_triangle",
    lambda A, UPLO="L": tuple(_lower_part(A, UPLO)),
    _hermitian,
    tested_as=absolute_results(1, of=of_hermitian),
)
declare(
    "linalg_eigh",
    lambda A, UPLO="L": tuple(_lower_part(A, UPLO)),
    _hermitian,
    tested_as=absolute_results(1, of=of_hermitian),
)
declare("values_of_triangle", lambda A, UPLO="L": _lower_part(A, UPLO)[0], _hermitian, tested_as=of_hermitian)
declare("linalg_eigvalsh", lambda A, UPLO="L": _lower_part(A, UPLO)[0], _hermitian, tested_as=of_hermitian)


def _eig_samples() -> Iterator[Sample]:
    for shape in ((3, 3), (2, 1, 2, 2), (1, 1), (0, 2, 2), (0, 0)):
        yield sample(between(-1, 1, *shape, seed=1) + np.diag(2.0 * np.arange(shape[-1]) + 1))
    rotation = np.array([[0.3, -1.1, 0.2], [0.9, 0.4, -0.1], [0.1, 0.2, 2.5]])
    yield sample(rotation.T)


def in_order(function: Any) -> Any:
    """A function with its eigenvalues sorted, and the sizes of its vectors likewise: families need not agree on the
    order."""

    def sort_eigenvalues(A: Any) -> Any:
        w, V = function(A)
        values = w.numpy(force=True) if hasattr(w, "resolve_conj") else w._array if isinstance(w, Tensor) else w
        order = np.lexsort((np.round(values.imag, 4), np.round(values.real, 4)), axis=-1)
        if isinstance(w, np.ndarray):
            index: Any = order
            return np.take_along_axis(w, index, -1), np.take_along_axis(abs(V) + 0j, index[..., None, :], -1)
        index = adopt(order) if isinstance(w, Tensor) else __import__("torch").from_numpy(order)
        return w.gather(-1, index), (abs(V) + 0j).gather(-1, index[..., None, :].expand(V.shape))

    return sort_eigenvalues


declare("linalg_eig", lambda A: tuple(np.linalg.eig(A.astype(np.complex128))), _eig_samples, tested_as=in_order)


def power_sums(function: Any) -> Any:
    """Of eigenvalues what does not depend on their order."""

    def sums(A: Any) -> Any:
        w = function(A)
        return w.sum(-1), (w * w).sum(-1)

    return sums


declare(
    "values_of_matrix", lambda A: np.linalg.eigvals(A.astype(np.complex128)), squares(eye_plus), tested_as=power_sums
)
declare("linalg_eigvals", lambda A: np.linalg.eigvals(A.astype(np.complex128)), squares(eye_plus), tested_as=power_sums)
