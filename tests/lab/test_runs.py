"""Runs in files, and their comparison: alignment, reported differences, and invalid files."""

import functools
import json
import math
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitorch_backends as mt
from minitorch_backends import backends, explain, lab, nn
from minitorch_backends.lab.comparison import align

from ..support.processes import python

pytestmark = pytest.mark.usefixtures("default_flags")


def step(path, extra=0, results="statistics"):
    """Capture a step of training of two layers and one in a part, with products between that no module makes."""
    mt.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 4)))
    x, other = mt.randn(6, 8), mt.randn(16, 16)
    with lab.capture(path, results=results) as log:
        y = model(x)
        for _ in range(extra):
            other @ other
        y.square().sum().backward()
    return log


def test_calls_that_were_inserted(tmp_path):
    """One run in another process, at another precision, with 20 calls more."""
    first = step(tmp_path / "a.run", results="values")
    script = f"from tests.lab.test_runs import step\nstep({str(tmp_path / 'b.run')!r}, 20, 'values')"
    assert not python(script, MINITORCH_FP32_PRECISION="tf32").error
    found = lab.compare(tmp_path / "a.run", tmp_path / "b.run")
    assert found.counts() == {"same": 0, "differs": len(first), "inserted": 20, "removed": 0}
    assert [row["b"] for row in found.calls if row["status"] == "inserted"] == list(range(7, 27))
    assert found.settings()["fp32_precision"] == ("unset", "tf32")
    back = lab.compare(tmp_path / "b.run", tmp_path / "a.run")
    assert [row["a"] for row in back.calls if row["status"] == "removed"] == list(range(7, 27))
    errors = [row["error"] for row in found.rows[: len(first)]]
    assert errors == sorted(errors, reverse=True)
    for row in found.rows[: len(first)]:
        (x,), (y,) = found.first.values(row["a"]), found.second.values(row["b"])
        assert row["error"] == pytest.approx(np.linalg.norm(y - x) / np.linalg.norm(x), rel=1e-3)
        assert row["max_abs"] == np.abs(y.astype(np.float64) - x).max()
        if row["kernel"] != "output":
            assert (row["precision_a"], row["precision_b"]) == ("ieee", "tf32")
            assert {"precision", "decided_by"} <= set(row["changed"])


def test_a_run_holds_what_was_recorded(tmp_path):
    log = step(tmp_path / "a.run")
    run = lab.Run.read(tmp_path / "a.run")
    assert run.log == log
    assert explain.diff(run.log, log) is None
    assert run.log[0].module == "0"
    assert run.about["calls"] == len(run) == len(log)
    with zipfile.ZipFile(tmp_path / "a.run") as archive:
        assert archive.namelist() == ["calls.jsonl", "sketches.npy", "run.json"]
    with pytest.raises(ValueError, match="holds statistics; capture with results='values'"):
        run.values(0)


def test_sketches_tell_how_far_results_are_apart(tmp_path):
    mt.manual_seed(0)
    x = mt.randn(64, 64)
    for name, noise in (("a", 0.0), ("b", 1e-4)):
        with lab.capture(tmp_path / name):
            mt.eye(64) @ (x + noise * mt.randn(64, 64))
    (row,) = lab.compare(tmp_path / "a", tmp_path / "b").rows
    assert row["error_from"] == "sketch"
    assert row["error"] == pytest.approx(1e-4, rel=0.25)


def test_hashes_tell_whether_results_are_the_same(tmp_path):
    for name in ("a", "b"):
        step(tmp_path / name, results="hashes")
    with backends.flags(fp32_precision="bf16"):
        step(tmp_path / "c", results="hashes")
    same = lab.compare(tmp_path / "a", tmp_path / "b")
    assert same.counts()["same"] == len(same.calls)
    assert str(same) == "no call differs"
    rows = lab.compare(tmp_path / "a", tmp_path / "c").rows
    assert {(row["status"], row["error"]) for row in rows} == {("differs", None)}


def test_results_that_are_not_finite(tmp_path):
    for name, value in (("a", 1.0), ("b", math.nan), ("c", math.inf)):
        with lab.capture(tmp_path / name, results="values"):
            mt.tensor([[value, 0.0]]) @ mt.ones(2, 2)
    for other in ("b", "c"):
        (row,) = lab.compare(tmp_path / "a", tmp_path / other).rows
        assert row["error"] == math.inf
        assert json.loads(lab.compare(tmp_path / "a", tmp_path / other).to_json())["rows"][0]["error"] == "inf"
    assert lab.Run.read(tmp_path / "b").results[0][0]["nan"] == 2
    assert lab.compare(tmp_path / "b", tmp_path / "b").counts()["same"] == 1


def test_values_of_types_that_numpy_lacks(tmp_path):
    x = mt.randn(4, 4, dtype=mt.bfloat16)
    with lab.capture(tmp_path / "a", results="values"):
        product = x @ x
    (found,) = lab.Run.read(tmp_path / "a").values(0)
    assert found.dtype.name == "bfloat16"
    assert np.array_equal(found, product.numpy())


def test_a_run_that_ends_with_an_exception(tmp_path):
    def fails():
        with lab.capture(tmp_path / "a.run"):
            mt.ones(2, 2) @ mt.ones(2, 2)
            raise KeyError("x")

    with pytest.raises(KeyError):
        fails()
    run = lab.Run.read(tmp_path / "a.run")
    assert (len(run), run.about["exception"]) == (1, "KeyError: 'x'")
    assert [path.name for path in tmp_path.iterdir()] == ["a.run"]


def test_the_page(tmp_path):
    step(tmp_path / "a.run")
    with backends.flags(fp32_precision="bf16"):
        step(tmp_path / "b.run", 2)
    found = lab.compare(tmp_path / "a.run", tmp_path / "b.run")
    found.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("<tr class=") == len(found.calls)
    assert page.count('<tr class="inserted"') == 2
    assert '<option value="2.0">' in page
    assert "http" not in page
    assert found.table(3).count("\n") == 3


@functools.cache
def longest(a, b):
    if not a or not b:
        return 0
    return max(longest(a[1:], b), longest(a, b[1:]), (a[0] == b[0]) + longest(a[1:], b[1:]) if a[0] == b[0] else 0)


@given(st.text("abc", max_size=7), st.text("abc", max_size=7), st.data())
def test_alignments_are_the_longest(a, b, data):
    similar = data.draw(st.lists(st.booleans(), min_size=49, max_size=49))
    pairs = align(a, b, lambda i, places: np.array([similar[7 * i + place] for place in places]))
    assert [i for i, _ in pairs if i is not None] == list(range(len(a)))
    assert [j for _, j in pairs if j is not None] == list(range(len(b)))
    matches = [(i, j) for i, j in pairs if None not in (i, j)]
    assert all(a[i] == b[j] for i, j in matches)
    assert len(matches) == longest(a, b)


def test_similar_results_decide_between_equal_calls():
    values = [3.0, 1.0, 4.0, 2.0], [9.0, 3.0, 9.0, 1.0, 4.0, 9.0, 2.0]
    pairs = align("xxxx", "xxxxxxx", lambda i, places: np.array(values[1])[places] == values[0][i])
    assert [(i, j) for i, j in pairs if i is not None] == [(0, 1), (1, 3), (2, 4), (3, 6)]


def test_what_is_no_run(tmp_path):
    (tmp_path / "text").write_text("{}")
    np.savez(tmp_path / "arrays.npz", x=np.ones(2))
    with zipfile.ZipFile(tmp_path / "later", "w") as archive:
        archive.writestr("run.json", json.dumps({"format": "minitorch-backends run", "version": 99}))
    for name in ("text", "arrays.npz", "later"):
        with pytest.raises(ValueError, match=r"must be a run that lab\.capture of this version wrote"):
            lab.compare(tmp_path / name, tmp_path / name)
    with pytest.raises(FileNotFoundError):
        lab.Run.read(tmp_path / "none")


def test_objects_in_a_run_are_not_loaded(tmp_path):
    step(tmp_path / "a.run", results="values")
    hostile = tmp_path / "b.run"
    with zipfile.ZipFile(tmp_path / "a.run") as source, zipfile.ZipFile(hostile, "w") as target:
        for name in source.namelist():
            if not name.startswith("values/"):
                target.writestr(name, source.read(name))
        with target.open("values/0.0.npy", "w") as file:
            np.save(file, np.array([print], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="must be a run"):
        lab.Run.read(hostile).values(0)


def test_wrong_arguments(tmp_path):
    with pytest.raises(ValueError, match="results must be 'hashes', 'statistics' or 'values', got 'all'"):
        lab.capture(tmp_path / "a", results="all").__enter__()
    with pytest.raises(FileNotFoundError):
        lab.capture(tmp_path / "no" / "a").__enter__()


def test_a_forked_process_leaves_the_run_to_its_parent(tmp_path):
    path = tmp_path / "a.run"
    program = f"""
import os, sys
import minitorch_backends as mt
from minitorch_backends import lab
with lab.capture({str(path)!r}, results="values"):
    x = mt.ones(30, 30)
    x @ x
    if os.fork() == 0:
        x @ x, x @ x
        sys.exit(0)
    os.wait()
    x @ x
"""
    assert not python(program).error
    run = lab.Run.read(path)
    assert len(run) == 2
    assert (run.values(1)[0] == 30).all()
    assert list(tmp_path.iterdir()) == [path]


class Parts(nn.Module):
    """Modules that compute their results by other means than products."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm, self.act = nn.Embedding(9, 8), nn.LayerNorm(8), nn.ELU(0.5)
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.last(self.act(self.norm(self.first(self.embed(x)))))


@pytest.mark.parametrize("results", ["hashes", "statistics", "values"])
@pytest.mark.parametrize("part", ["embed", "norm", "act", "first", "last"])
def test_runs_part_at_the_module_that_differs(part, results, tmp_path):
    mt.manual_seed(0)
    model, x = Parts(), mt.arange(9)
    with mt.no_grad():
        with lab.capture(tmp_path / "a.run", results=results) as log:
            model(x)
        if part == "act":
            model.act.alpha = 0.9
        else:
            getattr(getattr(model, part), "weight" if part == "embed" else "bias").add_(0.5)
        with lab.capture(tmp_path / "b.run", results=results):
            model(x)
    assert [(each.kernel, each.module) for each in log if each.kernel == "output"] == [
        ("output", name) for name in ("embed", "first", "norm", "act", "last")
    ]
    found = lab.first_divergence(tmp_path / "a.run", tmp_path / "b.run")
    assert found.module == part
    assert "explain" in str(found)
    lab.compare(tmp_path / "a.run", tmp_path / "b.run").report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.index(f"in module &#x27;{part}&#x27;") < page.index("<form>")


def test_values_compare_as_runs_do():
    a = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    assert str(lab.compare(a, mt.tensor(a))) == "no call differs"
    moved = a.copy()
    moved[1, 2] += 0.5
    (row,) = lab.compare({"logits": a}, {"logits": mt.tensor(moved)}).calls
    assert (row["module"], row["status"], row["at"]) == ("logits", "differs", (1, 2))
    assert row["error"] == pytest.approx(0.5 / np.linalg.norm(a), rel=1e-6)
    assert row["max_abs"] == pytest.approx(0.5, rel=1e-6)
    assert row["max_ulp"] == pytest.approx(0.5 / np.spacing(np.abs(a[1, 2])), rel=1e-6)
    a[0, 0] = moved[0, 1] = np.nan
    (row,) = lab.compare(a, moved).calls
    assert (row["error"], row["max_abs"], row["at"]) == (math.inf, math.inf, (0, 0))
    assert json.loads(lab.compare(a, moved).to_json())["rows"][0]["max_ulp"] == "inf"
    moved[0, 1], moved[0, 0] = 0.0, np.nan
    assert lab.compare(a, moved).calls[0]["error"] < 1
    narrow = lab.compare(mt.tensor(moved), mt.tensor(moved).bfloat16())
    assert narrow.calls[0]["max_ulp"] <= 0.5
    assert "dtypes float32 -> bfloat16" in str(narrow)
    other = lab.compare([a, 1.0], [a[:2], 1.0])
    assert other.counts() == {"same": 1, "differs": 0, "inserted": 1, "removed": 1}


def test_values_are_not_compared_with_runs():
    with pytest.raises(ValueError, match="both must be runs, or both values, got ndarray and str"):
        lab.compare(np.ones(3), "a.run")
    with pytest.raises(TypeError, match="expected tensors, arrays or numbers"):
        lab.compare(object(), object())
