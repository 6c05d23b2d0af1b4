"""Sweeps: the same rows wherever and however often they run, and whatever is killed meanwhile."""

import contextlib
import csv
import functools
import importlib
import json
import linecache
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import lab
from minitorch_backends.lab.dependencies import dependencies
from minitorch_backends.lab.metrics import distances, embedding, logits, regression
from minitorch_backends.lab.pages import Code, Markup, Section, Soft, Table, write_page
from minitorch_backends.lab.store import Store

from ..support.processes import PATIENCE
from ..support.sweep_functions import FLAGS, OVER, dies, effective, fails, slow, sums

VARYING = ("seconds", "first_seconds", "peak_bytes", "threads")
"""What of a row depends on when and where it was run."""


def without_times(rows):
    return [{name: value for name, value in row.items() if name not in VARYING} for row in rows]


sweep_sums = functools.partial(lab.sweep, sums, over=OVER, flags=FLAGS, seeds=2, repeats=1)


@functools.cache
def expected_rows():
    return without_times(sweep_sums().rows)


def test_rows_of_a_sweep():
    rows = sweep_sums().rows
    assert len(rows) == 3 * 2 * 2 * 2
    assert [(row["n"], row["scale"], row["flags"]["fp32_precision"], row["seed"]) for row in rows[:5]] == [
        (2, 1.0, "ieee", 0), (2, 1.0, "ieee", 1), (2, 1.0, "bf16", 0), (2, 1.0, "bf16", 1), (2, 1e3, "ieee", 0),
    ]  # fmt: skip
    for row in rows:
        rounded = row["flags"]["fp32_precision"] == "bf16"
        assert row["effective"]["matmul"] == row["flags"]["fp32_precision"]
        assert row["exception"] is None
        assert (1e-5 if rounded else 0) < row["error"] < (2e-2 if rounded else 1e-6)  # of the same inputs
        assert row["seconds"] > 0
        assert row["peak_bytes"] > 0


@pytest.mark.parametrize("executor", ["processes", "threads", "restarted", "reordered"])
def test_rows_do_not_depend_on_the_executor(executor, tmp_path):
    if executor == "processes":
        found = sweep_sums(executor=2).rows
    elif executor == "threads":
        with ThreadPoolExecutor(1) as pool:
            found = sweep_sums(executor=pool).rows
    elif executor == "restarted":
        for part in ({"n": [3], "scale": [1e3]}, OVER):
            found = lab.sweep(sums, over=part, flags=FLAGS, seeds=2, repeats=1, store=tmp_path).rows
    else:
        backwards = {name: values[::-1] for name, values in OVER.items()}
        found = lab.sweep(sums, over=backwards, flags=FLAGS[::-1], seeds=[1, 0], repeats=1).rows[::-1]
    assert without_times(found) == expected_rows()


def test_dask(tmp_path):
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", local_directory=tmp_path) as cluster,
        Client(cluster) as client,
    ):
        found = sweep_sums(executor=client.get_executor(pure=False)).rows
    assert without_times(found) == expected_rows()


MPI = """
import json, sys
from mpi4py.futures import MPIPoolExecutor
from minitorch_backends import lab
from tests.support.sweep_functions import FLAGS, OVER, sums
if __name__ == "__main__":
    with MPIPoolExecutor() as pool:
        rows = lab.sweep(sums, over=OVER, flags=FLAGS, seeds=2, repeats=1, executor=pool).rows
    with open(sys.argv[1], "w") as file:
        json.dump(rows, file)
"""


@pytest.mark.skipif(
    subprocess.run([sys.executable, "-c", "from mpi4py import MPI"], check=False, capture_output=True).returncode != 0
    or shutil.which("mpiexec", path=os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]) is None,
    reason="no MPI: pip install mpi4py mpich",
)
def test_mpi(tmp_path):
    """One rank sweeps and two work: mpiexec -n 3 python -m mpi4py.futures PROGRAM."""
    program, out = tmp_path / "program.py", tmp_path / "rows.json"
    program.write_text(MPI)
    mpiexec = shutil.which("mpiexec", path=os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"])
    command = [mpiexec, "-n", "3", sys.executable, "-m", "mpi4py.futures", program, out]
    subprocess.run(command, check=True, timeout=PATIENCE, env={**os.environ, "PYTHONPATH": os.getcwd()})
    assert without_times(json.loads(out.read_text(encoding="utf-8"))) == json.loads(json.dumps(expected_rows()))


def start(folder, processes):
    program = "import sys; from tests.support.sweep_functions import main; main(*sys.argv[1:])"
    command = [sys.executable, "-c", program, str(folder), str(processes)]  # stores name functions by their modules
    return subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)


def rows_in(folder):
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in folder.glob("rows-*.jsonl"))


def wait_for(folder, count):
    deadline = time.monotonic() + PATIENCE
    while rows_in(folder) < count and time.monotonic() < deadline:
        time.sleep(0.02)
    assert rows_in(folder) >= count


def workers_of(pid):
    """The processes that it spawned to work, its resource tracker aside."""
    proc = Path("/proc")
    children = [int(child) for child in (proc / f"{pid}/task/{pid}/children").read_text(encoding="utf-8").split()]
    return [child for child in children if "spawn_main" in (proc / f"{child}/cmdline").read_text(encoding="utf-8")]


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="workers are found by /proc")
def test_a_sweep_that_is_killed_again_and_again_loses_nothing(tmp_path):
    """A worker by SIGKILL, the whole by Ctrl-C, the parent by SIGKILL: then the same call goes on to the end."""
    whole = {"over": OVER, "flags": FLAGS, "seeds": 10, "repeats": 0}
    process = start(tmp_path, 2)
    wait_for(tmp_path, 5)
    os.kill(workers_of(process.pid)[0], signal.SIGKILL)
    wait_for(tmp_path, rows_in(tmp_path) + 10)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(PATIENCE) != 0
    assert b"KeyboardInterrupt" in process.communicate()[1]
    before = rows_in(tmp_path)
    process = start(tmp_path, 0)
    wait_for(tmp_path, before + 10)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(PATIENCE)
    process.stderr.close()
    kept = rows_in(tmp_path)
    assert 25 <= kept < 120
    found = lab.sweep(slow, store=tmp_path, **whole).rows
    assert rows_in(tmp_path) - kept in (120 - kept, 121 - kept), "what was there is not run again"
    assert without_times(found) == without_times(lab.sweep(slow, **whole).rows)


@pytest.mark.slow
def test_two_processes_write_to_one_store(tmp_path):
    processes = [start(tmp_path, 0) for _ in range(2)]
    for process in processes:
        assert process.wait(PATIENCE) == 0, process.stderr.read()
        process.stderr.close()
    assert len(list(tmp_path.glob("rows-*.jsonl"))) == 2
    assert len(lab.sweep(slow, over=OVER, flags=FLAGS, seeds=10, repeats=0, store=tmp_path).rows) == 120
    assert len(list(tmp_path.glob("rows-*.jsonl"))) == 2


def test_lines_that_were_cut_are_run_again(tmp_path):
    complete = lab.sweep(sums, over=OVER, flags=FLAGS, seeds=2, repeats=1, store=tmp_path).rows
    (path,) = tmp_path.glob("rows-*.jsonl")
    text = path.read_text(encoding="utf-8")
    path.write_text(text[: len(text) // 2] + "\n" + "[]\n")
    again = lab.sweep(sums, over=OVER, flags=FLAGS, seeds=2, repeats=1, store=tmp_path).rows
    assert without_times(again) == without_times(complete)
    assert len(list(tmp_path.glob("rows-*.jsonl"))) == 2


def test_a_changed_function_is_refused(tmp_path):
    lab.sweep(sums, over=OVER, store=tmp_path, repeats=0)
    with pytest.raises(
        ValueError, match=r"holds rows of another run \(tests.support.sweep_functions.slow new\); pass reuse=True"
    ):
        lab.sweep(slow, over=OVER, store=tmp_path, repeats=0)
    with pytest.raises(ValueError, match="reference changed"):
        lab.sweep(sums, over=OVER, store=tmp_path, repeats=0, reference=None)
    assert len(lab.sweep(slow, over=OVER, store=tmp_path, repeats=0, reuse=False).rows) == 6
    assert rows_in(tmp_path) == 6


MODULE = """
import numpy as np
import minitorch_backends as mt
from {name} import helpers
from {name}.helpers import shift
MODEL = mt.nn.Linear({width}, 3)
FACTOR = {factor}
def local(x):
    return x * FACTOR
class Layer:
    scale = {scale}
    def __call__(self, x):
        return x * self.scale
layer = Layer()
def f(n):
    from {name} import late
    return local(layer(shift(helpers.square(mt.eye(n))))) * late.VALUE + MODEL.weight.sum(){comment}
"""
HELPERS = """
def square(x):
    return x @ x {operator} OFFSET
OFFSET = {offset}
def shift(x, by={by}):
    return x + by
def unused():
    return {unused}
"""
PARTS = {
    "width": 2, "factor": 2, "scale": 3, "comment": "", "operator": "+", "offset": 1, "by": 4, "unused": 5, "late": 6,
}  # fmt: skip


@pytest.fixture
def study(tmp_path, monkeypatch):
    """Writes a package with a swept function, and returns that function, loaded anew."""
    monkeypatch.syspath_prepend(tmp_path)
    name = f"study_{tmp_path.name.replace('-', '_')}"

    def load(**changes):
        parts = {**PARTS, "late": 6, **changes, "name": name}
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        for file, text in (("__init__", ""), ("main", MODULE), ("helpers", HELPERS), ("late", "VALUE = {late}\n")):
            (folder / f"{file}.py").write_text(text.format(**parts))
        for each in [each for each in sys.modules if each.partition(".")[0] == name]:
            del sys.modules[each]
        importlib.invalidate_caches()
        linecache.clearcache()
        mt.manual_seed(0)
        return importlib.import_module(f"{name}.main").f

    with monkeypatch.context() as context:
        context.setattr(sys, "dont_write_bytecode", True)
        yield load


@pytest.mark.parametrize(("change", "named"), [
    ({"width": 5}, "main.MODEL changed"), ({"factor": 7}, "main.FACTOR changed"),
    ({"scale": 8}, "main.Layer changed"), ({"comment": " + 1"}, "main.f changed"),
    ({"operator": "-"}, "helpers.square changed"), ({"offset": 9}, "helpers.OFFSET changed"),
    ({"by": 2}, "helpers.shift"), ({"late": 1}, "late.VALUE changed"), ({"unused": 0}, None), ({}, None),
])  # fmt: skip
def test_stores_depend_on_what_the_function_reaches(study, change, named, tmp_path):
    before, after = dependencies(study()), dependencies(study(**change))
    if named is None:
        assert before == after
        return
    assert not any("unused" in each or each.startswith(("minitorch", "numpy")) for each in after)
    changes = [f"{name} changed" for name in before if before[name] != after.get(name)]
    assert any(named in each for each in changes), changes
    row = {"n": 1, "flags": {}, "exception": None}
    with contextlib.closing(Store(tmp_path / "store", {"functions": before})) as store:
        store.add("key", row)
    with pytest.raises(ValueError, match=f"holds rows of another run .*{re.escape(named)}.*reuse=True"):
        Store(tmp_path / "store", {"functions": after})
    assert Store(tmp_path / "store", {"functions": after}, reuse=True).read() == {"key": row}
    assert Store(tmp_path / "store", {"functions": after}).read() == {"key": row}
    assert Store(tmp_path / "store", {"functions": after}, reuse=False).read() == {}


def test_stores_depend_on_versions_the_cpu_and_the_metric(tmp_path, monkeypatch):
    grid = {"over": {"n": [2], "scale": [1.0]}, "store": tmp_path, "repeats": 0}
    lab.sweep(sums, **grid)
    with pytest.raises(ValueError, match=r"\(metric changed\)"):
        lab.sweep(sums, metric="regression", **grid)
    monkeypatch.setattr("minitorch_backends.lab.sweeps.machine", lambda: {"versions": "other", "capability": "none"})
    with pytest.raises(ValueError, match=r"\(capability changed, versions changed\)"):
        lab.sweep(sums, **grid)
    assert len(lab.sweep(sums, reuse=True, **grid).rows) == 1


def by_numpy(n, seed):
    x = np.random.default_rng(seed).standard_normal((n, n)).astype(np.float32)
    return x @ x


def by_float32(n, seed):
    x = mt.from_numpy(np.random.default_rng(seed).standard_normal((n, n)).astype(np.float32))
    return x @ x


def in_float64(n, seed):
    return mt.randn(n, n).double() @ mt.eye(n).double()


def elementwise(n, seed):
    return mt.randn(n, n).exp()


@pytest.mark.parametrize("function", [by_numpy, in_float64, elementwise])
@pytest.mark.parametrize("flag", ["fp32_precision", "cuda.matmul.fp32_precision", "profile"])
def test_flags_that_act_on_nothing_are_an_error(function, flag):
    value = "h100" if flag == "profile" else "tf32"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (row,) = lab.sweep(function, over={"n": [8]}, flags={flag: [value]}, repeats=0).rows
        assert row["error"] is None
        assert row["exception"].startswith("RuntimeError: no flag of precision acted: no product obeyed")
        assert lab.sweep(function, over={"n": [8]}, repeats=0).rows[0]["exception"] is None


@pytest.mark.parametrize("function", [by_numpy, by_float32])
def test_references_that_are_not_float64_are_none(function):
    with pytest.warns(UserWarning, match=r"sweep\(\): by_.* has no float64 reference: with float64 as default dtype"):
        (row,) = lab.sweep(function, over={"n": [8]}, repeats=0).rows
    assert row["error"] is None
    assert row["reference"].startswith("none: ")
    (row,) = lab.sweep(function, over={"n": [8]}, repeats=0, reference=lambda n, seed: by_numpy(n, seed) * 1.5).rows
    assert row["error"] == pytest.approx(1 / 3, rel=1e-3)
    assert row["reference"] == "function"
    assert row["products"] == {"obeyed": int(function is by_float32)}


def test_flags_of_workers_are_the_parents():
    with mt.backends.flags(fp32_precision="bf16x3"), mt.backends.cudnn.flags(benchmark=True):
        here = effective()
        (row,) = lab.sweep(effective, executor=1, repeats=0, reference=lambda: here).rows
    assert (row["exception"], row["error"]) == (None, 0.0)
    assert len(here) > 40


def test_what_a_cell_raises_stands_in_its_row():
    found = lab.sweep(fails, over={"n": [1, 2, 3]}, seeds=None, reference=None)
    assert [row["exception"] for row in found.rows] == [None, "ValueError: no such matrix", None]
    assert repr(found) == "<Sweep of fails: 3 rows, 1 failed>"
    for shown in (str(found), found._repr_html_()):
        assert "1 of 3 rows failed: ValueError: no such matrix" in shown
    assert "seconds" not in found.rows[1]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal")
def test_a_cell_that_kills_its_process(tmp_path):
    grid = {"n": [1, 2, 3, 4], "folder": [str(tmp_path)]}
    found = lab.sweep(dies, over=grid, seeds=None, reference=None, executor=2, repeats=0)
    assert [row["exception"] for row in found.rows] == [None, None, "the worker process died", None]


def test_results(tmp_path):
    found = sweep_sums(timing="exclusive")
    lines = found.table("error", "seconds").splitlines()
    assert lines[0].split() == ["n", "scale", "flags", "rows", "failed", "error", "seconds"]
    assert len(lines) == 1 + 3 * 2 * 2
    assert str(found) == found.table()
    assert found.rows[0]["timing"] == "exclusive"
    found.to_csv(tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open(newline="") as file:
        assert [float(row["error"]) for row in csv.DictReader(file)] == [row["error"] for row in found.rows]
    points = found.pareto(x="error", y="max_abs", by=["n"])
    assert len(points) == 2 * 6
    assert {point.at for point in points} == {"scale=1.0", "scale=1000.0"}
    assert {"n=2, fp32_precision=ieee", "n=5, fp32_precision=bf16"} < {point.label for point in points}
    assert points[0].best
    points.plot(tmp_path / "points.png")
    assert (tmp_path / "points.png").read_bytes()[:4] == b"\x89PNG"
    found.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "data:image/png;base64," in page
    assert page.count("<tr>") == 1 + 3 * 2 * 2
    assert "http" not in page


def test_the_front_is_what_nothing_beats():
    from minitorch_backends.lab.pareto import pareto

    values = {"a": (1, 5), "b": (2, 3), "c": (3, 4), "d": (4, 1), "e": (2, 6), "f": (5, 1)}
    points = pareto({("", name): [{"x": x, "y": y}] for name, (x, y) in values.items()}, "x", "y")
    assert [point.label for point in points.front] == ["a", "b", "d"]


def test_measures():
    truth = {"": np.array([3.0, 4.0])}
    assert distances({"": np.array([3, 4.5], np.float32)}, truth) == {
        "error": pytest.approx(0.1), "max_abs": 0.5, "max_ulp": pytest.approx(0.5 / 2**-21),
        "cosine": pytest.approx((9 + 18) / (5 * np.hypot(3, 4.5))),
    }  # fmt: skip
    with pytest.raises(ValueError, match="the reference must return the same shapes as the function"):
        distances({"": np.zeros(3)}, truth)
    scores, other = np.array([[0.0, np.log(3)], [1.0, 0.0]]), np.array([[np.log(3), 0.0], [1.0, 0.0]])
    found = logits({"": scores}, {"": other}, top=1)
    assert found["flips"] == found["top1"] == 0.5
    assert found["kl"] == pytest.approx(0.5 * (0.75 * np.log(3) - 0.25 * np.log(3)))
    assert found["log_probability_error"] == pytest.approx(np.log(3))
    assert found["margin"] == pytest.approx(1)  # the difference of the logits changed by twice itself
    vectors, turned = np.array([[3.0, 0.0], [2.0, 1.0], [0.0, 1.0]]), np.array([[0.0, 3.0], [2.0, 1.0], [0.0, 1.0]])
    found = embedding({"": vectors}, {"": turned})
    assert found["cosine_distance"] == pytest.approx(1 / 3)
    assert found["worst_cosine_distance"] == pytest.approx(1)
    assert found["nearest_changed"] == pytest.approx(2 / 3)
    found = regression({"": np.array([1.0, 5.0])}, {"": np.array([2.0, 4.0])})
    assert found == {"rmse": 1.0, "max_abs": 1.0, "bias": 0.0, "unexplained": 1.0}


@pytest.mark.parametrize(("arguments", "sentence"), [
    ({"over": {"n": 3}}, r"over\['n'\] must be a list of values, got 3"),
    ({"over": {"n": [mt.float32]}}, "values of parameter 'n' must be numbers, strings, None"),
    ({"timing": "alone"}, "timing must be 'shared' or 'exclusive', got 'alone'"),
    ({"reference": "float32"}, "reference must be 'float64', 'ieee', a function or None, got 'float32'"),
    ({"metric": "accuracy"}, "metric must be .*'regression', a function or None, got 'accuracy'"),
    ({"executor": 0}, "executor must be .*, got 0"),
    ({"executor": "dask"}, "executor must be .*, got 'dask'"),
    ({"seeds": 0}, "seeds must be a positive number, a list of numbers or None, got 0"),
    ({"repeats": -1}, "repeats must be a non-negative integer, got -1"),
    ({"threads": 0}, "threads must be a positive integer or None, got 0"),
    ({"flags": {"fp32_precision": "tf32"}}, r"flags\['fp32_precision'\] must be a list of values, got 'tf32'"),
])  # fmt: skip
def test_wrong_arguments(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        lab.sweep(sums, **arguments)


def computes():
    a, q = mt.randn(6, 6) + 6 * mt.eye(6), mt.randn(1, 2, 5, 4, requires_grad=True)
    mt.linalg.solve(a, a[:, :2])
    mt.linalg.cholesky(a @ a.T)
    mt.nn.functional.scaled_dot_product_attention(q, q, q).sum().backward()
    mt.nn.LSTM(3, 4)(mt.randn(7, 2, 3))
    return 0.0


def test_operations_are_counted():
    (row,) = lab.sweep(computes, reference=None, repeats=0).rows
    solve, cholesky, product = 6**3 * 2 // 3 + 2 * 36 * 2, 6**3 // 3, 2 * 6**3
    attention, lstm = 2 * (2 + 5) * 2 * 5 * 5 * 4, 2 * 7 * 2 * 16 * (3 + 4)
    assert row["flops"] == {"ieee": solve + cholesky + product + attention + lstm}


def test_measures_that_no_row_has():
    found = lab.sweep(sums, over={"n": [2], "scale": [1.0]}, repeats=1)
    for call in (lambda: found.table("speed"), lambda: found.pareto(x="speed")):
        with pytest.raises(ValueError, match=r"measures must be among n, scale, seed, error, .*, got 'speed'"):
            call()
    with pytest.raises(TypeError, match="function must be callable, got int"):
        lab.sweep(3)


def test_columns_without_values_are_left_out():
    table = Table("t", ("name", "ours", "torch"), [("", "1", ""), (), ("b", "2", "")])
    assert table.without_empty_columns() == ("t", ("name", "ours"), [("", "1"), (), ("b", "2")], 1)


def test_texts_of_pages_are_escaped(tmp_path):
    parts = ["<p>", Soft("<p>"), Code("<p>"), Table("<t>", ("<c>",), [("a < b & c",)]), Markup("<b>bold</b>")]
    write_page(tmp_path / "page.html", "<title>", "&", [Section("<s>", parts, "s")])
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    body = page.partition("<main>")[2]
    assert body.count("&lt;p&gt;") == 3
    assert not {"<t>", "<c>", "<s>"} & set(re.findall("<[a-z]+>", body))
    assert '<td class="name">a &lt; b &amp; c</td>' in body
    assert "<b>bold</b>" in body
    assert '<a href="#s">&lt;s&gt;</a>' in page
