"""Convolutions of images whose channels are neighbours in memory, which AVX-512 reads where they lie."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from minitorch_backends.kernels.conv import Kept, conv, conv_input_gradient
from minitorch_backends.kernels.conv.shapes import is_channels_last
from minitorch_backends.kernels.registry import Kernel
from minitorch_backends.kernels.runtime import threading

from .test_conv import Shape, arguments, assert_within_bound, laid_out_last, normal

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

SHAPES = {
    "a strip of four vectors, and of one": Shape((2, 16, 80, 1), (9, 11), (1, 1)),
    "a strip of three vectors, not all of it": Shape((3, 64, 41, 1), (5, 7), (1, 1)),
    "a strip of two vectors, not all of it": Shape((1, 24, 24, 1), (12, 13), (3, 3), (1, 1), (1, 1)),
    "a rest of words": Shape((2, 38, 130, 1), (7, 7), (3, 3), (1, 1), (1, 1)),
    "few positions": Shape((1, 72, 33, 1), (1, 3), (1, 1)),
    "few channels": Shape((2, 2, 3, 1), (6, 5), (2, 3), (1, 1), (1, 2)),
    "strips of images": Shape((5, 32, 64, 1), (31, 29), (3, 3), (1, 1), (1, 1)),
    "images that share no table": Shape((2, 16, 16, 1), (90, 91), (3, 3), (1, 1), (1, 1)),
    "a stride": Shape((2, 48, 64, 1), (15, 14), (3, 3), (2, 2), (1, 1)),
    "a stride of one tap": Shape((3, 64, 32, 1), (9, 12), (1, 1), (2, 2)),
    "a stride and a dilation that differ": Shape((1, 16, 20, 1), (17, 19), (2, 3), (3, 1), (2, 1), (1, 2)),
    "one dimension": Shape((2, 20, 16, 1), (70,), (5,), (2,), (2,)),
    "three dimensions": Shape((1, 16, 12, 1), (5, 6, 7), (2, 3, 2), (1, 2, 1), (1, 1, 0)),
    "weights in parts": Shape((1, 1024, 512, 1), (3, 4), (1, 1)),
    "padding alone is met": Shape((2, 16, 20, 1), (1, 19), (1, 1), (2, 1), (1, 0)),
    "many taps and padding": Shape((1, 32, 16, 1), (4, 5), (7, 7), (1, 1), (5, 5)),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, BFLOAT16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("kernel", [conv, conv_input_gradient], ids=lambda kernel: kernel.name)
def test_results_are_within_the_bound(kernel: Kernel, dtype: Any, shape: str) -> None:
    arrays, keywords = arguments(kernel, SHAPES[shape], dtype, channels_last=True)
    assert_within_bound(kernel, "implicit", SHAPES[shape], arrays, keywords)
    assert is_channels_last(kernel(*arrays, **keywords))


@pytest.mark.parametrize("shape", ["a rest of words", "strips of images", "a stride", "weights in parts"])
@pytest.mark.parametrize("dtype", [np.float32, BFLOAT16], ids=["float32", "bfloat16"])
def test_bits_do_not_depend_on_threads_and_on_whether_weights_are_kept(dtype: Any, shape: str) -> None:
    (x, w), keywords = arguments(conv, SHAPES[shape], dtype, channels_last=True)
    found = [conv(x, w, **keywords), conv(x, Kept(w), **keywords)]
    threads = threading.get_num_threads()
    try:
        threading.set_num_threads(1)
        found.append(conv(x, w, **keywords))
    finally:
        threading.set_num_threads(threads)
    assert all(np.array_equal(found[0], each) for each in found[1:])


@pytest.mark.parametrize("relu", [False, True])
def test_bias_and_what_is_not_finite(relu: bool) -> None:
    """A NaN stays, an Inf reaches those that meet it alone, and a subnormal bias is not flushed."""
    x, w = (normal(*size, seed=5, dtype=BFLOAT16) for size in ((2, 16, 9, 10), (40, 16, 3, 3)))
    x[0, 3, 0, 0], x[1, 2, 8, 9], x[1, :, :5, :5] = np.inf, np.nan, 0
    bias = normal(40, seed=6, dtype=BFLOAT16)
    bias[:3] = np.array([1e-39, -1e-39, -1], BFLOAT16)
    y = conv(laid_out_last(x), w, bias, padding=(1, 1), relu=relu)
    exact = conv.reference(x, w, bias, padding=(1, 1), relu=relu).astype(np.float32)
    finite = np.isfinite(exact)
    assert np.array_equal(np.isfinite(y.astype(np.float32)), finite)
    np.testing.assert_allclose(y.astype(np.float32)[finite], exact[finite], rtol=2.0**-7, atol=2.0**-7)
    assert np.array_equal(
        y[1, :, :4, :4], np.broadcast_to((np.maximum(bias, 0) if relu else bias)[:, None, None], (40, 4, 4))
    )
