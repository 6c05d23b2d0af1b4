"""Policies, records and audits on scripted, traced and exported models: the parts have the names of the modules."""

import io

import pytest
import torch

from minitorch_backends import explain, lab
from minitorch_backends.interop.torch import emulate
from minitorch_backends.lab import Policy
from minitorch_backends.nn.utils import run_under

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
]


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.act = torch.nn.Linear(8, 8), torch.nn.ReLU()

    def forward(self, x):
        return self.act(self.fc(x)) @ x.mT @ x


class Model(torch.nn.Module):
    """Parts that run twice, products of a block's own, and a part that a list holds."""

    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(), Block()])
        self.shared, self.head = torch.nn.Linear(8, 8), torch.nn.Linear(8, 2)

    def forward(self, x):
        for block in self.blocks:
            x = self.shared(block(x))
        return self.head(x)


def save_and_load(module):
    file = io.BytesIO()
    torch.jit.save(module, file)
    file.seek(0)
    return torch.jit.load(file)


PROGRAMS = {
    "scripted": lambda model, x: torch.jit.script(model),
    "scripted and run": lambda model, x: [each := torch.jit.script(model), each(x), each(x)][0],
    "loaded": lambda model, x: save_and_load(torch.jit.script(model)),
    "traced": torch.jit.trace,
    "exported": lambda model, x: torch.export.export(model, (x,)).module(),
    "strict": lambda model, x: torch.export.export(model, (x,), strict=True).module(),
    "symbolic": lambda model, x: torch.fx.symbolic_trace(model),
}
POLICY = Policy({"*": "bf16", "blocks.1*": "tf32", "*fc": "ieee", "head": "tf32x3"})


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return Model().eval()


def calls_of(run):
    with emulate(), explain.record() as log:
        answer = run()
    return [(each.module, each.precision, each.direction) for each in log], answer


@pytest.fixture(params=PROGRAMS, scope="module")
def program(request, model):
    return PROGRAMS[request.param](model, torch.randn(4, 8))


@pytest.mark.parametrize("prefix", ["", "0."])
def test_parts_run_as_the_modules_do(program, prefix, model):
    x = torch.randn(4, 8)
    policy = Policy({glob if glob == "*" else f"{prefix}{glob}": rule for glob, rule in POLICY.rules.items()})
    original, made = (torch.nn.Sequential(each) if prefix else each for each in (model, program))

    def within(each):
        with policy:
            return each(x)

    def under(each):
        with run_under(each, policy):
            return each(x)

    wanted, answer = calls_of(lambda: within(original))
    assert {precision for _, precision, _ in wanted} == {"ieee", "tf32", "bf16", "tf32x3"}
    for run in (within, under):
        found, other = calls_of(lambda run=run: run(made))
        assert found == wanted
        assert torch.equal(answer, other)
    assert calls_of(lambda: made(x))[0] == calls_of(lambda: original(x))[0]  # nothing stays behind


def test_gradients_are_those_of_the_parts(program, model):
    x = torch.randn(4, 8)

    def backward(each):
        each.zero_grad() if each is model else [setattr(p, "grad", None) for p in each.parameters()]
        with Policy({"*": "tf32", "head": "bf16"}):
            each(x).square().sum().backward()
        return [p.grad for p in each.parameters()]

    wanted, gradients = calls_of(lambda: backward(model))
    found, own = calls_of(lambda: backward(program))
    assert sorted(map(str, found)) == sorted(map(str, wanted))
    assert all(torch.equal(a, b) for a, b in zip(gradients, own, strict=True))


def test_a_program_reads_its_parameters_as_they_are(program):
    x = torch.randn(4, 8)
    with torch.no_grad(), emulate(), Policy({"*": "ieee"}):
        before = program(x)
        parameter = next(each for each in program.parameters() if each.shape == (2,))
        parameter.add_(1)
        assert torch.allclose(program(x), before + 1, atol=1e-5)
        parameter.sub_(1)


def test_names_that_a_program_lacks(program):
    with pytest.raises(ValueError, match="no module has a name like '9'"):
        run_under(program, Policy({"9": "bf16"}))
    with emulate(), pytest.raises(ValueError, match="no module has a name like '9'"), Policy({"9": "bf16"}):
        program(torch.randn(4, 8))


def test_an_error_in_a_part_leaves_every_scope(program):
    with torch.no_grad(), emulate(), explain.record() as log:
        with pytest.raises((RuntimeError, AssertionError)), POLICY:
            program(torch.randn(4, 7))
        torch.randn(3, 3) @ torch.randn(3, 3)
    assert (log[-1].module, log[-1].precision) == (None, "ieee")


def test_audits_of_programs(program, model):
    x = torch.randn(4, 8)
    assert lab.audit(program, x, "bf16", budget=1e-2).policy == lab.audit(model, x, "bf16", budget=1e-2).policy
    with torch.no_grad(), emulate():
        found, expected = explain.sensitivity(program, x), explain.sensitivity(model, x)
    near = [each._replace(error=pytest.approx(each.error, rel=1e-5)) for each in expected]
    assert found == near  # TorchScript fuses what lies between products, and rounds it otherwise in the last bit


def test_a_program_without_names_is_refused(model):
    x = torch.randn(4, 8)
    exported = torch.export.export(model, (x,)).module()
    for node in exported.graph.nodes:
        node.meta.pop("nn_module_stack", None)
    for each in (exported, torch.nn.Sequential(exported)):
        with pytest.raises(ValueError, match=r"the parts of a model must be called, got .*Module.* as one program"):
            run_under(each, POLICY)
    with torch.no_grad(), emulate():
        with pytest.raises(ValueError, match="apply it to the module from which this one was made"), POLICY:
            exported(x)
        with Policy({"*": "bf16"}), explain.record() as log:  # which needs no names
            exported(x)
    assert {each.precision for each in log} == {"bf16"}
    frozen = torch.jit.freeze(torch.jit.script(model))
    with pytest.raises(ValueError, match="no module has a name like"):
        run_under(frozen, POLICY)
