"""The compiler's settings: options of kernels, and the CPU that is compiled for."""

import os
import subprocess
import sys

import pytest

from minitorch_backends.kernels.runtime import cpu, jit


def run(script, **environment):
    """The lines that a fresh interpreter prints."""
    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.splitlines()


def test_the_users_numba_is_left_alone(tmp_path):
    """Its cache folder is another one, and its functions compile with its own options."""
    (tmp_path / "mine.py").write_text("import numba\n\n@numba.njit(cache=True)\ndef f(x):\n    return x + 1\n")
    script = (
        "import numba\n"
        "from minitorch_backends.kernels.runtime import compiler\n"
        "import mine; mine.f(1); print(mine.f.stats.cache_path); print(repr(numba.config.CACHE_DIR))\n"
    )
    path, setting = run(script, PYTHONPATH=str(tmp_path), MINITORCH_CACHE_DIR=str(tmp_path / "ours"))
    assert path == str(tmp_path / "__pycache__")
    assert setting == "''"


def test_defaults_and_overrides():
    def double(x):
        return x / 2

    options = jit.njit(double).options
    assert {"nogil": True, "error_model": "numpy"}.items() <= options.items()
    assert "fastmath" not in options
    assert jit.njit(nogil=False)(double).options["nogil"] is False
    assert jit.njit(double)(1.0) == 0.5


def test_a_subroutine_is_machine_code_only_with_its_callers():
    twice = jit.subroutine(lambda x: 2 * x)
    assert not callable(twice)
    assert jit.njit(cache=False)(lambda x: twice(twice(x)))(3) == 12


CODE = """
import numpy as np
from minitorch_backends.kernels.runtime import compiler, native, targets
from minitorch_backends.kernels.precisions import parts
parts.round_to(np.ones(3, np.float32), 'bf16')
module = compiler.entry_module(parts._round_array, *parts._round_array.signatures)
code = str(native.target_machine(*targets.target()).emit_assembly(module))
print(*(register for register in ('xmm', 'ymm', 'zmm') if register in code))
"""
"""Prints which registers the loops of a rounding use."""


@pytest.mark.skipif(cpu.detect() == "portable", reason="this CPU has one level only")
@pytest.mark.parametrize("level", cpu.LEVELS[: cpu.LEVELS.index(cpu.detect())])
def test_the_compiler_is_capped(level, tmp_path):
    """This holds where Numba was loaded before, and leaves no trace in the environment of child processes."""
    code = (
        f"import numba, os\nnumba.njit(lambda x: x)(1)\n{CODE}print(*(name for name in os.environ if 'NUMBA' in name))"
    )
    registers, left = run(code, MINITORCH_CPU_CAPABILITY=level, MINITORCH_CACHE_DIR=str(tmp_path))
    assert ("ymm" in registers) == (level != "portable")
    assert level.startswith("avx512") or "zmm" not in registers
    assert left == ""


USERS = {
    "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_ENABLE_AVX": "0", "NUMBA_OPT": "0",
    "NUMBA_LOOP_VECTORIZE": "0", "NUMBA_BOUNDSCHECK": "1", "NUMBA_DEBUGINFO": "1", "NUMBA_DISABLE_JIT": "1",
    "NUMBA_NUM_THREADS": "0", "NUMBA_CACHE_DIR": "/nowhere",
}  # fmt: skip
"""Settings of Numba with which kernels would be slow, abort in LLVM, or not be compiled at all."""


@pytest.mark.skipif(cpu.capability() == "portable", reason="the loops use the same registers as the user's")
def test_a_users_settings_hold_for_the_users_functions_alone(tmp_path):
    code = f"""{CODE}
import numba
function = lambda x: x
print(numba.njit(function) is function, int(numba.config.OPT), numba.config.BOUNDSCHECK, numba.config.CPU_NAME)
numba.config.DISABLE_JIT = 0
double = numba.njit(lambda x: 2 * x)
double(1.0)
print(double.targetctx.codegen().magic_tuple()[1])
"""
    registers, settings, target = run(code, MINITORCH_CACHE_DIR=str(tmp_path), **USERS)
    assert "ymm" in registers
    assert settings == "True 0 1 generic"
    assert target == "generic"


def test_a_users_functions_compute_the_same_before_and_after_kernels_compile(tmp_path):
    """Kernels compile functions of Numba that a user's functions call as well, such as `min`, in a way of their own."""
    code = f"""
import numba
def mixed(x, n):
    total = min(len(x), n) + max(n, 3) + abs(int(x[1])) + round(x[2]) + divmod(n, 3)[1] + sum(x)
    return [total, min(x[0], 1.0), max(x[0], x[1])], "a" + str(n)
def use():
    x = np.linspace(-1.5, 2, 5)
    try:
        checked = numba.njit(boundscheck=True)(lambda x, i: x[i])(x, 9)
    except IndexError:
        checked = "IndexError"
    return mixed(x, 2), numba.njit(mixed)(x, 2), checked
import numpy as np
before = use()
{CODE}
import minitorch_backends as mt
mt.sort(mt.rand(8, 300, dtype=mt.float64)), mt.cummax(mt.rand(8, 300), 1)
print(use() == before, before[0] == before[1], before[2])
"""
    assert run(code, MINITORCH_CACHE_DIR=str(tmp_path))[-1] == "True True IndexError"
