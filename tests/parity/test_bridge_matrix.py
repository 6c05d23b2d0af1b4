"""Every product of torch's own test databases inside `emulate` at ieee, against plain torch: values, types, strides and
memory of results and gradients, in each mode of differentiation.

A few samples of each operator run by default; MINITORCH_BRIDGE_SAMPLES sets how many, and 1000 takes all. The end of
`python -m pytest tests/parity/test_bridge_matrix.py` has the counts: what agrees, by kind, type and mode.
"""

import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from minitorch_backends.interop.torch import emulate

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")

from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.testing._internal.common_modules import module_db  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

MOST_SAMPLES = int(os.environ.get("MINITORCH_BRIDGE_SAMPLES", "3"))
DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128, torch.bfloat16, torch.float16)
HALVES = (torch.bfloat16, torch.float16)
TOLERANCE = {torch.bfloat16: 4e-2, torch.float16: 5e-3, torch.float64: 1e-9, torch.complex128: 1e-9}
"""Of the Frobenius norm, by type; 5e-3 for the others: second derivatives of factorisations magnify rounding. Results
of half types that differ by more are compared with those of float64 (`_is_true`)."""

_PRODUCT = re.compile(
    r"mm|mv|matmul|dot|linear$|einsum|conv|attention|cdist|linalg|cholesky|^lu|inverse|det$|^qr|solve|pinv|svd"
    r"|tensordot|inner|^ger|outer|chain|corrcoef|^cov$|matrix_exp|geqrf|ormqr|trapz|kron|bilinear$"
)
PRODUCTS = [op for op in op_db if _PRODUCT.search(op.name) and not re.search("interpolate|^sparse", op.name)]
"""Sparse operands stay with torch, which `mode.left` says."""
_MODULE = re.compile(r"^(?!.*Lazy).*(Conv|Linear|RNN|LSTM|GRU|Transformer|Attention|Bilinear)")
MODULES = [each for each in module_db if _MODULE.search(each.name)]

NOT_UNIQUE = re.compile(r"svd|eig|qr|geqrf|ormqr|householder|pca|ldl|lstsq|multi_head_attention_forward|lu_solve")
"""Factors whose signs are free, and random dropout: types, strides and memory are compared."""

_REFLECTORS = (torch.ormqr, torch.linalg.householder_product)

OUTCOMES = ("agree", "agree, some left to torch", "refused", "differ", "not in torch")
COUNTS: Counter[tuple[str, str, str, str]] = Counter()
"""Numbers of comparisons by kind ("function", "module"), type, mode and outcome."""

Call = Callable[..., Any]


def _tensors(value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    return [each for part in value for each in _tensors(part)]


def _copy(value: Any, wide: bool = False) -> Any:
    """Arguments with tensors of their own, those of half types in float64 if `wide`."""
    if isinstance(value, torch.Tensor):
        own = value.detach().clone()
        return (own.double() if wide and own.dtype in HALVES else own).requires_grad_(value.requires_grad)
    if type(value) in (list, tuple):
        return type(value)(_copy(each, wide) for each in value)
    return {key: _copy(each, wide) for key, each in value.items()} if isinstance(value, dict) else value


def _strides(x: Any) -> tuple:
    return tuple(step for step, length in zip(x.stride(), x.shape, strict=True) if length > 1) if x.numel() else ()


def _sharing(results: list[Any], given: list[Any]) -> set[tuple[int, int]]:
    """The pairs of tensors that have one memory, a result and any other."""
    memory = [each.untyped_storage().data_ptr() if each.numel() else -n for n, each in enumerate([*results, *given], 1)]
    return {(i, j) for i in range(len(results)) for j in range(i + 1, len(memory)) if memory[i] == memory[j]}


def _is_true(ours: Any, theirs: Any, exact: Any, unit: float) -> bool:
    """Whether our result is nearer to float64's than torch's is, or within ten units in the last place of it."""
    return (ours - exact).norm() <= max((theirs - exact).norm(), 10 * unit * exact.norm())


def _difference(got: list[Any], wanted: list[Any], values: bool, strides: bool, exact: Call) -> str | None:
    if len(got) != len(wanted):
        return f"{len(got)} results for {len(wanted)}"
    for place, (one, other) in enumerate(zip(got, wanted, strict=True)):
        if (one.dtype, one.shape) != (other.dtype, other.shape):
            return f"result {place}: {one.dtype}{list(one.shape)} for {other.dtype}{list(other.shape)}"
        if other.layout is not torch.strided:
            one, other = one.to_dense(), other.to_dense()
        if strides and _strides(one) != _strides(other):
            return f"result {place}: strides {one.stride()} for {other.stride()} of {list(one.shape)}"
        if not values or (other.dtype in HALVES and other.isnan().any()):
            continue  # torch's matrix_exp has NaN in half types
        kind = torch.complex128 if other.is_complex() else torch.float64
        a, b = one.detach().to(kind), other.detach().to(kind)
        if not torch.equal(a.isnan(), b.isnan()):
            return f"result {place}: NaN elsewhere"
        a, b = (torch.where(b.isfinite() & a.isfinite(), each, 0) for each in (a, b))
        error, size = (a - b).norm().item(), b.norm().item()
        if error > TOLERANCE.get(other.dtype, 5e-3) * max(size, 1e-2 * b.numel() ** 0.5):
            if other.dtype in HALVES and _is_true(a, b, exact()[place], torch.finfo(other.dtype).eps):
                continue
            return f"result {place}: off by {error / max(size, 1e-300):.1e}"
    return None


def _forward(call: Call, args: Any, kwargs: Any) -> list[Any]:
    return _tensors(call(*args, **kwargs))


def _backward(call: Call, args: Any, kwargs: Any, create: bool = False) -> tuple[list[Any], list[Any]] | None:
    leaves = [each for each in _tensors([args, kwargs]) if each.requires_grad]
    outputs = [each for each in _forward(call, args, kwargs) if each.requires_grad]
    if not leaves or not outputs:
        return None
    cotangents = [torch.linspace(0.1, 1, each.numel(), dtype=each.dtype).reshape(each.shape) for each in outputs]
    grads = torch.autograd.grad(outputs, leaves, cotangents, create_graph=create, allow_unused=True)
    return [each for each in grads if each is not None], leaves


def _gradients(call: Call, args: Any, kwargs: Any) -> list[Any]:
    found = _backward(call, args, kwargs)
    return [] if found is None else found[0]


def _second(call: Call, args: Any, kwargs: Any) -> list[Any]:
    found = _backward(call, args, kwargs, create=True)
    if found is None or not any(each.requires_grad for each in found[0]):
        return []
    total = sum(each.abs().square().sum() for each in found[0])
    return [each for each in torch.autograd.grad(total, found[1], allow_unused=True) if each is not None]


def _jvp(call: Call, args: Any, kwargs: Any) -> list[Any]:
    def of_first(x: Any) -> Any:
        return tuple(_forward(call, (x, *args[1:]), kwargs))

    return _tensors(torch.func.jvp(of_first, (args[0].detach(),), (torch.ones_like(args[0]),)))


def _vmap(call: Call, args: Any, kwargs: Any) -> list[Any]:
    first = torch.stack([args[0].detach(), 0.5 * args[0].detach()])
    return list(torch.func.vmap(lambda x: tuple(_forward(call, (x, *args[1:]), kwargs)))(first))


def _functional_gradient(call: Call, args: Any, kwargs: Any) -> list[Any]:
    def total(x: Any) -> Any:
        return sum(each.abs().sum() for each in _forward(call, (x, *args[1:]), kwargs) if each.is_floating_point())

    return [torch.func.grad(total)(args[0].detach())]


def _accumulated_and_clipped(call: Call, args: Any, kwargs: Any) -> list[Any]:
    """The gradients after two passes whose sum is clipped in place, as an optimizer sees them."""
    leaves = [each for each in _tensors([args, kwargs]) if each.requires_grad and each.is_leaf]
    for _ in range(2):
        outputs = [each for each in _forward(call, args, kwargs) if each.requires_grad]
        if not outputs or not leaves:
            return []
        torch.autograd.backward(outputs, [torch.ones_like(each) for each in outputs])
    torch.nn.utils.clip_grad_norm_(leaves, 0.1)
    return [each.grad for each in leaves if each.grad is not None]


def _second_forward(call: Call, args: Any, kwargs: Any) -> list[Any]:
    """The results of a second call, whose signature is known."""
    _forward(call, args, kwargs)
    return _forward(call, args, kwargs)


def _forward_and_backward_of_compiled(call: Call, args: Any, kwargs: Any) -> list[Any]:
    """Results and gradients by `torch.compile`, which returns what it is given inside `emulate`."""
    inside = torch._C._len_torch_dispatch_stack() > 0
    function = torch.compile(call, fullgraph=True) if inside else call
    return [*_forward(function, args, kwargs), *_gradients(function, args, kwargs)]


class _Empty(TorchDispatchMode):
    """A mode that changes nothing. Under any mode torch's formula for reflectors writes nothing in place, and returns
    gradients in other strides."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


MODES: dict[str, Call] = {
    "repeated": _second_forward, "compiled": _forward_and_backward_of_compiled,
    "forward": _forward, "backward": _gradients, "second": _second, "jvp": _jvp, "vmap": _vmap,
    "functional": _functional_gradient, "clipped": _accumulated_and_clipped,
}  # fmt: skip


_OFTEN = ("forward", "backward", "second")
MODULE_MODES = {
    torch.float32: (*_OFTEN, "repeated", "compiled", "clipped", "jvp", "vmap"),
    torch.float64: _OFTEN,
    torch.bfloat16: _OFTEN,
    torch.float16: _OFTEN,
}


def _compare(
    kind: str, dtype: Any, what: str, mode: str, call: Call, given: tuple, values: bool = True
) -> Iterator[str]:
    """The differences of one call in one mode. What plain torch does not compute is not compared."""
    run, plain, ours = MODES[mode], _copy(given), _copy(given)
    key = kind, str(dtype).removeprefix("torch."), mode
    try:
        torch.manual_seed(0)
        with _Empty() if call in _REFLECTORS and mode == "backward" else nullcontext():
            wanted = run(call, *plain)
    except Exception:
        COUNTS[*key, "not in torch"] += 1
        return
    outcome, difference = "agree", None
    try:
        torch.manual_seed(0)
        with emulate() as emulation:
            got = run(call, *ours)
        outcome = "agree, some left to torch" if emulation.left else "agree"
        dense = [
            all(x.layout is torch.strided for x in each) for each in (_tensors(ours), _tensors(plain), got, wanted)
        ]
        strides = mode in ("forward", "repeated", "backward", "clipped") and "wrong size" not in what
        difference = _difference(got, wanted, values, strides, lambda: run(call, *_copy(given, wide=True)))
        inside = torch._C._functorch.is_functorch_wrapped_tensor
        shares = dense and mode in ("forward", "backward", "repeated", "clipped") and not any(map(inside, got))
        shared = _sharing(got, _tensors(ours)) - _sharing(wanted, _tensors(plain)) if shares else ()
        difference = difference or (f"one memory: {sorted(shared)}" if shared else None)
    except Exception as error:
        if str(error).startswith("emulate(): "):
            outcome = "refused"
        else:
            difference = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    COUNTS[*key, "differ" if difference else outcome] += 1
    if difference:
        yield f"{what}, {dtype}, {mode}: {difference}"


def _writes(op: Any, dtype: Any, sample: Any, values: bool) -> Iterator[str]:
    """Differences of the in-place form, and of `out=` with right and with wrong sizes."""
    given = (sample.input, *sample.args)
    if op.inplace_variant is not None and not sample.broadcasts_input:
        in_place = lambda x, *rest, **named: op.inplace_variant(x.clone(), *rest, **named)  # noqa: E731
        yield from _compare("in place", dtype, f"{op.name}_", "forward", in_place, (given, sample.kwargs), values)
    if op.supports_out and "matrix_rank" not in op.name:  # whose out= torch writes under no dispatch mode at all
        for size in ("right", "wrong"):

            def out(*args: Any, size: str = size, **kwargs: Any) -> Any:
                with torch.no_grad():
                    like = op.op(*args, **kwargs)
                    several = isinstance(like, (list, tuple))
                    made = [torch.empty_like(each) if size == "right" else each.new_empty(0) for each in _tensors(like)]
                    return op.op(*args, **kwargs, out=tuple(made) if several else made[0])

            what = f"{op.name} out= of {size} size"
            yield from _compare("out=", dtype, what, "forward", out, (given, sample.kwargs), values)


def _samples(op: Any, dtype: Any) -> list[Any]:
    torch.manual_seed(1)
    samples = list(op.sample_inputs("cpu", dtype, requires_grad=dtype in op.supported_backward_dtypes("cpu")))
    return samples[:: max(1, len(samples) // MOST_SAMPLES)][:MOST_SAMPLES]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", PRODUCTS, ids=lambda op: f"{op.name}.{op.variant_test_name}".rstrip("."))
def test_products_of_functions_agree_with_torch(op: Any) -> None:
    values, found = not NOT_UNIQUE.search(op.name), []
    for dtype in DTYPES:
        if dtype not in op.supported_dtypes("cpu"):
            continue
        for sample in _samples(op, dtype):
            what = f"{[tuple(each.shape) for each in _tensors([sample.input, sample.args])]} {sample.kwargs}"
            given = ((sample.input, *sample.args), sample.kwargs)
            modes = (
                [each for each in MODES if each != "compiled"]
                if dtype is torch.float32
                else ("forward", "backward", "repeated")
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for mode in modes:
                    found += _compare("function", dtype, what, mode, op.op, given, values)
                if dtype is torch.float32:
                    found += _writes(op, dtype, sample, values)
    assert not found, "\n".join(found)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("info", MODULES, ids=lambda info: info.name)
def test_products_of_modules_agree_with_torch(info: Any) -> None:
    found: list[str] = []
    for dtype, training in ((torch.float32, True), *((each, False) for each in MODULE_MODES)):
        torch.manual_seed(1)
        samples = info.module_inputs_func(info, "cpu", dtype, requires_grad=True, training=training)
        for sample in samples[:: max(1, len(samples) // MOST_SAMPLES)][:MOST_SAMPLES]:
            torch.manual_seed(2)
            built = sample.constructor_input
            module = info.module_cls(*built.args, **built.kwargs).to(dtype).train(training)
            parameters = dict(module.named_parameters())

            def call(*args: Any, module: Any = module, weights: Any, **kwargs: Any) -> Any:
                return torch.func.functional_call(module, weights, args, kwargs)

            inputs = sample.forward_input
            given = (tuple(inputs.args), {**inputs.kwargs, "weights": parameters})
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for mode in MODULE_MODES[dtype]:
                    what = f"{built.kwargs} training={training}"
                    found += _compare("module", dtype, what, mode, call, given)
    assert not found, "\n".join(found)
