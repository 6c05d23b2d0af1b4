"""Pooling of large images by loops, beside windows of NumPy."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import minitorch_backends as mt
from minitorch_backends.kernels.arrays import pooling
from minitorch_backends.kernels.runtime import threading

F = mt.nn.functional
SPOILED = {"none": None, "NaN": np.nan, "-inf": -np.inf, "-0": -0.0}


def channels_last(x: np.ndarray) -> np.ndarray:
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)


def pool(dims: int, x: np.ndarray, seed: int, *options: Any) -> list[np.ndarray]:
    """Values, indices and the gradient."""
    input = mt.from_numpy(x).requires_grad_()
    values, indices = getattr(F, f"max_pool{dims}d")(input, *options, True)
    g = np.random.default_rng(seed).standard_normal(values.shape).astype(x.dtype)
    (of_input,) = mt.autograd.grad(values, [input], mt.from_numpy(g if x.flags.c_contiguous else channels_last(g)))
    return [each.detach().numpy() for each in (values, indices, of_input)]


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from([np.float32, np.float64]), st.sampled_from(sorted(SPOILED)), st.booleans())
def test_loops_give_what_windows_give(data: Any, dtype: Any, spoiled: str, ceil_mode: bool) -> None:
    dims = data.draw(st.integers(1, 2))
    size = [data.draw(st.integers(1, 11)) for _ in range(dims)]
    kernel, stride = ([data.draw(st.integers(1, 3)) for _ in range(dims)] for _ in range(2))
    dilation = [data.draw(st.integers(1, 2)) for _ in range(dims)]
    padding = [data.draw(st.integers(0, (d * (k - 1) + 1) // 2)) for d, k in zip(dilation, kernel, strict=True)]
    reach = [s + 2 * p - d * (k - 1) for s, p, d, k in zip(size, padding, dilation, kernel, strict=True)]
    assume(min(reach) > 0)
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    images = -(-pooling._LEAST // int(np.prod(size)))
    x = rng.integers(-3, 4, (2, images, *size)).astype(dtype)
    if SPOILED[spoiled] is not None:
        x[rng.random(x.shape) < rng.choice([0.1, 0.8])] = SPOILED[spoiled]
    options = kernel, stride, padding, dilation, ceil_mode
    assert pooling.takes(x)
    loops = pool(dims, x, 1, *options)
    with threading.num_threads(1):
        alone = pool(dims, x, 1, *options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pooling, "takes", lambda images: False)
        windows = pool(dims, x, 1, *options)
    for one, other, third in zip(loops[:2], windows[:2], alone[:2], strict=True):
        assert np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
        assert one.tobytes() == third.tobytes()
    assert loops[2].tobytes() == alone[2].tobytes()
    assert np.allclose(loops[2], windows[2], rtol=0, atol=20 * np.finfo(dtype).eps)
    last = channels_last(x)
    assert pooling.takes(last)
    for one, other in zip(loops, pool(dims, last, 1, *options), strict=True):
        assert one.tobytes() == other.tobytes()


def test_results_have_the_layout_of_the_images() -> None:
    x = channels_last(np.random.default_rng(0).standard_normal((2, 16, 9, 8)))
    assert all(pooling.is_last(each) for each in pool(2, x, 1, 3, 2, 1, 1, False))


def test_other_images_are_left_to_windows() -> None:
    x = np.ones((4, 8, 16, 16), np.float32)
    assert pooling.takes(x)
    for other in (x[:1, :1], x.astype(np.int32), x.astype(np.float16), x.transpose(0, 2, 3, 1), x[None], x[..., ::2]):
        assert not pooling.takes(other)


def test_places_that_come_twice_are_summed_and_minus_one_is_left_out() -> None:
    indices = np.tile(np.array([5, 0, 5, -1, 7, 5]), (10, 100, 1))
    values = np.arange(6000.0).reshape(10, 100, 6)
    wanted = np.zeros((10, 100, 9))
    wanted[..., 0], wanted[..., 7] = values[..., 1], values[..., 4]
    wanted[..., 5] = values[..., 0] + values[..., 2] + values[..., 5]
    assert np.array_equal(pooling.add_at(values, indices, 9), wanted)


@pytest.mark.parametrize("wrong", [9, -2, 2**62])
def test_places_outside_are_refused(wrong: int) -> None:
    indices = np.zeros((10, 100, 6), np.int64)
    indices[3, 20, 5] = wrong
    with pytest.raises(RuntimeError, match=f"the index {wrong} of a value in an image of 9; expected 0 to 8"):
        pooling.add_at(np.ones((10, 100, 6)), indices, 9)
