"""`DataLoader`: batches of a dataset, made in this process."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from ...random import Generator
from .collate import default_collate, default_convert
from .datasets import IterableDataset
from .samplers import BatchSampler, RandomSampler, SequentialSampler, draw_seed

Batch_co = TypeVar("Batch_co", covariant=True)


class _Forever:
    """The sampler of iterable datasets, whose items have no indices."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


class DataLoader(Generic[Batch_co]):
    """Iterates over batches of a dataset, in the order of a sampler.

    Args:
        dataset: by index, or an `IterableDataset`.
        batch_size: items of a batch; None for single items.
        shuffle: whether the order is random, drawn for each iteration.
        sampler: indices in another order.
        batch_sampler: lists of indices, in place of batch_size, shuffle, sampler and drop_last.
        collate_fn: makes a batch of a list of items; `default_collate` by default.
        drop_last: whether a smaller last batch is dropped.
        generator: draws the order.

    The other parameters are torch's; they concern worker processes and pinned memory and have no effect.

    Raises ValueError for `num_workers` above 0, and for arguments that contradict each other.
    """

    def __init__(  # noqa: PLR0913 (torch's)
        self, dataset: Any, batch_size: int | None = 1, shuffle: bool | None = None, sampler: Any | None = None,
        batch_sampler: Any | None = None, num_workers: int = 0, collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False, drop_last: bool = False, timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None, multiprocessing_context: Any = None,
        generator: Generator | None = None, *, prefetch_factor: int | None = None, persistent_workers: bool = False,
        pin_memory_device: str = "", in_order: bool = True,
    ) -> None:  # fmt: skip
        if num_workers != 0:
            raise ValueError(
                f"DataLoader(): num_workers must be 0, got {num_workers!r}; batches are made in this process"
            )
        self.dataset, self.num_workers, self.timeout, self.generator = dataset, num_workers, timeout, generator
        self.pin_memory, self.pin_memory_device, self.in_order = pin_memory, pin_memory_device, in_order
        self.is_iterable = isinstance(dataset, IterableDataset)
        if self.is_iterable and (shuffle or sampler is not None or batch_sampler is not None):
            raise ValueError(
                "DataLoader(): shuffle and samplers must be left out for an IterableDataset; it has no indices"
            )
        if sampler is not None and shuffle:
            raise ValueError(
                "DataLoader(): shuffle must be left out when a sampler is given; it has an order of its own"
            )
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "DataLoader(): batch_size, shuffle, sampler and drop_last must be left out when a batch_sampler is "
                    "given"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError("DataLoader(): drop_last must be False with batch_size=None, which makes no batches")
        if sampler is None:
            if self.is_iterable:
                sampler = _Forever()
            else:
                sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        order: Any = sampler
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(order, batch_size, drop_last)
        self.batch_size, self.drop_last, self.sampler, self.batch_sampler = (
            batch_size,
            drop_last,
            sampler,
            batch_sampler,
        )
        self.is_batched = batch_sampler is not None
        self.collate_fn = collate_fn or (default_collate if self.is_batched else default_convert)

    def __iter__(self) -> Iterator[Batch_co]:
        draw_seed(self.generator)  # as torch does, so that what follows draws the same numbers
        fetch = self._fetcher()
        for indices in self.batch_sampler if self.batch_sampler is not None else self.sampler:
            try:
                batch = fetch(indices)
            except StopIteration:
                if self.is_iterable:
                    return
                raise
            yield batch

    def __len__(self) -> int:
        if self.is_iterable:
            count = len(self.dataset)
            if self.batch_size is None:
                return count
            return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
        return len(self.batch_sampler if self.batch_sampler is not None else self.sampler)  # type: ignore[arg-type]

    def _fetcher(self) -> Callable[[Any], Any]:
        """Return the function from the indices of a batch, or the index of one item, to the loader's result.

        For an iterable dataset it takes the next items, as many as there are indices; StopIteration ends them.
        """
        dataset, collate = self.dataset, self.collate_fn
        if not self.is_iterable:
            if not self.is_batched:
                return lambda index: collate(dataset[index])
            at_once = getattr(dataset, "__getitems__", None)
            return lambda indices: collate(at_once(indices) if at_once else [dataset[index] for index in indices])
        items = iter(dataset)
        if not self.is_batched:
            return lambda index: collate(next(items))

        def next_batch(indices: Sequence[Any]) -> Any:
            batch = [item for _, item in zip(indices, items, strict=False)]
            if not batch or (self.drop_last and len(batch) < len(indices)):
                raise StopIteration
            return collate(batch)

        return next_batch
