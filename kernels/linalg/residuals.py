"""How well a result fits its problem: backward errors, in multiples of the unit roundoff of the type.

A backward stable method gives multiples that grow slowly with the size (p(n) of Higham, Accuracy and Stability of
Numerical Algorithms, 2002, and of the LAPACK Users' Guide, chapter 4): a few units, at most some n. They are the same
for every gauge (signs and phases of vectors, bases of multiple eigenvalues), so that families can be compared by them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..runtime.first_use import calls_blas


def _wide(a: Any) -> Any:
    """Cast to double precision; integers and omitted results are unchanged."""
    if a is None or a.dtype.kind == "i":
        return a
    return a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)


def _adjoint(a: np.ndarray) -> np.ndarray:
    return a.conj().swapaxes(-1, -2)


def _norm(a: np.ndarray) -> np.ndarray:
    """The Frobenius norm of each matrix."""
    return np.sqrt(np.sum(np.abs(a) ** 2, axis=(-2, -1)))


def _largest(error: np.ndarray, scale: Any, roundoff: float) -> float:
    """The largest error of the batch relative to `scale`, in units; an error of 0 counts as 0 at any scale."""
    relative = np.divide(error, scale, out=np.where(error > 0, np.inf, 0.0), where=np.asarray(scale) > 0)
    return float(np.max(relative, initial=0.0)) / roundoff


def _unitary(Q: np.ndarray) -> np.ndarray:
    return _norm(_adjoint(Q) @ Q - np.eye(Q.shape[-1]))


def _cholesky(a: Any, result: Any, **_: Any) -> dict[str, tuple]:
    a = np.tril(a) + _adjoint(np.tril(a, -1))
    return {"backward": (_norm(a - result[0] @ _adjoint(result[0])), _norm(a))}


def _swap_rows(a: np.ndarray, pivots: np.ndarray) -> np.ndarray:
    """The rows of each matrix after LAPACK's interchanges."""
    if not a.size:
        return a
    a = a.copy()
    for matrix, swaps in zip(a.reshape(-1, *a.shape[-2:]), pivots.reshape(-1, pivots.shape[-1]), strict=True):
        for row, other in enumerate(swaps - 1):
            matrix[[row, other]] = matrix[[other, row]]
    return a


def _lu_factor(a: Any, result: Any, **_: Any) -> dict[str, tuple]:
    k = min(a.shape[-2:])
    L = np.tril(result[0][..., :k], -1) + np.eye(a.shape[-2], k)
    return {"backward": (_norm(_swap_rows(a, result[1]) - L @ np.triu(result[0][..., :k, :])), _norm(a))}


def _of_system(a: np.ndarray, b: np.ndarray, x: np.ndarray) -> dict[str, tuple]:
    return {"backward": (_norm(a @ x - b), _norm(a) * _norm(x) + _norm(b))}


def _solve(a: Any, b: Any, result: Any, **_: Any) -> dict[str, tuple]:
    return _of_system(a, b, result[0])


def _inv(a: Any, result: Any, **_: Any) -> dict[str, tuple]:
    x = result[0]
    return {"forward": (_norm(x @ a - np.eye(a.shape[-1])), _norm(a) * _norm(x))}


def _qr(a: Any, result: Any, mode: str = "reduced", **_: Any) -> dict[str, tuple]:
    Q, R = result[:2]
    if Q is None:
        return {"gram": (_norm(_adjoint(R) @ R - _adjoint(a) @ a), _norm(a) ** 2)}
    return {"backward": (_norm(a - Q @ R), _norm(a)), "orthogonality": (_unitary(Q), 1.0)}


def _eigh(a: Any, result: Any, lower: bool = True, **_: Any) -> dict[str, tuple]:
    a = np.tril(a) + _adjoint(np.tril(a, -1)) if lower else np.triu(a) + _adjoint(np.triu(a, 1))
    w, V = result[:2]
    if V is None:
        return {"values": (np.abs(w - np.linalg.eigvalsh(a)).max(-1, initial=0), _norm(a))}
    return {"backward": (_norm(a @ V - V * w[..., None, :]), _norm(a)), "orthogonality": (_unitary(V), 1.0)}


def _svd(a: Any, result: Any, full: bool = False, **_: Any) -> dict[str, tuple]:
    U, S, Vh = result[:3]
    if U is None:
        return {"values": (np.abs(S - np.linalg.svd(a, compute_uv=False)).max(-1, initial=0), _norm(a))}
    k = S.shape[-1]
    product = (U[..., :k] * S[..., None, :]) @ Vh[..., :k, :]
    orthogonality = np.maximum(_unitary(U), _unitary(_adjoint(Vh)))
    return {"backward": (_norm(a - product), _norm(a)), "orthogonality": (orthogonality, 1.0)}


def _eig(a: Any, result: Any, **_: Any) -> dict[str, tuple]:
    w, V = result[:2]
    if V is None:  # whose order is any, and which may be far more sensitive than their sum
        return {"trace": (np.abs(w.sum(-1) - np.trace(a, axis1=-2, axis2=-1)), _norm(a))}
    return {"backward": (_norm(a @ V - V * w[..., None, :]), _norm(a) * _norm(V))}


def _triangular_solve(
    a: Any, b: Any, result: Any, upper: bool = False, left: bool = True, unitriangular: bool = False,
    transpose: bool = False, **_: Any,
) -> dict[str, tuple]:  # fmt: skip
    a = np.triu(a, unitriangular) if upper else np.tril(a, -int(unitriangular))
    a = a + np.eye(a.shape[-1]) if unitriangular else a
    a = a.swapaxes(-1, -2) if transpose else a
    if left:
        return _of_system(a, b, result[0])
    return _of_system(*(each.swapaxes(-1, -2) for each in (a, b, result[0])))


def _cholesky_solve(L: Any, b: Any, result: Any, **_: Any) -> dict[str, tuple]:
    L = np.tril(L)
    return _of_system(L @ _adjoint(L), b, result[0])


def _cholesky_inverse(L: Any, result: Any, **_: Any) -> dict[str, tuple]:
    L = np.tril(L)
    return _inv(L @ _adjoint(L), result)


def _lu_solve(packed: Any, pivots: Any, b: Any, result: Any, transpose: bool = False, **_: Any) -> dict[str, tuple]:
    """Of the factors' product, with the rows of the other side interchanged."""
    a, x = (np.tril(packed, -1) + np.eye(packed.shape[-1])) @ np.triu(packed), result[0]
    if transpose:
        return _of_system(a.swapaxes(-1, -2), b, _swap_rows(x, pivots))
    return _of_system(a, _swap_rows(b, pivots), x)


def _lstsq(a: Any, b: Any, result: Any, **_: Any) -> dict[str, tuple]:
    """What is left is orthogonal to the columns of a, where none of them were left out."""
    x, rank = result[:2]
    if rank is not None and (rank < min(a.shape[-2:])).any():
        return {}
    size = _norm(a)
    return {"normal equations": (_norm(_adjoint(a) @ (b - a @ x)), size * (size * _norm(x) + _norm(b)))}


def _geqrf(a: Any, result: Any, **_: Any) -> dict[str, tuple]:
    return _qr(a, [None, np.triu(result[0])[..., : min(a.shape[-2:]), :]])


def _householder_product(a: Any, tau: Any, result: Any, **_: Any) -> dict[str, tuple]:
    return {"orthogonality": (_unitary(result[0]), 1.0)}


_MEASURES: dict[str, Callable[..., dict[str, tuple]]] = {
    "cholesky": _cholesky, "cholesky_solve": _cholesky_solve, "cholesky_inverse": _cholesky_inverse,
    "triangular_solve": _triangular_solve, "lu_solve": _lu_solve, "lstsq": _lstsq, "geqrf": _geqrf,
    "householder_product": _householder_product, "lu_factor": _lu_factor, "solve": _solve, "inv": _inv, "qr": _qr,
    "eigh": _eigh, "svd": _svd, "eig": _eig,
}  # fmt: skip


@calls_blas
def residuals(kernel: str, arrays: tuple[np.ndarray, ...], keywords: dict[str, Any], result: Any) -> dict[str, float]:
    """The backward errors (and the loss of orthogonality) of what a kernel of this name returned, in units of the
    type's roundoff; empty for a kernel that has no measure."""
    measure = _MEASURES.get(kernel)
    if measure is None:
        return {}
    roundoff = float(np.finfo(arrays[0].dtype).eps) / 2
    with np.errstate(all="ignore"):  # of singular matrices
        found = measure(*map(_wide, arrays), result=[*map(_wide, _arrays(result))], **keywords)
    return {name: _largest(error, scale, roundoff) for name, (error, scale) in found.items()}


def _arrays(result: Any) -> list[Any]:
    return [each for each in (result if isinstance(result, tuple) else (result,)) if not isinstance(each, dict)]
