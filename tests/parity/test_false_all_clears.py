"""False all-clears of torch's programs: every entry point refuses where nothing would be measured, or is right.

The ways: outside of the bridge, wrong names, foreign arrays, what changed since (stale), a budget out of reach, and
types that precisions do not affect. A row has the sentence of the refusal, or None where the attempt returns whether
the answer is right. `tests/lab/test_false_all_clears.py` has the rows that need no torch.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from contextlib import nullcontext

import pytest
import torch

import minitorch_backends as mt
from minitorch_backends import backends, cli, explain, lab, nn
from minitorch_backends.interop.torch import emulate
from minitorch_backends.lab import Policy


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).eval()


MODEL, HALF, DOUBLE = model(), model().bfloat16(), model().double()
X, OTHER = torch.randn(8, 16), torch.randn(8, 16)
OURS = mt.from_numpy(X.numpy())
TF32 = Policy({"*": "tf32"})


def by_torch(n, seed):
    return torch.randn(n, n) @ torch.randn(n, n)


def in_bfloat16(n, seed):
    x = torch.randn(n, n).bfloat16()
    return (x @ x).float()


def by_hidden_torch(x):
    """A function of our tensors that computes by torch."""
    with torch.no_grad():
        return mt.from_numpy(MODEL(torch.from_numpy(x.numpy())).numpy())


def audit(of=MODEL, x=X, precisions="bf16", **options):
    return lab.audit(of, x, precisions, progress=False, **options)


def audit_inside():
    with torch.no_grad(), emulate():
        return audit(precisions=("tf32", "bf16"), budget=1e-3)


def audits_of_changed_weights(tmp_path):
    own = model()
    audit(own, store=tmp_path)
    with torch.no_grad():
        own[0].weight.mul_(2.0)
    audit(own, store=tmp_path)


def sweep(function, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lab.sweep(function, over={"n": [8]}, repeats=0, progress=False, **options)


def under_autocast(tmp_path):
    sweep(by_torch, store=tmp_path)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        sweep(by_torch, store=tmp_path)


def rerun_differs():
    found = sweep(by_torch, flags={"fp32_precision": ["ieee", "bf16"]})
    exact, rounded = map(found.rerun, found.rows)
    return 1e-4 < float((exact - rounded).norm() / exact.norm()) < 1e-1


def sensitivity(of=MODEL, x=X, bridge=emulate):
    with bridge():
        return explain.sensitivity(of, x)


def certificate(function=MODEL, inputs=X, **options):
    with torch.no_grad():
        return lab.certificate(function, inputs, capabilities=(), **options)


def run_of(path, of=MODEL, x=X, capture=lab.capture, bridge=nullcontext, **flags):
    with torch.no_grad(), backends.flags(**flags), bridge(), capture(path):
        of(x)
    return path


def two_runs(folder, first=(), second=(), flags=(), **options):
    return run_of(folder / "a.run", *first, **options), run_of(folder / "b.run", *second, **options, **dict(flags))


def by_module(folder, **options):
    """Runs of torch's modules and products."""
    return two_runs(folder, capture=lab.capture_torch, **options)


def record_of(of, x):
    with torch.no_grad(), emulate(), explain.record() as log:
        of(x)
    return str(log)


def policy_on(of, policy, x=X, bridge=emulate):
    with torch.no_grad(), bridge(), policy:
        of(x)


def _nameless():
    """A graph without the names of the modules that it was made from."""
    found = torch.export.export(MODEL, (X,)).module()
    for node in found.graph.nodes:
        node.meta.pop("nn_module_stack", None)
    return found


HALVES = {"first": (HALF, X.bfloat16()), "second": (HALF, X.bfloat16()), "flags": {"fp32_precision": "tf32"}}

STUDY = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)).eval()
half = torch.nn.Linear(4, 4).eval().bfloat16()
inputs, half_inputs = torch.randn(6, 4), torch.randn(6, 4).bfloat16()
def total(x): return model(x).sum()
"""


def shell(folder, capsys, monkeypatch, command, target, *options):
    """The exit code of a command on a study of the user's, and what it wrote."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    file = folder / "study_of_torch.py"
    file.write_text(STUDY)
    code = cli.main([command, f"{file}:{target}", *options])
    sys.modules.pop("study_of_torch")
    return code, "".join(capsys.readouterr())


def program(folder, text, *options):
    """The exit code of a program under flags, and what it wrote."""
    (folder / "program.py").write_text(text)
    command = [sys.executable, "-m", "minitorch_backends", "torch", *options, "program.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def program_with_policy(folder):
    (folder / "policy.json").write_text(Policy({"9": "tf32"}).to_json())
    text = "import torch\ntorch.nn.Sequential(torch.nn.Linear(4, 4))(torch.ones(1, 4))\n"
    return program(folder, text, "--policy", "policy.json")


def suite(folder, text, *options):
    (folder / "test_suite.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "test_suite.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def _is(found, code, sentence):
    assert found[0] == code, found
    assert sentence in found[1], found
    return True


SUITE = "import torch\ndef test():\n    torch.ones(2, 2) @ torch.ones(2, 2)\n"

ROWS = [
    ("audit", "outside", lambda: audit().whole("bf16")["error"] > 0, None),
    ("audit", "foreign", lambda: audit(x=OURS), "inputs must be tensors of torch, as its model is, got one of min"),
    ("audit", "foreign, NumPy", lambda: audit(x=X.numpy()), "inputs must be tensors of torch, .*got one of numpy"),
    ("audit", "foreign, ours", lambda: audit(nn.Linear(16, 4), X), "inputs must be tensors of minitorch_backends"),
    ("audit", "type", lambda: audit(HALF, X.bfloat16()), "affect nothing in this Sequential: .*2 did not"),
    ("audit", "type, float64", lambda: audit(DOUBLE, X.double()), "affect nothing in this Sequential: .*2 did not"),
    ("audit", "budget", lambda: "cannot be met: the least is metric 0.5" in audit(
        metric=lambda a, b: 0.5, budget=0.1).summary(), None),
    ("audit", "stale", audits_of_changed_weights, r"\(model changed\)"),
    ("audit.measure_on", "outside", lambda: audit_inside().measure_on(OTHER)["error"] > 0, None),
    ("audit.frontier", "outside", lambda: audit_inside().frontier()[-1].measured > 0, None),
    ("audit.plot", "outside", lambda: len(audit_inside().plot().axes) == 2, None),
    ("audit.report", "outside", lambda tmp_path: audit_inside().report(tmp_path / "page.html") or "2 layers keep" in (
        tmp_path / "page.html").read_text(encoding="utf-8"), None),
    ("audit.layers", "names", lambda: audit_inside().layers(precision="fp16"), r"was audited \('bf16', 'tf32'\), got"),
    ("sensitivity", "outside", lambda: sensitivity(bridge=nullcontext), "affects nothing .*; call it inside"),
    ("sensitivity", "type", lambda: sensitivity(HALF, X.bfloat16()), "no product obeyed precision flags, 2 did not"),
    ("sensitivity", "foreign", lambda: sensitivity(x=OURS), "inputs must be tensors of torch, as its model is"),
    ("sweep", "outside", lambda: 0 < sweep(
        by_torch, flags=[{"fp32_precision": "ieee"}]).rows[0]["error"] < 1e-6, None),
    ("sweep", "names", lambda: sweep(by_torch, flags=[{"fp32_precison": "bf16"}]), "did you mean 'fp32_precision'"),
    ("sweep", "type", lambda: "1 matmul of bfloat16" in sweep(
        in_bfloat16, flags=[{"fp32_precision": "tf32"}]).rows[0]["exception"], None),
    ("sweep", "type, no flags", lambda: "none: with float64 as default dtype it computes matmul of bfloat16" in sweep(
        in_bfloat16).rows[0]["reference"], None),
    ("sweep", "stale autocast", under_autocast, r"another run \(autocast new\)"),
    ("sweep.rerun", "outside", rerun_differs, None),
    ("certificate", "outside", lambda: certificate(by_hidden_torch, OURS, invariant="batch").holds, None),
    ("certificate", "type", lambda: certificate(DOUBLE, X.double(), invariant="shards", batch_sizes=()),
     "shards must split a sum of this package's kernels"),
    ("certificate", "no rows", lambda: certificate(lambda x: MODEL(x).sum()), "an output must have rows of the batch"),
    ("record", "outside", lambda: _outside() is None, None),
    ("record", "type", lambda: "no product obeyed precision flags, 2 did not" in record_of(HALF, X.bfloat16()), None),
    ("capture", "outside", lambda tmp_path: lab.compare(*two_runs(tmp_path)), "runs must have calls, got none"),
    ("first_divergence", "outside", lambda tmp_path: lab.first_divergence(*two_runs(tmp_path)), "runs must have calls"),
    ("capture_torch", "outside", lambda tmp_path: lab.compare(
        *by_module(tmp_path, flags={"fp32_precision": "bf16"})).settings() == {}, None),
    ("capture_torch", "inside", lambda tmp_path: lab.compare(*by_module(
        tmp_path, flags={"fp32_precision": "bf16"}, bridge=emulate)).counts()["differs"] > 0, None),
    ("capture_torch", "type", lambda tmp_path: "in the second, no product obeyed precision flags, 2 did not" in str(
        lab.compare(*by_module(tmp_path, bridge=emulate, **HALVES))), None),
    ("capture_torch", "foreign", lambda tmp_path: lab.compare(*by_module(
        tmp_path, first=(lambda x: OURS @ OURS.mT,), second=(lambda x: OURS,))), "runs must have calls, got none"),
    ("capture_torch", "stale", lambda tmp_path: "only one run has it" in str(
        lab.first_divergence(*by_module(tmp_path, second=(MODEL, X[:4])))), None),
    ("compare", "type of values", lambda: lab.compare(X, X.double()).counts()["differs"] == 1, None),
    ("compare", "foreign values", lambda: lab.compare(X, OURS).counts() == lab.compare(X.numpy(), X).counts(), None),
    ("Policy", "outside", lambda: policy_on(MODEL, TF32, bridge=nullcontext), "the block called no module; models"),
    ("Policy", "names", lambda: policy_on(MODEL, Policy({"*": "bf16", "9": "ieee"})), "no module has a name like '9'"),
    ("Policy", "type", lambda: policy_on(HALF, TF32, X.bfloat16()), "changed nothing: .*2 did not: 2 matmul"),
    ("Policy", "type, float64", lambda: policy_on(DOUBLE, TF32, X.double()), "its precisions changed nothing"),
    ("Policy", "foreign", lambda: policy_on(_nameless(), Policy({"2": "bf16"})), "apply it to the module from"),
    ("run_under", "foreign", lambda: nn.utils.run_under(_nameless(), Policy({"2": "bf16"})), "apply it to the module"),
    ("run_under", "names", lambda: nn.utils.run_under(MODEL, Policy({"9": "ieee"})), "no module has a name like '9'"),
    ("Policy.torch", "names", lambda: exec(Policy({"9": "tf32"}).torch(), {"model": MODEL}), "no module has a name"),
    ("shell audit", "type", lambda tmp_path, capsys, monkeypatch: _is(shell(
        tmp_path, capsys, monkeypatch, "audit", "half", "--inputs", "half_inputs"), 2, "no product obeyed"), None),
    ("shell certify", "no rows", lambda tmp_path, capsys, monkeypatch: _is(shell(
        tmp_path, capsys, monkeypatch, "certify", "total", "--capabilities", "none"), 2, "must have rows"), None),
    ("shell compare", "outside", lambda tmp_path: cli.main(["compare", *map(str, two_runs(tmp_path))]) == 2, None),
    ("shell torch", "names", lambda tmp_path: _is(program_with_policy(tmp_path), 1, "no module has a name"), None),
    ("shell torch", "type", lambda tmp_path: _is(
        program(tmp_path, "import torch\nx = torch.ones(4, 4).bfloat16()\nx @ x\n", "--flag", "fp32_precision=tf32"), 0,
        "fp32_precision flags acted on none of them"), None),
    ("shell torch", "foreign", lambda tmp_path: _is(
        program(tmp_path, "print(1)\n", "--flag", "fp32_precision=tf32"), 0, "no product of torch ran here"), None),
    ("pytest plugin", "outside", lambda tmp_path: _is(
        suite(tmp_path, SUITE, "--minitorch-emulate=cuda"), 1, "--minitorch-torch runs them"), None),
    ("pytest plugin", "inside", lambda tmp_path: _is(
        suite(tmp_path, SUITE, "--minitorch-torch", "--minitorch-emulate=cuda"), 0, "1 product obeyed"), None),
    ("pytest plugin", "inside, type", lambda tmp_path: _is(
        suite(tmp_path, SUITE.replace("torch.ones(2, 2)", "torch.ones(2, 2).double()"), "--minitorch-torch"), 1,
        "the run fails, since it says nothing about the flags"), None),
    ("pytest plugin", "inside, foreign", lambda tmp_path: _is(
        suite(tmp_path, "import numpy as np\ndef test():\n    np.eye(2) @ np.eye(2)\n", "--minitorch-torch"), 1,
        "no product obeyed precision flags"), None),
]  # fmt: skip


def _outside():
    with torch.no_grad(), explain.record() as log:
        MODEL(X)
    assert "no product obeyed precision flags; torch models run inside interop.torch.emulate()" in str(log)


@pytest.mark.parametrize(
    ("attempt", "refusal"), [row[2:] for row in ROWS], ids=[f"{row[0]}, {row[1]}".replace(" ", "_") for row in ROWS]
)
@pytest.mark.filterwarnings("error:Policy. ")
def test_nothing_is_called_clear_that_was_not_measured(attempt, refusal, request):
    wanted = attempt.__code__.co_varnames[: attempt.__code__.co_argcount]
    arguments = [request.getfixturevalue(each) for each in wanted]
    if refusal is None:
        assert attempt(*arguments) is True
        return
    with pytest.raises((ValueError, RuntimeError, TypeError, AssertionError, UserWarning), match=refusal):
        attempt(*arguments)


def test_the_table_has_no_row_twice():
    assert len({row[:2] for row in ROWS}) == len(ROWS)
