"""The lines of torch that a policy prints, run by torch."""

import pytest
import torch

from minitorch_backends.lab import Policy


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


def test_onnx_runtime_excludes_the_nodes_of_a_policy(tmp_path):
    quantization, onnx = pytest.importorskip("onnxruntime.quantization"), pytest.importorskip("onnx")
    make, floats, path = onnx.helper, onnx.TensorProto.FLOAT, str(tmp_path / "model.onnx")
    first, last, names = "first", "last", ["first", "last"]
    weights = [make.make_tensor(f"w{n}", floats, (8, 8), torch.randn(64).tolist()) for n in range(2)]
    nodes = [make.make_node("MatMul", [f"x{n}", f"w{n}"], [f"x{n + 1}"], names[n]) for n in range(2)]
    ends = [make.make_tensor_value_info(name, floats, (1, 8)) for name in ("x0", "x2")]
    graph = make.make_graph(nodes, "graph", ends[:1], ends[1:], weights)
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=9), path)
    policy = Policy({"*": {"operands.weight": "int8-row"}, last: {"operands.weight": "none"}})
    assert policy.nodes_to_exclude(names) == [last]
    quantization.quantize_dynamic(path, path + ".int8", nodes_to_exclude=policy.nodes_to_exclude(names))
    found = [node.name for node in onnx.load(path + ".int8").graph.node]
    assert last in found
    assert first not in found
