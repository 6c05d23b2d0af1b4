"""Kernels choose: in order, by refusals before and while running, within the capability, in the sight of observers."""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from minitorch_backends import explain
from minitorch_backends.kernels import registry
from minitorch_backends.kernels.gemm import matmul
from minitorch_backends.kernels.registry import ArraySpec, Kernel, Refused, kernels, observe
from minitorch_backends.kernels.runtime import cpu
from minitorch_backends.kernels.runtime.first_use import first_use


@pytest.fixture
def scale():
    """A kernel that says which of its implementations ran: `narrow` takes up to 3 values, none of them negative."""
    kernel = Kernel("scale", reference=lambda x: x, bound={})

    def too_many(x, factor=1):
        return f"takes 3 values, not {x.shape[0]}" if x.shape[0] > 3 else None

    @kernel.impl("narrow", refuses=too_many)
    def narrow(x, *, factor=1):
        if (x < 0).any():
            raise Refused("a value is negative")
        return "narrow", factor

    @kernel.impl("fussy", refuses=lambda x, factor=1: "takes whole factors" if factor % 1 else None)
    def fussy(x, *, factor=1):
        return "fussy", factor

    @kernel.impl("portable")
    def portable(x, *, factor=1):
        return "portable", factor

    yield kernel
    del kernels["scale"]


def test_the_first_that_does_not_refuse_runs(scale):
    assert scale(np.ones(3)) == ("narrow", 1)
    assert scale(np.ones(4)) == ("fussy", 1)
    assert scale(np.ones(4), factor=0.5) == ("portable", 0.5)
    assert scale(np.ones(3), factor=0.5) == ("narrow", 0.5)
    assert list(scale.implementations) == ["narrow", "fussy", "portable"]
    assert kernels["scale"] is scale
    assert repr(scale) == "<kernel scale: narrow, fussy, portable>"


def test_data_that_is_refused_falls_through(scale):
    assert scale(-np.ones(3)) == ("fussy", 1)
    assert scale(-np.ones(3), factor=0.5) == ("portable", 0.5)
    assert scale(np.ones(3)) == ("narrow", 1), "a refusal of data does not refuse the signature"


def test_data_is_offered_once(scale):
    offered = []

    @scale.impl("last")
    def last(x, *, factor=1):
        raise AssertionError("never needed")

    narrow = scale.implementations["narrow"]
    scale.implementations["narrow"] = narrow._replace(run=lambda x, **k: offered.append(x) or narrow.run(x, **k))
    x = -np.ones(3)
    assert scale(x) == ("fussy", 1)
    assert len(offered) == 1


def test_decisions_say_who_refused_and_why(scale):
    decision = scale.decide(np.ones(4), factor=0.5)
    assert [candidate.name for candidate in decision.candidates] == ["portable"]
    assert decision.refusals == (("narrow", "takes 3 values, not 4"), ("fussy", "takes whole factors"))
    assert scale.decide(ArraySpec((4,), np.dtype(float)), factor=0.5) == decision
    assert ArraySpec((4, 2), np.dtype(float)).ndim == 2


def test_a_verdict_is_computed_once_for_a_signature():
    asked = []
    kernel = Kernel("once", reference=None, bound={})
    try:
        kernel.impl("only", refuses=lambda *specs, **keywords: asked.append((specs, keywords)))(lambda *a, **k: None)
        for _ in range(3):
            kernel(np.ones(2), np.ones(3))
            kernel(np.ones(2), np.ones(3), flag=1)
            kernel(np.ones(2))
            kernel(np.ones((2, 1)), np.ones(3))
            kernel(np.ones(2, np.float32), np.ones(3))
        assert len(asked) == 5
        kernel.impl("another")(lambda *a, **k: None)
        kernel(np.ones(2))
        assert len(asked) == 6, "a new implementation makes every verdict void"
    finally:
        del kernels["once"]


def test_verdicts_that_are_kept_are_limited(scale):
    scale.decisions_kept = 10
    for size in range(40):
        assert scale(np.ones(size))[0] == ("narrow" if size <= 3 else "fussy")
    assert len(scale._decisions) == 10
    assert scale(np.ones(0)) == ("narrow", 1)


def test_threads_may_all_decide_at_once(scale):
    scale.decisions_kept = 5
    interval, failures = sys.getswitchinterval(), []

    def work(seed):
        try:
            for size in np.random.default_rng(seed).integers(0, 30, 2000):
                assert scale(np.ones(size))[0] == ("narrow" if size <= 3 else "fussy")
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    try:
        sys.setswitchinterval(1e-6)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failures
    assert len(scale._decisions) <= 5


def test_the_short_way_of_a_signature_is_found_once_and_gets_the_arrays_alone(monkeypatch):
    monkeypatch.setattr(registry, "kernels", {})
    kernel, asked = Kernel("shortened", reference=np.asarray, bound={}), []

    def specialise(x, factor=1):
        asked.append((x.shape, factor))
        return (lambda x: ("short", factor)) if factor > 1 else None

    kernel.impl("only", specialise=specialise)(lambda x, factor=1: ("long", factor))
    x = np.ones(3)
    assert [kernel(x, factor=2), kernel(x, factor=3), kernel(x, factor=2), kernel(x)] == [
        ("short", 2),
        ("short", 3),
        ("short", 2),
        ("long", 1),
    ]
    assert asked == [((3,), 2), ((3,), 3), ((3,), 1)]
    with observe(lambda call: None):
        assert kernel(x, factor=2) == ("long", 2)


def test_by_name(scale):
    assert scale["fussy"](np.ones(2)) == ("fussy", 1)
    with pytest.raises(Refused, match=r"scale\['narrow'\] refuses: takes 3 values, not 4"):
        scale["narrow"](np.ones(4))
    with pytest.raises(Refused, match="a value is negative"):
        scale["narrow"](-np.ones(2))
    with pytest.raises(KeyError, match="scale has no implementation 'wide'; it has: narrow, fussy, portable"):
        scale["wide"]


def test_declarations_are_checked(scale):
    with pytest.raises(ValueError, match="scale has an implementation 'fussy' already"):
        scale.impl("fussy")
    with pytest.raises(ValueError, match="'avx9' is not a CPU capability; expected None or one of portable, avx2"):
        scale.impl("fast", isa="avx9")
    assert list(scale.implementations) == ["narrow", "fussy", "portable"]


def test_nothing_ran():
    kernel = Kernel("hopeless", reference=None, bound={})
    try:
        with pytest.raises(RuntimeError, match=r"no implementation of hopeless takes \(float64\[2\]\)"):
            kernel(np.ones(2))
        kernel.impl("picky", refuses=lambda x: "not today")(lambda x: x)

        @kernel.impl("fickle")
        def fickle(x):
            raise Refused("nor this value")

        with pytest.raises(RuntimeError, match=r"picky: not today; fickle: nor this value$"):
            kernel(np.ones(2))
    finally:
        del kernels["hopeless"]


def test_other_exceptions_pass(scale):
    @scale.impl("broken")
    def break_down(x, *, factor=1):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        scale["broken"](np.ones(1))
    scale.implementations.pop("portable")
    with pytest.raises(ZeroDivisionError):
        scale(np.ones(4), factor=0.5)


def test_observers_are_told(scale):
    calls, start = [], time.perf_counter()
    with observe(calls.append):
        scale(np.ones(2, np.float32), factor=2, decided_by="a flag")
        scale(-np.ones(3), factor=0.5)
        with pytest.raises(KeyError):
            scale["wide"]
    scale(np.ones(2))
    first, second = calls
    assert first[:7] == ("scale", ((2,),), ("float32",), {"factor": 2}, "narrow", (), "a flag")
    assert 0 <= first.seconds <= time.perf_counter() - start
    assert second.implementation == "portable"
    assert second.refusals == (("fussy", "takes whole factors"), ("narrow", "a value is negative"))
    assert second.decided_by is None


def test_the_seconds_of_compiling_are_told_apart(scale):
    @scale.impl("compiled")
    def compile_slowly(x, *, factor=1):
        with first_use():
            time.sleep(0.05)

    start = time.perf_counter()
    with explain.record() as log:
        scale(np.ones(1), prefer="compiled")
        scale(np.ones(1))
    first, second = log
    assert first.compiled >= 0.05
    assert first.seconds <= time.perf_counter() - start - first.compiled
    assert second.compiled == 0
    assert explain.diff([first], [first._replace(seconds=0.0, compiled=0.0)]) is None


def test_observers_nest_and_see_their_own_thread(scale):
    outer, inner = [], []
    with observe(outer.append):
        with observe(inner.append):
            scale(np.ones(1))
            thread = threading.Thread(target=scale, args=(np.ones(1),))
            thread.start()
            thread.join()
        scale(np.ones(1))
    assert (len(outer), len(inner)) == (2, 1)


def test_an_observer_of_everything_sees_every_thread(scale, monkeypatch):
    monkeypatch.setattr(registry, "_everywhere", [])
    calls = []
    registry.observe_everywhere(calls.append)
    scale(np.ones(1))
    thread = threading.Thread(target=scale, args=(np.ones(1),))
    thread.start()
    thread.join()
    with observe(calls.append):
        scale(np.ones(1))
    assert len(calls) == 4
    assert calls[0].result == ("narrow", 1)


def test_a_preferred_implementation_is_asked_first(scale):
    calls = []
    assert scale(np.ones(3), prefer="portable") == ("portable", 1)
    assert scale(np.ones(3)) == ("narrow", 1)
    assert scale(np.ones(3), prefer="fussy", factor=0.5) == ("narrow", 0.5), "it refuses"
    with observe(calls.append):
        scale(np.ones(4), prefer="fussy")
        scale(np.ones(4))
    assert [(call.implementation, call.prefer, call.refusals) for call in calls] == [
        ("fussy", "fussy", (("narrow", "takes 3 values, not 4"),)),
        ("fussy", None, (("narrow", "takes 3 values, not 4"),)),
    ]
    decision = scale.decide(np.ones(3), prefer="portable")
    assert [each.name for each in decision.candidates] == ["portable", "narrow", "fussy"]


def test_an_observer_that_fails_is_removed(scale):
    def fail(call):
        raise LookupError(call.kernel)

    with pytest.raises(LookupError, match="scale"), observe(fail):
        scale(np.ones(1))
    assert scale(np.ones(1)) == ("narrow", 1)


def run(script, **environment):
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})


CAPPED = """
import numpy as np
from minitorch_backends.kernels.runtime import cpu
from minitorch_backends.kernels.gemm import matmul
a = np.eye(40, dtype=np.float32)
matmul.impl("beyond", isa="amx")(None)
refusals = dict(matmul.decide(a, a, precision="bf16").refusals)
print(cpu.capability(), (matmul(a, a, precision="bf16") == a).all(), refusals.get("beyond"), sep="|")
"""


@pytest.mark.parametrize("level", cpu.LEVELS)
def test_the_capability_is_capped(level):
    finished = run(CAPPED, **{cpu.VARIABLE: level.upper()})
    assert finished.returncode == 0, finished.stderr
    capability, right, refusal = finished.stdout.strip().split("|")
    assert capability == min(level, cpu.detect(), key=cpu.LEVELS.index)
    assert right == "True"
    if capability != "amx":
        expected = f"needs amx, and the CPU capability in force is {capability} (CPU and {cpu.VARIABLE})"
        assert refusal == expected
    else:
        assert refusal == "None"


def test_an_unknown_capability_is_an_error_that_lists_them():
    finished = run(CAPPED, **{cpu.VARIABLE: "sse9"})
    assert finished.returncode == 1
    levels = ", ".join(cpu.LEVELS)
    expected = f"MINITORCH_CPU_CAPABILITY='sse9' is not a CPU capability; expected one of {levels}"
    assert expected in finished.stderr


def test_no_implementation_runs_beyond_the_capability():
    for name, implementation in matmul.implementations.items():
        if cpu.refusal(implementation.isa):
            with pytest.raises(Refused, match="the CPU capability in force"):
                matmul[name](np.ones((2, 2), np.float32), np.ones((2, 2), np.float32))


def test_idle_threads_of_other_libraries_are_told_to_sleep():
    """Only before they are loaded, and not over the user's own choice."""
    load = (
        "import importlib.util as u, os, sys; s = u.spec_from_file_location('e', sys.argv[1]);"
        "e = u.module_from_spec(s); s.loader.exec_module(e); assert 'numpy' not in sys.modules;"
    )
    path = os.path.join(os.path.dirname(cpu.__file__), "idle_threads.py")

    def run_script(script, **environment):
        settings = "OPENBLAS_THREAD_TIMEOUT", "GOMP_SPINCOUNT", "OMP_WAIT_POLICY"
        clean = {name: value for name, value in os.environ.items() if name not in settings}
        says = "print(*e.stop_spinning(), *map(os.environ.get, e.SETTINGS))"
        command = [sys.executable, "-c", load + script + says, path]
        finished = subprocess.run(command, capture_output=True, text=True, check=True, env={**clean, **environment})
        return finished.stdout.split()

    assert run_script("") == ["OPENBLAS_THREAD_TIMEOUT", "GOMP_SPINCOUNT", "4", "10000"]
    assert run_script("import numpy;") == ["GOMP_SPINCOUNT", "None", "10000"]
    assert run_script("sys.modules['torch'] = os;") == ["OPENBLAS_THREAD_TIMEOUT", "4", "None"]
    assert run_script("", OPENBLAS_THREAD_TIMEOUT="20") == ["GOMP_SPINCOUNT", "20", "10000"]
    assert run_script("", OMP_WAIT_POLICY="active") == ["OPENBLAS_THREAD_TIMEOUT", "4", "None"]
