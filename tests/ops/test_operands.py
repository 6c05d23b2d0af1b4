"""Formats of operands by role, in every product, forward and backward, against rounding by hand in front of float64."""

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import backends, explain
from minitorch_backends.backends import precision_policy
from minitorch_backends.backends.profiles import PROFILES
from minitorch_backends.kernels import matrix_units
from minitorch_backends.kernels.precisions import FORMATS, ggml
from minitorch_backends.kernels.precisions.rounding import round_operand
from minitorch_backends.ops.conv import convolution
from minitorch_backends.ops.matmul.by_role import round_for_kernel
from minitorch_backends.tensor.registry import registry

F = mt.nn.functional
RECIPE = {"weight": "mxfp4", "activation": "mxfp8-rceil", "gradient": "mxfp8-e5m2"}
pytestmark = pytest.mark.usefixtures("default_flags")


@pytest.fixture(autouse=True)
def seed() -> None:
    mt.manual_seed(0)


def round_by_hand(x: Any, name: str, axis: int = -1) -> np.ndarray:
    return round_operand(np.asarray(x, np.float32), name, axis).astype(np.float64)


def assert_near(found: Any, expected: np.ndarray, limit: float = 5e-6) -> None:
    found = found.detach().numpy().astype(np.float64)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= limit * np.abs(expected).max()


def inputs(*shapes: tuple[int, ...]) -> list[Any]:
    """An input that needs a gradient, a weight, and a gradient."""
    x, weight, g = (mt.randn(*shape) for shape in shapes)
    return [x.requires_grad_(), mt.nn.Parameter(weight), g]


def by_matmul(x: Any, weight: Any) -> Any:
    return x @ weight.T


def by_addmm(x: Any, weight: Any) -> Any:
    return mt.addmm(mt.zeros(len(weight)), x, weight.T)


def by_einsum(x: Any, weight: Any) -> Any:
    return mt.einsum("ti,oi->to", x, weight)


@pytest.mark.parametrize("compute", [F.linear, by_matmul, by_addmm, by_einsum])
def test_three_products_round_their_operands_along_their_own_k(compute: Callable[..., Any]) -> None:
    x, weight, g = inputs((6, 64), (40, 64), (6, 40))
    with backends.operands.flags(**RECIPE):
        out = compute(x, weight)
        out.backward(g)
    plain, of = [each.detach().numpy() for each in (x, weight, g)], RECIPE
    assert_near(out, round_by_hand(plain[0], of["activation"]) @ round_by_hand(plain[1], of["weight"]).T)
    assert_near(x.grad, round_by_hand(plain[2], of["gradient"]) @ round_by_hand(plain[1], of["weight"], 0))
    assert_near(
        weight.grad, round_by_hand(plain[2], of["gradient"], 0).T @ round_by_hand(plain[0], of["activation"], 0)
    )


def test_flags_of_one_product_of_the_backward_pass() -> None:
    x, weight, g = inputs((6, 64), (40, 64), (6, 40))
    with backends.flags(
        **{
            "operands.weight": "mxfp8",
            "operands.activation": "mxfp8",
            "operands.input_gradient.weight": "e4m3",
            "operands.input_gradient.gradient": "e5m2",
            "operands.weight_gradient.activation": "ieee",
        }
    ):
        F.linear(x, weight).backward(g)
    plain = [each.detach().numpy() for each in (x, weight, g)]
    assert_near(x.grad, round_by_hand(plain[2], "e5m2") @ round_by_hand(plain[1], "e4m3"))
    assert_near(weight.grad, plain[2].astype(float).T @ plain[0])


@pytest.mark.parametrize("dtype", [mt.float32, mt.bfloat16, mt.float16])
def test_a_format_of_weights_alone_is_storage(dtype: Any) -> None:
    """The weight is rounded along its inputs, also for gradients of inputs; the product is that of the dtype."""
    x, weight, g = (each.detach().to(dtype) for each in inputs((6, 64), (40, 64), (6, 40)))
    stored = mt.tensor(round_by_hand(weight.float().numpy(), "int4-32").astype(np.float32)).to(dtype)
    x.requires_grad_()
    with backends.operands.flags(weight="int4-32"):
        out = F.linear(x, mt.nn.Parameter(weight))
        out.backward(g)
    found, x.grad = x.grad, None
    expected = F.linear(x, stored)
    expected.backward(g)
    np.testing.assert_array_equal(out.detach().float().numpy(), expected.detach().float().numpy())
    np.testing.assert_array_equal(found.float().numpy(), x.grad.float().numpy())


def test_precision_flags_hold_for_what_a_storage_format_leaves() -> None:
    x, weight, _ = inputs((6, 64), (40, 64), (6, 40))
    stored = round_by_hand(weight.detach().numpy(), "mxfp4")
    with backends.flags(fp32_precision="bf16", **{"operands.weight": "mxfp4"}), explain.record() as log:
        out = F.linear(x, weight)
    assert [each.precision for each in log] == ["bf16"]
    assert "operands.weight = 'mxfp4'" in log[0].decided_by
    assert_near(out, round_by_hand(x.detach().numpy(), "bf16") @ stored.T)


@pytest.mark.parametrize("dtype", [mt.bfloat16, mt.float16])
def test_pairs_of_half_types_are_summed_in_float32_and_rounded_once(dtype: Any) -> None:
    x, weight, bias = (mt.randn(*shape).to(dtype) for shape in ((6, 64), (40, 64), (40,)))
    with backends.operands.flags(weight="mxfp4", activation="mxfp8"):
        out = F.linear(x, weight, bias)
    exact = (
        round_by_hand(x.float().numpy(), "mxfp8") @ round_by_hand(weight.float().numpy(), "mxfp4").T
        + bias.float().numpy()
    )
    expected = mt.tensor(exact.astype(np.float32)).to(dtype).float().numpy()
    assert (out.float().numpy() == expected).mean() > 0.99, "ties of float32 sums aside"


def test_roles_come_from_parameters() -> None:
    x, weight, _ = inputs((6, 64), (64, 64), (6, 64))
    plain = mt.tensor(weight.detach().numpy())
    with backends.operands.flags(weight="mxfp4"):
        np.testing.assert_array_equal((x @ plain).detach().numpy(), (x.detach() @ plain).numpy())
        with mt.no_grad():
            views = [x @ weight, x @ weight.T.T, x @ weight[None][0], (weight.T @ x.T).T]
        expected = x.detach().numpy().astype(float)
        assert_near(views[0], expected @ round_by_hand(weight.detach().numpy(), "mxfp4", 0))
        for each in views[1:]:
            assert_near(each, expected @ round_by_hand(weight.detach().numpy(), "mxfp4", 0))
    without = x.detach() @ plain
    assert (without.numpy() != views[0].numpy()).any()


def test_a_call_names_both_sides() -> None:
    a, b = mt.randn(5, 64).requires_grad_(), mt.randn(64, 7).requires_grad_()
    g = mt.randn(5, 7)
    out = mt.matmul(a, b, precision=("bf16", "mxfp4"))
    out.backward(g)
    x, y, z = (each.detach().numpy() for each in (a, b, g))
    assert_near(out, round_by_hand(x, "bf16") @ round_by_hand(y, "mxfp4", 0))
    assert_near(a.grad, round_by_hand(z, "bf16") @ round_by_hand(y.T, "mxfp4", 0))
    assert_near(b.grad, round_by_hand(x.T, "bf16") @ round_by_hand(z, "mxfp4", 0))
    one_sided = mt.matmul(a, b, precision=("ieee", "mxfp4"))
    assert_near(one_sided, x.astype(float) @ round_by_hand(y, "mxfp4", 0))


def convolve(x: np.ndarray, weight: np.ndarray, groups: int = 1) -> Any:
    return F.conv2d(mt.tensor(x.astype(float)), mt.tensor(weight.astype(float)), padding=1, groups=groups)


def test_convolutions() -> None:
    x, weight, g = inputs((2, 64, 5, 6), (32, 64, 3, 3), (2, 32, 5, 6))
    with backends.operands.flags(**RECIPE):
        out = F.conv2d(x, weight, padding=1)
        out.backward(g)
    plain = [each.detach().numpy() for each in (x, weight, g)]
    assert_near(out, convolve(round_by_hand(plain[0], "mxfp8-rceil", 1), round_by_hand(plain[1], "mxfp4", 1)).numpy())
    places = [each.reshape(*each.shape[:2], -1) for each in (plain[0], plain[2])]
    left, right = (round_by_hand(each, name).reshape(*each.shape[:2], 5, 6) for each, name in zip(
        places, ("mxfp8-rceil", "mxfp8-e5m2"), strict=True
    ))  # fmt: skip
    exact = [mt.tensor(each).requires_grad_() for each in (plain[0].astype(float), plain[1].astype(float))]
    F.conv2d(exact[0], mt.tensor(round_by_hand(plain[1], "mxfp4", 0)), padding=1).backward(
        mt.tensor(round_by_hand(plain[2], "mxfp8-e5m2", 1))
    )
    F.conv2d(mt.tensor(left), exact[1], padding=1).backward(mt.tensor(right))
    assert_near(x.grad, exact[0].grad.numpy())
    assert_near(weight.grad, exact[1].grad.numpy())


def test_roles_hold_in_functions_that_compute_half_types_in_float32() -> None:
    x, images, bias = mt.randn(6, 2, 64).bfloat16(), mt.randn(2, 64, 5).bfloat16(), mt.zeros(16, dtype=mt.bfloat16)
    bilinear, attention = mt.nn.Bilinear(64, 64, 8).bfloat16(), mt.nn.MultiheadAttention(64, 2).bfloat16()
    kernel = mt.randn(64, 16, 3).bfloat16()
    calls: list[tuple[tuple[str, ...], Callable[..., Any]]] = [
        (("weight",), lambda: bilinear(x, x)),
        (("weight",), lambda: F.conv_transpose1d(images, kernel, bias)),
        *(
            (roles, lambda: attention(x, x, x)[0])
            for roles in (("key",), ("value",), ("query", "key"), ("probability",))
        ),
    ]
    for roles, call in calls:
        plain = call()
        with backends.operands.flags(**dict.fromkeys(roles, "mxfp4")):
            assert 1e-3 < (call() - plain).abs().max() < 10, roles
    for roles in ({"key": "mxfp4", "value": "q4_0"}, {"query": "mxfp8", "key": "mxfp8", "probability": "bf16"}):
        with backends.operands.flags(**roles):
            both = [attention(x, x, x, need_weights=each)[0] for each in (True, False)]
            np.testing.assert_allclose(*(each.detach().float().numpy() for each in both), atol=0.01)


def test_a_convolution_of_another_dtype_says_that_formats_change_nothing() -> None:
    x, weight = mt.randn(1, 4, 5, dtype=mt.float64), mt.randn(4, 4, 3, dtype=mt.float64)
    with backends.operands.flags(weight="mxfp4"), explain.record() as log:
        F.conv1d(x, weight)
    assert "operands.weight = 'mxfp4' changes nothing in a product of float64" in log[0].decided_by


def test_scales_of_a_convolutions_rows_are_of_output_channels() -> None:
    x, weight = mt.randn(1, 6, 4, 4), mt.randn(8, 3, 3, 3)
    with backends.operands.flags(weight="int8-row"):
        out = F.conv2d(x, weight, padding=1, groups=2)
    stored = round_by_hand(weight.reshape(8, -1).numpy(), "int8-row").reshape(weight.shape)
    assert_near(out, convolve(x.numpy(), stored, 2).numpy())


def attention(query: np.ndarray, key: np.ndarray, value: np.ndarray, of_weights: str | None = None) -> np.ndarray:
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    return (weights if of_weights is None else round_by_hand(weights, of_weights)) @ value


def test_a_cache_is_rounded_along_the_head() -> None:
    q, k, v = (mt.randn(2, 3, 40, 32) for _ in range(3))
    k.requires_grad_()
    with backends.operands.flags(key="mxfp8", value="q4_0"):
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        assert_near(
            out, attention(q.numpy(), round_by_hand(k.detach().numpy(), "mxfp8"), round_by_hand(v.numpy(), "q4_0"))
        )
        out.sum().backward()
    found, k.grad = k.grad, None
    stored = mt.tensor(round_by_hand(k.detach().numpy(), "mxfp8").astype(np.float32)).requires_grad_()
    value = mt.tensor(round_by_hand(v.numpy(), "q4_0").astype(np.float32))
    F.scaled_dot_product_attention(q, stored, value, is_causal=True).sum().backward()
    assert_near(found, stored.grad.numpy().astype(float))


def test_attention_with_formats_of_all_operands() -> None:
    q, k, v = (mt.randn(2, 3, 64, 32) for _ in range(3))
    names = dict.fromkeys(("query", "key", "value", "probability"), "mxfp8")
    q.requires_grad_()
    with backends.operands.flags(**names, gradient="bf16"):
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out.sum().backward()
    left, right = (round_by_hand(each.detach().numpy(), "mxfp8") for each in (q, k))
    assert_near(out, attention(left, right, round_by_hand(v.numpy(), "mxfp8", -2), "mxfp8"), 5e-3)
    assert np.isfinite(q.grad.numpy()).all()


LAYERS = {"RNN": mt.nn.RNN, "LSTM": mt.nn.LSTM, "GRU": mt.nn.GRU}


@pytest.mark.parametrize("name", LAYERS)
def test_recurrences(name: str) -> None:
    layer, exact, x = LAYERS[name](32, 64), LAYERS[name](32, 64), mt.randn(5, 3, 32)
    state = layer.state_dict()
    exact.load_state_dict({
        each: mt.tensor(round_by_hand(value.numpy(), "mxfp8").astype(np.float32)) if "weight" in each else value
        for each, value in state.items()
    })  # fmt: skip
    with backends.operands.flags(weight="mxfp8"):
        out = layer(x)[0]
        out.sum().backward()
    expected = exact(x)[0]
    expected.sum().backward()
    assert_near(out, expected.detach().numpy().astype(float))
    assert_near(layer.weight_hh_l0.grad, exact.weight_hh_l0.grad.numpy().astype(float), 2e-5)
    with backends.operands.flags(weight="mxfp8", activation="mxfp8"):
        both = layer(x)[0]
        with mt.no_grad():
            np.testing.assert_array_equal(layer(x)[0].numpy(), both.detach().numpy())
    assert 1e-3 < (both - expected).abs().max() < 0.2
    with pytest.raises(RuntimeError, match="needs a format of weights"), backends.operands.flags(activation="mxfp8"):
        layer(x)


def test_one_step_of_a_recurrence_is_a_sequence_of_one() -> None:
    layer = mt.nn.RNN(32, 64)
    cell = mt.nn.RNNCell(32, 64)
    cell.load_state_dict({each.removesuffix("_l0"): value for each, value in layer.state_dict().items()})
    x, h = mt.randn(1, 3, 32), mt.randn(1, 3, 64)
    with backends.operands.flags(weight="mxfp4", activation="mxfp8"):
        assert_near(cell(x[0], h[0]), layer(x, h)[0][0].detach().numpy().astype(float))


def test_inference_rounds_a_weight_once_and_sees_writes() -> None:
    layer, x = mt.nn.Linear(64, 40), mt.randn(100, 64)
    for names in ({"weight": "mxfp4"}, {"weight": "mxfp4", "activation": "e4m3-row"}):
        with backends.operands.flags(**names):
            expected = F.linear(x, layer.weight, layer.bias).detach().numpy()
            with mt.no_grad():
                for _ in range(2):
                    np.testing.assert_array_equal(layer(x).numpy(), expected)
                layer.weight.mul_(2)
                assert (layer(x).numpy() != expected).any()
                np.testing.assert_array_equal(layer(x).numpy(), F.linear(x, layer.weight, layer.bias).numpy())


LAYERS_OF_IMAGES: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "rows": (lambda: mt.nn.Conv1d(64, 32, 1), (2, 64, 9)),
    "images": (lambda: mt.nn.Conv2d(64, 32, 3, padding=1), (2, 64, 8, 8)),
    "groups": (lambda: mt.nn.Conv2d(64, 32, 3, groups=2, bias=False), (2, 64, 8, 8)),
    "depthwise": (lambda: mt.nn.Conv2d(32, 32, 3, padding=1, groups=32), (2, 32, 8, 8)),
    "volumes": (lambda: mt.nn.Conv3d(32, 16, 3), (1, 32, 4, 5, 6)),
    "transposed": (lambda: mt.nn.ConvTranspose2d(64, 32, 3, stride=2), (2, 64, 8, 8)),
    "transposed groups": (lambda: mt.nn.ConvTranspose1d(64, 32, 3, groups=2, bias=False), (2, 64, 8)),
    "fused": (lambda: mt.nn.utils.fuse(mt.nn.Sequential(mt.nn.Conv2d(64, 32, 3), mt.nn.ReLU())), (2, 64, 8, 8)),
}
FORMATS_OF_IMAGES: list[dict[str, str]] = [
    {"weight": "mxfp4"},
    {"weight": "int8-row"},
    {"activation": "mxfp8"},
    {"weight": "bf16", "activation": "mxfp8"},
    {"weight": "mxfp4", "activation": "e4m3-row"},
    {"weight": "e4m3", "activation": "e4m3"},
]


@pytest.mark.parametrize("dtype", [mt.float32, mt.bfloat16, mt.float16], ids=str)
@pytest.mark.parametrize("name", LAYERS_OF_IMAGES)
def test_inference_rounds_a_convolutions_weight_once_and_sees_writes(name: str, dtype: Any) -> None:
    make, shape = LAYERS_OF_IMAGES[name]
    layer, x = make().to(dtype), mt.randn(*shape).to(dtype)
    optimizer = mt.optim.SGD(layer.parameters(), lr=0.1)
    for names in FORMATS_OF_IMAGES:
        with backends.operands.flags(**names):
            for change in (lambda: layer(x).sum().backward(), optimizer.step, lambda: None):
                change()
                expected = layer(x).detach()
                with mt.no_grad():
                    assert mt.equal(layer(x), expected), names
                    assert mt.equal(layer(x[:1]), layer(x[:1])), names
    other = layer.double()
    with backends.operands.flags(weight="mxfp4"), mt.no_grad():
        assert mt.equal(other(x.double()), other(x.double()))
        assert other(x.double()).dtype is mt.float64


def test_a_convolutions_weight_is_rounded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rounded: list[tuple[str, int]] = []

    def count(kernel: str, x: np.ndarray, name: str, side: int, *rest: Any) -> Any:
        rounded.append((name, side))
        return round_for_kernel(kernel, x, name, side, *rest)

    monkeypatch.setattr(convolution, "round_for_kernel", count)
    layer, x = mt.nn.Conv2d(64, 32, 3), mt.randn(2, 64, 8, 8)
    with backends.operands.flags(weight="mxfp4", activation="mxfp8"), mt.no_grad():
        for _ in range(3):
            layer(x)
        assert rounded.count(("mxfp4", 1)) == 1
        layer.weight.mul_(2)
        layer(x)
        with backends.operands.flags(weight="mxfp8"):
            layer(x)
        layer(x)
        assert [each for each in rounded if each[1]] == [("mxfp4", 1), ("mxfp4", 1), ("mxfp8", 1)]
        with backends.flags(scaled_rounding="stochastic"):
            assert not mt.equal(layer(x), layer(x))
    assert rounded.count(("mxfp8", 0)) == len(rounded) - 5


@pytest.mark.parametrize("scale", [1.0, 1e-30, 0.0, float("inf")])
@pytest.mark.parametrize("names", [("e4m3-row", "e4m3-row"), ("mxfp4", "e5m2-row"), ("e4m3-row", "bf16")])
def test_scales_of_rows_multiply_the_results_of_bf16_products(names: tuple[str, str], scale: float) -> None:
    """Numbers of few bits are exact in bf16; where a scale is too far from 1 they are multiplied in float32."""
    weight, of_x = names
    layer, x = mt.nn.Linear(64, 40, bias=False), mt.randn(3, 5, 64)
    x[1, 2] *= scale
    calls = [lambda: F.linear(x, layer.weight), lambda: x @ layer.weight.T, lambda: layer(x)]
    with backends.operands.flags(weight=weight, activation=of_x), explain.record() as log, mt.no_grad():
        found = [call().numpy() for call in calls]
    plain = of_x.endswith("row") and scale not in (1.0, 0.0)
    assert {each.precision for each in log} == {"ieee" if plain else "bf16"}
    left, right = (round_by_hand(each.detach().numpy(), name) for each, name in ((x, of_x), (layer.weight, weight)))
    with np.errstate(invalid="ignore"):
        expected = left @ right.T
    for each in found:
        for mine, theirs in zip(each.reshape(15, -1), expected.reshape(15, -1), strict=True):
            limit = 2e-6 * np.abs(theirs).max() if np.isfinite(theirs).all() else 0
            np.testing.assert_allclose(mine, theirs, atol=limit, rtol=0)
    with backends.operands.flags(weight=weight, activation=of_x), backends.flags(profile="h100"):
        with explain.record() as log:
            F.linear(x[0], layer.weight)
        assert log[0].precision == "ieee", "no unit of the device takes these formats"


def test_einsum_of_three_operands() -> None:
    x, first, second = mt.randn(4, 64), mt.nn.Parameter(mt.randn(64, 32)), mt.nn.Parameter(mt.randn(32, 5))
    with backends.operands.flags(weight="mxfp4"), backends.opt_einsum.flags(strategy=None):
        out = mt.einsum("ti,ij,jk->tk", x, first, second)
    stored = [round_by_hand(each.detach().numpy(), "mxfp4", 0) for each in (first, second)]
    assert_near(out, x.numpy().astype(float) @ stored[0] @ stored[1])


def test_answers_name_the_formats() -> None:
    with backends.operands.flags(weight="mxfp4", activation="mxfp8"):
        choice = explain.precision_of("linear")
        assert choice.precision == "mxfp8 x mxfp4"
        assert choice.decided_by == "operands.activation = 'mxfp8'; operands.weight = 'mxfp4'"
        assert explain.precision_of("matmul").precision == "ieee"


def test_a_flag_that_changes_nothing_says_so() -> None:
    with backends.flags(fp32_precision="tf32"), explain.record() as log:
        mt.randn(4, 4).bfloat16() @ mt.randn(4, 4).bfloat16()
    assert "changes no product of bfloat16" in log[0].decided_by
    assert "backends.operands" in log[0].decided_by


def test_what_does_not_fit_is_refused() -> None:
    with backends.operands.flags(weight="q4_k"), pytest.raises(RuntimeError) as info:
        F.linear(mt.randn(2, 64), mt.randn(3, 64))
    assert "operands.weight = 'q4_k'" in str(info.value)
    assert "block of 256 does not divide K = 64" in str(info.value)
    assert str(info.value).endswith("choose 'q5_0', as llama-quantize does there")
    with pytest.raises(ValueError, match="'mxfp3' is not a format of operands"):
        mt.matmul(mt.randn(2, 3), mt.randn(3, 2), precision=("mxfp3", "bf16"))
    with pytest.raises(ValueError, match="a pair of formats"):
        mt.matmul(mt.randn(2, 3), mt.randn(3, 2), precision=("bf16",))
    with pytest.raises(RuntimeError, match=r"operands.key = 'mxfp3' is unknown \(did you mean"):
        backends.operands.key = "mxfp3"


def test_a_pair_of_einsum_is_that_of_matmul() -> None:
    a, b, g = mt.randn(5, 64).requires_grad_(), mt.randn(64, 7).requires_grad_(), mt.randn(5, 7)
    pair = ("mxfp8", "mxfp4")
    found, expected = mt.einsum("ij,jk->ik", a, b, precision=pair), mt.matmul(a, b, precision=pair)
    np.testing.assert_array_equal(found.detach().numpy(), expected.detach().numpy())
    for first, second in zip(mt.autograd.grad(found, (a, b), g), mt.autograd.grad(expected, (a, b), g), strict=True):
        np.testing.assert_array_equal(first.numpy(), second.numpy())
    swapped = mt.einsum("jk,ij->ik", b, a, precision=pair[::-1])
    np.testing.assert_array_equal(swapped.detach().numpy(), expected.detach().numpy())
    with pytest.raises(ValueError, match=r"einsum\(\): precision must be one name, or a pair of formats for two"):
        mt.einsum("ij,jk,kl->il", a, b, b.T, precision=pair)
    with pytest.raises(ValueError, match="'mxfp3' is not a format"):
        mt.einsum("ij,jk->ik", a, b, precision=("mxfp3", "bf16"))


@pytest.mark.parametrize("compute", [F.linear, by_matmul, by_addmm, by_einsum])
def test_recorded_gradients_have_the_formats_of_the_forward_pass(compute: Callable[..., Any]) -> None:
    x, weight, g = inputs((6, 64), (40, 64), (6, 40))
    with backends.flags(backward_precision="recorded"):
        with backends.operands.flags(**RECIPE):
            expected = mt.autograd.grad(compute(x, weight), (x, weight), g)
            out = compute(x, weight)
        with explain.record() as log:
            found = mt.autograd.grad(out, (x, weight), g)
        with backends.operands.flags(weight="e4m3", gradient="e5m2"):
            out = compute(x, weight)
        with backends.operands.flags(**RECIPE):
            other = mt.autograd.grad(out, x, g)[0]
    for first, second in zip(found, expected, strict=True):
        np.testing.assert_array_equal(first.numpy(), second.numpy())
    assert all("backward_precision = 'recorded': in the forward pass, operands." in each.decided_by for each in log)
    assert_near(other, round_by_hand(g.numpy(), "e5m2") @ round_by_hand(weight.detach().numpy(), "e4m3"))


@pytest.mark.parametrize("compute", [F.linear, by_matmul, by_addmm])
def test_formats_of_gradients_do_not_depend_on_when_the_first_one_was_set(
    compute: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    x, weight, g = inputs((6, 64), (40, 64), (6, 40))
    monkeypatch.setattr(precision_policy, "by_role", False)
    out = compute(x, weight)
    with backends.operands.flags(**RECIPE):
        found = mt.autograd.grad(out, x, g)[0]
    assert_near(found, round_by_hand(g.numpy(), RECIPE["gradient"]) @ round_by_hand(weight.detach(), "mxfp4", 0))


def test_formats_that_change_nothing_say_so() -> None:
    x, weight, _ = inputs((6, 64), (40, 64), (6, 40))
    with backends.operands.flags(weight="mxfp4"), explain.record() as log:
        x @ weight.detach().T
        F.linear(x.double(), weight.double())
    assert "operands.weight = 'mxfp4' changes nothing in a product without a parameter" in (log[0].decided_by)
    assert "operands.weight = 'mxfp4' changes nothing in a product of float64" in log[1].decided_by
    with backends.operands.flags(gradient="mxfp4"), mt.no_grad(), explain.record() as log:
        mt.nn.Linear(64, 40)(x)
    assert "operands.gradient = 'mxfp4' changes nothing in a product of activation and weight" in log[0].decided_by


def scaled_by_hand(x: np.ndarray, across: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers in E4M3 and the scale of each, of blocks of `across` rows and 128 columns."""
    scales = np.ones_like(x)
    for row in range(0, len(x), across):
        for column in range(0, x.shape[1], 128):
            block = x[row : row + across, column : column + 128]
            scales[row : row + across, column : column + 128] = np.abs(block).max() / np.float32(448)
    return (x / scales).astype(ml_dtypes.float8_e4m3fn).astype(np.float32), scales


def test_deepseek_v3_adds_sums_of_128_products_of_a_tensor_core_in_float32() -> None:
    x, weight = mt.randn(9, 300) * 3, mt.nn.Parameter(mt.randn(140, 300))
    rule = PROFILES["h100"].format("e4m3", "wgmma").rule
    (a, of_a), (b, of_b) = scaled_by_hand(x.numpy(), 1), scaled_by_hand(weight.detach().numpy(), 128)
    expected = np.zeros((9, 140), np.float32)
    for at in range(0, 300, 128):
        part = matrix_units.multiply(rule, "e4m3", a[:, at : at + 128], b[:, at : at + 128].T.copy())
        expected += part * (of_a[:, at : at + 1] * of_b[:, at])
    with backends.recipes["deepseek-v3"], explain.record() as log:
        np.testing.assert_array_equal(F.linear(x, weight).detach().numpy(), expected)
        batch = F.linear(x.reshape(3, 3, 300), weight)
        with mt.no_grad():
            layer = mt.nn.Linear(300, 140, bias=False)
            layer.weight = weight
            np.testing.assert_array_equal(layer(x).numpy(), expected)
    np.testing.assert_array_equal(batch.detach().numpy().reshape(9, 140), expected)
    assert "sums as h100" in log[0].decided_by
    in_float32 = round_by_hand(x, "e4m3-1x128") @ round_by_hand(weight.detach(), "e4m3-128x128").T
    error = np.linalg.norm(expected - in_float32) / np.linalg.norm(in_float32)
    assert 2e-5 < error < 1e-3, "that of sums of 14 bits"


ODD_CALLS: dict[str, Callable[[int], tuple[tuple[int, ...], tuple[int, ...], Callable[..., Any]]]] = {
    "affine": lambda k: ((5, k), (3, k), F.linear),
    "matmul": lambda k: ((2, 5, k), (3, k), lambda x, w: x @ w.T),
    "addmm": lambda k: ((5, k), (3, k), lambda x, w: mt.addmm(mt.zeros(3, dtype=x.dtype), x, w.T)),
    "baddbmm": lambda k: ((2, 5, k), (2, 3, k), lambda x, w: mt.baddbmm(mt.zeros(1, dtype=x.dtype), x, w.mT)),
    "contraction": lambda k: ((5, k), (3, k), lambda x, w: mt.einsum("ti,oi->to", x, w)),
    "convolution": lambda k: ((2, k, 5), (3, k, 1), F.conv1d),
    "convolution_input_gradient": lambda k: ((2, k, 5), (k, 3, 1), F.conv_transpose1d),
}
"""By op: shapes of an input and a weight with K = k, and the call."""


def test_every_op_with_roles_has_an_odd_call() -> None:
    cells = {f"{kind}_{of}" for kind in ("rnn", "lstm", "gru") for of in ("layer", "cell")}
    apart = {"recurrent_product", "convolution_weight_gradient", *cells}
    ops = {op.name for op in registry.values() if getattr(op, "roles", None)}
    assert ops == (ODD_CALLS.keys() - {"contraction"}) | apart, "recurrences have a test below, gradients of weights"


@pytest.mark.parametrize("name", LAYERS)
def test_odd_sizes_of_recurrences(name: str) -> None:
    layer, x = LAYERS[name](33, 65), mt.randn(3, 2, 33)
    for names in ({"weight": "q4_k"}, {"weight": "q4_k", "activation": "q4_k"}):
        with (
            backends.operands.flags(**names),
            pytest.raises(RuntimeError, match=r"operands.weight = 'q4_k'.* block of 256 does not divide K = 33"),
        ):
            layer(x)
    with backends.operands.flags(weight="mxfp4", activation="mxfp8"), explain.record() as log:
        assert np.isfinite(layer(x)[0].detach().numpy()).all()
    said = " ".join(each.decided_by for each in log)
    assert "mxfp4: the last block of 32 along K = 33 has 1" in said
    assert "mxfp8: the last block of 32 along K = 65 has 1" in said


@pytest.mark.parametrize("k", [1, 7, 33, 130])
@pytest.mark.parametrize("name", ODD_CALLS)
def test_blocks_that_do_not_divide_k_are_shorter_or_refused(name: str, k: int) -> None:
    """As zeros behind K would have it, which change no scale; formats of whole blocks are refused by a sentence."""
    x_shape, w_shape, compute = ODD_CALLS[name](k)
    x, weight = mt.randn(*x_shape), mt.nn.Parameter(mt.randn(*w_shape))
    for format in FORMATS:
        row = FORMATS[format]
        if row.rounding == "stochastic" and not row.rotation:
            continue  # no second calculation draws the same values
        with backends.operands.flags(weight=format, activation=format), explain.record() as log:
            if name == "contraction" and k == 1:
                assert np.isfinite(compute(x, weight).detach().numpy()).all(), "it sums nothing, and no flag acts"
                continue
            whole = row.rotation or (ggml.BLOCKS[row.packed].length if row.packed else 1)
            if k % whole:
                with pytest.raises(RuntimeError, match=f"operands.weight = '{format}'.*does not divide K = {k} of"):
                    compute(x, weight)
                continue
            out = compute(x, weight)
        assert np.isfinite(out.detach().numpy()).all()
        block = row.block[1] if row.block else 0
        shorter = f"{format}: the last block of {block} along K = {k} has {k % block if block else 0}"
        assert (shorter in log[0].decided_by) == (block > 0 and k % block > 0), log[0].decided_by
        if block and k % block:
            limit = 1e-3 if row.sums else 1e-5
            assert_near(out, padded_by_hand(x, weight, compute, format, name), limit)


def padded_by_hand(x: Any, weight: Any, compute: Callable[..., Any], format: str, name: str) -> np.ndarray:
    """The same of operands that are rounded with zeros behind K, in float64."""

    def round_padded(each: Any, axis: int) -> Any:
        lines = np.moveaxis(each.detach().numpy(), axis, -1)
        block = FORMATS[format].block
        assert block is not None
        missing = -lines.shape[-1] % block[1]
        edge = "edge" if FORMATS[format].zero_point else "constant"
        padded = np.pad(lines, [(0, 0)] * (lines.ndim - 1) + [(0, missing)], mode=edge)
        found = round_by_hand(padded, format)[..., : lines.shape[-1]]
        return mt.tensor(np.moveaxis(found, -1, axis).copy())

    conv = name.startswith("convolution")
    axes = (1, 0 if name.endswith("gradient") else 1) if conv else (-1, -1)
    with mt.no_grad():
        return compute(round_padded(x, axes[0]), round_padded(weight, axes[1])).numpy()


SENTENCE = (
    r"operands\.{role} = '{format}'.*: "
    r"(format '{format}' does not fit {op}, for its (block|Hadamard transform) of \d+ does not divide K = \d+ of the "
    r"operand of shape \[.*\]; choose (another format|'q\w+', as llama-quantize does there)"
    r"|profile = '\w+' has no matrix unit for (products|convolutions) at \w+, whose formats are [^;]*; allow another "
    r"precision, or set backends.profile to None)"
)


def is_refused(compute: Callable[[], Any], op: str, names: dict[str, str], **flags: Any) -> bool:
    """Whether a product under these formats is refused, by one sentence that names flag, format, op, shape and remedy;
    another has a finite result."""
    error = ""
    try:
        with backends.flags(**flags), backends.operands.flags(**names):
            out = compute()
    except RuntimeError as raised:
        error = str(raised)
    if not error:
        assert np.isfinite(out.detach().numpy()).all()
        return False
    said = [SENTENCE.format(role=role, format=re.escape(name), op=op) for role, name in names.items()]
    assert any(re.fullmatch(each, error) for each in said), error
    return True


@pytest.mark.parametrize("k", [5, 33])
def test_attention_takes_every_format_or_names_what_does_not_fit(k: int) -> None:
    q, k, v = (mt.randn(1, 2, k, k) for _ in range(3))
    roles = (("query", "key"), ("probability", "value"), ("key",), ("value",))
    found = {
        (pair, name): is_refused(
            lambda: F.scaled_dot_product_attention(q, k, v), "(matmul|attention)", dict.fromkeys(pair, name)
        )
        for pair in roles
        for name in FORMATS
    }
    whole = {name for name, row in FORMATS.items() if row.packed or row.rotation}
    assert {name for (_, name), was in found.items() if was} == whole
    assert all(found[pair, name] for pair in roles for name in whole)


@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_takes_a_format_or_says_which_it_has(profile: str) -> None:
    x, weight = mt.randn(2, 64), mt.nn.Parameter(mt.randn(8, 64))
    calls = {"matmul": lambda: F.linear(x, weight), "conv": lambda: F.conv1d(x[..., None], weight[..., None])}
    found = {
        (op, name): is_refused(call, op, {"weight": name, "activation": name}, profile=profile)
        for op, call in calls.items()
        for name in FORMATS
    }
    assert found["matmul", "q4_k"]
    assert not found["matmul", "q4_0"]
    assert found["matmul", "mxfp4"] == ("mxfp4" not in PROFILES[profile].formats)
    assert not is_refused(calls["matmul"], "matmul", {"weight": "mxfp4"}, profile=profile), "storage needs no unit"


def test_other_dtypes_stay_as_they_are() -> None:
    x, weight = mt.randn(3, 64, dtype=mt.float64), mt.nn.Parameter(mt.randn(4, 64, dtype=mt.float64))
    expected = F.linear(x, weight)
    with backends.operands.flags(weight="mxfp4", activation="mxfp4"):
        np.testing.assert_array_equal(F.linear(x, weight).detach().numpy(), expected.detach().numpy())


def test_gradients_are_differentiated_again() -> None:
    """Rounding passes gradients on unchanged, to any order."""
    x, weight = mt.randn(4, 64).requires_grad_(), mt.nn.Parameter(mt.randn(8, 64))
    with backends.operands.flags(weight="mxfp8", activation="mxfp8", gradient="mxfp8"):
        (g,) = mt.autograd.grad(F.linear(x, weight).pow(2).sum(), x, create_graph=True)
        (second,) = mt.autograd.grad(g.sum(), weight)
    assert np.isfinite(second.numpy()).all()
    assert second.abs().max() > 0
