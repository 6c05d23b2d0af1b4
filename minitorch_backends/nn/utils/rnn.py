"""Sequences of several lengths, under the names of torch.nn.utils.rnn.

Packed, they are one tensor of the steps that there are: all first steps, all second ones, and so on, longest sequence
first, with the number of each in `batch_sizes`. A recurrent layer runs over the stretches of steps that have the same
sequences, so that nothing is computed for padding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np

from ...ops.creation.factories import as_tensor, full, tensor
from ...ops.views.join import cat, stack
from ...tensor.dtypes import int64
from ...tensor.tensor import Tensor

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence",
    "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip


class PackedSequence(NamedTuple):
    """Sequences of several lengths as one tensor.

    Attributes:
        data: the steps, (sum of lengths, ...).
        batch_sizes: the number of sequences with a first, second ... step.
        sorted_indices: the order of the sequences by length, or None if they were given longest first.
        unsorted_indices: its inverse.
    """

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None

    def to(self, *args: Any, **named: Any) -> PackedSequence:
        """With the data that `data.to` returns."""
        return self._replace(data=self.data.to(*args, **named))

    def cpu(self, *args: Any, **named: Any) -> PackedSequence:
        """The sequences themselves, which are on the CPU already."""
        return self

    def cuda(self, *args: Any, **named: Any) -> PackedSequence:
        """Raises AssertionError, as torch without CUDA does."""
        return self._replace(data=self.data.cuda(*args, **named))

    @property
    def is_cuda(self) -> bool:
        return False

    def is_pinned(self) -> bool:
        """Whether the memory is pinned: False."""
        return False


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes one."""
    return None if permutation is None else permutation.argsort()


def _places(batch_sizes: Sequence[int], batch: int) -> Tensor:
    """The rows of the packed steps in a padded tensor (length, batch, ...) whose first two dimensions are flattened."""
    return tensor(
        np.concatenate([step * batch + np.arange(size) for step, size in enumerate(batch_sizes)]), dtype=int64
    )


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack a padded tensor (length, batch, ...), or (batch, length, ...) with `batch_first`.

    Raises RuntimeError for invalid lengths, and for increasing ones unless `enforce_sorted` is False.
    """
    sizes = as_tensor(lengths, dtype=int64)
    order = None
    if not enforce_sorted:
        sizes, order = sizes.sort(descending=True)
        input = input.index_select(0 if batch_first else 1, order)
    padded = input.transpose(0, 1) if batch_first else input
    counts = sizes.tolist()
    if len(counts) != padded.shape[1]:
        raise RuntimeError(
            f"pack_padded_sequence(): expected a length for each of {padded.shape[1]} sequences, got {len(counts)}"
        )
    if min(counts, default=0) <= 0 or counts[0] > padded.shape[0]:
        raise RuntimeError(f"pack_padded_sequence(): lengths must be from 1 to {padded.shape[0]}, got {counts}")
    if any(one < other for one, other in pairwise(counts)):
        raise RuntimeError(f"pack_padded_sequence(): lengths must decrease, got {counts}; use enforce_sorted=False")
    batch_sizes = [sum(count > step for count in counts) for step in range(counts[0])]
    data = padded.flatten(0, 1).index_select(0, _places(batch_sizes, len(counts)))
    return PackedSequence(data, tensor(batch_sizes), order, invert_permutation(order))


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """The padded tensor, in the order before packing, and the lengths.

    Raises ValueError for a `total_length` below the longest sequence.
    """
    sizes = sequence.batch_sizes.tolist()
    length, batch = len(sizes) if total_length is None else total_length, sizes[0]
    if length < len(sizes):
        raise ValueError(f"pad_packed_sequence(): total_length must be at least {len(sizes)}, got {total_length}")
    shape = (length * batch, *sequence.data.shape[1:])
    empty = full(shape, padding_value, dtype=sequence.data.dtype)
    padded = empty.index_copy(0, _places(sizes, batch), sequence.data).unflatten(0, (length, batch))
    lengths = tensor([sum(size > place for size in sizes) for place in range(batch)])
    if sequence.unsorted_indices is not None:
        padded = padded.index_select(1, sequence.unsorted_indices)
        lengths = lengths[sequence.unsorted_indices]
    return (padded.transpose(0, 1) if batch_first else padded), lengths


def pad_sequence(
    sequences: Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Sequences of several lengths as one tensor (length, batch, ...), or (batch, length, ...) with `batch_first`.

    Raises RuntimeError for another side than "left" or "right".
    """
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"pad_sequence(): padding_side must be 'left' or 'right', got {padding_side!r}")
    longest = max(len(each) for each in sequences)
    rows = []
    for each in sequences:
        rest = full((longest - len(each), *each.shape[1:]), padding_value, dtype=each.dtype)
        rows.append(cat([rest, each] if padding_side == "left" else [each, rest]))
    return stack(rows, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a padded tensor."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[:length] for row, length in zip(rows, lengths.tolist(), strict=True)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences of several lengths, which decrease unless `enforce_sorted` is False."""
    return pack_padded_sequence(pad_sequence(sequences), [len(each) for each in sequences], False, enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences that were packed."""
    padded, lengths = pad_packed_sequence(packed_sequences)
    return unpad_sequence(padded, lengths)


def _stretches(packed: PackedSequence) -> list[tuple[slice, int, int]]:
    """The stretches of steps that have the same sequences: the rows of the data, the steps and the sequences."""
    place, found = 0, []
    for size, steps in groupby(packed.batch_sizes.tolist()):
        count = len(list(steps))
        found.append((slice(place, place + count * size), count, size))
        place += count * size
    return found


def over_stretches(packed: PackedSequence, run: Callable[..., Any]) -> Callable[..., Any]:
    """The function from packed steps, a suffix and states to the results of `run` over each stretch, one after another.

    States of sequences that have ended, or not begun in a backward recurrence, are unchanged.
    """
    parts = _stretches(packed)

    def one_way(sequence: Tensor, suffix: str, states: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        reverse, outputs = suffix.endswith("_reverse"), []
        for rows, steps, size in reversed(parts) if reverse else parts:
            seen = sequence[rows].unflatten(0, (steps, size))
            output, last = run(seen.flip(0) if reverse else seen, suffix, tuple(each[:size] for each in states))
            states = tuple(cat([new, old[size:]]) for new, old in zip(last, states, strict=True))
            outputs.append((output.flip(0) if reverse else output).flatten(0, 1))
        return cat(outputs[::-1] if reverse else outputs), states

    return one_way
