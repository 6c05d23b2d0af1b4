"""What is compiled ahead: all that tables declare, for CPUs of every kind; and a package that carries it."""

import shutil

import pytest

from minitorch_backends.kernels import runtime
from minitorch_backends.kernels.ahead.__main__ import TARGETS
from minitorch_backends.kernels.runtime import archive, cpu

from ..support.processes import python

LISTED = """
import collections, sys
from minitorch_backends.kernels.ahead import __main__ as ahead
ahead._pretend(ahead.TARGETS[sys.argv[1]])
from minitorch_backends.kernels.ahead import entries
from minitorch_backends.kernels.runtime import native
found = [(entry.py_func.__name__, native.text(kinds)) for entry, kinds in entries.signatures()]
texts = [text for _, text in found]
names = {name for name, _, _ in entries._entries()}
absent = entries._SPECIAL.keys() - names - {name for name in entries._SPECIAL if name.startswith(entries._ON_TILES)}
print(len(found) == len(set(found)), len(found) > 1000, sorted(absent), sep=";")
print(any("tiles.Tiles1" in text for text in texts), any("Avx512Float32" in text for text in texts), sep=";")
less = " ".join(text for text in texts if "MultiplyBlock(block.vectors." in text and "Less" in text)
masked = any("AttendTask" in text and "NoMask" not in text for text in texts)
print(masked, "Float32()" in less, "Int32()" in less, sep=";")
"""


def run(code, *arguments, **variables):
    """What a process prints, with these arguments."""
    return python(f"import sys; sys.argv[1:] = {arguments!r}\n{code}", **variables)


COMPILE = "from minitorch_backends.kernels.ahead.__main__ import main; main()"


@pytest.mark.parametrize("target", TARGETS)
def test_each_function_is_listed_once_for_each_kind_of_cpu(target):
    first, second, third = run(LISTED, target).out.splitlines()
    assert first == "True;True;[]", "a name in the table that no module defines"
    assert second == f"{target == 'amx'};{target.startswith(('avx512', 'amx'))}"
    assert third == f"{target != 'portable'};True;False", "masks for loops that read none, or differences of integers"


def test_functions_are_compiled_for_cpus_that_this_one_is_not(tmp_path):
    """And only what the folder does not have."""
    arguments = "amx", "--only", "weight_tiles", "--jobs", "1"
    for _ in range(2):
        assert "weight_tiles." not in run(COMPILE, *arguments, MINITORCH_CACHE_DIR=str(tmp_path)).error, "it failed"
    compiled = sorted(path.name.partition("-")[0] for path in tmp_path.glob("*weight_tiles*/*.o"))
    assert compiled == ["weight_gradient", "weight_gradient_in_partitions"]


CARRIED = """
import sys
from pathlib import Path
from minitorch_backends.kernels.runtime import store
store._PREBUILT = Path(sys.argv[1])
import numpy as np
from minitorch_backends.kernels.precisions import parts
print(parts.round_to(np.full(3, 1 / 3, np.float32), "bf16")[0], store.count_installed() > 3, store.activity.compiled)
"""


def test_a_package_with_compiled_functions_compiles_none(tmp_path):
    code, carried = tmp_path / "code", tmp_path / "carried"
    target = "avx512_vbmi" if cpu.hardware() == "avx512" and cpu.looks_up_bytes() else cpu.hardware()
    run(COMPILE, target, "--only", "precisions.parts", "--jobs", "1", MINITORCH_CACHE_DIR=str(code))
    carried.mkdir()
    for folder in code.iterdir():
        (carried / f"{folder.name}.code").write_bytes(archive.pack(folder, "*.o"))
    shutil.rmtree(code)
    variables = {cpu.VARIABLE: cpu.hardware(), cpu.EMULATION: "0"}
    found = run(CARRIED, str(carried), MINITORCH_CACHE_DIR=str(code), MINITORCH_COMPILE="never", **variables)
    assert found.out == "0.33398438 True 0\n"


def test_archives(tmp_path):
    """Each file as it was; None for one that is missing or damaged."""
    contents = {f"{name}.o": bytes([name]) * 1000 + b"the same in all of them" * 50 for name in range(20)}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    packed = archive.pack(tmp_path, "*.o")
    assert len(packed) < sum(map(len, contents.values())) / 10
    found = runtime.archive.Archive(packed)
    assert {name: found.read(name) for name in contents} == contents
    assert (len(found), found.read("20.o")) == (20, None)
    damaged = archive.Archive(packed[:-20] + bytes(20))
    assert damaged.read("9.o") is None
    assert len(archive.Archive(b"")) == 0
