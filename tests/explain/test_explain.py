"""`explain`: records, tables, JSON, differences, and answers without running."""

import contextlib
import functools
import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import backends, explain
from minitorch_backends.kernels import registry
from minitorch_backends.kernels.gemm import matmul as kernel
from minitorch_backends.kernels.runtime import invariance
from minitorch_backends.tensor.registry import registry as ops

from ..support.calls import TABLE
from ..support.counting import functions_called

pytestmark = pytest.mark.usefixtures("default_flags")


@pytest.fixture
def factors() -> tuple[Any, Any]:
    mt.manual_seed(0)
    return mt.randn(6, 8, requires_grad=True), mt.randn(8, 5, requires_grad=True)


def test_every_call_is_listed_with_its_direction(factors: tuple[Any, Any]) -> None:
    x, w = factors
    with explain.record() as log:
        y = x @ w
        y.sum().backward()
        (x.double() @ w.double()).detach()
    assert [entry.direction for entry in log] == ["forward", "backward", "backward", "forward"]
    assert [entry.shapes for entry in log[:3]] == [((6, 8), (8, 5)), ((6, 5), (5, 8)), ((8, 6), (6, 5))]
    assert [entry.dtypes for entry in log] == [("float32",) * 2] * 3 + [("float64",) * 2]
    assert log[0].decided_by == "no flag allows less than ieee"
    assert log[3].decided_by == "fp32_precision flags affect float32 and complex64 products only"
    assert all(0 < entry.seconds < 10 for entry in log)
    x @ w
    assert len(log) == 4, "the region has ended"


def test_refusals_are_those_of_the_kernel(factors: tuple[Any, Any]) -> None:
    x, w = (each.detach() for each in factors)
    with explain.record() as log:
        x @ w
    decision = kernel.decide(x.numpy(), w.numpy())
    assert log[0].implementation == decision.candidates[0].name
    assert log[0].refusals == decision.refusals


def test_a_table_has_a_line_for_each_call(factors: tuple[Any, Any]) -> None:
    x, w = (each.detach() for each in factors)
    with explain.record() as log:
        x @ w
        mt.matmul(x, w, precision="tf32")
    lines = log.table().splitlines()
    assert " ".join(lines[0].split()) == "kernel shapes dtype precision implementation direction ms decided by"
    assert lines[1].split()[:6] == ["matmul", "6x8", "@", "8x5", "float32", "ieee"]
    assert "tf32 rounding=rna" in lines[2]
    assert lines[2].endswith("precision='tf32' of the call")
    assert len(lines) == 3
    assert str(log) == log.table()
    detailed = log.table(refusals=True).splitlines()
    assert len(detailed) == 3 + sum(len(entry.refusals) for entry in log)
    for name, sentence in log[0].refusals:
        assert f"    not {name}: {sentence}" in detailed


def test_json_and_back(factors: tuple[Any, Any]) -> None:
    x, w = factors
    with backends.cuda.flags(blas_library="cublaslt"), explain.record() as log:
        (x @ w).sum().backward()
    listed = json.loads(log.to_json())
    assert [entry["implementation"] for entry in listed] == ["blas"] * 3
    assert listed[0]["options"] == [["prefer", "blas"]]
    assert all(entry["decided_by"].endswith("; cuda.blas_library = 'cublaslt'") for entry in listed)
    assert explain.Log.from_json(log.to_json()) == log


def test_a_notebook_gets_an_escaped_table(factors: tuple[Any, Any]) -> None:
    x, w = (each.detach() for each in factors)
    with explain.record() as log:
        x @ w
    log.append(log[0]._replace(decided_by="<script>", refusals=(("amx", 'says "no" & <b>'),)))
    text = log._repr_html_()
    assert text.count("<tr>") == 3
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert 'title="not amx: says &quot;no&quot; &amp; &lt;b&gt;"' in text


def test_difference_of_two_runs(factors: tuple[Any, Any]) -> None:
    x, w = factors

    def run(precision: str) -> explain.Log:
        with explain.record() as log:
            y = x @ w
            with backends.flags(fp32_precision=precision):
                y.sum().backward()
        return log

    ieee, again, tf32 = run("ieee"), run("ieee"), run("tf32")
    assert explain.diff(ieee, ieee) is None
    assert explain.diff(ieee, again) is None, "time does not count as a difference"
    found = explain.diff(ieee, tf32)
    assert found is not None
    assert (found.number, found.first, found.second) == (1, ieee[1], tf32[1])
    assert {"precision", "decided_by"} <= set(found.fields)
    text = str(found)
    assert text.startswith("call 1 differs in precision, ")
    assert "precision: 'tf32'" in text
    shorter = explain.diff(ieee, ieee[:2])
    assert shorter == explain.Difference(2, (), ieee[2], None)
    assert str(shorter).splitlines()[0] == "call 2: one run has ended"
    assert str(shorter).endswith("second: no more calls")


@pytest.mark.parametrize("precision", [None, "ieee", "bf16", "tf32", "bf16x3"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("sizes", [(3, 4, 5), (300, 200, 100)])
def test_why_is_what_runs(precision: str | None, dtype: str, sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    a, b = mt.ones(m, k).to(getattr(mt, dtype)), mt.ones(k, n).to(getattr(mt, dtype))
    for emulated in (None, "xla"):
        with backends.flags(emulate=emulated):
            answer = explain.why("matmul", a, b, precision=precision)
            with explain.record() as log:
                mt.matmul(a, b, precision=precision)
        ran = log[0]
        assert answer.implementations[0] == ran.implementation
        assert (answer.precision, answer.decided_by, answer.options) == (ran.precision, ran.decided_by, ran.options)
        assert answer.refusals == ran.refusals
        assert answer.shapes == ran.shapes


def test_why_runs_nothing() -> None:
    a = mt.ones(3, 3)
    with explain.record() as log:
        answer = explain.why("matmul", a, a[0])
    assert not log
    assert answer.shapes == ((3, 3), (3, 1))
    text = str(answer).splitlines()
    assert text[0].startswith(f"matmul of 3x3 @ 3x1 runs by {answer.implementations[0]} at ieee: no flag allows")
    assert text[-1] == "    or definition, if those before it reject the data"
    assert text[1] == f"    thresholds: {answer.tuning}"
    assert len(text) == 1 + len(answer.refusals) + len(answer.implementations)


@pytest.mark.parametrize("name", ["linear", "nn.functional.linear"])
def test_why_answers_for_ops_that_are_made_of_others(name: str) -> None:
    x, weight = mt.ones(3, 4, requires_grad=True), mt.ones(5, 4)
    with backends.flags(fp32_precision="bf16"):
        answer = explain.why(name, x, weight)
    assert (answer.kernel, answer.shapes, answer.precision) == ("matmul", ((3, 4), (4, 5)), "bf16")


def test_why_of_a_half_sum_names_the_kernel_that_fuses_it() -> None:
    x = mt.ones(3, 3).half()
    answer = explain.why("addmm", x, x, x, beta=2)
    assert answer.kernel == "addmm"
    assert dict(answer.options)["beta"] == 2.0


def test_why_changes_nothing() -> None:
    a, before = mt.eye(3), mt.eye(3)
    explain.why("baddbmm", a[None], a[None], a[None])
    assert a.equal(before)
    assert a._version == 0
    with explain.record() as log:
        a @ a
    assert len(log) == 1


def test_why_takes_the_names_of_records() -> None:
    a = mt.ones(3, 3)
    with explain.record() as log:
        mt.linalg.inv(a + mt.eye(3))
    assert explain.why(log[0].kernel, a).kernel == "inv"
    assert "None" not in str(explain.why("rfft", mt.ones(6)))
    assert explain.why("attention", a, a, a).kernel == "attention"
    with pytest.raises(ValueError, match="did you mean 'scaled_dot_product_attention'"):
        explain.why("dot_product_attention", a, a, a)


def test_linear_algebra_says_where_a_lower_precision_does_not_act() -> None:
    a = mt.eye(20) * 2
    with backends.flags(fp32_precision="tf32"), explain.record() as log:
        mt.linalg.cholesky(a)
        mt.cholesky_solve(a[:, :1], a)
        mt.linalg.lstsq(a, a, refine=False)
        mt.linalg.eigvalsh(a.double())
    factors, solution, least_squares, doubles = log
    assert factors.decided_by.endswith("acts in solve, inv, lstsq and cholesky_solve, which refine their results")
    assert "tf32" in factors.decided_by
    assert dict(solution.options)["computed_at"] == dict(least_squares.options)["computed_at"] == "ieee"
    assert "tf32" not in doubles.decided_by


def test_why_needs_an_op_that_calls_a_kernel() -> None:
    with pytest.raises(ValueError, match=r"must be the name of an op, got 'matmull' \(did you mean 'matmul'\?\)"):
        explain.why("matmull")
    with pytest.raises(ValueError, match=r"'relu' calls no kernel"):
        explain.why("relu", mt.ones(3))


def test_recording_belongs_to_the_region_that_asked(factors: tuple[Any, Any]) -> None:
    x, w = (each.detach() for each in factors)
    with explain.record() as outer:
        with explain.record() as inner:
            x @ w
        x @ w
    assert (len(outer), len(inner)) == (2, 1)
    kept: list[explain.Log] = []
    with pytest.raises(KeyError):
        _record_and_fail(x, w, kept)
    x @ w
    assert len(kept[0]) == 1


def _record_and_fail(x: Any, w: Any, kept: list[explain.Log]) -> None:
    with explain.record() as log:
        kept.append(log)
        x @ w
        raise KeyError


def test_recording_that_is_off_costs_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call looks whether anyone observes, and calls nothing else of the recorder."""
    monkeypatch.setattr(invariance, "possible", False)  # a test before this one may have set `backends.invariant`
    assert functions_called(lambda: registry._observers.get() or registry._everywhere) == ["ContextVar.get"]
    x = mt.ones(8, 8).numpy()
    kernel(x, x)
    called = functions_called(lambda: kernel(x, x))
    assert called.count("ContextVar.get") == 1
    assert not [name for name in called if "record" in name.lower() or "observ" in name.lower() or "Log" in name]


# Names of products, and workers


MARKS = {"matmul": "bf16", "conv": "tf32", "rnn": "bf16x3"}
"""A precision for each kind of product, which tells them apart."""

MARKED = {f"mkldnn.{kind}.fp32_precision": precision for kind, precision in MARKS.items()}


def _planned_precisions(name: str, public: Any) -> set[str]:
    """The precisions at which kernels would be called for the samples of an op, as float32."""

    def float32(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(map(float32, value)) if type(value) in (list, tuple) else value
        if not isinstance(value, np.ndarray):
            return value
        return mt.from_numpy(value.astype(np.float32) if value.dtype == np.float64 else value.copy())

    found = set()
    for each in TABLE[name].samples():
        named = {key: float32(value) for key, value in each.kwargs.items()}
        with contextlib.suppress(RuntimeError, TypeError):  # samples of other dtypes
            call = registry.plan(functools.partial(public, *map(float32, each.args), **named))
            found |= {call.keywords.get("precision", "ieee")} if call is not None else set()
    return found - {"ieee"}


def test_precision_of_names_the_kind_that_acts_in_an_op() -> None:
    state = mt.get_rng_state()
    for name, declared in ops.items():
        with backends.flags(**MARKED):
            answer, planned = explain.precision_of(name), _planned_precisions(name, declared.public)
        assert planned <= {answer.precision}, name
        assert answer.precision != "ieee" or answer.decided_by == f"precision flags do not affect {name}"
    mt.set_rng_state(state)


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        ("matmul linear nn.functional.linear einsum scaled_dot_product_attention linalg.solve solve cdist", "matmul"),
        ("attention nn.Linear nn.Bilinear nn.MultiheadAttention", "matmul"),
        ("conv conv2d nn.functional.conv1d conv_transpose3d nn.Conv2d nn.ConvTranspose1d", "conv"),
        ("rnn lstm gru nn.LSTM rnn_tanh rnn_relu lstm_cell nn.GRUCell", "rnn"),
    ],
)
def test_precision_of_takes_public_names(names: str, kind: str) -> None:
    with backends.flags(**MARKED):
        for name in names.split():
            assert explain.precision_of(name).precision == MARKS[kind], name
        assert explain.precision_of("relu").precision == explain.precision_of("linalg.svd").precision == "ieee"


def _precisions_in_a_worker(saved: backends.Snapshot | None) -> tuple[str, str | None]:
    with saved or contextlib.nullcontext(), explain.record() as log:
        mt.ones(3, 3) @ mt.ones(3, 3)
    return log[0].precision, log[0].decided_by


def test_a_snapshot_travels_to_a_worker_and_a_scope_does_not() -> None:
    with backends.flags(fp32_precision="bf16"), ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as workers:
        alone, handed = (workers.submit(_precisions_in_a_worker, saved) for saved in (None, backends.snapshot()))
        precision, decided_by = alone.result()
        assert precision == "ieee"
        assert decided_by is not None
        assert decided_by.endswith("a snapshot() can be passed on")
        assert handed.result() == ("bf16", "fp32_precision = 'bf16', inherited by mkldnn.matmul.fp32_precision")
