"""Convolutions of one tap where the channels of a position are neighbours in memory."""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from minitorch_backends.kernels.conv import conv, conv_input_gradient
from minitorch_backends.kernels.precisions.parts import round_to
from minitorch_backends.kernels.registry import Refused
from minitorch_backends.kernels.runtime import threading

from .test_direct import in_place, random, run

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
direct, input_gradient = (functools.partial(each["direct"], every=True) for each in (conv, conv_input_gradient))

LINES = {
    "the last block begins before the last but one ends": ((1, 32, 7, 7), 64, 1),
    "one block": ((2, 64, 4, 4), 32, 1),
    "strips of several blocks": ((3, 32, 29, 31), 96, 1),
    "sums that are kept between steps": ((2, 32 * 23, 9, 10), 64, 1),
    "weights in parts": ((1, 1024, 6, 6), 1024, 1),
    "one dimension": ((2, 64, 45), 64, 1),
    "a stride": ((2, 128, 13, 9), 64, 2),
    "a stride over strips of several blocks": ((3, 256, 40, 37), 32, (2, 1)),
    "a stride in three dimensions": ((1, 128, 5, 6, 7), 32, (1, 3, 2)),
}
"""The shape of x, outputs, and the stride."""


KINDS = [(BFLOAT16, "ieee"), (np.float32, "bf16"), (np.float32, "tf32"), (np.float32, "bf16x3"), (np.float32, "ieee")]
"""Dtypes and precisions: one to three parts, in place and packed."""


def _round_operand(array: np.ndarray, precision: str) -> np.ndarray:
    """The rounded operands, in float64."""
    if array.dtype == np.float32 and precision in ("bf16", "tf32"):
        array = round_to(array, precision, "rna" if precision == "tf32" else None)
    return array.astype(np.float64)


def _case(name: str, dtype: Any, precision: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
    shape, outputs, stride = LINES[name]
    dims = len(shape) - 2
    x, w, bias = (
        random(*size, seed=11).astype(dtype) for size in (shape, (outputs, shape[1], *[1] * dims), (outputs,))
    )
    options = {"stride": stride if isinstance(stride, tuple) else (stride,) * dims}
    return x, w, bias, options | {"precision": precision}


@pytest.mark.parametrize("case", LINES)
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize(("dtype", "precision"), KINDS)
def test_results_in_the_order_of_memory(case: str, relu: bool, dtype: Any, precision: str) -> None:
    """Equal to float64 products of rounded values, with a bias, max(., 0), and NaN that stays."""
    x, w, bias, options = _case(case, dtype, precision)
    exact = conv.reference(_round_operand(x, precision), _round_operand(w, precision), stride=options["stride"])
    exact += bias.astype(np.float64).reshape(-1, *[1] * (x.ndim - 2))
    if relu:
        exact = np.maximum(exact, 0)
    if precision == "bf16" or dtype == BFLOAT16:  # values that are split have to be finite
        x[(-1, 5, *[0] * (x.ndim - 2))] = np.nan
        exact[(-1, slice(None), *[0] * (x.ndim - 2))] = np.nan
    found = run(conv, "direct", [in_place(x, 0), w, bias], options | {"relu": relu})
    assert np.moveaxis(found, 1, -1).flags.c_contiguous
    tolerance = 2**-8 if dtype == BFLOAT16 else 1e-6
    least = 1e-3 if precision == "bf16x3" else 1e-4
    np.testing.assert_allclose(found.astype(np.float64), exact, rtol=tolerance, atol=least)
    again = direct(in_place(x, 0), w, bias, relu=relu, **options)
    assert np.array_equal(found, again, equal_nan=True)
    packed = direct(in_place(x, 4), w, bias, relu=relu, **options)
    assert np.array_equal(found, packed, equal_nan=True)


@pytest.mark.parametrize("case", LINES)
@pytest.mark.parametrize(("dtype", "precision"), KINDS)
def test_bits_do_not_depend_on_threads(case: str, dtype: Any, precision: str) -> None:
    x, w, _, options = _case(case, dtype, precision)
    found = run(conv, "direct", [in_place(x, 0), w], options)
    for count in (1, threading.get_num_threads() + 3):
        with threading.num_threads(count):
            assert np.array_equal(direct(in_place(x, 0), w, **options), found)


@pytest.mark.parametrize("dtype", [BFLOAT16, np.float32])
@pytest.mark.parametrize("stride", [(1, 1), (2, 2)])
@pytest.mark.parametrize("value", [1e-39, -1e-40])
def test_magnitudes_that_tiles_flush(dtype: Any, stride: tuple[int, int], value: float) -> None:
    """Anywhere that is read, and nowhere else: among zeros they would be lost, among other numbers they are nothing."""
    x, w = (random(*shape, seed=7).astype(dtype) for shape in ((2, 128, 9, 9), (32, 128, 1, 1)))
    options = {"stride": stride} | ({} if dtype == BFLOAT16 else {"precision": "bf16"})
    run(conv, "direct", [in_place(x, 0), w], options)
    for place in ((0, 0, 0, 0), (1, 127, 8, 8), (1, 33, 4, 6)):
        broken, without, alone = x.copy(), x.copy(), np.zeros_like(x)
        broken[place], without[place], alone[place] = value, 0, value
        found, wanted = (direct(in_place(each, 0), w, **options) for each in (broken, without))
        np.testing.assert_array_equal(found, wanted)
        with pytest.raises(Refused, match="flush"):
            direct(in_place(alone, 0), w, **options)
    skipped = np.zeros_like(x)
    skipped[1, 5, 3, 4] = value
    if stride == (2, 2):
        direct(in_place(skipped, 0), w, **options)


@pytest.mark.parametrize("shape", [(2, 64, 8, 8), (1, 256, 7, 9)])
@pytest.mark.parametrize("precision", ["ieee", "bf16"])
def test_input_gradients_where_they_lie(shape: tuple[int, ...], precision: str) -> None:
    dtype = BFLOAT16 if precision == "ieee" else np.dtype(np.float32)
    g, w = random(*shape, seed=12).astype(dtype), random(shape[1], 96, 1, 1, seed=13).astype(dtype)
    options = {"input_size": shape[2:]} | ({} if precision == "ieee" else {"precision": precision})
    found = run(conv_input_gradient, "direct", [in_place(g, 0), w], options)
    rounded = [each.astype(BFLOAT16).astype(np.float64) for each in (g, w)]
    exact = conv_input_gradient.reference(*rounded, input_size=shape[2:])
    tolerance = 2**-8 if dtype == BFLOAT16 else 1e-6
    np.testing.assert_allclose(found.astype(np.float64), exact, rtol=tolerance, atol=2e-4)


def test_bfloat16_on_cache_lines_are_tiles_as_they_lie() -> None:
    shapes = (2, 64, 8, 8), (32, 64, 1, 1), (2, 32, 8, 8)
    x, w, g = (random(*shape, seed=7).astype(ml_dtypes.bfloat16) for shape in shapes)
    try:
        packed = direct(in_place(x, 2), w), input_gradient(in_place(g, 2), w, input_size=(8, 8))
    except Refused:
        pytest.skip("this CPU has no tiles")
    assert np.array_equal(direct(in_place(x, 0), w), packed[0])
    assert np.array_equal(input_gradient(in_place(g, 0), w, input_size=(8, 8)), packed[1])
    assert np.allclose(packed[0].astype(np.float64), conv.reference(x, w), rtol=2e-2, atol=2e-2)
    x[...], x[1, 33, 7, 7] = 0, 1e-39
    with pytest.raises(Refused, match="flush"):
        direct(in_place(x, 0), w)


@pytest.mark.parametrize("groups", [2, 4])
def test_groups_of_one_tap_where_they_lie(groups: int) -> None:
    """Convolutions and gradients of channels that are whole lines, but of several groups."""
    shapes = (2, 128, 6, 6), (128, 128 // groups, 1, 1)
    x, w = (random(*shape, seed=13).astype(ml_dtypes.bfloat16) for shape in shapes)
    for kernel, sizes in ((conv, {}), (conv_input_gradient, {"input_size": (6, 6)})):
        options = {"groups": groups, **sizes}
        exact = kernel.reference(x.astype(np.float64), w.astype(np.float64), **options)
        found = run(kernel, "direct", [in_place(x, 0), w], options)
        np.testing.assert_allclose(found.astype(np.float64), exact, rtol=2**-8, atol=1e-4)
