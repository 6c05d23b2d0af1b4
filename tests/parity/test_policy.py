"""The lines of torch that a policy prints, run by torch."""

import re

import onnx
import pytest
import torch

from minitorch_backends.kernels.precisions.ggml import BLOCKS
from minitorch_backends.lab import Policy

POLICY = Policy({"*": {"operands.weight": "int8-row"}, "last": {"operands.weight": "none"}})


def test_lines_set_the_flags_of_each_module():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    flag, seen = torch.backends.cuda.matmul, []
    before = flag.fp32_precision
    exec(Policy({"*": {"fp32_precision": "tf32"}, "1": {"fp32_precision": "ieee"}}).torch(), {"model": model})
    for layer in model:
        layer.register_forward_hook(lambda *_: seen.append(flag.fp32_precision), prepend=True)
    model(torch.ones(1, 2))
    assert seen == ["tf32", "ieee"]
    assert flag.fp32_precision == before


def test_one_rule_sets_the_process():
    flags = torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn
    before = [flag.fp32_precision for flag in flags]
    try:
        exec(Policy({"*": "tf32"}).torch(), {})
        assert [flag.fp32_precision for flag in flags] == ["tf32"] * 3
    finally:
        for flag, value in zip(flags, before, strict=True):
            flag.fp32_precision = value


def test_torchao_quantizes_the_layers_of_a_filter():
    quantization = pytest.importorskip("torchao.quantization")
    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    policy = Policy({"*": {"operands.weight": "int8-row"}, "2": {"operands.weight": "none"}})
    quantization.quantize_(model, quantization.Int8WeightOnlyConfig(), policy.filter("int8-row"))
    plain = [type(model[place].weight) in (torch.Tensor, torch.nn.Parameter) for place in (0, 2)]
    assert plain == [False, True]


def write_model(path: str, names: list[str], size: int = 8) -> None:
    """An ONNX file of products in a row, with these names."""
    make, floats = onnx.helper, onnx.TensorProto.FLOAT
    weights = [make.make_tensor(f"w{n}", floats, (size, size), torch.randn(size**2)) for n in range(len(names))]
    nodes = [make.make_node("MatMul", [f"x{n}", f"w{n}"], [f"x{n + 1}"], name) for n, name in enumerate(names)]
    ends = [make.make_tensor_value_info(name, floats, (32, size)) for name in ("x0", f"x{len(names)}")]
    graph = make.make_graph(nodes, "graph", ends[:1], ends[1:], weights)
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=9), path)


def test_onnx_runtime_excludes_the_nodes_of_a_policy(tmp_path):
    quantization, path = pytest.importorskip("onnxruntime.quantization"), str(tmp_path / "model.onnx")
    names = ["first", "last"]
    write_model(path, names)
    assert POLICY.nodes_to_exclude(names) == ["last"]
    quantization.quantize_dynamic(path, path + ".int8", nodes_to_exclude=POLICY.nodes_to_exclude(names))
    found = [node.name for node in onnx.load(path + ".int8").graph.node]
    assert "last" in found
    assert "first" not in found


def test_modelopt_excludes_the_nodes_of_a_policy(tmp_path):
    quantization = pytest.importorskip("modelopt.onnx.quantization", exc_type=ImportError)
    path, names = str(tmp_path / "model.onnx"), ["first", "last"]
    write_model(path, names, 64)  # it leaves products of one row or few columns
    quantization.quantize(
        path, calibration_data={"x0": torch.randn(32, 64).numpy()}, output_path=path + ".int8",
        nodes_to_exclude=POLICY.nodes_to_exclude(names), calibration_eps=["cpu"], high_precision_dtype="fp32",
    )  # fmt: skip
    graph = onnx.load(path + ".int8").graph
    quantized = {name for node in graph.node if node.op_type == "DequantizeLinear" for name in node.output}
    products = {node.name: set(node.input) for node in graph.node if node.op_type == "MatMul"}
    assert products["first"] <= quantized
    assert not products["last"] & quantized


def test_a_conversion_to_float16_leaves_the_nodes_of_a_policy(tmp_path):
    pytest.importorskip("onnxconverter_common")
    path, names = str(tmp_path / "model.onnx"), ["first", "last"]
    write_model(path, names)
    scope = {"model": onnx.load(path)}
    exec(Policy({"*": "fp16", "last": "ieee"}).onnx(names), scope)
    types = {each.name: each.data_type for each in scope["model"].graph.initializer}
    assert (types["w0"], types["w1"]) == (onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT)


def test_llama_cpp_has_the_types_of_a_policy():
    gguf = pytest.importorskip("gguf")
    for level in (*BLOCKS, "mxfp4", "bf16", "fp16", "ieee", "int8-row", "int4-32"):
        (option,) = Policy({"*": {"operands.weight": level}}).llama_cpp(["output.weight"])
        pattern, _, kind = option.removeprefix("--tensor-type ").partition("=")
        assert re.fullmatch(pattern, "output.weight")
        assert kind.upper() in gguf.GGMLQuantizationType.__members__
