"""Libraries that compute with tensors: the right values, and flags that act in them."""

from typing import Any

import numpy as np
import opt_einsum
import pytest

import minitorch_backends as mt
from minitorch_backends.backends import flags

RNG = np.random.default_rng(0)
LEVELS = {"ieee": (0.0, 1e-6), "tf32": (1e-6, 1e-2), "bf16": (1e-5, 1e-1)}
"""The least and the greatest relative error of small networks at each precision."""


def need(library: str) -> Any:
    """The library, or the test is skipped."""
    return pytest.importorskip(library, reason=f"{library} is not installed")


def assert_flags_act(compute: Any, exact: complex) -> None:
    """Whether a scalar that is computed in float32 has the errors of each precision."""
    for precision, (least, greatest) in LEVELS.items():
        with flags(fp32_precision=precision):
            error = abs(complex(compute()) - exact) / abs(exact)
        assert least <= error < greatest, (precision, error)


# einops


def test_einops_finds_tensors() -> None:
    einops = need("einops")
    array = RNG.standard_normal((2, 6, 4))
    x = mt.tensor(array, requires_grad=True)
    for pattern, sizes in (("a (b c) d -> c (a d) b", {"b": 3}), ("a b c -> (c b a)", {}), ("a b c -> a c 1 b", {})):
        np.testing.assert_array_equal(
            einops.rearrange(x, pattern, **sizes).detach(), einops.rearrange(array, pattern, **sizes)
        )
    for reduction in ("sum", "mean", "max", "min", "prod"):
        found = einops.reduce(x, "a (b c) d -> b d", reduction, c=2)
        np.testing.assert_allclose(found.detach(), einops.reduce(array, "a (b c) d -> b d", reduction, c=2))
    repeated = einops.repeat(x, "a b c -> a (b r) c n", r=2, n=3)
    repeated.sum().backward()
    assert x.grad.unique().tolist() == [6.0]
    packed, shapes = einops.pack([x, x[:, 0]], "a * d")
    assert [each.shape for each in einops.unpack(packed, shapes, "a * d")] == [x.shape, x[:, 0].shape]
    np.testing.assert_allclose(
        einops.einsum(x, x, "a b c, d b c -> a d").detach(), np.tensordot(array, array, ((1, 2),) * 2)
    )
    layers = mt.nn.Sequential(
        mt.interop.einops.Rearrange("a b c -> a (b c)"), mt.interop.einops.Reduce("a b -> a", "max")
    )
    np.testing.assert_array_equal(layers(x).detach(), array.reshape(2, -1).max(1))


# opt_einsum, autoray, cotengra and quimb


def test_opt_einsum_contracts_tensors() -> None:
    arrays = [RNG.standard_normal(shape) for shape in ((3, 40), (40, 50), (50, 4))]
    tensors = [mt.tensor(each).float() for each in arrays]
    exact = np.linalg.multi_dot(arrays)
    assert_flags_act(lambda: opt_einsum.contract("ij,jk,kl->li", *tensors)[2, 1], exact[1, 2])
    for equation, *shapes in (
        ("bij,bjk->bki", (2, 3, 4), (2, 4, 5)),
        ("ii->i", (3, 3)),
        ("abc,bd,ce->ade", (2, 3, 4), (3, 5), (4, 6)),
    ):
        operands = [RNG.standard_normal(shape) for shape in shapes]
        found = opt_einsum.contract(equation, *map(mt.tensor, operands))
        np.testing.assert_allclose(found.numpy(), np.einsum(equation, *operands), atol=1e-12)
    shapes = [each.shape for each in arrays]
    constant = opt_einsum.contract_expression("ij,jk,kl->il", arrays[0], *shapes[1:], constants=[0])
    assert type(constant(*arrays[1:], backend="minitorch_backends")) is np.ndarray
    np.testing.assert_allclose(constant(*arrays[1:], backend="minitorch_backends"), exact)


def test_autoray_calls_functions_of_tensors() -> None:
    do = need("autoray").do
    array = RNG.standard_normal((4, 4)) + 4 * np.eye(4)
    x = mt.tensor(array)
    for name, *args in (
        ("tensordot", 1), ("transpose",), ("sum", 0), ("max",), ("exp",), ("reshape", (2, 8)), ("linalg.norm",),
        ("linalg.inv",), ("take", [1, 0], 1), ("pad", ((1, 0), (0, 2))), ("clip", -0.5, 0.5), ("trace",), ("diag",),
        ("flip", 0), ("expand_dims", 0), ("arctan",), ("cumsum", 0), ("swapaxes", 0, 1), ("split", 2, 1), ("dot",),
        ("conjugate",), ("power", 2), ("kron",), ("real",), ("imag",), ("where",), ("size",),
    ):  # fmt: skip
        two = (x,) if name in ("tensordot", "dot", "kron") else ()
        found = do(name, x, *two, *args)
        expected = do(name, array, *(array,) * len(two), *args)
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), atol=1e-12)
    u, s, vh = do("linalg.svd", x)
    np.testing.assert_allclose((u * s) @ vh, array)
    made = do("eye", 3, like=x)
    assert (type(made), made.dtype, do("to_numpy", made).tolist()) == (mt.Tensor, mt.float64, np.eye(3).tolist())


def test_autoray_draws_random_tensors() -> None:
    do = need("autoray").do
    first, second = (do("random.default_rng", 7, like="minitorch_backends") for _ in range(2))
    for name, *args in (("random",), ("uniform", 2.0, 3.0), ("normal", 5.0, 0.1), ("integers", 3, 9)):
        found = getattr(first, name)(*args, size=(200, 5))
        assert mt.equal(found, getattr(second, name)(*args, size=(200, 5)))
        low, high = {"random": (0, 1), "uniform": (2, 3), "normal": (4.4, 5.6), "integers": (3, 8)}[name]
        assert low <= found.min() < found.max() <= high
    assert first.permutation(9).sort().values.tolist() == list(range(9))
    assert first.choice(mt.tensor([4, 5, 6]), size=(2, 8), p=[0.5, 0.0, 0.5]).unique().tolist() == [4, 6]
    do("random.seed", 3, like="minitorch_backends")
    drawn = do("random.normal", size=(2, 3), dtype="float64", like="minitorch_backends")
    do("random.seed", 3, like="minitorch_backends")
    assert mt.equal(drawn, do("random.normal", size=(2, 3), dtype="float64", like="minitorch_backends"))


def test_cotengra_contracts_a_matrix_product_state() -> None:
    cotengra = need("cotengra")
    need("autoray")
    arrays = [RNG.standard_normal(shape) / 4 for shape in ((2, 8), *[(8, 2, 8)] * 4, (8, 2))]
    inner = [("p0", "b0"), *((f"b{k}", f"p{k + 1}", f"b{k + 1}") for k in range(4)), ("b4", "p5")]
    outer = [tuple(label.replace("b", "c") for label in term) for term in inner]
    exact = cotengra.array_contract(arrays * 2, inner + outer, (), optimize="greedy")
    state = arrays[0]
    for each in arrays[1:]:
        state = np.tensordot(state, each, 1)
    assert exact == pytest.approx((state**2).sum())
    tensors = [mt.tensor(each).float() for each in arrays]
    assert_flags_act(lambda: cotengra.array_contract(tensors * 2, inner + outer, (), optimize="greedy"), exact)


@pytest.mark.filterwarnings("ignore")
def test_quimb_computes_with_tensors() -> None:
    """The norm of a projected entangled pair state, and an amplitude of a circuit that entangles 6 qubits."""
    quimb = need("quimb.tensor")

    def on_tensors(network: Any, dtype: mt.dtype) -> Any:
        network = network.copy()
        network.apply_to_arrays(lambda array: mt.tensor(np.asarray(array)).to(dtype))
        return network

    state = quimb.PEPS.rand(3, 3, 2, seed=1, dtype="float64")
    exact, state = (state.H & state).contract(optimize="greedy"), on_tensors(state, mt.float32)
    assert_flags_act(lambda: (state.H & state).contract(optimize="greedy"), exact)
    circuit = quimb.Circuit(6)
    for layer in range(3):
        for qubit in range(6):
            circuit.apply_gate("U3", *RNG.uniform(0, 3, 3), qubit)
        for qubit in range(layer % 2, 5, 2):
            circuit.apply_gate("CZ", qubit, qubit + 1)
    network = circuit.amplitude("010110", rehearse="tn", simplify_sequence="")
    exact, network = network.contract(optimize="greedy"), on_tensors(network, mt.complex64)
    assert_flags_act(lambda: network.contract(optimize="greedy"), exact)


# threadpoolctl


def test_threadpoolctl_limits_the_kernels() -> None:
    threadpoolctl = need("threadpoolctl")
    before, x = mt.get_num_threads(), mt.randn(300, 300)
    expected = x @ x

    def counts() -> list[int]:
        found = threadpoolctl.threadpool_info()
        return [each["num_threads"] for each in found if each["internal_api"] == "minitorch_backends"]

    for options in ({}, {"user_api": "minitorch_backends"}):
        assert counts() == [before]
        with threadpoolctl.threadpool_limits(3, **options):
            assert counts() == [3] == [mt.get_num_threads()]
            assert mt.equal(x @ x, expected)
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        assert counts() == [before]
