"""Errors of an answer against a reference, and measures in a task's own units: of logits, of language models, of
embeddings, of regressions, or by the user's function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..explain.records import as_array, frobenius_norm
from ..kernels.runtime.first_use import load


def distances(answer: dict[str, np.ndarray], truth: dict[str, np.ndarray]) -> dict[str, float]:
    """The measures `error` (relative, Frobenius norm), `max_abs`, `max_ulp` (in units in the last place of the answer's
    dtype) and `cosine`, over all arrays together. Raises ValueError if names or shapes differ."""
    if answer.keys() != truth.keys() or any(answer[name].shape != truth[name].shape for name in answer):
        shapes = [{name: list(each.shape) for name, each in side.items()} for side in (answer, truth)]
        raise ValueError(f"the reference must return the same shapes as the function: {shapes[0]}, got {shapes[1]}")
    x = np.concatenate([as_reals(each) for each in answer.values()])
    y = np.concatenate([as_reals(truth[name]) for name in answer])
    difference = x - y
    size, off = frobenius_norm(y), frobenius_norm(difference)
    product = frobenius_norm(x) * size
    return {
        "error": off / size if size else off,
        "max_abs": float(np.abs(difference).max(initial=0.0)),
        "max_ulp": max((ulps(answer[name], truth[name]) for name in answer), default=0.0),
        "cosine": float(np.einsum("i,i->", x, y)) / product if product else float(off == 0),
    }


def relative_error(answer: dict[str, np.ndarray], truth: dict[str, np.ndarray]) -> float:
    """The norm of the difference of all arrays together over that of the truth; infinite if the truth is zero, or if
    names or shapes differ, as those of generated sequences may."""
    off, size = squares_of(answer, truth)
    return (off / size) ** 0.5 if size else float("inf") if off else 0.0


def squares_of(answer: dict[str, np.ndarray], truth: dict[str, np.ndarray]) -> tuple[float, float]:
    """The sums of squares of the difference and of the truth; the former is infinite if names or shapes differ."""
    if {name: each.shape for name, each in answer.items()} != {name: each.shape for name, each in truth.items()}:
        return float("inf"), 1.0
    off = size = 0.0
    for name, wanted in truth.items():
        for x, y in zip(_reals_in_parts(answer[name]), _reals_in_parts(wanted), strict=True):
            off, size = off + float(np.square(x - y).sum()), size + float(np.square(y).sum())
    return off, size


_CHUNK = 1 << 16
"""Number of elements whose float64 copies stay in the cache."""


def _reals_in_parts(x: np.ndarray) -> Iterator[np.ndarray]:
    flat = x.reshape(-1)
    return (as_reals(flat[start : start + _CHUNK]) for start in range(0, flat.size, _CHUNK))


def as_reals(x: np.ndarray) -> np.ndarray:
    """The elements of an array as float64, flattened, with real and imaginary parts alternating."""
    x = x.astype(np.complex128).view(np.float64) if x.dtype.kind == "c" else x.astype(np.float64)
    return np.ravel(x)


def ulps(x: np.ndarray, y: np.ndarray) -> float:
    """The largest difference in units in the last place of `x`'s dtype at the values of `y`."""
    if x.dtype.kind not in "fcV":
        return float(np.abs(as_reals(x) - as_reals(y)).max(initial=0.0))
    odd = x.dtype.kind == "V" or x.dtype.itemsize == 1  # NumPy has no finfo of these
    limits = (load("ml_dtypes") if odd else np).finfo(x.dtype)
    bits, least = limits.nmant + 1, limits.minexp
    wide, true = as_reals(x), as_reals(y)
    exponents = np.maximum(np.frexp(true)[1] - 1, least)
    with np.errstate(invalid="ignore"):
        return float((np.abs(wide - true) / np.ldexp(1.0, exponents + 1 - bits)).max(initial=0.0))


Arrays = dict[str, np.ndarray]
Metric = str | Callable[[Any, Any], Any] | None


def check_metric(caller: str, metric: Metric) -> None:
    """Raise ValueError or TypeError unless `metric` is the name of a metric, a function or None."""
    if metric is None or callable(metric):
        return
    if not isinstance(metric, str):
        raise TypeError(f"{caller}(): metric must be a name, a function or None, got {type(metric).__name__}")
    known = [*METRICS, *(name for name in METRICS_OF_LABELS if caller == "audit" and name not in METRICS)]
    if metric not in known:
        names = ", ".join(map(repr, known))
        raise ValueError(f"{caller}(): metric must be {names}, a function or None, got {metric!r}")


def measures_of(metric: Metric, answer: Arrays, truth: Arrays, labels: Any = None) -> dict[str, float]:
    """The measures of a metric by name, the principal one first. A function's single number is called "metric"."""
    if metric is None:
        return {}
    answer, truth = _common(answer, truth)
    if isinstance(metric, str) and labels is not None:
        return {**METRICS_OF_LABELS[metric](answer, truth, as_array(labels))}
    return _by_name((METRICS[metric] if isinstance(metric, str) else metric)(answer, truth))


def measures_by(metric: Callable[[Any, Any], Any], answer: Any, truth: Any) -> dict[str, float]:
    """The measures by a user's function of what a model returned.

    Raises ValueError where the function cannot take it.
    """
    try:
        return _by_name(metric(answer, truth))
    except (TypeError, AttributeError, KeyError, IndexError) as problem:
        raise ValueError(
            f"audit(): metric must take what the model returns ({type(truth).__name__}), twice, and return a number or "
            f"numbers by name, got {type(problem).__name__}: {problem}"
        ) from problem


def _by_name(found: Any) -> dict[str, float]:
    named = found if isinstance(found, Mapping) else {"metric": found}
    return {name: float(value) for name, value in named.items()}


def check_labels(metric: Metric, labels: Any) -> None:
    """Raise ValueError unless the metric takes labels where there are some, and has them where it needs them."""
    if labels is not None and metric not in METRICS_OF_LABELS:
        known = " and ".join(map(repr, METRICS_OF_LABELS))
        raise ValueError(f"audit(): labels go with the metrics {known}, got metric {metric!r}")
    if labels is None and metric == "language":
        raise ValueError(
            "audit(): metric 'language' must have token ids: an input named 'input_ids', a single input of integers, "
            "or labels=; got none"
        )


_LARGEST = frozenset({"log_probability_error", "worst_kl", "max_abs", "worst_cosine_distance", "largest_ratio"})
_LEAST = frozenset({"margin"})


def combine(found: Sequence[Mapping[str, float]], weights: Sequence[float]) -> dict[str, float]:
    """The measures of several batches: the largest of the largest, and means over the weights; of perplexities the
    geometric one, of "rmse" that of squares."""
    if len(found) == 1:
        return dict(found[0])
    return {name: _over_batches(name, np.array([each[name] for each in found]), np.array(weights)) for name in found[0]}


def _over_batches(name: str, values: np.ndarray, weights: np.ndarray) -> float:
    if name in _LARGEST or name in _LEAST:
        return float(values.max() if name in _LARGEST else values.min())
    with np.errstate(over="ignore"):
        if name == "perplexity":
            return float(np.exp(np.average(np.log(values), weights=weights)))
        if name == "rmse":
            return float(np.average(values**2, weights=weights) ** 0.5)
    return float(np.average(values, weights=weights))


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
    answer, truth = _logits_of(answer), _logits_of(truth)
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


def _logits_of(arrays: Arrays) -> Arrays:
    """The parts that are called "logits", or all of them where none is."""
    return {name: each for name, each in arrays.items() if name.partition(".")[0] == "logits"} or arrays


def _classification(answer: Arrays, truth: Arrays, labels: np.ndarray) -> dict[str, float]:
    """`logits` with the classes that are right: also "wrong", the share of rows whose largest entry is another, and
    "loss", the mean cross-entropy in nats."""
    rows, labels = _rows(_logits_of(answer)), labels.reshape(-1)
    if len(rows) != len(labels):
        raise ValueError(f"audit(): labels must have one class for each of {len(rows)} rows, got {len(labels)}")
    found = logits(answer, truth)
    chosen = _log_softmax(rows)[np.arange(len(rows)), labels]
    return {**found, "wrong": float(np.mean(rows.argmax(-1) != labels)), "loss": float(-chosen.mean())}


_IGNORED = -100
"""The label of tokens that do not count, as in transformers."""

_ELEMENTS = 1 << 17
"""Number of logits whose float64 copies stay in the cache."""


def _language(answer: Arrays, truth: Arrays, labels: np.ndarray) -> dict[str, float]:
    """Measures of the logits of a language model (..., tokens, words) for the tokens that follow.

    Returns:
        perplexity: exp of the mean negative log-probability of the tokens.
        kl, worst_kl: the divergence of the distributions from the true ones in nats, the mean and the largest.
        flips: the share of places whose most probable token changed.
        log_ratio: the mean magnitude of the change of a token's log-probability, in nats.
        ratio_off_1_percent, ratio_off_20_percent: the share of tokens whose probability over the true one leaves 0.99
            to 1.01, and 0.8 to 1.2, where the clipped objective of PPO has no gradient.
        largest_ratio: the largest of these ratios, or of their inverses.
    """
    loss, kls, flips, ratios = [], [], [], []
    for x, y, tokens in _chunks(_only(_logits_of(answer)), _only(_logits_of(truth)), labels):
        x -= x.max(-1, keepdims=True)
        y -= y.max(-1, keepdims=True)
        places, powers = np.arange(len(tokens)), np.exp(y)
        size, p_size, q_size = powers.sum(-1), np.log(np.exp(x).sum(-1)), np.log(powers.sum(-1))
        p, q = x[places, tokens] - p_size, y[places, tokens] - q_size
        loss.append(-p)
        ratios.append(p - q)
        flips.append(x.argmax(-1) != y.argmax(-1))
        kls.append((powers * (y - x)).sum(-1) / size + (p_size - q_size))
    logarithms, divergences = np.abs(np.concatenate(ratios)), np.concatenate(kls)
    with np.errstate(over="ignore"):
        off = np.abs(np.expm1(np.concatenate(ratios)))
        return {
            "perplexity": float(np.exp(np.concatenate(loss).mean())),
            "kl": float(divergences.mean()),
            "worst_kl": float(divergences.max()),
            "flips": float(np.concatenate(flips).mean()),
            "log_ratio": float(logarithms.mean()),
            "ratio_off_1_percent": float((off > 0.01).mean()),
            "ratio_off_20_percent": float((off > 0.2).mean()),
            "largest_ratio": float(np.exp(logarithms.max())),
        }


def _only(arrays: Arrays) -> np.ndarray:
    return next(iter(arrays.values()))


def _chunks(x: np.ndarray, y: np.ndarray, labels: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The rows of logits that predict a token, in float64, with the tokens."""
    if labels.shape != x.shape[:-1] or labels.dtype.kind not in "iu" or labels.shape[-1] < 2:
        raise ValueError(
            f"audit(): labels must be token ids of the shape {list(x.shape[:-1])} of the logits, with at least two "
            f"tokens, got {labels.dtype.name} of {list(labels.shape)}"
        )
    tokens = labels[..., 1:].reshape(-1)
    used = np.flatnonzero(tokens != _IGNORED)
    rows = [each[..., :-1, :].reshape(-1, each.shape[-1]) for each in (x, y)]
    count = max(1, _ELEMENTS // rows[0].shape[-1])
    for start in range(0, len(used), count):
        places = used[start : start + count]
        first, second = (each[places].astype(np.float64) for each in rows)
        yield first, second, tokens[places]


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

METRICS_OF_LABELS: dict[str, Callable[[Arrays, Arrays, np.ndarray], dict[str, float]]] = {
    "logits": _classification,
    "language": _language,
}
"""Metrics that take labels: classes, and token ids."""
