"""The compiler's settings: options of kernels, and the CPU that is compiled for."""

import os
import signal
import subprocess
import sys
import threading

import llvmlite.binding.ffi
import numba
import pytest

from minitorch_backends.kernels import cpu, jit


def run(script, **environment):
    """The lines that a fresh interpreter prints."""
    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.splitlines()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_compiles_whatever_its_parent_was_compiling():
    """The lock of the compiler is open in it."""

    @jit.njit
    def same(x):
        return x

    held, done = threading.Event(), threading.Event()

    def compile_for_long():
        with numba.core.compiler_lock.global_compiler_lock, llvmlite.binding.ffi.lib._lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=compile_for_long)
    thread.start()
    held.wait()
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        os._exit(0 if same(3) == 3 else 1)
    assert os.waitpid(pid, 0)[1] == 0
    done.set()
    thread.join()


def test_the_users_numba_is_left_alone(tmp_path):
    """Its cache folder is another one, and its functions compile with its own options."""
    (tmp_path / "mine.py").write_text("import numba\n\n@numba.njit(cache=True)\ndef f(x):\n    return x + 1\n")
    script = (
        "import numba\n"
        "from minitorch_backends.kernels import rounding\n"
        "import mine; mine.f(1); print(mine.f.stats.cache_path); print(repr(numba.config.CACHE_DIR))\n"
    )
    path, setting = run(script, PYTHONPATH=str(tmp_path), MINITORCH_CACHE_DIR=str(tmp_path / "ours"))
    assert path == str(tmp_path / "__pycache__")
    assert setting == "''"


def test_defaults_and_overrides():
    def double(x):
        return x / 2

    options = jit.njit(double).targetoptions
    assert {"nogil": True, "error_model": "numpy"}.items() <= options.items()
    assert "fastmath" not in options
    assert jit.njit(nogil=False)(double).targetoptions["nogil"] is False
    assert jit.njit(double)(1.0) == 0.5


def test_a_subroutine_is_machine_code_only_with_its_callers():
    def twice(x):
        return 2 * x

    def entry(decorated):
        decorated.compile((jit.types.int64,))
        (compiled,) = decorated.overloads.values()
        engine = compiled.target_context.codegen()._engine
        return engine.is_symbol_defined(compiled.fndesc.mangled_name), decorated

    assert entry(jit.njit(cache=False)(twice))[0]
    defined, subroutine = entry(jit.subroutine(twice))
    assert not defined
    assert jit.njit(cache=False)(lambda x: subroutine(subroutine(x)))(3) == 12


@pytest.mark.skipif(cpu.detected() == "portable", reason="this CPU has one level only")
@pytest.mark.parametrize("level", cpu.LEVELS[: cpu.LEVELS.index(cpu.detected())])
def test_the_compiler_is_capped(level, tmp_path):
    script = (
        "import numpy as np\nfrom minitorch_backends.kernels import rounding\n"
        "rounding.round_to(np.ones(3, np.float32), 'bf16')\n"
        "code, = rounding._round_array.inspect_asm().values()\n"
        "print(*(register for register in ('xmm', 'ymm', 'zmm') if register in code))\n"
    )
    registers = run(script, MINITORCH_CPU_CAPABILITY=level, MINITORCH_CACHE_DIR=str(tmp_path))[0].split()
    assert ("ymm" in registers) == (level != "portable")
    assert level.startswith("avx512") or "zmm" not in registers


@pytest.mark.skipif(cpu.detected() == "portable", reason="this CPU has one level only")
@pytest.mark.parametrize("first", ["kernels.launch", "kernels.selection_loops", "verbose"])
def test_the_target_is_capped_whatever_loads_the_compiler(first):
    """Also where the environment asks for traces, which listen to the compiler from the import on."""
    script = f"import os, minitorch_backends.{first}\nprint(os.environ.get('NUMBA_CPU_NAME'))"
    traced = {"ONEDNN_VERBOSE": "1"} if first == "verbose" else {}
    assert run(script, MINITORCH_CPU_CAPABILITY="portable", **traced) == ["x86-64"]


def test_a_users_choice_of_target_stands():
    script = (
        "from minitorch_backends.kernels import jit\n"
        "import os; print(os.environ['NUMBA_CPU_NAME'], os.environ.get('NUMBA_CPU_FEATURES'))"
    )
    users = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "+sse4.1"}
    assert run(script, MINITORCH_CPU_CAPABILITY="portable", **users) == ["generic +sse4.1"]


@pytest.mark.skipif(cpu.detected() == "portable", reason="this CPU has one level only")
@pytest.mark.parametrize(("level", "expected"), [("portable", "x86-64"), ("amx", None)])
def test_a_child_process_may_have_another_capability(level, expected):
    script = "from minitorch_backends.kernels import jit\nimport os; print(os.environ.get('NUMBA_CPU_NAME'))"
    inherited = {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": ""}
    assert run(script, MINITORCH_CPU_CAPABILITY=level, **inherited) == [str(expected)]
