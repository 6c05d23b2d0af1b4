"""utils.data: datasets, samplers, collation and loaders."""

from collections import namedtuple

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    get_worker_info,
    random_split,
)


class Numbers(Dataset):
    """0 to n - 1."""

    def __init__(self, n=11):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        return index


class Shares(IterableDataset):
    """0 to n - 1, or a worker's share of them."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        info = get_worker_info()
        yield from range(self.n) if info is None else range(info.id, self.n, info.num_workers)


def batches(loader):
    return [batch.tolist() for batch in loader]


def test_datasets():
    rows = TensorDataset(mt.arange(6).reshape(3, 2), mt.arange(3))
    assert [each.tolist() for each in rows[1]] == [[2, 3], 1]
    both = Numbers(3) + Numbers(2)
    assert [both[i] for i in range(-5, 5)] == [0, 1, 2, 0, 1] * 2
    assert isinstance(both, ConcatDataset)
    assert list(ChainDataset([Shares(2), Shares(3)])) == [0, 1, 0, 1, 2]
    assert StackDataset(a=Numbers(3), b=both.datasets[0])[2] == {"a": 2, "b": 2}
    assert [Subset(Numbers(), [7, 3])[i] for i in (0, 1)] == [7, 3]
    parts = random_split(Numbers(), [0.5, 0.3, 0.2], mt.Generator().manual_seed(1))
    assert [len(part) for part in parts] == [6, 3, 2]
    assert sorted(item for part in parts for item in part.indices) == list(range(11))
    with pytest.raises(ValueError, match="add up to 11"):
        random_split(Numbers(), [3, 4])
    with pytest.raises(AssertionError, match=r"\[3, 2\]"):
        TensorDataset(mt.ones(3), mt.ones(2))


def test_samplers():
    assert sorted(RandomSampler(range(7))) == list(range(7))
    assert len(list(RandomSampler(range(3), num_samples=8))) == 8
    assert set(RandomSampler(range(3), replacement=True, num_samples=70)) == {0, 1, 2}
    assert sorted(SubsetRandomSampler([3, 5, 9])) == [3, 5, 9]
    assert set(WeightedRandomSampler([0.0, 1.0, 0.0], 5)) == {1}
    assert list(BatchSampler(range(5), 2, drop_last=True)) == [[0, 1], [2, 3]]
    shares = [list(DistributedSampler(range(5), 2, rank, shuffle=False)) for rank in (0, 1)]
    assert shares == [[0, 2, 4], [1, 3, 0]]
    orders = [RandomSampler(range(20), generator=mt.Generator().manual_seed(3)) for _ in range(2)]
    assert list(orders[0]) == list(orders[1])


def test_collation():
    point = namedtuple("point", "x y")
    batch = default_collate([{"a": point(1, 2.0), "b": "one", "c": (np.float32(3), mt.ones(2))} for _ in range(3)])
    assert batch["a"].x.tolist() == [1, 1, 1]
    assert batch["a"].y.dtype is mt.float64
    assert batch["b"] == ["one"] * 3
    assert [(each.dtype, each.shape) for each in batch["c"]] == [(mt.float32, (3,)), (mt.float32, (3, 2))]
    with pytest.raises(RuntimeError, match=r"\[1, 2\]"):
        default_collate([[1], [1, 2]])
    with pytest.raises(TypeError, match="object; give a collate_fn"):
        default_collate([object()])


def test_batches_come_in_order():
    loader = DataLoader(Numbers(), batch_size=4)
    for _ in range(2):
        assert batches(loader) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]
    left = iter(loader)
    assert next(left).tolist() == [0, 1, 2, 3]
    del left
    assert batches(loader)[2] == [8, 9, 10]
    assert len(DataLoader(Numbers(), batch_size=4, drop_last=True)) == 2
    shuffled = [DataLoader(Numbers(), 4, True, generator=mt.Generator().manual_seed(5)) for _ in range(2)]
    assert batches(shuffled[0]) == batches(shuffled[1]) != batches(loader)


def test_single_items_and_items_at_once():
    class AtOnce(Numbers):
        def __getitems__(self, indices):
            return [10 * index for index in indices]

    assert list(DataLoader(Numbers(3), batch_size=None)) == [0, 1, 2]
    assert batches(DataLoader(AtOnce(3), batch_size=2)) == [[0, 10], [20]]


def test_iterable_datasets_end():
    assert batches(DataLoader(Shares(7), batch_size=2)) == [[0, 1], [2, 3], [4, 5], [6]]
    assert batches(DataLoader(Shares(7), batch_size=2, drop_last=True)) == [[0, 1], [2, 3], [4, 5]]
    assert list(DataLoader(Shares(3), batch_size=None)) == [0, 1, 2]


def test_refused_arguments():
    with pytest.raises(ValueError, match=r"num_workers must be 0, got 2; batches are made in this process"):
        DataLoader(Numbers(), num_workers=2)
    with pytest.raises(ValueError, match="shuffle"):
        DataLoader(Shares(3), shuffle=True)
