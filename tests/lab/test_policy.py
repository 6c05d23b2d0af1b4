"""Policies: what each module's products run at, however the policy is applied, and what torch can do of it."""

import pytest

import minitorch_backends as mt
from minitorch_backends import explain, lab, nn
from minitorch_backends.lab import Policy, Rule


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(2, 4, 3)
        self.body = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))

    def forward(self, x):
        return self.body(self.stem(x).flatten(2).mT)


POLICY = Policy({"*": Rule({"fp32_precision": "tf32"}, "bf16", "bf16x3"), "body.1": "fp16", "body.0": Rule({})})
EXPECTED = {
    ("stem", "forward"): ["tf32"],
    ("stem", "backward"): ["bf16x3"],
    ("body.0", "forward"): ["tf32"],  # its rule names no flag: those of the module that calls it
    ("body.0", "backward"): ["bf16", "bf16x3"],
    ("body.1", "forward"): ["fp16"],
    ("body.1", "backward"): ["fp16", "fp16"],
}


def precisions(log):
    found = {}
    for call in log:
        found.setdefault((call.module, call.direction), []).append(call.precision)
    return {key: sorted(values) for key, values in found.items()}


@pytest.fixture
def net():
    mt.manual_seed(0)
    return Net()


def test_scopes_by_module(net):
    with explain.record() as log:
        with POLICY:
            out = net(mt.randn(1, 2, 4, 4))
        out.sum().backward()  # outside of the block: nodes keep the precisions of their gradients
    assert precisions(log) == EXPECTED
    assert mt.backends.input_gradient_precision == "none"


def test_run_under_a_policy(net):
    applied = nn.utils.run_under(net, POLICY)
    with explain.record() as log:
        net(mt.randn(1, 2, 4, 4)).sum().backward()
    assert precisions(log) == EXPECTED
    applied.close()
    with explain.record() as log:
        net(mt.randn(1, 2, 4, 4)).sum().backward()
    assert {call.precision for call in log} == {"ieee"}


def test_a_rule_of_precision_replaces_all_others(net):
    flags = mt.backends.flags(**{"emulate": "cuda", "cuda.matmul.fp32_precision": "tf32"})
    with flags, explain.record() as log, Policy({"body.*": "ieee"}):
        net(mt.randn(1, 2, 4, 4))
    assert [call.precision for call in log] == ["tf32", "ieee", "ieee"]


def test_json_keeps_rules_and_their_order():
    again = Policy.from_json(POLICY.to_json())
    assert again == POLICY
    assert list(again.rules) == ["*", "body.1", "body.0"]
    assert Policy({"a": "tf32", "b": "bf16"}) != Policy({"b": "bf16", "a": "tf32"})


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda net: Policy({"*": "fp7"}), ValueError, "'fp7' is not a precision"),
        (lambda net: Policy({"*": 3}), TypeError, "a rule must be a precision, a dict of flags or a Rule, got int"),
        (lambda net: Policy({"*": {"fp32": 1}}), TypeError, "unexpected name 'fp32'"),
        (lambda net: Policy.from_json("[1]"), ValueError, "text must be JSON from to_json"),
        (lambda net: nn.utils.run_under(net, Policy({"bodi.1": "tf32"})), ValueError, "did you mean 'body.1'"),
    ],
)
def test_mistakes(net, make, error, sentence):
    with pytest.raises(error, match=sentence):
        make(net)


def test_lines_of_torch():
    everywhere = lab.Policy({"*": "tf32"}).torch().splitlines()
    assert everywhere[1] == 'torch.backends.cuda.matmul.fp32_precision = "tf32"'
    assert not any(line.startswith("#") for line in everywhere)
    assert 'torch.autocast("cuda", torch.bfloat16)' in lab.Policy({"*": "bf16"}).torch()
    apart = POLICY.torch()
    assert "torch computes all gradients under the current flags of backward()" in apart
    compile(apart, "policy", "exec")


def test_policies_that_bind_to_nothing_are_refused(net):
    x = mt.randn(1, 2, 4, 4)
    sentence = r"Policy\(\): no module has a name like 'bodi.1'; did you mean 'body.1'"
    with pytest.raises(ValueError, match=sentence), Policy({"*": "bf16", "bodi.1": "ieee"}):
        net(x)
    sentence = r"no module has a name like 'zzz'; the names are '', 'stem', 'body'"
    with pytest.raises(ValueError, match=sentence), Policy({"zzz": "ieee"}):
        net(x)
    with pytest.warns(UserWarning, match="Policy: the block called no module"), Policy({"*": "bf16"}):
        x @ x
    with Policy({"body.1": "bf16"}):  # matched by one of several models
        nn.ReLU()(net(x))
    with pytest.raises(KeyError, match="of the block"), Policy({"zzz": "ieee"}):
        {"": net(x)}["of the block"]


def test_lines_of_rules_that_torch_lacks_keep_them_apart():
    lines = Policy({"*": "tf32", "body.*": {"tf32_rounding": "rz"}, "head": "bf16"}).torch()
    assert "rules = [\n    ('*', 'tf32'),\n    ('body.*', None),\n    ('head', 'ieee'),\n]" in lines
    assert "# 'head': and rounds results as well; disable it around modules of other rules; without" in lines


def test_recipes_for_onnx():
    names = ["", "conv", "head", "block/MatMul.1"]
    text = Policy({"*": "fp16", "head": "ieee"}).onnx(names)
    assert "node_block_list=['head']" in text
    assert (
        "--fp16 --noTF32 --precisionConstraints=obey --layerPrecisions=conv:fp16,head:fp32,block/MatMul.1:fp16" in text
    )
    assert '"use_tf32": 0' in text
    text = Policy({"*": "tf32", "head": "mxfp4"}).onnx(names)
    assert '"use_tf32": 1' in text
    assert "# neither ONNX Runtime nor TensorRT has mxfp4; these nodes run at float32" in text
    assert "--noTF32" not in text
    compile(text, "policy", "exec")
    text = Policy({"*": "tf32", "head": "ieee"}).onnx(names)
    assert "stays off for the sake of these, and the file is slower:\n#     head\n" in text
    assert '"use_tf32": 0' in text
    with pytest.raises(ValueError, match="no module has a name like 'haed'; did you mean 'head'"):
        Policy({"*": "tf32", "haed": "ieee"}).onnx(names)


def test_a_format_of_operands_set_before_changes_nothing_after(net):
    """Products look for roles from then on, in the rest of the process."""
    with mt.backends.operands.flags(weight="mxfp4"):
        net(mt.randn(1, 2, 4, 4))
    with explain.record() as log:
        with POLICY:
            out = net(mt.randn(1, 2, 4, 4))
        out.sum().backward()
    assert precisions(log) == EXPECTED


NAMES = ["blk.0.attn_q", "blk.0.ffn_up", "blk.1.attn_q", "head"]
FORMATS = Policy({"*": {"operands.weight": "q4_0"}, "blk.1.*": {"operands.weight": "q8_0"}, "head": "ieee"})


def test_formats_as_tools_of_quantization_take_them():
    assert FORMATS.nodes_to_exclude(NAMES) == ["head"]
    assert FORMATS.llama_cpp(NAMES) == [
        r"--tensor-type blk\.0\.attn_q=q4_0", r"--tensor-type blk\.0\.ffn_up=q4_0",
        r"--tensor-type blk\.1\.attn_q=q8_0", "--tensor-type head=f32",
    ]  # fmt: skip
    layer, takes = nn.Linear(2, 2), FORMATS.filter("q4_0")
    assert [takes(layer, name) for name in NAMES] == [True, True, False, False]
    assert not takes(nn.ReLU(), "blk.0.attn_q")
    with pytest.raises(ValueError, match=r"llama\.cpp has no 'nvfp4', of 'head'; audit q4_0"):
        Policy({"*": {"operands.weight": "nvfp4"}}).llama_cpp(["head"])
    with pytest.raises(ValueError, match="no module has a name like '9'"):
        Policy({"9": "ieee"}).nodes_to_exclude(NAMES)
