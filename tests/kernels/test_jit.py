"""The compiler's settings: what is kept between processes and where, and the CPU that is compiled for."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import llvmlite.binding.ffi
import numba
import numpy as np
import pytest

from minitorch_backends.kernels import cpu, jit

ROUND = """
import numpy as np
from minitorch_backends.kernels import jit, rounding
print(rounding.round_to(np.full(3, 1 / 3, np.float32), "bf16")[0].item())
stats = rounding._round_array.stats
print(sum(stats.cache_misses.values()), sum(stats.cache_hits.values()), jit.cache_folder())
"""


def run(script, **environment):
    """The lines that a fresh interpreter prints."""
    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.splitlines()


def test_a_second_process_compiles_nothing_and_writes_nothing(tmp_path):
    def files():
        return {path: path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()}

    value, counts = run(ROUND, MINITORCH_CACHE_DIR=str(tmp_path))
    assert (float(value), counts.split()[:2]) == (0.333984375, ["1", "0"])
    written = files()
    assert any(path.suffix == ".nbc" for path in written)
    value, counts = run(ROUND, MINITORCH_CACHE_DIR=str(tmp_path))
    assert (float(value), counts.split()[:2]) == (0.333984375, ["0", "1"])
    assert files() == written


VERSIONS = """
import os
from minitorch_backends.kernels import cpu, jit
for level in cpu.LEVELS:
    for asked in "01":
        os.environ.update({cpu.VARIABLE: level, cpu.EMULATION: asked})
        for kept in (cpu.capability, cpu.detected, cpu.emulated, cpu._asked_to_emulate):
            kept.cache_clear()
        print(cpu.capability(), cpu.emulated("amx"), jit._version())
"""


def test_what_is_compiled_for_other_instructions_is_kept_apart():
    """Code depends on them where LLVM compiles for the same CPU, as it does where software stands for the rest."""
    found, again = (run(VERSIONS, PYTHONHASHSEED=seed) for seed in "12")
    assert found == again
    kinds, versions = zip(*(line.rsplit(" ", 1) for line in found), strict=True)
    assert len(set(kinds)) == len(set(versions))


TYPES = (np.int8, np.int16, np.float32, np.float64)
AT_ONCE = """
import sys
import numpy as np
from minitorch_backends.kernels import jit

@jit.njit
def same(x):
    return x

kept = same._cache._cache_file
print(len(kept._load_index()), flush=True)
input()
same(getattr(np, sys.argv[1])(1))
"""


def test_processes_that_compile_at_once_lose_nothing_of_each_other(tmp_path):
    """All save the same function, each for another type."""
    (tmp_path / "script.py").write_text(AT_ONCE)
    kinds = [kind.__name__ for kind in TYPES]
    environment = {**os.environ, "MINITORCH_CACHE_DIR": str(tmp_path / "cache")}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    processes = [subprocess.Popen([sys.executable, tmp_path / "script.py", kind], **pipes) for kind in kinds]
    assert [process.stdout.readline() for process in processes] == ["0\n"] * len(kinds)
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.wait() for process in processes] == [0] * len(kinds)
    for process in processes:
        process.stdout.close()
        process.stdin.close()
    files = [path.name for path in (tmp_path / "cache").rglob("*.nbc")]
    assert len(files) == len(kinds)
    last = subprocess.run([sys.executable, tmp_path / "script.py", "int8"], input="\n", capture_output=True, text=True,
                          env=environment, check=True)  # fmt: skip
    assert last.stdout == f"{len(kinds)}\n"


@pytest.mark.parametrize(("suffix", "damage"), [
    (".nbi", lambda content: b""), (".nbi", lambda content: content[:20]), (".nbc", lambda content: content[:2000]),
    (".nbc", lambda content: content[:1000] + b"\0" * 64 + content[1064:]),
])  # fmt: skip
def test_damaged_code_is_compiled_again(suffix, damage):
    def same(x):
        return x

    index = Path(jit.njit(same)._cache._cache_file._index_path)
    for compiled in (1, 0, 1, 0):
        anew = jit.njit(same)  # reads what the one before saved
        assert anew(3) == 3
        assert (len(anew.stats.cache_misses), len(anew.stats.cache_hits)) == (compiled, 1 - compiled)
        if not compiled:
            for path in index.parent.glob(f"{index.stem}*{suffix}"):
                path.write_bytes(damage(path.read_bytes()))
    for path in index.parent.glob(f"{index.stem}*"):
        path.unlink()


def test_code_that_cannot_be_kept_is_used_all_the_same(monkeypatch):
    @jit.njit
    def same(x):
        return x

    def full(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(same._cache._cache_file, "_open_for_write", full)
    with pytest.warns(RuntimeWarning, match=r"cannot be kept in .* No space left on device; set MINITORCH_CACHE_DIR"):
        assert same(3) == 3
    assert same(4) == 4


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


def test_every_file_has_a_name_of_its_own():
    @jit.njit
    def same(x):
        return x

    kept = same._cache._cache_file
    names = {kept._data_name(1), kept._data_name(1)}
    pid = os.fork()
    if pid == 0:
        (jit.cache_folder() / "name of a child").write_text(kept._data_name(1))
        os._exit(0)
    os.waitpid(pid, 0)
    names.add((jit.cache_folder() / "name of a child").read_text())
    (jit.cache_folder() / "name of a child").unlink()
    assert len(names) == 3


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_write_permission_is_replaced_by_a_temporary_one(tmp_path):
    tmp_path.chmod(0o500)
    folder = Path(run(ROUND, MINITORCH_CACHE_DIR=str(tmp_path))[1].split()[2])
    assert tmp_path not in folder.parents
    assert not folder.exists()


def test_an_impossible_folder_is_replaced_by_a_temporary_one(tmp_path):
    (tmp_path / "file").touch()
    folder = Path(run(ROUND, MINITORCH_CACHE_DIR=str(tmp_path / "file"))[1].split()[2])
    assert tmp_path not in folder.parents
    assert not folder.exists(), "the temporary folder goes with its process"


def test_folders_of_other_versions_go_when_nobody_uses_them(tmp_path):
    own = tmp_path / ("0" * 20)
    own.mkdir()
    others = []
    for age in range(jit.FOLDERS_KEPT + 3):
        others.append(tmp_path / f"{age + 1:020}")
        others[-1].mkdir()
        used = time.time() - 600 - age * 2 * 3600  # the newest was used ten minutes ago, the next two hours before
        os.utime(others[-1], (used, used))
    (tmp_path / "somebody's file").touch()
    jit._prune(tmp_path, own)
    assert sorted(tmp_path.iterdir()) == sorted([own, *others[: jit.FOLDERS_KEPT], tmp_path / "somebody's file"])


def test_folders_in_use_stay(tmp_path):
    folders = [tmp_path / f"{i:020}" for i in range(jit.FOLDERS_KEPT + 4)]
    for folder in folders:
        folder.mkdir()
    jit._prune(tmp_path, folders[0])
    assert sorted(tmp_path.iterdir()) == folders


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
