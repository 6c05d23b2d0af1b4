"""Convolutions: every algorithm at every precision and hard shape within its bound, and what steers the choice."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

from minitorch_backends.kernels import conv as convolutions
from minitorch_backends.kernels.conv import Kept, conv, conv_input_gradient, conv_weight_gradient, pointwise_vector
from minitorch_backends.kernels.conv.params import setting_of
from minitorch_backends.kernels.conv.shapes import is_channels_last, lay_out_weight
from minitorch_backends.kernels.gemm.compiled import pairs_multiply
from minitorch_backends.kernels.precisions.products import PRECISIONS
from minitorch_backends.kernels.registry import ArraySpec, Kernel, Refused, kernels, observe
from minitorch_backends.kernels.runtime import cpu, threading

from ...support import reference


class Shape(NamedTuple):
    """One convolution: N, C, O and groups, spatial sizes, and steps."""

    counts: tuple[int, int, int, int]
    size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()

    def keywords(self) -> dict[str, Any]:
        steps = {name: getattr(self, name) for name in ("stride", "padding", "dilation") if getattr(self, name)}
        return steps | ({"groups": self.counts[3]} if self.counts[3] != 1 else {})


SHAPES = {
    "one of everything": Shape((1, 1, 1, 1), (1,), (1,)),
    "1-D": Shape((2, 5, 7, 1), (37,), (5,), (2,), (2,)),
    "pointwise": Shape((2, 35, 33, 1), (6, 5), (1, 1)),
    "pointwise, strided": Shape((1, 16, 17, 1), (9, 8), (1, 1), (2, 2)),
    "3 x 3": Shape((2, 33, 17, 1), (15, 17), (3, 3), (1, 1), (1, 1)),
    "3 x 3, one short of a tile": Shape((1, 31, 15, 1), (9, 13), (3, 3)),
    "3 x 3, strided": Shape((2, 16, 32, 1), (14, 14), (3, 3), (2, 2), (1, 1)),
    "3 x 3, dilated": Shape((1, 16, 16, 1), (13, 11), (3, 3), (1, 1), (2, 2), (2, 2)),
    "7 x 7 of three channels": Shape((1, 3, 20, 1), (29, 31), (7, 7), (2, 2), (3, 3)),
    "steps that differ": Shape((1, 6, 4, 1), (17, 12), (2, 5), (3, 1), (0, 4), (2, 1)),
    "grouped": Shape((2, 12, 18, 3), (11, 9), (3, 3), (1, 1), (1, 1)),
    "depthwise": Shape((2, 19, 19, 19), (12, 10), (3, 3), (1, 1), (1, 1)),
    "depthwise, two each, strided": Shape((1, 7, 14, 7), (12, 13), (3, 3), (2, 2), (1, 1)),
    "3-D": Shape((1, 5, 6, 1), (7, 6, 5), (2, 3, 2), (1, 2, 1), (1, 1, 0)),
    "more padding than input": Shape((1, 3, 2, 1), (2, 2), (3, 3), (1, 1), (4, 4)),
    "no images": Shape((0, 3, 4, 1), (5, 5), (3, 3)),
    "no channels": Shape((2, 0, 4, 1), (5, 5), (3, 3)),
}

KERNELS = {each.name: each for each in convolutions.KERNELS}
IMPLEMENTATIONS = [(kernel.name, name) for kernel in convolutions.KERNELS for name in kernel.implementations]
TRANSFORMS = {"winograd2": 8.0, "fft": 64.0}
"""Algorithms that mix neighbouring values, whose errors are relative to the largest sum of magnitudes, by this factor
of the fp32 unit (F(2x2): largest errors of some 4 times those of direct sums)."""


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32, channels_last: bool = False) -> np.ndarray:
    values = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    return laid_out_last(values) if channels_last else values


def laid_out_last(x: np.ndarray) -> np.ndarray:
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)


def arguments(kernel: Kernel, shape: Shape, dtype: Any = np.float32, channels_last: bool = False) -> tuple[list, dict]:
    """The arrays and keywords of a call: the input, the weight, and a gradient of the output's shape."""
    images, channels, outputs, groups = shape.counts
    x = normal(images, channels, *shape.size, seed=1, dtype=dtype, channels_last=channels_last)
    weight = normal(outputs, channels // groups, *shape.kernel, seed=2, dtype=dtype)
    keywords = shape.keywords()
    g = normal(*conv.reference(x, weight, **keywords).shape, seed=3, dtype=dtype, channels_last=channels_last)
    if kernel is conv:
        return [x, weight], keywords
    if kernel is conv_input_gradient:
        return [g, weight], keywords | {"input_size": shape.size}
    return [x, g], keywords | {"kernel_size": shape.kernel}


def depth(kernel: Kernel, shape: Shape, result: np.ndarray) -> int:
    """How many products are summed for an element of the result, at most."""
    taps = int(np.prod(shape.kernel))
    if kernel is conv_weight_gradient:
        return shape.counts[0] * int(np.prod([s + 2 * 4 for s in shape.size]))
    return taps * max(shape.counts[1], shape.counts[2]) // shape.counts[3]


def assert_within_bound(
    kernel: Kernel, name: str, shape: Shape, arrays: list, keywords: dict, precision: str = "ieee"
) -> None:
    options = keywords | ({"precision": precision} if precision != "ieee" else {})
    try:
        result = kernel[name](*arrays, every=True, **options)
    except Refused:
        return
    exact = kernel.reference(*arrays, **keywords)
    assert result.dtype == arrays[0].dtype
    assert result.shape == exact.shape
    if kernel is conv_weight_gradient:
        assert result.size == 0 or np.shares_memory(lay_out_weight(result, arrays[0]), result)
    magnitudes = kernel.reference(*map(np.abs, arrays), **keywords)
    unit = float(np.finfo(result.dtype).eps) / 2 if result.dtype.itemsize >= 4 else 2.0**-24
    error = np.abs(result.astype(exact.dtype) - exact)
    if name in TRANSFORMS:
        allowed = (kernel.bound[precision] + unit * TRANSFORMS[name] * 2) * magnitudes.max(initial=0)
    else:
        allowed = (kernel.bound[precision] * 1.01 + unit * (depth(kernel, shape, result) + 8)) * magnitudes
        allowed = allowed + reference.lost_share(partial(kernel.reference, **keywords), *arrays[:2], precision)
    if result.dtype.itemsize == 2:
        allowed = allowed + np.abs(exact) * (2.0**-8 if result.dtype.name == "bfloat16" else 2.0**-11) + 2.0**-24
    assert np.all(error <= allowed), f"{(error / np.maximum(allowed, 1e-300)).max()} times the bound"


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("kernel", "name"), IMPLEMENTATIONS)
def test_every_algorithm_is_within_its_bound(kernel: str, name: str, shape: str) -> None:
    for channels_last in (False, True):
        arrays, keywords = arguments(KERNELS[kernel], SHAPES[shape], channels_last=channels_last)
        for precision in PRECISIONS:
            assert_within_bound(KERNELS[kernel], name, SHAPES[shape], arrays, keywords, precision)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize(("kernel", "name"), IMPLEMENTATIONS)
def test_every_algorithm_in_other_dtypes(kernel: str, name: str, dtype: Any) -> None:
    for shape in ("3 x 3", "grouped", "1-D"):
        arrays, keywords = arguments(KERNELS[kernel], SHAPES[shape], dtype=dtype)
        if np.dtype(dtype).kind == "c":
            arrays = [(x + 1j * x[::-1]).astype(dtype) for x in arrays]
        assert_within_bound(KERNELS[kernel], name, SHAPES[shape], arrays, keywords)


@pytest.mark.parametrize("kernel", KERNELS)
def test_integers_are_exact_and_wrap_around(kernel: str) -> None:
    arrays, keywords = arguments(KERNELS[kernel], SHAPES["grouped"])
    whole = [(x * 10).astype(np.int64) for x in arrays]
    assert np.array_equal(KERNELS[kernel](*whole, **keywords), KERNELS[kernel].reference(*whole, **keywords))
    small = [x.astype(np.uint8) for x in whole]
    wrapped = KERNELS[kernel].reference(*small, **keywords).astype(np.int64).astype(np.uint8)
    assert np.array_equal(KERNELS[kernel](*small, **keywords), wrapped)


@pytest.mark.parametrize("name", list(conv.implementations))
@pytest.mark.parametrize("channels_last", [False, True])
def test_bias_and_relu(name: str, channels_last: bool) -> None:
    for shape in ("3 x 3", "grouped", "depthwise", "pointwise"):
        arrays, keywords = arguments(conv, SHAPES[shape], channels_last=channels_last)
        bias = normal(len(arrays[1]), seed=4)
        for options in ({}, {"relu": True}):
            try:
                result = conv[name](*arrays, bias, every=True, **keywords, **options)
            except Refused:
                continue
            exact = conv.reference(*arrays, bias, **keywords, **options)
            assert np.allclose(result, exact, rtol=1e-4, atol=2e-4)
            assert is_channels_last(result) == channels_last
            assert (result.min() >= 0) == bool(options)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_halves_are_rounded_once(kernel: str, dtype: Any) -> None:
    arrays, keywords = arguments(KERNELS[kernel], SHAPES["3 x 3"], dtype=dtype)
    if kernel == "conv":
        arrays.append(normal(len(arrays[1]), seed=4, dtype=dtype))
    result = KERNELS[kernel]["explicit"](*arrays, **keywords)
    exact = KERNELS[kernel].reference(*arrays, **keywords)
    nearest = exact.astype(np.float32).astype(dtype)
    assert np.mean(nearest == result) > 0.99


def test_strides_of_any_kind_give_the_same_values() -> None:
    (x, weight), keywords = arguments(conv, SHAPES["3 x 3"])
    plain = conv(x, weight, **keywords)
    wide = np.zeros((*x.shape[:3], 2 * x.shape[3]), x.dtype)
    wide[..., ::2] = x
    backwards = np.ascontiguousarray(x[:, ::-1, :, ::-1])[:, ::-1, :, ::-1]
    for other in (wide[..., ::2], backwards, laid_out_last(x), np.asfortranarray(x)):
        for kernel in (weight, laid_out_last(weight), np.asfortranarray(weight)):
            assert np.allclose(conv(other, kernel, **keywords), plain, rtol=1e-4, atol=1e-4)


def test_blocks_do_not_change_the_columns() -> None:
    for kernel in convolutions.KERNELS:
        for channels_last in (False, True):
            arrays, keywords = arguments(kernel, SHAPES["3 x 3"], np.float64, channels_last)
            by_rows = kernel["explicit"](*arrays, **keywords, workspace_limit=1)
            assert np.allclose(by_rows, kernel["explicit"](*arrays, **keywords), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", ["3 x 3", "3-D"])
def test_columns_keep_below_the_limit_of_the_workspace(shape: str) -> None:
    for kernel in convolutions.KERNELS:
        arrays, keywords = arguments(kernel, SHAPES[shape], np.float64)
        specs = [ArraySpec(each.shape, each.dtype) for each in arrays]
        usual, plain = (
            convolutions.workspace(kernel, "explicit", *specs, **keywords),
            kernel["explicit"](*arrays, **keywords),
        )
        for limit in (usual - 1, usual // 3, usual // 50):
            taken = convolutions.workspace(kernel, "explicit", *specs, **keywords, workspace_limit=limit)
            assert limit // 4 < taken <= limit
            result = kernel["explicit"](*arrays, **keywords, workspace_limit=limit)
            assert np.allclose(result, plain, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
def test_shapes_that_do_not_belong_together_raise_before_any_algorithm_reads(kernel: str) -> None:
    arrays, keywords = arguments(KERNELS[kernel], SHAPES["grouped"])
    wrong: list[tuple[list[np.ndarray], dict[str, Any]]] = [
        ([arrays[0][:, :-1], arrays[1]], keywords),
        ([arrays[0], arrays[1][:-1]], keywords),
        ([arrays[0][0], arrays[1]], keywords),
        (arrays, keywords | {"groups": 0}),
        (arrays, keywords | {"stride": (0, 1)}),
        (arrays, keywords | {"dilation": (1,)}),
        (arrays, keywords | {"padding": (-1, 0)}),
    ]
    if kernel == "conv":
        wrong.append(([*arrays, normal(len(arrays[1]) - 1)], keywords))
        wrong.append(([arrays[0][..., :1], arrays[1]], keywords | {"padding": (0, 0), "dilation": (1, 2)}))
    else:
        size = "input_size" if kernel == "conv_input_gradient" else "kernel_size"
        wrong.append((arrays, keywords | {size: tuple(each + 9 for each in keywords[size])}))
    for others, options in wrong:
        with pytest.raises(ValueError, match="not those of one convolution"):
            KERNELS[kernel](*others, **options)
        for name in KERNELS[kernel].implementations:
            with pytest.raises((ValueError, Refused), match=r"not those of one convolution|needs \w+, and the CPU"):
                KERNELS[kernel][name](*others, **options)


def test_what_is_not_allowed_is_refused_with_the_reason() -> None:
    kernel = Kernel("steered", reference=lambda: None, bound={})
    del kernels["steered"]
    convolutions.declare(kernel, "greedy", lambda a: "greedy", workspace=lambda a: 1000, slower=lambda a: "is slow")
    convolutions.declare(kernel, "modest", lambda a: "modest", workspace=lambda a: 10)
    convolutions.declare(kernel, "last", lambda a, workspace_limit=None: "last", workspace=lambda a, **_: 10, last=True)
    a = np.zeros(3)
    assert kernel(a) == "modest"
    assert kernel(a, every=True) == "greedy"
    assert kernel(a, every=True, workspace_limit=999) == "modest"
    assert kernel(a, workspace_limit=0) == "last"
    assert kernel(a, without=(("greedy", "not today"), ("modest", "nor this"), ("last", "nor that"))) == "last"
    assert kernel.decide(a, every=True, without=(("greedy", "not today"),)).refusals == (("greedy", "not today"),)
    assert kernel.decide(a).refusals == (("greedy", "is slow"),)
    (_, sentence), *_ = kernel.decide(a, every=True, workspace_limit=5).refusals
    assert "1,000" in sentence
    assert "5" in sentence


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [np.inf, np.nan, 1e30, "one"])
def test_spectra_do_not_spread_what_is_not_finite_or_too_large(value: Any, dtype: Any) -> None:
    """Values that would spoil all spectra go to another algorithm."""
    x, w, options = np.random.default_rng(0).standard_normal((1, 2, 24, 24)), np.ones((1, 2, 13, 13)), {"every": True}
    if value == "one":
        x[0, 0, 0, 0] = 1e8
    elif value == 1e30:
        x *= value * (1e270 if dtype == np.float64 else 1e6)
        w *= 1e-3
    else:
        x[0, 0, 0, 0] = value
    x, w = x.astype(dtype), w.astype(dtype)
    assert conv.decide(x, w, prefer="fft", **options).candidates[0].name == "fft"
    with np.errstate(all="ignore"):
        found = conv(x, w, prefer="fft", **options)
        finite = np.isfinite(found)
        assert finite.sum() == found.size - (not np.isfinite(x).all())
        exact = conv["explicit"](x, w)
    found, exact = found[..., 1:, 1:], exact[..., 1:, 1:]  # those that do not meet the first value
    assert np.abs(found - exact).max() <= 100 * np.finfo(dtype).eps * np.abs(exact).max()


def test_spectra_refuse_by_their_values() -> None:
    x, w = np.ones((1, 1, 20, 20), np.float32), np.ones((1, 1, 13, 13), np.float32)
    x[0, 0, 3, 3] = np.inf
    with pytest.raises(Refused, match="not finite"):
        conv["fft"](x, w, every=True)
    x[0, 0, 3, 3] = 1e9
    with pytest.raises(Refused, match=r"few values of 1e\+09"):
        conv["fft"](x, w, every=True)


def test_spectra_are_for_many_products() -> None:
    """A default where transforms take less time than the products that they save."""
    for size, taps, chosen in ((256, 61, True), (256, 15, False), (40, 31, False)):
        x, w = np.zeros((1, 2, size, size), np.float32), np.zeros((2, 2, taps, taps), np.float32)
        y = conv(x, w)
        for kernel, arrays, keywords in (
            (conv, (x, w), {}),
            (conv_input_gradient, (y, w), {"input_size": x.shape[2:]}),
            (conv_weight_gradient, (x, y), {"kernel_size": w.shape[2:]}),
        ):
            decision = kernel.decide(*arrays, **keywords)
            assert (decision.candidates[0].name == "fft") == chosen
            if not chosen:
                assert "takes longer for transforms of" in dict(decision.refusals)["fft"]


@pytest.mark.skipif(cpu.refusal("avx2") is not None, reason="no avx2")
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_one_tap_is_a_product(dtype: Any, rank: int) -> None:
    """Kept or not, with a bias and max(., 0), NaN stays; what does not follow one another goes the general way, and so
    do few positions that are neighbours, and dtypes that are not read where they lie."""
    x = normal(2, 33, *(5, 6, 3)[:rank], seed=1, dtype=dtype, channels_last=True)
    w, bias = normal(17, 33, *[1] * rank, seed=2, dtype=dtype), normal(17, seed=3, dtype=dtype)
    x[(1, 2, *[0] * rank)] = np.nan
    spread = np.moveaxis(np.repeat(np.moveaxis(x, 1, -1), 2, axis=-2)[..., ::2, :], -1, 1)
    setting = setting_of("forward", rank, relu=True)
    planes = np.ascontiguousarray(x)
    by_vectors = dtype in (np.float32, np.float64) and cpu.refusal("avx512") is None
    in_place = rank > 1 and (by_vectors or pairs_multiply(np.dtype(dtype), "ieee"))
    assert [pointwise_vector.takes(setting, each, w) for each in (x, spread, planes)] == [True, False, in_place]
    with np.errstate(invalid="ignore"):
        expected = conv.reference(x, w, bias, relu=True)
    kept, unit = Kept(w), 8 * float(ml_dtypes.finfo(dtype).eps)
    for array, weight in ((x, w), (x, kept), (x, kept), (spread, kept), (planes, w), (planes, kept)):
        result = conv["implicit"](array, weight, bias, relu=True)
        assert is_channels_last(result) == (array is not planes)
        np.testing.assert_allclose(result.astype(np.float64), expected, rtol=unit, atol=8 * unit)
    wide = np.tensordot(expected, w.astype(np.float64).reshape(17, 33), (1, 0))
    for g in (np.ascontiguousarray(expected), expected):
        gradient = conv_input_gradient["implicit"](g.astype(dtype), w, input_size=x.shape[2:])
        np.testing.assert_allclose(gradient.astype(np.float64), np.moveaxis(wide, -1, 1), rtol=unit, atol=40 * unit)


@pytest.mark.skipif(cpu.refusal("avx2") is not None, reason="no avx2")
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("sizes", [(1, 20, 33, 61, 59), (6, 33, 20, 31, 29), (4, 64, 5, 7, 7)])
def test_weight_gradients_of_one_tap_do_not_depend_on_threads(sizes: tuple[int, ...], last: bool) -> None:
    """Whether sums are made of parts of an image or of images, and whichever operand is the left one."""
    images, channels, outputs, *space = sizes
    x = normal(images, channels, *space, seed=1, channels_last=last)
    g = normal(images, outputs, *space, seed=2, channels_last=last)
    expected = conv_weight_gradient.reference(x, g, kernel_size=(1, 1))
    before, found = threading.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            threading.set_num_threads(threads)
            found.append(conv_weight_gradient["implicit"](x, g, kernel_size=(1, 1)))
    finally:
        threading.set_num_threads(before)
    np.testing.assert_allclose(found[0], expected, rtol=0, atol=2e-4)
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_what_fits_a_limit_is_decided_anew_when_the_number_of_threads_changes() -> None:
    """Threads have memory of their own."""
    x, w = np.ones((1, 16, 12, 12), np.float32), np.ones((16, 16, 3, 3), np.float32)
    with threading.num_threads():
        threading.set_num_threads(1)
        specs = [ArraySpec(each.shape, each.dtype) for each in (x, w)]
        limit = convolutions.workspace(conv, "winograd2", *specs)
        taken = []
        for threads in (1, 8):
            threading.set_num_threads(threads)
            with observe(lambda call: taken.append(call.implementation)):
                conv(x, w, prefer="winograd2", every=True, workspace_limit=limit)
    first = "winograd2" if cpu.refusal("avx2") is None else taken[0]
    assert taken[0] == first
    assert taken[1] != "winograd2"
