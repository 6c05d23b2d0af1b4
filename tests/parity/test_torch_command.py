"""`minitorch-backends torch`: programs behave as under Python, and every product of every process counts."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from minitorch_backends import lab
from minitorch_backends.interop.program import startup

from ..support.processes import PATIENCE

COMMAND = [sys.executable, "-m", "minitorch_backends", "torch"]
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("MINITORCH_")}

ERROR = """
import numpy as np

def error(seed):
    import torch
    a = torch.randn(24, 32, generator=torch.Generator().manual_seed(seed))
    exact = a.double().numpy()
    return float(np.abs((a @ a.T).numpy() - exact @ exact.T).max())
"""
"""A module whose function makes one product of 24 x 32 x 24, and returns its error: below 1e-4 at ieee alone."""
FLOPS = 2 * 24 * 32 * 24


def run(folder: Path, program: str, *options: str, arguments: tuple = (), **more: Any) -> Any:
    """Run a script under the command, and return the process with `report`."""
    (folder / "errors.py").write_text(ERROR)
    (folder / "script.py").write_text(program)
    done: Any = subprocess.run(
        [*COMMAND, *options, "--json", "report.json", "script.py", *arguments],
        cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False, env=CLEAN, **more,
    )  # fmt: skip
    done.report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return done


def matmuls(report: dict[str, Any]) -> list[tuple[str, str, int, int]]:
    return [(row["kernel"], row["precision"], row["calls"], row["flops"]) for row in report["products"]]


def test_a_script_runs_as_under_python(tmp_path: Path) -> None:
    program = """
import os, pickle, sys, torch
from errors import error
class Own: pass
print(sys.argv, __name__, __file__, sys.path[0] == os.path.dirname(os.path.abspath(__file__)), __spec__)
print(type(pickle.loads(pickle.dumps(Own()))) is Own, input())
layer = torch.nn.Linear(2, 3)
assert torch.compile(layer, fullgraph=True) is layer
assert error(0) > 1e-3
torch.linalg.eigvals(torch.eye(3, dtype=torch.float64))
sys.exit(7)
"""
    arguments = ("--json", "x", "-m", "-h", "--", "--flag")
    done = run(tmp_path, program, "--flag", "fp32_precision=tf32", arguments=arguments, input="line\n")
    assert done.returncode == 7
    assert done.stdout.splitlines() == [
        "['script.py', '--json', 'x', '-m', '-h', '--', '--flag'] __main__ " + f"{tmp_path}/script.py True None",
        "True line",
    ]
    assert set(done.report) >= {"products", "left", "seconds", "exit"}
    assert matmuls(done.report) == [("matmul", "tf32", 1, FLOPS)]
    assert done.report["exit"] == 7
    assert [row["operator"] for row in done.report["left"]] == ["aten.linalg_eig.default"]
    assert "matmul  tf32" in done.stderr
    assert "left to torch: aten.linalg_eig.default" in done.stderr


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_count_however_they_end(method: str, tmp_path: Path) -> None:
    program = f"""
import multiprocessing, os, signal, threading
from errors import error
def killed(seed, results):
    results.put(error(seed))
    results.close(), results.join_thread()
    os.kill(os.getpid(), signal.SIGKILL)
def left_at_once(seed, results):
    results.put(error(seed))
    results.close(), results.join_thread()
    os._exit(0)
if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    found = context.Queue()
    error(0)
    workers = [context.Process(target=each, args=(1, found)) for each in (killed, left_at_once)]
    [each.start() for each in workers]
    errors = [found.get() for each in workers]
    with context.Pool(1) as pool:
        errors += pool.map(error, [2, 3])
    threads = [threading.Thread(target=lambda: errors.append(error(4))) for _ in range(2)]
    [each.start() for each in threads], [each.join() for each in threads]
    assert len(errors) == 6 and min(errors) > 1e-3, errors
"""
    done = run(tmp_path, program, "--flag", "fp32_precision=bf16")
    assert done.returncode == 0, done.stderr
    assert matmuls(done.report) == [("matmul", "bf16", 7, 7 * FLOPS)]
    assert done.report["processes"] == 4


def test_tracebacks_have_the_program_s_frames_alone(tmp_path: Path) -> None:
    program = """
import threading, torch
def wrong():
    torch.nn.Linear(3, 4)(torch.ones(2, 5))
thread = threading.Thread(target=wrong)
thread.start(), thread.join()
try:
    wrong()
except RuntimeError as error:
    raise ValueError("second") from error
"""
    done = run(tmp_path, program)
    plain = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == plain.returncode == 1
    shown = done.stderr[: done.stderr.index("minitorch-backends torch:")]
    frames = [[line for line in text.splitlines() if line.startswith("  ")] for text in (shown, plain.stderr)]
    assert frames[0] == frames[1]
    assert len(frames[0]) > 10
    assert done.report["exit"] == 1


def test_an_interrupt_and_a_signal_end_the_program_as_they_end_python(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import time, torch\ntorch.ones(2, 2) @ torch.ones(2, 2)\nprint('ready', flush=True)\n"
        "try:\n    time.sleep(600)\nexcept KeyboardInterrupt:\n    print('cleaned', flush=True)\n    raise\n"
    )
    for number, printed in ((signal.SIGINT, "cleaned\n"), (signal.SIGTERM, "")):
        process = subprocess.Popen(
            [*COMMAND, "--json", "report.json", "script.py"],
            cwd=tmp_path, env=CLEAN, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        out, error = process.communicate(timeout=PATIENCE)
        assert out == printed
        assert process.returncode == -number
        assert ("KeyboardInterrupt" in error) == (number == signal.SIGINT)
        report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
        assert report["exit"] == -number
        assert report["products"][0]["calls"] == 1


def test_a_module_a_subprocess_and_another_sitecustomize(tmp_path: Path) -> None:
    (tmp_path / "errors.py").write_text(ERROR)
    package, site = tmp_path / "package", tmp_path / "site"
    package.mkdir(), site.mkdir()
    (site / "sitecustomize.py").write_text("import builtins\nbuiltins.from_site = 'here'\n")
    (package / "__main__.py").write_text(
        "import subprocess, sys\nfrom errors import error\nassert error(0) > 1e-3\nprint(from_site, sys.argv[1:])\n"
        "subprocess.run([sys.executable, '-c', 'from errors import error; assert error(1) > 1e-3'], check=True)\n"
    )
    done = subprocess.run(
        [*COMMAND, "--profile", "h100", "--flag", "fp32_precision=tf32", "--json", "r.json", "-m", "package", "-x"],
        cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False,
        env={**CLEAN, "PYTHONPATH": f"{site}:{tmp_path}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "here ['-x']\n"
    assert matmuls(json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))) == [("matmul", "tf32", 2, 2 * FLOPS)]


def test_a_process_that_another_program_starts_reports_itself(tmp_path: Path) -> None:
    (tmp_path / "errors.py").write_text(ERROR)
    program = (
        "import importlib.util, multiprocessing\nassert importlib.util.find_spec('torch')\nfrom errors import error\n"
        "if __name__ == '__main__':\n    error(0)\n    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        assert pool.apply(error, (1,)) > 1e-3\n"
    )
    (tmp_path / "script.py").write_text(program)
    environment = {"MINITORCH_TORCH": "1", "MINITORCH_FP32_PRECISION": "tf32", "PYTHONPATH": startup.__path__[0]}
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False,
        env={**CLEAN, **environment, "MINITORCH_TORCH_JSON": str(tmp_path / "r.json")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert matmuls(json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))) == [("matmul", "tf32", 2, 2 * FLOPS)]
    assert done.stderr.count("minitorch-backends torch:") == 1


RANKS = """
import os, sys
import torch, torch.distributed as dist
from errors import error

def train(rank, ranks, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, ranks), rank=rank, world_size=ranks)
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8, bias=False))
    model(torch.full((4, 8), 1.0 + rank)).sum().backward()
    mean = model.module.weight.grad.clone()
    dist.all_reduce(mean)
    assert torch.equal(mean / ranks, model.module.weight.grad)
    assert error(rank) > 1e-3
    dist.barrier()
    dist.destroy_process_group()
"""
"""Two products of a layer for each rank, forward and backward, and one of `error`."""


@pytest.mark.parametrize("launcher", ["torchrun", "mp.spawn"])
def test_ranks_count_and_the_exit_code_is_kept(launcher: str, tmp_path: Path) -> None:
    program = f"{RANKS}\nif __name__ == '__main__':\n"
    if launcher == "torchrun":
        program += "    train(int(os.environ['RANK']), 2, 'store')\n    sys.exit(int(sys.argv[1]))\n"
        command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "ranks.py"]
    else:
        program += "    torch.multiprocessing.spawn(train, (2, 'store'), 2)\n    sys.exit(int(sys.argv[1]))\n"
        command = ["ranks.py"]
    (tmp_path / "errors.py").write_text(ERROR)
    (tmp_path / "ranks.py").write_text(program)
    done = subprocess.run(
        [*COMMAND, "--flag", "fp32_precision=bf16", "--json", "r.json", *command, "3"],
        cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False, env=CLEAN,
    )  # fmt: skip
    report = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    assert done.returncode == report["exit"] == (1 if launcher == "torchrun" else 3), (
        done.stderr
    )  # torchrun has its own
    assert matmuls(report) == [("matmul", "bf16", 6, 2 * (FLOPS + 2 * 2 * 4 * 8 * 8))]
    assert report["left"] == []
    assert report["processes"] == 2


def test_runs_of_each_process_and_a_policy(tmp_path: Path) -> None:
    program = """
import multiprocessing, torch
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 2))
def step():
    model(torch.ones(4, 8))
if __name__ == "__main__":
    step()
    for method in ("fork", "spawn"):
        worker = multiprocessing.get_context(method).Process(target=step)
        worker.start(), worker.join()
    step()
"""
    (tmp_path / "p.json").write_text(lab.Policy({"*": "ieee", "0": "bf16"}).to_json())
    done = run(tmp_path, program, "--policy", "p.json", "--record", "runs")
    assert done.returncode == 0, done.stderr
    names = {path.name: lab.Run.read(path) for path in (tmp_path / "runs").iterdir()}
    products = {name: [call for call in each.log if call.kernel == "matmul"] for name, each in names.items()}
    counts = {name: len(each) for name, each in products.items()}
    assert counts == {"main.run": 4, "ForkProcess-1.run": 2, "SpawnProcess-2.run": 2}
    for each in products.values():
        assert [(call.module, call.precision) for call in each][:2] == [("0", "bf16"), ("1", "ieee")]
    assert sorted(matmuls(done.report)) == [("matmul", "bf16", 4, 2048), ("matmul", "ieee", 4, 512)]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--flag", "fp32_precison=tf32", "x.py"], "did you mean 'fp32_precision'"),
        (["--flag", "fp32_precision", "x.py"], "NAME=VALUE, got 'fp32_precision'"),
        (["--flag", "fp32_precision=tf33", "x.py"], "tf33"),
        (["--profile", "h101", "x.py"], "h101"),
        (["--recipe", "no-such", "x.py"], "operands.recipe = 'no-such'"),
        (["--policy", "missing.json", "x.py"], "missing.json"),
        (["--json", "missing/r.json", "x.py"], "missing/r.json"),
        (["--record", ".", "x.py"], "--record must be a new folder"),
        ([], "must follow the options"),
        (["-m"], "must follow the options"),
    ],
)
def test_wrong_options_are_one_sentence(options: list[str], sentence: str, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("")
    done = subprocess.run(
        [*COMMAND, *options], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False, env=CLEAN
    )
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_program_without_products_says_so(tmp_path: Path) -> None:
    done = run(tmp_path, "print(1)", "--flag", "fp32_precision=tf32")
    assert (done.report["products"], done.report["left"], done.report["exit"]) == ([], [], 0)
    assert "no product of torch ran here: no flag acted" in done.stderr


def test_a_notebook(tmp_path: Path) -> None:
    program = """
import sys
class Shell:
    def register_magic_function(self, function, kind, name):
        self.magic = function
        assert (kind, name) == ("line", "minitorch")
import minitorch_backends
minitorch_backends.load_ipython_extension(shell := Shell())
from errors import error
assert error(0) < 1e-4
shell.magic("fp32_precision=bf16")
assert error(0) > 1e-3
shell.magic("")
"""
    (tmp_path / "errors.py").write_text(ERROR)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=CLEAN, capture_output=True, text=True, timeout=PATIENCE,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = [line.split()[:3] for line in done.stdout.splitlines() if "matmul" in line]
    assert sorted(rows) == [["matmul", "bf16", "1"], ["matmul", "ieee", "1"]]
    assert done.stderr == ""
