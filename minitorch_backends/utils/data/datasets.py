"""Datasets: by index, by iteration, and combined ones."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from ...ops.creation.sampling import randperm
from ...random import Generator
from ...tensor.tensor import Tensor

Item_co = TypeVar("Item_co", covariant=True)


class Dataset(Generic[Item_co]):
    """Items by index: define `__getitem__(index)`, and `__len__` for the samplers.

    If it has `__getitems__(indices)` too, a loader fetches the items of a batch in one call.
    """

    def __getitem__(self, index: Any) -> Item_co:
        raise NotImplementedError(f"{type(self).__name__} has no items; define __getitem__(self, index)")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[Item_co]):
    """Items in the order of `__iter__`, which subclasses define. Workers iterate over copies; `get_worker_info()`
    identifies the worker."""

    def __iter__(self) -> Iterator[Item_co]:
        raise NotImplementedError(f"{type(self).__name__} has no items; define __iter__(self)")

    def __add__(self, other: Dataset[Any]) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """The rows of tensors that have the same first size, as tuples.

    Raises AssertionError, as torch does, where these sizes differ.
    """

    def __init__(self, *tensors: Tensor) -> None:
        sizes = [each.shape[0] for each in tensors]
        if len(set(sizes)) > 1:
            raise AssertionError(f"TensorDataset(): tensors must have the same first size, got {sizes}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]


class StackDataset(Dataset[Any]):
    """The items of several datasets at one index: a tuple, or a dict of datasets given by name.

    Raises ValueError for different lengths, for no datasets, and for both kinds of arguments.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ValueError("StackDataset(): datasets must be given by position or by name, and at least one")
        self.datasets: Any = kwargs or args
        lengths = [len(each) for each in (kwargs.values() if kwargs else args)]
        if len(set(lengths)) > 1:
            raise ValueError(f"StackDataset(): datasets must have the same length, got {lengths}")
        self._length = lengths[0]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: each[index] for name, each in self.datasets.items()}
        return tuple(each[index] for each in self.datasets)

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[Any]):
    """The items of several datasets, one after the other.

    Raises AssertionError, as torch does, for none and for iterable ones, which `ChainDataset` takes.
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("ConcatDataset(): datasets must not be empty")
        if any(isinstance(each, IterableDataset) for each in self.datasets):
            raise AssertionError("ConcatDataset(): datasets must have items by index; use ChainDataset")
        self.cumulative_sizes = list(itertools.accumulate(map(len, self.datasets)))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            error = ValueError if index < 0 else IndexError
            raise error(f"ConcatDataset: index must be from {-len(self)} to {len(self) - 1}, got {index}")
        number = bisect.bisect_right(self.cumulative_sizes, place)
        return self.datasets[number][place - (self.cumulative_sizes[number - 1] if number else 0)]


class ChainDataset(IterableDataset[Any]):
    """The items of several iterable datasets, one after the other."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for each in self.datasets:
            if not isinstance(each, IterableDataset):
                raise AssertionError(f"ChainDataset: datasets must be iterable, got {type(each).__name__}")
            yield from each

    def __len__(self) -> int:
        return sum(map(len, self.datasets))


class Subset(Dataset[Any]):
    """The items of a dataset at some indices."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> Any:
        chosen = [self.indices[each] for each in index] if isinstance(index, list) else self.indices[index]
        return self.dataset[chosen]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        chosen = [self.indices[each] for each in indices]
        if callable(at_once := getattr(self.dataset, "__getitems__", None)):
            return at_once(chosen)
        return [self.dataset[each] for each in chosen]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Any, lengths: Sequence[float], generator: Generator | None = None) -> list[Subset]:
    """Divide a dataset at random into subsets of `lengths`: numbers of items, or shares that add up to 1, whose
    remaining items go to the first subsets, one each.

    Raises ValueError for shares outside 0 to 1, and for lengths that do not add up to the dataset's.
    """
    count = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        if not all(0 <= each <= 1 for each in lengths):
            raise ValueError(f"random_split(): shares must be from 0 to 1, got {list(lengths)}")
        sizes = [math.floor(count * each) for each in lengths]
        for index in range(count - sum(sizes)):
            sizes[index % len(sizes)] += 1
    else:
        sizes = list(lengths)  # type: ignore[arg-type]
    if sum(sizes) != count:
        raise ValueError(f"random_split(): lengths must add up to {count}, the dataset's length, got {sizes}")
    order = randperm(count, generator=generator).tolist()
    ends = itertools.accumulate(sizes)
    return [Subset(dataset, order[end - size : end]) for end, size in zip(ends, sizes, strict=True)]


def get_worker_info() -> None:
    """Return None: batches are made in this process, so that no dataset needs to yield a share of its items."""
