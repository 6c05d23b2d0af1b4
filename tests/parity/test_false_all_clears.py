"""False all-clears: every entry point, asked in each way that would measure nothing, refuses or answers rightly.

The ways: outside of the bridge to torch, by wrong names, for foreign arrays, from a stale store, and within a budget
out of reach. REFUSALS has what each refusal says; the other cells are True where the answer is right.
"""

from __future__ import annotations

import json
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch

import minitorch_backends as mt
from minitorch_backends import backends, cli, explain, lab, nn
from minitorch_backends.interop.torch import emulate
from minitorch_backends.lab import Policy


def _model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).eval()


MODEL, X, OTHER = _model(), torch.randn(8, 16), torch.randn(8, 16)
OURS = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)).eval()


class InNumPy(nn.Module):
    """A model that computes outside of every kernel."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(mt.ones(4, 4))

    def forward(self, x):
        return mt.from_numpy(x.numpy() @ self.weight.detach().numpy())


def audit_inside():
    with torch.no_grad(), emulate():
        return lab.audit(MODEL, X, ("tf32", "bf16"), budget=1e-3)


def by_numpy(n, seed):
    x = np.random.default_rng(seed).standard_normal((n, n)).astype(np.float32)
    return x @ x


def by_torch(n, seed):
    x = torch.randn(n, n)
    return x @ x


def by_names(n, seed):
    return FACTOR * mt.randn(n, n) @ mt.eye(n)


FACTOR = 1.0


def rows_of(function, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lab.sweep(function, over={"n": [8]}, repeats=0, progress=False, **options).rows


def run_of(path, model, x):
    with torch.no_grad(), lab.capture(path):
        model(x)
    return path


def stale(folder, monkeypatch):
    rows_of(by_names, store=folder)
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    rows_of(by_names, store=folder)


def policy_on(model, policy, x=X, bridge=emulate):
    with torch.no_grad(), bridge(), policy:
        model(x)


def _nameless():
    """A graph without the names of the modules that it was made from."""
    found = torch.export.export(MODEL, (X,)).module()
    for node in found.graph.nodes:
        node.meta.pop("nn_module_stack", None)
    return found


def unmet(metric_floor=0.5):
    def metric(answer, truth):
        return metric_floor + float((answer - truth).abs().max())

    found = lab.audit(MODEL, X, "bf16", metric, 0.1)
    return (
        not found.is_met
        and "cannot be met: the least is metric 0.5" in found.summary()
        and "within" not in found.summary()
    )


def shell(tmp_path, text, *arguments):
    """The exit code of the command, and what it wrote."""
    (tmp_path / "study.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "minitorch_backends", *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


class nullbridge:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


ATTEMPTS = {
    ("audit", "outside"): lambda t, m: lab.audit(MODEL, X, "bf16").whole("bf16")["error"] > 0,
    ("audit", "names"): lambda t, m: lab.audit(MODEL, X, "fp7"),
    ("audit", "foreign"): lambda t, m: lab.audit(InNumPy(), mt.ones(2, 4), "bf16"),
    ("audit", "budget"): lambda t, m: unmet(),
    ("audit.measure_on", "outside"): lambda t, m: audit_inside().measure_on(OTHER)["error"] > 0,
    ("audit.frontier", "outside"): lambda t, m: audit_inside().frontier()[-1].measured > 0,
    ("audit.frontier", "names"): lambda t, m: audit_inside().frontier(product="backward"),
    ("audit.layers", "names"): lambda t, m: audit_inside().layers(precision="fp16"),
    ("audit.whole", "names"): lambda t, m: audit_inside().whole("fp16"),
    ("audit.report", "outside"): lambda t, m: (
        audit_inside().report(t / "page.html") or "of 2 layers keep" in (t / "page.html").read_text(encoding="utf-8")
    ),
    ("sensitivity", "outside"): lambda t, m: explain.sensitivity(MODEL, X),
    ("sensitivity", "foreign"): lambda t, m: explain.sensitivity(InNumPy(), mt.ones(2, 4)),
    ("sensitivity", "names"): lambda t, m: explain.sensitivity(OURS, mt.ones(1, 16), precisions="fp7"),
    ("sweep", "outside"): lambda t, m: 0 < rows_of(by_torch, flags=[{"fp32_precision": "ieee"}])[0]["error"] < 1e-6,
    ("sweep", "names"): lambda t, m: rows_of(by_torch, flags=[{"fp32_precison": "bf16"}]),
    ("sweep", "foreign"): lambda t, m: (
        "no flag of precision acted" in rows_of(by_numpy, flags=[{"fp32_precision": "bf16"}])[0]["exception"]
    ),
    ("sweep", "foreign, no flags"): lambda t, m: rows_of(by_numpy)[0]["reference"].startswith("none: "),
    ("sweep", "stale"): lambda t, m: stale(t / "store", m),
    ("Sweep.read", "stale"): lambda t, m: lab.Sweep.read(t),
    ("Policy", "outside"): lambda t, m: policy_on(MODEL, Policy({"*": "bf16"}), bridge=nullbridge),
    ("Policy", "names"): lambda t, m: policy_on(MODEL, Policy({"*": "bf16", "9": "ieee"})),
    ("Policy", "foreign"): lambda t, m: policy_on(_nameless(), Policy({"2": "bf16"})),
    ("run_under", "names"): lambda t, m: nn.utils.run_under(MODEL, Policy({"9": "ieee"})),
    ("run_under", "foreign"): lambda t, m: nn.utils.run_under(
        _nameless(), Policy({"2": "bf16"})
    ),
    ("Policy.torch", "names"): lambda t, m: exec(Policy({"9": "tf32"}).torch(), {"model": MODEL}),
    ("Policy.onnx", "names"): lambda t, m: Policy({"9": "tf32"}).onnx(["conv"]),
    ("Policy.from_json", "names"): lambda t, m: Policy.from_json(json.dumps({"*": {"precision": "tf32"}})),
    ("capture and compare", "outside"): lambda t, m: lab.compare(
        run_of(t / "a.run", MODEL, X), run_of(t / "b.run", MODEL, OTHER)
    ),
    ("first_divergence", "outside"): lambda t, m: lab.first_divergence(
        run_of(t / "a.run", MODEL, X), run_of(t / "b.run", MODEL, OTHER)
    ),
    ("compare", "foreign"): lambda t, m: lab.compare(__file__, __file__),
    ("precision_of", "names"): lambda t, m: explain.precision_of("matmull"),
    ("flags", "names"): lambda t, m: backends.flags(profile="H1000").__enter__(),
    ("einsum", "names"): lambda t, m: mt.einsum_plan("ab,bc,cd", (2, 3), (3, 4), (4, 5), strategy="greedi"),
    ("einsum", "budget"): lambda t, m: mt.einsum_plan(
        "ab,bc,cd->ad", (30, 40), (40, 50), (50, 3), memory_limit=300, slices="auto"
    ),
    ("Plan.lower_within", "budget"): lambda t, m: mt.einsum_plan("ab,bc", (3, 4), (4, 5)).lower_within(1e-12),
    ("shell audit", "names"): lambda t, m: (
        shell(t, "import minitorch_backends as mt\n", "audit", "study.py:model")[0] == 2
    ),
    ("shell sweep", "foreign"): lambda t, m: (
        shell(
            t,
            "import numpy as np\ndef f(seed):\n    return np.ones((2, 2), np.float32) @ np.ones((2, 2), np.float32)\n",
            "sweep", "study.py:f", "--flag", "fp32_precision=bf16",
        )[0] == 1
    ),
    ("shell compare", "outside"): lambda t, m: cli.main(
        ["compare", str(run_of(t / "a.run", MODEL, X)), str(run_of(t / "b.run", MODEL, OTHER))]
    ) == 2,
    ("pytest plugin", "foreign"): lambda t, m: "no product obeyed" in pytest_on(
        t, "import numpy as np\ndef test_a():\n    assert (np.ones((2, 2)) @ np.ones((2, 2))).sum() == 8\n"
    ),
    ("pytest plugin", "outside"): lambda t, m: "no product obeyed" in pytest_on(
        t, "import torch\ndef test_a():\n    assert (torch.ones(2, 2) @ torch.ones(2, 2)).sum() == 8\n"
    ),
}  # fmt: skip


def pytest_on(folder, text):
    (folder / "test_suite.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--minitorch-emulate=cuda", "test_suite.py"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0, done.stdout
    return done.stdout + done.stderr


REFUSALS = {
    ("audit", "names"): "'fp7' is not a precision",
    ("audit", "foreign"): "precisions affect nothing in this InNumPy: no product obeyed precision flags",
    ("audit.frontier", "names"): r"product must be one that was audited \('forward'\), got 'backward'",
    ("audit.layers", "names"): r"precision must be one that was audited \('bf16', 'tf32'\), got 'fp16'",
    ("audit.whole", "names"): r"precision must be one that was audited \('bf16', 'tf32'\), got 'fp16'",
    ("sensitivity", "outside"): "precision affects nothing in this Sequential .*; call it inside interop",
    ("sensitivity", "foreign"): "precision affects nothing in this InNumPy",
    ("sensitivity", "names"): "'fp7' is not a precision",
    ("sweep", "names"): "did you mean 'fp32_precision'",
    ("sweep", "stale"): r"FACTOR changed\); pass reuse=True to keep them, reuse=False to discard them",
    ("Sweep.read", "stale"): "store must be a folder that a sweep wrote",
    ("Policy", "outside"): "the block called no module; models of torch run inside",
    ("Policy", "names"): "no module has a name like '9'; the names are '', '0', '1', '2'",
    ("Policy", "foreign"): "apply it to the module from which this one was made",
    ("run_under", "names"): "no module has a name like '9'; the names are",
    ("run_under", "foreign"): "apply it to the module from which this one was made",
    ("Policy.torch", "names"): "no module has a name like '9'",
    ("Policy.onnx", "names"): "no module has a name like '9'",
    ("Policy.from_json", "names"): "text must be JSON from to_json",
    ("capture and compare", "outside"): "runs must have calls, got none in .*; capture models of torch inside",
    ("first_divergence", "outside"): "runs must have calls, got none in",
    ("compare", "foreign"): "must be a run that lab.capture of this version wrote",
    ("precision_of", "names"): "did you mean 'matmul'",
    ("flags", "names"): "did you mean 'h100'",
    ("einsum", "names"): "did you mean 'greedy'",
    ("einsum", "budget"): "found no slices that fit .* the least memory found is",
    ("Plan.lower_within", "budget"): "budget must be at least",
}


@pytest.mark.parametrize(("entry", "way"), ATTEMPTS, ids=lambda each: each.replace(" ", "_"))
@pytest.mark.filterwarnings("error:Policy. the block called no module")
def test_nothing_is_called_clear_that_was_not_measured(entry, way, tmp_path, monkeypatch):
    attempt, refusal = ATTEMPTS[entry, way], REFUSALS.get((entry, way))
    if refusal is None:
        assert attempt(tmp_path, monkeypatch) is True
        return
    with pytest.raises((ValueError, RuntimeError, TypeError, AssertionError, UserWarning), match=refusal):
        attempt(tmp_path, monkeypatch)


def test_a_record_outside_of_the_bridge_says_so():
    with torch.no_grad(), explain.record() as log:
        MODEL(X)
    assert "no product obeyed precision flags; torch models run inside interop.torch.emulate()" in str(log)
