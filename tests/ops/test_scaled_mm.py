"""Products of 8-bit and 4-bit floats with scales, and `out_dtype` of matrix products."""

from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import backends, explain
from minitorch_backends.kernels.matrix_units import definition
from minitorch_backends.nn.functional import ScalingType, SwizzleType

F = mt.nn.functional
TENSOR, ROW, BY_16, BY_32, BY_128, SQUARE = ScalingType
TILED = SwizzleType.SWIZZLE_32_4_4
M, K, N = 130, 288, 20
ONE = mt.tensor(1.0)

FOUR = mt.zeros(4, 32, dtype=mt.float4_e2m1fn_x2)

E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def numbers(*shape: int, seed: int = 0) -> mt.Tensor:
    return mt.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def scales(*shape: int, seed: int = 0, dtype: Any = mt.float32) -> mt.Tensor:
    return mt.from_numpy(np.random.default_rng(seed).uniform(0.25, 4, shape).astype(np.float32)).to(dtype)


A, B = numbers(M, K).to(mt.float8_e4m3fn), numbers(N, K, seed=1).to(mt.float8_e4m3fn).t()


def exactly(a: mt.Tensor, b: mt.Tensor, scale_a: mt.Tensor, scale_b: mt.Tensor, blocks: Any) -> np.ndarray:
    """The product in float64, each scale repeated over its block: (rows, K) of a, (rows, K) of b turned."""
    sides = []
    for values, scale, (rows, columns) in ((a, scale_a, blocks[0]), (b.t(), scale_b, blocks[1])):
        array = values if isinstance(values, np.ndarray) else values.double().numpy()
        spread = scale.double().numpy().repeat(rows, 0).repeat(columns, 1)
        sides.append(array * (spread if spread.size == 1 else spread[: len(array), : array.shape[1]]))
    return sides[0] @ sides[1].T


def assert_near(found: mt.Tensor, expected: np.ndarray, units: float = 4) -> None:
    """Within a few units of float32 in the last place of the largest results."""
    assert tuple(found.shape) == expected.shape
    error = np.abs(found.detach().double().numpy() - expected).max(initial=0)
    assert error <= units * 2.0**-23 * np.abs(expected).max(initial=1)


def in_tiles(scale: mt.Tensor) -> mt.Tensor:
    """The scales (rows, parts) in tiles of 128 x 4, by the definition of cuBLAS, one element after the other."""
    rows, parts = -(-scale.shape[0] // 128) * 128, -(-scale.shape[1] // 4) * 4
    tiled = np.zeros(rows * parts, np.uint8)
    for (row, part), code in np.ndenumerate(scale.view(mt.uint8).numpy()):
        tile = row // 128 * (parts // 4) + part // 4
        tiled[512 * tile + 16 * (row % 32) + 4 * (row % 128 // 32) + part % 4] = code
    return mt.from_numpy(tiled).view(scale.dtype)


def unpack(pairs: mt.Tensor) -> np.ndarray:
    """Pairs of e2m1 along the last dimension, the low bits first."""
    values = np.array(E2M1 + [-each for each in E2M1])
    codes = pairs.view(mt.uint8).numpy()
    return np.stack([values[codes & 15], values[codes >> 4]], -1).reshape(len(codes), -1)


def test_one_scale_and_scales_of_rows() -> None:
    rows, columns, bias = scales(M, 1), scales(1, N, seed=1), numbers(N, seed=2)
    for a, b in ((A, B), (A.float().to(mt.float8_e5m2), B), (A, B.float().to(mt.float8_e4m3fnuz))):
        for of_a, of_b, recipe in ((scales(1), scales(seed=3), TENSOR), (rows, columns, ROW)):
            expected = exactly(a, b, of_a.reshape(-1, 1), of_b.reshape(-1, 1), ((1, K), (1, K)))
            assert_near(mt._scaled_mm(a, b, of_a, of_b, out_dtype=mt.float32), expected)
            named = F.scaled_mm(a, b, of_a, recipe, of_b, recipe, bias=bias, output_dtype=mt.float32)
            assert_near(named, expected + bias.double().numpy())
    exact = exactly(A, B, rows, columns.t(), ((1, K), (1, K))) + bias.double().numpy()
    wanted = mt.from_numpy(exact)
    for dtype in (mt.bfloat16, mt.float16, mt.float8_e5m2):
        found = mt._scaled_mm(A, B, rows, columns, bias=bias.to(mt.bfloat16), out_dtype=dtype)
        assert found.dtype is dtype
        assert (found.float() - wanted).abs().max() <= wanted.abs().max() * (mt.finfo(dtype).eps + 2.0**-9)
    assert F.scaled_mm(A, B, ONE, TENSOR, ONE, TENSOR).dtype is mt.bfloat16
    assert mt._scaled_mm(A, B, ONE, ONE).dtype is mt.float8_e4m3fn
    halved = mt._scaled_mm(A, B, ONE, ONE, scale_result=mt.tensor(2.0), out_dtype=mt.float8_e5m2)
    assert mt.equal(halved, mt._scaled_mm(A, B, mt.tensor(0.5), ONE, out_dtype=mt.float8_e5m2))


@pytest.mark.parametrize(
    ("of_a", "of_b", "blocks"),
    [
        ((BY_128, (M, 3)), (BY_128, (3, N)), ((1, 128), (1, 128))),
        ((BY_128, (M, 3)), (SQUARE, (3, 1)), ((1, 128), (128, 128))),
        ((SQUARE, (2, 3)), (BY_128, (3, N)), ((128, 128), (1, 128))),
    ],
    ids=["1x128", "1x128 and 128x128", "128x128 and 1x128"],
)
def test_float32_scales_of_blocks(of_a: Any, of_b: Any, blocks: Any) -> None:
    """In the layouts of both functions: K first for b in the older one, for squares in the newer one."""
    (recipe_a, shape_a), (recipe_b, shape_b) = of_a, of_b
    first, second = scales(*shape_a), scales(*shape_b, seed=1)
    expected = exactly(A, B, first, second.t(), blocks)
    assert_near(mt._scaled_mm(A, B, first, second, out_dtype=mt.float32), expected)
    padding = mt.zeros(1, 2)
    newer_a = mt.cat([first.t(), padding]) if recipe_a is SQUARE else first
    newer_b = second if recipe_b is SQUARE else second.t()
    for left, right in ((newer_a, newer_b), (newer_a[:3] if recipe_a is SQUARE else newer_a, newer_b)):
        assert_near(F.scaled_mm(A, B, left, recipe_a, right, recipe_b, output_dtype=mt.float32), expected)


def test_blocks_of_32_with_powers_of_two() -> None:
    first, second = scales(M, 9, dtype=mt.float8_e8m0fnu), scales(N, 9, seed=1, dtype=mt.float8_e8m0fnu)
    expected = exactly(A, B, first, second, ((1, 32), (1, 32)))
    recipes: Any = {"scale_recipe_a": BY_32, "scale_recipe_b": BY_32, "output_dtype": mt.float32}
    assert_near(F.scaled_mm(A, B, first, scale_b=second, **recipes), expected)
    tiles = in_tiles(first), in_tiles(second)
    assert_near(F.scaled_mm(A, B, tiles[0], scale_b=tiles[1], swizzle_a=TILED, swizzle_b=[TILED], **recipes), expected)
    assert_near(mt._scaled_mm(A, B, *tiles, out_dtype=mt.float32), expected)
    far = mt.full((M, 9), 2.0**100).to(mt.float8_e8m0fnu), mt.full((N, 9), 2.0**-110).to(mt.float8_e8m0fnu)
    assert_near(F.scaled_mm(A, B, far[0], scale_b=far[1], **recipes), A.double().numpy() @ B.double().numpy() / 1024)


def test_pairs_of_4_bits() -> None:
    """Blocks of 16 (with a scale of the tensor), and of 32."""
    codes = np.random.default_rng(0).integers(0, 256, (M + N, K // 2)).astype(np.uint8)
    a, b = (mt.from_numpy(part).view(mt.float4_e2m1fn_x2) for part in (codes[:M], codes[M:]))
    left, right = unpack(a), unpack(b)
    for recipe, size, dtype in ((BY_16, 16, mt.float8_e4m3fn), (BY_32, 32, mt.float8_e8m0fnu)):
        first, second = scales(M, K // size, dtype=dtype), scales(N, K // size, seed=1, dtype=dtype)
        spread = [each.double().numpy().repeat(size, 1) for each in (first, second)]
        expected = (left * spread[0]) @ (right * spread[1]).T
        assert_near(F.scaled_mm(a, b.t(), first, recipe, second, recipe, output_dtype=mt.float32), expected)
        assert_near(mt._scaled_mm(a, b.t(), in_tiles(first), in_tiles(second), out_dtype=mt.float32), expected)
        if recipe is BY_16:
            both: Any = [first, mt.tensor(0.5)], [BY_16, TENSOR], [second, mt.tensor(4.0)], [BY_16, TENSOR]
            assert_near(F.scaled_mm(a, b.t(), *both, output_dtype=mt.float32), 2 * expected)


def test_empty_strided_and_expanded_operands() -> None:
    a, b = A[::3, ::2], B[::2].flip(1)
    assert_near(mt._scaled_mm(a, b, ONE, ONE, out_dtype=mt.float32), a.double().numpy() @ b.double().numpy())
    wide = A[:1].expand(4, K)
    assert_near(mt._scaled_mm(wide, B, ONE, ONE, out_dtype=mt.float32), wide.double().numpy() @ B.double().numpy())
    assert mt._scaled_mm(A[:0], B, ONE, ONE).shape == (0, N)
    assert mt._scaled_mm(A[:, :0], B[:0], ONE, ONE, out_dtype=mt.float32).abs().sum() == 0
    turned = F.scaled_mm(A, B.t(), ONE, TENSOR, ONE, TENSOR, output_dtype=mt.float32, contraction_dim=(1, 1))
    assert mt.equal(turned, mt._scaled_mm(A, B, ONE, ONE, out_dtype=mt.float32))
    far = mt._scaled_mm(A, B, mt.tensor(1e38), mt.tensor(1e-38), out_dtype=mt.float32)
    assert_near(far, turned.double().numpy())
    out = mt.zeros(M, N)
    assert mt._scaled_mm(A, B, ONE, ONE, out_dtype=mt.float32, out=out) is out
    assert mt.equal(out, turned)


def by_definition(rule: Any, a: mt.Tensor, b: mt.Tensor, promote: int) -> np.ndarray:
    x, y = a.double().numpy(), b.double().numpy()
    rows, columns = np.repeat(x, y.shape[1], 0), np.tile(y.T, (len(x), 1))
    return definition(rule, "e4m3", rows, columns, np.zeros(len(rows)), promote=promote).reshape(len(x), y.shape[1])


def test_a_device_sums_by_its_rule_and_fast_accumulation_leaves_its_sums_inside() -> None:
    """On Hopper partial sums leave the unit every 128 places, unless they are asked to stay."""
    a, b = A[:5], B[:, :4]
    rule = mt.profiles.PROFILES["h100"].format("e4m3").rule
    results = []
    with backends.flags(profile="h100"):
        for fast, promote in ((False, 128), (True, 0)):
            with explain.record() as log:
                found = mt._scaled_mm(a, b, ONE, ONE, out_dtype=mt.float32, use_fast_accum=fast)
            np.testing.assert_array_equal(found.numpy(), by_definition(rule, a, b, promote))
            (entry,) = [each for each in log if each.kernel == "scaled_matmul"]
            assert "profile = 'h100'" in entry.decided_by
            assert entry.implementation == "matrix_unit"
            results.append(found)
        np.testing.assert_array_equal((a @ b).float().numpy(), results[0].to(mt.float8_e4m3fn).float().numpy())
        with pytest.raises(
            RuntimeError, match="profile = 'h100' has no matrix unit for scales of blocks of 32 of e4m3"
        ):
            F.scaled_mm(
                A, B, scales(M, 9, dtype=mt.float8_e8m0fnu), BY_32, scales(N, 9, dtype=mt.float8_e8m0fnu), BY_32
            )
    assert not mt.equal(*results)
    with backends.flags(profile="a100"), pytest.raises(RuntimeError, match=r"profile = 'a100' has no .* at e4m3"):
        mt._scaled_mm(a, b, ONE, ONE)


def test_a_device_multiplies_two_formats() -> None:
    """Each has the least exponent of its own: a subnormal e4m3 counts as one of 2**-6, which e5m2 holds as normal."""
    rule = mt.profiles.PROFILES["b200"].format("e5m2").rule
    a, b = A[:4, :96], B[:96, :3].float().to(mt.float8_e5m2)
    normal = mt.where(a.float().abs() < 2.0**-6, 1.0, a.float()).to(mt.float8_e4m3fn)
    with backends.flags(profile="b200"):
        found = mt._scaled_mm(normal, b, ONE, ONE, out_dtype=mt.float32)
        tiny = mt.full((1, 32), 2.0**-9).to(mt.float8_e4m3fn)
        tiny[0, 0] = 2.0**-6
        row = mt.full((32, 1), 2.0**-14).to(mt.float8_e5m2)
        small = mt._scaled_mm(tiny, row, ONE, ONE, out_dtype=mt.float32)
    x, y = normal.double().numpy(), b.double().numpy()
    rows, columns = np.repeat(x, 3, 0), np.tile(y.T, (4, 1))
    expected = definition(rule, "e5m2", rows, columns, np.zeros(12)).reshape(4, 3)
    np.testing.assert_array_equal(found.numpy(), expected)
    assert small.item() == 2.0**-14 * (2.0**-6 + 31 * 2.0**-9)


def test_a_device_applies_powers_of_two_itself() -> None:
    """Their exponents are added to those of the elements: the same bits as one product of scaled elements that the
    format holds."""
    a, b = numbers(4, 64).round().clamp(-2, 2), numbers(64, 3, seed=1).round().clamp(-2, 2)
    first, second = mt.tensor([[1.0, 4.0]] * 4), mt.tensor([[0.5, 2.0]] * 3)
    scaled = a * first.repeat_interleave(32, 1), b * second.t().repeat_interleave(32, 0)
    narrow = mt.float8_e4m3fn
    with backends.flags(profile="b200"):
        powers = first.to(mt.float8_e8m0fnu), second.to(mt.float8_e8m0fnu)
        found = F.scaled_mm(a.to(narrow), b.to(narrow), powers[0], BY_32, powers[1], BY_32, output_dtype=mt.float32)
        plain = mt._scaled_mm(scaled[0].to(narrow), scaled[1].to(narrow), ONE, ONE, out_dtype=mt.float32)
    np.testing.assert_array_equal(found.numpy(), plain.numpy())


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: mt._scaled_mm(A.float(), B, ONE, ONE), ValueError, "mat_a must be of an 8-bit .* got mt.float32"),
        (lambda: mt._scaled_mm(A, B.t(), ONE, ONE), RuntimeError, r"cannot be multiplied \(130x288 and 20x288\)"),
        (lambda: mt._scaled_mm(A[None], B, ONE, ONE), RuntimeError, "mat_a must be a matrix"),
        (lambda: mt._scaled_mm(A, B, ONE.double(), ONE), ValueError, "scale_a and scale_b must be one mt.float32"),
        (lambda: mt._scaled_mm(A, B, mt.ones(M), mt.ones(N)), ValueError, r"got mt.float32 of shape \[130\]"),
        (lambda: mt._scaled_mm(A, B, ONE, ONE, bias=mt.ones(3)), RuntimeError, "bias must have 20 elements, got 3"),
        (lambda: mt._scaled_mm(A, B, ONE, ONE, scale_result=mt.ones(2)), ValueError, "scale_result must be one"),
        (lambda: mt._scaled_mm(A, B, ONE, ONE, out_dtype=mt.int32), ValueError, "out_dtype must be a floating dtype"),
        (lambda: mt._scaled_mm(A, B, 1.0, ONE), TypeError, "'scale_a' must be a Tensor, not float"),
        (lambda: F.scaled_mm(A, B, ONE, 0, ONE, 0), TypeError, "scale_recipe_a must be a ScalingType, got 0"),
        (lambda: F.scaled_mm(A, B, ONE, TENSOR, ONE, ROW), ValueError, "recipes must be equal.*TensorWise and RowWise"),
        (lambda: F.scaled_mm(A, B, mt.ones(M, 2), ROW, ONE, ROW), ValueError,
         r"scale_a must be .* \[130, 1\] for RowW"),
        (lambda: F.scaled_mm(A, B, ONE, BY_32, ONE, BY_32), ValueError,
         "130 x 9 contiguous mt.float8_e8m0fnu numbers in"),
        (lambda: F.scaled_mm(A, B, [ONE, ONE], [TENSOR, ROW], ONE, TENSOR), ValueError, "scale_a must be one tensor"),
        (lambda: F.scaled_mm(A, B, ONE, TENSOR, ONE, TENSOR, 1), TypeError, "swizzle_a must be a SwizzleType or None"),
        (lambda: F.scaled_mm(A, B, ONE, TENSOR, ONE, TENSOR, contraction_dim=(1,)), ValueError, "contraction_dim must"),
        (lambda: F.scaled_mm(A, B, ONE, TENSOR, ONE, TENSOR, contraction_dim=(1, 7)), ValueError,
         "two of 0 and 1, got"),
        (lambda: F.scaled_mm(A, B, ONE, BY_16, ONE, BY_16), ValueError,
         "BlockWise1x16 scales must not be those of mt.f"),
        (lambda: F.scaled_mm(FOUR, FOUR.t(), ONE, ROW, ONE, ROW), ValueError,
         "RowWise scales must not be those of mt.f"),
        (lambda: mt._scaled_mm(FOUR, B, ONE, ONE), RuntimeError, "cannot be multiplied"),
        (lambda: mt._scaled_mm(FOUR, FOUR.t(), ONE, ONE, use_fast_accum=True, out_dtype=mt.half), ValueError,
         "be False"),
        (lambda: mt.mm(numbers(2, 3), numbers(3, 2), out_dtype=mt.float64), RuntimeError,
         "out_dtype must be mt.float32, the operands"),
        (lambda: mt.bmm(numbers(1, 2, 3).half(), numbers(1, 3, 2).half(), mt.bfloat16), RuntimeError, "for half types"),
        (lambda: A.to(mt.float8_e8m0fnu) @ B.to(mt.float8_e8m0fnu), NotImplementedError, "mt.float8_e8m0fnu; use"),
    ],
)  # fmt: skip
def test_refusals(call: Any, error: type, sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        call()


def test_no_derivative() -> None:
    bias = mt.ones(N, requires_grad=True)
    found = mt._scaled_mm(A, B, ONE, ONE, bias=bias, out_dtype=mt.float32)
    with pytest.raises(NotImplementedError, match="derivative of scaled_mm"):
        found.sum().backward()


@pytest.mark.parametrize("dtype", [mt.bfloat16, mt.float16], ids=str)
def test_half_products_in_float32(dtype: Any) -> None:
    """Their sums are not rounded, and their gradients are."""
    a, b = numbers(3, 40).to(dtype).requires_grad_(), numbers(40, 5, seed=1).to(dtype)
    exact = a.detach().double().numpy() @ b.double().numpy()
    for found in (mt.mm(a, b, mt.float32), mt.bmm(a[None], b[None], out_dtype=mt.float32)[0]):
        assert found.dtype is mt.float32
        assert_near(found, exact)
    assert mt.mm(a, b, out_dtype=dtype).dtype is dtype
    bias = numbers(5, seed=2).requires_grad_()
    for addend in (bias, bias.to(dtype)):
        found = mt.addmm(addend, a, b, beta=2, alpha=0.5, out_dtype=mt.float32)
        assert found.dtype is mt.float32
        assert_near(found, 0.5 * exact + 2 * addend.detach().double().numpy())
        assert mt.equal(found, mt.baddbmm(addend, a[None], b[None], beta=2, alpha=0.5, out_dtype=mt.float32)[0])
    gradients = mt.autograd.grad(found.sum(), (a, bias))
    assert gradients[0].dtype is dtype
    assert mt.equal(gradients[0], (b.float().sum(1) / 2).expand(3, 40).to(dtype))
    assert mt.equal(gradients[1], mt.full((5,), 6.0))
    (gradient,) = mt.autograd.grad(mt.mm(a, b, out_dtype=mt.float32).sum(), a)
    assert gradient.dtype is dtype
    assert mt.equal(gradient, b.float().sum(1).expand(3, 40).to(dtype))
    with backends.flags(profile="tpu" if dtype is mt.bfloat16 else "apple_m5"):  # whose sums are float32's
        assert_near(mt.mm(a.detach(), b, out_dtype=mt.float32), exact)
    with backends.flags(profile="h100"):
        found = mt.mm(a.detach(), b, out_dtype=mt.float32)
        assert mt.equal(found.to(dtype), a.detach() @ b)
        assert not np.array_equal(found.numpy(), exact.astype(np.float32))
