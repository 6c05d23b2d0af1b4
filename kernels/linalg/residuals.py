"""How well a result fits its problem: backward errors, in multiples of the unit roundoff of the type.

A backward stable method gives multiples that grow slowly with the size (p(n) of Higham, Accuracy and Stability of
Numerical Algorithms, 2002, and of the LAPACK Users' Guide, chapter 4): a few units, at most some n. They are the same
for every gauge (signs and phases of vectors, bases of multiple eigenvalues), so that families can be compared by them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["residuals"]


def _wide(a: np.ndarray) -> np.ndarray:
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


def _swapped(a: np.ndarray, pivots: np.ndarray) -> np.ndarray:
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
    return {"backward": (_norm(_swapped(a, result[1]) - L @ np.triu(result[0][..., :k, :])), _norm(a))}


def _solve(a: Any, b: Any, result: Any, **_: Any) -> dict[str, tuple]:
    x = result[0]
    return {"backward": (_norm(a @ x - b), _norm(a) * _norm(x) + _norm(b))}


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
    if V is None:
        return {}
    return {"backward": (_norm(a @ V - V * w[..., None, :]), _norm(a) * _norm(V))}


_MEASURES: dict[str, Callable[..., dict[str, tuple]]] = {
    "cholesky": _cholesky,
    "lu_factor": _lu_factor,
    "solve": _solve,
    "inv": _inv,
    "qr": _qr,
    "eigh": _eigh,
    "svd": _svd,
    "eig": _eig,
}


def residuals(kernel: str, arrays: tuple[np.ndarray, ...], keywords: dict[str, Any], result: Any) -> dict[str, float]:
    """The backward errors (and the loss of orthogonality) of what a kernel of this name returned, in units of the
    type's roundoff; empty for a kernel that has no measure.
    """
    measure = _MEASURES.get(kernel)
    if measure is None:
        return {}
    roundoff = float(np.finfo(arrays[0].dtype).eps) / 2
    wide = [each if each is None or each.dtype.kind == "i" else _wide(each) for each in _arrays(result)]
    keywords = {name: value for name, value in keywords.items() if name in ("mode", "full", "lower")}
    found = measure(*map(_wide, arrays), result=wide, **keywords)
    return {name: _largest(error, scale, roundoff) for name, (error, scale) in found.items()}


def _arrays(result: Any) -> list[Any]:
    return [each for each in (result if isinstance(result, tuple) else (result,)) if not isinstance(each, dict)]
