"""Connectionist temporal classification: the loss of sequences of unknown alignment (Graves et al., 2006).

Blanks stand between the labels of a target, in front and behind: a path of states, where each frame stays or moves
on. From one frame to the next a path stays, moves to the next state, or skips a blank to the next label unless that is
the same. The recursion adds the probabilities of all paths to each state, as logarithms, for all sequences of a batch
at once. It is composed of ops, so the loss has derivatives of every order.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...autograd.api import grad
from ...autograd.modes import derives, enable_grad
from ...dispatch.op import Array, composite, op
from ...kernels.runtime.context import restore_on_failure
from ...tensor.dtypes import INTEGER
from ...tensor.tensor import Tensor, adopt, not_a_tensor
from ..functional import functional
from ..indexing.index import read
from ..indexing.index_parsing import plain
from ..reductions.variance import logsumexp
from ..views.join import stack
from ..views.padding import pad
from .pointwise import reduce_loss

_IMPOSSIBLE = -1e30
"""The logarithm of the probability of impossible paths: finite, so that no gradient is NaN."""


def _lengths(argument: str, given: Any, batch: int, most: int) -> np.ndarray:
    """The lengths of sequences. Raises RuntimeError unless there are `batch` integers from 0 to `most`."""
    if isinstance(given, Tensor):
        if given.dtype.category > INTEGER:
            raise RuntimeError(f"ctc_loss(): {argument} must be integral, got {given.dtype!r}")
        values = given._array.reshape(-1).astype(np.int64)
    elif isinstance(given, Sequence) and all(hasattr(each, "__index__") for each in given):
        values = np.array([int(each) for each in given], np.int64).reshape(-1)
    else:
        raise TypeError(f"ctc_loss(): argument {argument!r} must be a Tensor or a tuple of ints, got {given!r}")
    if values.size != batch:
        raise RuntimeError(f"ctc_loss(): {argument} must have the batch's size {batch}, got {values.size}")
    if (wrong := (values < 0) | (values > most)).any():
        raise RuntimeError(f"ctc_loss(): {argument} must be from 0 to {most}, got {values[wrong][0]}")
    return values


def _pad_labels(targets: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The labels as (batch, longest), from those or from all labels one after the other."""
    longest = int(lengths.max(initial=0))
    if targets.ndim == 2:
        return targets[:, :longest]
    starts = np.cumsum(lengths) - lengths
    places = starts[:, None] + np.arange(longest)
    return targets[np.minimum(places, max(targets.size - 1, 0))] if targets.size else np.zeros(places.shape, np.int64)


def _states(labels: np.ndarray, lengths: np.ndarray, blank: int) -> np.ndarray:
    """The labels with blanks between them, in front and behind: (batch, 2 longest + 1)."""
    states = np.full((labels.shape[0], 2 * labels.shape[1] + 1), blank, np.int64)
    states[:, 1::2] = np.where(np.arange(labels.shape[1]) < lengths[:, None], labels, blank)
    return states


def _emissions(scores: Tensor, states: np.ndarray) -> Tensor:
    """The scores of each state in each frame: (frames, batch, states)."""
    frames, batch = scores._array.shape[:2]
    at = np.arange(frames)[:, None, None], np.arange(batch)[:, None], states
    return read(scores, tuple(np.broadcast_arrays(*at))).clamp(min=_IMPOSSIBLE)


def _skips(states: np.ndarray, blank: int) -> np.ndarray:
    """Whether a path may come to each state from the label before, over a blank."""
    count = states.shape[1]
    return (states != blank) & (states != np.pad(states, ((0, 0), (2, 0)), constant_values=blank)[:, :count])


def _paths(emitted: Tensor, skips: np.ndarray) -> Tensor:
    """The logarithms of the probabilities of all paths to each state after each frame: (frames, batch, states)."""
    skipping, begins = adopt(skips), adopt(np.arange(skips.shape[1]) < 2)
    found = [emitted[0].where(begins, _IMPOSSIBLE)]
    for frame in range(1, len(emitted)):
        wide = pad(found[-1], (2, 0), value=_IMPOSSIBLE)
        ways = [wide[:, 2:], wide[:, 1:-1], wide[:, :-2].where(skipping, _IMPOSSIBLE)]
        found.append((logsumexp(stack(ways), 0) + emitted[frame]).clamp(min=_IMPOSSIBLE))
    return stack(found)


def _ends(frames: np.ndarray, lengths: np.ndarray) -> list[tuple[np.ndarray, ...]]:
    """The indices of the last blank and of the last label in the last frame of each sequence."""
    return [(np.maximum(frames - 1, 0), np.arange(len(frames)), np.maximum(2 * lengths - back, 0)) for back in (0, 1)]


def _sums_by_ops(emitted: Tensor, skips: np.ndarray, frames: np.ndarray, lengths: np.ndarray) -> Tensor:
    paths = _paths(emitted, skips)
    ends = [read(paths, each) for each in _ends(frames, lengths)]
    ends[1] = ends[1].where(adopt(lengths > 0), _IMPOSSIBLE)
    return logsumexp(stack(ends), 0)


def _log_sum(*arrays: np.ndarray) -> np.ndarray:
    """log(sum(exp)) of finite arrays."""
    largest = functools.reduce(np.maximum, arrays)
    total = np.exp(arrays[0] - largest)
    for each in arrays[1:]:
        total += np.exp(each - largest)
    return np.add(np.log(total, out=total), largest, out=total)


def _forward_paths(emitted: np.ndarray, skips: np.ndarray) -> np.ndarray:
    """`_paths` of arrays."""
    out, (count, batch, states) = np.empty_like(emitted), emitted.shape
    wide = np.full((batch, states + 2), _IMPOSSIBLE, emitted.dtype)
    out[0] = np.where(np.arange(states) < 2, emitted[0], _IMPOSSIBLE)
    for frame in range(1, count):
        wide[:, 2:] = out[frame - 1]
        skipped = np.where(skips, wide[:, :-2], wide.dtype.type(_IMPOSSIBLE))
        np.maximum(_log_sum(wide[:, 2:], wide[:, 1:-1], skipped) + emitted[frame], _IMPOSSIBLE, out=out[frame])
    return out


def _total(paths: np.ndarray, frames: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The logarithm of the probability of all paths to the end of each sequence."""
    blank, label = (paths[each] for each in _ends(frames, lengths))
    return _log_sum(blank, np.where(lengths > 0, label, paths.dtype.type(_IMPOSSIBLE)))


def _backward_paths(emitted: np.ndarray, skips: np.ndarray, frames: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The same of all paths from each state to the end, without that state's own score."""
    out, (count, batch, states) = np.full_like(emitted, _IMPOSSIBLE), emitted.shape
    wide = np.full((batch, states + 2), _IMPOSSIBLE, emitted.dtype)
    skips_on = np.pad(skips, ((0, 0), (0, 2)))[:, 2:]
    blank, label = _ends(frames, lengths)
    for frame in range(count - 1, -1, -1):
        if frame < count - 1:
            wide[:, :-2] = out[frame + 1] + emitted[frame + 1]
            skipped = np.where(skips_on, wide[:, 2:], wide.dtype.type(_IMPOSSIBLE))
            np.maximum(_log_sum(wide[:, :-2], wide[:, 1:-1], skipped), _IMPOSSIBLE, out=out[frame])
        last = np.flatnonzero(blank[0] == frame)
        out[frame, last] = _IMPOSSIBLE
        out[frame, last, label[2][last]] = 0
        out[frame, last, blank[2][last]] = 0
    return out


@restore_on_failure
def _of_path_sums(g: Tensor, emitted: Tensor, skips: Any, frames: Any, lengths: Any) -> Tensor:
    """The share of the paths through each state in each frame."""
    skips, frames, lengths = plain((skips, frames, lengths))
    if derives():
        with enable_grad():
            again = emitted if emitted.requires_grad else emitted.detach().requires_grad_()
            return grad(_sums_by_ops(again, skips, frames, lengths), again, g, create_graph=True)[0]
    scores = emitted._array.astype(np.float64)
    paths = _forward_paths(scores, skips)
    total = _total(paths, frames, lengths)
    shares = np.exp(np.minimum(paths + _backward_paths(scores, skips, frames, lengths) - total[:, None], 0))
    shares *= np.where(total < _IMPOSSIBLE / 2, 0, g._array)[:, None]
    return adopt(shares.astype(emitted._array.dtype))


@op(takes="f", traits="function", emitted=_of_path_sums, batch="loop: a fixed number of dimensions")
def path_sums(emitted: Array, skips: Any, frames: Any, lengths: Any) -> Array:
    """The logarithm of the probability of all paths of each sequence of a batch.

    emitted: finite scores of each state in each frame; skips: `_skips`; frames, lengths: of sequences and targets.
    """
    skips, frames, lengths = plain((skips, frames, lengths))
    return _total(_forward_paths(emitted, skips), frames, lengths)


def _negative_logs(scores: Tensor, states: np.ndarray, frames: np.ndarray, lengths: np.ndarray, blank: int) -> Tensor:
    """The loss of each sequence; infinite, with a gradient of zero, where no path fits into the frames."""
    loss = -path_sums(_emissions(scores, states), _skips(states, blank), frames, lengths)
    loss = loss.where(adopt(loss._array < -_IMPOSSIBLE / 2), math.inf)
    # Without frames only the empty target has a path.
    return loss.where(adopt(frames > 0), adopt(np.where(lengths > 0, np.inf, 0).astype(loss._array.dtype)))


def _normalization_gradient(scores: Tensor, frames: np.ndarray) -> Tensor:
    """Return 0 for each sequence, with the gradient of the sums of its probabilities: those need not be 1."""
    counted = adopt(np.arange(scores._array.shape[0])[:, None] < frames)
    total = scores.exp().sum(2).where(counted, 0).sum(0)
    return total - total.detach()


def _checked_targets(targets: Any, lengths: np.ndarray, batch: int, blank: int, classes: int) -> np.ndarray:
    """Raises RuntimeError for targets of a shape or with labels that do not fit."""
    if not isinstance(targets, Tensor):
        raise not_a_tensor("ctc_loss", "targets", targets)
    shape, longest = targets._array.shape, int(lengths.max(initial=0))
    fits = shape == (int(lengths.sum()),) or (len(shape) == 2 and shape[0] == batch and shape[1] >= longest)
    if not fits:
        raise RuntimeError(
            f"ctc_loss(): targets must have shape [{int(lengths.sum())}] or [{batch}, {longest} or more], got "
            f"{list(shape)}"
        )
    if not 0 <= blank < classes:
        raise RuntimeError(f"ctc_loss(): blank must be in label range, from 0 to {classes - 1}, got {blank}")
    labels = _pad_labels(targets._array.astype(np.int64), lengths)
    counted = labels[np.arange(longest) < lengths[:, None]]
    if (wrong := (counted < 0) | (counted >= classes)).any():
        raise RuntimeError(f"ctc_loss(): targets must be from 0 to {classes - 1}, got {counted[wrong][0]}")
    return labels


@functional
@composite(method=False, takes="f", widen=("log_probs",), autocast="float32")
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """The negative log likelihood of the targets given the frames, summed over all alignments with blanks.

    Arguments:
        log_probs: log probabilities, (frames, batch, classes) or (frames, classes). As in torch, the gradient is that
            of the logits behind the log_softmax.
        targets: labels other than `blank`, (batch, longest), or of all sequences concatenated.
        input_lengths, target_lengths: tensors or tuples of (batch) integers.
        reduction: "mean" divides by the lengths of the targets first.
        zero_infinity: zero in place of infinity for sequences with too few frames.

    Raises RuntimeError for invalid lengths, shapes and labels, ValueError for another reduction.
    """
    if log_probs.ndim not in (2, 3) or not log_probs.numel():
        raise RuntimeError(
            f"ctc_loss(): log_probs must be (frames, batch, classes) or (frames, classes), and not empty, got "
            f"{list(log_probs.shape)}"
        )
    single = log_probs.ndim == 2
    scores = log_probs.unsqueeze(1) if single else log_probs
    most, batch, classes = scores._array.shape
    frames = _lengths("input_lengths", input_lengths, batch, most)
    lengths = _lengths("target_lengths", target_lengths, batch, 2**31)
    labels = _checked_targets(targets, lengths, batch, blank, classes)
    loss = _negative_logs(scores, _states(labels, lengths, blank), frames, lengths, blank)
    loss = loss + _normalization_gradient(scores, frames)
    if zero_infinity:
        loss = loss.where(adopt(np.isfinite(loss._array)), 0)
    if reduction == "mean":
        loss = loss / adopt(np.maximum(lengths, 1).astype(loss._array.dtype))
    return reduce_loss(loss.squeeze(0) if single and reduction == "none" else loss, reduction)
