"""Runs of plain torch: what they hold, and where they part from the emulation of another precision."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from minitorch_backends import lab
from minitorch_backends.interop.torch import emulate
from minitorch_backends.lab import torch_capture

from ..support.processes import PATIENCE

torch = pytest.importorskip("torch")


class Model(torch.nn.Module):
    """A convolution, a recurrent layer, attention and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv1d(4, 16, 3, padding=1)
        self.lstm = torch.nn.LSTM(16, 16, batch_first=True)
        self.heads = torch.nn.ModuleDict({"out": torch.nn.Linear(16, 3)})

    def forward(self, x: torch.Tensor) -> dict[str, object]:
        hidden, state = self.lstm(self.conv(x).transpose(1, 2))
        q = hidden.unflatten(-1, (2, 8)).transpose(1, 2)
        attended = torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
        return {"logits": self.heads["out"](attended.transpose(1, 2).flatten(-2)), "state": state, "name": "text"}


def step(path: Path, results: str = "values") -> lab.Run:
    torch.manual_seed(0)
    model, x = Model(), torch.randn(2, 4, 10)
    with lab.capture_torch(path, results=results):
        model(x)["logits"].square().sum().backward()
    return lab.Run.read(path)


def test_a_run_holds_modules_products_and_operands(tmp_path: Path) -> None:
    run = step(tmp_path / "a.run")
    forward = [(call.module, call.kernel) for call in run.log if call.direction == "forward"]
    assert forward == [
        ("conv", "conv1d operands"),
        ("conv", "conv1d"),
        ("conv", "output of Conv1d"),
        ("lstm", "lstm operands"),
        ("lstm", "lstm"),
        ("lstm", "output of LSTM"),
        ("", "scaled_dot_product_attention operands"),
        ("", "scaled_dot_product_attention"),
        ("heads.out", "linear operands"),
        ("heads.out", "linear"),
        ("heads.out", "output of Linear"),
        ("", "output of Model"),
    ]
    place = forward.index(("heads.out", "linear"))
    x, weight, bias = run.values(place - 1)
    np.testing.assert_allclose(run.values(place)[0], x @ weight.T + bias, rtol=1e-4, atol=1e-6)
    backward = {(call.module, call.kernel) for call in run.log if call.direction == "backward"}
    assert {
        ("heads.out", "mm"),
        ("conv", "convolution_backward"),
        ("", "scaled_dot_product_attention_backward"),
    } <= backward
    assert [each["shape"] for each in run.results[len(forward) - 1]] == [[2, 10, 3], [1, 2, 16], [1, 2, 16]]


@pytest.mark.parametrize("results", ["statistics", "values"])
def test_plain_torch_parts_from_an_emulation_where_the_precision_acts(results: str, tmp_path: Path) -> None:
    step(tmp_path / "plain.run", results)
    with emulate():
        step(tmp_path / "ieee.run", results)
    with emulate(fp32_precision="bf16"):
        step(tmp_path / "bf16.run", results)
    same = lab.compare(tmp_path / "plain.run", tmp_path / "ieee.run")
    forward = [row for row in same.calls if row["direction"] == "forward"]
    assert all(row["status"] in ("same", "differs") and row["error"] < 1e-5 for row in forward)
    found = lab.compare(tmp_path / "plain.run", tmp_path / "bf16.run")
    first = next(row for row in found.calls if row["status"] == "differs")
    assert (first["a"], first["module"], first["kernel"]) == (1, "conv", "conv1d")
    assert 1e-4 < first["error"] < 1e-2
    assert found.settings()["fp32_precision"][1] == "bf16"


def test_the_file_alone_captures_a_script(tmp_path: Path) -> None:
    shutil.copy(torch_capture.__file__, tmp_path / "torch_capture.py")
    (tmp_path / "script.py").write_text(
        "import sys, torch\nassert sys.argv[1:] == ['--results', 'x'] and __name__ == '__main__'\n"
        "assert 'minitorch_backends' not in sys.modules\n"
        "x, z = torch.ones(2, 3, dtype=torch.bfloat16), torch.ones(2, 2, dtype=torch.complex64)\n"
        "with torch.inference_mode():\n    torch.nn.functional.linear(x, x)\n    torch.mm(z, z)\n"
    )
    command = [sys.executable, "torch_capture.py", "--results", "values", "a.run", "script.py", "--results", "x"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=PATIENCE)
    run = lab.Run.read(tmp_path / "a.run")
    assert [(call.kernel, call.dtypes[0]) for call in run.log] == [
        ("linear operands", "bfloat16"), ("linear", "bfloat16"), ("mm operands", "complex64"), ("mm", "complex64")
    ]  # fmt: skip
    assert run.values(1)[0].tolist() == [[3, 3], [3, 3]]
    assert run.values(1)[0].dtype.name == "bfloat16"
    assert (run.values(3)[0] == 2).all()
    assert run.about["exception"] is None
    assert "torch " in run.about["versions"]
    with pytest.raises(ValueError, match="results must be 'hashes'"), lab.capture_torch("x.run", results="all"):
        pass
