"""Matrix units of other devices: published outputs to the bit, and compiled products beside the definition."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitorch_backends as mt
from minitorch_backends.kernels import matrix_units
from minitorch_backends.kernels.runtime import threading
from minitorch_backends.profiles import PROFILES, Aligned, Chain, Exact, Format, Halves, Profile, Tree, TwoStage

VECTORS = Path(__file__).parents[3] / "shared" / "facts" / "tensor_core_vectors.npz"
DEVICES = {"A2": "a100", "A30": "a100", "L40S": "ada", "H200": "h100"}
TYPES = {
    "fp16": np.float16, "bf16": ml_dtypes.bfloat16, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
    "e4m3fnuz": ml_dtypes.float8_e4m3fnuz, "e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
}  # fmt: skip


def bits(x):
    return x.view(f"u{x.itemsize}")


@pytest.mark.skipif(not VECTORS.exists(), reason="the published outputs of devices are not beside this checkout")
def test_published_outputs():
    """A. Khattak's and M. Mikaitis's data; H100's fp8 sums in fp32 began at zero there, by wgmma."""
    data = np.load(VECTORS)
    named = {"A100": "a100", "Ada": "ada", "H100": "h100", "B200": "b200", "V100": "v100", **DEVICES}
    checked = 0
    for key in (key for key in data.files if key.startswith("d/")):
        _, device, operand, result = key.split("/")
        a, b, c = (data[str(data[f"{name}/{device}/{operand}"])].view(np.float32) for name in "abc")
        fp8, instruction = operand in ("e4m3", "e5m2"), None
        if fp8 and named[device] in ("h100", "b200"):
            instruction = "wgmma" if named[device] == "h100" and result == "fp32" else "mma.sync"
            c = np.zeros_like(c) if instruction == "wgmma" else c
        kind = {"fp16": "float16", "fp32": "float32"}[result]
        found = mt.profiles.mma(a, b, c, profile=named[device], format=operand, result=kind, instruction=instruction)
        np.testing.assert_array_equal(bits(found.numpy().astype(np.float32)), data[key], err_msg=key)
        checked += len(c)
    assert checked == 48 * 2500


RULES = [
    (PROFILES[name].format(operand).rule, operand)
    for name, operand in (
        ("h100", "fp16"), ("a100", "bf16"), ("v100", "fp16"), ("a100", "tf32"), ("ada", "e4m3"), ("h100", "e5m2"),
        ("mi100", "fp16"), ("mi100", "bf16"), ("mi250", "fp16"), ("mi300", "bf16"), ("mi300", "tf32"),
        ("mi300", "e4m3fnuz"),
    )
]  # fmt: skip
RULES += [
    (Chain((1, 0), flushes=True), "bf16"), (Chain(), "fp32"), (Chain((2, 0, 1), fused=False), "fp32"),
    (Aligned(20, 2, (-120, -18)), "bf16"), (Aligned(25, 1, (-133, -21), "rne32"), "tf32"),
    (Halves(Aligned(22, 2, (-133, -21))), "e4m3"), (TwoStage(6, apart=True), "e5m2"), (TwoStage(1), "bf16"),
]  # fmt: skip
RULES += [(PROFILES["b200"].format("e4m3", "mma.sync").rule, "e4m3"), (matrix_units.Lanes(4, unroll=2), "fp16")]
TILES = matrix_units.Tiles(8, even=True), matrix_units.Tiles(6, walk=((1, 1), (0, 1), (0, 0), (1, 2)))
RULES += zip(TILES, ("bf16", "fp32"), strict=True)


def operands(random, operand, shape, spread):
    """Values of a format with exponents over a range, some of them zero."""
    x = random.standard_normal(shape) * np.exp2(random.integers(-spread, spread + 1, shape))
    x[random.random(shape) < 0.1] = 0
    with np.errstate(over="ignore"):
        x = np.float32(x)
        if operand == "fp32":
            return x
        if operand == "tf32":
            return (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
        x = x.astype(TYPES[operand]).astype(np.float32)
    return np.where(np.isfinite(x), x, np.float32(1))


@given(st.sampled_from(RULES), st.integers(0, 2**32 - 1), st.data())
def test_products_are_the_unit_s(rule, seed, data):
    rule, operand = rule
    m, k, n = (data.draw(st.integers(1, most)) for most in (5, 90, 70))
    half = isinstance(rule, Aligned | Halves) and data.draw(st.booleans())
    random, result = np.random.default_rng(seed), np.float16 if half else np.float32
    spread, promote = data.draw(st.sampled_from([0, 4, 60])), data.draw(st.sampled_from([0, 12 * rule.length]))
    a, b = operands(random, operand, (m, k), spread), operands(random, operand, (k, n), spread)
    c = operands(random, "tf32", (m, n), spread)
    restarts = {"promote": promote, "halve_to": data.draw(st.sampled_from([0, rule.length])) if promote else 0}
    for x in (a, b, c):
        if operand not in ("e4m3", "e4m3fnuz") and data.draw(st.integers(0, 3)) == 0:
            x.ravel()[random.integers(x.size)] = data.draw(st.sampled_from([np.inf, -np.inf, np.nan]))
    found = matrix_units.multiply(rule, operand, a, b, c, result=result, **restarts)
    rows = np.repeat(a, n, 0), np.tile(b.T, (m, 1)), c.ravel()
    expected = matrix_units.definition(rule, operand, *rows, result=result, **restarts).reshape(m, n)
    np.testing.assert_array_equal(bits(found), bits(expected))


def test_threads_do_not_change_a_bit():
    random, results = np.random.default_rng(0), []
    a, b = operands(random, "bf16", (40, 200), 8), operands(random, "bf16", (200, 150), 8)
    for threads in (1, 3):
        with threading.num_threads(threads):
            results.append([matrix_units.multiply(RULES[at][0], "bf16", a, b).tobytes() for at in (1, -1)])
    assert results[0] == results[1]


def mma(a, b, c=0.0, profile="h100", format="fp16", **settings):
    row = [[float(x) for x in each] for each in (a, b)]
    return mt.profiles.mma([row[0]], [row[1]], [c], profile=profile, format=format, **settings).item()


def test_what_units_drop():
    """2**F below the greatest term nothing is left of the others, and what is left is cut, not rounded."""
    assert mma([2.0**11, 2.0**-14], [2.0**11, 1]) == 2.0**22
    assert mma([2.0**11, 1], [2.0**11, 1]) == 2.0**22 + 1
    ulp = 2.0**-23
    assert mma([1, 2.0**-12], [1, 2.0**-12]) == 1.0  # half a unit and more are cut
    assert mma([-1, -(2.0**-12)], [1, 1.75 * 2.0**-12]) == -1.0
    assert mma([1, 2.0**-12], [1, 2.0**-11]) == 1 + ulp
    assert mma([1] + [2.0**-12] * 8, [1] + [2.0**-14] * 8) == 1.0
    assert mma([1] + [2.0**-12] * 8, [1] + [2.0**-13] * 8) == 1 + ulp * 2  # bits beyond the result's are summed
    assert mma([1] + [2.0**-12] * 8, [1] + [2.0**-13] * 8, profile="v100") == 1.0
    assert mma([2.0**-24], [2.0**-10], 1.0, profile="mi100") == 1.0
    assert mma([1, -1], [1, 1], 2.0**-126, profile="mi250") == 2.0**-126
    assert mma([1, -1], [1, 1], 2.0**-127, profile="mi250") == 0.0


def test_extraordinary_values():
    inf, nan = float("inf"), float("nan")
    assert mma([inf, 1], [1, 1]) == inf
    assert mma([1, 1], [1, 1], -inf) == -inf
    for a, b, c in (([inf], [0], 0.0), ([inf, 1], [1, -inf], 0.0), ([1], [1], nan), ([inf], [1], -inf)):
        row = [[float(x) for x in each] for each in (a, b)]
        found = mt.profiles.mma([row[0]], [row[1]], [c], profile="h100", format="fp16").numpy()
        assert bits(found)[0] == 0x7FFFFFFF
    tiny = 2.0**-24  # float16's least: its exponent counts as -14
    assert mma([tiny, 2.0**-14], [1, 2.0**-12]) == tiny + 2.0**-26
    big = 1.5 * 2.0**127
    assert mma([big, -big], [2.0, 2.0], format="bf16") == 0.0, "products do not overflow by themselves"
    assert mma([big], [2.0], format="bf16") == inf


def test_rows_of_ones_own():
    mine = Profile("mine", {"fp16": (Format(Aligned(10, 4, (-133, -21)), "inferred"),)})
    assert mma([1, 2.0**-11], [1, 1], profile=mine) == 1.0
    try:
        mt.profiles.add(mine)
        assert mma([1, 2.0**-10], [1, 1], profile="mine") == 1 + 2.0**-10
    finally:
        PROFILES.pop("mine")
    with pytest.raises(ValueError, match=r"formats must be of tf32, bf16, .*, got fp4"):
        mt.profiles.add(Profile("other", {"fp4": (Format(Exact(4)),)}))
    assert "other" not in PROFILES


def test_every_row_says_what_bears_it_out():
    for profile in PROFILES.values():
        for ways in profile.formats.values():
            assert all(way.evidence in ("hardware", "model", "inferred") for way in ways)
            rules = [way.rule for way in ways if way.rule is not None or way.evidence == "hardware"]
            assert all(isinstance(rule, Aligned | Halves | Exact | Tree | TwoStage) for rule in rules)


@pytest.mark.parametrize(("settings", "sentence"), [
    ({"profile": "h1000"}, r"profile must be one of v100, t4, a100, .*, got 'h1000'"),
    ({"profile": "v100", "format": "bf16"}, "profile 'v100' has no matrix unit for 'bf16'; its formats: fp16"),
    ({"format": "e4m3", "instruction": "hmma"}, "has no 'hmma' for 'e4m3'; it has 'wgmma', 'mma.sync'"),
    ({"result": "float64"}, r"mma\(\): result must be 'float32' or 'float16', got 'float64'"),
    ({"format": "bf16", "result": "float16"}, "result must be 'float32' here, got 'float16'"),
    ({"format": "e4m3"}, r"mma\(\): a must hold values of e4m3, got 1.0009765625; round it first"),
])  # fmt: skip
def test_wrong_arguments(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        mma([1 + 2.0**-10], [1], **settings)


def test_wrong_shapes():
    with pytest.raises(RuntimeError, match=r"a and b must be \(n, K\) and c \(n\), got \[1, 2\], \[1, 3\], \[1\]"):
        mma([1, 2], [1, 2, 3])
