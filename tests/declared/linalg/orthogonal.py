"""Samples and references of `ops/linalg/orthogonal.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from minitorch_backends.kernels import linalg as kernels

from ..linalg.samples import absolute_results, eye_plus
from ..samples import Sample, between, sample
from ..table import declare


def _qr_reference(A: Any, mode: str = "reduced") -> tuple[Any, Any]:
    if mode == "r":
        return np.empty(0, A.dtype), np.linalg.qr(A, "r")
    return np.linalg.qr(A, mode)[:2]  # type: ignore[call-overload]


def _matrices() -> Iterator[Sample]:
    for shape in ((3, 3), (4, 2), (2, 4), (2, 3, 2), (1, 1), (0, 2, 2)):
        yield sample(eye_plus(*shape))
    yield sample(eye_plus(3, 4).T)
    yield sample(eye_plus(2, 4), "complete")
    yield sample(eye_plus(3, 3), mode="complete")


def _all_modes() -> Iterator[Sample]:
    yield from _matrices()
    yield sample(np.zeros((0, 3)))
    yield sample(np.zeros((3, 0)))


declare("linalg_qr", _qr_reference, _all_modes, tested_as=absolute_results(0, 1))


def _geqrf_reference(input: Any) -> tuple[Any, Any]:
    return tuple(kernels.geqrf["lapack"](input)[:2])


declare("geqrf", _geqrf_reference, lambda: iter([sample(eye_plus(*s)) for s in ((4, 2), (2, 3, 3), (2, 4), (0, 0))]))


def _product_reference(A: Any, tau: Any) -> Any:
    m, n = A.shape[-2:]
    Q = np.zeros((*A.shape[:-2], m, m), A.dtype) + np.eye(m)
    for k in range(tau.shape[-1]):
        v = A[..., :, k].copy()
        v[..., :k], v[..., k] = 0, 1
        Q = Q - tau[..., k, None, None] * (Q @ v[..., None]) @ v[..., None, :].conj()
    return Q[..., :n]


def _reflectors() -> Iterator[Sample]:
    yield sample(between(-1, 1, 4, 3), between(0.2, 1.5, 3))
    yield sample(between(-1, 1, 4, 3), between(0.2, 1.5, 2))
    yield sample(between(-1, 1, 2, 3, 3).mT, between(0.2, 1.5, 2, 3))
    yield sample(between(-1, 1, 3, 3), np.array([0.5, 0.0, 1.2]))
    yield sample(between(-1, 1, 3, 2), np.zeros(0))
    yield sample(between(-1, 1, 0, 0), np.zeros(0))


declare("linalg_householder_product", _product_reference, _reflectors)
declare(
    "qr",
    lambda input, some=True: tuple(np.linalg.qr(input, "reduced" if some else "complete")),
    lambda: iter(
        [sample(eye_plus(4, 2)), sample(eye_plus(2, 3, 3).mT), sample(eye_plus(2, 4), False), sample(eye_plus(0, 2))]
    ),
    tested_as=absolute_results(0, 1),
)
declare("orgqr", _product_reference, _reflectors)


def _multiply(input: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Any:
    m, count = input.shape[-2], tau.shape[-1]
    square = np.concatenate([input[..., :count], np.zeros((*input.shape[:-1], m - count), input.dtype)], -1)
    Q = _product_reference(square, tau)
    Q = Q.conj().mT if transpose else Q
    return Q @ other if left else other @ Q


def _ormqr_samples() -> Iterator[Sample]:
    reflectors, tau = between(-1, 1, 4, 2), between(0.2, 1.5, 2)
    yield sample(reflectors, tau, between(-1, 1, 4, 3))
    yield sample(reflectors, tau, between(-1, 1, 4, 3), True, True)
    yield sample(reflectors, tau, between(-1, 1, 2, 4), False)
    yield sample(between(-1, 1, 2, 5), tau, between(-1, 1, 2, 3))
    yield sample(between(-1, 1, 0, 4, 2), between(0.2, 1.5, 0, 2), between(-1, 1, 0, 4, 3))
    yield sample(between(-1, 1, 2, 3, 3).mT, between(0.2, 1.5, 2, 3), between(-1, 1, 2, 3, 3), False, True)


declare("ormqr", _multiply, _ormqr_samples)
