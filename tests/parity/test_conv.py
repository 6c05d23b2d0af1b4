"""Convolutions and pooling against torch: random configurations, values and gradients, and what is refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import minitorch_backends as mt
from minitorch_backends.nn import functional as F

TF = torch.nn.functional

pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths:UserWarning")

CONVOLUTIONS = 500
POOLS = 100
CHUNK = 50


def pair(draw: random.Random, *shape: int, grad: bool = True) -> tuple[mt.Tensor, torch.Tensor]:
    values = np.random.default_rng(draw.randrange(1 << 30)).standard_normal(shape)
    if draw.random() < 0.5 and len(shape) > 2:
        values = np.moveaxis(np.ascontiguousarray(np.moveaxis(values, 1, -1)), -1, 1)
    return mt.from_numpy(values).requires_grad_(grad), torch.from_numpy(values.copy()).requires_grad_(grad)


def assert_same(ours: mt.Tensor, theirs: torch.Tensor, leaves: list, where: Any) -> None:
    assert tuple(ours.shape) == tuple(theirs.shape), where
    assert np.allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-9, atol=1e-9), where
    weight = np.cos(np.arange(theirs.numel(), dtype=float)).reshape(theirs.shape)
    ours.backward(mt.from_numpy(weight))
    theirs.backward(torch.from_numpy(weight))
    for mine, other in leaves:
        assert np.allclose(mine.grad.numpy(), other.grad.numpy(), rtol=1e-9, atol=1e-9), where


def numbers(draw: random.Random, dims: int, choices: tuple[int, ...]) -> Any:
    one = draw.choice(choices)
    return one if draw.random() < 0.4 else tuple(draw.choice(choices) for _ in range(dims))


@pytest.mark.parametrize("chunk", range(CONVOLUTIONS // CHUNK))
def test_random_convolutions(chunk: int) -> None:
    draw = random.Random(chunk)
    for number in range(CHUNK):
        dims, groups = draw.choice((1, 2, 2, 3)), draw.choice((1, 1, 2, 3))
        channels, outputs = groups * draw.choice((1, 2, 3)), groups * draw.choice((1, 2, 4))
        kernel = tuple(draw.choice((1, 2, 3)) for _ in range(dims))
        size = tuple(draw.choice((5, 6, 7)) for _ in range(dims))
        batch = () if draw.random() < 0.15 else (draw.choice((1, 2, 3)),)
        transposed = draw.random() < 0.35
        options: dict[str, Any] = {
            "stride": numbers(draw, dims, (1, 2, 3)),
            "dilation": numbers(draw, dims, (1, 2)),
            "groups": groups,
        }
        if not transposed and draw.random() < 0.2:
            options |= {"padding": "same", "stride": 1} if draw.random() < 0.7 else {"padding": "valid"}
        else:
            options["padding"] = numbers(draw, dims, (0, 1, 2))
        if transposed:
            options["padding"] = numbers(draw, dims, (0, 1))
            if draw.random() < 0.5 and np.min(np.maximum(options["stride"], options["dilation"])) > 1:
                options["output_padding"] = 1
        name = f"conv_transpose{dims}d" if transposed else f"conv{dims}d"
        shape = (channels, outputs // groups) if transposed else (outputs, channels // groups)
        leaves = [pair(draw, *batch, channels, *size), pair(draw, *shape, *kernel)]
        if draw.random() < 0.6:
            leaves.append(pair(draw, outputs))
        where = (chunk, number, name, [tuple(each[0].shape) for each in leaves], options)
        ours = getattr(F, name)(*[each[0] for each in leaves], **options)
        theirs = getattr(TF, name)(*[each[1] for each in leaves], **options)
        assert_same(ours, theirs, leaves, where)


@pytest.mark.parametrize("chunk", range(POOLS // CHUNK))
def test_random_pools(chunk: int) -> None:
    draw = random.Random(1000 + chunk)
    for number in range(CHUNK):
        dims, kind = draw.choice((1, 2, 2, 3)), draw.choice(("max", "avg", "adaptive_avg", "adaptive_max"))
        leaf = pair(draw, 2, 3, *(draw.choice((5, 6, 8)) for _ in range(dims)))
        name, options = f"{kind}_pool{dims}d", {}
        if kind.startswith("adaptive"):
            arguments: tuple = (tuple(draw.choice((1, 2, 3, 7)) for _ in range(dims)),)
        else:
            kernel = numbers(draw, dims, (2, 3))
            arguments = (kernel, numbers(draw, dims, (1, 2, 3)), draw.choice((0, 1)))
            options = {"ceil_mode": draw.random() < 0.5}
            if kind == "max":
                options["dilation"] = draw.choice((1, 2)) if arguments[2] == 0 else 1
            else:
                options["count_include_pad"] = draw.random() < 0.5
        where = (chunk, number, name, tuple(leaf[0].shape), arguments, options)
        if kind.endswith("max") and draw.random() < 0.5:
            ours, indices = getattr(F, name)(leaf[0], *arguments, return_indices=True, **options)
            theirs, others = getattr(TF, name)(leaf[1], *arguments, return_indices=True, **options)
            assert np.array_equal(indices.numpy(), others.numpy()), where
        else:
            ours, theirs = (getattr(m, name)(x, *arguments, **options) for m, x in ((F, leaf[0]), (TF, leaf[1])))
        assert_same(ours, theirs, [leaf], where)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear", "area"])
def test_interpolation(mode: str) -> None:
    draw = random.Random(7)
    for dims in {"linear": (1,), "bilinear": (2,), "bicubic": (2,), "trilinear": (3,)}.get(mode, (1, 2, 3)):
        for options in ({"size": 7}, {"size": (3, 5, 9)[:dims]}, {"scale_factor": 2.0}, {"scale_factor": 0.7},
                        {"scale_factor": 1.6, "recompute_scale_factor": True}):  # fmt: skip
            for corners in (False, True) if mode in ("linear", "bilinear", "bicubic", "trilinear") else (None,):
                leaf = pair(draw, 2, 3, *(5, 6, 4)[:dims])
                named = {**options, "mode": mode, "align_corners": corners}
                ours, theirs = F.interpolate(leaf[0], **named), TF.interpolate(leaf[1], **named)
                assert tuple(ours.shape) == tuple(theirs.shape), named
                assert_same(ours, theirs, [leaf], named)


def test_unfold_fold_and_unpool() -> None:
    draw = random.Random(3)
    for options in ({"kernel_size": 2}, {"kernel_size": (2, 3), "dilation": (1, 2), "padding": 1, "stride": (2, 1)}):
        leaf = pair(draw, 2, 3, 6, 7)
        columns = F.unfold(leaf[0], **options), TF.unfold(leaf[1], **options)
        assert_same(*columns, [leaf], options)
        leaf = pair(draw, *columns[1].shape)
        assert_same(F.fold(leaf[0], (6, 7), **options), TF.fold(leaf[1], (6, 7), **options), [leaf], options)
    for dims in (1, 2, 3):
        leaf = pair(draw, 2, 3, *(6, 4, 4)[:dims])
        found = [getattr(m, f"max_pool{dims}d")(x, 2, return_indices=True) for m, x in ((F, leaf[0]), (TF, leaf[1]))]
        back = [getattr(m, f"max_unpool{dims}d")(*each, 2) for m, each in zip((F, TF), found, strict=True)]
        assert_same(*back, [leaf], dims)


def test_padding() -> None:
    draw = random.Random(4)
    for shape, padding, mode in (
        ((2, 3, 5), (1, 2), "reflect"), ((2, 3, 5), (5, 0), "circular"), ((2, 3, 4, 5), (1, 2, 3, 0), "replicate"),
        ((2, 2, 4, 3, 5), (1, 2, 1, 1, 3, 2), "reflect"), ((2, 3), (1, -1, 2, 0), "constant"),
        ((2, 3, 5), (-1, 2), "circular"),
    ):  # fmt: skip
        leaf = pair(draw, *shape)
        assert_same(F.pad(leaf[0], padding, mode), TF.pad(leaf[1], padding, mode), [leaf], (shape, padding, mode))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("name", "arguments", "shape"),
    [
        ("BatchNorm2d", (24,), (4, 24, 9, 9)),
        ("BatchNorm2d", (40,), (2, 40, 9, 9)),
        ("BatchNorm1d", (70,), (90, 70)),
        ("GroupNorm", (6, 24), (4, 24, 9, 9)),
        ("InstanceNorm2d", (24, 1e-5, 0.1, True, True), (4, 24, 9, 9)),
        ("LayerNorm", ((9, 9),), (4, 24, 9, 9)),
        ("RMSNorm", (90,), (70, 90)),
    ],
)
def test_large_normalisations_repeat_torchs(name: str, arguments: tuple, shape: tuple, last: bool, dtype: str) -> None:
    """Results, gradients and running statistics, in training and in evaluation mode, with channels last as well."""
    rng = np.random.default_rng(0)
    arrays, found = [rng.standard_normal(shape).astype(np.float32) for _ in range(2)], []
    for m in (mt, torch):
        layer, results = getattr(m.nn, name)(*arguments), []
        for index, each in enumerate(layer.parameters()):
            each.data = m.from_numpy(np.random.default_rng(index).standard_normal(each.shape).astype(np.float32))
        layer = layer.to(getattr(m, dtype))
        for training in (True, False):
            x, g = (m.from_numpy(each.copy()).to(getattr(m, dtype)) for each in arrays)
            if last and x.ndim == 4:
                x = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
            x.requires_grad_()
            layer.train(training)
            y = layer(x)
            y.backward(g)
            results += [y, x.grad, *(each.grad for each in layer.parameters()), *layer.buffers()]
        found.append([np.asarray(each.detach().double().numpy()) for each in results])
    unit = 2e-6 if dtype == "float32" else 2.0**-7
    for one, other in zip(*found, strict=True):
        assert np.abs(one - other).max() <= 4 * unit * max(np.abs(other).max(), 1)


def test_layers_repeat_torchs() -> None:
    """The same parameters give the same results, in training and in evaluation mode."""
    theirs = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, 2, padding=1, padding_mode="reflect"), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
        torch.nn.ConvTranspose2d(8, 4, 2, 2, groups=2), torch.nn.BatchNorm2d(4, momentum=None),
    ).double()  # fmt: skip
    ours = mt.nn.Sequential(
        mt.nn.Conv2d(3, 8, 3, 2, padding=1, padding_mode="reflect"), mt.nn.BatchNorm2d(8), mt.nn.ReLU(),
        mt.nn.ConvTranspose2d(8, 4, 2, 2, groups=2), mt.nn.BatchNorm2d(4, momentum=None),
    ).double()  # fmt: skip
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict({name: mt.from_numpy(value.numpy().copy()) for name, value in theirs.state_dict().items()})
    draw = random.Random(5)
    for _ in range(2):
        x = pair(draw, 4, 3, 8, 8, grad=False)
        assert np.allclose(ours(x[0]).detach().numpy(), theirs(x[1]).detach().numpy(), atol=1e-9)
    ours.eval()
    theirs.eval()
    assert np.allclose(ours(x[0]).detach().numpy(), theirs(x[1]).detach().numpy(), atol=1e-9)


def ones(m: Any, *shape: int) -> Any:
    return m.ones(shape)


BAD: dict[str, Callable[[Any, Any], Any]] = {
    "input of two dims": lambda m, f: f.conv2d(ones(m, 3, 4), ones(m, 2, 3, 1, 1)),
    "weight of three dims": lambda m, f: f.conv2d(ones(m, 1, 3, 4, 4), ones(m, 2, 3, 1)),
    "channels": lambda m, f: f.conv2d(ones(m, 1, 3, 4, 4), ones(m, 2, 4, 1, 1)),
    "groups": lambda m, f: f.conv2d(ones(m, 1, 4, 4, 4), ones(m, 3, 2, 1, 1), groups=2),
    "no groups": lambda m, f: f.conv2d(ones(m, 1, 4, 4, 4), ones(m, 3, 2, 1, 1), groups=0),
    "bias": lambda m, f: f.conv2d(ones(m, 1, 3, 4, 4), ones(m, 2, 3, 1, 1), ones(m, 3)),
    "no output": lambda m, f: f.conv2d(ones(m, 1, 3, 4, 4), ones(m, 2, 3, 5, 5)),
    "stride of 0": lambda m, f: f.conv2d(ones(m, 1, 3, 4, 4), ones(m, 2, 3, 1, 1), stride=0),
    "negative padding": lambda m, f: f.conv2d(ones(m, 1, 3, 4, 4), ones(m, 2, 3, 1, 1), padding=-1),
    "dilation of 0": lambda m, f: f.conv2d(ones(m, 1, 3, 4, 4), ones(m, 2, 3, 1, 1), dilation=0),
    "three strides": lambda m, f: f.conv2d(ones(m, 1, 3, 4, 4), ones(m, 2, 3, 1, 1), stride=(1, 1, 1)),
    "floating stride": lambda m, f: f.conv2d(ones(m, 1, 3, 4, 4), ones(m, 2, 3, 1, 1), stride=1.5),
    "same and strided": lambda m, f: f.conv2d(ones(m, 1, 3, 4, 4), ones(m, 2, 3, 2, 2), padding="same", stride=2),
    "unknown padding": lambda m, f: f.conv2d(ones(m, 1, 3, 4, 4), ones(m, 2, 3, 2, 2), padding="x"),
    "dtypes": lambda m, f: f.conv2d(ones(m, 1, 3, 4, 4), ones(m, 2, 3, 2, 2).double()),
    "no tensor": lambda m, f: f.conv2d(3, ones(m, 2, 3, 2, 2)),
    "empty image": lambda m, f: f.conv2d(ones(m, 1, 3, 0, 4), ones(m, 2, 3, 1, 1), padding=1),
    "empty kernel": lambda m, f: f.conv2d(ones(m, 1, 3, 4, 4), ones(m, 2, 3, 0, 1)),
    "transposed channels": lambda m, f: f.conv_transpose2d(ones(m, 1, 3, 4, 4), ones(m, 2, 3, 1, 1)),
    "output padding": lambda m, f: f.conv_transpose2d(ones(m, 1, 3, 4, 4), ones(m, 3, 2, 1, 1), output_padding=1),
    "transposed, no output": lambda m, f: f.conv_transpose2d(ones(m, 1, 3, 1, 1), ones(m, 3, 2, 1, 1), padding=1),
    "transposed bias": lambda m, f: f.conv_transpose2d(ones(m, 1, 3, 4, 4), ones(m, 3, 2, 1, 1), ones(m, 3)),
    "pool of two dims": lambda m, f: f.max_pool2d(ones(m, 3, 4), 2),
    "pool without kernel": lambda m, f: f.max_pool2d(ones(m, 1, 3, 4, 4), 0),
    "pool padding": lambda m, f: f.max_pool2d(ones(m, 1, 3, 4, 4), 2, padding=2),
    "pool without output": lambda m, f: f.max_pool2d(ones(m, 1, 3, 4, 4), 5),
    "pool of an empty image": lambda m, f: f.max_pool2d(ones(m, 1, 3, 0, 4), 1),
    "divisor of 0": lambda m, f: f.avg_pool2d(ones(m, 1, 3, 4, 4), 2, divisor_override=0),
    "adaptive, negative": lambda m, f: f.adaptive_avg_pool2d(ones(m, 1, 3, 4, 4), (-1, 2)),
    "adaptive, three sizes": lambda m, f: f.adaptive_avg_pool2d(ones(m, 1, 3, 4, 4), (1, 1, 1)),
    "adaptive of an empty image": lambda m, f: f.adaptive_max_pool2d(ones(m, 1, 3, 0, 4), 1),
    "unfold of two dims": lambda m, f: f.unfold(ones(m, 3, 4), 2),
    "unfold without output": lambda m, f: f.unfold(ones(m, 1, 3, 4, 4), 5),
    "fold of other columns": lambda m, f: f.fold(ones(m, 1, 12, 8), (4, 4), 2),
    "fold of other channels": lambda m, f: f.fold(ones(m, 1, 11, 9), (4, 4), 2),
    "shuffle of channels": lambda m, f: f.pixel_shuffle(ones(m, 1, 3, 4, 4), 2),
    "unshuffle of height": lambda m, f: f.pixel_unshuffle(ones(m, 1, 4, 3, 4), 2),
    "both sizes": lambda m, f: f.interpolate(ones(m, 1, 3, 4, 4), size=3, scale_factor=2),
    "no size": lambda m, f: f.interpolate(ones(m, 1, 3, 4, 4)),
    "unknown mode": lambda m, f: f.interpolate(ones(m, 1, 3, 4, 4), size=3, mode="x"),
    "mode of other dims": lambda m, f: f.interpolate(ones(m, 1, 3, 4, 4), size=3, mode="linear"),
    "corners of nearest": lambda m, f: f.interpolate(ones(m, 1, 3, 4, 4), size=3, align_corners=True),
    "size of 0": lambda m, f: f.interpolate(ones(m, 1, 3, 4, 4), size=0),
    "odd padding": lambda m, f: f.pad(ones(m, 3, 4), (1,)),
    "unknown padding mode": lambda m, f: f.pad(ones(m, 3, 4), (1, 1), "x"),
    "too wide a reflection": lambda m, f: f.pad(ones(m, 1, 3, 4), (4, 1), "reflect"),
    "indices outside": lambda m, f: f.max_unpool2d(ones(m, 1, 1, 2, 2), m.full((1, 1, 2, 2), 99), 2),
    "groups of a layer": lambda m, f: m.nn.Conv2d(3, 4, 2, groups=2),
    "padding of a layer": lambda m, f: m.nn.Conv2d(4, 3, 2, padding="x"),
    "normalisation of two dims": lambda m, f: m.nn.BatchNorm2d(3)(ones(m, 3, 4)),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_calls_raise_what_torch_raises(name: str) -> None:
    with pytest.raises(Exception) as theirs:  # noqa: PT011  (the type is what is compared)
        BAD[name](torch, TF)
    with pytest.raises(type(theirs.value)) as ours:
        BAD[name](mt, F)
    assert len(str(ours.value)) > 20
