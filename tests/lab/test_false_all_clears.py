"""False all-clears without torch: every entry point, asked in each way that would measure nothing, refuses or is right.

The ways: nothing that obeys flags, wrong names, foreign arrays, what changed since (stale), a budget out of reach, and
types that precisions do not affect. A row has the sentence of the refusal, or None where the attempt returns whether
the answer is right. `tests/parity/test_false_all_clears.py` has the rows of torch.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import backends, cli, explain, lab, nn
from minitorch_backends.lab import Policy

pytestmark = pytest.mark.usefixtures("default_flags")


class InNumPy(nn.Module):
    """A model that computes outside of every kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(mt.ones(16, 4))

    def forward(self, x: mt.Tensor) -> mt.Tensor:
        return mt.from_numpy(x.numpy() @ self.weight.detach().numpy())


def model() -> nn.Module:
    mt.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)).eval()


MODEL, HALF = model(), model().bfloat16()
X = mt.randn(8, 16)
ARRAY = X.numpy()
GRID: dict[str, Any] = {"over": {"n": [8]}, "repeats": 0, "progress": False}


def predict(x: mt.Tensor) -> mt.Tensor:
    with mt.no_grad():
        return MODEL(x)


def total(x: mt.Tensor) -> mt.Tensor:
    return (x @ x.mT).sum()


def in_numpy(x: mt.Tensor) -> mt.Tensor:
    return mt.from_numpy(x.numpy() @ ARRAY.T)


def certificate(function: Callable[..., Any] = predict, inputs: Any = X, **options: Any) -> lab.Certificate:
    return lab.certificate(function, inputs, capabilities=(), **options)


@dataclasses.dataclass(slots=True)
class Slots:
    scale: float


class Properties:
    @property
    def scale(self) -> float:
        return helper()


def helper() -> float:
    return 1.0


SLOTS, PATH, RANGE, PROPERTIES = Slots(1.0), pathlib.PurePosixPath("a"), range(3), Properties()


def product(n: int, seed: int) -> mt.Tensor:
    return mt.randn(n, n) @ mt.randn(n, n)


def of_globals(n: int, seed: int) -> mt.Tensor:
    return product(n, seed) * (SLOTS.scale + len(str(PATH)) + len(RANGE) + PROPERTIES.scale)


def in_bfloat16(n: int, seed: int) -> mt.Tensor:
    x = mt.randn(n, n).bfloat16()
    return x @ x


def by_numpy(n: int, seed: int) -> Any:
    x = np.random.default_rng(seed).standard_normal((n, n)).astype(np.float32)
    return x @ x


def sweep(function: Callable[..., Any] = product, **options: Any) -> lab.Sweep:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lab.sweep(function, **GRID, **options)


def stale(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: Any) -> None:
    sweep(of_globals, store=folder)
    monkeypatch.setitem(globals(), name, value)
    sweep(of_globals, store=folder)


def under_autocast(folder: Path) -> None:
    sweep(store=folder)
    with mt.autocast("cpu", dtype=mt.bfloat16):
        sweep(store=folder)


def in_default(dtype: mt.dtype, **options: Any) -> lab.Sweep:
    mt.set_default_dtype(dtype)
    try:
        return sweep(**options)
    finally:
        mt.set_default_dtype(mt.float32)


def rows_by_default_dtype() -> bool:
    """Whether the truth is that of the default dtype, here and in a process of another."""
    wide, single, apart = in_default(mt.float64), sweep(), in_default(mt.float64, executor=1)
    errors = [each.rows[0]["error"] for each in (wide, apart)]
    return errors == [0.0, 0.0] and 0 < single.rows[0]["error"] < 1e-6


def no_reference() -> lab.Sweep:
    return sweep(reference=None, flags={"fp32_precision": ["ieee", "bf16"]})


def audit(of: nn.Module = MODEL, x: Any = X, precisions: Any = "bf16", **options: Any) -> lab.Audit:
    return lab.audit(of, x, precisions, gradients=False, progress=False, **options)


def audit_of_changed_model() -> lab.Audit:
    own = model()
    found = audit(own)
    own[0].weight.data.mul_(3.0)
    return found


def largest_change(answer: mt.Tensor, truth: mt.Tensor) -> float:
    return float((answer - truth).abs().max())


def audit_with_store(folder: Path, **changes: Any) -> None:
    own = model()
    audit(own, store=folder, metric=largest_change)
    if changes.pop("weights", False):
        own[0].weight.data.mul_(3.0)
    audit(own, **{"x": X, "store": folder, "metric": largest_change, **changes})


def under(scope: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    with mt.no_grad(), scope:
        return function(*arguments)


def run_of(path: Path, of: nn.Module = MODEL, x: mt.Tensor = X, **flags: Any) -> Path:
    with mt.no_grad(), backends.flags(**flags), lab.capture(path):
        of(x)
    return path


def two_runs(folder: Path, first: Any = (), second: Any = (), **flags: Any) -> tuple[Path, Path]:
    return run_of(folder / "a.run", *first), run_of(folder / "b.run", *second, **flags)


def record_of(of: Callable[..., Any], x: Any) -> explain.Log:
    with mt.no_grad(), explain.record() as log:
        of(x)
    return log


STUDY = """
import numpy as np
import minitorch_backends as mt
mt.manual_seed(0)
model = mt.nn.Sequential(mt.nn.Linear(4, 4), mt.nn.Linear(4, 2)).eval()
half = mt.nn.Linear(4, 4).eval().bfloat16()
inputs, half_inputs, array = mt.randn(6, 4), mt.randn(6, 4).bfloat16(), np.ones((6, 4), np.float32)
def total(x): return x.sum()
def in_bfloat16(n): return (mt.ones(n, n).bfloat16() @ mt.ones(n, n).bfloat16())
"""


class Shell:
    """Runs commands on a study of the user's; calls return the exit code and what was written."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.file, self._capsys = folder / "study_of_clears.py", capsys
        self.file.write_text(STUDY)

    def __call__(self, command: str, target: str, *options: str) -> tuple[int, str]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = cli.main([command, f"{self.file}:{target}", *options])
        return code, "".join(self._capsys.readouterr())


def suite(folder: Path, text: str, *options: str) -> tuple[int, str]:
    (folder / "test_suite.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "test_suite.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


HALF_SUITE = "import minitorch_backends as mt\ndef test():\n    mt.ones(2, 2).bfloat16() @ mt.ones(2, 2).bfloat16()\n"


def _store_in(folder: Path) -> Path:
    sweep(store=folder)
    return folder


def _numpy_run(path: Path) -> Path:
    with lab.capture(path):
        in_numpy(X)
    return path


def _run_under_says() -> bool:
    with nn.utils.run_under(HALF, Policy({"*": "tf32"})):
        return "no product obeyed precision flags, 2 did not" in str(record_of(HALF, X.bfloat16()))


def _is(found: tuple[int, str], code: int, sentence: str) -> bool:
    assert found[0] == code, found
    assert sentence in found[1], found
    return True


ROWS: list[tuple[str, str, Callable[..., Any], str | None]] = [
    ("sweep", "foreign", lambda: "no flag of precision acted" in sweep(
        by_numpy, flags=[{"fp32_precision": "bf16"}]).rows[0]["exception"], None),
    ("sweep", "foreign, no flags", lambda: sweep(by_numpy).rows[0]["reference"].startswith("none: "), None),
    ("sweep", "type", lambda: "1 matmul of bfloat16" in sweep(
        in_bfloat16, flags=[{"fp32_precision": "tf32"}]).rows[0]["exception"], None),
    ("sweep", "type, no flags", lambda: sweep(in_bfloat16).rows[0]["error"] is None, None),
    ("sweep", "type, profile", lambda: sweep(
        in_bfloat16, flags=[{"profile": "h100"}]).rows[0]["exception"] is None, None),
    ("sweep", "type, default", rows_by_default_dtype, None),
    ("sweep", "names", lambda: sweep(flags=[{"fp32_precison": "bf16"}]), "did you mean 'fp32_precision'"),
    ("sweep", "another product", lambda: "all of them at ieee; the flags lower conv to tf32" in sweep(
        flags=[{"cudnn.conv.fp32_precision": "tf32"}]).rows[0]["exception"], None),
    ("sweep", "another role", lambda: "no format acted" in sweep(
        flags=[{"operands.weight": "e4m3"}]).rows[0]["exception"], None),
    ("sweep", "no gradients", lambda: "did not act" in sweep(
        flags=[{"backward_precision": "bf16"}]).rows[0]["exception"], None),
    ("sweep", "no elements", lambda: sweep(lambda n: product(0, n)).rows[0]["error"] is None, None),
    ("sweep.where", "names", lambda: sweep().where(fp32_precison="bf16"), "names must be among n, .* got 'fp32_"),
    ("sweep.plot", "nothing", lambda: no_reference().plot(), "rows must have the measure 'error', got 2 rows without"),
    ("sweep.plot", "names", lambda: sweep().plot(y="eror"), "measures must be among .*, got 'eror'"),
    ("sweep.pareto", "nothing", lambda: no_reference().pareto(), "rows must have 'seconds' and 'error', got 2"),
    ("sweep.rerun", "names", lambda: sweep().rerun({"n": 9, "flags": {}, "seed": 0}), "row must be one of this"),
    ("sweep.rerun", "stale", lambda tmp_path: lab.Sweep.read(_store_in(tmp_path)).rerun({}), "function must be known"),
    ("store", "stale slots", lambda tmp_path, monkeypatch: stale(tmp_path, monkeypatch, "SLOTS", Slots(2.0)),
     "SLOTS changed"),
    ("store", "stale path", lambda tmp_path, monkeypatch: stale(
        tmp_path, monkeypatch, "PATH", pathlib.PurePosixPath("bb")), "PATH changed"),
    ("store", "stale range", lambda tmp_path, monkeypatch: stale(tmp_path, monkeypatch, "RANGE", range(5)),
     "RANGE changed"),
    ("store", "stale helper", lambda tmp_path, monkeypatch: stale(tmp_path, monkeypatch, "helper", lambda: 3.0),
     "another run .*pass reuse=True to keep them"),
    ("store", "stale autocast", under_autocast, r"another run \(autocast new\)"),
    ("store", "stale default dtype", lambda tmp_path: (
        sweep(store=tmp_path), in_default(mt.float64, store=tmp_path)), r"another run \(default dtype new\)"),
    ("store", "names", lambda tmp_path: lab.Sweep.read(tmp_path).rows, "store must be a folder that a sweep wrote"),
    ("audit", "foreign", lambda: audit(InNumPy()), "affect nothing in this InNumPy: no product obeyed"),
    ("audit", "foreign inputs", lambda: audit(x=ARRAY), "'input' must be a minitorch_backends Tensor"),
    ("audit", "type", lambda: audit(HALF, X.bfloat16()), "affect nothing in this Sequential: .*2 did not"),
    ("audit", "type, float64", lambda: audit(model().double(), X.double()), "affect nothing .*2 matmul of float64"),
    ("audit", "no elements", lambda: audit(x=X[:0]), r"expected answers with elements, got the shapes \[\(0, 4\)\]"),
    ("audit", "names", lambda: audit(precisions="fp7"), "'fp7' is not a precision"),
    ("audit", "nothing", lambda: under(backends.flags(fp32_precision="bf16"), audit),
     "precisions must not be in force, .* got 'bf16'"),
    ("audit", "budget", lambda: "cannot be met: the least is metric 0.5" in audit(
        metric=lambda a, b: 0.5, budget=0.1).summary(), None),
    ("audit.frontier", "stale", lambda: audit_of_changed_model().frontier(), "must be that of the audit, got"),
    ("audit.plot", "stale", lambda: audit_of_changed_model().plot(), "must be that of the audit, got other outputs"),
    ("audit.report", "stale", lambda tmp_path: audit_of_changed_model().report(tmp_path / "page.html"),
     "must be that of the audit, got other outputs"),
    ("audit.frontier", "names", lambda: audit().frontier(product="backward"), "product must be one that was audited"),
    ("audit store", "stale weights", lambda tmp_path: audit_with_store(tmp_path, weights=True), r"\(model changed\)"),
    ("audit store", "stale inputs", lambda tmp_path: audit_with_store(tmp_path, x=X + 1), r"\(inputs changed\)"),
    ("audit store", "stale metric", lambda tmp_path: audit_with_store(tmp_path, metric=None), "metric changed"),
    ("audit store", "stale flags", lambda tmp_path: under(
        backends.cudnn.flags(benchmark=True), audit_with_store, tmp_path) or audit_with_store(tmp_path), "flags ch"),
    ("sensitivity", "foreign", lambda: explain.sensitivity(InNumPy(), X), "precision affects nothing in this InNumPy"),
    ("sensitivity", "foreign inputs", lambda: explain.sensitivity(MODEL, ARRAY), "must be a minitorch_backends Tensor"),
    ("sensitivity", "type", lambda: explain.sensitivity(HALF, X.bfloat16()), "no product obeyed .*, 2 did not"),
    ("sensitivity", "names", lambda: explain.sensitivity(MODEL, X, precisions="fp7"), "'fp7' is not a precision"),
    ("sensitivity", "nothing", lambda: under(
        backends.flags(fp32_precision="tf32"), explain.sensitivity, MODEL, X), "must not be in force, .* got 'tf32'"),
    ("record", "foreign", lambda: "no product obeyed" in str(record_of(in_numpy, X)), None),
    ("record", "type", lambda: "no product obeyed precision flags, 2" in str(record_of(HALF, X.bfloat16())), None),
    ("diff", "foreign", lambda: explain.diff(record_of(in_numpy, X), record_of(in_numpy, X)), "runs must have calls"),
    ("precision_of", "names", lambda: explain.precision_of("matmull"), "did you mean 'matmul'"),
    ("compare", "foreign", lambda tmp_path: lab.compare(
        _numpy_run(tmp_path / "a"), _numpy_run(tmp_path / "b")), "runs must have calls, got none in"),
    ("compare", "type", lambda tmp_path: "differ; in the second, no product obeyed precision flags, 2 did not" in str(
        lab.compare(*two_runs(tmp_path, (HALF, X.bfloat16()), (HALF, X.bfloat16()), fp32_precision="tf32"))), None),
    ("compare", "type of values", lambda: lab.compare(X, X.double()).counts()["differs"] == 1, None),
    ("compare", "names of values", lambda: lab.compare({"a": X}, {"b": X}).counts()["same"] == 0, None),
    ("compare", "nothing", lambda: lab.compare([], []), "expected tensors, arrays or numbers"),
    ("compare", "stale", lambda: lab.compare(__file__, __file__), "a run that lab.capture of this version wrote"),
    ("first_divergence", "foreign", lambda tmp_path: lab.first_divergence(
        _numpy_run(tmp_path / "a"), _numpy_run(tmp_path / "b")), "runs must have calls, got none in"),
    ("first_divergence", "stale", lambda tmp_path: (
        "only one run has it" in str(lab.first_divergence(*two_runs(tmp_path, (), (MODEL, X[:4]))))), None),
    ("certificate", "foreign", lambda: certificate(in_numpy, invariant="shards"), "shards must split a sum"),
    ("certificate", "nothing", lambda: certificate(batch_sizes=(), threads=()), "one of batch_sizes, .*got none"),
    ("certificate", "one thread", lambda: certificate(threads=(mt.get_num_threads(),)), "than the one in force"),
    ("certificate", "one shard", lambda: certificate(shards=(1,)), "shards must name another number than the one in f"),
    ("certificate", "no parts", lambda: certificate(inputs=X[:1]), "must name parts of a batch of 1 rows"),
    ("certificate", "no positions", lambda: certificate(positions=(50,)), r"a batch of 8 rows, got .* \(50,\)"),
    ("certificate", "no rows", lambda: certificate(total), r"an output must have rows of the batch of 8, got .*\(\)"),
    ("certificate", "some rows", lambda: "not compared over parts: output[1]" in str(
        certificate(lambda x: (x * 2, x.sum()))), None),
    ("certificate", "names", lambda: certificate(invariant="bach"), "invariant must be one of"),
    ("certificate", "type", lambda: certificate(HALF, X.bfloat16(), invariant="shards").holds, None),
    ("capture", "names", lambda tmp_path: lab.capture(tmp_path / "a", results="value").__enter__(), "results must be"),
    ("Policy", "names", lambda: under(Policy({"*": "bf16", "9": "ieee"}), MODEL, X), "no module has a name like '9'"),
    ("Policy", "foreign", lambda: under(Policy({"*": "bf16"}), in_numpy, X), "the block called no module"),
    ("Policy", "foreign model", lambda: under(Policy({"*": "bf16"}), InNumPy(), X), "its precisions changed nothing"),
    ("Policy", "type", lambda: under(Policy({"*": "tf32"}), HALF, X.bfloat16()),
     "its precisions changed nothing: no product obeyed .*, 2 did not"),
    ("Policy", "no product", lambda: under(Policy({"1": "bf16"}), MODEL, X),
     r"changed nothing: its globs match no module whose products they lower \(2 products obeyed"),
    ("Policy.from_json", "names", lambda: Policy.from_json(json.dumps({"*": {"precision": "tf32"}})), "JSON from"),
    ("Policy.onnx", "names", lambda: Policy({"9": "tf32"}).onnx(["conv"]), "no module has a name like '9'"),
    ("run_under", "names", lambda: nn.utils.run_under(MODEL, Policy({"9": "ieee"})), "no module has a name like '9'"),
    ("run_under", "type", _run_under_says, None),
    ("flags", "names", lambda: backends.flags(profile="H1000").__enter__(), "did you mean 'h100'"),
    ("einsum", "names", lambda: mt.einsum_plan("ab,bc,cd", (2, 3), (3, 4), (4, 5), strategy="greedi"), "mean 'greedy'"),
    ("einsum", "budget", lambda: mt.einsum_plan(
        "ab,bc,cd->ad", (30, 40), (40, 50), (50, 3), memory_limit=300, slices="auto"), "the least memory found is"),
    ("Plan.lower_within", "budget", lambda: mt.einsum_plan("ab,bc", (3, 4), (4, 5)).lower_within(1e-12), "at least"),
    ("shell audit", "type", lambda shell: _is(
        shell("audit", "half", "--inputs", "half_inputs"), 2, "no product obeyed precision flags, 1 did not"), None),
    ("shell audit", "foreign", lambda shell: _is(
        shell("audit", "model", "--inputs", "array"), 2, "must be a minitorch_backends Tensor"), None),
    ("shell audit", "names", lambda shell: _is(shell("audit", "modell"), 2, "defines no 'modell'"), None),
    ("shell audit", "budget", lambda shell: _is(
        shell("audit", "model", "--metric", "logits", "--budget", "margin=0", "--precisions", "bf16"), 1,
        "cannot be met: the least is margin"), None),
    ("shell certify", "nothing", lambda shell: _is(
        shell("certify", "total", "--capabilities", "none"), 2, "an output must have rows"), None),
    ("shell sweep", "type", lambda shell: _is(
        shell("sweep", "in_bfloat16", "--over", "n=4", "--flag", "fp32_precision=tf32"), 1, "no flag of prec"), None),
    ("shell sweep", "names", lambda shell: _is(
        shell("sweep", "in_bfloat16", "--over", "n=4", "--flag", "fp32_precison=tf32"), 2, "did you mean"), None),
    ("shell compare", "type", lambda tmp_path, capsys: cli.main(["compare", *map(str, two_runs(
        tmp_path, (HALF, X.bfloat16()), (HALF, X.bfloat16()), fp32_precision="tf32"))]) == 0 and (
        "no product obeyed precision flags, 2 did not" in capsys.readouterr().out), None),
    ("pytest plugin", "type", lambda tmp_path: _is(
        suite(tmp_path, HALF_SUITE, "--minitorch-emulate=xla"), 1, "no product obeyed precision flags, 1 did"), None),
    ("pytest plugin", "type, profile", lambda tmp_path: _is(
        suite(tmp_path, HALF_SUITE, "--minitorch-profile=h100"), 0, "1 product obeyed precision flags"), None),
    ("pytest plugin", "nothing", lambda tmp_path: _is(
        suite(tmp_path, "import pytest\ndef test():\n    pytest.skip('none')\n", "--minitorch-emulate=cuda"), 1,
        "it says nothing about the flags"), None),
    ("pytest plugin", "names", lambda tmp_path: suite(tmp_path, HALF_SUITE, "--minitorch-emulate=tpu2")[0] == 4, None),
]  # fmt: skip


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield Shell(tmp_path, capsys)
    sys.modules.pop("study_of_clears", None)


@pytest.mark.parametrize(
    ("attempt", "refusal"), [row[2:] for row in ROWS], ids=[f"{row[0]}, {row[1]}".replace(" ", "_") for row in ROWS]
)
@pytest.mark.filterwarnings("error:Policy. ")
def test_nothing_is_called_clear_that_was_not_measured(
    attempt: Callable[..., Any], refusal: str | None, request: pytest.FixtureRequest
) -> None:
    code: Any = attempt.__code__  # type: ignore[attr-defined]
    wanted = code.co_varnames[: code.co_argcount]
    arguments = [request.getfixturevalue("tmp_path" if each == "folder" else each) for each in wanted]
    if refusal is None:
        assert attempt(*arguments) is True
        return
    with pytest.raises((ValueError, RuntimeError, TypeError, UserWarning), match=refusal):
        attempt(*arguments)


def test_the_table_has_no_row_twice() -> None:
    assert len({row[:2] for row in ROWS}) == len(ROWS)
