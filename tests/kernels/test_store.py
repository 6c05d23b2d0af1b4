"""Compiled code that is kept between processes: what a file depends on, where files lie, what is never run."""

import dataclasses
import errno
import grp
import os
import pwd
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

from minitorch_backends.kernels.arrays.sums import loops, vectors
from minitorch_backends.kernels.block import sources
from minitorch_backends.kernels.runtime import archive, files, jit, native, store

ROUND = """
import numpy as np
from minitorch_backends.kernels.runtime import store
from minitorch_backends.kernels.precisions import parts
print(parts.round_to(np.full(3, 1 / 3, np.float32), "bf16")[0].item())
print(store.activity.compiled, store.activity.loaded, store.cache_folder())
"""


def run(script, *arguments, **environment):
    """The lines that a fresh interpreter prints, and its warnings."""
    finished = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True, text=True, check=False, env={**os.environ, **environment},
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.splitlines(), finished.stderr


def round_in(folder):
    """(compiled, loaded) signatures of a rounding in a new process, the folder that it used, its warnings."""
    (value, counts), warned = run(ROUND, MINITORCH_CACHE_DIR=str(folder))
    assert float(value) == 0.333984375
    compiled, loaded, used = counts.split(maxsplit=2)
    return (int(compiled), int(loaded)), Path(used), warned


def test_a_second_process_compiles_nothing_and_writes_nothing(tmp_path):
    def files():
        return {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.o")}

    assert round_in(tmp_path) == ((1, 0), tmp_path, "")
    written = files()
    assert any(path.name.startswith("_round_array-") for path in written)
    assert round_in(tmp_path) == ((0, 1), tmp_path, "")
    assert files() == written


DIGESTS = """
import os
from pathlib import Path
from types import SimpleNamespace
from minitorch_backends.kernels.runtime import cpu, store, targets
from minitorch_backends.kernels.precisions import parts
for level in cpu.LEVELS:
    for asked in "01":
        os.environ.update({cpu.VARIABLE: level, cpu.EMULATION: asked})
        for kept in (
            cpu.capability, cpu.detect, cpu.is_emulated, cpu._asked_to_emulate, cpu.looks_up_bytes, targets.target,
            store._compiled_by, store.module_digest,
        ):
            kept.cache_clear()
        print(cpu.capability(), cpu.is_emulated("amx"), store.module_digest(Path(parts.__file__)))
"""


def test_what_is_compiled_for_other_instructions_is_kept_apart():
    """Code depends on them where LLVM compiles for the same CPU, as it does where software stands for the rest."""
    (found, _), (again, _) = (run(DIGESTS, PYTHONHASHSEED=seed) for seed in "12")
    assert found == again
    kinds, digests = zip(*(line.rsplit(" ", 1) for line in found), strict=True)
    assert len(set(kinds)) == len(set(digests))


def test_code_depends_on_the_modules_that_its_module_imports_from(tmp_path, monkeypatch):
    """Directly or not, in either form of import, inside functions too; on no other module."""
    (tmp_path / "inner").mkdir()
    sources = {
        "main": "from .inner.near import f\n", "inner/near": "def g():\n    from ..far import (\n        h,\n    )\n",
        "far": "", "apart": "", "inner/__init__": "",
    }  # fmt: skip
    for name, text in sources.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setattr(store, "_KERNELS", tmp_path)

    def digest():
        for memo in (store._source, store._imported_modules, store.module_digest):
            memo.cache_clear()
        return store.module_digest(tmp_path / "main.py")

    try:
        before = digest()
        for name in sources:
            with (tmp_path / f"{name}.py").open("a") as file:
                file.write("# edited\n")
            after = digest()
            assert (after == before) == (name in ("apart", "inner/__init__")), name
            before = after
    finally:
        monkeypatch.undo()
        for memo in (store._source, store._imported_modules, store.module_digest):
            memo.cache_clear()


def test_code_depends_on_the_modules_of_tags():
    """A leaf's code is emitted by its tags, which the module of the function that compiles it does not import."""
    leaf = loops.Reduction(vectors.Value(), sources.Float32())
    names = {path.relative_to(store._KERNELS).as_posix() for path in native.modules_of((native.kind_of(leaf),))}
    assert names == {"arrays/sums/loops.py", "arrays/sums/vectors.py", "block/sources.py"}


def test_imports_are_found_in_every_module():
    """Nothing in kernels/ imports in a form that the search for dependencies does not see."""
    for path in store._KERNELS.rglob("*.py"):
        text = re.sub(r'""".*?"""', "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not re.search(r"^\s*import (minitorch_backends|kernels)", text, re.MULTILINE), path
        assert not re.search(r"^\s*from minitorch_backends", text, re.MULTILINE), path
        for line in re.findall(r"^\s*from \..* import .*", text, re.MULTILINE):
            assert ";" not in line, (path, line)


TYPES = ("int8", "int16", "float32", "float64")
AT_ONCE = """
import sys
import numpy as np
from minitorch_backends.kernels.runtime import jit, store

@jit.njit
def same(x):
    return 0

print("ready", flush=True)
input()
same(getattr(np, sys.argv[1])(1))
print(store.activity.compiled, store.activity.loaded)
"""


def at_once(folder, kinds):
    """(compiled, loaded) signatures of processes that call a function at the same moment, for these types."""
    (folder / "script.py").write_text(AT_ONCE)
    environment = {**os.environ, "MINITORCH_CACHE_DIR": str(folder / "cache")}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    processes = [subprocess.Popen([sys.executable, folder / "script.py", kind], **pipes) for kind in kinds]
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * len(kinds)
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    return [tuple(map(int, process.communicate()[0].split())) for process in processes]


@pytest.mark.slow
def test_processes_that_compile_at_once_lose_nothing_of_each_other(tmp_path):
    """All save the same function, each for another type."""
    assert at_once(tmp_path, TYPES) == [(1, 0)] * len(TYPES)
    assert at_once(tmp_path, TYPES) == [(0, 1)] * len(TYPES)
    assert len(list((tmp_path / "cache").rglob("*.o"))) == len(TYPES)


def test_a_process_waits_for_what_another_one_compiles(tmp_path):
    assert sorted(at_once(tmp_path, TYPES[:1] * 3)) == [(0, 1), (0, 1), (1, 0)]


def make_same():
    def same(x):
        return x

    return jit.njit(same)


def files_of(entry):
    return sorted(entry.folder.glob("same-*.o"))


def flush():
    for path in files_of(make_same()):
        path.unlink()


def counts(entry, value=3):
    """(compiled, loaded) signatures in a call."""
    before = dataclasses.astuple(store.activity)[:2]
    assert entry(value) == value
    return tuple(after - start for after, start in zip(dataclasses.astuple(store.activity)[:2], before, strict=True))


@pytest.mark.parametrize("damage", [
    lambda content: b"", lambda content: content[:700], lambda content: content[:500] + b"\0" * 64 + content[564:],
])  # fmt: skip
def test_damaged_code_is_compiled_again(damage):
    flush()
    for expected in ((1, 0), (0, 1), (1, 0), (0, 1)):
        anew = make_same()  # reads what the one before saved
        assert counts(anew) == expected
        if expected == (0, 1):
            for path in files_of(anew):
                path.write_bytes(damage(path.read_bytes()))
    flush()


@pytest.mark.parametrize(("mode", "loaded"), [(0o755, (0, 1)), (0o777, (1, 0))])
def test_code_that_was_installed_is_loaded(mode, loaded, tmp_path, monkeypatch):
    """The folder of a wheel; not one that others can write to."""
    flush()
    assert counts(make_same()) == (1, 0)
    (file,) = files_of(make_same())
    (tmp_path / f"{file.parent.name}.code").write_bytes(archive.pack(file.parent, "same-*.o"))
    file.unlink()
    tmp_path.chmod(mode)
    monkeypatch.setattr(store, "_PREBUILT", tmp_path)
    for name in ("_prebuilt", "_archives"):
        monkeypatch.setattr(store, name, getattr(store, name).__wrapped__)
    monkeypatch.setattr(store, "_llvm", lambda: "1.2.3")  # the wheel was built with another one
    assert counts(make_same()) == loaded
    flush()


def test_compiling_can_be_forbidden(monkeypatch):
    """Code of the store runs; a signature that it lacks is one sentence, and nothing is kept of the attempt."""
    flush()
    assert counts(make_same()) == (1, 0)
    monkeypatch.setenv(store.COMPILE_VARIABLE, "never")
    again = make_same()
    assert counts(again) == (0, 1)
    with pytest.raises(
        RuntimeError, match=r"same\(float64\) of \w+\.py is not compiled, and MINITORCH_COMPILE=never; unset"
    ):
        again(3.5)
    monkeypatch.setenv(store.COMPILE_VARIABLE, "often")
    with pytest.raises(ValueError, match="MINITORCH_COMPILE must be 'never' or unset, got 'often'"):
        again(3.5)
    monkeypatch.delenv(store.COMPILE_VARIABLE)
    assert again(3.5) == 3.5
    flush()


def test_code_under_the_name_of_another_signature_is_compiled_again():
    """As a copy of the folder may leave it that mixes names up: run, it would read numbers of another type."""
    flush()
    both = make_same()
    assert counts(both) == counts(both, 3.5) == (1, 0)
    first, second = files_of(both)
    first_content, second_content = first.read_bytes(), second.read_bytes()
    first.write_bytes(second_content)
    second.write_bytes(first_content)
    again = make_same()
    assert counts(again) == counts(again, 3.5) == (1, 0)
    flush()


def test_code_that_cannot_be_kept_is_used_all_the_same(monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    flush()
    same = make_same()
    monkeypatch.setattr(store, "write_file", full)
    with pytest.warns(RuntimeWarning, match=r"cannot be kept in .* No space left on device; set MINITORCH_CACHE_DIR"):
        assert same(3) == 3
    assert same(4) == 4


def expect_refusal(folder, reason):
    """A process compiles in a temporary folder, says why once, and takes the folder away."""
    counted, used, warned = round_in(folder)
    assert counted == (1, 0)
    assert folder not in used.parents
    assert not used.exists()
    sentence = rf"compiled code is kept in a temporary folder, .*{reason}.*; set MINITORCH_CACHE_DIR"
    assert re.search(f"RuntimeWarning: {sentence}", warned)
    assert warned.count("RuntimeWarning") == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_write_permission_is_replaced_by_a_temporary_one(tmp_path):
    tmp_path.chmod(0o500)
    expect_refusal(tmp_path, os.strerror(errno.EACCES))


def test_an_impossible_folder_is_replaced_by_a_temporary_one(tmp_path):
    (tmp_path / "file").touch()
    expect_refusal(tmp_path / "file", "File exists")


@pytest.mark.slow
def test_a_folder_that_others_can_write_to_is_not_read(tmp_path):
    """Whoever can put files there could have the user run them."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)  # sticky: others cannot remove files, but make new ones
    expect_refusal(folder, "other users can write to .*shared")
    inner = folder / "inner"
    inner.mkdir(mode=0o700)
    assert round_in(inner)[0::2] == ((1, 0), ""), "no other user can replace `inner` in a sticky folder"
    folder.chmod(0o777)
    expect_refusal(inner, "other users can write to .*shared")


@pytest.mark.parametrize(
    ("members", "primary", "private"),
    [([], [], True), (["me", "root"], ["me"], True), (["other"], [], False), ([], ["me", "other"], False)],
)
def test_a_group_is_private_where_nobody_else_is_in_it(members, primary, private, monkeypatch):
    uids = {"root": 0, "me": os.geteuid(), "other": 4321}
    users = [
        SimpleNamespace(pw_name=name, pw_uid=uid, pw_gid=77 if name in primary else 1) for name, uid in uids.items()
    ]
    monkeypatch.setattr(grp, "getgrgid", lambda group: SimpleNamespace(gr_mem=members))
    monkeypatch.setattr(pwd, "getpwall", lambda: users)
    assert files._is_private_group.__wrapped__(77) is private


def test_a_group_that_the_system_does_not_know_is_not_private(monkeypatch):
    monkeypatch.setattr(grp, "getgrgid", {}.__getitem__)
    assert not files._is_private_group.__wrapped__(77)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
def test_a_folder_of_another_user_is_not_read(tmp_path):
    folder = tmp_path / "theirs" / "cache"
    folder.mkdir(parents=True)
    os.chown(folder.parent, 12345, 12345)
    expect_refusal(folder, "belongs to another user")
    link = tmp_path / "link"
    link.symlink_to(folder)
    expect_refusal(link, "belongs to another user")


@pytest.mark.parametrize(("mode", "owner"), [(0o666, 0), pytest.param(
    0o600, 12345, marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away"))])  # fmt: skip
def test_a_file_that_others_may_have_written_is_compiled_again(mode, owner):
    """A folder that was open to others once may hold what they left there."""
    for compiled in (1, 0):
        same = make_same()
        assert counts(same) == (compiled, 1 - compiled)
    for path in files_of(same):
        path.chmod(mode)
        if owner:
            os.chown(path, owner, owner)
    assert counts(make_same()) == (1, 0)
    flush()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
def test_a_modules_folder_of_another_user_is_replaced_by_a_temporary_one(tmp_path):
    assert round_in(tmp_path) == ((1, 0), tmp_path, "")
    for folder in tmp_path.iterdir():
        os.chown(folder, 12345, 12345)
    counted, _, warned = round_in(tmp_path)
    assert counted == (1, 0)
    assert re.search("RuntimeWarning: compiled code is kept in a temporary folder, .* belongs to another user", warned)
    assert warned.count("RuntimeWarning") == 1


def test_contents(tmp_path):
    script = ROUND + "print(*store.contents(), sep=';')"
    (tmp_path / "gemm.loops-of another version").mkdir()
    (tmp_path / "gemm.loops-of another version" / "f-1.o").write_bytes(b"12345")
    (*_, found), _ = run(script, MINITORCH_CACHE_DIR=str(tmp_path))
    size, files, loadable = found.split(";")
    assert int(size) == sum(path.stat().st_size for path in tmp_path.glob("*/*.o"))
    assert int(files) > 1
    assert loadable == f"{{'precisions': {int(files) - 1}}}", "that of another version is not loaded"


def test_unused_folders_of_other_versions_are_removed(tmp_path):
    def folder(name, hours_ago):
        made = tmp_path / name
        made.mkdir()
        os.utime(made, (time.time() - hours_ago * 3600 - 60,) * 2)
        return made

    own, unrelated = folder("gemm.loops-0", 0), folder("conv.loops-0", 99)
    recent = [folder(f"gemm.loops-recent{i}", 0) for i in range(store.FOLDERS_KEPT + 2)]
    old = [folder(f"gemm.loops-old{i}", 2 + i) for i in range(3)]
    store._prune(own)
    assert sorted(tmp_path.iterdir()) == sorted([own, unrelated, *recent])
    for path in recent[2:]:
        path.rmdir()
    old = [folder(f"gemm.loops-old{i}", 2 + i) for i in range(store.FOLDERS_KEPT)]
    store._prune(own)
    assert sorted(tmp_path.iterdir()) == sorted([own, unrelated, *recent[:2], *old[: store.FOLDERS_KEPT - 2]])


def test_a_warning_made_an_error_leaves_the_function_compiled(monkeypatch):
    flush()
    monkeypatch.setattr(store, "write_file", lambda *arguments: (_ for _ in ()).throw(OSError("full")))
    same = make_same()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="full"):
            same(3)
    assert same(3) == 3
