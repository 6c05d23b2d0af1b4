"""Errors of an answer against a reference, in the usual measures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..tensor.tensor import Tensor

__all__ = ["arrays_of", "as_reals", "distances", "logit_distances"]


def arrays_of(answer: Any, name: str = "") -> dict[str, np.ndarray]:
    """What a function returned as arrays by name: a tensor, an array, a number, or dicts and sequences of these.

    Raises TypeError for anything else.
    """
    if isinstance(answer, Mapping):
        parts = list(answer.items())
    elif isinstance(answer, (tuple, list)):
        parts = list(enumerate(answer))
    else:
        value = answer.detach().numpy() if isinstance(answer, Tensor) else answer
        if not isinstance(value, (np.ndarray, np.generic, bool, int, float, complex)):
            raise TypeError(f"a sweep's function must return tensors, arrays or numbers, got {type(answer).__name__}")
        return {name: np.asarray(value)}
    found: dict[str, np.ndarray] = {}
    for key, part in parts:
        found |= arrays_of(part, f"{name}.{key}" if name else str(key))
    return found


def distances(answer: dict[str, np.ndarray], truth: dict[str, np.ndarray]) -> dict[str, float]:
    """`error` (relative, in the Frobenius norm), `max_abs`, `max_ulp` (in units in the last place of the answer's type)
    and `cosine`, over all arrays together. Raises ValueError where names or shapes differ."""
    if answer.keys() != truth.keys() or any(answer[name].shape != truth[name].shape for name in answer):
        shapes = [{name: list(each.shape) for name, each in side.items()} for side in (answer, truth)]
        raise ValueError(f"the reference must return what the function returns: {shapes[0]}, got {shapes[1]}")
    x = np.concatenate([as_reals(each) for each in answer.values()])
    y = np.concatenate([as_reals(truth[name]) for name in answer])
    difference = x - y
    size, product = float(np.linalg.norm(y)), float(np.linalg.norm(x)) * float(np.linalg.norm(y))
    off = float(np.linalg.norm(difference))
    return {
        "error": off / size if size else off,
        "max_abs": float(np.abs(difference).max(initial=0.0)),
        "max_ulp": max((_ulps(answer[name], truth[name]) for name in answer), default=0.0),
        "cosine": float(x @ y) / product if product else float(off == 0),
    }


def as_reals(x: np.ndarray) -> np.ndarray:
    """The numbers of an array in a row, in float64, real and imaginary parts of complex ones in turn."""
    x = x.astype(np.complex128).view(np.float64) if x.dtype.kind == "c" else x.astype(np.float64)
    return np.ravel(x)


def _ulps(x: np.ndarray, y: np.ndarray) -> float:
    if x.dtype.kind not in "fcV" and x.dtype.name != "bfloat16":
        return float(np.abs(as_reals(x) - as_reals(y)).max(initial=0.0))
    if x.dtype.name == "bfloat16":
        bits, least = 8, -126
    else:
        limits = np.finfo(x.dtype)
        bits, least = limits.nmant + 1, limits.minexp
    wide, true = as_reals(x), as_reals(y)
    exponents = np.maximum(np.frexp(true)[1] - 1, least)
    with np.errstate(invalid="ignore"):
        return float((np.abs(wide - true) / np.ldexp(1.0, exponents + 1 - bits)).max(initial=0.0))


def logit_distances(answer: dict[str, np.ndarray], truth: dict[str, np.ndarray], top: int = 5) -> dict[str, float]:
    """Of logits (..., classes): `flips`, the share of rows whose greatest changed; `top5`, the mean share of the five
    greatest that stay; `kl` and `log_probability_error`, the mean divergence and the greatest change of a logarithm of
    a probability, in nats."""
    (x, y) = (np.concatenate([each.reshape(-1, each.shape[-1]) for each in side.values()]) for side in (answer, truth))
    x, y = (z.astype(np.float64) - z.max(-1, keepdims=True) for z in (x, y))
    p, q = (z - np.log(np.exp(z).sum(-1, keepdims=True)) for z in (x, y))
    best = [np.argsort(-z, axis=-1, kind="stable")[:, :top] for z in (x, y)]
    shared = [len(set(a) & set(b)) / len(a) for a, b in zip(*(each.tolist() for each in best), strict=True)]
    return {
        "flips": float(np.mean(best[0][:, 0] != best[1][:, 0])),
        f"top{top}": float(np.mean(shared)),
        "kl": float(np.mean((np.exp(q) * (q - p)).sum(-1))),
        "log_probability_error": float(np.abs(p - q).max()),
    }
