"""Convolutions of tensors: gradients, determinism, precision and algorithms by flag, the tuner, packed and fused."""

from __future__ import annotations

import itertools
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import backends, explain, nn
from minitorch_backends.autograd.gradcheck import gradcheck, gradgradcheck
from minitorch_backends.flags import Snapshot
from minitorch_backends.kernels.conv import KERNELS, conv
from minitorch_backends.kernels.registry import Refused
from minitorch_backends.kernels.runtime.threading import num_threads
from minitorch_backends.nn import functional as F
from minitorch_backends.tensor.registry import registry


@pytest.fixture(autouse=True)
def default_flags() -> Iterator[None]:
    before = backends.snapshot()
    backends.restore(Snapshot(()))
    backends.cudnn.benchmark_cache.clear()
    yield
    backends.restore(before)
    backends.cudnn.benchmark_cache.clear()


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32, requires_grad: bool = False) -> mt.Tensor:
    values = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    return mt.from_numpy(values).requires_grad_(requires_grad)


GRID = [
    (stride, padding, dilation, groups)
    for stride, padding, dilation, groups in itertools.product((1, 2), (0, 1), (1, 2), (1, 2))
]


# Gradients


@pytest.mark.parametrize(("stride", "padding", "dilation", "groups"), GRID)
@pytest.mark.parametrize(
    "name", ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]
)
def test_gradients_of_both_orders(name: str, stride: int, padding: int, dilation: int, groups: int) -> None:
    """By random projections: the suite of all ops compares elements."""
    function, dims = getattr(F, name), int(name[-2])
    x = normal(1, 2, *((5,), (5, 4), (3, 3, 3))[dims - 1], dtype=np.float64, requires_grad=True)
    taps = ((2,), (2, 2), (2, 1, 2))[dims - 1]
    weight = normal(2, 2 // groups, *taps, seed=1, dtype=np.float64, requires_grad=True)
    bias = normal(2, seed=2, dtype=np.float64, requires_grad=True)
    named = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    assert gradcheck(lambda *inputs: function(*inputs, **named), (x, weight, bias), fast_mode=True)
    assert gradgradcheck(lambda *inputs: function(*inputs, **named), (x, weight, bias), atol=1e-4, fast_mode=True)


@pytest.mark.parametrize("precision", ["bf16", "tf32"])
def test_the_precision_of_backward(precision: str) -> None:
    """Under "recorded" gradients run at the precision of the forward pass; under a name, at that one."""
    x, weight = normal(1, 8, 6, 6, requires_grad=True), normal(8, 8, 3, 3, seed=1, requires_grad=True)
    for mode, expected in (("live", "ieee"), ("recorded", precision), ("fp16", "fp16")):
        with backends.flags(backward_precision=mode):
            with backends.mkldnn.conv.flags(fp32_precision="bf16" if precision == "bf16" else "tf32"):
                y = F.conv2d(x, weight, padding=1)
            with explain.record() as log:
                y.sum().backward()
        kernels = {each.kernel: each.precision for each in log if each.kernel.startswith("conv")}
        assert kernels == {"conv_input_gradient": expected, "conv_weight_gradient": expected}


def test_the_precision_of_backward_changes_bits() -> None:
    """Gradients of one forward pass in bf16: exact, as exact as the forward pass, and as named."""
    x, weight = normal(1, 8, 6, 6, requires_grad=True), normal(8, 8, 3, 3, seed=1, requires_grad=True)
    gradient, g = {}, normal(1, 8, 6, 6, seed=2)
    for mode in ("live", "recorded", "tf32"):
        with backends.flags(backward_precision=mode):
            with backends.mkldnn.conv.flags(fp32_precision="bf16"):
                y = F.conv2d(x, weight, padding=1)
            gradient[mode] = np.concatenate([each.numpy().ravel() for each in mt.autograd.grad(y, (x, weight), g)])
    errors = {mode: float(np.abs(each - gradient["live"]).max()) for mode, each in gradient.items()}
    assert errors["recorded"] > 3 * errors["tf32"] > 1e-4


# Precision


def test_each_family_permits_its_precision() -> None:
    x, weight = normal(1, 16, 8, 8), normal(16, 16, 3, 3, seed=1)
    exact = conv.reference(x.numpy(), weight.numpy())
    errors = {}
    for path, value in (
        (None, "ieee"),
        ("fp32_precision", "bf16x3"),
        ("cudnn.conv.fp32_precision", "tf32"),
        ("mkldnn.conv.fp32_precision", "bf16"),
        ("xla.mat_mul_precision", "highest"),
    ):
        with Snapshot([(path, value)] if path else ()), explain.record() as log:
            result = F.conv2d(x, weight)
        ran = next(each for each in log if each.kernel == "conv")
        assert path is None or path in ran.decided_by
        errors[ran.precision] = float(np.abs(result.numpy() - exact).max())
    assert set(errors) == {"ieee", "bf16x3", "tf32", "bf16", "bf16x6"}
    assert errors["bf16"] > 3 * errors["tf32"] > 9 * errors["bf16x3"]
    assert errors["bf16x3"] > errors["bf16x6"]


def test_matmul_flags_leave_convolutions_alone() -> None:
    with backends.mkldnn.matmul.flags(fp32_precision="bf16"), explain.record() as log:
        F.conv2d(normal(1, 8, 6, 6), normal(8, 8, 3, 3))
    assert next(each for each in log if each.kernel == "conv").precision == "ieee"


def test_a_call_may_name_its_precision() -> None:
    x, weight = normal(1, 8, 6, 6), normal(8, 8, 3, 3, seed=1)
    assert not np.array_equal(F.conv2d(x, weight, precision="bf16").numpy(), F.conv2d(x, weight).numpy())
    with pytest.raises(ValueError, match=r"precision='half'.*bf16"):
        F.conv2d(x, weight, precision="half")


# Determinism

SHAPES = [((2, 16, 9, 8), (16, 16, 3, 3), 1), ((2, 12, 9, 8), (12, 1, 3, 3), 12), ((2, 40, 6, 6), (24, 40, 1, 1), 1)]


@pytest.mark.parametrize(("kernel", "name"), [(k, name) for k in KERNELS for name in k.implementations])
def test_bits_do_not_depend_on_the_number_of_threads(kernel: Any, name: str) -> None:
    for x_shape, w_shape, groups in SHAPES:
        x, weight = normal(*x_shape).numpy(), normal(*w_shape, seed=1).numpy()
        steps: dict[str, Any] = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": groups}
        g = normal(*conv.reference(x, weight, **steps).shape, seed=2).numpy()
        arrays, named = {
            "conv": ((x, weight), {}),
            "conv_input_gradient": ((g, weight), {"input_size": x.shape[2:]}),
            "conv_weight_gradient": ((x, g), {"kernel_size": weight.shape[2:]}),
        }[kernel.name]
        for precision in ({}, {"precision": "bf16"}):
            results = []
            try:
                for threads in (1, 2, 3):
                    with num_threads(threads):
                        results.append(kernel[name](*arrays, every=True, **steps, **named, **precision).tobytes())
            except Refused:
                continue
            assert len(set(results)) == 1


# Algorithms


def algorithm(x: mt.Tensor, weight: mt.Tensor, **named: Any) -> explain.Record:
    with explain.record() as log:
        F.conv2d(x, weight, **named)
    return next(each for each in log if each.kernel == "conv")


def test_what_flags_forbid_is_refused_in_their_name() -> None:
    x, weight = normal(1, 2, 150, 150), normal(2, 2, 61, 61)
    for path, forbidden in (
        ("nnpack.enabled", {"fft", "winograd2"}),
        ("cudnn.enabled", set(conv.implementations) - {"explicit", "scaled"}),
        ("mkldnn.enabled", set(conv.implementations) - {"explicit", "scaled"}),
    ):
        with Snapshot([(path, False)]):
            ran = algorithm(x, weight)
        sentences = {name: sentence for name, sentence in ran.refusals if not sentence.startswith("needs ")}
        assert ran.implementation not in forbidden
        assert {name for name, sentence in sentences.items() if sentence == f"{path} = False"} == forbidden & set(
            sentences
        )
        assert "fft" in sentences
    with Snapshot([("cudnn.enabled", False), ("emulate", "mkldnn")]):
        assert algorithm(x, weight).implementation != "explicit"


def test_the_workspace_is_shown_and_limited() -> None:
    x, weight = normal(1, 2, 150, 150), normal(2, 2, 61, 61)
    usual = algorithm(x, weight)
    taken = dict(usual.options)["workspace"]
    assert taken > 0
    with backends.flags(workspace_limit=taken - 1):
        limited = algorithm(x, weight)
    assert limited.implementation != usual.implementation
    assert any("workspace" in sentence and f"{taken:,}" in sentence for _, sentence in limited.refusals)
    with backends.flags(workspace_limit=taken):
        assert algorithm(x, weight).implementation == usual.implementation


def test_transforms_of_convolutions_have_kept_plans(default_flags: None) -> None:
    """In the cache of the transforms themselves, which the flag bounds."""
    x, weight = normal(1, 2, 150, 150), normal(2, 2, 61, 61)
    assert algorithm(x, weight).implementation == "fft"
    cache = backends.cuda.cufft_plan_cache
    with mt.no_grad():
        cache.clear()
        usual = F.conv2d(x, weight)
        made, kept = cache.misses, cache.size
        assert made == kept > 0
        again = F.conv2d(x, weight)
        assert (cache.misses, cache.size) == (made, kept)
        assert cache.hits > 0
        with Snapshot([("cuda.cufft_plan_cache.max_size", 0)]):
            without = F.conv2d(x, weight)
            assert cache.size == 0
            assert cache.misses > made
    assert np.array_equal(usual, again)
    assert np.array_equal(usual, without)


# The tuner


def test_the_first_call_for_a_shape_is_timed() -> None:
    x, weight, cache = normal(1, 8, 9, 9), normal(8, 8, 3, 3, seed=1), backends.cudnn.benchmark_cache
    with backends.cudnn.flags(benchmark=True):
        first, second = algorithm(x, weight), algorithm(x, weight)
        assert len(cache) == 1
        ((line, times),) = cache.items()
        assert first.implementation == second.implementation == next(iter(times))
        assert dict(second.options)["timed"] == ",".join(times)
        assert list(times.values()) == sorted(times.values())
        assert "1x8x9x9" in line
        assert line in repr(cache)
        algorithm(x, weight, padding=1)
        assert len(cache) == 2
        last = np.moveaxis(np.ascontiguousarray(np.moveaxis(x.numpy(), 1, -1)), -1, 1)
        algorithm(mt.from_numpy(last), weight)
        assert len(cache) == 3
    algorithm(normal(1, 8, 5, 5), weight)
    assert len(cache) == 3


def test_the_limit_of_the_tuner() -> None:
    x, weight, cache = normal(1, 8, 9, 9), normal(8, 8, 3, 3, seed=1), backends.cudnn.benchmark_cache
    counts, usual = [], algorithm(x, weight).implementation
    for limit in (1, 2, 0):
        cache.clear()
        with backends.cudnn.flags(benchmark=True, benchmark_limit=limit):
            algorithm(x, weight)
        counts.append(len(next(iter(cache.values()))))
        assert usual in next(iter(cache.values())), "what runs without the tuner is timed first"
    assert counts[:2] == [1, 2]
    assert counts[2] >= 2


def test_another_limit_of_the_tuner_acts_on_calls_that_were_timed(tmp_path: Path) -> None:
    x, weight, cache = normal(1, 8, 9, 9), normal(8, 8, 3, 3, seed=1), backends.cudnn.benchmark_cache
    timed = {}
    for limit in (1, 2, None, 1, 2):
        with backends.cudnn.flags(benchmark=True, benchmark_limit=limit):
            asked = explain.why("conv2d", x, weight)
            assert ("times the algorithms first" in asked.decided_by) == (limit not in timed)
            names = dict(algorithm(x, weight).options)["timed"]
        assert timed.setdefault(limit, names) == names
    assert [len(timed[limit].split(",")) for limit in (1, 2)] == [1, 2]
    assert len(cache) == 3
    assert sorted(line.rpartition(" ")[2] for line in cache)[:2] == ["limit=1", "limit=2"]
    cache.save(tmp_path / "cache.json")
    saved = dict(cache)
    cache.clear()
    cache.load(tmp_path / "cache.json")
    assert dict(cache) == saved


def test_a_question_times_nothing() -> None:
    x, weight, cache = normal(1, 8, 9, 9), normal(8, 8, 3, 3, seed=1), backends.cudnn.benchmark_cache
    cache.clear()
    with backends.cudnn.flags(benchmark=True):
        answer = explain.why("conv2d", x, weight)
        assert answer.kernel == "conv"
        assert answer.decided_by.endswith("; cudnn.benchmark = True times the algorithms first")
        assert not cache
        ran = algorithm(x, weight)
        answer = explain.why("conv2d", x, weight)
    assert answer.implementations[0] == ran.implementation
    assert "times the algorithms first" not in answer.decided_by


def test_a_kernel_of_groups_that_are_not_depthwise_is_timed() -> None:
    x, weight, cache = normal(1, 8, 9, 9), normal(8, 4, 3, 3, seed=1), backends.cudnn.benchmark_cache
    cache.clear()
    with Snapshot([("cudnn.depthwise_kernel", "native"), ("cudnn.benchmark", True)]):
        assert dict(algorithm(x, weight, groups=2).options)["timed"]
        assert dict(algorithm(x, normal(8, 1, 3, 3), groups=8).options)["prefer"] == "depthwise"


def test_infinities_stay_where_they_are_under_the_tuner() -> None:
    """Winograd's differences of a tile would make them NaN."""
    x = mt.ones(1, 8, 12, 12)
    x[0, 0, 5, 5] = float("inf")
    weight = mt.ones(8, 8, 3, 3)
    for limit in (1, 2, 0):
        backends.cudnn.benchmark_cache.clear()
        with backends.cudnn.flags(benchmark=True, benchmark_limit=limit):
            assert not F.conv2d(x, weight).isnan().any()
    if conv.decide(x.numpy(), weight.numpy(), every=True, prefer="winograd2").candidates[0].name == "winograd2":
        with pytest.raises(Refused, match="not finite"):
            conv["winograd2"](x.numpy(), weight.numpy(), every=True)


def test_a_convolution_by_spectra_is_one_record() -> None:
    with explain.record() as log:
        F.conv2d(normal(1, 2, 150, 150), normal(2, 2, 61, 61))
    assert [(each.kernel, each.implementation) for each in log] == [("conv", "fft")]


@pytest.mark.parametrize("named", [{"stride": 0}, {"padding": -1}, {"dilation": 0}, {"kernel_size": 0}])
@pytest.mark.parametrize("layer", [nn.Conv2d, nn.ConvTranspose2d])
def test_layers_refuse_alike_with_and_without_gradients(layer: Any, named: dict[str, int]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of weights without elements
        made, x = layer(16, 4, **{"kernel_size": 3, **named}), normal(1, 16, 28, 28)
    with pytest.raises(RuntimeError) as with_gradients:
        made(x)
    with mt.no_grad(), pytest.raises(RuntimeError) as without:
        made(x)
    assert str(with_gradients.value) == str(without.value)


def test_determinism_wins_over_the_tuner() -> None:
    x, weight = normal(1, 8, 9, 9), normal(8, 8, 3, 3, seed=1)
    usual = algorithm(x, weight)
    for path, value in (("cudnn.deterministic", True), ("deterministic_algorithms", "error")):
        with Snapshot([("cudnn.benchmark", True), (path, value)]):
            ran = algorithm(x, weight)
        assert (ran.implementation, ran.options) == (usual.implementation, usual.options)
    assert not backends.cudnn.benchmark_cache


def test_the_cache_is_saved_and_loaded(tmp_path: Path) -> None:
    x, weight, cache = normal(1, 8, 9, 9), normal(8, 8, 3, 3, seed=1), backends.cudnn.benchmark_cache
    with backends.cudnn.flags(benchmark=True):
        algorithm(x, weight)
    cache.save(tmp_path / "cache.json")
    content = json.loads((tmp_path / "cache.json").read_text(encoding="utf-8"))
    (line,) = cache
    slowest = list(cache[line])[-1]
    content["entries"][line] = {slowest: 1e-9}
    (tmp_path / "other.json").write_text(json.dumps(content), encoding="utf-8")
    cache.clear()
    cache.load(tmp_path / "other.json")
    with backends.cudnn.flags(benchmark=True):
        assert algorithm(x, weight).implementation == slowest
    assert dict(cache) == {line: {slowest: 1e-9}}


@pytest.mark.parametrize(
    "text", ["", "[]", '{"format": 0, "entries": {}}', '{"format": 1, "entries": {"conv x": {"magic": 1.0}}}']
)
def test_a_file_that_is_no_cache_changes_nothing(tmp_path: Path, text: str) -> None:
    cache = backends.cudnn.benchmark_cache
    (tmp_path / "bad.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"bad\.json.*must be a benchmark cache that `save` wrote"):
        cache.load(tmp_path / "bad.json")
    assert not cache


# Layers


def network() -> nn.Sequential:
    mt.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Sequential(nn.Conv2d(8, 8, 3, groups=2, bias=False), nn.BatchNorm2d(8, bias=False)),
        nn.Conv2d(8, 8, 2, stride=2, padding=1, padding_mode="circular"),
        nn.ReLU(),
        nn.Conv2d(8, 4, 1),
    )
    for number in range(3):
        model(normal(4, 3, 12, 12, seed=number) * 3 + 1)
    return model


def test_kept_weights_follow_the_weight() -> None:
    layer, x = nn.Conv2d(8, 8, 3, padding=1), normal(2, 8, 7, 7)
    recorded = layer(x).detach().numpy()
    with mt.no_grad():
        assert np.array_equal(layer(x).numpy(), recorded)
        kept = layer._packed._forms
        assert np.array_equal(layer(x).numpy(), recorded)
        assert layer._packed._forms is kept
        layer.weight.mul_(2)
        doubled = layer(x).numpy()
        assert not np.array_equal(doubled, recorded)
        layer.weight.copy_(layer.weight * 0)
        assert np.array_equal(
            layer(x).numpy(), np.broadcast_to(layer.bias.detach().numpy()[:, None, None], (2, 8, 7, 7))
        )
        with backends.flags(fp32_precision="bf16"):
            layer.weight.normal_()
            assert np.array_equal(layer(x).numpy(), F.conv2d(x, layer.weight, layer.bias, padding=1).numpy())


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_kept_weights_of_transposed_convolutions(dims: int) -> None:
    layer = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)[dims - 1](6, 4, 3, 2, 1, 1, groups=2)
    x = normal(2, 6, *(5, 4, 3)[:dims])
    recorded = layer(x).detach().numpy()
    with mt.no_grad():
        assert np.array_equal(layer(x).numpy(), recorded)
        kept = layer._packed._forms
        assert np.array_equal(layer(x, output_size=recorded.shape).numpy(), recorded)
        assert layer._packed._forms is kept
        layer.weight.mul_(2)
        assert not np.array_equal(layer(x).numpy(), recorded)
        assert layer(x[0]).shape == recorded.shape[1:]
        with pytest.raises(RuntimeError, match=r"6 channels, but got 5"):
            layer(x[:, :5])


def test_unbatched_and_wrong_inputs_of_layers_without_gradients() -> None:
    layer = nn.Conv2d(3, 4, 3, padding="same")
    with mt.no_grad():
        assert layer(normal(3, 6, 5)).shape == (4, 6, 5)
        with pytest.raises(RuntimeError, match=r"3 channels, but got 2"):
            layer(normal(1, 2, 6, 6))
        with pytest.raises(RuntimeError, match="greater than actual input size"):
            nn.Conv2d(3, 4, 3)(normal(1, 3, 2, 2))


def test_fused_layers_give_the_results_of_the_model() -> None:
    model, x = network().eval(), normal(2, 3, 12, 12, seed=9)
    fused = nn.utils.fuse(model)
    assert [type(each).__name__ for each in fused] == [
        "FusedConvolution", "Sequential", "FusedConvolution", "Conv2d",
    ]  # fmt: skip
    assert [type(each).__name__ for each in model][:3] == ["Conv2d", "BatchNorm2d", "ReLU"]
    expected = model(x).detach().numpy()
    assert np.array_equal(fused(x).detach().numpy(), expected), "with gradients the layers run as they are"
    with mt.no_grad(), explain.record() as log:
        assert np.allclose(fused(x).numpy(), expected, rtol=1e-4, atol=1e-5)
    convolutions = [dict(each.options) for each in log if each.kernel == "conv"]
    assert [options.get("relu", False) for options in convolutions] == [True, False, True, False]
    with mt.no_grad():
        model[1].running_mean.add_(1)
        model[0].weight.mul_(0.5)
        changed = fused(x).numpy()
        assert np.allclose(changed, model(x).numpy(), rtol=1e-4, atol=1e-5)
        assert not np.allclose(changed, expected, rtol=1e-2)


def test_fused_layers_train_as_the_model_does() -> None:
    model, x = network().train(), normal(2, 3, 12, 12, seed=9)
    fused = nn.utils.fuse(model)
    fused(x).sum().backward()
    gradient = model[0].weight.grad.numpy().copy()
    model.zero_grad()
    model(x).sum().backward()
    assert np.array_equal(model[0].weight.grad.numpy(), gradient)
    with mt.no_grad():
        before = model[1].running_mean.numpy().copy()
        fused(x)
        assert not np.array_equal(model[1].running_mean.numpy(), before), "in training mode statistics are tracked"


@pytest.mark.parametrize("size", [8, 80])
def test_channels_last_is_kept_through_layers(size: int) -> None:
    x = np.moveaxis(normal(2, size, size, 16).numpy(), -1, 1)
    model = nn.Sequential(nn.Conv2d(16, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
    with mt.no_grad():
        for layer, side in zip(range(1, 5), (size, size, size, size // 2), strict=True):
            y = model[:layer](mt.from_numpy(x))
            assert y.shape == (2, 8, side, side)
            assert y.numpy().strides[1] == 4


def test_batch_norm_averages_all_batches_without_momentum() -> None:
    layer = nn.BatchNorm2d(2, momentum=None)
    batches = [normal(3, 2, 4, 4, seed=seed) for seed in range(3)]
    for batch in batches:
        layer(batch)
    means = np.mean([batch.numpy().mean((0, 2, 3)) for batch in batches], axis=0)
    assert np.allclose(layer.running_mean.numpy(), means, atol=1e-6)
    assert layer.num_batches_tracked.item() == 3
    with pytest.raises(ValueError, match=r"expected 4D input \(got 2D"):
        layer(normal(3, 2))


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(
    ("size", "stride", "padding", "dilation", "more"),
    [
        ((3, 4), (90, 70), (0, 0), (1, 1), (0, 0)),
        ((3, 4), (9, 70), (2, 5), (2, 3), (8, 1)),
        ((2, 5), (1, 200), (1, 0), (1, 2), (0, 199)),
        ((1, 1), (20, 20), (1, 0), (4, 1), (19, 0)),
    ],
)
def test_strides_beyond_the_kernel(
    size: tuple, stride: tuple, padding: tuple, dilation: tuple, more: tuple, groups: int
) -> None:
    """Strides of thousands, whose phases are nearly all zero: each value makes a block of its own."""
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((2, 4, *size)), rng.standard_normal((4, 3, 3, 2))
    options = {"stride": stride, "padding": padding, "output_padding": more, "groups": groups, "dilation": dilation}
    out = F.conv_transpose2d(mt.tensor(x), mt.tensor(weight), **options).numpy()
    wanted = np.zeros((2, 3 * groups, *out.shape[2:]))
    for (i, j), (a, b) in itertools.product(np.ndindex(size), np.ndindex(3, 2)):
        row = i * stride[0] - padding[0] + a * dilation[0]
        column = j * stride[1] - padding[1] + b * dilation[1]
        if 0 <= row < out.shape[2] and 0 <= column < out.shape[3]:
            for group in range(groups):
                part = slice(group * 4 // groups, (group + 1) * 4 // groups)
                into = slice(group * 3, (group + 1) * 3)
                wanted[:, into, row, column] += x[:, part, i, j] @ weight[part, :, a, b]
    np.testing.assert_allclose(out, wanted, atol=1e-12)


def test_transposed_layers_take_an_output_size() -> None:
    layer = nn.ConvTranspose2d(3, 4, 2, 2)
    assert layer(normal(1, 3, 4, 4), output_size=(9, 8)).shape == (1, 4, 9, 8)
    with pytest.raises(ValueError, match=r"\(20, 20\).*\[8, 8\] to \[9, 9\]"):
        layer(normal(1, 3, 4, 4), output_size=(20, 20))


@pytest.mark.parametrize("shape", [(1, 1, 3), (2, 4, 3, 3), (2, 3, 4, 4), (4,)])
def test_gradients_of_other_shapes_than_the_results_raise(shape: tuple[int, ...]) -> None:
    g, x, w = mt.ones(shape), mt.ones(2, 4, 6, 6), mt.ones(4, 1, 3, 3)
    with pytest.raises(ValueError, match="not those of one convolution"):
        registry["convolution_input_gradient"].public(g, w, (6, 6), groups=4)
    with pytest.raises(ValueError, match="not those of one convolution"):
        registry["convolution_weight_gradient"].public(x, g, (3, 3), groups=4)


def test_largest_values_of_windows_without_any() -> None:
    """Padding is smaller than every value of an image, and gets no gradient."""
    images = mt.full((2, 2, 3, 3), -float("inf"), requires_grad=True)
    values, indices = F.max_pool2d(images, 2, 1, 1, return_indices=True)
    assert (values == -float("inf")).all()
    assert indices[1, 1].tolist() == [[0, 0, 1, 2], [0, 0, 1, 2], [3, 3, 4, 5], [6, 6, 7, 8]]
    values.backward(mt.ones_like(values))
    assert images.grad[1, 1].tolist() == [[4, 2, 2], [2, 1, 1], [2, 1, 1]]

    images = mt.arange(2.0 * 2 * 2).reshape(2, 2, 2)[..., :1].requires_grad_()
    values, indices = F.max_pool1d(images, 2, 4, 1, 2, return_indices=True)  # sees places -1 and 1
    assert (indices == -1).all()
    assert (values == -float("inf")).all()
    (gradient,) = mt.autograd.grad(values, images, mt.ones_like(values), create_graph=True)
    assert (gradient == 0).all()


@pytest.mark.parametrize("value", [float("inf"), -float("inf"), float("nan")])
def test_means_of_windows_without_what_is_not_finite(value: float) -> None:
    """Windows of unequal lengths: what stands in for a place beyond a short one does not count."""
    images = mt.ones(1, 1, 2, 7)
    images[0, 0, 1, 2] = value
    for found in (F.adaptive_avg_pool2d(images, (2, 5)), F.interpolate(images, size=(2, 5), mode="area")):
        assert found[0, 0, 0].tolist() == [1.0] * 5
        np.testing.assert_array_equal(found[0, 0, 1].numpy(), [1.0, value, value, 1.0, 1.0])


def test_joined_layers_see_what_takes_the_place_of_their_statistics() -> None:
    model = nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4)).eval()
    fused, x = nn.utils.fuse(model)[0], mt.ones(1, 4, 8, 8)

    def agree() -> bool:
        return mt.allclose(fused(x), fused.norm(fused.conv(x)), atol=1e-5)

    with mt.no_grad():
        for value in (0.0, 10.0, 20.0):
            fused.norm.running_mean = None  # so that the memory of the next one may be that of the last
            fused.norm.running_mean = mt.full((4,), value)
            assert agree()
        fused.norm.eps = 10.0
        assert agree()
        fused.conv.bias, fused.norm.weight = None, nn.Parameter(mt.full((4,), 2.0))
        assert agree()


@pytest.mark.parametrize("make", [lambda: nn.Linear(256, 512, bias=False), lambda: nn.Conv2d(16, 32, 3, bias=False)])
def test_weights_of_one_array_that_changed_are_packed_anew(make: Any) -> None:
    layer = make()
    array = np.ones(tuple(layer.weight.shape), np.float32)
    x = mt.ones(128, 256) if array.ndim == 2 else mt.ones(2, 16, 12, 12)
    with mt.no_grad():
        layer.weight = nn.Parameter(mt.from_numpy(array))
        before = layer(x)
        array *= 3
        layer.weight = nn.Parameter(mt.from_numpy(array))
        assert mt.equal(layer(x), before * 3)
        array *= 3
        layer.weight.data = mt.from_numpy(array)
        assert mt.equal(layer(x), before * 9)


def test_nothing_has_gradients_of_nothing() -> None:
    for dims in (1, 2, 3):
        conv = (mt.nn.functional.conv1d, mt.nn.functional.conv2d, mt.nn.functional.conv3d)[dims - 1]
        x = mt.zeros(0, 2, 0, *(5,) * (dims - 1), requires_grad=True)
        w = mt.zeros(3, 2, *(2,) * dims, requires_grad=True)
        conv(x, w, None, 1, 2).sum().backward()
        assert (x.grad.shape, w.grad.shape) == (x.shape, w.shape)
        assert not w.grad.any()


@pytest.mark.parametrize("precision", ["none", "tf32", "bf16x9"])
@pytest.mark.parametrize("kernel", [(1, 1), (3, 2)])
@pytest.mark.parametrize("groups", [1, 16])
def test_empty_batches_of_every_layout(precision: str, kernel: tuple[int, int], groups: int) -> None:
    for dtype in (mt.float32, mt.float64, mt.bfloat16):
        for x in (mt.zeros(2, 8, 9, 16, dtype=dtype).permute(0, 3, 1, 2)[:0], mt.zeros(0, 16, 8, 9, dtype=dtype)):
            x = x.detach().requires_grad_()
            weight = mt.ones(32, 16 // groups, *kernel, dtype=dtype, requires_grad=True)
            bias = mt.ones(32, dtype=dtype, requires_grad=True)
            with backends.flags(fp32_precision=precision):
                out = F.conv2d(x, weight, bias, groups=groups)
                out.sum().backward()
            assert out.shape == (0, 32, 9 - kernel[0], 10 - kernel[1])
            assert x.grad.shape == x.shape
            assert not weight.grad.any()
            assert not bias.grad.any()
            with pytest.raises(RuntimeError):
                F.conv2d(x, mt.ones(32, 16 // groups, 20, 20, dtype=dtype), groups=groups)
