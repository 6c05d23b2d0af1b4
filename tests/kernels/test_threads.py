"""Threads: how many, that results do not depend on them, and that nothing a user does with threads ends the process."""

import math
import os

import numpy as np
import pytest

from minitorch_backends.kernels.runtime import threading

from ..support.processes import python

PRODUCT = """
import numpy as np
from minitorch_backends.kernels.runtime import threading
from minitorch_backends.kernels.gemm.product import product

rng = np.random.default_rng(0)
a, b = (rng.standard_normal((700, 600)).astype(np.float32) for _ in range(2))
def multiply():
    return product(a, b.T, isa="portable")
"""
"""Defines `multiply`, whose product is large enough to be shared among threads, on any CPU."""


def run(code):
    """What a program prints that has `multiply`."""
    out, error = python(PRODUCT + code)
    assert error == ""
    return out


@pytest.fixture
def restore_threads():
    with threading.num_threads():
        yield


def test_the_default_is_what_the_process_may_use():
    assert 1 <= threading.available_cores() <= threading.available_cpus() <= (os.cpu_count() or 1)
    assert threading.get_num_threads() <= threading.available_cpus()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity masks here")
def test_affinity_limits_the_default():
    code = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    code += "from minitorch_backends.kernels.runtime import threading; print(threading.get_num_threads())"
    assert python(code).out == "1\n"


@pytest.mark.parametrize(
    ("value", "expected"), [("1", 1), ("1,4", 1), ("3", 3), ("100000", 8), ("", 4), ("x", 4), ("0", 4)]
)
def test_omp_num_threads_sets_the_default_up_to_the_cpus(monkeypatch, value, expected):
    """Without it there is a thread for each of 4 physical cores of 8 CPUs."""
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    monkeypatch.setattr(threading, "_cgroup_limit", lambda: math.inf)
    monkeypatch.setattr(threading.machine, "cores", lambda: 4)
    monkeypatch.setattr(threading.machine, "granted_cpus", lambda: list(range(8)))
    assert threading._default_threads() == expected


def test_a_quota_below_the_cores_limits_the_default(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threading, "_cgroup_limit", lambda: 2.5)
    monkeypatch.setattr(threading.machine, "cores", lambda: 4)
    assert threading._default_threads() == 3


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, math.inf),
        ({"cpu/cpu.cfs_quota_us": "400000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4.0),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, math.inf),
        ({"cpu.max": "nonsense\n"}, math.inf),
        ({}, math.inf),
    ],
)
def test_quota_of_the_control_group(tmp_path, files, expected):
    (tmp_path / "cpu").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert threading._cgroup_limit(tmp_path, tmp_path / "own") == expected


@pytest.mark.parametrize(
    ("own", "file"), [("0::/sys.slice/app\n", "sys.slice"), ("3:cpu,cpuacct:/sys.slice/app\n", "cpu/sys.slice")]
)
def test_quotas_of_the_control_groups_around(tmp_path, own, file):
    (tmp_path / "own").write_text(own)
    (tmp_path / file / "app").mkdir(parents=True)
    assert threading._cgroup_limit(tmp_path, tmp_path / "own") == float("inf")
    names = ("cpu.max",) if file == "sys.slice" else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    for folder, quota in (("app", "300000"), (".", "150000")):
        texts = (f"{quota} 100000\n",) if len(names) == 1 else (quota, "100000")
        for name, text in zip(names, texts, strict=True):
            (tmp_path / file / folder / name).write_text(text)
        assert threading._cgroup_limit(tmp_path, tmp_path / "own") == int(quota) / 100000


@pytest.mark.parametrize(("value", "error"), [(0, ValueError), (-3, ValueError), (True, TypeError), (2.0, TypeError)])
def test_a_bad_number_of_threads_changes_nothing(restore_threads, value, error):
    before = threading.get_num_threads()
    with pytest.raises(error, match="expected an int of at least 1"):
        threading.set_num_threads(value)
    assert threading.get_num_threads() == before


@pytest.mark.parametrize("shape", [(513, 700, 515), (40, 300, 1500), (1500, 300, 40), (1, 4000, 2000)])
def test_the_bits_do_not_depend_on_the_threads(restore_threads, shape):
    from minitorch_backends.kernels.gemm.product import product

    m, k, n = shape
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(size).astype(np.float32) for size in ((m, k), (k, n)))
    results = []
    for threads in (1, 2, 5):
        threading.set_num_threads(threads)
        results += [product(a, b, isa="portable") for _ in range(3)]
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


def test_concurrent_callers():
    """One caller has the pool at a time; the others work alone. All get the same bits."""
    code = """
import threading as python_threads
threading.set_num_threads(3)
expected, wrong = multiply(), []
def work():
    for _ in range(20):
        if not np.array_equal(multiply(), expected):
            wrong.append(1)
callers = [python_threads.Thread(target=work) for _ in range(4)]
[caller.start() for caller in callers]
[caller.join() for caller in callers]
print("wrong:", len(wrong))
"""
    assert run(code) == "wrong: 0\n"


FORK = """
import os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of any fork with threads
threading.set_num_threads(3)
def in_child(work):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        work()
        sys.stdout.flush()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_products_after_fork():
    """In the child of a process with a running pool, in its own child, and in the parent afterwards."""
    code = """
expected = multiply()
def child():
    print("child", np.array_equal(multiply(), expected), threading.pool()[1], in_child(grandchild))
def grandchild():
    print("grandchild", np.array_equal(multiply(), expected))
print(in_child(child))
print("parent", np.array_equal(multiply(), expected))
"""
    assert sorted(run(FORK + code).splitlines()) == ["0", "child True 3 0", "grandchild True", "parent True"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_fork_while_another_thread_multiplies():
    """The child has a copy of a pool that was busy, without the threads that would have finished."""
    code = """
import threading as python_threads
expected, stop = multiply(), []
def work():
    while not stop:
        multiply()
caller = python_threads.Thread(target=work)
caller.start()
for _ in range(5):
    print(in_child(lambda: print(np.array_equal(multiply(), expected))))
stop.append(1)
caller.join()
"""
    assert sorted(run(FORK + code).split()) == ["0"] * 5 + ["True"] * 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_fork_while_another_thread_draws():
    """NumPy's lock of a generator is held by a thread that the child does not have."""
    code = """
import signal
import threading as python_threads
import minitorch_backends as mt
seeded = mt.Generator().manual_seed(3)
generators = mt.default_generator, mt.Generator(), seeded
holding, done = python_threads.Event(), python_threads.Event()
def draw():
    locks = [each._numpy.bit_generator.lock for each in generators]
    for lock in locks:
        lock.acquire()
    holding.set()
    done.wait()
    for lock in locks:
        lock.release()
thread = python_threads.Thread(target=draw)
thread.start()
holding.wait()
def child():
    signal.alarm(300)  # ends a child that waits
    print(all(mt.rand(3, generator=each).shape == (3,) for each in generators))
print(in_child(child))
done.set()
thread.join()
"""
    assert run(FORK + code).split() == ["True", "0"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_locks_are_open_in_a_child():
    """Whoever held them in the parent is not there to release them."""
    code = """
from minitorch_backends.kernels.runtime.locks import lock, reentrant_lock
import threading as python_threads
made = [lock(), reentrant_lock()]
holding, done = python_threads.Event(), python_threads.Event()
def hold():
    with made[0], made[1]:
        holding.set()
        done.wait()
holder = python_threads.Thread(target=hold)
holder.start()
holding.wait()
print(in_child(lambda: print([each.acquire(timeout=1) for each in made])))
print([each.acquire(blocking=False) for each in made])
done.set()
holder.join()
"""
    assert sorted(run(FORK + code).splitlines()) == ["0", "[False, False]", "[True, True]"]


def test_more_threads_than_can_be_of_use_are_not_started():
    """Thousands would take the mappings of memory that the process needs to load a kernel."""
    code = """
expected = multiply()
threading.set_num_threads(100_000)
print(np.array_equal(multiply(), expected), threading.get_num_threads())
print(threading.pool()[1] <= threading.MOST_THREADS)
"""
    assert run(code).split() == ["True", "100000", "True"]


def test_products_where_no_thread_can_be_started():
    code = """
import threading as python_threads
def refuse(self):
    raise RuntimeError("can't start new thread")
python_threads.Thread.start = refuse
threading.set_num_threads(3)
print(np.allclose(multiply(), a @ b.T, atol=1e-3), threading.pool()[1])
"""
    assert run(code) == "True 1\n"


def test_the_process_ends_while_threads_wait():
    assert run("threading.set_num_threads(4); multiply(); print('done')") == "done\n"


needs_tasks = pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs Linux, which tells of each thread")


@needs_tasks
def test_no_thread_is_started_before_a_kernel_is_shared():
    """OpenBLAS starts its own when NumPy is imported."""
    code = """
import os
import numpy as np
count = lambda: len(os.listdir("/proc/self/task"))
before = count()
import minitorch_backends as mt
mt.set_num_threads(3)
x = mt.ones(3, 3, requires_grad=True)
(x @ x).relu().sum().backward()
print(count() - before)
mt.ones(700, 600) @ mt.ones(600, 500)
print(count() - before)
"""
    assert python(code, OMP_NUM_THREADS="1") == ("0\n2\n", "")


SLEEPING = """
import pathlib, threading as python_threads, time
def sleeping():
    \"\"\"The threads of the pool, once all sleep, and what the system says of each.\"\"\"
    threads = [each for each in python_threads.enumerate() if each.name.startswith("minitorch")]
    texts = [""]
    while not all("State:\\tS" in text for text in texts):
        time.sleep(0.05)
        texts = [pathlib.Path(f"/proc/self/task/{each.native_id}/status").read_text() for each in threads]
    return threads, texts
"""


@needs_tasks
def test_threads_sleep_when_there_is_nothing_to_do():
    """After 5 ms of a CPU they take no time at all."""
    code = """
def spent():
    return [time.clock_gettime_ns(time.pthread_getcpuclockid(each.ident)) for each in threads]
threading.set_num_threads(4)
multiply()
threads, _ = sleeping()
multiply()
first, _ = spent(), sleeping()
second, _ = spent(), time.sleep(0.3)
print([after - before < 5e6 for before, after in zip(first, second)], spent() == second)
"""
    assert run(SLEEPING + code) == "[True, True, True] True\n"


@needs_tasks
def test_only_threads_with_a_task_are_woken():
    """Six were started; then calls may use two."""
    code = """
def slept():
    return [int(text.split("\\nvoluntary_ctxt_switches:")[1].split()[0]) for text in sleeping()[1]]
threading.set_num_threads(6)
multiply()
before = slept()
threading.set_num_threads(2)
for _ in range(10):
    multiply()
    time.sleep(0.005)
print([after > first for first, after in zip(before, slept())])
"""
    assert run(SLEEPING + code) == f"{[True, *[False] * 4]}\n"


def test_threads_that_wake_run_beside_the_caller():
    """A thread that slept may run wherever the caller may, but not on the CPU that the caller keeps busy."""
    code = """
import os, threading as python_threads, time
threading.set_num_threads(2)
multiply()
(thread,) = [each for each in python_threads.enumerate() if each.name.startswith("minitorch")]
time.sleep(0.1)
multiply()
mine, its = os.sched_getaffinity(0), os.sched_getaffinity(thread.native_id)
print(its < mine, len(mine - its))
os.sched_setaffinity(0, {min(mine)})
time.sleep(0.1)
multiply()
print(os.sched_getaffinity(thread.native_id) == its, os.sched_getaffinity(0) == {min(mine)})
"""
    if not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs Linux and two CPUs to choose between")
    assert run(code) == "True 1\nTrue True\n"
