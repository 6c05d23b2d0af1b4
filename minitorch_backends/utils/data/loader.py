"""`DataLoader`: batches of a dataset, made here or by worker processes."""

from __future__ import annotations

import itertools
import multiprocessing
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from ...random import Generator
from .collate import default_collate, default_convert
from .datasets import IterableDataset
from .samplers import BatchSampler, RandomSampler, SequentialSampler, draw_seed
from .workers import END, Failure, Pool, Setting, fetcher

Batch_co = TypeVar("Batch_co", covariant=True)

_PREFETCHED = 2
"""The default `prefetch_factor`: batches prepared per worker."""


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
        num_workers: processes that make batches; 0 for none. Workers inherit the current flags, modes and dtype when
            they start, and get seeds of their own.
        collate_fn: makes a batch of a list of items; `default_collate` by default.
        pin_memory: no effect.
        drop_last: whether a smaller last batch is dropped.
        timeout: seconds to wait for a worker's batch; 0 for no limit.
        worker_init_fn: called in each worker with its number.
        multiprocessing_context: how processes are started: a name, or a context of `multiprocessing`.
        generator: draws the order and the workers' seeds.
        prefetch_factor: batches prepared per worker.
        persistent_workers: whether workers stay for the next iteration.
        in_order: whether batches come in the order of the sampler, or as workers finish them.

    A worker's exception is raised here, with its traceback. Raises RuntimeError if a worker is killed or exceeds
    `timeout`, ValueError for arguments that contradict each other.
    """

    def __init__(
        self, dataset: Any, batch_size: int | None = 1, shuffle: bool | None = None, sampler: Any | None = None,
        batch_sampler: Any | None = None, num_workers: int = 0, collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False, drop_last: bool = False, timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None, multiprocessing_context: Any = None,
        generator: Generator | None = None, *, prefetch_factor: int | None = None, persistent_workers: bool = False,
        pin_memory_device: str = "", in_order: bool = True,
    ) -> None:  # fmt: skip
        _refuse_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self.dataset, self.num_workers, self.timeout, self.generator = dataset, num_workers, timeout, generator
        self.pin_memory, self.pin_memory_device, self.in_order = pin_memory, pin_memory_device, in_order
        self.worker_init_fn, self.persistent_workers = worker_init_fn, persistent_workers
        self.prefetch_factor = _PREFETCHED if num_workers and prefetch_factor is None else prefetch_factor
        self.multiprocessing_context = multiprocessing_context
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
        self._workers: _Workers | None = None

    def __iter__(self) -> Iterator[Batch_co]:
        seed = draw_seed(self.generator)
        indices = iter(self.batch_sampler if self.batch_sampler is not None else self.sampler)
        if self.num_workers == 0:
            return _here(self, indices)
        workers = self._workers if self._workers is not None and self._workers.close.alive else _Workers(self, seed)
        if self.persistent_workers:
            self._workers = workers
        return workers.iterate(indices)

    def __len__(self) -> int:
        if self.is_iterable:
            count = len(self.dataset)
            if self.batch_size is None:
                return count
            return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
        return len(self.batch_sampler if self.batch_sampler is not None else self.sampler)  # type: ignore[arg-type]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_workers": None}


def _refuse_workers(num_workers: Any, timeout: Any, prefetch_factor: Any, persistent_workers: Any) -> None:
    if not isinstance(num_workers, int) or num_workers < 0:
        raise ValueError(f"DataLoader(): num_workers must be a non-negative integer, got {num_workers!r}")
    if timeout < 0:
        raise ValueError(f"DataLoader(): timeout must be a non-negative number of seconds, got {timeout!r}")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError("DataLoader(): prefetch_factor must be left out for num_workers=0; workers prefetch")
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError(f"DataLoader(): prefetch_factor must be a non-negative integer, got {prefetch_factor!r}")
    if num_workers == 0 and persistent_workers:
        raise ValueError("DataLoader(): persistent_workers must be False with num_workers=0")


def _here(loader: DataLoader[Any], indices: Iterator[Any]) -> Iterator[Any]:
    """Batches made in this process."""
    fetch = fetcher(loader.dataset, loader.is_iterable, loader.is_batched, loader.drop_last, loader.collate_fn)
    for each in indices:
        try:
            batch = fetch(each)
        except StopIteration:
            if loader.is_iterable:
                return
            raise
        yield batch


class _Workers:
    """The workers of a loader. They end with the iteration, or with the loader if they are persistent."""

    def __init__(self, loader: DataLoader[Any], seed: int) -> None:
        context = loader.multiprocessing_context
        if not hasattr(context, "Process"):
            context = multiprocessing.get_context(context)
        self._pool = Pool(Setting.of(loader, seed), context)
        self._count, self._timeout, self._in_order = loader.num_workers, loader.timeout, loader.in_order
        self._ahead = loader.num_workers * max(1, loader.prefetch_factor or 0)
        self._persistent = loader.persistent_workers
        self._place, self._iteration = 0, 0
        self.close = weakref.finalize(self, self._pool.close)

    def iterate(self, indices: Iterator[Any]) -> Iterator[Any]:
        """Batches in the order of `indices`; tasks go round the workers whose datasets have not ended."""
        first = self._place
        if first:
            self._pool.reset()
        self._iteration += 1
        try:
            yield from self._batches(indices, first, self._iteration)
        except (Exception, KeyboardInterrupt):
            self.close.detach()
            self._pool.close(seconds=0.0)
            raise
        finally:
            if not self._persistent:
                self.close()

    def _batches(self, indices: Iterator[Any], first: int, iteration: int) -> Iterator[Any]:
        waiting: dict[int, int] = {}  # the worker of each pending batch
        done: dict[int, Any] = {}
        ended: set[int] = set()
        turn = itertools.cycle(range(self._count))
        following = first
        while True:
            if iteration != self._iteration:
                raise RuntimeError(
                    "DataLoader: this iteration was ended by a later one over the same persistent workers"
                )
            while len(waiting) + len(done) < self._ahead and len(ended) < self._count:
                if (task := next(indices, END)) is END:
                    break
                worker = next(each for each in turn if each not in ended)
                waiting[self._place] = worker
                self._pool.submit(worker, self._place, task)
                self._place += 1
            while following in done or (following < self._place and following not in waiting):
                if following in done:
                    yield self._check_result(*done.pop(following))
                following += 1
            if not waiting:
                if len(ended) == self._count or task is END:
                    return
                continue
            for worker, place, result in self._pool.receive(self._timeout):
                if waiting.pop(place, None) is None:
                    continue  # of an iteration that was left
                if result is END:
                    ended.add(worker)
                elif self._in_order:
                    done[place] = worker, result
                else:
                    yield self._check_result(worker, result)

    @staticmethod
    def _check_result(worker: int, result: Any) -> Any:
        if isinstance(result, Failure):
            result.raise_again(worker)
        return result
