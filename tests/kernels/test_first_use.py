"""First uses of kernels: whatever a signal handler raises, and whoever forks, the next call is right."""

import contextlib
import math
import os
import signal
import sys
import textwrap
import threading
import time

import pytest

from minitorch_backends.kernels.runtime import first_use

from ..support.processes import python


class Interrupted(Exception):
    pass


@pytest.fixture
def signals_seen():
    """Signals that handlers have seen; each of them raises."""
    numbers, before = [], {}

    def handle(number, frame):
        numbers.append(signal.Signals(number))
        raise Interrupted(number)

    for number in (signal.SIGUSR1, signal.SIGUSR2):
        before[number] = signal.signal(number, handle)
    yield numbers
    for number, handler in before.items():
        signal.signal(number, handler)


def test_handlers_run_after_the_block(signals_seen):
    seen_inside = []

    def work():
        with first_use.first_use():
            signal.raise_signal(signal.SIGUSR2)
            with first_use.first_use():
                signal.raise_signal(signal.SIGUSR1)
                signal.raise_signal(signal.SIGUSR2)
            seen_inside.append(list(signals_seen))

    with pytest.raises(Interrupted):
        work()
    assert seen_inside == [[]]
    assert sorted(signals_seen) == [signal.SIGUSR1, signal.SIGUSR2], "each of them once, though the first one raised"
    with pytest.raises(Interrupted):
        signal.raise_signal(signal.SIGUSR1)


def test_handlers_are_put_back_when_the_block_fails(signals_seen):
    def fail():
        with first_use.first_use():
            signal.raise_signal(signal.SIGUSR1)
            raise ZeroDivisionError

    with pytest.raises(Interrupted) as raised:
        fail()
    assert isinstance(raised.value.__context__, ZeroDivisionError)
    with pytest.raises(Interrupted):
        signal.raise_signal(signal.SIGUSR2)


def test_other_threads_leave_handlers_alone(signals_seen):
    inside, done = threading.Event(), threading.Event()

    def work():
        with first_use.first_use():
            inside.set()
            done.wait()

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait()
    with pytest.raises(Interrupted):
        signal.raise_signal(signal.SIGUSR1)
    done.set()
    thread.join()


def test_signals_at_any_moment_of_entering_and_leaving():
    """A thread sends signals until 300 were raised. The handler raises wherever it may, and never in a block."""
    armed = inside = False
    raised, wrong = 0, 0

    def handle(number, frame):
        nonlocal armed, raised, wrong
        wrong += inside
        if armed:
            armed, raised = False, raised + 1
            raise Interrupted

    def send():
        while raised < 300:
            signal.raise_signal(signal.SIGUSR1)
            time.sleep(5e-5)

    def enter_and_leave():
        nonlocal armed, inside
        armed = True
        while sender.is_alive():
            with first_use.first_use():
                inside = True
                time.sleep(1e-5)
                inside = False
        armed = False

    before, sender = signal.signal(signal.SIGUSR1, handle), threading.Thread(target=send)
    sender.start()
    while sender.is_alive():
        with contextlib.suppress(Interrupted):
            enter_and_leave()
    assert signal.signal(signal.SIGUSR1, before) is handle
    assert wrong == 0
    assert (first_use._handlers, first_use._arrived, first_use._thread.inside) == ({}, {}, False)


def test_a_stopwatch_tells_first_uses_apart():
    start = time.perf_counter()
    elapsed = first_use.stopwatch()
    with first_use.first_use():
        time.sleep(0.05)
    seconds, inside = elapsed()
    assert inside >= 0.05
    assert 0 <= seconds <= time.perf_counter() - start - inside


def test_a_library_whose_import_fails_is_imported_anew(tmp_path, monkeypatch):
    """An import that fails, as for want of memory, may leave modules half made."""
    (tmp_path / "halfmade").mkdir()
    (tmp_path / "halfmade" / "__init__.py").write_text("from . import registry\nregistry.fill()\n")
    (tmp_path / "halfmade" / "registry.py").write_text(
        "import math\nentries = []\n"
        "def fill():\n    entries.append(1)\n    if not hasattr(math, 'memory'):\n        raise MemoryError\n"
        "    entries.append(2)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MemoryError):
        first_use.load("halfmade")
    assert not [name for name in sys.modules if name.startswith("halfmade")]
    monkeypatch.setattr(math, "memory", True, raising=False)
    assert first_use.load("halfmade").registry.entries == [1, 2]
    for name in ("halfmade", "halfmade.registry"):
        del sys.modules[name]


CALLS = """
import signal, sys
import numpy as np
import minitorch_backends as mt

rng = np.random.default_rng(0)
a, w, x = (rng.standard_normal(shape).astype("f4") for shape in ((96, 96), (4, 4, 3, 3), (2, 4, 12, 12)))
a += 10 * np.eye(96, dtype="f4")
A, X, W = map(mt.from_numpy, (a, x, w))
windows = np.lib.stride_tricks.sliding_window_view(x.astype("f8"), (3, 3), (2, 3))
calls = {
    "product": (lambda: mt.matmul(A, A, precision="tf32"), a.astype("f8") @ a, 0.3),
    "convolution": (lambda: mt.nn.functional.conv2d(X, W), np.einsum("ncijuv,ocuv->noij", windows, w), 1e-4),
    "solve": (lambda: mt.linalg.solve(A, A), np.eye(96), 1e-4),
}
def right(name):
    compute, expected, tolerance = calls[name]
    return bool(abs(compute().numpy() - expected).max() < tolerance)
"""

INTERRUPTED = """
class Interrupted(BaseException): pass
raised = 0
def interrupt(*_):
    # Raises inside of the call, and not between two calls, where nothing would catch it.
    global raised
    frame = sys._getframe()
    while frame is not None and frame.f_code is not right.__code__:
        frame = frame.f_back
    if frame is None:
        return
    raised += 1
    raise (Interrupted, KeyboardInterrupt, MemoryError)[raised % 3]
signal.signal(signal.SIGALRM, interrupt)
period = 0.01  # of first uses, most take longer
for name in sys.argv[1:]:
    while True:
        try:
            signal.setitimer(signal.ITIMER_REAL, period, period)
            answer = right(name)
            signal.setitimer(signal.ITIMER_REAL, 0)
            break
        except (Interrupted, KeyboardInterrupt, MemoryError):
            pass
    print(name, answer)
print(raised >= 4)
"""


@pytest.mark.parametrize(("compiled", "names"), [(True, ["product", "convolution", "solve"]), (False, ["product"])])
def test_interrupts_at_any_moment_of_first_calls(tmp_path, compiled, names):
    """A handler raises again and again while Numba is imported and code compiled, or loaded from files."""
    folder = os.environ.get("MINITORCH_CACHE_DIR") if compiled else str(tmp_path)
    code = f"import sys\nsys.argv = {['', *names]}\n" + CALLS + INTERRUPTED
    printed = python(code, **({"MINITORCH_CACHE_DIR": folder} if folder else {}))
    assert printed.out.splitlines() == [*(f"{name} True" for name in names), "True"], printed.error


FORKED = """
import os, threading, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of any fork with threads
def first_calls():
    for name in calls:
        right(name)
thread = threading.Thread(target=first_calls)
thread.start()
children = []
while thread.is_alive() and len(children) < 3:
    time.sleep(0.1)
    child = os.fork()
    if child == 0:
        signal.alarm(100)
        os._exit(0 if all(map(right, calls)) else 1)
    children.append(child)
thread.join()
print(len(children) > 1, {os.waitpid(child, 0)[1] for child in children})
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forks_at_any_moment_of_first_calls_of_another_thread():
    """The children make the same calls: what the thread was importing, compiling or locking is of use to them."""
    folder = os.environ.get("MINITORCH_CACHE_DIR")
    printed = python(CALLS + FORKED, **({"MINITORCH_CACHE_DIR": folder} if folder else {}))
    assert printed.out == "True {0}\n", printed.error


CALLING_BLAS = """
import os, threading, time, warnings
import numpy as np
import minitorch_backends as mt
from minitorch_backends.kernels import gemm, linalg

warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of any fork with threads
a = np.random.default_rng(0).standard_normal((128, 128)).astype("f4")
calls = {
    "lapack": lambda: linalg.contract.solve["lapack"](a, a),
    "blas": lambda: gemm.matmul["blas"](a, a),
}
for name, call in calls.items():
    call()
    done, stopped = 0, threading.Event()
    def keep_calling():
        global done
        while not stopped.is_set():
            call()
            done += 1
    thread = threading.Thread(target=keep_calling)
    thread.start()
    for _ in range(30):
        time.sleep(0.005)
        child, before = os.fork(), done
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        while done < before + 2:
            time.sleep(0.001)
    stopped.set()
    thread.join()
    print(name, "goes on")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forks_while_another_thread_calls_blas():
    """OpenBLAS ends its threads at a fork: a call that waits for them in another thread would never return."""
    printed = python(CALLING_BLAS)
    assert printed.out == "lapack goes on\nblas goes on\n", printed.error


OUT_OF_ADDRESSES = """
import pathlib, resource
import minitorch_backends as mt
x, limits = mt.ones(3, 3), resource.getrlimit(resource.RLIMIT_AS)
used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 26), limits[1]))
calls = lambda: mt.ones(300, 300).softmax(1).shape, lambda: x.erfinv().shape
for call in calls:
    try:
        call()
    except MemoryError:
        print("short of memory")
resource.setrlimit(resource.RLIMIT_AS, limits)
print((x @ x).tolist() == [[3.0] * 3] * 3, *(call() for call in calls))
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs Linux, which counts addresses in use")
def test_a_limit_of_addresses_is_an_error_that_passes() -> None:
    """64 MB are enough for tensors, and too little for LLVM and for SciPy, whose BLAS asks for memory without end."""
    expected = "short of memory\nshort of memory\nTrue mt.Size([300, 300]) mt.Size([3, 3])\n"
    assert python(OUT_OF_ADDRESSES) == (expected, "")


def test_subinterpreters_are_refused_and_leave_the_process_alone() -> None:
    program = """
        try:
            import _interpreters as interpreters
            run = interpreters.exec
        except ImportError:
            import _xxsubinterpreters as interpreters
            run = interpreters.run_string
        code = "try: import minitorch_backends\\nexcept ImportError as error: print(error)\\nelse: print('imported')"
        run(interpreters.create(), code)
        import minitorch_backends as mt
        run(interpreters.create(), code)
        print((mt.ones(2, 2) @ mt.ones(2, 2)).sum().item())
    """
    found = python(textwrap.dedent(program)).out.splitlines()
    assert found[-1] == "8.0"
    assert [line.split(";")[0] for line in found[:-1]] == [
        "import minitorch_backends: the interpreter must be the main one of its process, got a subinterpreter"
    ] * 2


def test_the_package_can_be_imported_again():
    """As notebooks and test runners do that drop modules: values of the first import stay usable."""
    code = """
import importlib, sys
import minitorch_backends as mt
x = mt.ones(30, 30)
mt.nn.functional.softmax(x @ x, -1)
for name in [name for name in sys.modules if name.partition(".")[0] == "minitorch_backends"]:
    del sys.modules[name]
import minitorch_backends as again
y = again.ones(30, 30, requires_grad=True)
again.nn.functional.softmax(y @ y, -1).sum().backward()
importlib.reload(again)
print(again is not mt, y.grad.shape == (30, 30), (x @ x)[0, 0].item(), again.ones(2).sum().item())
"""
    assert python(code) == ("True True 30.0 2.0\n", "")
