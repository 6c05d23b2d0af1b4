"""utils.data: datasets, samplers, collation, and loaders whose workers fail, are killed, hang and are interrupted."""

import os
import signal
import subprocess
import sys
import time
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

from ..support.processes import python


class Numbers(Dataset):
    """0 to n - 1; at the item `at` it calls `action`."""

    def __init__(self, n=11, at=None, action=None):
        self.n, self.at, self.action = n, at, action

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        if index == self.at:
            self.action()
        return index


class Shares(IterableDataset):
    """0 to n - 1; each worker yields its share."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        info = get_worker_info()
        yield from range(self.n) if info is None else range(info.id, self.n, info.num_workers)


class Settings(Dataset):
    """The flags in force in a worker."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        info = get_worker_info()
        allowed = mt.backends.cuda.matmul.allow_tf32
        return info.id, allowed, mt.is_grad_enabled(), mt.get_num_threads(), mt.rand(()).item(), info.seed


def fail():
    raise KeyError("no such item")


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


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


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_come_in_order(workers):
    options = {"num_workers": workers, "persistent_workers": workers > 0}
    loader = DataLoader(Numbers(), batch_size=4, **options)
    for _ in range(2):
        assert batches(loader) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]
    left = iter(loader)
    assert next(left).tolist() == [0, 1, 2, 3]
    del left
    assert batches(loader)[2] == [8, 9, 10]
    assert len(DataLoader(Numbers(), batch_size=4, drop_last=True)) == 2
    shuffled = [DataLoader(Numbers(), 4, True, generator=mt.Generator().manual_seed(5), **options) for _ in range(2)]
    assert batches(shuffled[0]) == batches(shuffled[1]) != batches(loader)


def test_iterable_datasets_end_in_each_worker():
    assert batches(DataLoader(Shares(7), batch_size=2)) == [[0, 1], [2, 3], [4, 5], [6]]
    assert batches(DataLoader(Shares(7), batch_size=2, num_workers=2)) == [[0, 2], [1, 3], [4, 6], [5]]


def test_workers_have_the_settings_of_the_parent():
    with mt.backends.flags(fp32_precision="tf32"), mt.no_grad():
        allowed = mt.backends.cuda.matmul.allow_tf32
        rows = list(DataLoader(Settings(), batch_size=None, num_workers=2, generator=mt.Generator().manual_seed(0)))
        again = list(DataLoader(Settings(), batch_size=None, num_workers=2, generator=mt.Generator().manual_seed(0)))
    assert [row[:4] for row in rows] == [(worker, allowed, False, 1) for worker in (0, 1, 0, 1)]
    assert rows == again
    assert rows[1][5] == rows[0][5] + 1
    assert len({row[4] for row in rows}) == 4


def test_errors_of_workers_have_their_traceback():
    with pytest.raises(KeyError, match=r"worker 1; its traceback(.|\n)*in fail(.|\n)*no such item"):
        batches(DataLoader(Numbers(11, 5, fail), batch_size=4, num_workers=2))


def test_a_killed_worker_is_an_error_at_once():
    start = time.perf_counter()
    with pytest.raises(RuntimeError, match="died by SIGKILL"):
        batches(DataLoader(Numbers(11, 5, kill), batch_size=4, num_workers=2))
    assert time.perf_counter() - start < 30


def test_a_worker_that_hangs_is_given_up():
    with pytest.raises(RuntimeError, match=r"no batch came for 0\.3 seconds"):
        batches(DataLoader(Numbers(11, 5, lambda: time.sleep(60)), num_workers=2, timeout=0.3))


def test_refused_arguments():
    for named in ({"num_workers": -1}, {"prefetch_factor": 2}, {"persistent_workers": True}, {"timeout": -1}):
        with pytest.raises(ValueError, match=next(iter(named))):
            DataLoader(Numbers(), **named)
    with pytest.raises(ValueError, match="shuffle"):
        DataLoader(Shares(3), shuffle=True)


INTERRUPTED = """
import time
from tests.utils.test_data import DataLoader, Numbers
for batch in DataLoader(Numbers(100, 40, lambda: time.sleep(600)), num_workers=2, batch_size=4):
    if batch[0] == 0:
        print("ready", flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="process groups of POSIX")
def test_an_interrupt_ends_parent_and_workers():
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout.readline() == b"ready\n"
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=30)  # returns once workers have closed their end as well
    assert b"KeyboardInterrupt" in errors
    assert process.returncode != 0


INTERRUPTED_STARTS = """
import signal, sys
from tests.utils.test_data import DataLoader, Numbers

def interrupted(name):
    def interrupt(frame, event, argument):
        if event == "call" and frame.f_code.co_qualname == name:
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)

    loader = DataLoader(Numbers(), num_workers=2, batch_size=4)
    sys.setprofile(interrupt)
    try:
        next(iter(loader))
        return "lost"
    except KeyboardInterrupt:
        return "raised" if sys.getprofile() is None else "of another call"

print(*map(interrupted, ("_ConnectionBase.__del__", "_after_fork", "Pool._start", "Pool.receive")))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_no_interrupt_is_lost_while_workers_start():
    """Python drops what is raised in a `__del__` and at a fork. The first call of each function is interrupted."""
    assert python(INTERRUPTED_STARTS) == ("raised raised raised raised\n", "")
