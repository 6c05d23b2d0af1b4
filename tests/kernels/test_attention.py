"""Attention: every kernel at every precision against float64, gradients, hostile values, threads."""

import contextlib
import itertools
import math

import ml_dtypes
import numpy as np
import pytest

from minitorch_backends.kernels.attention import attention, attention_gradient, chunked, efficient, few, flash
from minitorch_backends.kernels.gemm import skinny
from minitorch_backends.kernels.precisions.products import PRECISIONS
from minitorch_backends.kernels.registry import Refused
from minitorch_backends.kernels.runtime import cpu, threading

SHAPES = {
    # batch, heads, groups, L, S, E
    "one": (1, 1, 1, 1, 1, 1),
    "odd": (2, 3, 3, 37, 37, 5),
    "grouped": (1, 4, 2, 33, 70, 16),
    "wide": (1, 1, 1, 130, 130, 200),
    "blocks": (1, 2, 1, 300, 600, 20),
    "few": (1, 4, 2, 2, 2000, 64),
}
KERNELS = ("flash", "efficient", "math")
FLOAT32_ROUNDING = 2e-6
"""Of sums in float32, with exponentials of a few units in the last place."""


def operands(batch, heads, groups, length, seen, depth, dtype=np.float32, seed=0):
    generator = np.random.default_rng(seed)
    shapes = (batch, heads, length, depth), (batch, groups, seen, depth), (batch, groups, seen, depth)
    return [generator.standard_normal(shape).astype(dtype) for shape in shapes]


def run(name, arrays, **keywords):
    try:
        return attention[name](*arrays, scale=1 / math.sqrt(arrays[0].shape[-1]), **keywords)
    except Refused as refused:
        pytest.skip(str(refused))


def error_bound(arrays, precision):
    """The bound in the docstring of the kernels."""
    q, k, v = (each.astype(np.float64) for each in arrays)
    k, v = (np.repeat(each, q.shape[1] // each.shape[1], 1) for each in (k, v))
    scores = np.abs(q) @ np.abs(k).swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    unit = attention.bound[precision]
    largest = np.abs(v).max(-2, keepdims=True)
    return (unit * (1 + 2 * scores.max(-1, keepdims=True)) + FLOAT32_ROUNDING * (1 + scores.max())) * 2 * largest


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_keeps_the_bound(name, precision):
    for shape, causal in itertools.product(SHAPES.values(), (False, True)):
        arrays = operands(*shape)
        if causal and name == "flash" and shape[3] != shape[4]:
            continue
        keywords = {"causal": True} if causal else {}
        exact = attention.reference(*arrays, scale=1 / math.sqrt(shape[-1]), **keywords)
        found = run(name, arrays, precision=precision, **keywords)
        assert np.all(np.abs(found.out - exact.out) <= error_bound(arrays, precision)), (shape, causal)
        assert np.allclose(found.lse, exact.lse, atol=20 * attention.bound[precision] + 1e-5)
        assert (found.out.dtype, found.statistics.dtype) == (np.float32, np.float32)


@pytest.mark.parametrize("name", KERNELS)
def test_scores_of_few_keys_far_below_zero(name):
    """Only keys count for the largest score; weights would vanish beside the zeros that fill up a block."""
    for dtype, seen in itertools.product((np.float32, ml_dtypes.bfloat16), range(1, 6)):
        q, k, v = operands(1, 2, 2, 3, seen, 8, dtype)
        found = run(name, (np.full_like(q, -100), np.ones_like(k), v))
        assert np.allclose(found.out.astype(float), v.astype(float).mean(2, keepdims=True), atol=0.02)
        assert np.allclose(found.statistics[0], -800 / math.sqrt(8))
        assert np.allclose(found.statistics[1], seen, atol=1e-3)


def exactly(q, k, v, mask, scale, causal):
    """By the definition in long double: the result, and the log-sum-exps."""
    q, k, v = (each.astype(np.longdouble) for each in (q, k, v))
    k, v = (np.repeat(each, q.shape[1] // each.shape[1], 1) for each in (k, v))
    scores = scale * (q @ k.swapaxes(-1, -2)) + mask
    if causal:
        scores[..., np.triu_indices(scores.shape[-1], 1)[0], np.triu_indices(scores.shape[-1], 1)[1]] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    total = weights.sum(-1)
    return weights / total[..., None] @ v, np.log(total) + scores.max(-1)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_float64(name, causal):
    """Results to some 1e-15 and gradients beside those of the reference, with large scores too."""
    for shape, size in itertools.product(SHAPES.values(), (1, 20)):
        arrays, scale = [each * size for each in operands(*shape, np.float64)], 0.3
        if causal and shape[3] != shape[4]:
            continue
        masks = [] if name == "flash" else [_mask((shape[1], *shape[3:5]), np.float64)]
        if masks:
            masks[0][..., 0] = 0.25
        found = attention[name](*arrays, *masks, scale=scale, causal=causal)
        out, lse = exactly(*arrays, masks[0] if masks else 0.0, scale, causal)
        q, k = (np.abs(each) for each in arrays[:2])
        largest = 1 + scale * (q @ np.repeat(k, q.shape[1] // k.shape[1], 1).swapaxes(-1, -2)).max()
        assert (found.out.dtype, found.statistics.dtype) == (np.float64, np.float64)
        assert np.abs(found.out - out).max() <= 1e-15 * largest * np.abs(arrays[2]).max(), (shape, size)
        assert np.abs(found.lse - lse).max() <= 1e-15 * largest, (shape, size)
        if name != "math":
            g = operands(*shape, np.float64, seed=5)[0]
            call = (*arrays, *found, g, *masks)
            gradients = attention_gradient[name](*call, scale=scale, causal=causal)
            wanted = attention_gradient.reference(*call, scale=scale, causal=causal)
            for one, other in zip(gradients, wanted, strict=True):
                assert one.dtype == np.float64
                assert np.abs(one - other).max() <= 1e-14 * largest * max(1, np.abs(other).max()), (shape, size)


@pytest.mark.parametrize(
    "value", [np.inf, -np.inf, np.nan, np.uint64(0x7FF8000000000001).view(np.float64), 1e300, 1e-310]
)
def test_hostile_values_of_float64(value):
    for place in range(3):
        arrays = operands(1, 1, 1, 20, 20, 8, np.float64)
        arrays[place][0, 0, 1, 2] = value
        with np.errstate(all="ignore"):
            expected, found = (attention[name](*arrays, scale=0.3) for name in ("math", "flash"))
            assert np.array_equal(np.isnan(found.out), np.isnan(expected.out))
            np.testing.assert_allclose(found.out, expected.out, rtol=1e-13, atol=1e-13 * (1 + (place == 2) * 1e300))
            gradients = attention_gradient["flash"](*arrays, *found, np.ones_like(found.out), scale=0.3)
        if place == 0 and np.isnan(value):
            assert all(np.isnan(each).all() for each in gradients[1:])


def test_the_reference_is_softmax_of_scores():
    q, k, v = operands(1, 2, 2, 5, 7, 4, np.float64)
    weights = np.exp(q @ k.swapaxes(-1, -2) / 2)
    expected = weights / weights.sum(-1, keepdims=True) @ v
    found = attention.reference(q, k, v, scale=0.5)
    np.testing.assert_allclose(found.out, expected, rtol=1e-12)
    np.testing.assert_allclose(found.lse, np.log(weights.sum(-1)), rtol=1e-12)


@pytest.mark.parametrize("precision", ["ieee", "tf32", "bf16"])
def test_flash_is_no_worse_than_math(precision):
    arrays = operands(1, 4, 4, 256, 256, 64, seed=3)
    exact = attention.reference(*arrays, scale=0.125).out

    def error(name):
        return np.sqrt(np.mean((run(name, arrays, precision=precision).out - exact) ** 2))

    assert error("flash") <= 1.5 * error("math")


def test_flash_is_no_worse_than_math_for_bfloat16():
    arrays = operands(1, 4, 4, 256, 256, 64, ml_dtypes.bfloat16, seed=3)
    exact = attention.reference(*arrays, scale=0.125).out

    def error(name):
        return np.sqrt(np.mean((run(name, arrays).out.astype(np.float64) - exact) ** 2))

    assert error("flash") <= 1.5 * error("math")


@pytest.mark.parametrize("precision", ["ieee", "tf32", "bf16"])
def test_memory_at_length_8192(precision):
    """Of the kernel besides its result: 64 MB a core at most, for heads of 128, causal or not, of several or of one."""
    threads = threading.pool()[1]
    for heads, causal in itertools.product((1, 16), (False, True)):
        shape = (1, heads, 8192, 128)
        strides = tuple(4 * math.prod(shape[place + 1 :]) for place in range(4))
        memory = flash.workspace_bytes(np.dtype(np.float32), precision, causal, threads, (shape,) * 3, (strides,) * 3)
        assert 0 < memory <= 64e6 * threads
        short = tuple((1, heads, 128, 128) for _ in range(3))
        assert memory > flash.workspace_bytes(np.dtype(np.float32), precision, causal, threads, short, (strides,) * 3)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", KERNELS)
def test_half_types(name, dtype):
    arrays = operands(1, 2, 1, 40, 40, 16, dtype)
    exact = attention.reference(*arrays, scale=0.25, causal=True).out
    found = run(name, arrays, causal=True).out
    assert found.dtype == dtype
    unit = 2.0**-11 if dtype is np.float16 else 2.0**-8
    assert np.abs(found.astype(np.float64) - exact).max() <= 4 * unit * np.abs(arrays[2].astype(np.float64)).max()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", ["flash", "efficient"])
@pytest.mark.parametrize(("precision", "tolerance"), [("ieee", 2e-5), ("tf32", 2e-2), ("bf16", 2e-1)])
def test_gradients(name, causal, precision, tolerance):
    keywords = {"scale": 0.25, "causal": causal}
    for shape in ((1, 4, 2, 150, 150, 16), (2, 1, 1, 3, 3, 8)):
        arrays = operands(*shape)
        g = operands(*shape, seed=5)[0]
        exact = attention.reference(*arrays, **keywords)
        wanted = attention_gradient.reference(*arrays, exact.out, exact.statistics, g, **keywords)
        saved = exact.out.astype(np.float32), exact.statistics.astype(np.float32)
        try:
            found = attention_gradient[name](*arrays, *saved, g, precision=precision, **keywords)
        except Refused as refused:
            pytest.skip(str(refused))
        for one, other in zip(found, wanted, strict=True):
            assert np.abs(one - other).max() <= tolerance * np.abs(other).max()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["flash", "efficient", "masked"])
def test_gradients_have_the_weights_of_the_result(name, dtype):
    """To a few units, of scores up to 60, whose log-sum-exp has a rounding error of 16. (Scales that are powers of two
    round no scores.)"""
    q, k, v, g = (np.zeros((1, 2, 100, 128), dtype) for _ in range(4))
    q[:], k[:] = operands(1, 2, 2, 100, 100, 128, dtype)[:2]
    v[..., range(100), range(100)] = g[..., range(100), range(100)] = 1  # the result, and dv, are the weights
    masks = [_mask((2, 1, 100), dtype)] if name == "masked" else []
    forward = flash.attention if name == "masked" else attention[name]  # the loops, which "efficient" may do without
    backward = attention_gradient["flash" if name == "flash" else "efficient"]
    for scale in (1.0, -0.5):
        try:
            found = forward(q, k, v, *masks, scale=scale)
            dv = backward(q, k, v, *found, g, *masks, scale=scale)[2]
        except Refused as refused:
            pytest.skip(str(refused))
        weights, again = found.out[..., :100], dv[..., :100].swapaxes(-1, -2)
        unit = np.finfo(dtype).eps * np.maximum(1, -np.log2(np.maximum(weights, 1e-20)))
        assert np.all(np.abs(weights - again) <= 4 * unit * weights + 4 * np.finfo(dtype).tiny)  # below 2**-125 zero
        assert weights.max() > 0.99


def test_the_gradient_is_that_of_the_reference():
    """By central differences in float64."""
    arrays = operands(1, 2, 1, 3, 4, 2, np.float64)
    g = np.random.default_rng(9).standard_normal((1, 2, 3, 2))
    mask = np.where(np.arange(12).reshape(3, 4) == 5, -np.inf, 0.0)

    def loss(*changed):
        return (attention.reference(*changed, mask, scale=0.7).out * g).sum()

    out, statistics = attention.reference(*arrays, mask, scale=0.7)
    found = attention_gradient.reference(*arrays, out, statistics, g, mask, scale=0.7)
    other = attention_gradient["efficient"](*arrays, out, statistics, g, mask, scale=0.7)
    for index, gradient in enumerate(found):
        np.testing.assert_allclose(other[index], gradient, atol=1e-15)
        for place in np.ndindex(gradient.shape):
            sides = []
            for step in (1e-6, -1e-6):
                moved = [each.copy() for each in arrays]
                moved[index][place] += step
                sides.append(loss(*moved))
            assert abs((sides[0] - sides[1]) / 2e-6 - gradient[place]) < 1e-7


@pytest.mark.parametrize("name", ["efficient", "math"])
def test_masks_and_rows_that_see_nothing(name):
    q, k, v = operands(2, 2, 2, 5, 6, 4)
    mask = np.where(np.random.default_rng(1).random((2, 1, 5, 6)) < 0.3, -np.inf, 0.5).astype(np.float32)
    mask[0, 0, 2] = -np.inf
    found = attention[name](q, k, v, mask, scale=0.5)
    exact = attention.reference(q, k, v, mask, scale=0.5)
    np.testing.assert_allclose(found.out, exact.out, atol=1e-6)
    assert np.all(found.out[0, :, 2] == 0)
    assert np.all(found.lse[0, :, 2] == np.inf)
    gradients = attention_gradient["efficient"](q, k, v, *found, np.ones_like(found.out), mask, scale=0.5)
    assert all(np.isfinite(each).all() for each in gradients)
    assert np.all(gradients[0][0, :, 2] == 0)


def _mask(shape, dtype=np.float32):
    values = np.random.default_rng(7).standard_normal(shape) * 3
    return np.where(np.random.default_rng(8).random(shape) < 0.2, -np.inf, values).astype(dtype)


MASKS = {
    "whole": lambda shape: _mask((*shape[:2], *shape[3:5])),
    "of keys": lambda shape: _mask((shape[0], 1, 1, shape[4])),
    "of queries": lambda shape: np.maximum(_mask((shape[3], 1)), -5),
    "turned": lambda shape: _mask((shape[4], shape[3])).T,
    "one number": lambda shape: np.float32([0.5]).reshape(()),
    "backwards": lambda shape: _mask((*shape[3:5],))[::-1, ::-1],
    "float16": lambda shape: _mask((shape[1], *shape[3:5]), np.float16),
    "float64": lambda shape: _mask((shape[1], *shape[3:5]), np.float64),
}


@pytest.mark.parametrize("layout", MASKS)
def test_masks_of_every_layout(layout):
    """In the loops and in chunks; several stretches of keys and blocks of queries, and rests of both."""
    for shape in ((2, 4, 2, 37, 21, 8), (1, 2, 1, 270, 301, 16), SHAPES["few"]):
        arrays, mask, keywords = operands(*shape), MASKS[layout](shape), {"scale": 0.3}
        g = operands(*shape, seed=5)[0]
        exact = attention.reference(*arrays, mask, **keywords)
        wanted = attention_gradient.reference(*arrays, exact.out, exact.statistics, g, mask, **keywords)
        for implementation in (efficient, chunked):
            found = implementation.attention(*arrays, mask, **keywords)
            np.testing.assert_allclose(found.out, exact.out, atol=2e-5)
            np.testing.assert_allclose(found.lse, exact.lse, rtol=1e-5, atol=1e-5)
            gradients = implementation.attention_gradient(*arrays, *found, g, mask, **keywords)
            for one, other in zip(gradients, wanted, strict=True):
                assert np.abs(one - other).max() <= 2e-5 * np.abs(other).max()


def test_the_lowest_number_as_a_mask_hides_no_row():
    """A row of it sees all keys alike, since it is added after the scale; of other rows it hides keys."""
    q, k, v = operands(1, 2, 2, 20, 40, 8)
    mask = np.zeros((20, 40), np.float32)
    mask[3], mask[5, 7] = np.finfo(np.float32).min, np.finfo(np.float32).min
    found, exact = attention["efficient"](q, k, v, mask, scale=0.25), attention.reference(q, k, v, mask, scale=0.25)
    np.testing.assert_allclose(found.out, exact.out, atol=2e-6)
    np.testing.assert_allclose(found.out[:, :, 3], v.mean(2), atol=2e-6)
    np.testing.assert_allclose(found.lse, exact.lse, rtol=1e-5)


@pytest.mark.parametrize("precision", ["tf32", "bf16", "fp16", "tf32x3"])
def test_masks_at_every_precision(precision):
    arrays, mask = operands(1, 2, 1, 50, 70, 16), _mask((50, 70))
    exact = attention.reference(*arrays, mask, scale=0.25)
    found = run("efficient", (*arrays, mask), precision=precision)
    assert np.all(np.abs(found.out - exact.out) <= error_bound(arrays, precision) * (1 + np.abs(mask[mask > -9]).max()))


NAN_WITH_BITS = np.uint32(0x7FC00001).view(np.float32)
"""A NaN that compiled code could turn into a number by reading its low bits as an exponent."""


@pytest.mark.parametrize("name", ["flash", "efficient"])
def test_every_nan_reaches_the_gradients(name):
    q, k, v = operands(1, 1, 1, 20, 20, 16)
    q[0, 0, 3, 5] = NAN_WITH_BITS
    with np.errstate(all="ignore"):
        try:
            found = attention[name](q, k, v, scale=0.3)
            gradients = attention_gradient[name](q, k, v, *found, np.ones_like(found.out), scale=0.3)
        except Refused as refused:
            pytest.skip(str(refused))
    for each in gradients[1:]:
        assert np.isnan(each).all()


@pytest.mark.parametrize("precision", ["bf16", "bf16x3"])
@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_a_tiny_number_does_not_send_gradients_elsewhere(place, precision):
    """Nor do small weights. Gradients of tiny numbers alone are refused, or right."""
    arrays = [*operands(1, 2, 1, 40, 40, 16), operands(1, 2, 1, 40, 40, 16)[2].repeat(2, 1)]
    arrays[0] *= 8
    arrays[place][0, 0, 1, 2] = 1e-40
    found = run("flash", arrays[:3])
    exact = attention_gradient.reference(*arrays[:3], *found, arrays[3], scale=0.25)
    again = attention_gradient["flash"](*arrays[:3], *found, arrays[3], scale=0.25, precision=precision)
    bound = {"bf16": 0.2, "bf16x3": 1e-3}[precision]
    for other, right in zip(again, exact, strict=True):
        assert np.abs(other - right).max() <= bound * np.abs(right).max()
    arrays[place][...] = np.float32(1e-36) * np.sign(arrays[place])
    with contextlib.suppress(Refused):
        found = run("flash", arrays[:3])
        exact = attention_gradient.reference(*arrays[:3], *found, arrays[3], scale=0.25)
        again = attention_gradient["flash"](*arrays[:3], *found, arrays[3], scale=0.25, precision=precision)
        for other, right in zip(again, exact, strict=True):
            assert np.abs(other - right).max() <= bound * np.abs(right).max()


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, NAN_WITH_BITS, 1e38, 1e-40])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_hostile_values(value, place):
    """Flash gives what the plain kernel gives, or refuses the data."""
    for shape, precision in itertools.product(((1, 1, 1, 20, 20, 8), SHAPES["few"]), ("ieee", "bf16", "bf16x3")):
        arrays = operands(*shape)
        arrays[place][0, 0, 1, 2] = value
        with np.errstate(all="ignore"):
            expected = attention["math"](*arrays, scale=0.3)
            try:
                found = attention["flash"](*arrays, scale=0.3, precision=precision)
            except Refused:
                continue
            assert np.array_equal(np.isnan(found.out), np.isnan(expected.out)), precision
            if precision == "ieee":
                np.testing.assert_allclose(found.out, expected.out, rtol=1e-4, atol=1e-4 * (1 + (place == 2) * 1e38))


@pytest.mark.parametrize("shape", [(1, 2, 1, 200, 200, 16), SHAPES["few"]])
@pytest.mark.parametrize("name", KERNELS)
def test_bits_do_not_depend_on_threads_or_layout(name, shape):
    q, k, v = operands(*shape)
    turned = [np.ascontiguousarray(each.swapaxes(1, 2)).swapaxes(1, 2) for each in (q, k, v)]
    threads, results = threading.get_num_threads(), []
    try:
        for count in (1, 2):
            threading.set_num_threads(count)
            for arrays in ((q, k, v), turned):
                out, statistics = run(name, arrays)
                results.append(out.tobytes() + statistics.tobytes())
                if name != "math":
                    found = attention_gradient[name](*arrays, out, statistics, np.ones_like(out), scale=0.25)
                    results[-1] += b"".join(np.ascontiguousarray(each).tobytes() for each in found)
    finally:
        threading.set_num_threads(threads)
    assert len(set(results)) == 1


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16])
@pytest.mark.parametrize("name", ["flash", "efficient"])
def test_gradients_do_not_depend_on_layout(name, dtype):
    """Of any operand, the result and its gradient included, as a transformer's are: by position, batch and head."""
    arrays = operands(3, 2, 2, 5, 5, 8, dtype)
    g = operands(3, 2, 2, 5, 5, 8, dtype, seed=5)[0]
    out, statistics = attention["efficient"](*arrays, scale=0.25)
    given = (*arrays, out, statistics, g)
    moved = [each if each is statistics else np.moveaxis(np.moveaxis(each, 2, 0).copy(), 0, 2) for each in given]
    try:
        found = [attention_gradient[name](*each, scale=0.25) for each in (given, moved)]
    except Refused as refused:
        pytest.skip(str(refused))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one.astype(np.float32), other.astype(np.float32))


def test_who_attends_few_queries():
    """In float64 as well; not where there are more of them than reading less is worth, or few keys."""
    on_vectors = any(cpu.refusal(isa) is None for isa in skinny.ISAS)
    for shape, expected in ((SHAPES["few"], True), ((1, 4, 2, 3, 2000, 64), False), ((1, 4, 2, 2, 500, 64), False)):
        q, k, v = operands(*shape, dtype=np.float64)
        assert few.takes(q, k) == (expected and on_vectors)
        assert not few.takes(q, k, causal=True)
        found = attention["efficient"](q, k, v, scale=-0.2)
        exact = attention.reference(q, k, v, scale=-0.2)
        np.testing.assert_allclose(found.out, exact.out, atol=1e-14)
        np.testing.assert_allclose(found.lse, exact.lse, rtol=1e-13)
        assert (found.out.dtype, found.statistics.dtype) == (np.float64, np.float64)


def test_negative_scales_and_flat_ones():
    arrays = operands(1, 1, 1, 20, 20, 4)
    for name in KERNELS:
        found = attention[name](*arrays, scale=-0.5, causal=True).out
        np.testing.assert_allclose(found, attention.reference(*arrays, scale=-0.5, causal=True).out, atol=1e-6)
    with pytest.raises(Refused, match="scale=0"):
        attention["flash"](*arrays, scale=0.0)
    np.testing.assert_allclose(
        attention(*arrays, scale=0.0).out, np.broadcast_to(arrays[2].mean(-2, keepdims=True), (1, 1, 20, 4)), atol=1e-6
    )


REFUSED = {
    "4 dimensional": ({"q": (2, 3, 4)}, {}),
    "batch_size": ({"q": (2, 1, 3, 4)}, {}),
    "num_heads": ({"q": (1, 3, 3, 4), "k": (1, 2, 3, 4), "v": (1, 2, 3, 4)}, {}),
    "zero seq_len": ({"k": (1, 1, 0, 4), "v": (1, 1, 0, 4)}, {}),
    "non-zero dropout": ({}, {"dropout": 0.5}),
    "attn_mask": ({"mask": (3, 3)}, {}),
    "same last dimension": ({"v": (1, 1, 3, 5)}, {}),
    "less than or equal to 256": (dict.fromkeys("qkv", (1, 1, 3, 300)), {}),
    "is_causal flag when seqlen_q": ({"k": (1, 1, 5, 4), "v": (1, 1, 5, 4)}, {"causal": True}),
    "switched off": ({}, {"off": ("flash",)}),
}
EFFICIENT_TOO = ("4 dimensional", "batch_size", "num_heads", "zero seq_len", "non-zero dropout")


@pytest.mark.parametrize("sentence", REFUSED)
def test_refusals(sentence):
    shapes, keywords = REFUSED[sentence]
    arrays = [np.ones(shapes.get(name, (1, 1, 3, 4)), np.float32) for name in "qkv"]
    if "mask" in shapes:
        arrays.append(np.zeros(shapes["mask"], np.float32))
    with pytest.raises(Refused, match=sentence):
        attention["flash"](*arrays, scale=0.5, **keywords)
    if sentence in EFFICIENT_TOO:
        with pytest.raises(Refused, match=sentence):
            attention["efficient"](*arrays, scale=0.5, **keywords)


def test_other_dtypes_are_refused():
    arrays = operands(1, 1, 1, 3, 3, 4, np.complex64)
    with pytest.raises(Refused, match=r"one dtype of \{float32, bfloat16, float16, float64\}, got complex64"):
        attention["flash"](*arrays, scale=0.5)
    with pytest.raises(Refused, match="mask"):
        attention["efficient"](*operands(1, 1, 1, 3, 3, 4), scale=0.5, mask_needs_gradient=True)
