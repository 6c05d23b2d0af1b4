"""In-place forms: the generated twin does what the definition does."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends.dispatch import out_argument as out_module
from minitorch_backends.dispatch.op import Composite
from minitorch_backends.kernels.runtime.threading import num_threads
from minitorch_backends.tensor.registry import registry
from minitorch_backends.tensor.tensor import Tensor

from ..support.calls import samples_of, takes, tensors

INPLACE = [
    name
    for name, op in registry.items()
    if not isinstance(op, Composite) and not op.view and hasattr(Tensor, name + "_") and takes(name, mt.float32)
]


def outcome(function: Any, target: Tensor) -> Any:
    """The effect of a write: the exception's type, or bits, version, history."""
    try:
        result = function(target)
    except (RuntimeError, TypeError, IndexError, ValueError) as error:
        return type(error), str(error), target._version
    assert result is target
    node = target.grad_fn
    return target.detach().numpy().tobytes(), target._version, None if node is None else node.name()


@pytest.mark.parametrize("name", INPLACE)
@pytest.mark.parametrize("recorded", [False, True])
def test_both_ways_are_one(name: str, recorded: bool) -> None:
    op = registry[name]
    for sample in samples_of(name):
        for dtype in (mt.float32, mt.float64, mt.float16, mt.int64):
            if not takes(name, dtype) or (recorded and dtype is mt.int64):
                continue
            outcomes = []
            for way in range(2):
                mt.manual_seed(0)
                call = tensors(sample, dtype)
                if not isinstance(call.args[0], Tensor) or op.listed:  # type: ignore[union-attr]
                    continue
                first, *rest = call.args
                first = first.clone()
                if recorded:
                    first = first.requires_grad_() * 1
                if way:
                    write = lambda x, rest=rest, call=call: op.apply((x, *rest), call.kwargs, x)  # noqa: E731
                else:
                    write = lambda x, rest=rest, call=call: getattr(x, name + "_")(*rest, **call.kwargs)  # noqa: E731
                with np.errstate(all="ignore"):
                    outcomes.append(outcome(write, first))
            assert len(set(map(str, outcomes))) <= 1


def test_operands_that_overlap_and_layouts() -> None:
    x = mt.arange(6.0)
    x[1:].add_(x[:-1])
    assert x.tolist() == [0.0, 1.0, 3.0, 5.0, 7.0, 9.0]
    square = mt.arange(4.0).reshape(2, 2)
    square.add_(square.T)
    assert square.tolist() == [[0.0, 3.0], [3.0, 6.0]]
    square.T.mul_(2.0)
    assert square.tolist() == [[0.0, 6.0], [6.0, 12.0]]
    square.sub_(mt.tensor([1.0, 2.0]))
    assert square._version == 3
    with pytest.raises(RuntimeError):
        mt.zeros(3).add_(mt.zeros(2, 3))
    with pytest.raises(TypeError):
        mt.zeros(3).add_(mt.zeros(3), beta=2)
    with pytest.raises(TypeError):
        mt.zeros(3).add_()


def test_a_short_write_is_seen_by_everybody() -> None:
    x = mt.zeros(3, requires_grad=True)
    y = x * mt.ones(3)
    weights = mt.ones(3)
    product = (y * weights).sum()
    alias = weights.detach()
    alias.add_(1.0)
    assert (weights._version, weights.tolist()) == (1, [2.0] * 3)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()
    with pytest.raises(RuntimeError, match="leaf Variable"):
        x.mul_(2.0)
    with mt.no_grad():
        x.add_(weights)
    assert (x.tolist(), x._version, x.is_leaf) == ([2.0] * 3, 1, True)


# out=


@pytest.mark.parametrize("n", [4, 300])
@pytest.mark.parametrize("name", ["matmul", "add", "fft"])
def test_memory_that_cannot_be_written(name: str, n: int) -> None:
    """Read-only arrays, of small and of large results, and expanded tensors; nothing is changed."""
    call = mt.fft.fft if name == "fft" else getattr(mt, name)
    dtype = np.complex64 if name == "fft" else np.float32
    read_only = np.zeros((n, n), dtype)
    read_only.flags.writeable = False
    arguments = (mt.ones(n, n),) * (1 if name == "fft" else 2)
    with pytest.raises(RuntimeError, match="read-only"):
        call(*arguments, out=mt.from_numpy(read_only))
    assert not read_only.any()
    expanded = mt.zeros(1, dtype=mt.complex64 if name == "fft" else mt.float32).expand(n, n)
    with pytest.raises(RuntimeError, match="single memory location"):
        call(*arguments, out=expanded)
    assert not expanded.numpy().any()


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda a, out: mt.matmul(a, a, out=out), lambda a: a @ a),
        (lambda a, out: mt.mm(a, a, out=out), lambda a: a @ a),
        (lambda a, out: mt.bmm(a[None], a[None], out=out), lambda a: (a @ a)[None]),
        (lambda a, out: mt.addmv(a[0], a, a[1], out=out), lambda a: a[0] + a @ a[1]),
    ],
)
def test_ops_and_what_is_made_of_them_write_into_out(call: Any, expected: Any) -> None:
    a = mt.arange(9.0).reshape(3, 3)
    wanted = expected(a)
    out = mt.zeros(wanted.shape)
    memory, version = out._array, out._version
    assert call(a, out) is out
    assert out._array is memory
    assert out._version > version
    assert out.equal(wanted)


def test_out_takes_a_tuple_for_several_results() -> None:
    a = mt.tensor([[3.0, 1.0, 2.0]])
    values, indices = mt.zeros(1, 3), mt.zeros(1, 3, dtype=mt.int64)
    result = mt.sort(a, out=(values, indices))
    assert result.values is values
    assert values.tolist() == [[1.0, 2.0, 3.0]]
    assert indices.tolist() == [[1, 2, 0]]


@pytest.mark.parametrize("function", [mt.matmul, mt.mm])
def test_out_is_refused_with_gradients(function: Any) -> None:
    a = mt.ones(2, 2, requires_grad=True)
    out = mt.zeros(2, 2)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        function(a, a, out=out)
    assert out.sum() == 0
    with pytest.raises(RuntimeError, match="can't be cast"):
        function(a.detach(), a.detach(), out=mt.zeros(2, 2, dtype=mt.int64))
    with pytest.raises(TypeError, match="must be a Tensor"):
        function(a.detach(), a.detach(), out=[[0.0]])


SIDES = (160, 96, 192)


def offered_products() -> list[Any]:
    return [
        pytest.param(lambda a, b, out: mt.matmul(a, b, out=out), id="matmul"),
        pytest.param(lambda a, b, out: mt.mm(a, b, out=out), id="mm"),
        pytest.param(lambda a, b, out: mt.addmm(mt.ones(b.shape[1]), a, b, out=out), id="addmm"),
        pytest.param(lambda a, b, out: mt.linalg.multi_dot([a, b, mt.eye(b.shape[1])], out=out), id="multi_dot"),
        pytest.param(lambda a, b, out: mt.einsum("ij,jk->ik", a, b, out=out), id="einsum"),
        pytest.param(lambda a, b, out: mt.matmul(a.unsqueeze(0), b, out=out.unsqueeze(0)), id="batch"),
    ]


@pytest.mark.parametrize("precision", ["ieee", "bf16"])
@pytest.mark.parametrize("call", offered_products())
def test_large_products_are_made_in_out(call: Any, precision: str) -> None:
    """Whatever lies in `out`, wherever it lies: in memory of its own, in that of an operand, between other values."""
    m, k, n = SIDES
    a, b = mt.randn(m, k), mt.randn(k, n)
    with mt.backends.flags(fp32_precision=precision):
        wanted = call(a, b, mt.empty(m, n)).reshape(m, n)
        frame = mt.full((m + 2, n + 3), 7.0)
        for out in (mt.full((m, n), float("nan")), frame[1:-1, 2:-1], mt.zeros(n, m).T):
            call(a, b, out)
            assert out.equal(wanted)
        assert frame.eq(7).sum() == frame.numel() - m * n
        both = mt.zeros(2 * m * n)
        both[: m * k] = a.reshape(-1)
        for start in (0, m * k // 2, m * k):
            out = both[start : start + m * n].reshape(m, n)
            within = both[: m * k].reshape(m, k)
            within.copy_(a)
            call(within, b, out)
            assert out.equal(wanted)


OFFERED_TRANSFORMS: list[tuple[Callable[..., Any], tuple[int, ...], mt.dtype]] = [
    (mt.fft.fft, (40, 512), mt.complex64),
    (mt.fft.ifft, (80, 210), mt.complex64),
    (mt.fft.rfft, (80, 256), mt.float64),
    (mt.fft.irfft, (160, 129), mt.complex64),
    (mt.fft.fft2, (4, 64, 64), mt.complex64),
    (mt.fft.fft, (2, 1 << 17), mt.complex128),
]


@pytest.fixture
def one_thread() -> Iterator[None]:
    """On one thread matrices are transformed one by one; several threads would take one axis after the other."""
    with num_threads(1):
        yield


def test_results_are_made_in_out_unless_somebody_keeps_originals(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bool] = []
    asked = out_module._is_in_place
    monkeypatch.setattr(out_module, "_is_in_place", lambda *arrays: made.append(asked(*arrays)) or made[-1])
    x = mt.randn(40, 512, dtype=mt.complex64)
    out = mt.zeros_like(x)
    mt.fft.fft(x, out=out)
    with mt.autograd.graph.allow_mutation_on_saved_tensors():
        mt.fft.fft(x, out=out)
    mt.fft.fft(x, out=out)
    assert made == [True, False, True]


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(("call", "shape", "dtype"), OFFERED_TRANSFORMS)
def test_large_transforms_are_made_in_out(
    call: Callable[..., Any], shape: tuple[int, ...], dtype: mt.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In memory that begins on a cache line; in others too, but for those that are stored past the caches."""
    made: list[bool] = []
    asked = out_module._is_in_place
    monkeypatch.setattr(out_module, "_is_in_place", lambda *arrays: made.append(asked(*arrays)) or made[-1])
    x = mt.randn(*shape, dtype=dtype)
    wanted = call(x)
    frame = mt.zeros(wanted.numel() + 64, dtype=wanted.dtype)
    whole = -frame.data_ptr() % 64 // frame.element_size()
    for start in (whole, whole + 1):
        out = frame[start : start + wanted.numel()].reshape(wanted.shape)
        assert call(x, out=out) is out
        assert out.equal(wanted)
    assert made == [True, x.numel() < 1 << 17]
    if wanted.dtype is dtype:
        assert call(x, out=x).equal(wanted)


def test_values_that_an_implementation_refuses_reach_out_all_the_same() -> None:
    a = mt.randn(SIDES[0], SIDES[1])
    b = mt.randn(SIDES[1], SIDES[2])
    a[3, 5], a[100, 7] = 1e-41, float("inf")
    with mt.backends.flags(fp32_precision="bf16"):
        out = mt.zeros(SIDES[0], SIDES[2])
        mt.mm(a, b, out=out)
        assert out._array.tobytes() == (a @ b)._array.tobytes()


def test_intermediates_that_einsum_keeps_do_not_lie_in_out() -> None:
    a, b, c, d = (mt.randn(160, 160) for _ in range(4))
    chain = "ij,jk,kl->il"
    with mt.no_grad():
        wanted, other = mt.einsum(chain, a, b, c), mt.einsum(chain, a, b, d)
        out = mt.zeros(160, 160)
        assert mt.einsum(chain, a, b, c, share=True, out=out).equal(wanted)
        out.zero_()
        assert mt.einsum(chain, a, b, c, share=True).equal(wanted)
        assert mt.einsum(chain, a, b, d, share=True).equal(other)
