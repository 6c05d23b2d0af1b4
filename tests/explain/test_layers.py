"""Layer by layer: which module a kernel call belongs to, how wrong it is, and flags of a module's own."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import backends, explain, lab, nn
from minitorch_backends.autograd.extras.module_scope import current_module
from minitorch_backends.explain import records
from minitorch_backends.explain.records import errors_of
from minitorch_backends.kernels.registry import Call, kernels, observe
from minitorch_backends.utils.checkpoint import checkpoint

pytestmark = pytest.mark.usefixtures("default_flags")


class Net(nn.Module):
    """Every kind of kernel on which a precision acts, and a product outside of its parts."""

    def __init__(self) -> None:
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU())
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.recurrent = nn.LSTM(8, 8, batch_first=True)
        self.head = nn.Linear(8, 4)

    def forward(self, images: Any) -> Any:
        x = self.body(images).flatten(2).mT
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.head(self.recurrent(x)[0]) @ self.head.weight


@pytest.fixture
def net() -> Net:
    mt.manual_seed(0)
    return Net().eval()


@pytest.fixture
def images() -> Any:
    return mt.randn(2, 3, 4, 4)


def names(log: explain.Log, direction: str) -> list[str | None]:
    return list(dict.fromkeys(entry.module for entry in log if entry.direction == direction))


def test_calls_belong_to_the_module_whose_forward_or_gradients_make_them(net: Net, images: Any) -> None:
    with explain.record() as log:
        net(images).sum().backward()
        images[0, 0] @ images[0, 0]
    forward = ["body.0", "attention", "recurrent", "head", ""]
    assert names(log, "forward") == [*forward, None]
    assert names(log, "backward") == forward[::-1]
    assert "body.0" in log.table()
    assert explain.Log.from_json(log.to_json()) == log
    assert all(gradient is not None for gradient in (each.grad for each in net.parameters()))


def test_the_table_has_no_modules_where_there_are_none(images: Any) -> None:
    with explain.record() as log:
        images @ images
    assert "module" not in log.table()
    assert "module" not in log._repr_html_()


def test_recording_changes_no_bit(net: Net, images: Any) -> None:
    def run() -> list[Any]:
        net.zero_grad()
        out = net(images)
        (out * out).sum().backward()
        return [out.detach(), *(each.grad for each in net.parameters())]

    plain = run()
    with explain.record():
        recorded = run()
    assert all(np.array_equal(a.numpy(), b.numpy()) for a, b in zip(plain, recorded, strict=True))


def test_modules_that_nobody_holds_and_those_that_are_called_twice(images: Any) -> None:
    layer = nn.Linear(4, 4)
    model = nn.Sequential(nn.ReLU(), nn.Sequential(layer, layer))
    model.register_forward_hook(lambda module, args, output: nn.Linear(4, 2)(output))
    with explain.record() as log, mt.no_grad():
        model(images)
        layer(images)
    assert [entry.module for entry in log] == ["1.0", "1.0", "Linear", ""]


def test_what_is_computed_again_in_backward_has_names(images: Any) -> None:
    layer = nn.Linear(4, 4)
    with explain.record() as log:
        checkpoint(layer, images, use_reentrant=False).sum().backward()
    assert {entry.module for entry in log} == {""}
    assert [entry.direction for entry in log][:1] == ["forward"]


def test_errors_of_calls_are_those_to_the_definition(net: Net, images: Any) -> None:
    """Kernels that compute in float64 themselves, with packed weights, half types and complex numbers."""
    seen: list[str] = []

    def compare(call: Call) -> None:
        definition = kernels[call.kernel].reference(*call.arrays, **call.keywords)
        several = isinstance(call.result, tuple)
        pairs = zip(*((each if several else (each,)) for each in (call.result, definition)), strict=True)
        wanted = max(np.linalg.norm((x.astype(y.dtype) - y).ravel()) / np.linalg.norm(y.ravel()) for x, y in pairs)
        assert errors_of(call)["relative"] == pytest.approx(wanted, rel=1e-3), call.kernel
        seen.append(call.kernel)

    x = mt.randn(5, 8)
    with backends.flags(fp32_precision="bf16"), observe(compare):
        net(images).sum().backward()
        with mt.no_grad():
            net(images)
            nn.Linear(8, 300)(mt.randn(300, 8))
        x.to(mt.complex64) @ x.to(mt.complex64).mT
        mt.addmm(x.half(), x.half(), x[:, :8].half().mT @ x.half(), alpha=2)
        with backends.cuda.matmul.flags(allow_fp16_accumulation=True):
            x.half() @ x.half().mT
        x.double() @ x.double().mT
    assert {"conv", "attention", "attention_gradient", "recurrence", "recurrence_gradient"} <= {*seen}
    assert {"matmul", "linear", "addmm", "half_matmul"} <= {*seen}


@pytest.mark.parametrize("precision", ["ieee", "bf16x3", "tf32", "bf16"])
def test_errors_of_calls_are_those_of_their_precision(net: Net, images: Any, precision: str) -> None:
    with backends.flags(fp32_precision=precision), explain.record(residuals=True) as log:
        net(images).sum().backward()
        with mt.no_grad():
            net(images)  # with packed weights
    expected = max(kernels["matmul"].bound[precision], 1e-7)
    errors = {entry.kernel: dict(entry.options)["relative_error"] for entry in log}
    assert {"conv", "matmul", "attention", "attention_gradient", "recurrence", "recurrence_gradient"} <= errors.keys()
    assert {each.split("_")[0] for each in errors} == {"conv", "matmul", "attention", "recurrence"}, (
        "nothing of references"
    )
    assert all(expected / 300 < error < expected * 4 for error in errors.values()), errors


def test_errors_of_what_is_not_finite_and_of_zeros() -> None:
    x = mt.ones(2, 2)
    with explain.record(residuals=True) as log:
        x @ mt.tensor([[float("inf"), 1.0], [1.0, 1.0]])
        x @ mt.zeros(2, 2)
        mt.fft.fft(x)
        mt.matmul(x * 1e20, x, precision="fp16")  # beyond the format
        x * float("nan") @ x  # nothing to compare with
    errors, inf = [dict(entry.options).get("relative_error") for entry in log], float("inf")
    assert errors == [0.0, 0.0, None, inf, pytest.approx(float("nan"), nan_ok=True)]
    model, large = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)).eval(), mt.ones(2, 4) * 1e20
    rows = lab.audit(model, large, "fp16", gradients=False, progress=False).rows
    assert [row["local_error"] for row in rows] == [inf] * 3
    assert all(each.local != each.local for each in explain.sensitivity(model, large * float("nan")))


def test_parts_of_a_model_run_under_flags_of_their_own(net: Net, images: Any) -> None:
    def precisions(model: Any) -> dict[str | None, str]:
        with explain.record() as log, backends.flags(backward_precision="recorded"):
            model(images).sum().backward()
        assert len({(entry.module, entry.precision) for entry in log}) == len(names(log, "forward"))
        return {entry.module: entry.precision for entry in log}

    exact = dict.fromkeys(("body.0", "attention", "recurrent", "head", ""), "ieee")
    with nn.utils.run_under(net, backends.flags(fp32_precision="tf32"), "body", "h*") as handles:
        parts = {"body.0": "tf32", "head": "tf32"}
        assert precisions(net) == exact | parts
        with nn.utils.run_under(net, backends.flags(fp32_precision="bf16")):
            assert precisions(net) == dict.fromkeys(exact, "bf16") | parts
        copies = copy.deepcopy(net), pickle.loads(pickle.dumps(net))
    assert precisions(net) == exact
    handles.close()
    for each in copies:
        assert precisions(each) == exact | parts


def test_any_scope_serves(images: Any) -> None:
    layer = nn.Linear(4, 4)
    with nn.utils.run_under(layer, mt.no_grad()):
        assert not layer(images).requires_grad
    assert layer(images).requires_grad


def test_scopes_of_modules_refuse(net: Net) -> None:
    with pytest.raises(TypeError, match=r"expects a scope, .* got 'tf32'"):
        nn.utils.run_under(net, "tf32")
    with pytest.raises(ValueError, match=r"run_under\(\): no module has a name like 'heat'; did you mean 'head'\?"):
        nn.utils.run_under(net, mt.no_grad(), "body", "heat")
    assert net.body._hooks is None, "a bad name changes nothing"


def test_each_layer_alone_at_a_lower_precision(net: Net, images: Any) -> None:
    said: list[str] = []
    found = explain.sensitivity(net, images, precisions=["bf16", "bfx9"], progress=said.append)
    layers = ["body.0", "attention", "recurrent", "head", "", None]
    assert [(each.module, each.precision) for each in found] == [
        (layer, precision) for precision in ("bf16", "bf16x9") for layer in layers
    ]
    assert len(said) == len(found)
    *alone, whole = found[:6]
    assert whole.calls == sum(each.calls for each in alone)
    assert all(1e-5 < each.error < 1e-2 for each in found[:6])
    assert all(1e-4 < each.local < 1e-2 for each in found[:6])
    assert whole.error < 2 * sum(each.error for each in alone)
    assert all(each.error < 1e-5 for each in found[6:])
    with backends.flags(fp32_precision="bf16"):
        exact = net(images)
    assert np.linalg.norm((exact - net(images)).detach().numpy()) / np.linalg.norm(net(images).detach().numpy()) == (
        pytest.approx(whole.error, rel=1e-3)
    )
    assert [each.error for each in found.worst_first()] == sorted((each.error for each in found), reverse=True)
    text = str(found).splitlines()
    assert text[0].split() == ["module", "precision", "calls", "local", "error", "error", "of", "answers", "flips"]
    assert text[5].startswith("(itself)  ")
    assert text[6].startswith("(all of it)  ")
    assert f'"module": "body.0",\n  "precision": "{found[0].precision}"' in found.to_json()


@pytest.mark.parametrize("base", ["ieee", "tf32", "bf16"])
def test_only_the_layer_in_question_is_compared_with_float64(
    net: Net, images: Any, monkeypatch: pytest.MonkeyPatch, base: str
) -> None:
    compared: list[str | None] = []

    def errors_of(call: Call) -> dict[str, float]:
        compared.append(current_module())
        return {"relative": 0.0}

    monkeypatch.setattr(records, "errors_of", errors_of)
    whole_model = "ieee" if base == "bf16" else base  # only convolutions may have what is asked for
    with backends.flags(fp32_precision=whole_model, **{"mkldnn.conv.fp32_precision": base}):
        *alone, whole = explain.sensitivity(net, images, precisions="bf16")
    names = [each.module for each in alone for _ in range(each.calls)]
    assert compared[: len(names)] == names
    assert sorted(map(str, compared[len(names) :])) == sorted(map(str, names))
    assert whole.calls == len(names)


def test_layers_are_lowered_whatever_the_flags_say(images: Any) -> None:
    layer = nn.Linear(4, 4)
    scopes = (
        backends.flags(emulate="xla"),
        backends.cuda.matmul.flags(fp32_precision="ieee"),
        backends.flags(fp32_precision="tf32"),
    )
    for scope in scopes:
        with scope:
            for entry in explain.sensitivity(nn.Sequential(layer), images, precisions=["bf16x3"]):
                assert (entry.calls, entry.local < 1e-4) == (1, True)


@pytest.mark.parametrize(
    ("error", "says", "model"),
    [
        (TypeError, "a method of one or a pipeline, got function", lambda x: x),
        (ValueError, "precision affects nothing in this ReLU", nn.ReLU()),
        (RuntimeError, "two calls of the model gave different outputs", nn.Sequential(nn.Linear(4, 40), nn.Dropout())),
    ],
)
def test_sensitivity_refuses(error: Any, says: str, model: Any, images: Any) -> None:
    with pytest.raises(error, match=says):
        explain.sensitivity(model, images)
    with pytest.raises(ValueError, match="'tf23' is not a precision"):
        explain.sensitivity(nn.Linear(4, 4), images, precisions=["tf23"])
