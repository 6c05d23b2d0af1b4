"""Weights of 4 and 8 bits with their scales in safetensors files: values by their definitions, laziness, refusals."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import minitorch_backends as mt

pytest.importorskip("safetensors", reason="safetensors is not installed")

from minitorch_backends.interop.safetensors import load_weights, save_file

RNG = np.random.default_rng(0)
E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
E2M1 += [-each for each in E2M1]


def fp8(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(ml_dtypes.float8_e4m3fn)


def write(path: Path, tensors: dict[str, np.ndarray], **options: Any) -> Path:
    save_file({name: mt.from_numpy(np.ascontiguousarray(each)) for name, each in tensors.items()}, path, **options)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


def test_blocks_of_128(path: Path) -> None:
    numbers, scales = fp8(200, 300), RNG.random((2, 3)).astype(np.float32)
    weights = load_weights(write(path, {"w": numbers, "w_scale_inv": scales, "bias": np.ones(3, np.float32)}))
    expected = numbers.astype(np.float32)
    for row in range(200):
        for column in range(300):
            expected[row, column] *= scales[row // 128, column // 128]
    assert sorted(weights) == ["bias", "w"]
    assert len(weights) == 2
    np.testing.assert_array_equal(weights["w"].numpy(), expected)
    np.testing.assert_array_equal(weights["bias"].numpy(), np.ones(3))
    assert weights.form_of("w") == "float8_e4m3fn, scales of shape [2, 3]"
    assert load_weights(path, mt.bfloat16)["w"].dtype is mt.bfloat16
    with pytest.raises(KeyError):
        weights["w_scale_inv"]


@pytest.mark.parametrize("shape", [(), (1,), (6, 1), (6,), (6, 4)])
@pytest.mark.parametrize("kind", ["fp8", "int8"])
def test_scales_of_tensors_rows_and_groups(path: Path, shape: tuple[int, ...], kind: str) -> None:
    numbers = fp8(6, 32) if kind == "fp8" else RNG.integers(-128, 128, (6, 32), np.int8)
    scales = np.asarray(RNG.random(shape), np.float32).astype(ml_dtypes.bfloat16)
    found = load_weights(write(path, {"a.weight": numbers, "a.weight_scale": scales}))["a.weight"].numpy()
    wide = scales.astype(np.float32).reshape(shape if len(shape) != 1 else (-1, 1))
    wide = np.repeat(wide, 8, 1) if shape == (6, 4) else wide
    np.testing.assert_array_equal(found, numbers.astype(np.float32) * wide)


def test_pairs_of_e2m1_in_blocks_are_exchanged(path: Path) -> None:
    """gpt-oss: (experts, outputs, groups, bytes) becomes (experts, inputs, outputs), the low bits of a byte first."""
    blocks, scales = RNG.integers(0, 256, (2, 3, 4, 16), np.uint8), RNG.integers(110, 140, (2, 3, 4), np.uint8)
    weights = load_weights(write(path, {"e.down_proj_blocks": blocks, "e.down_proj_scales": scales}))
    assert list(weights) == ["e.down_proj"]
    found = weights["e.down_proj"].numpy()
    assert found.shape == (2, 128, 3)
    for _ in range(50):
        e, o, i = RNG.integers(0, (2, 3, 128))
        byte = int(blocks[e, o, i // 32, i % 32 // 2])
        assert found[e, i, o] == E2M1[byte >> 4 if i % 2 else byte & 15] * 2.0 ** (int(scales[e, o, i // 32]) - 127)


def test_packed_integers(path: Path) -> None:
    numbers = RNG.integers(-8, 8, (5, 64))
    words = np.zeros((5, 8), np.uint32)
    for column in range(64):
        words[:, column // 8] |= ((numbers[:, column] + 8) << 4 * (column % 8)).astype(np.uint32)
    scales = RNG.random((5, 2)).astype(np.float16)
    tensors = {"w_packed": words.view(np.int32), "w_scale": scales, "w_shape": np.array([5, 64])}
    found = load_weights(write(path, tensors))["w"].numpy()
    np.testing.assert_array_equal(found, numbers * np.repeat(scales.astype(np.float32), 32, 1))


@pytest.mark.parametrize("form", ["mxfp4", "nvfp4"])
def test_packed_pairs(path: Path, form: str) -> None:
    codes = RNG.integers(0, 256, (3, 32), np.uint8)
    values = np.array(E2M1, np.float32)[np.stack([codes & 15, codes >> 4], -1).reshape(3, 64)]
    tensors: dict[str, np.ndarray] = {"w_packed": codes}
    if form == "mxfp4":
        tensors["w_scale"] = RNG.integers(120, 130, (3, 2), np.uint8)
        scales = np.repeat(2.0 ** (tensors["w_scale"].astype(np.float32) - 127), 32, 1)
    else:
        tensors["w_scale"], tensors["w_global_scale"] = (
            np.abs(fp8(3, 4).astype(np.float32)).astype(ml_dtypes.float8_e4m3fn),
            np.array([3.0], np.float32),
        )
        scales = np.repeat(tensors["w_scale"].astype(np.float32) / np.float32(3), 16, 1)
    np.testing.assert_array_equal(load_weights(write(path, tensors))["w"].numpy(), values * scales)


def words_of(codes: np.ndarray, bits: int, places: tuple[int, ...] = tuple(range(32))) -> np.ndarray:
    """Words along the last dimension, one integer of Python each: number n of a run is its bits from n * bits on."""
    run = 32 if bits == 3 else 32 // bits
    words = []
    for row in codes.reshape(-1, codes.shape[-1] // run, run).tolist():
        for numbers in row:
            stream = sum(numbers[places[at]] << bits * at for at in range(run))
            words += [stream >> shift & 0xFFFFFFFF for shift in range(0, run * bits, 32)]
    return np.array(words, np.uint32).view(np.int32).reshape(*codes.shape[:-1], -1)


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("form", ["in order", "by activations", "gptq_v2"])
def test_weights_of_gptq(path: Path, bits: int, form: str) -> None:
    """Words along inputs; a column's group is in g_idx; zero points less 1 unless the configuration says otherwise."""
    codes, zeros = RNG.integers(0, 2**bits, (96, 64)), RNG.integers(1, 2**bits, (3, 64))
    scales, group = RNG.random((3, 64)).astype(np.float16), np.arange(96) // 32
    tensors = {"m.scales": scales, "m.qweight": np.ascontiguousarray(words_of(np.ascontiguousarray(codes.T), bits).T)}
    if form == "gptq_v2":
        (path.parent / "quantize_config.json").write_text('{"bits": 4, "checkpoint_format": "gptq_v2"}')
        tensors["m.qzeros"] = words_of(zeros, bits)
    else:
        tensors["m.qzeros"] = words_of(zeros - 1, bits)
    if form == "by activations":
        group = RNG.permutation(group)
        tensors["m.g_idx"] = group.astype(np.int32)
    weights = load_weights(write(path, tensors))
    assert list(weights) == ["m.weight"]
    assert weights.form_of("m.weight") == f"GPTQ of {bits} bits, scales of shape [3, 64]"
    found = weights["m.weight"].numpy()
    assert found.shape == (64, 96)
    for _ in range(200):
        out, column = RNG.integers(0, (64, 96))
        at = group[column], out
        assert found[out, column] == np.float32(int(codes[column, out]) - int(zeros[at])) * np.float32(scales[at])


def test_weights_of_awq(path: Path) -> None:
    """Words along outputs, whose nibbles hold the neighbours 0, 2, 4, 6, 1, 3, 5, 7."""
    codes, zeros = RNG.integers(0, 16, (64, 24)), RNG.integers(0, 16, (2, 24))
    scales, places = RNG.random((2, 24)).astype(np.float16), (0, 2, 4, 6, 1, 3, 5, 7)
    tensors = {
        "0.q.scales": scales,
        "0.q.qweight": words_of(codes, 4, places),
        "0.q.qzeros": words_of(zeros, 4, places),
    }
    weights = load_weights(write(path, tensors), mt.float16)
    assert weights.form_of("0.q.weight") == "AWQ of 4 bits, scales of shape [2, 24]"
    wide, low = (np.repeat(each, 32, 0).astype(np.float32) for each in (scales, zeros))
    np.testing.assert_array_equal(weights["0.q.weight"].numpy(), ((codes - low) * wide).T.astype(np.float16))


def test_a_configuration_of_gptq_that_is_damaged(path: Path) -> None:
    tensors = {name: np.zeros((1, 64 if name == "scales" else 8), np.float16 if name == "scales" else np.int32)
               for name in ("scales", "qzeros")}  # fmt: skip
    write(path, {**tensors, "qweight": np.zeros((1, 64), np.int32)})
    (path.parent / "config.json").write_text('{"quantization_config": [1]}')
    with pytest.raises(ValueError, match=r"load_weights\(\): '.*config.json' must be an object of JSON"):
        load_weights(path)
    (path.parent / "config.json").write_text('{"quantization_config": {"checkpoint_format": "gptq"}}')
    assert list(load_weights(path)) == ["weight"]


def test_a_group_that_lies_is_refused_when_it_is_read(path: Path) -> None:
    tensors = {"scales": np.ones((2, 32), F16), "qzeros": np.zeros((2, 4), I32), "qweight": np.zeros((4, 32), I32)}
    weights = load_weights(write(path, {**tensors, "g_idx": np.full(32, 2, I32)}))
    with pytest.raises(ValueError, match=r"'g_idx' of numbers from 0 to 1, got \[2, 2\]"):
        weights["weight"]


def test_names_of_torchao(path: Path) -> None:
    numbers, scales = fp8(4, 8), RNG.random((4, 1)).astype(np.float32)
    weights = load_weights(write(path, {"0._weight_qdata": numbers, "0._weight_scale": scales}))
    assert list(weights) == ["0.weight"]
    np.testing.assert_array_equal(weights["0.weight"].numpy(), numbers.astype(np.float32) * scales)


def test_shards_and_laziness(tmp_path: Path) -> None:
    tensors = {f"{number}.weight": fp8(128, 128) for number in range(3)}
    tensors |= {f"{number}.weight_scale_inv": np.full((1, 1), 2, np.float32) for number in range(3)}
    index = write(tmp_path / "model.safetensors.index.json", tensors, max_shard_size=20_000)
    weights = load_weights(index)
    assert sorted(weights) == [f"{number}.weight" for number in range(3)]
    file = next(tmp_path.glob("*-of-*.safetensors"))
    before = weights["0.weight"].numpy()[0, 0]
    with file.open("r+b") as opened:  # tensors are read when they are asked for
        opened.seek(-1, 2)
        opened.write(b"\x7e")
    assert weights["0.weight"].numpy()[0, 0] == before
    assert any(448 * 2 in weights[name].numpy() for name in weights)


F16, F32, U8, I32 = np.float16, np.float32, np.uint8, np.int32
GROUPED = {"qweight": np.ones((8, 32), I32), "qzeros": np.ones((2, 4), I32), "scales": np.ones((2, 32), F16)}
LIES: dict[str, dict[str, np.ndarray]] = {
    "blocks of another shape": {"w": fp8(200, 300), "w_scale_inv": np.ones((2, 2), F32)},
    "no scales": {"w": fp8(200, 300), "w_scale_inv": np.ones((0, 0), F32)},
    "groups that do not divide": {"w": fp8(4, 30), "w_scale": np.ones((4, 4), F32)},
    "scales of integers": {"w": fp8(4, 32), "w_scale": np.ones((4, 1), I32)},
    "scales of more dimensions": {"w": fp8(4, 32), "w_scale": np.ones((4, 2, 2), F32)},
    "zero points": {"w": fp8(4, 32), "w_scale": np.ones((4, 1), F32), "w_zero_point": np.ones((4, 1), np.int8)},
    "groups of other blocks": {"w_blocks": np.ones((2, 4, 16), U8), "w_scales": np.ones((2, 3), U8)},
    "words without a shape": {"w_packed": np.ones((2, 4), I32), "w_scale": np.ones((2, 1), F32)},
    "rows of scales": {"w_packed": np.ones((2, 4), U8), "w_scale": np.ones((3, 1), U8)},
    "no global scale": {"w_packed": np.ones((2, 16), U8), "w_scale": fp8(2, 2)},
    "an order of columns": {
        "w_packed": np.ones((2, 16), U8), "w_scale": np.ones((2, 1), U8), "w_g_idx": np.zeros(32, I32)
    },
    "no groups": GROUPED | {"scales": np.ones((0, 32), F16), "qzeros": np.ones((0, 4), I32)},
    "scales of integers by groups": GROUPED | {"scales": np.ones((2, 32), I32)},
    "zero points of 5 bits": GROUPED | {"qzeros": np.ones((2, 5), I32)},
    "zero points of other groups": GROUPED | {"qzeros": np.ones((3, 4), I32)},
    "words of other outputs": GROUPED | {"qweight": np.ones((8, 16), I32)},
    "words of floats": GROUPED | {"qweight": np.ones((8, 32), F32)},
    "groups that do not divide inputs": {
        "qweight": np.ones((1, 32), I32), "qzeros": np.ones((3, 4), I32), "scales": np.ones((3, 32), F16)
    },
    "groups of other inputs": GROUPED | {"g_idx": np.ones(32, I32)},
    "groups of floats": GROUPED | {"g_idx": np.ones(64, F32)},
    "a plain weight too": GROUPED | {"weight": np.ones((2, 2), F32)},
    "two forms": {
        "w": fp8(2, 32), "w_scale": np.ones((2, 1), F32), "w_packed": np.ones((2, 16), U8)
    },
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_scales_that_do_not_fit_are_refused_with_the_path(path: Path, lie: str) -> None:
    write(path, LIES[lie])
    with pytest.raises(ValueError, match=r"^load_weights\(\): '.*model.safetensors' must (have|hold) "):
        load_weights(path)


def test_a_shape_that_lies_is_refused_when_it_is_read(path: Path) -> None:
    tensors = {"w_packed": np.ones((2, 4), I32), "w_scale": np.ones((2, 1), F32), "w_shape": np.array([2, 1 << 40])}
    weights = load_weights(write(path, tensors))
    with pytest.raises(ValueError, match=r"'w_shape' that fits \[2, 4\] words"):
        weights["w"]
