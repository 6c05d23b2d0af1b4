"""Products of torch's tensors inside `interop.torch.emulate` are those of ours over the same arrays, to the bit."""

import importlib
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import lab
from minitorch_backends.backends import precision_policy
from minitorch_backends.interop.torch import LeftProductWarning, emulate, memory, weights
from minitorch_backends.interop.torch.memory import to_ours, to_torch
from minitorch_backends.nn import functional as F
from minitorch_backends.ops.conv import packed as conv
from minitorch_backends.ops.matmul import linear

from ..support.processes import python

torch = pytest.importorskip("torch")
TF = torch.nn.functional


class Case(NamedTuple):
    """Two functions of the same arguments, their shapes, and how many of them are operands of products: gradients of
    the others, biases and what is added, are sums that torch makes."""

    theirs: Callable[..., Any]
    ours: Callable[..., Any]
    shapes: tuple
    operands: int = 2
    types: str = "fch"
    """float32, complex64 and the half types that the test runs."""


def _same(name: str, *shapes: tuple, **options: Any) -> Case:
    return Case(getattr(torch, name), getattr(mt, name), shapes, **options)


def _functional(name: str, *shapes: tuple, args: tuple = (), **options: Any) -> Case:
    theirs, ours = getattr(TF, name), getattr(F, name)
    return Case(lambda *x: theirs(*x, *args), lambda *x: ours(*x, *args), shapes, **options)


CASES = {
    "mm": _same("mm", (5, 7), (7, 3)),
    "mm, no sum": _same("mm", (5, 0), (0, 3)),
    "mm, no rows": _same("mm", (0, 7), (7, 3)),
    "bmm": _same("bmm", (2, 5, 7), (2, 7, 3)),
    "mv": _same("mv", (5, 7), (7,), operands=0),
    "dot": _same("dot", (7,), (7,), operands=0),
    "addmm": Case(
        lambda a, b, c: torch.addmm(c, a, b, beta=0.5, alpha=2),
        lambda a, b, c: mt.addmm(c, a, b, beta=0.5, alpha=2),
        ((5, 7), (7, 3), (3,)),
        operands=0,
    ),
    "baddbmm": Case(
        lambda a, b, c: torch.baddbmm(c, a, b), lambda a, b, c: mt.baddbmm(c, a, b), ((2, 5, 7), (2, 7, 3), (2, 5, 3))
    ),
    "linear": _functional("linear", (5, 7), (3, 7), (3,)),
    "conv1d": _functional("conv1d", (2, 4, 9), (6, 2, 3), args=(None, 2, 1, 1, 2), types="fh"),
    "conv2d": _functional("conv2d", (2, 4, 9, 8), (6, 4, 3, 3), (6,), args=(1, 1), types="fh"),
    "conv3d": _functional("conv3d", (1, 2, 5, 4, 3), (3, 2, 2, 2, 2), types="fh"),
    "conv_transpose2d": _functional("conv_transpose2d", (2, 4, 5, 4), (4, 3, 3, 3), args=(None, 2, 1, 1), types="fh"),
    "attention": _functional(
        "scaled_dot_product_attention", *[(2, 3, 9, 8)] * 3, args=(None, 0.0, True), operands=3, types="fh"
    ),
    "attention of 3 dimensions": _functional("scaled_dot_product_attention", *[(3, 9, 8)] * 3, operands=3, types="f"),
    "einsum of three": Case(
        lambda *x: torch.einsum("ij,jk,kl->il", *x),
        lambda *x: mt.einsum("ij,jk,kl->il", *x),
        ((4, 5), (5, 6), (6, 3)),
        operands=3,
    ),
    "inv": Case(torch.linalg.inv, mt.linalg.inv, ((5, 5),), operands=0, types="f"),
    "solve": Case(torch.linalg.solve, mt.linalg.solve, ((5, 5), (5, 2)), operands=0, types="f"),
    "qr": Case(lambda a: torch.linalg.qr(a)[1], lambda a: mt.linalg.qr(a)[1], ((5, 4),), operands=0, types="fc"),
    "det": Case(torch.linalg.det, mt.linalg.det, ((2, 5, 5),), operands=0, types="f"),
}

LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "contiguous": lambda a: a,
    "transposed": lambda a: a.mT.contiguous().mT if a.ndim > 1 else a,
    "stepped": lambda a: torch.stack([a, a], -1)[..., 0],
    "offset": lambda a: torch.cat([a[:1], a])[len(a[:1]) :],
    "expanded": lambda a: a[:1].expand(a.shape),
    "conjugate": lambda a: a.conj(),
}
TYPES = {
    "f": {torch.float32: ("ieee", "tf32", "bf16", "bf16x3", "fp16")},
    "c": {torch.complex64: ("ieee", "tf32")},
    "h": {torch.bfloat16: ("ieee",), torch.float16: ("ieee",)},
}


def _array(seed: int, shape: tuple, dtype: Any) -> Any:
    wide = torch.complex64 if dtype.is_complex else torch.float32
    return torch.randn(shape, dtype=wide, generator=torch.Generator().manual_seed(seed)).to(dtype)


def _calls(case: Case) -> list[tuple[Any, str, str]]:
    return [
        (dtype, precision, layout)
        for kind in case.types
        for dtype, precisions in TYPES[kind].items()
        for precision in precisions
        for layout in LAYOUTS
        if (layout == "conjugate") <= dtype.is_complex and (layout == "expanded") <= (case.shapes[0][0] > 0)
    ]


@pytest.mark.parametrize("name", CASES)
def test_products_are_ours_to_the_bit(name: str) -> None:
    case = CASES[name]
    for dtype, precision, layout in _calls(case):
        if layout == "expanded" and name in ("inv", "solve", "qr", "det"):
            continue  # of rank one
        tensors = [LAYOUTS[layout](_array(seed, shape, dtype)) for seed, shape in enumerate(case.shapes)]
        with emulate(fp32_precision=precision) as mode:
            leaves = [each.detach().requires_grad_() for each in tensors]
            out = case.theirs(*leaves)
            g = _array(9, out.shape, out.dtype)
            grads = torch.autograd.grad(out, leaves, g)
            with torch.no_grad():
                found = [out, case.theirs(*tensors), *grads[: case.operands]]
        with mt.backends.flags(fp32_precision=precision):
            ours = [to_ours(each).requires_grad_() for each in tensors]
            wanted = case.ours(*ours)
            of_ours = mt.autograd.grad(wanted, ours, to_ours(g))
            with mt.no_grad():
                without = case.ours(*ours)
        assert mode.left == []
        for one, other in zip(found, (wanted, without, *of_ours), strict=False):
            result, expected = one.detach(), to_torch(other.detach())
            if one is not out and (precision == "bf16x3" or dtype.is_complex):
                # torch computes gradients of some layouts transposed, in which these sums have another order.
                largest = expected.abs().max().item() if expected.numel() else 0.0
                torch.testing.assert_close(result, expected, rtol=0, atol=3e-6 * largest)
            else:
                assert torch.equal(result, expected), (name, dtype, precision, layout)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_recurrent_layers_are_ours_to_the_bit(kind: str) -> None:
    theirs = getattr(torch.nn, kind)(5, 6, 2, batch_first=True, bidirectional=True)
    ours = getattr(mt.nn, kind)(5, 6, 2, batch_first=True, bidirectional=True)
    ours.load_state_dict({name: to_ours(each) for name, each in theirs.state_dict().items()})
    x = _array(0, (3, 7, 5), torch.float32)
    with emulate(**{"cudnn.rnn.fp32_precision": "tf32"}), mt.explain.record() as log:
        theirs(x)[0].square().sum().backward()
        ours(to_ours(x))[0].square().sum().backward()
    assert {each.precision for each in log if each.kernel in ("recurrence", "matmul")} == {"tf32"}
    for name, parameter in theirs.named_parameters():
        found = parameter.grad.numpy()
        np.testing.assert_allclose(found, ours.get_parameter(name).grad.numpy(), rtol=0, atol=1e-6 * abs(found).max())


def test_packed_sequences_are_those_of_each_length() -> None:
    layer = torch.nn.GRU(5, 6, bidirectional=True)
    sequences = [_array(seed, (length, 5), torch.float32) for seed, length in enumerate((4, 2, 1))]
    with emulate() as mode, torch.no_grad():
        out, last = layer(torch.nn.utils.rnn.pack_sequence(sequences))
        padded, lengths = torch.nn.utils.rnn.pad_packed_sequence(out)
        for place, each in enumerate(sequences):
            alone, end = layer(each)
            torch.testing.assert_close(padded[: lengths[place], place], alone)
            torch.testing.assert_close(last[:, place], end)
    assert mode.ran == {"torch.gru": 4}


def test_in_place_and_out_forms_write_where_they_should() -> None:
    a, b, c = (_array(seed, (4, 4), torch.float32) for seed in range(3))
    with emulate(fp32_precision="bf16") as mode:
        wanted = torch.mm(a, b), torch.addmm(c, a, b)
        out, written = torch.empty(4, 4), c.clone()
        assert torch.mm(a, b, out=out) is out
        assert written.addmm_(a, b) is written
    assert torch.equal(out, wanted[0])
    assert torch.equal(written, wanted[1])
    assert mode.ran == {"aten.mm.default": 1, "aten.addmm.default": 1, "aten.mm.out": 1, "aten.addmm_.default": 1}


def test_operands_share_memory_with_ours_and_results_have_their_own() -> None:
    x = _array(0, (3, 4), torch.bfloat16)
    ours = to_ours(x[:, 1:])
    ours[0, 0] = 7
    assert x[0, 1] == 7
    assert torch.equal(to_torch(ours), x[:, 1:])
    assert to_torch(ours).data_ptr() != x[:, 1:].data_ptr()
    for n in (8, 300):  # the second is computed in memory that torch allocates
        with emulate():
            results = [_array(1, (n, n), torch.float32) @ _array(2, (n, n), torch.float32) for _ in range(3)]
        assert len({each.untyped_storage().data_ptr() for each in results}) == 3
        assert results[0].resize_(2 * n, n).shape == (2 * n, n)
        assert torch.equal(results[0][:n], results[1])


def test_what_torch_computes_itself_is_listed_and_warned_of() -> None:
    a, scope = torch.eye(3), emulate()
    mode = scope.__enter__()
    torch.mm(a.to_sparse(), a)
    torch.mm(a.double(), a.double())
    with pytest.warns(LeftProductWarning, match=r"mm.*sparse"):
        scope.__exit__(None, None, None)
    assert [(each.op, each.count) for each in mode.left] == [("aten.mm.default", 1)] * 2
    assert "float64" in mode.left[1].why


def test_threads_that_start_inside_compute_here_and_others_do_not() -> None:
    a, b = (_array(seed, (8, 8), torch.float32) for seed in range(2))
    exact = a @ b
    started, go, end = threading.Event(), threading.Event(), threading.Event()
    found: dict[str, Any] = {}

    class Inside(threading.Thread):
        def run(self) -> None:
            found["inside"] = a @ b
            started.set()
            end.wait()
            found["after the block"] = a @ b

    def before() -> None:
        go.wait()
        found["before"] = a @ b

    early, start = threading.Thread(target=before), threading.Thread.start
    early.start()
    with emulate(fp32_precision="bf16") as mode:
        inside = Inside()
        inside.start()
        started.wait()
        go.set()
        early.join()
        found["block"] = a @ b
    end.set()
    inside.join()
    assert torch.equal(found["inside"], found["block"])
    assert not torch.equal(found["inside"], exact)
    assert torch.equal(found["before"], exact)
    assert torch.equal(found["after the block"], exact)
    assert mode.products[0].calls == 2
    assert threading.Thread.start is start


def test_records_have_the_names_of_torchs_modules() -> None:
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    model = torch.nn.Sequential(layer, torch.nn.Linear(8, 3))
    x = _array(0, (2, 5, 8), torch.float32)
    with emulate(), mt.explain.record() as log:
        model(x).sum().backward()
    forward = ["0.self_attn"] * 3 + ["0.linear1", "0.linear2", "1"]
    assert [each.module for each in log if each.direction == "forward"] == forward
    backward = [each.module for each in log if each.direction == "backward"]
    assert list(dict.fromkeys(backward)) == ["1", "0.linear2", "0.linear1", "0.self_attn"]
    with emulate():
        found = mt.explain.sensitivity(model.eval(), x, precisions="bf16")
    assert [each.module for each in found] == ["0.self_attn", "0.linear1", "0.linear2", "1", None]
    assert all(1e-4 < each.local < 1e-2 for each in found)


def test_audits_captures_and_policies_take_torchs_modules(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    x = _array(0, (5, 8), torch.float32)
    with emulate():
        audit = lab.audit(model, x, "bf16")
        assert [(row["module"], row["product"]) for row in audit.rows] == [
            (name, "forward") for name in (None, "0", "2")
        ]
        with lab.Policy({"*": "bf16", "2": "ieee"}), lab.capture(tmp_path / "a.run") as log:
            model(x)
    products = [(each.module, each.precision) for each in log if each.kernel == "matmul"]
    assert products == [("0", "bf16"), ("2", "ieee")]
    assert [each.module for each in log if each.kernel == "output"] == ["0", "1", "2"]


def test_gradients_keep_the_precision_of_the_forward_pass_where_flags_ask_for_it() -> None:
    a, b = (_array(seed, (8, 8), torch.float32).requires_grad_() for seed in range(2))
    for setting, wanted in (("recorded", "tf32"), ("bf16", "bf16"), ("live", "ieee")):
        with emulate(backward_precision=setting), mt.explain.record() as log:
            with mt.backends.flags(fp32_precision="tf32"):
                out = a @ b
            out.sum().backward()
        assert [each.precision for each in log] == ["tf32", wanted, wanted]


class _Parts(torch.nn.Module):
    """A convolution, a recurrence and a product."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.rnn, self.head = torch.nn.Conv1d(3, 8, 3), torch.nn.LSTM(8, 8), torch.nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        return self.head(self.rnn(self.conv(x).permute(2, 0, 1))[0])


class _OurParts(mt.nn.Module):
    def __init__(self) -> None:
        self.conv, self.rnn, self.head = mt.nn.Conv1d(3, 8, 3), mt.nn.LSTM(8, 8), mt.nn.Linear(8, 4)

    forward = _Parts.forward


@pytest.mark.parametrize(("input", "weight"), [("bf16", "tf32"), ("tf32", None), (None, "bf16")])
def test_rules_of_gradients_hold_as_for_our_own_modules(input: str | None, weight: str | None) -> None:
    theirs, ours = _Parts(), _OurParts()
    ours.load_state_dict(theirs.state_dict())
    x = _array(3, (2, 3, 9), torch.float32)
    policy = lab.Policy({"*": lab.Rule({}, input, weight), "head": "ieee"})
    found = []
    for model, given, scope in ((theirs, x.clone().requires_grad_(), emulate), (ours, mt.as_tensor(x), nullcontext)):
        given.requires_grad_()
        with scope(), mt.explain.record() as log, policy:
            model(given).sum().backward()
        kinds = sorted((each.module, each.kernel, each.precision) for each in log if each.direction == "backward")
        found.append((kinds, given.grad.numpy(), [each.grad.numpy() for each in model.parameters()]))
    assert found[0][0] == found[1][0]
    assert {input or "ieee", weight or "ieee"} == {each[2] for each in found[0][0] if each[0] == "conv"}
    assert np.array_equal(found[0][1], found[1][1])
    for one, other in zip(found[0][2], found[1][2], strict=True):
        np.testing.assert_array_equal(one, other)


def test_transforms_and_compiled_functions_run_here() -> None:
    a, b, c = (_array(seed, (3, 4, 4), torch.float32) for seed in range(3))
    linear = torch.nn.Linear(4, 4)
    layer = torch.nn.LSTM(4, 4)

    def chain(*x: Any) -> Any:
        return torch.einsum("ij,jk,kl->il", *x)

    with emulate(fp32_precision="bf16") as mode:
        assert torch.equal(torch.func.vmap(torch.mm)(a, b), torch.bmm(a, b))
        assert torch.equal(torch.func.vmap(chain)(a, b, c)[1], chain(a[1], b[1], c[1]))
        leaf = a[0].clone().requires_grad_()
        chain(leaf, b[0], c[0]).sum().backward()
        assert torch.equal(torch.func.grad(lambda x: chain(x, b[0], c[0]).sum())(a[0]), leaf.grad)
        assert torch.equal(torch.compile(linear, backend="eager")(a), linear(a))
        x, y = (a.clone().requires_grad_() for _ in range(2))
        layer(x)[0].sum().backward()
        torch.utils.checkpoint.checkpoint(lambda z: layer(z)[0], y, use_reentrant=False).sum().backward()
        torch.testing.assert_close(x.grad, y.grad)
        with torch.autocast("cpu", torch.bfloat16), mt.explain.record() as log:
            assert linear(a).dtype is torch.bfloat16
        assert [each.kernel for each in log] == ["matmul"]
        with torch.inference_mode():
            assert torch.equal(linear(a[0]), linear(a[0].clone()))
    assert mode.left == []


def _strides(x: torch.Tensor) -> list[int]:
    return [step for step, length in zip(x.stride(), x.shape, strict=True) if length > 1]


_ATTENTION: dict[str, tuple[list[tuple[int, ...]], dict[str, Any]]] = {
    "batches": ([(2, 3, 5, 8), (2, 3, 6, 8), (2, 3, 6, 8)], {}),
    "three dimensions": ([(3, 6, 8), (3, 6, 8), (3, 6, 8)], {"is_causal": True}),
    "broadcast query": ([(4, 3, 8), (4, 4, 6, 8), (4, 4, 6, 8)], {}),
    "broadcast keys": ([(4, 4, 3, 8), (4, 1, 6, 8), (4, 1, 6, 8)], {}),
    "wide values": ([(2, 3, 5, 8), (2, 3, 6, 8), (2, 3, 6, 16)], {}),
    "shared heads": ([(2, 4, 5, 8), (2, 2, 6, 8), (2, 2, 6, 8)], {"enable_gqa": True}),
}


@pytest.mark.parametrize("case", _ATTENTION)
@pytest.mark.parametrize("heads_last", [False, True])
@pytest.mark.parametrize("mask", [False, True])
def test_attention_has_strides_of_torch(case: str, heads_last: bool, mask: bool) -> None:
    """Of the output and of each gradient, also where these are differentiated again; a mask that needs a gradient
    leads to another kernel of torch."""
    shapes, options = _ATTENTION[case]
    tensors = [_array(seed, shape, torch.float32) for seed, shape in enumerate(shapes)]
    if heads_last:
        tensors = [x.transpose(-3, -2).contiguous().transpose(-3, -2) for x in tensors]
    tensors += (
        [_array(9, (shapes[0][-2], shapes[1][-2]), torch.float32)] if mask and not options.get("is_causal") else []
    )

    def compute(create: bool) -> list[torch.Tensor]:
        leaves = [x.detach().requires_grad_() for x in tensors]
        out = torch.nn.functional.scaled_dot_product_attention(*leaves, **options)
        return [out, *torch.autograd.grad(out, leaves, torch.ones_like(out), create_graph=create)]

    wanted = compute(False)
    with emulate():
        found, twice = compute(False), compute(True)
    assert [*map(_strides, found)] == [*map(_strides, twice)] == [*map(_strides, wanted)]
    for each, again, other in zip(found, twice, wanted, strict=True):
        torch.testing.assert_close(each, other, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(again, other, rtol=1e-4, atol=1e-5)


def test_systems_with_a_conjugate_transpose_have_strides_of_torch() -> None:
    """torch reads an adjoint of rows in place, and then keeps the layout of B."""
    A, B = _array(0, (4, 4), torch.complex64).tril() + 4 * torch.eye(4), _array(1, (4, 3), torch.complex64)
    solve = torch.linalg.solve_triangular
    calls = [lambda: solve(A.mH, B, upper=True), lambda: solve(A, B, upper=False)]
    with emulate():
        found = [call() for call in calls]
    for each, call in zip(found, calls, strict=True):
        torch.testing.assert_close(each, call())
        assert each.stride() == call().stride()


def test_einsum_of_several_operands_is_differentiated_twice() -> None:
    operands = [_array(seed, (3, 3), torch.float64) for seed in range(3)]

    def chain(*x: Any) -> Any:
        return torch.einsum("ij,jk,kl->il", *(each.float() for each in x)).double()

    with emulate():
        leaves = [each.requires_grad_() for each in operands]
        assert torch.autograd.gradgradcheck(chain, leaves, eps=1e-2, atol=1e-2)


def test_threads_that_outlive_a_block_leave_nothing_of_it_to_others() -> None:
    """Of a user's pool, and of our own, which starts with the first kernel that needs it."""
    code = """
import concurrent.futures, threading
import torch
import torch._dynamo
import minitorch_backends as mt
from minitorch_backends.interop.torch import emulate

mt.set_num_threads(2)  # as there may be one core

def state():
    overrides = torch.overrides.has_torch_function, threading.Thread.start, torch._C.ScriptMethod.__call__
    return torch._dynamo.eval_frame._stance.stance, *overrides

before, big = state(), torch.ones(600, 600)
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    with emulate(fp32_precision="bf16") as mode:
        found = pool.submit(torch.mm, big + 2**-12, big).result()
        torch.linalg.inv(torch.eye(300))
        assert state()[0] == "force_eager"
    assert found[0, 0] == 600 and torch.mm(big + 2**-12, big)[0, 0] > 600.1
    assert pool.submit(torch.mm, big + 2**-12, big).result()[0, 0] > 600.1
    assert state() == before
    print(*sorted(each.name.partition("-")[0] for each in threading.enumerate()))
"""
    printed = python(code)
    assert not printed.error
    assert "minitorch" in printed.out


def test_errors_of_linear_algebra_are_torchs() -> None:
    with emulate(), pytest.raises(torch.linalg.LinAlgError):
        torch.linalg.inv(torch.zeros(2, 2))
    with emulate(), pytest.raises(RuntimeError, match="dtype"):
        torch.mm(torch.eye(2), torch.eye(2).double())


def test_code_compiled_by_inductor_is_refused() -> None:
    """By the class that runs it, which torch loads with the compiler."""
    package = importlib.import_module("torch.export.pt2_archive._package")

    class Compiled(package.AOTICompiledModel):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            self.loader = self

        def run(self, inputs: Any) -> Any:
            return inputs

        def get_call_spec(self) -> Any:
            raise NotImplementedError("it ran")

    before = package.AOTICompiledModel.__call__
    refused = pytest.raises(RuntimeError, match=r"models must not be compiled by inductor, got a call of Compiled")
    with emulate(), emulate(), refused:
        Compiled()(torch.ones(2))
    assert package.AOTICompiledModel.__call__ is before


_WRITES: dict[str, Callable[[Any], Any]] = {
    "in place": lambda weight: weight.mul_(2),
    "through data": lambda weight: weight.data.mul_(2),
    "of several": lambda weight: torch._foreach_mul_([weight.data], 2.0),
    "out": lambda weight: torch.mul(weight.data, 2, out=weight.data),
    "of a view": lambda weight: weight.data[3:40].t().mul_(2),
    "by NumPy": lambda weight: np.multiply(weight.detach().numpy(), 2, out=weight.detach().numpy()),
    "other memory": lambda weight: setattr(weight, "data", weight.data * 2),
}


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A number for each weight that is packed; all products that may gain by it do."""
    found: list[int] = []
    monkeypatch.setattr(precision_policy, "by_role", True)  # formats by role were used in this process
    keep = linear.Kept
    monkeypatch.setattr(linear, "Kept", lambda *args, **named: found.append(1) or keep(*args, **named))
    for module in (weights, linear):
        monkeypatch.setattr(module, "gains_by_keeping", lambda *specs, **keywords: True)
    return found


@pytest.mark.parametrize("by_role", [False, True])
@pytest.mark.parametrize("shape", [(), (5,), (1, 5), (3, 5), (2, 3, 5)], ids=str)
def test_a_layer_without_gradients_takes_every_bias_again(shape: tuple, by_role: bool, monkeypatch: Any) -> None:
    monkeypatch.setattr(precision_policy, "by_role", by_role)  # as after a format in this process
    x, weight, bias = torch.randn(2, 3, 4), torch.randn(5, 4), torch.randn(shape)
    with torch.no_grad(), emulate() as mode:
        found = [torch.nn.functional.linear(x, weight, bias) for _ in range(3)]
    for each in found:
        torch.testing.assert_close(each, torch.nn.functional.linear(x, weight, bias))
    assert mode.ran["torch.linear"] == 3


@pytest.mark.parametrize("evaluating", [torch.no_grad, torch.inference_mode])
def test_gradients_after_an_evaluation_take_no_form_of_it(packed: list[int], evaluating: Any, monkeypatch: Any) -> None:
    """A square weight and its transpose have one shape."""
    monkeypatch.setattr(precision_policy, "by_role", False)
    layer, x = torch.nn.Linear(48, 48), torch.randn(32, 48, requires_grad=True)
    wanted = torch.autograd.grad(layer(x).square().sum(), x)[0]
    with emulate(fp32_precision="tf32"):
        for _ in range(3):  # the first call of a kind prepares the others
            with evaluating():
                layer(x)
            found = torch.autograd.grad(layer(x).square().sum(), x)[0]
    assert packed
    torch.testing.assert_close(found, wanted, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("write", _WRITES)
@pytest.mark.parametrize("bias", [True, False])
def test_weights_are_packed_once_and_again_when_something_writes_to_them(
    packed: list[int], write: str, bias: bool
) -> None:
    layer, x = torch.nn.Linear(64, 48, bias=bias), torch.randn(32, 64)
    with emulate(fp32_precision="tf32"), torch.no_grad():
        first, *again = (layer(x) for _ in range(3))
        assert len(packed) == 1
        _WRITES[write](layer.weight)
        found = [layer(x) for _ in range(3)]
    with emulate(fp32_precision="tf32"):
        wanted = layer(x)
    assert all(torch.equal(each, first) for each in again)
    assert all(torch.allclose(each, wanted, rtol=1e-5, atol=1e-6) for each in found)
    assert not torch.allclose(found[0], first, rtol=1e-2)
    assert not weights._memories


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
def test_large_results_are_made_in_memory_of_torch(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    x, w = _array(1, (4, 64, 32, 32), getattr(torch, name)), _array(2, (64, 64, 3, 3), getattr(torch, name))
    last, copied = x.to(memory_format=torch.channels_last).requires_grad_(), []
    monkeypatch.setattr(memory, "to_torch", lambda *args: copied.append(args[0]) or to_torch(*args))
    with emulate():
        for _ in range(2):
            copied.clear()
            found = [x[0, 0] @ x[0, 0, :, :1].repeat(1, 2048), x @ x.mT, torch.bmm(x[0], x[1])]
            found += [TF.conv2d(each, w, padding=1) for each in (x, last)] + [TF.conv2d(x, w[..., :1, :1])]
            found += torch.autograd.grad(found[-2], last, found[-2])
    assert not [each for each in copied if isinstance(each, mt.Tensor)]


_CONVOLUTIONS: dict[str, Callable[[], Any]] = {
    "one dimension": lambda: torch.nn.Conv1d(48, 48, 3, padding=1),
    "plain": lambda: torch.nn.Conv2d(48, 48, 3, padding=1),
    "strided": lambda: torch.nn.Conv2d(48, 48, 3, stride=2, bias=False),
    "pointwise": lambda: torch.nn.Conv2d(48, 48, 1),
    "groups": lambda: torch.nn.Conv2d(48, 48, 3, dilation=2, groups=3),
    "depthwise": lambda: torch.nn.Conv2d(48, 48, 3, groups=48),
    "channels last": lambda: torch.nn.Conv2d(48, 48, 3).to(memory_format=torch.channels_last),
    "transposed": lambda: torch.nn.ConvTranspose2d(48, 48, 3, stride=2, output_padding=1),
    "three dimensions": lambda: torch.nn.Conv3d(48, 48, 2),
}


@pytest.fixture
def packed_convolutions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A number for each weight of a convolution that is kept."""
    found: list[int] = []
    monkeypatch.setattr(precision_policy, "by_role", True)
    keep = conv.Kept
    monkeypatch.setattr(conv, "Kept", lambda *args: found.append(1) or keep(*args))
    return found


@pytest.mark.parametrize("kind", _CONVOLUTIONS)
@pytest.mark.parametrize("precision", ["ieee", "tf32"])
def test_weights_of_convolutions_are_kept(packed_convolutions: list[int], kind: str, precision: str) -> None:
    """Results, strides and counts are those of a call that keeps nothing."""
    layer = _CONVOLUTIONS[kind]()
    dims = layer.weight.ndim - 2
    x = _array(1, (2, 48, *(10,) * dims), torch.float32)
    x = x.to(memory_format=torch.channels_last) if kind == "channels last" else x
    with emulate(fp32_precision=precision) as plain:
        wanted = [layer(x) for _ in range(4)]
    assert not packed_convolutions
    with emulate(fp32_precision=precision) as keeping, torch.no_grad():
        found = [layer(x) for _ in range(3)]
        assert len(packed_convolutions) == 1
        layer.weight.mul_(2)
        twice = layer(x)
        assert len(packed_convolutions) == 2
    bias = 0 if layer.bias is None else layer.bias.detach().view(-1, *(1,) * dims)
    for each in found:
        assert each.stride() == wanted[0].stride()
        torch.testing.assert_close(each, wanted[0].detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(twice - bias, 2 * (wanted[0].detach() - bias), rtol=1e-5, atol=1e-5)
    assert keeping.products == plain.products


@pytest.mark.parametrize("write", _WRITES)
def test_weights_of_convolutions_are_kept_until_something_writes_to_them(
    packed_convolutions: list[int], write: str
) -> None:
    layer, x = torch.nn.Conv2d(64, 48, 1), _array(1, (2, 64, 8, 8), torch.float32)
    layer.weight = torch.nn.Parameter(layer.weight.detach()[..., 0, 0])
    compute = lambda: torch.nn.functional.conv2d(x, layer.weight.view(48, 64, 1, 1), layer.bias)  # noqa: E731
    with emulate(fp32_precision="tf32"), torch.no_grad():
        first, again = compute(), [compute() for _ in range(2)][1]
        assert len(packed_convolutions) == 1
        _WRITES[write](layer.weight)
        found = [compute() for _ in range(3)]
    with emulate(fp32_precision="tf32"):
        wanted = compute().detach()
    assert torch.allclose(again, first, rtol=1e-5, atol=1e-6)
    assert all(torch.allclose(each, wanted, rtol=1e-5, atol=1e-5) for each in found)
    assert not torch.allclose(found[0], first, rtol=1e-2)
    assert not weights._memories


@pytest.mark.parametrize("foreach", [False, True])
def test_kept_weights_follow_an_optimizer(packed: list[int], packed_convolutions: list[int], foreach: bool) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 32))
    x = _array(1, (16, 3, 8, 8), torch.float32)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, foreach=foreach)
    with emulate():
        for _ in range(3):
            model(x).square().mean().backward()
            optimizer.step()
            wanted = model(x).detach()
            with torch.no_grad():
                for _ in range(3):
                    torch.testing.assert_close(model(x), wanted)
    assert packed
    assert packed_convolutions


def _double(layer: Any) -> None:
    with torch.no_grad():
        layer.weight.mul_(2)


@pytest.mark.parametrize("kind", [lambda: torch.nn.Linear(64, 48), lambda: torch.nn.Conv2d(64, 48, 3)])
def test_weights_that_another_process_writes_to_are_not_kept(
    packed: list[int], packed_convolutions: list[int], kind: Callable[[], Any]
) -> None:
    layer = kind().share_memory()
    x = _array(1, (32, 64) if layer.weight.ndim == 2 else (2, 64, 6, 6), torch.float32)
    with emulate(), torch.no_grad():
        first = [layer(x) for _ in range(3)][-1]
        process = torch.multiprocessing.get_context("fork").Process(target=_double, args=(layer,))
        process.start()
        process.join()
        found = layer(x)
    bias = layer.bias.detach() if x.ndim == 2 else layer.bias.detach().view(-1, 1, 1)
    assert process.exitcode == 0
    torch.testing.assert_close(found - bias, 2 * (first - bias), rtol=1e-4, atol=1e-5)
    assert not packed
    assert not packed_convolutions


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_inference_mode_uses_prepared_calls_and_kept_weights(
    packed: list[int], packed_convolutions: list[int], dtype: Any
) -> None:
    """Results are inference tensors, and follow writes to the weights."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 32)).to(dtype)
    x = _array(1, (16, 3, 8, 8), torch.float32).to(dtype)
    q = _array(2, (2, 3, 6, 8), torch.float32).to(dtype)
    attention = torch.nn.functional.scaled_dot_product_attention
    wanted = [model(x).detach(), attention(q, q, q)]
    with emulate() as mode, torch.inference_mode():
        for _ in range(3):
            for found, other in zip([model(x), attention(q, q, q)], wanted, strict=True):
                assert found.is_inference()
                assert found.stride() == other.stride()
                torch.testing.assert_close(found, other, rtol=2e-2, atol=2e-2)
                found.add_(1)  # in place, without versions
        kept = len(packed), len(packed_convolutions)
        model[2].weight.mul_(0)
        assert torch.equal(model(x), model[2].bias.expand(16, -1))
    assert kept == (1, dtype is torch.float32)
    assert mode.ran["aten.linear.default"] == mode.ran["aten.convolution.default"] == 4
    with emulate(), torch.inference_mode():
        built = torch.nn.Linear(8, 8).to(dtype)
        rows = torch.ones(16, 8, dtype=dtype)
        before = [built(rows) for _ in range(3)][-1]
        built.weight.zero_()
        assert torch.equal(built(rows), built.bias.expand(16, -1))
        assert not torch.equal(built(rows), before)


def test_weights_are_not_packed_where_they_are_trained(packed: list[int]) -> None:
    layer, x = torch.nn.Linear(64, 48), torch.randn(32, 64)
    with emulate():
        for _ in range(3):
            layer(x).sum().backward()
    assert not packed
