"""Files of every format that are cut off, or have other bits: one sentence that names the file, or a valid answer."""

import functools
import io
import json
import pickle
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import minitorch_backends as mt
from minitorch_backends import backends, explain, lab, nn
from minitorch_backends.interop import gguf
from minitorch_backends.kernels.block import tuning_file
from minitorch_backends.kernels.conv.tuner import BenchmarkCache
from minitorch_backends.kernels.precisions import ggml
from tests.serialization.test_serialization import old_file
from tests.support.sweep_functions import sums

SENTENCES = (ValueError, RuntimeError, pickle.UnpicklingError)
DAMAGES = 150


def damages(whole: bytes, seed: int) -> Iterator[bytes]:
    """The content with an end cut off, with bits flipped, with bytes set, and with a part missing or twice."""
    draw = random.Random(seed)
    for _ in range(DAMAGES):
        place, other = sorted(draw.randrange(len(whole)) for _ in range(2))
        kind = draw.randrange(5)
        if kind == 0:
            yield whole[:place]
        elif kind == 1:
            yield whole[:place] + bytes([whole[place] ^ 1 << draw.randrange(8)]) + whole[place + 1 :]
        elif kind == 2:
            yield whole[:place] + b"\xff" * min(8, len(whole) - place) + whole[place + 8 :]
        elif kind == 3:
            yield whole[:place] + whole[other:]
        else:
            yield whole[:other] + whole[place:]


def refusal(read: Callable[[], Any]) -> str | None:
    """The sentence of a refusal, or None. Any other exception fails the test."""
    try:
        read()
    except SENTENCES as error:
        sentence = str(error)
    else:
        return None
    assert sentence
    assert "\n" not in sentence
    return sentence


# Formats: what writes a file, and what reads it and uses all of it.


def _state() -> dict[str, Any]:
    base = mt.arange(24.0).reshape(4, 6)
    return {"w": base, "view": base[1:, ::2], "n": [1, "text", (2.5, None)], "p": nn.Parameter(mt.ones(3))}


def _capture(path: Path) -> None:
    with lab.capture(path, results="values"):
        mt.ones(3, 3) @ mt.ones(3, 4)


def _read_run(path: Path) -> None:
    run = lab.Run.read(path)
    lab.compare(run, run).table()
    assert run.sketches is None or len(run.sketches) == len(run)
    for call in range(len(run)):
        run.values(call)


def _use(tensors: Any) -> None:
    for each in tensors.values():
        if isinstance(each, mt.Tensor):
            each.sum()


def _write_safetensors(path: Path) -> None:
    pytest.importorskip("safetensors")
    from minitorch_backends.interop import safetensors

    safetensors.save_file({"a": mt.arange(6.0).reshape(2, 3), "b": mt.ones(3).half()}, path, {"note": "text"})


def _read_safetensors(path: Path) -> None:
    from minitorch_backends.interop import safetensors

    _use(safetensors.load_file(path))


def _write_onnx(path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    weight = numpy_helper.from_array(mt.arange(12.0).reshape(3, 4).numpy(), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Relu", ["y"], ["z"])]
    infos = [helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", [2, 3]), ("z", [2, 4]))]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(path))


def _read_onnx(path: Path) -> None:
    from minitorch_backends.interop import onnx

    onnx.load(path)


def _write_gguf(path: Path) -> None:
    from tests.interop import test_gguf

    kinds = [1] * (len(test_gguf.TOKENS) - 1) + [3]
    texts = {"model": "gpt2", "pre": "smollm", "tokens": test_gguf.TOKENS, "merges": test_gguf.MERGES}
    values = {f"tokenizer.ggml.{name}": value for name, value in texts.items()} | {"tokenizer.ggml.token_type": kinds}
    blocks = {name: ggml.quantize(test_gguf.X[:1, :256], name).tobytes() for name in ("q4_0", "q8_0")}
    tensors = {name: (ggml.BLOCKS[name].number, (1, 256), raw) for name, raw in blocks.items()}
    path.write_bytes(test_gguf.file_of(values, tensors | {"plain": (0, (3, 4), bytes(48))}))


def _read_gguf(path: Path) -> None:
    file = gguf.load(path)
    _use(file.tensors)
    if file.tokenizer._pre in ("gpt-2", "smollm", "default"):
        file.tokenizer.decode(file.tokenizer.encode("lower 12<|end|>"))


PATHS: dict[str, tuple[Callable[[Path], Any], Callable[[Path], Any]]] = {
    "run": (_capture, _read_run),
    "checkpoint": (lambda path: mt.save(_state(), path), lambda path: _use(mt.load(path))),
    "mapped checkpoint": (lambda path: mt.save(_state(), path), lambda path: _use(mt.load(path, mmap=True))),
    "old checkpoint": (lambda path: path.write_bytes(old_file(_state())), lambda path: _use(mt.load(path))),
    "safetensors": (_write_safetensors, _read_safetensors),
    "onnx": (_write_onnx, _read_onnx),
    "gguf": (_write_gguf, _read_gguf),
    "benchmark cache": (
        lambda path: path.write_text('{"format": 1, "entries": {"conv a": {"direct": 0.5, "blas": 0.25}}}'),
        lambda path: repr(BenchmarkCache().load(path)),
    ),
}


@pytest.mark.parametrize("name", PATHS)
def test_a_damaged_file_is_one_sentence_with_its_path(name: str, tmp_path: Path):
    write, read = PATHS[name]
    write(tmp_path / "whole.file")
    refused = 0
    for content in damages((tmp_path / "whole.file").read_bytes(), 0):
        (tmp_path / "damaged.file").write_bytes(content)
        sentence = refusal(lambda: read(tmp_path / "damaged.file"))
        if sentence is not None:
            refused += 1
            assert "damaged.file" in sentence
            assert len(sentence) < 700
    assert refused > DAMAGES // 4


def _read_sweep(store: Path) -> None:
    found = lab.Sweep.read(store)
    assert repr(found)
    if found.rows:
        found.table()


@pytest.mark.parametrize("name", ["rows", "manifest"])
def test_a_damaged_store_is_one_sentence_with_its_path(name: str, tmp_path: Path):
    lab.sweep(sums, over={"n": [2, 3], "scale": [1.0]}, flags=[{}], seeds=1, store=tmp_path / "sweep", progress=False)
    file = next((tmp_path / "sweep").glob("rows*" if name == "rows" else "manifest*"))
    for content in damages(file.read_bytes(), 1):
        file.write_bytes(content)
        sentence = refusal(lambda: _read_sweep(tmp_path / "sweep"))
        assert sentence is None or "sweep" in sentence


def _log() -> explain.Log:
    with explain.record() as log:
        mt.ones(3, 3) @ mt.ones(3, 3)
    return log


TEXTS: dict[str, tuple[Callable[[], Any], Callable[[str], Any]]] = {
    "policy": (lambda: lab.Policy({"*": "bf16", "1": lab.Rule({"fp32_precision": "tf32"})}), lab.Policy.from_json),
    "snapshot": (backends.snapshot, backends.Snapshot.from_json),
    "log": (_log, explain.Log.from_json),
    "plan": (lambda: mt.einsum_plan("ab,bc,cd->ad", mt.ones(2, 3), mt.ones(3, 4), mt.ones(4, 5)), None),  # type: ignore[dict-item]
}


@pytest.mark.parametrize("name", TEXTS)
def test_damaged_text_is_one_sentence(name: str):
    make, read = TEXTS[name]
    with backends.flags(fp32_precision="bf16", profile="a100"):
        made = make()
    read = read or type(made).from_json
    whole = made.to_json()
    texts = [each.decode("utf-8", "replace") for each in damages(whole.encode(), 2)]
    texts += ["[" * 100_000, '{"a":' * 100_000, "null", "3", "[]", '"x"', "{}", "[[]]", '{"": {}}', "NaN"]
    refused = 0
    for text in texts:
        sentence = refusal(functools.partial(read, text))
        if sentence is not None:
            refused += 1
            assert len(sentence) < 700
    assert refused > DAMAGES // 4


@pytest.mark.filterwarnings("ignore:the thresholds of this CPU")
def test_a_damaged_tuning_file_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(tuning_file.FOLDER_VARIABLE, str(tmp_path / "config"))
    whole = {"date": "2026-11-27", "rows": {"avx2": {next(iter(_measured_names())): 4.0}}}
    path = tuning_file.write(whole)
    assert tuning_file.read() is not None
    for content in [*damages(json.dumps(whole).encode(), 3), b"[" * 100_000]:
        path.write_bytes(content)
        found = tuning_file.read()
        assert found is None or all(isinstance(row, dict) for row in found.values.values())


def _measured_names() -> Any:
    from minitorch_backends.kernels.block.tuning_file import MEASURED

    return MEASURED


def test_a_file_object_is_named_by_nothing():
    with pytest.raises(RuntimeError, match=r"load\(\): the file is not a zip archive"):
        mt.load(io.BytesIO(b"nothing"))
