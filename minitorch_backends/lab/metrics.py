"""Measures of answers in a task's own units: of logits, of embeddings, of regressions, or by the user's function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
Metric = str | Callable[[Arrays, Arrays], Any] | None


def check_metric(caller: str, metric: Metric) -> None:
    """Raise ValueError or TypeError unless `metric` is the name of a metric, a function or None."""
    if metric is None or callable(metric):
        return
    if not isinstance(metric, str):
        raise TypeError(f"{caller}(): metric must be a name, a function or None, got {type(metric).__name__}")
    if metric not in METRICS:
        names = ", ".join(map(repr, METRICS))
        raise ValueError(f"{caller}(): metric must be {names}, a function or None, got {metric!r}")


def measures_of(metric: Metric, answer: Arrays, truth: Arrays) -> dict[str, float]:
    """The measures of a metric by name, the principal one first. A function's single number is called "metric"."""
    if metric is None:
        return {}
    answer, truth = _common(answer, truth)
    found = (METRICS[metric] if isinstance(metric, str) else metric)(answer, truth)
    named = found if isinstance(found, Mapping) else {"metric": found}
    return {name: float(value) for name, value in named.items()}


def _common(answer: Arrays, truth: Arrays) -> tuple[Arrays, Arrays]:
    """The parts that both have, at the beginning of each dimension: generated sequences may end earlier."""
    if all(name in answer and answer[name].shape == each.shape for name, each in truth.items()):
        return answer, truth
    names = [name for name in truth if name in answer and answer[name].ndim == truth[name].ndim]
    parts = [tuple(map(slice, map(min, answer[name].shape, truth[name].shape))) for name in names]
    first, second = (
        {name: side[name][part] for name, part in zip(names, parts, strict=True)} for side in (answer, truth)
    )
    return first, second


def logits(answer: Arrays, truth: Arrays, top: int = 5) -> dict[str, float]:
    """Measures of logits (..., classes), over all rows; of "logits" alone where outputs have that name.

    Returns:
        log_probability_error: the largest change of a log-probability, in nats.
        kl: the mean divergence from the true distribution, in nats.
        flips: the share of rows whose largest entry changed.
        top5: the mean share of the five largest entries that stay.
        margin: the smallest difference of the two largest true logits over their largest change; below 2, a flip is
            possible.
    """
    answer, truth = ({name: each for name, each in side.items() if name.partition(".")[0] == "logits"} or side
                     for side in (answer, truth))  # fmt: skip
    x, y = _rows(answer), _rows(truth)
    p, q = _log_softmax(x), _log_softmax(y)
    best = [np.argsort(-z, axis=-1, kind="stable")[:, :top] for z in (x, y)]
    shared = [len(set(a) & set(b)) / len(a) for a, b in zip(*(each.tolist() for each in best), strict=True)]
    two = np.sort(y, axis=-1)[:, -2:]
    change = np.abs((x - y) - (x - y).mean(-1, keepdims=True)).max(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        margins = (two[:, -1] - two[:, 0]) / change
    return {
        "log_probability_error": float(np.abs(p - q).max()),
        "kl": float(np.mean((np.exp(q) * (q - p)).sum(-1))),
        "flips": float(np.mean(best[0][:, 0] != best[1][:, 0])),
        f"top{top}": float(np.mean(shared)),
        "margin": float(np.nanmin(margins)) if not np.isnan(margins).all() else float("inf"),
    }


def _log_softmax(z: np.ndarray) -> np.ndarray:
    z = z - z.max(-1, keepdims=True)
    return z - np.log(np.exp(z).sum(-1, keepdims=True))


def embedding(answer: Arrays, truth: Arrays) -> dict[str, float]:
    """Measures of embeddings (..., width), each compared with its cosine neighbours among the others.

    Returns:
        cosine_distance: the mean of 1 - cosine between a vector and its true one.
        worst_cosine_distance: the largest.
        nearest_changed: the share of vectors whose nearest neighbour changed.
        rank_change: the mean change of a neighbour's rank.
    """
    x, y = (_unit(_rows(side)) for side in (answer, truth))
    half = ((x - y) ** 2).sum(-1) / 2  # 1 - cosine of unit vectors, without the cancellation
    ranks, true = _ranks(x), _ranks(y)
    nearest = (ranks == 0).argmax(-1) != (true == 0).argmax(-1)
    return {
        "cosine_distance": float(half.mean()) if half.size else 0.0,
        "worst_cosine_distance": float(half.max(initial=0.0)),
        "nearest_changed": float(nearest.mean()) if nearest.size else 0.0,
        "rank_change": float(np.abs(ranks - true).mean()) if ranks.size else 0.0,
    }


def _unit(x: np.ndarray) -> np.ndarray:
    size = np.linalg.norm(x, axis=-1, keepdims=True)
    return x / np.where(size == 0, 1, size)


def _ranks(x: np.ndarray) -> np.ndarray:
    """For each vector the ranks of all others among its neighbours; its own rank is last."""
    similarity = x @ x.T
    np.fill_diagonal(similarity, -np.inf)
    return np.argsort(np.argsort(-similarity, axis=-1, kind="stable"), axis=-1, kind="stable")


def regression(answer: Arrays, truth: Arrays) -> dict[str, float]:
    """Measures of predictions of any shape, in their own units.

    Returns:
        rmse: the root mean square of the changes.
        max_abs: the largest change.
        bias: the mean change.
        unexplained: the mean square of the changes over the variance of the true values.
    """
    x, y = (np.concatenate([each.ravel().astype(np.float64) for each in side.values()]) for side in (answer, truth))
    change, spread = x - y, float(y.var())
    square = float(np.mean(change**2))
    return {
        "rmse": square**0.5,
        "max_abs": float(np.abs(change).max()),
        "bias": float(change.mean()),
        "unexplained": square / spread if spread else float("inf") if square else 0.0,
    }


def _rows(arrays: Arrays) -> np.ndarray:
    """The rows of all arrays, in float64. Raises ValueError for arrays of several widths."""
    widths = {each.shape[-1] for each in arrays.values() if each.ndim}
    if len(widths) != 1:
        raise ValueError(f"metric must get outputs of one width, got {sorted(widths)}; give a function of them")
    rows = [each.reshape(-1, each.shape[-1]) for each in arrays.values() if each.ndim]
    return np.concatenate(rows).astype(np.float64)


METRICS: dict[str, Callable[[Arrays, Arrays], dict[str, float]]] = {
    "logits": logits,
    "embedding": embedding,
    "regression": regression,
}
"""The named metrics."""
