"""The plugin of pytest on suites of torch, and comparisons of torch's tensors."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import minitorch_backends as mt
from minitorch_backends import cli, lab
from minitorch_backends.testing import assert_close

from ..testing.test_plugin import run_suite

SUITE = """
import torch

def test_at_the_tolerance_of_float32():
    torch.manual_seed(0)
    a, b = torch.randn(64, 256), torch.randn(256, 64)
    torch.testing.assert_close(a @ b, (a.double() @ b.double()).float(), rtol=1e-5, atol=1e-4)
"""


def test_a_suite_of_torch_runs_under_the_flags(tmp_path: Path) -> None:
    done = run_suite(tmp_path, SUITE, "--minitorch-torch", "--minitorch-emulate=ort-cuda")
    assert done.returncode == 1
    assert "Mismatched elements" in done.stdout
    assert "1 product obeyed precision flags, 1 did not" in done.stdout
    assert run_suite(tmp_path, SUITE, "--minitorch-torch").returncode == 0


def test_a_suite_of_torch_outside_of_the_bridge_fails(tmp_path: Path) -> None:
    done = run_suite(tmp_path, SUITE, "--minitorch-emulate=ort-cuda")
    assert done.returncode == 1
    assert "1 passed" in done.stdout
    assert "no product obeyed precision flags, in 1 tests" in done.stdout
    assert "torch was imported, and its products were not counted: --minitorch-torch runs them" in done.stdout


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.int64])
def test_tensors_of_torch_are_compared(dtype: torch.dtype) -> None:
    value = torch.arange(6).reshape(2, 3).to(dtype)
    for other in (value, mt.as_tensor(value), value.T.contiguous().T):
        assert_close(value, other)
        assert_close({"a": [other]}, {"a": [value]})
    if dtype is not torch.bfloat16:
        assert_close(value, value.numpy())
    with pytest.raises(AssertionError, match="1 of 6 elements differ"):
        assert_close(value + torch.eye(2, 3, dtype=dtype) * torch.tensor([[1], [0]], dtype=dtype), value)
    assert_close(torch.ones(2, requires_grad=True), np.ones(2, np.float32), k=8)
    assert_close(torch.tensor([1j]).conj(), torch.tensor([-1j]))


def test_a_function_of_torch_is_certified() -> None:
    torch.manual_seed(0)
    weight = torch.randn(64, 8)
    with mt.backends.flags(invariant="batch"):
        found = lab.certificate(lambda x: x @ weight, torch.randn(8, 64), capabilities=())
    assert found.holds
    assert len(found.checks) > 4
    assert not lab.certificate(lambda x: x - x.mean(), torch.randn(8, 64), capabilities=()).holds


def test_the_shell_audits_a_module_of_torch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "model_of_torch.py"
    file.write_text("import torch\nmodel = torch.nn.Linear(4, 2).eval()\ninputs = torch.randn(3, 4)\n")
    assert cli.main(["audit", f"{file}:model", "--precisions", "bf16"]) == 0
    found = capsys.readouterr().out
    assert "Audit of model_of_torch.py:model" in found
    assert "bf16" in found
    np.savez(tmp_path / "batch.npz", np.ones((3, 4), np.float32))
    arrays = ["--inputs", str(tmp_path / "batch.npz"), "--precisions", "bf16", "--json"]
    assert cli.main(["audit", f"{file}:model", *arrays]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["error"] > 1e-4
    assert cli.main(["certify", f"{file}:model", *arrays[:2], "--invariant", "batch", "--capabilities", "none"]) == 0
    assert "Linear holds in" in capsys.readouterr().out


def test_a_row_of_torch_runs_again_under_its_flags() -> None:
    flags = {"fp32_precision": ["ieee", "bf16"]}
    found = lab.sweep(lambda n: torch.randn(n, n) @ torch.randn(n, n), over={"n": [64]}, flags=flags, progress=False)
    exact, rounded = (found.rerun(row) for row in found.rows)
    assert 1e-4 < float((rounded - exact).norm() / exact.norm()) < 1e-2
