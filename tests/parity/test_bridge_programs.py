"""Programs that reach torch's dispatcher in unusual ways, inside `emulate`: their products obey flags, or are listed in
`mode.left` with their FLOPs."""

import functools
import importlib
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from minitorch_backends.interop.torch import emulate

torch = pytest.importorskip("torch")

import torch.autograd.forward_ad as forward_ad  # noqa: E402
import torch.distributed as dist  # noqa: E402
from functorch.compile import aot_function, nop  # noqa: E402
from torch._higher_order_ops import associative_scan, scan, while_loop  # noqa: E402
from torch._subclasses import FakeTensorMode  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh  # noqa: E402
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.nn.attention import flex_attention as flex  # noqa: E402
from torch.testing._internal.two_tensor import TwoTensor  # noqa: E402
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts  # noqa: E402

F = torch.nn.functional
pytestmark = pytest.mark.filterwarnings("ignore")  # torch warns of what it deprecates


def _random(seed: int, *shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


X, W, OFFSETS = _random(0, 6, 16), _random(1, 16, 16), torch.tensor([4, 8, 12], dtype=torch.int32)
EIGHT_BITS = torch.arange(256, dtype=torch.int8).view(16, 16)

PROGRAMS: dict[str, tuple[Callable[[], Any], list[tuple[str, int]]]] = {}
"""By name the program, and what it leaves to torch: operators and their FLOPs."""


def program(*left: tuple[str, int]) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    def declare(function: Callable[[], Any]) -> Callable[[], Any]:
        PROGRAMS[function.__name__.strip("_")] = function, [*left]
        return function

    return declare


def with_gradients(function: Callable[..., Any], *tensors: Any) -> Any:
    """The results of a function and the gradients of their squares, in one tensor."""
    leaves = [each.clone().requires_grad_() for each in tensors]
    out = function(*leaves)
    grads = torch.autograd.grad(out.square().sum(), leaves)
    return torch.cat([each.detach().flatten() for each in (out, *grads)])


def with_weights(module: Any) -> Any:
    """The module with weights that are the same each time."""
    for seed, each in enumerate(module.parameters()):
        each.data.copy_(_random(seed, *each.shape) / 4)
    return module


def layers() -> Any:
    return with_weights(torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Linear(16, 16)))


# Control flow and other higher-order operators


@program()
def cond() -> Any:
    return with_gradients(
        lambda x, w: torch.cond(x.sum() > -1e9, lambda a, b: a @ b, lambda a, b: a @ b.T, (x, w)), X, W
    )


@program()
def while_loop_() -> Any:
    return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a @ W / 4), (torch.tensor(0), X))[1]


@program()
def scan_() -> Any:
    def total(x: Any, w: Any) -> Any:
        carry, rows = scan(lambda c, row: (c @ w / 4 + row, c @ w), x, torch.stack([x, 2 * x, x]), reverse=True)
        return torch.cat([carry, rows.flatten(0, 1)])

    return with_gradients(total, X, W)


@program()
def associative_scan_() -> Any:
    return associative_scan(torch.matmul, torch.stack([W / 4] * 4), 0, combine_mode="generic")


@program()
def map_() -> Any:
    mapped = torch._higher_order_ops.map
    return with_gradients(lambda x, w: mapped(lambda a, b: a @ b, torch.stack([x, 2 * x]), w), X, W)


@program()
def cond_in_a_checkpoint() -> Any:
    def branch(x: Any) -> Any:
        return torch.cond(x.sum() > -1e9, lambda a: a @ W, lambda a: a @ W.T, (x,))

    return checkpoint(branch, X, use_reentrant=False)


@program()
def flex_attention() -> Any:
    q = _random(0, 1, 2, 128, 16)
    mask = flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, 128, 128, device="cpu")
    scores = lambda s, b, h, i, j: s + (i - j) * 0.01  # noqa: E731
    return torch.cat([flex.flex_attention(q, q, q, block_mask=mask), flex.flex_attention(q, q, q, score_mod=scores)])


# Tracing and compiling


@program()
def compile() -> Any:
    return torch.compile(lambda x: x @ W, fullgraph=True)(X)


@program()
def export() -> Any:
    return torch.export.export(layers(), (X,)).module()(X)


@program()
def aot() -> Any:
    return with_gradients(aot_function(lambda x, w: torch.tanh(x @ w), fw_compiler=nop), X, W)


@program(("aten.mm.default", 2 * 6 * 16 * 16))
def traced_with_values() -> Any:
    return make_fx(lambda x: x @ W)(X)(X)


@program()
def fake_tensors() -> Any:
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert torch.nn.Linear(3, 4)(torch.randn(2, 3)).shape == (2, 4)
    assert (X.to("meta") @ W.to("meta")).shape == (6, 16)
    return X @ W


@program()
def torchscript() -> Any:
    """Traced, and with a product in another thread of TorchScript."""
    traced = torch.jit.trace(lambda x: x @ W, (X,), check_trace=False)
    unit = torch.jit.CompilationUnit(
        "def forked(x, w):\n    f = torch.jit.fork(torch.mm, x, w)\n    return torch.jit.wait(f)\n"
    )
    return traced(X) + unit.forked(X, W)


@program()
def optimize_for_inference() -> Any:
    parts = (torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Conv2d(8, 8, 3, groups=2), torch.nn.Flatten())
    model = with_weights(torch.nn.Sequential(*parts, torch.nn.Linear(8 * 16, 4))).eval()
    optimized = torch.jit.optimize_for_inference(torch.jit.script(model))
    with torch.no_grad():
        return torch.stack([optimized(_random(0, 2, 3, 8, 8)) for _ in range(3)])


@program(("aten.mm.default", 6 * 2 * 6 * 16 * 16))
def linearize() -> Any:
    """Its graph is traced, and what it computes from then on runs here."""
    return torch.func.linearize(lambda x: (x @ W).tanh() @ W, X)[1](X)


@program()
def transforms() -> Any:
    hessian = torch.func.hessian(lambda x: (x @ W).tanh().square().sum())(X[:2])
    rows = torch.func.vmap(torch.func.grad(lambda w, x: (x @ w).square().sum()), (None, 0))(W, X)
    tangent = torch.func.jvp(lambda x: x @ W @ W, (X,), (X,))[1]
    with forward_ad.dual_level():
        dual = forward_ad.unpack_dual(forward_ad.make_dual(X, X) @ W).tangent.clone()
    return torch.cat([each.flatten() / each.norm() for each in (hessian, rows, tangent, dual)])


# Operators of programs


@torch.library.custom_op("minitorch_tests::project", mutates_args=())
def _project(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


def _project_backward(ctx: Any, g: Any) -> tuple[Any, Any]:
    a, b = ctx.saved_tensors
    return _project(g, b.mT.contiguous()), _project(a.mT.contiguous(), g)


_project.register_autograd(_project_backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))


@program()
def custom_operator() -> Any:
    return with_gradients(_project, X, W)


class _Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.save_for_backward(a, b)
        return 2 * (a @ b)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        a, b = ctx.saved_tensors
        return 2 * (g @ b.T), 2 * (a.T @ g)


@program()
def autograd_function() -> Any:
    return with_gradients(_Twice.apply, X, W)


# Kinds of tensors


class _Plain(torch.Tensor):
    pass


@program()
def subclasses() -> Any:
    plain = with_gradients(lambda x, w: (x.as_subclass(_Plain) @ w).as_subclass(torch.Tensor), X, W)
    return torch.cat([plain, (TwoTensor(X, X) @ TwoTensor(W, W)).a.flatten()])


@program()
def nested_tensors() -> Any:
    strided, jagged = (torch.nested.nested_tensor([X, X[:3]], layout=each) for each in (torch.strided, torch.jagged))
    q = jagged.unflatten(-1, [2, 8]).transpose(1, 2)
    padded = [F.linear(strided, W), torch.matmul(strided, strided.transpose(1, 2))]
    results = [torch.nested.to_padded_tensor(each, 0.0) for each in padded]
    results.append(F.scaled_dot_product_attention(q, q, q).transpose(1, 2).values())
    results.append(with_gradients(lambda w: F.linear(jagged, w).values(), W))
    return torch.cat([each.flatten() for each in results])


@program()
def onednn_tensors() -> Any:
    mkldnn = importlib.import_module("torch.utils.mkldnn")  # which warns
    conv, linear = (
        mkldnn.to_mkldnn(with_weights(torch.nn.Conv2d(3, 8, 3))),
        mkldnn.to_mkldnn(with_weights(torch.nn.Linear(16, 16))),
    )
    results = conv(_random(0, 2, 3, 8, 8).to_mkldnn()), linear(X.to_mkldnn())
    return torch.cat([each.to_dense().flatten() for each in results])


@program(("aten._sparse_addmm.default", 2 * 6 * 16 * 16), ("aten.mm.default", 2 * 6 * 16 * 16))
def sparse_tensors() -> Any:
    return torch.sparse.mm(X.to_sparse(), W) + X.to_sparse_csr() @ W


@program(("quantized.linear_dynamic.default", 2 * 6 * 16 * 16), ("aten._int_mm.default", 2 * 32 * 16 * 16))
def quantized_layers() -> Any:
    model = torch.ao.quantization.quantize_dynamic(layers()[:1], {torch.nn.Linear})
    return model(X) + torch._int_mm(EIGHT_BITS.repeat(2, 1), EIGHT_BITS)[:6]


@program()
def conv_tbc() -> Any:
    shapes = (9, 2, 6), (3, 6, 8), (8,)
    return with_gradients(functools.partial(torch.conv_tbc, pad=1), *(_random(0, *each) for each in shapes))


@program()
def grouped_products() -> Any:
    pairs = ((12, 16), (3, 16, 8), OFFSETS), ((3, 4, 16), (3, 16, 8), None), ((8, 12), (12, 16), OFFSETS)
    results = [
        with_gradients(functools.partial(F.grouped_mm, offs=offsets), _random(0, *a), _random(1, *b))
        for a, b, offsets in pairs
    ]
    return torch.cat([*results, *(each.flatten() for each in torch._foreach_mm([X, X[:3]], [W, W]))])


# Threads and processes


@program()
def threads() -> Any:
    with ThreadPoolExecutor(2) as executor:
        return torch.stack([*executor.map(lambda n: X @ (n * W), range(1, 4))])


class _Nested(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, depth: int) -> Any:
        ctx.depth = depth
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        with torch.enable_grad():
            z = g.detach().requires_grad_()
            out = _Nested.apply(z, ctx.depth - 1) if ctx.depth else z @ W / 4
        return torch.autograd.grad(out, z, g)[0], None


@program()
def backward_in_backward() -> Any:
    """Sixty passes deep, torch continues in a thread of its own."""
    x = X.clone().requires_grad_()
    return torch.autograd.grad(_Nested.apply(x, 65), x, X)[0]


@program()
def checkpoints() -> Any:
    policies = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])

    def run(x: Any, w: Any) -> Any:
        whole = checkpoint(lambda a, b: (a @ b).tanh() @ b, x, w, use_reentrant=False)
        return whole + checkpoint(torch.matmul, x, w, use_reentrant=False, context_fn=policies)

    return with_gradients(run, X, W)


@program()
def distributed_tensors() -> Any:
    mesh = init_device_mesh("cpu", (1,))
    a = distribute_tensor(X, mesh, [Shard(0)]).requires_grad_()
    b = distribute_tensor(W, mesh, [Replicate()]).requires_grad_()
    (a @ b).square().sum().backward()
    model = parallelize_module(layers(), mesh, {"0": ColwiseParallel(), "1": RowwiseParallel()})
    model(X).square().sum().backward()
    of_model = model[0].weight.grad.full_tensor()
    return torch.cat([a.grad.full_tensor(), b.grad.full_tensor(), of_model / of_model.norm()])


@program()
def fully_sharded() -> Any:
    """Parameters whose memory is given back after the forward pass, also those that our engine has recorded."""
    mesh = init_device_mesh("cpu", (1,))
    model = torch.nn.Sequential(layers()[0], with_weights(torch.nn.LSTM(16, 16)))
    for each in (*model, model):
        fully_shard(each, mesh=mesh)
    model(X)[0].square().sum().backward()
    return torch.cat([each.grad.full_tensor().flatten() for each in model.parameters()])


@program()
def data_parallel() -> Any:
    model = torch.nn.parallel.DistributedDataParallel(layers())
    model(X).square().sum().backward()
    return model.module[0].weight.grad


@pytest.fixture(scope="module", autouse=True)
def group() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("name", PROGRAMS)
def test_products_obey_flags_or_are_listed(name: str) -> None:
    run, left = PROGRAMS[name]
    wanted = run().detach().double()
    errors = []
    for precision in ("ieee", "bf16"):
        with emulate(fp32_precision=precision) as mode:
            found = run().detach().double()
        errors.append(((found - wanted).norm() / wanted.norm()).item())
        of_left: dict[str, int] = {}
        for each in mode.left:
            of_left[each.op] = of_left.get(each.op, 0) + each.flops
        assert of_left == dict(left)
    assert errors[0] < 2e-6
    obeys = not left or name in ("traced_with_values", "linearize")
    assert (2e-4 < errors[1] < 3e-2) if obeys else errors[1] < 2e-6


def test_results_and_operands_can_be_resized() -> None:
    a, b = X.clone(), W.clone()
    with emulate():
        product = a @ b
        a.resize_(20, 16)
        b.untyped_storage().resize_(0)
    assert torch.equal(product, X @ W) or (product - X @ W).norm() < 1e-5
    assert a.untyped_storage().nbytes() >= 20 * 16 * 4


def test_what_torch_refuses_on_a_cpu_is_refused_inside() -> None:
    a, b = X.to(torch.float8_e4m3fn), W.to(torch.float8_e4m3fn).T
    with emulate(), pytest.raises(NotImplementedError, match="_scaled_grouped_mm"):
        torch._scaled_grouped_mm(a, b.expand(3, 16, 16), torch.ones(6), torch.ones(3, 16), offs=OFFSETS // 2)
    with emulate(), pytest.raises(NotImplementedError, match="FlexAttention does not support backward"):
        with_gradients(lambda q: flex.flex_attention(q, q, q), _random(0, 1, 1, 128, 16))


def test_one_warning_lists_what_flags_would_affect() -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with emulate():
            sparse_tensors()
    sparse = "only products of strided tensors run here, got torch.sparse"
    (message,) = (str(each.message) for each in seen if "emulate():" in str(each.message))
    assert message == (
        f"emulate(): torch computed these products itself: aten._sparse_addmm.default (1): {sparse}_coo; "
        f"aten.mm.default (1): {sparse}_csr"
    )
