"""The laboratory on torch's models and functions, inside and outside of the bridge."""

import contextlib
import functools
from fnmatch import fnmatchcase

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minitorch_backends import explain, lab
from minitorch_backends.interop.torch import emulate
from minitorch_backends.lab import Policy
from minitorch_backends.nn.utils import run_under


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8)).eval()


def test_an_audit_of_a_torch_model_needs_no_block(model, tmp_path):
    x, other = torch.randn(16, 32), torch.randn(16, 32)
    found = lab.audit(model, x, ("tf32", "bf16"), budget=1e-3)
    with torch.no_grad(), emulate():
        inside = lab.audit(model, x, ("tf32", "bf16"), budget=1e-3)
        measured = inside.measure_on(other)
    assert inside.rows == found.rows
    assert inside.policy == found.policy
    assert measured == found.measure_on(other) == inside.measure_on(other)
    assert measured["error"] > 0
    assert all(point.measured > 0 for point in inside.frontier()[1:] if point.measured is not None)
    inside.report(tmp_path / "audit.html")
    assert "0.000" not in str(inside.frontier()).split("\n", 2)[2]


def test_products_of_torch_itself_are_named():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self, x):
            return self.layer(x) + (x.double() @ x.double().mT).sum()

    found = lab.audit(Model().eval(), torch.randn(4, 4), "bf16")
    assert "1 did not: 1 aten.mm.default of torch (no flag acts on products of torch.float64)" in found.summary()


def test_outputs_of_half_types():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = torch.nn.Linear(16, 16), torch.nn.Linear(16, 4)

        def forward(self, x):
            x = self.first(x)
            with torch.autocast("cpu", torch.bfloat16):
                return self.last(x), x.mH

    assert lab.audit(Model().eval(), torch.randn(2, 16), "tf32").whole("tf32")["error"] > 0
    with pytest.raises(ValueError, match="precisions affect nothing in this Linear: no product obeyed precision flags"):
        lab.audit(torch.nn.Linear(4, 4).double(), torch.ones(1, 4).double(), "tf32")


def products(n, seed, inside=False):
    a = torch.randn(n, n, generator=torch.Generator().manual_seed(seed))
    with emulate() if inside else contextlib.nullcontext():
        return torch.einsum("ij,jk->ik", a, a.float()), {"drawn": torch.randn(3)}


MODEL = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.LSTM(16, 4, batch_first=True))


def gradient_of_model(n, seed):
    torch.manual_seed(seed)
    x = torch.randn(2, n, 16, requires_grad=True)
    out, _ = MODEL(x)
    return torch.autograd.grad(out.square().sum(), x)[0].numpy()


@pytest.mark.parametrize("inside", [False, True])
def test_functions_of_torch_run_in_the_bridge_and_have_a_reference(inside):
    flags = {"fp32_precision": ["ieee", "tf32", "bf16"]}
    rows = lab.sweep(products, over={"n": [32], "inside": [inside]}, flags=flags, repeats=1).rows
    assert [row["exception"] for row in rows] == [None] * 3
    errors = [row["error"] for row in rows]
    assert 1e-9 < errors[0] < 1e-6
    assert 1e-5 < errors[1] < errors[2] < 1e-2
    assert [row["products"] for row in rows] == [{"obeyed": 1}] * 3
    assert {row["reference"] for row in rows} == {"float64"}


def test_models_and_gradients_of_torch_have_a_reference():
    rows = lab.sweep(gradient_of_model, over={"n": [5]}, flags={"fp32_precision": ["ieee", "bf16"]}, repeats=0).rows
    assert [row["exception"] for row in rows] == [None, None]
    assert 0 < rows[0]["error"] < 1e-6 < 1e-4 < rows[1]["error"]


def test_a_reference_that_cannot_be_had_is_an_error():
    held = torch.zeros(4, 4)

    def writes(n):
        return held.copy_(torch.ones(n, n) @ torch.ones(n, n))

    (row,) = lab.sweep(writes, over={"n": [4]}, repeats=0).rows
    assert "copy_ writes into a float32 tensor that was made outside of the function" in row["exception"]


@pytest.mark.filterwarnings("ignore:Using `torch.compile:UserWarning")
def test_policies_bind_to_wrapped_models(model):
    x, inside = torch.randn(4, 32), torch.nn.Sequential(torch.compile(model, backend="eager"))
    for each, prefix in (
        (torch.compile(model, backend="eager"), ""),
        (torch.nn.DataParallel(model), ""),
        (inside, "0."),
    ):
        own = Policy({"*": "bf16", f"{prefix}2": "ieee"})
        with torch.no_grad(), emulate(), own, explain.record() as log:
            each(x)
        assert [(call.module, call.precision) for call in log] == [(f"{prefix}0", "bf16"), (f"{prefix}2", "ieee")]
        with torch.no_grad(), emulate(), run_under(each, own), explain.record() as log:
            each(x)
        assert [call.precision for call in log] == ["bf16", "ieee"]
    assert lab.audit(torch.compile(model, backend="eager"), x, "bf16").policy == lab.audit(model, x, "bf16").policy


def test_a_policy_outside_of_the_bridge_warns(model):
    with pytest.warns(UserWarning, match="models of torch run inside interop.torch.emulate"), Policy({"*": "bf16"}):
        model(torch.randn(1, 32))


def tree_of(shape):
    """A tree of modules: an integer is a linear layer, a list a Sequential."""
    return torch.nn.Linear(2, 2) if isinstance(shape, int) else torch.nn.Sequential(*map(tree_of, shape))


NAMES = st.sampled_from(["*", "", "0", "1", "0.*", "1.*", "*.0", "*.1", "?.0", "[01]", "1.0", "0.1.0"])
RULES = st.sampled_from(["ieee", "tf32", {"fp32_precision": "tf32"}, {}])
SHAPES = st.recursive(st.just(0), lambda inner: st.lists(inner, min_size=1, max_size=3), max_leaves=6)


@pytest.mark.filterwarnings("ignore:Policy. its precisions changed nothing")  # of rules for modules without products
@settings(max_examples=60, deadline=None)
@given(st.lists(SHAPES, min_size=1, max_size=3), st.lists(st.tuples(NAMES, RULES), min_size=1, max_size=4))
def test_a_policy_says_the_same_in_each_form(shape, rules):
    """As a scope, by run_under, from JSON, and as torch's lines: the precision of each linear layer."""
    model, x = tree_of(shape), torch.ones(1, 2)
    names = [name for name, _ in model.named_modules()]
    policy = Policy([(name, rule) for name, rule in rules if any(fnmatchcase(each, name) for each in names)])
    again = Policy.from_json(policy.to_json())
    found = []
    for scope, handle in ((policy, None), (again, None), (None, policy), (None, again)):
        applied = run_under(model, handle) if handle else contextlib.nullcontext()
        with torch.no_grad(), emulate(), explain.record() as log, scope or contextlib.nullcontext(), applied:
            model(x)
        found.append({call.module: call.precision for call in log})
    flags, seen = (torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn), {}
    before = [each.fp32_precision for each in flags]
    try:
        flags[0].fp32_precision = "ieee"
        exec(policy.torch(), {"model": model})
        for name, each in model.named_modules():
            if isinstance(each, torch.nn.Linear):
                note = functools.partial(lambda name, *_: seen.update({name: flags[0].fp32_precision}), name)
                each.register_forward_hook(note, prepend=True)
        model(x)
    finally:
        for each, value in zip(flags, before, strict=True):
            each.fp32_precision = value
    assert found == [seen] * 4


def test_runs_of_torch_part_at_the_module_that_differs(tmp_path):
    torch.manual_seed(0)
    model, x = (
        torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2)),
        torch.randn(4, 8),
    )
    for name, change in (("a", 0.0), ("b", 0.25)):
        with torch.no_grad(), emulate(), lab.capture(tmp_path / f"{name}.run"):
            model[1].bias += change
            model(x)
    assert lab.first_divergence(tmp_path / "a.run", tmp_path / "b.run").module == "1"
