"""`minitorch-backends env`: what it says is what is."""

import json
from pathlib import Path

import numpy as np
import pytest

from minitorch_backends import backends, cli
from minitorch_backends.flags import rows

from .processes import python

pytestmark = pytest.mark.usefixtures("default_flags")


def test_every_flag_is_listed_with_who_decided(capsys: pytest.CaptureFixture[str]) -> None:
    backends.fp32_precision = "tf32"
    backends.cudnn.fp32_precision = "none"
    assert cli.main(["env", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["flags"]) == list(rows)
    assert found["flags"]["fp32_precision"] == {
        "value": "tf32",
        "effective": "tf32",
        "decided by": "set",
        "acts": "yes",
    }
    matmul = found["flags"]["cuda.matmul.fp32_precision"]
    assert (matmul["value"], matmul["effective"], matmul["decided by"]) == ("unset", "tf32", "from fp32_precision")
    assert found["flags"]["cudnn.fp32_precision"]["value"] == "none"
    assert found["flags"]["cuda.matmul.allow_tf32"]["decided by"] == "from fp32_precision"
    assert found["flags"]["cudnn.enabled"]["decided by"] == "default"
    assert found["flags"]["miopen.immediate"]["acts"] == "MIOpen is not used"


def test_versions_and_machine() -> None:
    found = cli.report()
    assert found["versions"]["numpy"] == np.__version__
    assert found["machine"]["cpu capability"].startswith(backends.cpu.get_cpu_capability())
    assert "openblas" in found["machine"]["BLAS of NumPy"] or backends.mkl.is_available()
    assert cli.version("no-such-distribution") == "not installed"


def test_text_has_a_line_for_each_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["env"]) == 0
    lines = capsys.readouterr().out.splitlines()
    header = next(index for index, line in enumerate(lines) if line.startswith("flag "))
    assert lines[header].split() == ["flag", "value", "effective", "decided", "by", "acts"]
    assert [line.split()[0] for line in lines[header + 1 :]] == list(rows)
    assert lines[0] == "versions"
    assert "machine" in lines


def test_variables_are_named() -> None:
    printed = python(
        "from minitorch_backends.cli import main\nmain(['env'])",
        NVIDIA_TF32_OVERRIDE="0",
        MINITORCH_FP32_PRECISION="bf16x3",
        ATEN_CPU_CAPABILITY="default",
    )
    words = {line.split()[0]: line.split() for line in printed.out.splitlines() if line.strip()}
    assert words["cuda.tf32_veto"][1:7] == ["True", "True", "set", "by", "NVIDIA_TF32_OVERRIDE=0", "yes"]
    assert "from fp32_precision by MINITORCH_FP32_PRECISION=bf16x3" in printed.out
    assert "DEFAULT (the CPU has" in printed.out
    assert "ATEN_CPU_CAPABILITY=default)" in printed.out


def test_variables_of_other_libraries_are_named_with_what_comes_of_them(tmp_path: Path) -> None:
    printed = python(
        "import runpy, sys\nsys.argv = ['minitorch_backends', 'env', '--json']\n"
        "runpy.run_module('minitorch_backends', run_name='__main__')",
        NUMBA_CPU_NAME="generic",
        NUMBA_DUMP_IR="0",
        OMP_NUM_THREADS="1",
        OMP_PROC_BIND="true",
        MKL_CBWR="AVX2",
        MINITORCH_CACHE_DIR=str(tmp_path),
    )
    found = json.loads(printed.out)
    effects = found["variables of other libraries"]
    assert effects["NUMBA_CPU_NAME=generic"].startswith("overruled for kernels")
    assert effects["NUMBA_DUMP_IR=0"].startswith("obeyed")
    assert effects["OMP_NUM_THREADS=1"].startswith("obeyed")
    assert effects["OMP_PROC_BIND=true"].startswith("not for kernels")
    assert effects["MKL_CBWR=AVX2"].startswith("obeyed" if backends.mkl.is_available() else "without effect")
    assert found["machine"]["threads"].startswith("1 of ")
    code = found["compiled code"]
    assert (code["folder"], code["size"]) == (str(tmp_path), "0.0 MB in 0 files")


def test_a_command_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main([])
    assert "required: command" in capsys.readouterr().err
