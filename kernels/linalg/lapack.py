"""Every task by LAPACK, through SciPy's wrappers: one call for each matrix of the batch. It refuses nothing.

Factors are made at the precision of their type, which is at least what a `precision` permits. SciPy's LAPACK is
OpenBLAS's, two to four times slower than MKL's; the other families come before it where they win.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..runtime.first_use import load
from . import contract
from .contract import LDL, LU, QR, SVD, Cholesky, Eig, Eigh, Inverse, Lstsq, Reflectors, Solution


@functools.cache
def routine(name: str, letter: str) -> Callable[..., Any]:
    """A LAPACK routine, "potrf", for a dtype's letter, "d"; the names that complex types have are found as well."""
    if letter in "cz":
        name = {"syevd": "heevd", "syevr": "heevr", "orgqr": "ungqr"}.get(name, name)
    return getattr(load("scipy.linalg.lapack"), letter + name)


_LETTERS = {"f4": "s", "f8": "d", "c8": "c", "c16": "z"}


def _routine(name: str, a: np.ndarray) -> Callable[..., Any]:
    return routine(name, _LETTERS[a.dtype.str[1:]])


def _real(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def _stack(a: np.ndarray, dims: int = 2) -> np.ndarray:
    """The matrices (or vectors) of a batch along one dimension."""
    return a.reshape(math.prod(a.shape[: a.ndim - dims]), *a.shape[a.ndim - dims :])


def _each(a: np.ndarray, dims: int = 2) -> Iterator[np.ndarray]:
    return iter(_stack(a, dims))


def _fortran(a: np.ndarray) -> np.ndarray:
    """A copy that LAPACK may overwrite."""
    return np.array(a, order="F")


def _of(like: np.ndarray, *shape: int, dtype: Any = None) -> np.ndarray:
    """An array to fill, for a batch like that of `like`; zeros, so that unwritten elements are defined."""
    return np.zeros((*like.shape[:-2], *shape), like.dtype if dtype is None else dtype)


def _info(like: np.ndarray) -> np.ndarray:
    return _of(like, dtype=np.int32)


def _flat(a: np.ndarray) -> np.ndarray:
    return a.reshape(-1)


def _workspace(name: str, a: np.ndarray, *arguments: Any, **named: Any) -> int:
    query = _routine(name, a)(*arguments, lwork=-1, overwrite_a=False, **named)
    return max(1, int(query[-2][0].real))


# Triangular factors


@contract.cholesky.impl("lapack")
def cholesky(a: np.ndarray, **_: Any) -> Cholesky:
    L, info = _of(a, *a.shape[-2:]), _info(a)
    factor = _routine("potrf", a)
    for index, (matrix, out) in enumerate(zip(_each(a), _each(L), strict=True)):
        if matrix.size:
            out[...], found = factor(_fortran(matrix), lower=True, clean=True, overwrite_a=True)
            wrong = np.flatnonzero(~(out.diagonal().real > 0))  # OpenBLAS accepts NaN pivots
            _flat(info)[index] = found or (wrong[0] + 1 if wrong.size else 0)
    return Cholesky(L, info, {"routine": "potrf"})


@contract.cholesky_solve.impl("lapack")
def cholesky_solve(L: np.ndarray, b: np.ndarray, **_: Any) -> np.ndarray:
    x, run = _of(b, *b.shape[-2:]), _routine("potrs", b)
    for factor, right, out in zip(_each(L), _each(b), _each(x), strict=True):
        if right.size:
            out[...] = run(_fortran(factor), _fortran(right), lower=True, overwrite_b=True)[0]
    return x


@contract.cholesky_inverse.impl("lapack")
def cholesky_inverse(L: np.ndarray, **_: Any) -> np.ndarray:
    """By trtri and a product: potri would take the diagonal for real. A zero on the diagonal of L gives inf."""
    inverse, run = _of(L, *L.shape[-2:]), _routine("trtri", L)
    for factor, out in zip(_each(L), _each(inverse), strict=True):
        if factor.size:
            inverted, info = run(_fortran(np.tril(factor)), lower=True, overwrite_c=True)
            out[...] = inverted.conj().T @ inverted if info == 0 else np.inf
    return inverse


@contract.triangular_solve.impl("lapack")
def triangular_solve(
    a: np.ndarray, b: np.ndarray, *, upper: bool = False, left: bool = True, unitriangular: bool = False,
    transpose: bool = False, **_: Any,
) -> np.ndarray:  # fmt: skip
    """By BLAS's trsm, which divides by zero where LAPACK's trtrs would refuse."""
    x = _of(b, *b.shape[-2:])
    run = getattr(load("scipy.linalg.blas"), _LETTERS[b.dtype.str[1:]] + "trsm")
    options = {"side": not left, "lower": not upper, "trans_a": int(transpose), "diag": bool(unitriangular)}
    for factor, right, out in zip(_each(a), _each(b), _each(x), strict=True):
        if right.size:
            out[...] = run(1.0, _fortran(factor), _fortran(right), overwrite_b=True, **options)
    return x


def _with_nan(packed: np.ndarray, info: int) -> tuple[np.ndarray, int, bool]:
    """What getrf gives, where OpenBLAS does not divide by a pivot that is NaN: all that the pivot takes part in is NaN.
    The last says whether there is one."""
    pivots = packed.diagonal()
    if not (pivots != pivots).any():
        return packed, info, False
    first = int(np.argmax(pivots != pivots))
    packed[first + 1 :, first:] = np.nan
    return packed, info if info <= first else 0, True


@contract.lu_factor.impl("lapack")
def lu_factor(a: np.ndarray, **_: Any) -> LU:
    packed, info = _of(a, *a.shape[-2:]), _info(a)
    pivots = _of(a, min(a.shape[-2:]), dtype=np.int32)
    run = _routine("getrf", a)
    for index, (matrix, out, swaps) in enumerate(zip(_each(a), _each(packed), _each(pivots, 1), strict=True)):
        if matrix.size:
            found, swaps[...], failed = run(_fortran(matrix), overwrite_a=True)
            out[...], _flat(info)[index] = _with_nan(found, failed)[:2]
    pivots += 1
    return LU(packed, pivots, info, {"routine": "getrf"})


@contract.lu_solve.impl("lapack")
def lu_solve(packed: np.ndarray, pivots: np.ndarray, b: np.ndarray, *, transpose: bool = False, **_: Any) -> np.ndarray:
    x, run = _of(b, *b.shape[-2:]), _routine("getrs", b)
    each = zip(_each(packed), _each(pivots, 1), _each(b), _each(x), strict=True)
    for factor, swaps, right, out in each:
        if right.size:
            out[...] = run(_fortran(factor), swaps - 1, _fortran(right), trans=int(transpose), overwrite_b=True)[0]
    return x


@contract.solve.impl("lapack")
def solve(a: np.ndarray, b: np.ndarray, **_: Any) -> Solution:
    packed, pivots, info, _report = lu_factor(a)
    return Solution(lu_solve(packed, pivots, b), packed, pivots, info, {"routine": "getrf, getrs"})


@contract.inv.impl("lapack")
def inv(a: np.ndarray, **_: Any) -> Inverse:
    inverse, info, n = _of(a, *a.shape[-2:]), _info(a), a.shape[-1]
    factor, invert = _routine("getrf", a), _routine("getri", a)
    for index, (matrix, out) in enumerate(zip(_each(a), _each(inverse), strict=True)):
        if n:
            packed, swaps, failed = factor(_fortran(matrix), overwrite_a=True)
            packed, failed, has_nan = _with_nan(packed, failed)
            if has_nan and not failed:
                packed[...] = np.nan
            elif not failed:
                packed, failed = invert(packed, swaps, lwork=64 * n, overwrite_lu=True)
            out[...], _flat(info)[index] = packed, failed
    return Inverse(inverse, info, {"routine": "getrf, getri"})


# Orthogonal factors


@contract.geqrf.impl("lapack")
def geqrf(a: np.ndarray, **_: Any) -> Reflectors:
    packed, tau = _of(a, *a.shape[-2:]), _of(a, min(a.shape[-2:]))
    run = _routine("geqrf", a)
    lwork = _workspace("geqrf", a, next(_each(a))) if a.size else 1
    for matrix, out, scales in zip(_each(a), _each(packed), _each(tau, 1), strict=True):
        if matrix.size:
            out[...], scales[...] = run(_fortran(matrix), lwork=lwork, overwrite_a=True)[:2]
    return Reflectors(packed, tau, {"routine": "geqrf"})


@contract.householder_product.impl("lapack")
def householder_product(a: np.ndarray, tau: np.ndarray, **_: Any) -> np.ndarray:
    q, run = _of(a, *a.shape[-2:]), _routine("orgqr", a)
    for matrix, scales, out in zip(_each(a), _each(tau, 1), _each(q), strict=True):
        if not matrix.size:
            continue
        if not scales.size:
            np.fill_diagonal(out, 1)
            continue
        out[...] = run(_fortran(matrix), scales.copy(), lwork=64 * max(1, matrix.shape[1]), overwrite_a=True)[0]
    return q


@contract.qr.impl("lapack")
def qr(a: np.ndarray, *, mode: str = "reduced", **_: Any) -> QR:
    m, n = a.shape[-2:]
    packed, tau, _report = geqrf(a)
    k = m if mode == "complete" else min(m, n)
    R = np.triu(packed[..., :k, :])
    if mode == "r":
        return QR(None, R, {"routine": "geqrf"})
    vectors = _of(a, m, k)
    vectors[..., : min(k, n)] = packed[..., : min(k, n)]
    return QR(householder_product(vectors, tau), R, {"routine": "geqrf, orgqr"})


# Eigenvalues and singular values


@contract.eigh.impl("lapack")
@contract.eigh.impl("magma")  # which is divide and conquer
def eigh(a: np.ndarray, *, vectors: bool = True, lower: bool = True, **_: Any) -> Eigh:
    n = a.shape[-1]
    w, info = _of(a, n, dtype=_real(a.dtype)), _info(a)
    V = _of(a, n, n) if vectors else None
    run = _routine("syevd", a)
    for index, (matrix, values) in enumerate(zip(_each(a), _each(w, 1), strict=True)):
        if n:
            options = {"compute_v": vectors, "lower": lower, "overwrite_a": True}
            values[...], found, _flat(info)[index] = run(_fortran(matrix), **options)
            if V is not None:
                _stack(V)[index] = found
    return Eigh(w, V, info, {"routine": "syevd" if a.dtype.kind == "f" else "heevd"})


@contract.svd.impl("lapack")
@contract.svd.impl("magma")
def svd(a: np.ndarray, *, full: bool = False, vectors: bool = True, driver: str | None = None, **_: Any) -> SVD:
    """By gesdd; by gesvd, the QR iteration, for that driver and where gesdd does not converge."""
    m, n = a.shape[-2:]
    k, info = min(m, n), _info(a)
    rows, columns = (m, n) if full else (k, k)
    S = _of(a, k, dtype=_real(a.dtype))
    U, Vh = (_of(a, m, rows), _of(a, columns, n)) if vectors else (None, None)
    name, again = "gesvd" if driver == "gesvd" else "gesdd", 0
    options: dict[str, Any] = {"compute_uv": vectors, "full_matrices": full}
    size = int(_routine(name + "_lwork", a)(m, n, **options)[0].real) if k else 0  # the least is for thin blocks
    for index, (matrix, values) in enumerate(zip(_each(a), _each(S, 1), strict=True)):
        left, right, failed = np.eye(m, rows), np.eye(columns, n), 0
        if k:
            left, values[...], right, failed = _routine(name, a)(
                _fortran(matrix), lwork=size, overwrite_a=True, **options
            )
            if failed and name == "gesdd":
                again += 1
                left, values[...], right, failed = _routine("gesvd", a)(_fortran(matrix), **options)
        _flat(info)[index] = failed
        if U is not None and Vh is not None:
            _stack(U)[index], _stack(Vh)[index] = left, right
    return SVD(U, S, Vh, info, {"routine": name} | ({"solved_again_by_gesvd": again} if again else {}))


@contract.eig.impl("lapack")
def eig(a: np.ndarray, *, vectors: bool = True, **_: Any) -> Eig:
    n, kind = a.shape[-1], np.result_type(a.dtype, np.complex64)
    w, info = _of(a, n, dtype=kind), _info(a)
    V = _of(a, n, n, dtype=kind) if vectors else None
    run = _routine("geev", a)
    for index, (matrix, values) in enumerate(zip(_each(a), _each(w, 1), strict=True)):
        if n:
            scale = _scale(matrix)
            copy = np.asfortranarray(matrix * scale)
            *found, _, right, _flat(info)[index] = run(copy, compute_vl=False, compute_vr=vectors, overwrite_a=True)
            values.real, values.imag = found if len(found) == 2 else (found[0].real, found[0].imag)
            values /= scale
            if V is not None:
                _stack(V)[index] = right if len(found) == 1 else _pair_columns(right, found[1])
    return Eig(w, V, info, {"routine": "geev"})


def _scale(matrix: np.ndarray) -> Any:
    """The power of two that brings the largest entry near 1, where it is so large or small that geev would scale the
    matrix itself; OpenBLAS's geev (0.3.30) then leaves the eigenvalues scaled."""
    kind = np.finfo(matrix.dtype)
    largest = float(np.abs(matrix).max())
    safe = math.sqrt(float(kind.tiny)) / float(kind.eps)
    if not 0 < largest < math.inf or safe < largest < 1 / safe:
        return kind.dtype.type(1)
    return kind.dtype.type(2.0 ** -max(min(math.frexp(largest)[1], kind.maxexp - 2), kind.minexp + 2))


def _pair_columns(columns: np.ndarray, imaginary: np.ndarray) -> np.ndarray:
    """Eigenvectors from geev's real form: two columns for a pair of conjugate eigenvalues, real and imaginary parts."""
    V = columns.astype(np.result_type(columns.dtype, np.complex64))
    first = np.flatnonzero(imaginary > 0)
    V[:, first] = columns[:, first] + 1j * columns[:, first + 1]
    V[:, first + 1] = V[:, first].conj()
    return V


# Least squares


@contract.lstsq.impl("lapack")
def lstsq(a: np.ndarray, b: np.ndarray, *, rcond: float, driver: str, **_: Any) -> Lstsq:
    """By gels (QR or LQ, full rank), gelsy (QR with pivoting), gelsd or gelss (singular values)."""
    m, n = a.shape[-2:]
    k, rights = min(m, n), b.shape[-1]
    x, info = _of(a, n, rights), _info(a)
    rank = None if driver == "gels" else _of(a, dtype=np.int64)
    S = _of(a, k, dtype=_real(a.dtype)) if driver in ("gelsd", "gelss") else None
    for index, (matrix, right, out) in enumerate(zip(_each(a), _each(b), _each(x), strict=True)):
        if not k:
            continue
        padded = np.zeros((max(m, n), max(rights, 1)), a.dtype, order="F")
        padded[:m, :rights] = right
        solution, found, values, _flat(info)[index] = _least_squares(_fortran(matrix), padded, rcond, driver)
        out[...] = solution[:n, :rights]
        if rank is not None:
            _flat(rank)[index] = found
        if S is not None:
            _stack(S, 1)[index] = values
    return Lstsq(x, rank, S, info, {"routine": driver})


def _least_squares(a: np.ndarray, b: np.ndarray, rcond: float, driver: str) -> tuple:
    """Solution, rank, singular values and info of one problem; b has max(m, n) rows."""
    m, n = a.shape
    run = _routine(driver, a)
    sizes = _routine(driver + "_lwork", a)
    if driver == "gels":
        lwork = int(sizes(m, n, b.shape[1])[0].real)
        _, x, info = run(a, b, lwork=lwork, overwrite_a=True, overwrite_b=True)
        return x, None, None, info
    if driver == "gelsy":
        lwork = int(sizes(m, n, b.shape[1], rcond)[0].real)
        free = np.zeros(n, np.int32)
        _, x, _, rank, info = run(a, b, free, rcond, lwork, overwrite_a=True, overwrite_b=True)
        return x, rank, None, info
    if driver == "gelss":
        lwork = int(sizes(m, n, b.shape[1], rcond)[0].real)
        _, x, s, rank, _, info = run(a, b, cond=rcond, lwork=lwork, overwrite_a=True, overwrite_b=True)
        return x, rank, s, info
    lwork, *others, _ = sizes(m, n, b.shape[1], rcond)
    work = [int(size.real) for size in (lwork, *others)]
    x, s, rank, info = run(a, b, *work, cond=rcond, overwrite_a=True, overwrite_b=True)
    return x, rank, s, info


# Symmetric indefinite factors


@contract.ldl_factor.impl("lapack")
def ldl_factor(a: np.ndarray, *, hermitian: bool = False, **_: Any) -> LDL:
    n, name = a.shape[-1], _symmetric("trf", a, hermitian)
    packed, pivots, info = _of(a, n, n), _of(a, n, dtype=np.int32), _info(a)
    run = _routine(name, a)
    for index, (matrix, out, swaps) in enumerate(zip(_each(a), _each(packed), _each(pivots, 1), strict=True)):
        if n:
            factor, swaps[...], _flat(info)[index] = run(_fortran(matrix), lower=True, lwork=64 * n, overwrite_a=True)
            out[...] = np.tril(factor)
    return LDL(packed, pivots, info, {"routine": name})


@contract.ldl_solve.impl("lapack")
def ldl_solve(
    packed: np.ndarray, pivots: np.ndarray, b: np.ndarray, *, hermitian: bool = False, **_: Any
) -> np.ndarray:
    x, run = _of(b, *b.shape[-2:]), _routine(_symmetric("trs", b, hermitian), b)
    for factor, swaps, right, out in zip(_each(packed), _each(pivots, 1), _each(b), _each(x), strict=True):
        if right.size:
            out[...] = run(_fortran(factor), swaps, _fortran(right), lower=True, overwrite_b=True)[0]
    return x


def _symmetric(name: str, a: np.ndarray, hermitian: bool) -> str:
    return ("he" if hermitian and a.dtype.kind == "c" else "sy") + name
