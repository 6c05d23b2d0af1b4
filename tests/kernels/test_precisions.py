"""Formats of operands against a second calculation by ml_dtypes, ggml's blocks against recorded bytes of ggml's own."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from minitorch_backends.kernels import precisions
from minitorch_backends.kernels.precisions import FORMATS, Format, ggml
from minitorch_backends.kernels.precisions.rounding import TE_SIGNS, refusal, round_operand

TYPES = {
    "e2m1": ml_dtypes.float4_e2m1fn, "e2m3": ml_dtypes.float6_e2m3fn, "e3m2": ml_dtypes.float6_e3m2fn,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip
GGML = np.load(Path(__file__).parents[1] / "data" / "ggml_k_quants.npz")


def normal(*shape: int, spread: int = 4) -> np.ndarray:
    random = np.random.default_rng(0)
    return (random.standard_normal(shape) * np.exp2(random.integers(-spread, spread + 1, shape))).astype(np.float32)


def blocks_of(x: np.ndarray, across: int, along: int) -> list[tuple[slice, slice]]:
    rows, k = x.shape
    across, along = across or rows, along or k
    return [
        (slice(i, i + across), slice(j, j + along)) for i in range(0, rows, across) for j in range(0, k, along)
    ]  # fmt: skip


def scale_of(most: float, row: Format, tensor: float) -> tuple[float, float]:
    """The divisor and the multiplier of a block whose largest magnitude this is."""
    greatest = float(ml_dtypes.finfo(TYPES[row.element]).max) if row.element in TYPES else 127.0
    top = 2.0 ** np.floor(np.log2(greatest))
    if row.scale == "e8m0":
        if row.rule == "even":
            bits = {"e2m1": 1, "e2m3": 3, "e4m3": 3, "e5m2": 2}[row.element]
            unit = 2.0 ** (np.floor(np.log2(most)) - bits)
            most = np.floor(most / unit + 0.5) * unit
        power = {
            "floor": lambda: np.floor(np.log2(most / top)), "even": lambda: np.floor(np.log2(most / top)),
            "ceil": lambda: np.ceil(np.log2(most / top)), "rceil": lambda: np.ceil(np.log2(most / greatest)),
        }[row.rule]()  # fmt: skip
        return 2.0**power, 2.0**power
    if row.scale == "e4m3":
        factor = float(np.float32(np.float32(most) / np.float32(greatest * tensor)).astype(TYPES["e4m3"]))
        return float(np.float32(factor) * np.float32(tensor)), factor * tensor
    scale = float(np.float32(most) / np.float32(greatest))
    return scale, scale


def definition(x: np.ndarray, row: Format) -> np.ndarray:
    """Block by block, of two dimensions and finite numbers."""
    turn = np.eye(x.shape[1])
    if row.rotation:
        hadamard = np.ones((1, 1))
        while len(hadamard) < row.rotation:
            hadamard = np.kron(np.array([[1, 1], [1, -1]]), hadamard)
        one = np.diag(np.resize(TE_SIGNS, row.rotation)) @ hadamard / np.sqrt(row.rotation)
        turn = np.kron(np.eye(x.shape[1] // row.rotation), one)
    turned = (x @ turn).astype(np.float32)
    greatest = float(ml_dtypes.finfo(TYPES[row.element]).max) if row.element in TYPES else 127.0
    tensor = float(np.float32(np.abs(turned).max()) / np.float32(448 * greatest)) if row.scale == "e4m3" else 1.0
    out = np.zeros(x.shape)
    for place in blocks_of(turned, *row.block):
        divisor, multiplier = scale_of(float(np.abs(turned[place]).max()), row, tensor)
        quotient = np.clip((turned[place] / np.float32(divisor)).astype(np.float32), -greatest, greatest)
        rounded = quotient.astype(TYPES[row.element]).astype(float) if row.element in TYPES else np.rint(quotient)
        out[place] = rounded * multiplier
    return out @ turn.T


SCALED = [
    name for name, row in FORMATS.items()
    if row.block and row.rounding != "stochastic" and not row.zero_point and not row.end
]  # fmt: skip


@pytest.mark.parametrize("name", SCALED)
def test_rounding_is_that_of_the_definition(name: str) -> None:
    row = FORMATS[name]
    x = normal(36, 160, spread=1 if row.rotation else 4)
    expected = definition(x, row)
    found = round_operand(x, name)
    limit = 1e-6 * np.abs(expected).max() if row.rotation else 3e-7 * np.abs(expected)
    assert (np.abs(found - expected) <= limit).mean() > (0.99 if row.rotation else 0.999999)
    by_columns = round_operand(np.asfortranarray(x.T), name, axis=0)
    np.testing.assert_array_equal(by_columns.T, found)


def test_a_last_block_may_be_shorter_and_specials_stay() -> None:
    x = normal(3, 40)
    x[0, 1], x[1, 2], x[2, 3] = np.inf, np.nan, 0
    found = round_operand(x, "mxfp8-rceil")
    assert found[0, 1] == np.inf
    assert np.isnan(found[1, 2])
    assert found[2, 3] == 0
    np.testing.assert_array_equal(found[:, 32:], round_operand(x[:, 32:], "mxfp8-rceil"))
    finite = np.where(np.isfinite(x), x, 0)
    np.testing.assert_array_equal(np.where(np.isfinite(x), found, 0), round_operand(finite, "mxfp8-rceil"))


@pytest.mark.parametrize("rule", ["ceil", "even", "rceil"])
def test_no_rule_but_the_floor_saturates_the_largest(rule: str) -> None:
    x = np.full((1, 32), 1.9990234, np.float32)
    assert round_operand(x, "mxfp8")[0, 0] == 1.75, "OCP's floor cuts 1.99 * 2**8 to 448"
    assert abs(round_operand(x, f"mxfp8-{rule}")[0, 0] - x[0, 0]) < 0.07


def test_integers_span_their_block() -> None:
    x = np.array([[-1.0, 0.25, 2.0, 0.5] * 16], np.float32)
    found = round_operand(x, "int4-64")
    step = np.float32(3 / 15).astype(ml_dtypes.bfloat16).astype(np.float64)
    assert np.abs(found - x).max() <= step / 2 + 2.0**-8, "either end is a code"
    assert len(np.unique(round_operand(normal(1, 64), "int4-64"))) <= 16
    rows = round_operand(normal(2, 512), "int8-row")
    for before, after in zip(normal(2, 512), rows, strict=True):
        step = np.abs(before).max() / np.float32(127.5)
        codes = np.clip(np.rint(before * (np.float32(1) / step)), -128, 127)
        np.testing.assert_allclose(after, codes * step, rtol=1e-6)


def test_a_rotation_spreads_outliers() -> None:
    x = np.full((8, 64), 0.01, np.float32)
    x[:, ::16] = 1.0
    plain, rotated = (np.abs(round_operand(x, name) - x).max() for name in ("nvfp4", "nvfp4-rotated"))
    assert rotated != plain
    np.testing.assert_allclose(round_operand(x * 2, "nvfp4-rotated"), round_operand(x, "nvfp4-rotated") * 2, rtol=1e-6)


def test_stochastic_rounding_is_right_on_average_and_seeded() -> None:
    x = normal(16, 64, spread=0)
    many = np.stack([round_operand(x, "nvfp4-stochastic", seed=seed) for seed in range(400)]).astype(float)
    inside = np.abs(x) < np.abs(many).max(0)
    spread = many.std(0)[inside].mean() / 20
    assert abs((many.mean(0) - x)[inside]).mean() < 1.2 * spread
    np.testing.assert_array_equal(round_operand(x, "nvfp4-stochastic", seed=3), many[3])
    np.testing.assert_array_equal(
        round_operand(x, "nvfp4", rounding="stochastic", seed=3), many[3], "the flag's and the row's are one"
    )


# Blocks of ggml


@pytest.mark.parametrize("name", ["q4_k", "q5_k", "q6_k"])
def test_blocks_of_256_are_ggmls_to_the_byte(name: str) -> None:
    np.testing.assert_array_equal(ggml.quantize(GGML["x"], name), GGML[name])


def small(x: np.ndarray, name: str) -> np.ndarray:
    """Values of one block of 32, by the words of ggml's reference."""
    bits = int(name[1])
    if name == "q8_0":
        step = np.float32(np.abs(x).max() / np.float32(127))
        scaled = x * (np.float32(1) / step)
        codes = np.copysign(np.floor(np.abs(scaled.astype(float)) + 0.5), scaled)
        return codes * float(np.float16(step))
    if name[3] == "1":
        step = np.float32((x.max() - x.min()) / np.float32(2**bits - 1))
        codes = np.clip(np.floor((x - x.min()) * (np.float32(1) / step) + np.float32(0.5)), 0, 2**bits - 1)
        return codes * float(np.float16(step)) + float(np.float16(x.min()))
    step = np.float32(x[np.abs(x).argmax()] / np.float32(-(2 ** (bits - 1))))
    codes = np.clip(np.floor(x * (np.float32(1) / step) + np.float32(2 ** (bits - 1) + 0.5)), 0, 2**bits - 1)
    return (codes - 2 ** (bits - 1)) * float(np.float16(step))


@pytest.mark.parametrize("name", ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0"])
def test_blocks_of_32(name: str) -> None:
    x = normal(8, 32)
    expected = np.stack([small(each, name) for each in x])
    packed = ggml.quantize(x, name)
    assert packed.shape == (8, ggml.BLOCKS[name].size)
    assert packed.dtype == np.uint8
    np.testing.assert_allclose(ggml.dequantize(packed, name), expected, rtol=2e-7, atol=1e-7)
    assert not ggml.dequantize(ggml.quantize(np.zeros((1, 32), np.float32), name), name).any()


@pytest.mark.parametrize("name", list(ggml.BLOCKS))
def test_blocks_keep_what_they_hold(name: str) -> None:
    """Values of blocks, rounded again, stay near themselves, and bits order the errors."""
    x = normal(4, 512, spread=0)
    values = round_operand(x, name)
    assert np.abs(values - x).mean() / np.abs(x).mean() < {"4": 0.12, "5": 0.06, "6": 0.03, "8": 0.01}[name[1]]
    again = round_operand(values, name)
    assert np.abs(again - values).mean() < 0.5 * np.abs(values - x).mean()


def sentence_of(call: Any) -> str:
    with pytest.raises(ValueError, match=r".") as info:
        call()
    return str(info.value)


def test_what_does_not_fit_is_refused_in_one_sentence() -> None:
    x = normal(2, 40)
    assert "block of 256 does not divide K = 40" in sentence_of(lambda: round_operand(x, "q4_k"))
    assert "Hadamard transform of 16 does not divide K = 40" in sentence_of(lambda: round_operand(x, "nvfp4-rotated"))
    assert refusal("mxfp4", (2, 40), -1) is None, "its last block is shorter"
    assert "'mxfp3' is not a format of operands" in sentence_of(lambda: round_operand(x, "mxfp3"))
    assert "finite" in sentence_of(lambda: ggml.quantize(np.full((1, 32), np.inf, np.float32), "q4_0"))
    assert "multiple of 18 bytes" in sentence_of(lambda: ggml.dequantize(np.zeros((1, 19), np.uint8), "q4_0"))


def test_a_user_adds_a_row() -> None:
    row = Format("e4m3-by-64-in-bf16", "e4m3", (1, 64), "bf16")
    precisions.add(row)
    try:
        x = normal(4, 128)
        scales = (np.abs(x.reshape(4, 2, 64)).max(-1, keepdims=True) / np.float32(448)).astype(ml_dtypes.bfloat16)
        scales = scales.astype(np.float32)
        expected = (x.reshape(4, 2, 64) / scales).clip(-448, 448).astype(TYPES["e4m3"]).astype(np.float32) * scales
        np.testing.assert_array_equal(round_operand(x, row.name), expected.reshape(4, 128))
        assert "name must be new" in sentence_of(lambda: precisions.add(row))
    finally:
        del FORMATS[row.name]
    for wrong in (
        {"element": "e9m9"}, {"scale": "fp8"}, {"rule": "most"}, {"rotation": 8}, {"rounding": "up"},
        {"scale": "e8m0"}, {"zero_point": True},
    ):  # fmt: skip
        sentence_of(
            lambda wrong=wrong: precisions.add(Format(**{"name": "x", "element": "e4m3", "block": (1, 32), **wrong}))
        )
