"""The command `minitorch-backends`: what it says is what is, and wrong input is one sentence."""

import errno
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import backends, cli, lab
from minitorch_backends.cli.common import fit_columns, write_table
from minitorch_backends.cli.env import report
from minitorch_backends.flags import rows
from minitorch_backends.lab.machine import version

from ..support.processes import python

pytestmark = pytest.mark.usefixtures("default_flags")

NO_FILE = os.strerror(errno.ENOENT)  # in the language of the process


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
    found = report()
    assert found["versions"]["numpy"] == np.__version__
    assert found["machine"]["cpu capability"].startswith(backends.cpu.get_cpu_capability())
    assert "openblas" in found["machine"]["BLAS of NumPy"] or backends.mkl.is_available()
    assert version("no-such-distribution") == "not installed"


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
    assert effects["NUMBA_CPU_NAME=generic"].startswith("overridden for kernels")
    assert effects["NUMBA_DUMP_IR=0"].startswith("applies")
    assert effects["OMP_NUM_THREADS=1"].startswith("applies")
    assert effects["OMP_PROC_BIND=true"].startswith("does not apply to kernels")
    assert effects["MKL_CBWR=AVX2"].startswith("applies" if backends.mkl.is_available() else "no effect")
    assert found["machine"]["threads"].startswith("1, ")
    code = found["compiled code"]
    assert (code["folder"], code["size"]) == (str(tmp_path), "0.0 MB in 0 files")


def test_a_command_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main([])
    assert "required: COMMAND" in capsys.readouterr().err


STUDY = """
import minitorch_backends as mt

def product(n, seed):
    if n == 3:
        raise ValueError("no such size")
    return mt.randn(n, n) @ mt.randn(n, n)

number = 3

def model():
    mt.manual_seed(0)
    return mt.nn.Sequential(mt.nn.Linear(4, 8), mt.nn.ReLU(), mt.nn.Linear(8, 3))

inputs = mt.ones(2, 4)
"""


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A file of a user's, whose module and whose folder on `sys.path` go with the test."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    file = tmp_path / "study_of_products.py"
    file.write_text(STUDY)
    yield str(file)
    sys.modules.pop("study_of_products", None)


def test_a_sweep_its_store_and_its_page(study: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, page = str(tmp_path / "store"), tmp_path / "page.html"
    options = ["--over", "n=2,4", "--flag", "fp32_precision=ieee,tf32", "--seeds", "2", "--repeats", "1"]
    assert cli.main(["sweep", f"{study}:product", *options, "--store", store, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["n"], row["flags"]["fp32_precision"], row["seed"]) for row in rows] == [
        (n, precision, seed) for n in (2, 4) for precision in ("ieee", "tf32") for seed in (0, 1)
    ]
    assert cli.main(["report", store, "--json", "--page", str(page), "--plot", str(page.with_suffix(".svg"))]) == 0
    assert page.with_suffix(".svg").read_bytes().startswith(b"<?xml")
    assert json.loads(capsys.readouterr().out) == rows
    assert "Sweep of store" in page.read_text(encoding="utf-8")
    assert cli.main(["sweep", f"{study}:product", "--over", "n=2,3", "--repeats", "1"]) == 1
    written = capsys.readouterr()
    assert written.out.splitlines()[2].split()[:4] == ["3", "defaults", "1", "1"]
    assert re.fullmatch(r"minitorch-backends sweep: 1 of 2 rows failed: \w+: .*\n", written.err)


def test_runs_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(tmp_path / name) for name in ("a.run", "b.run")]
    for path, precision in zip(paths, ("ieee", "bf16"), strict=True):
        mt.manual_seed(0)
        with lab.capture(path), backends.flags(fp32_precision=precision):
            mt.randn(4, 8) @ mt.randn(8, 4)
    assert cli.main(["compare", *paths]) == 1
    found = capsys.readouterr().out
    assert "0 same, 1 differs, 0 inserted, 0 removed" in found
    assert "first: no call differs by more than its precision explains" in found
    mt.manual_seed(0)
    with lab.capture(tmp_path / "c.run"):
        mt.randn(4, 8) @ mt.randn(8, 4) @ mt.ones(4, 4)
    assert cli.main(["compare", paths[0], str(tmp_path / "c.run")]) == 1
    assert "first: call 1, matmul of 4x4 @ 4x4, forward, in module '(itself)': only one run has it" in (
        capsys.readouterr().out
    )
    assert cli.main(["compare", paths[0], paths[0], "--json", "--page", str(tmp_path / "page.html")]) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["same"] == 1
    assert (tmp_path / "page.html").exists()


def test_a_model_is_audited(study: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy, arrays = tmp_path / "policy.json", tmp_path / "inputs.npz"
    options = ["--metric", "logits", "--precisions", "bf16", "--json", "--policy", str(policy)]
    assert cli.main(["audit", f"{study}:model", *options]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["module"] for row in found["rows"]] == [None, "0", "2"]
    assert lab.Policy.from_json(policy.read_text(encoding="utf-8")).rule_of("0") is not None
    np.savez(arrays, np.ones((2, 4), np.float32))
    assert cli.main(["audit", f"{study}:model", *options, "--inputs", str(arrays)]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == found["rows"]
    np.savez(arrays, unknown=np.ones((2, 4), np.float32))
    assert cli.main(["audit", f"{study}:model", "--inputs", str(arrays)]) == 2
    assert "--inputs must have arrays named as arguments of the model, or arr_0" in capsys.readouterr().err
    bounds = ["--budget", "error=1,gradient_error=0", "--precisions", "bf16", "--json"]
    assert cli.main(["audit", f"{study}:model", *bounds]) == 0
    assert json.loads(capsys.readouterr().out)["budget"] == {"error": 1, "gradient_error": 0}
    stored = ["--groups", "*", "--precisions", "bf16", "--json", "--store", str(tmp_path / "rows")]
    runs = []
    for _ in range(2):
        assert cli.main(["audit", f"{study}:model", *stored]) == 0
        found = json.loads(capsys.readouterr().out)
        runs.append(found["runs"])
    assert [row["module"] for row in found["rows"]] == [None, "0", "2"]
    assert runs[1] == runs[0] - 3


def test_tables_fit_the_terminal(
    study: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["audit", f"{study}:model", "--precisions", "bf16"]) == 0
    found = capsys.readouterr().out
    assert found.startswith("Audit of study_of_products.py:model\n")
    assert "\nlocal error: largest relative error of one product against float64\n" in found
    assert "worst of" not in found  # nothing is left out
    cells = [("module", "error"), ("encoder.layers.0.attention", "1e-3"), ("x", "2e-3")]
    assert fit_columns(cells, None)[1] == "encoder.layers.0.attention  1e-3"
    assert fit_columns(cells, 22)[1] == "encoder\N{HORIZONTAL ELLIPSIS}tention  1e-3"
    for width in range(15, 40):
        assert max(map(len, fit_columns(cells, width))) <= width


def test_families_are_compiled_at_each_precision_that_acts_on_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ["--families", "rows,recurrent", "--precisions", "tf32,bf16", "--jobs", "2"]
    assert cli.main(["compile", *asked, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    jobs = [(job["family"], job["precision"], job["error"]) for job in found["jobs"]]
    assert jobs == [("rows", "ieee", None), ("recurrent", "tf32", None), ("recurrent", "bf16", None)]
    assert found["files"] > 0
    monkeypatch.setenv("MINITORCH_FP32_PRECISION", "tf33")
    assert cli.main(["compile", "--families", "rows"]) == 1
    assert "tf33" in capsys.readouterr().out


@pytest.mark.parametrize("metric", ["logits", "embedding", "regression", "language"])
def test_each_measure_is_explained_below_the_table(metric: str, capsys: pytest.CaptureFixture[str]) -> None:
    from minitorch_backends.lab.metrics import measures_of

    answers = {"logits": np.random.default_rng(0).standard_normal((2, 3, 5))}
    labels = np.ones((2, 3), int) if metric == "language" else None
    measures = measures_of(metric, answers, answers, labels)
    write_table([tuple(measures), tuple(map(str, measures.values()))])
    explained = [line.partition(": ")[0] for line in capsys.readouterr().out.splitlines()[3:]]
    assert len(measures) >= 3
    assert explained == list(measures)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["audit", "nowhere"], "as study.py:solve, an ONNX file, or a checkpoint of transformers that exists, got 'no"),
        (["certify", "nowhere"], "as study.py:solve, or an ONNX file, got 'nowhere'"),
        (
            ["sweep", "study.py"],
            "the target must be FILE:NAME with FILE a Python file, as study.py:solve, got 'study.py'",
        ),
        (["sweep", "no.py:f"], "file 'no.py' does not exist"),
        (["sweep", "{study}:nothing"], "defines no 'nothing'"),
        (["sweep", "{study}:number"], "the target must be a function, got int"),
        (["sweep", "{study}:product", "--over", "n"], "--over must be NAME=VALUE,VALUE,..., got 'n'"),
        (["sweep", "{study}:product", "--over", "n=1", "--over", "n=2"], "--over names 'n' twice"),
        (["sweep", "{study}:product", "--flag", "fp32_precision=tf33"], "fp32_precision = 'tf33' is unknown"),
        (["sweep", "{study}:product", "--seeds", "0"], "argument --seeds: must be a positive integer, got '0'"),
        (["compile", "--families", "fft,ftt"], "argument --families: must be some of matmul, .*, got 'ftt'"),
        (["audit", "{study}:inputs"], "model must be a Module, a method of one or a pipeline, got Tensor"),
        (["audit", "{study}:model", "--precisions", "tf33"], "'tf33' is not a precision"),
        (
            ["audit", "{study}:model", "--budget", "error=1,kl"],
            "must be a number, or NAME=NUMBER,..., got 'error=1,kl'",
        ),
        (["audit", "{study}:model", "--budget", "gradient_error=-1"], "budget must be non-negative bounds"),
        (["audit", "{study}:model", "--inputs", "none.npz"], f"cannot use 'none.npz': {NO_FILE}"),
        (["compare", "{study}", "{study}"], "must be a run that lab.capture of this version wrote"),
        (["compare", "none", "none"], f"cannot use 'none': {NO_FILE}"),
        (["report", "none"], "store must be a folder that a sweep wrote, got 'none'"),
    ],
)
def test_wrong_input_is_one_sentence(
    arguments: list[str], sentence: str, study: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = cli.main([each.format(study=study) for each in arguments])
    except SystemExit as stop:  # the parser's own
        code = stop.code
    written = capsys.readouterr()
    assert (code, written.out) == (2, "")
    assert written.err.startswith(f"minitorch-backends {arguments[0]}: ")
    assert written.err.count("\n") == 1
    assert re.search(sentence, written.err)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a user's configuration, and a race that unpacked rows win up to 300."""
    from minitorch_backends.lab import crossovers

    path = tuple(crossovers.Point(m, m, 64, 64) for m in (64, 128, 256, 512))
    monkeypatch.setenv("MINITORCH_CONFIG_DIR", str(tmp_path))
    one = crossovers.Crossover("avx512", "rows_most", "rows", "avx512", True, ("float32", "ieee"), path)
    monkeypatch.setattr(crossovers, "crossovers", lambda: [one])
    monkeypatch.setattr(crossovers, "_race", lambda crossover, point, rounds: [1.0, 2.0 if point.value < 300 else 0.5])
    return tmp_path


def test_tune_writes_what_was_measured_and_processes_read_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["tune", "--dry-run"]) == 0
    assert not list(folder.glob("*.json"))
    table = capsys.readouterr().out.splitlines()
    assert table[1].split() == ["avx512.rows_most", "32", "362", "1.68"]
    assert table[2] == "nothing was written"
    assert cli.main(["tune", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == {"avx512": {"rows_most": 362}}
    assert found["measured"]["avx512.rows_most"]["points"][0] == [64, "[64, 64] @ [64, 64]", 1.0, 2.0]
    assert [path.name for path in folder.iterdir()] == [Path(found["file"]).name]
    code = (
        "from minitorch_backends import explain\nfrom minitorch_backends.kernels.block.tuning import tuning\n"
        "import numpy as np\nx = np.ones((3, 3), np.float32)\n"
        "print(tuning('avx512').rows_most, explain.why('matmul', x, x), sep='\\n')"
    )
    printed = python(code, MINITORCH_CONFIG_DIR=str(folder)).out.splitlines()
    assert printed[0] == "362"
    assert f"    thresholds: measured by minitorch-backends tune on {found['date']} ({found['file']})" in printed
    assert cli.main(["tune", "--reset"]) == 0
    assert not list(folder.iterdir())


def test_tune_refuses_folders_that_others_can_write_to(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder.chmod(0o777)
    assert cli.main(["tune"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"minitorch-backends tune: other users can write to {folder}")
    with pytest.raises(SystemExit, match="2"):
        cli.main(["tune", "--rounds", "0"])
    assert "argument --rounds: must be a positive integer, got '0'" in capsys.readouterr().err


def test_certify_says_whether_bits_are_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "certified.py"
    file.write_text(
        "import minitorch_backends as mt\ninputs = mt.arange(12.0).reshape(4, 3)\n"
        "def alone(x): return x.softmax(-1)\ndef together(x): return x - x.mean()\n"
    )
    options = ["--invariant", "batch", "--capabilities", "none", "--batch-sizes", "1,2"]
    assert cli.main(["certify", f"{file}:alone", *options, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["holds"] is True
    assert cli.main(["certify", f"{file}:together", *options]) == 1
    assert "together fails 5 of 8 checks" in capsys.readouterr().out
    assert cli.main(["certify", f"{file}:alone", "--invariant", "bits"]) == 2
    assert "invariant must be one of 'none', 'batch', 'isa', 'shards', 'batch,isa'," in capsys.readouterr().err
