"""Compiled convolutions: hard shapes in every layout, values that tiles cannot hold, bits, and kept weights."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitorch_backends.kernels.conv import KERNELS, Kept, conv, conv_input_gradient, conv_weight_gradient, workspace
from minitorch_backends.kernels.conv.geometry import EVERY_OTHER, NOWHERE, Task, forward_geometry, spots
from minitorch_backends.kernels.registry import ArraySpec, Kernel, Refused
from minitorch_backends.kernels.runtime import threading
from minitorch_backends.kernels.runtime.workspace import address_of, return_workspace, take_workspace

COMPILED = [
    (kernel.name, name)
    for kernel in KERNELS
    for name in kernel.implementations
    if name in ("direct", "depthwise", "implicit")
]
"""Kernels, and those of their implementations that are compiled for convolutions."""

BY_NAME = {kernel.name: kernel for kernel in KERNELS}

CASES: dict[str, dict[str, Any]] = {
    "padded rows": {"x": (2, 20, 9, 13), "w": (33, 20, 3, 3), "padding": (1, 1)},
    "images that share a group": {"x": (5, 40, 3, 3), "w": (17, 40, 1, 1)},
    "strides over rows and columns": {"x": (2, 33, 12, 11), "w": (8, 33, 3, 2), "stride": (2, 3), "padding": (1, 0)},
    "a stride beyond the kernel": {"x": (1, 18, 10, 10), "w": (6, 18, 1, 2), "stride": (3, 3)},
    "folded taps": {"x": (2, 3, 17, 19), "w": (10, 3, 5, 5), "stride": (2, 2), "padding": (2, 2)},
    "folded taps of one channel": {"x": (2, 1, 15, 18), "w": (7, 1, 3, 5), "padding": (1, 2)},
    "folded taps of one dimension": {"x": (2, 4, 40), "w": (5, 4, 7), "stride": (2,), "padding": (3,)},
    "dilated groups": {"x": (1, 12, 11, 9), "w": (10, 6, 3, 3), "dilation": (2, 1), "padding": (2, 1), "groups": 2},
    "one position": {"x": (3, 33, 4, 3), "w": (35, 33, 4, 3)},
    "one dimension": {"x": (2, 24, 50), "w": (16, 24, 7), "stride": (2,), "padding": (3,)},
    "three dimensions": {"x": (1, 17, 4, 5, 6), "w": (18, 17, 2, 3, 3), "padding": (1, 1, 1)},
    "strips": {"x": (2, 64, 60, 60), "w": (16, 64, 3, 3), "padding": (1, 1)},
    "one tap": {"x": (2, 35, 19, 17), "w": (40, 35, 1, 1)},
    "one tap, one image": {"x": (1, 35, 9, 17), "w": (40, 35, 1, 1)},
    "one tap, many channels": {"x": (2, 260, 3, 4), "w": (256, 260, 1, 1)},
    "one tap of groups, every second": {"x": (2, 34, 37, 36), "w": (38, 17, 1, 1), "stride": (2, 2), "groups": 2},
    "depthwise": {"x": (2, 21, 12, 19), "w": (21, 1, 3, 3), "padding": (1, 1), "groups": 21},
    "depthwise, every second": {
        "x": (2, 37, 11, 14), "w": (37, 1, 3, 3), "stride": (2, 2), "padding": (1, 1), "groups": 37,
    },
    "depthwise, wide padding": {
        "x": (1, 18, 3, 11), "w": (18, 1, 3, 2), "stride": (1, 2), "padding": (5, 3), "dilation": (1, 2), "groups": 18,
    },
    "depthwise, a stride beyond the kernel": {"x": (2, 17, 9, 40), "w": (17, 1, 2, 1), "stride": (3, 3), "groups": 17},
    "depthwise, three dimensions": {"x": (1, 16, 4, 5, 17), "w": (16, 1, 2, 3, 3), "padding": (1, 1, 1), "groups": 16},
    "depthwise, values that no tap meets": {
        "x": (1, 2, 3, 1, 3), "w": (2, 1, 1, 2, 2), "stride": (2, 2, 2), "padding": (1, 1, 1), "groups": 2,
    },
    "depthwise, dilated": {
        "x": (2, 19, 21, 23), "w": (19, 1, 4, 3), "dilation": (3, 2), "padding": (2, 1), "groups": 19,
    },
    "depthwise, columns far apart": {"x": (1, 17, 19, 40), "w": (17, 1, 6, 4), "stride": (3, 5), "groups": 17},
    "depthwise, three of each": {"x": (1, 5, 9, 9), "w": (15, 1, 3, 3), "stride": (2, 2), "groups": 5},
}  # fmt: skip


def random(*shape: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def last(x: np.ndarray) -> np.ndarray:
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)


def slice_columns(x: np.ndarray) -> np.ndarray:
    """The same values as a view of every other column of a larger array, turned around."""
    wide = np.full((*x.shape[:-1], 2 * x.shape[-1]), np.nan, x.dtype)
    wide[..., ::-2] = x
    return wide[..., ::-2]


def call(kernel: Kernel, case: dict[str, Any]) -> tuple[list[np.ndarray], dict[str, Any]]:
    keywords = {name: value for name, value in case.items() if name not in ("x", "w")}
    x, w = random(*case["x"], seed=1), random(*case["w"], seed=2)
    g = random(*conv.reference(x, w, **keywords).shape, seed=3)
    if kernel is conv:
        return [x, w], keywords
    if kernel is conv_input_gradient:
        return [g, w], keywords | {"input_size": x.shape[2:]}
    return [x, g], keywords | {"kernel_size": w.shape[2:]}


def run(kernel: Kernel, name: str, arrays: list, keywords: dict[str, Any]) -> np.ndarray:
    """An implementation by name, with NaN in the memory that it works in; the test is skipped where it refuses the
    signature."""
    memory = take_workspace(1 << 22)
    memory.fill(0xFF)
    return_workspace(memory)
    try:
        return kernel[name](*arrays, every=True, **keywords)
    except Refused as refused:
        finite = all(np.isfinite(array).all() for array in arrays if isinstance(array, np.ndarray))
        if finite and "finite" in str(refused):
            raise
        pytest.skip(str(refused))


def pairs(*cases: str) -> list[tuple[str, str, str]]:
    """Each case with every implementation that is meant for it."""
    return [(*each, case) for case in cases for each in COMPILED if each[1] != "depthwise" or "depthwise" in case]


@pytest.mark.parametrize(("kernel", "name", "case"), pairs(*CASES))
@pytest.mark.parametrize("precision", ["ieee", "bf16", "tf32", "bf16x3"])
def test_layouts_and_shapes(kernel: str, name: str, case: str, precision: str) -> None:
    arrays, keywords = call(BY_NAME[kernel], CASES[case])
    options = keywords | ({} if precision == "ieee" else {"precision": precision})
    exact = BY_NAME[kernel].reference(*arrays, **keywords)
    magnitudes = BY_NAME[kernel].reference(*map(np.abs, arrays), **keywords)
    allowed = (BY_NAME[kernel].bound[precision] * 1.01 + 2e-6) * magnitudes
    for layout in (np.asarray, last, slice_columns):
        result = run(BY_NAME[kernel], name, [layout(arrays[0]), *arrays[1:]], options)
        assert result.shape == exact.shape
        assert (np.abs(result - exact) <= allowed).all()


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16], ids=lambda dtype: np.dtype(dtype).name)
def test_windows_at_every_edge(dtype: Any, stride: int) -> None:
    """Depthwise 3 x 3, channels last: images that end anywhere in a cell, of all and of some channels of a vector."""
    for height, width, up, left in itertools.product((1, 2, 5, 8), (1, 4, 7, 10), (0, 1, 2), (0, 1, 2)):
        if height + 2 * up < 3 or width + 2 * left < 3:
            continue
        keywords = {"stride": (stride, stride), "padding": (up, left), "groups": 19}
        x, w = (random(*shape, seed=1).astype(dtype) for shape in ((2, 19, height, width), (19, 1, 3, 3)))
        result = run(conv, "depthwise", [last(x), w], keywords)
        exact = conv.reference(x, w, **keywords)
        unit = 2.0**-20 if dtype is np.float32 else 2.0**-8
        allowed = unit * conv.reference(np.abs(x), np.abs(w), **keywords) + 2.0**-30
        assert (np.abs(result.astype(np.float64) - exact) <= allowed).all(), keywords
        g = last(random(*exact.shape, seed=3).astype(dtype))
        keywords["input_size"] = height, width
        result = run(conv_input_gradient, "depthwise", [g, w], keywords)
        exact = conv_input_gradient.reference(g, w, **keywords)
        allowed = unit * conv_input_gradient.reference(np.abs(g), np.abs(w), **keywords) + 2.0**-30
        assert (np.abs(result.astype(np.float64) - exact) <= allowed).all(), keywords


@pytest.mark.parametrize(("kernel", "name", "case"), pairs("padded rows", "strips", "one tap", "depthwise"))
def test_bits_do_not_depend_on_threads(kernel: str, name: str, case: str) -> None:
    arrays, keywords = call(BY_NAME[kernel], CASES[case])
    found = []
    for threads in (1, 2, 3):
        with threading.num_threads(threads):
            found.append(run(BY_NAME[kernel], name, arrays, keywords))
    assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()


@pytest.mark.parametrize("threads", [1, 2])
def test_bits_of_a_weight_gradient_in_parts(threads: int) -> None:
    """Large enough for parts of the positions, whose sums are added in a fixed order."""
    x, g = random(4, 64, 56, 56, seed=1), random(4, 32, 56, 56, seed=2)
    keywords = {"kernel_size": (1, 1), "precision": "bf16"}
    expected = run(conv_weight_gradient, "direct", [x, g], keywords)
    with threading.num_threads(threads):
        assert run(conv_weight_gradient, "direct", [x, g], keywords).tobytes() == expected.tobytes()
    exact = conv_weight_gradient.reference(x, g, kernel_size=(1, 1))
    assert np.abs(expected - exact).max() <= 2.0**-7 * np.sqrt(4 * 56 * 56) * 2


@pytest.mark.parametrize("value", [1e-40, 1e-30, 3e38, np.inf, np.nan], ids=str)
@pytest.mark.parametrize("precision", ["ieee", "bf16", "bf16x3", "tf32"])
def test_values_that_tiles_cannot_hold(value: float, precision: str) -> None:
    """Such values are refused by name; the kernel runs an implementation that keeps the contract."""
    x, w = random(1, 16, 6, 6, seed=1), random(8, 16, 3, 3, seed=2)
    x[0, 3, 2, 2] = value
    options = {"padding": (1, 1)} | ({} if precision == "ieee" else {"precision": precision})
    result = conv(x, w, **options)
    with np.errstate(all="ignore"):
        exact = conv.reference(x, w, padding=(1, 1))
        magnitudes = conv.reference(np.abs(x), np.abs(w), padding=(1, 1))
    finite = np.abs(exact) < 3e38
    assert (np.isnan(result) == np.isnan(exact)).all()
    allowed = (conv.bound[precision] * 1.01 + 2e-6) * magnitudes[finite]
    assert (np.abs(result[finite] - exact[finite]) <= allowed).all()


@pytest.mark.parametrize("which", ["x", "g"])
def test_a_weight_gradient_of_infinities(which: str) -> None:
    """Values that are not finite appear only where the definition has them, although padding is multiplied too."""
    x, g = random(2, 9, 6, 6, seed=1), random(2, 17, 6, 6, seed=2)
    (x if which == "x" else g)[1, 2, 0, 0] = np.inf
    keywords = {"kernel_size": (3, 3), "padding": (1, 1)}
    with np.errstate(all="ignore"):
        exact = conv_weight_gradient.reference(x, g, **keywords)
    result = conv_weight_gradient(x, g, **keywords, precision="bf16")
    assert (np.isfinite(result) == np.isfinite(exact)).all()


@pytest.mark.parametrize("name", ["direct", "implicit", "depthwise"])
@pytest.mark.parametrize("layout", [np.asarray, last])
def test_bias_and_relu_are_fused(name: str, layout: Any) -> None:
    groups = 20 if name == "depthwise" else 1
    x, w = layout(random(2, 20, 7, 9, seed=1)), random(20, 20 // groups, 3, 3, seed=2)
    bias = random(20, seed=3)
    keywords = {"padding": (1, 1), "groups": groups}
    result = run(conv, name, [x, w, bias], keywords | {"relu": True})
    exact = conv.reference(x, w, bias, relu=True, **keywords)
    assert (result >= 0).all()
    assert (result == 0).any()
    assert np.abs(result - exact).max() < 1e-4
    assert (result.strides[1] == result.itemsize) == (x.strides[1] == x.itemsize)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("relu", [False, True])
def test_one_tap_with_a_bias(dtype: Any, relu: bool) -> None:
    x, w, bias = (random(*shape, seed=1).astype(dtype) for shape in ((3, 34, 19, 11), (33, 34, 1, 1), (33,)))
    result = run(conv, "direct", [x, w, bias], {"precision": "bf16", "relu": relu})
    exact = conv.reference(x, w, bias, relu=relu)
    assert result.dtype == dtype
    assert ((result >= 0).all(), (result == 0).any()) == (relu, relu)
    allowed = 2.0**-7 * conv.reference(np.abs(x), np.abs(w), np.abs(bias))
    assert (np.abs(result.astype(np.float32) - exact) <= allowed).all()


@pytest.mark.parametrize("bias", [1e-40, np.inf])
def test_a_bias_that_tiles_cannot_hold(bias: float) -> None:
    x, w = np.zeros((1, 16, 4, 4), np.float32), random(16, 16, 1, 1, seed=2)
    result = conv(x, w, np.full(16, bias, np.float32), precision="bf16")
    assert (result == np.float32(bias)).all()


@pytest.mark.parametrize("name", ["direct", "implicit"])
def test_kept_weights_give_the_same_bits(name: str) -> None:
    x, w = random(2, 20, 7, 9, seed=1), random(33, 20, 3, 3, seed=2)
    kept = Kept(w)
    for precision in ("ieee", "bf16"):
        options = {"padding": (1, 1)} | ({} if precision == "ieee" else {"precision": precision})
        first = run(conv, name, [x, w], options)
        for _ in range(2):
            assert run(conv, name, [x, kept], options).tobytes() == first.tobytes()
    assert len(kept.forms) == 2
    assert conv["explicit"](x, kept, padding=(1, 1)).shape == first.shape


@pytest.mark.parametrize("threads", [1, 3])
def test_chunks_of_positions(threads: int) -> None:
    """A weight's gradient is the same to the bit for any number of threads, and right where rows and images are cut."""
    from minitorch_backends.kernels.conv import weight_implicit

    for places, case in itertools.product((1 << 20, 9), ("strides over rows and columns", "strips", "padded rows")):
        arrays, keywords = call(conv_weight_gradient, CASES[case])
        results = []
        for count in (2, threads):
            with weight_implicit.thresholds.override(packed_bytes=places, places=places), threading.num_threads(count):
                results.append(run(conv_weight_gradient, "implicit", arrays, keywords))
        assert results[0].tobytes() == results[1].tobytes()
        exact = conv_weight_gradient.reference(*arrays, **keywords)
        assert np.abs(results[0] - exact).max() <= 1e-5 * np.abs(exact).max()


@pytest.mark.parametrize("shape", [(2, 8, 150, 150), (16, 8, 20, 20), (8, 96, 5, 5)], ids=str)
def test_a_weight_gradient_takes_the_workspace_that_it_names(monkeypatch, shape) -> None:
    """One image at least, some where they are small: within a quarter and what threads have for themselves."""
    from minitorch_backends.kernels.conv import weight_implicit

    taken = []
    take = weight_implicit.Workspace
    monkeypatch.setattr(weight_implicit, "Workspace", lambda count: taken.append(count) or take(count))
    random = np.random.default_rng(3)
    x, g = (random.standard_normal((shape[0], count, *shape[2:]), np.float32) for count in (shape[1], 32))
    keywords = {"kernel_size": (3, 3), "padding": (1, 1)}
    run(conv_weight_gradient, "implicit", (x, g), keywords)
    specs = [ArraySpec(each.shape, each.dtype) for each in (x, g)]
    named = workspace(conv_weight_gradient, "implicit", *specs, **keywords)
    assert max(taken) <= 1.25 * named + (1 << 18)
    assert named <= 2 * max(taken)


def tasks() -> Iterator[Task]:
    for size, kernel, stride, padding, dilation in itertools.product((5, 8), (1, 3), (1, 2, 3), (0, 2), (1, 2)):
        if size + 2 * padding >= dilation * (kernel - 1) + 1:
            yield Task(2, (1, size, 6), (1, kernel, 2), (1, stride, 1), (0, padding, 1), (1, dilation, 1))


@settings(max_examples=30, deadline=None)
@given(task=st.sampled_from(list(tasks())), folded=st.integers(0, 2))
def test_every_tap_is_a_shift(task: Task, folded: int) -> None:
    """Walking the flat lists gives the windows of the definition."""
    where = forward_geometry(task, folded, 32)
    x = np.arange(1, 1 + task.images * 6 * task.size[1], dtype=np.float32).reshape(task.images, 1, 1, -1, 6)
    strides = x.strides
    table = spots(where, where.sources, (strides[0], *strides[2:]), 4)
    assert table is not None
    flat = x.ravel()
    found = np.where(table.offsets == NOWHERE, 0, flat[np.maximum(table.offsets, 0) // 4])
    repeats = 1 if where.period == task.images else task.images
    per_image = flat.size // task.images
    periods = [np.where(found == 0, 0, found + n * per_image) if repeats > 1 else found for n in range(repeats)]
    lists = np.concatenate([period.reshape(len(where.sources), -1) for period in periods], axis=1)
    lists = np.pad(lists, ((0, 0), (where.front, where.back)))
    folds = len(where.sources) // where.planes
    w = np.ones((1, 1, *task.kernel), np.float32)
    steps = {"stride": task.stride, "padding": task.padding, "dilation": task.dilation}
    (one,) = where.passes
    place = where.front + np.arange(task.images)[:, None, None, None] * where.image
    for axis, (count, step) in enumerate(zip(one.counts, where.steps, strict=True)):
        place = place + np.arange(count).reshape([-1 if axis == other else 1 for other in range(3)]) * step
    planes = lists.reshape(where.planes, folds, -1).sum(axis=1)
    total = sum(planes[plane][place + shift] for plane, shift, _ in one.taps)
    assert np.array_equal(total, conv.reference(x, w, **steps)[:, 0])


def test_runs_of_positions() -> None:
    """A row of 16: neighbours, every other value in one piece and in two, and none of these."""
    task = Task(1, (1, 2, 8), (1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 1, 1))
    where = forward_geometry(task, 0, 32)
    assert spots(where, where.sources, (64, 64, 32, 4), 4).runs.tolist() == [[[0, 0xFFFF, 0, 0]]]
    assert spots(where, where.sources, (64, 64, 64, 8), 4).runs.tolist() == [[[0, 0xFFFF | EVERY_OTHER, 0, 0]]]
    two = [[[0, 0xFF | EVERY_OTHER, 100 - 64, 0xFF00]]]
    assert spots(where, where.sources, (64, 64, 100, 8), 4).runs.tolist() == two
    assert spots(where, where.sources, (64, 64, 100, 4), 4).runs[0, 0, 1] == -1
    assert spots(where, where.sources, (64, 64, 1 << 30, 1 << 30), 4) is None


def in_place(x: np.ndarray, shift: int) -> np.ndarray:
    """A copy with the channels last in memory, which begins `shift` bytes behind a cache line."""
    memory = np.empty(x.nbytes + 128, np.uint8)
    start = (shift - address_of(memory)) % 64
    found = np.moveaxis(memory[start : start + x.nbytes].view(x.dtype).reshape(*x.shape[:1], *x.shape[2:], -1), -1, 1)
    found[...] = x
    return found


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("count", [5, 16, 37])
def test_windows_at_the_edge_weigh_what_exists(stride: int, count: int) -> None:
    """Infinity in a corner is part of the taps that meet it, and of no others, though cells reach beyond the image."""
    size, last = (9, 7), (-(-9 // stride) - 1, -(-7 // stride) - 1)
    x, g = random(2, count, *size, seed=1), random(2, count, last[0] + 1, last[1] + 1, seed=2)
    x[0, :, 0, 0], x[0, :, -1, -1], g[1, :, -1, -1] = np.inf, np.inf, np.inf
    options = {"kernel_size": (3, 3), "stride": (stride, stride), "padding": (1, 1), "groups": count}
    with np.errstate(invalid="ignore"):
        found = run(conv_weight_gradient, "depthwise", [in_place(x, 0), in_place(g, 0)], options)
    met = np.zeros((3, 3), bool)
    for place in itertools.product(range(last[0] + 1), range(last[1] + 1)):
        for tap in itertools.product(range(3), range(3)):
            at = tuple(stride * i + t - 1 for i, t in zip(place, tap, strict=True))
            exists = all(0 <= i < length for i, length in zip(at, size, strict=True))
            met[tap] |= at in ((0, 0), (8, 6)) or (exists and place == last)
    assert not met.all()
    assert np.array_equal(np.isfinite(found[:, 0]), np.broadcast_to(~met, (count, 3, 3)))


def test_sums_become_bfloat16_as_numpy_rounds_them() -> None:
    from minitorch_backends.kernels.runtime import cpu

    if cpu.refusal("avx512") is not None:
        pytest.skip("only tiles have such sums")
    from minitorch_backends.kernels.conv.round_bf16 import rounded_sums

    bits = np.random.default_rng(5).integers(0, 1 << 32, 70_013, dtype=np.uint32)
    bits[:8] = 0x3F808000, 0x3F818000, 0x7F800000, 0xFF800000, 0x00000001, 0x7F7FFFFF, 0x80000000, 0x3F808001
    sums = bits.view(np.float32)
    with np.errstate(invalid="ignore"):  # NaNs that signal
        expected = sums.astype(ml_dtypes.bfloat16)
        found = rounded_sums(sums, expected.dtype)
        missing = np.isnan(sums) & np.isnan(found.astype(np.float32))
    assert np.all(missing | (found.view(np.uint16) == expected.view(np.uint16)))
    assert missing.sum() == np.isnan(sums).sum()


def test_blocks_of_tiles_and_chunks_of_outputs() -> None:
    for shape, outputs in (((3, 5, 37, 29), 33), ((1, 4, 13, 9), 300)):
        x, w = random(*shape, seed=1), random(outputs, shape[1], 3, 3, seed=2)
        try:
            found = conv["winograd2"](x, w, padding=(1, 1), every=True)
        except Refused:
            pytest.skip("this CPU has no AVX2")
        assert np.allclose(found, conv.reference(x, w, padding=(1, 1)), rtol=1e-4, atol=2e-4)
        with threading.num_threads(threading.get_num_threads() + 2):
            assert np.array_equal(conv["winograd2"](x, w, padding=(1, 1), every=True), found)
