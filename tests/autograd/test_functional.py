"""Derivatives of functions: autograd.functional, func, forward mode, checkpoints, against formulas and each other."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import func
from minitorch_backends.autograd import Function, functional, grad, gradcheck, gradgradcheck
from minitorch_backends.autograd.forward_ad import dual_level, make_dual, unpack_dual
from minitorch_backends.func.batched import flat
from minitorch_backends.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
    set_checkpoint_early_stop,
)

from ..support.autograd import leaf, tensor, values
from ..support.calls import OPS, UNDERIVABLE, leaves_of, replace_tensors, results, run, samples_of, takes, tensors


def cubes(x: mt.Tensor) -> mt.Tensor:
    return x**3


def mix(x: mt.Tensor, y: mt.Tensor) -> tuple[mt.Tensor, mt.Tensor]:
    return x * y.sum(), (x.sin() * y[0]).sum()


X, Y = [1.0, 2.0, 3.0], [0.5, -1.0]
UNITS = np.eye(3)


# autograd.functional


def test_jacobian_of_one_and_of_several() -> None:
    assert np.allclose(functional.jacobian(cubes, tensor(X)).numpy(), np.diag(3 * np.array(X) ** 2))
    single = functional.jacobian(lambda x: (x * 2, x.sum()), tensor(X))
    assert [list(each.shape) for each in single] == [[3, 3], [3]]
    (xx, xy), (sx, sy) = functional.jacobian(mix, (tensor(X), tensor(Y)))
    assert np.allclose(xx.numpy(), UNITS * np.sum(Y))
    assert np.allclose(xy.numpy(), np.outer(X, [1, 1]))
    assert np.allclose(sx.numpy(), np.cos(X) * Y[0])
    assert np.allclose(sy.numpy(), [np.sin(X).sum(), 0])
    wide = functional.jacobian(lambda x: x[:, None] * x, tensor(X))
    assert list(wide.shape) == [3, 3, 3]
    assert list(functional.jacobian(lambda x: x[:0], tensor(X)).shape) == [0, 3]


def test_jacobian_by_columns_is_the_same() -> None:
    for function, inputs in ((cubes, tensor(X)), (mix, (tensor(X), tensor(Y))), (lambda x: x.view(3, 1), tensor(X))):
        rows = functional.jacobian(function, inputs)
        columns = functional.jacobian(function, inputs, strategy="forward-mode", vectorize=True)
        for one, other in zip(flat(rows)[0], flat(columns)[0], strict=True):
            assert np.allclose(one.numpy(), other.numpy())
    with pytest.raises(AssertionError):
        functional.jacobian(cubes, tensor(X), strategy="sideways")
    with pytest.raises(NotImplementedError):
        functional.jacobian(cubes, tensor(X), create_graph=True, strategy="forward-mode")


def test_hessian_and_its_products() -> None:
    x, v = tensor(X), tensor([1.0, 0.0, 2.0])

    def function(x: mt.Tensor) -> mt.Tensor:
        return (x**3).sum() * x[0]

    h = np.diag(6 * np.array(X) * X[0])
    h[0] += 3 * np.array(X) ** 2
    h[:, 0] += 3 * np.array(X) ** 2
    assert np.allclose(functional.hessian(function, x).numpy(), h)
    for product in (functional.vhp, functional.hvp):
        value, result = product(function, x, v)
        assert (value.item(), value.requires_grad) == (36.0, False)
        assert np.allclose(result.numpy(), h @ v.numpy())
    blocks = functional.hessian(lambda x, y: (x * y.sum()).sum(), (x, tensor(Y)))
    assert [[list(each.shape) for each in row] for row in blocks] == [[[3, 3], [3, 2]], [[2, 3], [2, 2]]]
    assert values(blocks[0][1]) == [[1.0, 1.0]] * 3
    for bad in (lambda x: x * 2, lambda x: (x.sum(), x.sum())):
        with pytest.raises(RuntimeError, match="single"):
            functional.hessian(bad, x)


def test_vjp_and_jvp() -> None:
    x, y = tensor(X), tensor(Y)
    outputs, products = functional.vjp(mix, (x, y), (tensor([1.0, 2.0, 3.0]), tensor(1.0)))
    assert values(outputs[0]) == [-0.5, -1.0, -1.5]
    jacobian = functional.jacobian(mix, (x, y))
    assert np.allclose(products[0].numpy(), jacobian[0][0].numpy().T @ [1, 2, 3] + jacobian[1][0].numpy())
    _, pushed = functional.jvp(mix, (x, y), (tensor([1.0, 1.0, 0.0]), tensor([2.0, 0.0])))
    assert np.allclose(pushed[0].numpy(), jacobian[0][0].numpy() @ [1, 1, 0] + jacobian[0][1].numpy() @ [2, 0])
    assert values(functional.vjp(lambda x: x.sum(), x)[1]) == [1.0] * 3
    for wrong in ((cubes, x, None), (cubes, x, tensor([1.0])), (cubes, x, (x, x)), (cubes, x, 3.0)):
        with pytest.raises((RuntimeError, TypeError)):
            functional.vjp(*wrong)
    with pytest.raises(TypeError, match="inputs"):
        functional.jacobian(cubes, [1.0])
    with pytest.raises(TypeError, match="outputs"):
        functional.jacobian(lambda x: 3.0, x)


def test_create_graph_and_strict() -> None:
    x = leaf(X)
    jacobian = functional.jacobian(cubes, x, create_graph=True)
    (second,) = grad(jacobian.sum(), x)
    assert np.allclose(second.numpy(), 6 * np.array(X))
    assert not functional.jacobian(cubes, x).requires_grad
    for function in (functional.vjp, functional.jvp, functional.vhp, functional.hvp):
        scalar = function in (functional.vhp, functional.hvp)
        body: Any = (lambda x: (x**3).sum()) if scalar else cubes
        _, result = function(body, x, tensor([1.0, 1.0, 1.0]), create_graph=True)
        (second,) = grad(result.sum(), x)
        assert np.allclose(second.numpy(), 6.0 if scalar else 6 * np.array(X))
    assert x.grad is None
    with pytest.raises(RuntimeError, match="independent"):
        functional.jacobian(lambda x: tensor([1.0]), x, strict=True)
    with pytest.raises(RuntimeError, match="independent"):
        functional.jacobian(lambda x, y: x * 2, (x, x), strict=True)
    assert values(functional.jacobian(lambda x: tensor([1.0]), x)) == [[0.0] * 3]
    with mt.no_grad():
        assert np.allclose(functional.jacobian(cubes, x).numpy(), np.diag(3 * np.array(X) ** 2))


# func


def test_grad_of_grad() -> None:
    x = tensor(2.0)
    derivatives = [lambda x: x**4]
    for _ in range(4):
        derivatives.append(func.grad(derivatives[-1]))
    assert [each(x).item() for each in derivatives] == [16.0, 32.0, 48.0, 48.0, 24.0]
    assert not derivatives[2](x).requires_grad


def test_grad_and_value() -> None:
    x, y = tensor(X), tensor(Y)

    def loss(x: mt.Tensor, y: mt.Tensor, *, scale: float = 1.0) -> mt.Tensor:
        return (x**2).sum() * y.sum() * scale

    gradient, value = func.grad_and_value(loss, argnums=(0, 1))(x, y, scale=2.0)
    assert value.item() == -14.0
    assert (values(gradient[0]), values(gradient[1])) == ([-2.0, -4.0, -6.0], [28.0, 28.0])
    with_aux = func.grad(lambda x: ((x**2).sum(), "aux"), has_aux=True)
    assert with_aux(x)[1] == "aux"
    assert values(with_aux(x)[0]) == [2.0, 4.0, 6.0]
    tree = func.grad(lambda p: (p["w"] * p["b"][0]).sum())({"w": x, "b": (tensor(2.0), tensor(1.0))})
    assert (values(tree["w"]), values(tree["b"][0]), values(tree["b"][1])) == ([2.0] * 3, 6.0, 0.0)
    for bad in (lambda x: x * 2, lambda x: (x.sum(), x.sum()), lambda x: 3.0):
        with pytest.raises(RuntimeError):
            func.grad(bad)(x)
    with pytest.raises(RuntimeError, match="argnum=3"):
        func.grad(loss, argnums=3)(x, y)
    with pytest.raises(RuntimeError, match="floating and complex"):
        func.grad(loss)(mt.arange(3), y)


def test_functions_see_what_surrounds_them() -> None:
    w, x = leaf(X), tensor([1.0, 1.0, 1.0])
    gradient = func.grad(lambda x: (x * x * w).sum())(x)
    gradient.sum().backward()
    assert values(w.grad) == [2.0, 2.0, 2.0]
    y = leaf(X)
    (second,) = grad(func.grad(lambda x: (x**3).sum())(y).sum(), y)
    assert values(second) == [6.0, 12.0, 18.0]
    assert y.grad is None
    with mt.no_grad():
        assert not func.grad(lambda x: (x**3).sum())(y).requires_grad

    def writes(x: mt.Tensor) -> mt.Tensor:
        x.mul_(2)
        return (x * x).sum()

    given = tensor(X)
    assert values(func.grad(writes)(given)) == [8.0, 16.0, 24.0]
    assert values(given) == [2.0, 4.0, 6.0]


def test_vjp_jvp_and_jacobians() -> None:
    x, y = tensor(X), tensor(Y)
    output, pull = func.vjp(mix, x, y)
    assert values(output[0]) == [-0.5, -1.0, -1.5]
    rows, columns = func.jacrev(mix, (0, 1))(x, y), func.jacfwd(mix, (0, 1))(x, y)
    for one, other in zip(flat(rows)[0], flat(columns)[0], strict=True):
        assert np.allclose(one.numpy(), other.numpy())
    g = pull((tensor([1.0, 2.0, 3.0]), tensor(1.0)))
    assert np.allclose(g[1].numpy(), rows[0][1].numpy().T @ [1, 2, 3] + rows[1][1].numpy())
    _, pushed, aux = func.jvp(lambda x: (cubes(x), 7), (x,), (tensor([1.0, 0.0, 1.0]),), has_aux=True)
    assert (values(pushed), aux) == ([3.0, 0.0, 27.0], 7)
    assert np.allclose(func.hessian(lambda x: cubes(x).sum())(x).numpy(), np.diag(6 * np.array(X)))
    assert np.allclose(
        func.jacrev(func.grad(lambda x: cubes(x).sum()))(x).numpy(), func.hessian(lambda x: cubes(x).sum())(x).numpy()
    )
    for wrong in ((cubes, x, x), (cubes, (x,), (x, x)), (cubes, (x,), (y,))):
        with pytest.raises(RuntimeError):
            func.jvp(*wrong)
    with pytest.raises(RuntimeError, match="cotangents"):
        pull((x,))


# Forward mode

FUNCTIONS: dict[str, Callable[[mt.Tensor], Any]] = {
    "elementwise": lambda x: (x.exp() * x.sin() / (x + 2)).tanh(),
    "reductions": lambda x: x.softmax(0) * x.logsumexp(0) + x.max(),
    "matmul": lambda x: x[:, None] @ x[None] @ x,
    "views": lambda x: mt.cat([x.view(3, 1).T.flip(0).reshape(3), x.expand(2, 3)[1]]) * 2,
    "sort": lambda x: x.sort(descending=True).values * x.unbind()[1],
    "constant": lambda x: x.detach() * 2,
    "writes": lambda x: _write(x.clone()),
}


def _write(y: mt.Tensor) -> mt.Tensor:
    y[1:].mul_(y[:-1].clone())
    y[0] = y[2] * 3
    y.view(3, 1).sin_()
    y[[0, 2]] = y[[2, 0]] * 2
    first = y[:1]
    y.add_(1)
    return first * y


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("mode", [mt.enable_grad, mt.no_grad])
def test_dual_tensors(name: str, mode: Any) -> None:
    function, x, t = FUNCTIONS[name], tensor([0.3, 0.7, 1.9]), tensor([1.0, -2.0, 0.5])
    with dual_level(), mode():
        primal, tangent = unpack_dual(function(make_dual(x, t)))
    value, wanted = functional.jvp(function, x, t)
    assert np.allclose(primal.numpy(), value.numpy())
    assert np.allclose(0 if tangent is None else tangent.numpy(), wanted.numpy())
    assert not primal.requires_grad


def test_what_has_no_derivative_has_no_tangents() -> None:
    with dual_level(), pytest.raises(NotImplementedError, match="the derivative of geqrf is not implemented"):
        mt.geqrf(make_dual(mt.eye(2), mt.eye(2)))


@pytest.mark.parametrize("name", [name for name in OPS if takes(name, mt.float64) and name not in UNDERIVABLE])
def test_every_op_has_tangents(name: str) -> None:
    """<g, J t> is <J' g, t>, where the one comes from forward mode and the other from backward."""
    random = np.random.default_rng(0)
    for sample in samples_of(name)[:3]:
        call = tensors(sample, mt.float64, True)
        leaves = leaves_of(call)
        mt.manual_seed(0)
        outputs = [out for out in results(run(name, call)) if out.requires_grad]
        if not outputs:
            continue
        weights = [mt.tensor(np.asarray(random.normal(size=out.shape)).astype(out._array.dtype)) for out in outputs]
        directions = [mt.tensor(np.asarray(random.normal(size=x.shape))) for x in leaves]
        pulled = grad(outputs, leaves, weights, materialize_grads=True)
        mt.manual_seed(0)
        with dual_level():
            duals = {id(x): make_dual(x, t) for x, t in zip(leaves, directions, strict=True)}
            pushed = [unpack_dual(out) for out in results(run(name, replace_tensors(call, duals)))]
            tangents = [each.tangent for each in pushed if each.primal.requires_grad]
        assert len(tangents) == len(weights)
        forward = sum((g.conj() * t).real.sum().item() for g, t in zip(weights, tangents, strict=True) if t is not None)
        assert np.isclose(forward, sum((g * t).sum().item() for g, t in zip(pulled, directions, strict=True)))


def test_dual_tensors_of_several_inputs_types_and_results() -> None:
    z, dz = mt.tensor([1 + 2j, 3j]), mt.tensor([1j, 2.0 + 0j])
    with dual_level():
        dual = make_dual(z, dz)
        assert unpack_dual(dual * dual).tangent.tolist() == (2 * z * dz).tolist()
        assert unpack_dual((dual * dual.conj()).real).tangent.tolist() == (2 * (z.conj() * dz).real).tolist()
        a, b = make_dual(tensor([2.0]), tensor([1.0])), make_dual(tensor([3.0]), tensor([10.0]))
        assert values(unpack_dual(a * b).tangent) == [23.0]
        assert values(unpack_dual(a * 3 + tensor([1.0])).tangent) == [3.0]
        low, at = tensor([5.0, 1.0]), make_dual(tensor([3.0, 2.0]), tensor([1.0, 0.0]))
        assert unpack_dual(at.argmax()).tangent is None
        assert values(unpack_dual(mt.where(low > 2, at, low)).tangent) == [1.0, 0.0]
        first, second = (at * 2).unbind()
        assert (values(unpack_dual(first).tangent), values(unpack_dual(second).tangent)) == (2.0, 0.0)
        plain = tensor([0.0, 0.0])
        plain[0] = first
        assert values(unpack_dual(plain).tangent) == [2.0, 0.0]
        plain.zero_()
        assert values(unpack_dual(plain).tangent) == [0.0, 0.0]


def test_reverse_over_forward() -> None:
    x, t = leaf(X), tensor([1.0, 0.0, 2.0])
    with dual_level():
        tangent = unpack_dual((make_dual(x, t) ** 3).sum()).tangent
    assert values(grad(tangent, x)[0]) == [6.0, 0.0, 36.0]


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - {"constant"}))
def test_forward_over_reverse(name: str) -> None:
    x, t = leaf([0.3, 0.7, 1.9]), tensor([1.0, -2.0, 0.5])

    def total(x: mt.Tensor) -> mt.Tensor:
        return (FUNCTIONS[name](x) ** 2).sum()

    with dual_level():
        (g,) = grad(total(make_dual(x, t)), x)
        tangent = unpack_dual(g).tangent
    assert np.allclose(tangent.numpy(), functional.hvp(total, x, t)[1].numpy())
    assert gradgradcheck(FUNCTIONS[name], (x,), check_fwd_over_rev=True)


def test_levels_and_what_is_refused() -> None:
    x = tensor(X)
    with pytest.raises(RuntimeError, match="no level exists"):
        make_dual(x, x)
    with dual_level():
        dual = make_dual(x, x)
        with pytest.raises(RuntimeError, match="Nested"), dual_level():
            pass
        assert make_dual(x, x.float()).dtype is x.dtype
        for bad in (tensor(Y), 3.0, None):
            with pytest.raises(RuntimeError, match="expected a tangent like the primal"):
                make_dual(x, bad)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="floating or complex"):
            make_dual(mt.arange(3), mt.arange(3))
        assert unpack_dual(x).tangent is None
    assert unpack_dual(dual).tangent is None
    assert unpack_dual(dual).primal is dual


def test_a_functions_own_jvp() -> None:
    class Cube(Function):
        @staticmethod
        def forward(ctx: Any, x: mt.Tensor, power: int) -> mt.Tensor:
            ctx.save_for_forward(x)
            return x**power

        @staticmethod
        def jvp(ctx: Any, t: mt.Tensor, none: None) -> mt.Tensor:
            assert none is None
            (x,) = ctx.saved_tensors
            return t * 3 * x * x

    class Without(Function):
        @staticmethod
        def forward(ctx: Any, x: mt.Tensor) -> mt.Tensor:
            return x * 2

    with dual_level():
        dual = make_dual(tensor(X), tensor([1.0, 1.0, 0.0]))
        assert values(unpack_dual(Cube.apply(dual, 3)).tangent) == [3.0, 12.0, 0.0]
        with pytest.raises(NotImplementedError, match="jvp"):
            Without.apply(dual)


def test_gradcheck_of_forward_mode() -> None:
    for name, function in FUNCTIONS.items():
        if name != "constant":
            assert gradcheck(function, (leaf([0.3, 0.7, 1.9]),), check_forward_ad=True)


# Checkpoints


def layers(x: mt.Tensor, w: mt.Tensor, noise: bool = True) -> mt.Tensor:
    y = (x @ w).sin()
    y = y * mt.rand(4, 4, dtype=mt.float64) if noise else y
    return (y.exp() @ w).tanh()


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_checkpoint_changes_nothing_but_memory(use_reentrant: bool) -> None:
    gradients = []
    for checkpointed in (False, True):
        mt.manual_seed(3)
        x, w = leaf(np.eye(4) * 0.3 + 0.1), leaf(np.eye(4) + 0.2)
        y = checkpoint(layers, x * 1, w, use_reentrant=use_reentrant) if checkpointed else layers(x * 1, w)
        (y * y).sum().backward()
        gradients.append((values(x.grad), values(w.grad), mt.rand(1).item()))
    assert gradients[0] == gradients[1]


def test_checkpoints_that_save_by_hooks() -> None:
    x, w = leaf(np.eye(4) * 0.3), leaf(np.eye(4) + 0.2)

    def function(x: mt.Tensor) -> mt.Tensor:
        return checkpoint(layers, x, w=w, noise=False, use_reentrant=False)

    assert gradcheck(function, (x,))
    (g,) = grad(function(x).sum(), x, create_graph=True)
    (second,) = grad(g.sum(), x)
    (wanted,) = grad(layers(x, w, False).sum(), x, create_graph=True)
    assert np.allclose(second.numpy(), grad(wanted.sum(), x)[0].numpy())
    out = function(x).sum()
    out.backward(retain_graph=True)
    out.backward()
    with pytest.raises(RuntimeError, match="second time"):
        out.backward()
    nested = checkpoint(lambda x: function(function(x)), x, use_reentrant=False)
    plain = layers(layers(x, w, False), w, False)
    assert np.allclose(grad(nested.sum(), x)[0].numpy(), grad(plain.sum(), x)[0].numpy())
    with mt.no_grad():
        assert not function(x).requires_grad


@pytest.mark.parametrize("function", [lambda x: x.exp(), lambda x: x.mul_(2).exp()])
def test_a_checkpoint_is_given_what_it_had(function: Any) -> None:
    """Computing it again from what was written to since would give the gradient of something else."""
    y = leaf([1.0, 2.0]) * 1
    z = checkpoint(function, y, use_reentrant=False)
    y.mul_(2)
    with pytest.raises(RuntimeError, match=r"tensor 0 that a checkpointed function was given, .* is at version"):
        z.sum().backward()


def test_a_checkpoint_stops_when_it_has_what_it_needs() -> None:
    runs: list[str] = []

    def function(x: mt.Tensor) -> mt.Tensor:
        y = x.exp()
        runs.append("saved")
        z = y + 1
        runs.append("end")
        return z

    for early_stop, expected in ((True, ["saved", "end"]), (False, ["saved", "end"] * 2)):
        runs.clear()
        checkpoint(function, leaf([1.0]), use_reentrant=False, early_stop=early_stop).sum().backward()
        assert runs == expected
        runs.clear()
        with set_checkpoint_early_stop(not early_stop), set_checkpoint_early_stop(early_stop):
            out = checkpoint(function, leaf([1.0]), use_reentrant=False, early_stop=not early_stop)
        out.sum().backward()
        assert runs == expected
    with pytest.raises(TypeError, match="must be True or False"):
        set_checkpoint_early_stop(1)  # type: ignore[arg-type]


def test_checkpoints_take_less_memory() -> None:
    def peak(checkpointed: bool) -> int:
        def block(x: mt.Tensor) -> mt.Tensor:
            return ((x.sin() * 1.1).cos() * 1.2).tanh()

        tracemalloc.start()
        x = y = leaf(np.ones((100, 100)))
        for _ in range(32):
            y = checkpoint(block, y, use_reentrant=False) if checkpointed else block(y)
        y.sum().backward()
        result = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert x.grad is not None
        return result

    peak(True)
    assert peak(True) < 0.6 * peak(False)


def test_checkpoints_that_are_not_deterministic_or_ill_used() -> None:
    x = leaf([1.0, 2.0])
    flips = iter([True, False, True, False])

    def fewer(x: mt.Tensor) -> mt.Tensor:
        return x.exp().sin() if next(flips) else x * 2

    def smaller(x: mt.Tensor) -> mt.Tensor:
        return (x if next(flips) else x[:1]).exp().sum()

    for function in (fewer, smaller):
        with pytest.raises(CheckpointError, match="the same both times"):
            checkpoint(function, x, use_reentrant=False).sum().backward()
    with pytest.warns(UserWarning, match="use_reentrant"):
        checkpoint(cubes, x)
    with pytest.raises(ValueError, match="excludes keywords"):
        checkpoint(layers, x, use_reentrant=True, noise=False)
    with pytest.raises(ValueError, match="determinism_check"):
        checkpoint(cubes, x, use_reentrant=False, determinism_check="some")
    with pytest.raises(RuntimeError, match="has no effect"):
        checkpoint(lambda x: x.detach() * 2, x, use_reentrant=True).sum().backward()


@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.parametrize("segments", [1, 2, 3])
def test_checkpoint_sequential(segments: int, use_reentrant: bool) -> None:
    steps = [mt.sin, mt.exp, lambda x: x * x, mt.tanh, mt.cos]
    x, wanted = leaf([0.3, 0.5]), leaf([0.3, 0.5])
    checkpoint_sequential(steps, segments, x, use_reentrant=use_reentrant).sum().backward()
    y = wanted
    for step in steps:
        y = step(y)
    y.sum().backward()
    assert values(x.grad) == values(wanted.grad)
    with pytest.raises(ValueError, match="segments"):
        checkpoint_sequential(steps, 9, x, use_reentrant=use_reentrant)


FOLLOWED: dict[str, tuple[Any, tuple[int, ...]]] = {
    "einsum": (lambda x: mt.einsum("ij,kj->ik", x, x), (3, 4)),
    "einsum of three": (lambda x: mt.einsum("ij,kj,kl->il", x, x, x), (3, 4)),
    "max_pool2d": (lambda x: mt.nn.functional.max_pool2d(x, 2), (1, 1, 4, 4)),
    "Conv1d": (mt.nn.Conv1d(3, 2, 2).double(), (1, 3, 5)),
    "ConvTranspose2d": (mt.nn.ConvTranspose2d(2, 3, 2).double(), (1, 2, 3, 3)),
    "Linear": (mt.nn.Linear(4, 3).double(), (2, 4)),
    "solve": (lambda x: mt.linalg.solve(mt.eye(4, dtype=mt.float64) + 0.1, x), (4, 2)),
    "relu in place": (lambda x: mt.nn.functional.relu(x.clone(), inplace=True), (3, 3)),
    "attention": (lambda x: mt.nn.functional.scaled_dot_product_attention(x, x, x), (1, 2, 5, 4)),
}


@pytest.mark.parametrize("mode", [mt.enable_grad, mt.no_grad])
@pytest.mark.parametrize("name", FOLLOWED)
def test_tangents_of_tensors_that_require_no_gradients(name: str, mode: Any) -> None:
    """Forward mode goes along also where nothing is recorded."""
    function, shape = FOLLOWED[name]
    rng = np.random.default_rng(0)
    x, t = (mt.tensor(rng.standard_normal(shape)) for _ in range(2))
    with mt.no_grad():
        expected = (function(x + t * 1e-6) - function(x - t * 1e-6)) / 2e-6
    with dual_level(), mode():
        tangent = unpack_dual(function(make_dual(x, t))).tangent
    assert np.allclose(tangent.detach().numpy(), expected.numpy(), rtol=1e-6, atol=1e-6)


def test_what_comes_beside_a_gradient_has_no_graph() -> None:
    x = mt.ones(2)
    for found in (
        mt.func.grad(lambda x: (x.sum(), {"twice": x * 2}), has_aux=True)(x)[1],
        mt.func.vjp(lambda x: (x.sum(), {"twice": x * 2}), x, has_aux=True)[2],
        mt.func.jacrev(lambda x: (x.sum(), {"twice": x * 2}), has_aux=True)(x)[1],
    ):
        assert found["twice"].tolist() == [2.0, 2.0]
        assert not found["twice"].requires_grad


def test_transforms_of_functions_differentiate_in_inference_mode() -> None:
    func, x = mt.func, mt.tensor([1.0, 2.0])
    with mt.inference_mode():
        assert func.grad(lambda x: (x**2).sum())(x).tolist() == [2.0, 4.0]
        assert func.jvp(lambda x: x * x, (x,), (mt.ones(2),))[1].tolist() == [2.0, 4.0]
        assert func.hessian(lambda x: (x**3).sum())(x).tolist() == [[6.0, 0.0], [0.0, 12.0]]
        assert func.grad(lambda x: (x**2).sum())(x * 2).tolist() == [4.0, 8.0]
    for argnums in ((0, 0), (0, -2), ()):
        with pytest.raises(RuntimeError, match="argnums names each argument"):
            func.grad(lambda a, b: (a * b).sum(), argnums=argnums)(x, x)
