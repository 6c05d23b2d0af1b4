"""vmap: every operation over a batch against one call for each sample; nested, with derivatives, random numbers and
modules."""

import re
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import func, nn
from minitorch_backends.dispatch.op import Op
from minitorch_backends.func.rules import rule_of
from minitorch_backends.tensor.registry import registry

from ..declared.samples import Sample
from ..support.calls import arrays_in, map_arrays, run, samples_of, takes

MOST_ELEMENTS = 100


def reversed_values(array: np.ndarray) -> np.ndarray:
    """Another sample of the same values."""
    return array.ravel()[::-1].copy().reshape(array.shape)


def floats_of(call: Sample) -> list[np.ndarray]:
    return [each for each in arrays_in(call) if each.dtype == np.float64 and each.size]


def leaves(result: Any) -> list[mt.Tensor]:
    return [leaf for each in (result if isinstance(result, (tuple, list)) else [result]) for leaf in
            (leaves(each) if isinstance(each, (tuple, list)) else [each])]  # fmt: skip


def calls_of(name: str) -> list[Sample]:
    found = [call for call in samples_of(name) if floats_of(call)]
    return [call for call in found if sum(each.size for each in arrays_in(call)) <= MOST_ELEMENTS][:4]


RANDOM = {"rrelu", "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"}
RANDOM |= {name for name in registry if name.startswith("fractional_max_pool")}
NOT_TENSORS = {"is_nonzero", "allclose", "equal"}
"""Functions that return no tensors."""

NAMES = sorted(name for name in registry if takes(name, mt.float64) and name not in RANDOM | NOT_TENSORS)


@pytest.mark.parametrize("name", [name for name, each in registry.items() if isinstance(each, Op)])
def test_every_op_has_a_rule_or_says_why_not(name: str) -> None:
    rule, declared = rule_of(registry[name]), registry[name].batch
    assert rule is not None or re.fullmatch(r"loop: \w.{9,}", declared)


@pytest.mark.parametrize("name", NAMES)
def test_operations_of_a_batch(name: str) -> None:
    for call in calls_of(name):
        count = len(floats_of(call))
        masks = {(True,) * count, (True, *(False,) * (count - 1)), (*(False,) * (count - 1), True)}
        for batched in masks:
            check(name, call, batched)


def check(name: str, call: Sample, batched: tuple[bool, ...]) -> None:
    """Two samples that differ in the `batched` float arrays."""
    floats = floats_of(call)

    def with_floats(values: Any) -> Sample:
        left = iter(values)

        def place(array: np.ndarray) -> Any:
            return next(left) if array.dtype == np.float64 and array.size else mt.tensor(array)

        return Sample(map_arrays(call.args, place), {key: map_arrays(each, place) for key, each in call.kwargs.items()})

    samples = [
        floats,
        [reversed_values(each) if is_batched else each for each, is_batched in zip(floats, batched, strict=True)],
    ]
    try:
        expected = [leaves(run(name, with_floats([mt.tensor(each) for each in values]))) for values in samples]
    except (RuntimeError, ValueError):  # the second is out of the domain
        return
    if any(not isinstance(each, mt.Tensor) for each in expected[0]) or any(
        one.shape != other.shape for one, other in zip(*expected, strict=True)
    ):
        return
    given = [
        mt.tensor(np.stack(pair) if is_batched else pair[0])
        for *pair, is_batched in zip(*samples, batched, strict=True)
    ]
    found = leaves(
        func.vmap(
            lambda *values: tuple(leaves(run(name, with_floats(values)))),
            in_dims=tuple(0 if is_batched else None for is_batched in batched),
        )(*given)
    )
    for result, *parts in zip(found, *expected, strict=True):
        wanted = np.stack([each.numpy() for each in parts])
        assert result.dtype is parts[0].dtype
        np.testing.assert_allclose(result.numpy(), wanted, rtol=1e-9, atol=1e-11, err_msg=f"{name} {batched}")


X = mt.arange(12.0, dtype=mt.float64).reshape(4, 3) / 7 - 0.6


def equal(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-9, atol=1e-12)


def test_dimensions_of_arguments_and_results() -> None:
    y = mt.ones(3, 4, dtype=mt.float64)
    found = func.vmap(lambda pair, scale: (pair["a"] * pair["b"] * scale, scale), ({"a": 0, "b": 1}, None), (1, None))(
        {"a": X, "b": y}, 2.0 * mt.ones((), dtype=mt.float64)
    )
    equal(found[0], (X * 2).mT)
    assert found[1].shape == ()
    cube = mt.arange(24.0).reshape(2, 3, 4)
    equal(func.vmap(lambda part: part * 2, 2, 2)(cube), cube * 2)
    equal(func.vmap(lambda row: row.sum(), chunk_size=3)(X), X.sum(1))
    equal(func.vmap(lambda row, *, other: row + other)(X, other=X), 2 * X)
    equal(mt.vmap(mt.vmap(mt.mul, (0, None)), (None, 0))(X[:, 0], X[:, 1]), mt.outer(X[:, 1], X[:, 0]))
    for call, says in (
        (lambda: func.vmap(mt.sin, 2)(X), "in_dims must name a dimension"),
        (lambda: func.vmap(mt.add)(X, mt.ones(3)), r"batches of one size, got sizes \[3, 4\]"),
        (lambda: func.vmap(lambda row: 3)(X), "must return Tensors only, got int"),
        (lambda: func.vmap(mt.sin, (0, 0))(X), "in_dims must be"),
    ):
        with pytest.raises(ValueError, match=says):
            call()


def cubes(row: mt.Tensor) -> mt.Tensor:
    return (row**3 * row.flip(0)).sum()


@pytest.mark.parametrize(
    "transform",
    [
        func.grad,
        func.hessian,
        func.jacfwd,
        func.jacrev,
        lambda each: lambda row: func.jvp(each, (row,), (mt.ones_like(row),))[1],
        lambda each: lambda row: func.linearize(each, row)[1](mt.ones_like(row)),
        lambda each: lambda row: func.vjp(lambda z: z * each(z), row)[1](row)[0],
        lambda each: func.grad(lambda row: (func.vmap(lambda z: z * each(row))(row) ** 2).sum()),
        lambda each: lambda row: func.vmap(lambda z: func.grad(lambda r: each(r) * z)(row))(row),
    ],
)
def test_derivatives_of_samples(transform: Any) -> None:
    """Within vmap they are those of each sample; the last two have a vmap inside."""
    derived = transform(cubes)
    equal(func.vmap(derived)(X), mt.stack([derived(row) for row in X]))


def test_gradients_through_vmap() -> None:
    x = X.clone().requires_grad_()
    func.vmap(lambda row: row.exp() @ row)(x).sum().backward()
    equal(x.grad, X.exp() * (1 + X))
    weight = mt.ones(3, dtype=mt.float64)
    per_sample = func.vmap(func.grad(lambda w, row: (w * row).sum() ** 2), (None, 0))(weight, X)
    equal(per_sample, 2 * X.sum(1, keepdim=True) * X)


def test_writing_in_place() -> None:
    def write(row: mt.Tensor, other: mt.Tensor) -> mt.Tensor:
        row = row.clone().add_(other)
        row[0] = other[1]
        row[1:] *= 2
        row.clamp_(max=0.5)
        return row.index_fill_(0, mt.tensor([2]), 7.0)

    equal(func.vmap(write)(X, X.flip(0)), mt.stack([write(*rows) for rows in zip(X, X.flip(0), strict=True)]))
    with pytest.raises(RuntimeError, match="must be batched as its operands are"):
        func.vmap(lambda row: mt.zeros(3, dtype=mt.float64).add_(row))(X)


def test_functions_that_read_values_run_for_each_sample() -> None:
    def branching(row: mt.Tensor) -> mt.Tensor:
        return row * 2 if row.sum().item() > 0 else row[mt.argsort(row)[0]] - row

    equal(func.vmap(branching)(X), mt.stack([branching(row) for row in X]))


def test_random_numbers() -> None:
    def noisy(row: mt.Tensor) -> mt.Tensor:
        return row * 0 + mt.randn(3, dtype=mt.float64) + nn.functional.dropout(mt.ones(3, dtype=mt.float64))

    with pytest.raises(RuntimeError, match="pass randomness='different'"):
        func.vmap(noisy)(X)
    same, different = (func.vmap(noisy, randomness=each)(X) for each in ("same", "different"))
    assert same.unique(dim=0).shape == (1, 3)
    assert different.unique(dim=0).shape == (4, 3)


def test_models_as_one_batch() -> None:
    models = [nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5), nn.ReLU(), nn.Linear(5, 2)).double() for _ in range(3)]
    parameters, buffers = func.stack_module_state(models)
    assert parameters["0.weight"].shape == (3, 5, 3)
    assert parameters["0.weight"].is_leaf
    found = func.vmap(lambda p, b: func.functional_call(models[0], (p, b), (X,)))(parameters, buffers)
    equal(found, mt.stack([model(X) for model in models]))
    found.sum().backward()
    models[1](X).sum().backward()
    equal(parameters["0.weight"].grad[1], models[1][0].weight.grad)
    with pytest.raises(RuntimeError, match="same class"):
        func.stack_module_state([nn.Linear(1, 1), nn.ReLU()])


def test_layers_of_images_and_attention() -> None:
    images, kernel = mt.arange(72.0).reshape(4, 1, 2, 3, 3) / 36, mt.ones(2, 2, 2, 2)
    for each in (lambda x: nn.functional.conv2d(x, kernel), lambda x: nn.functional.avg_pool2d(x[0], 2)):
        equal(func.vmap(each)(images), mt.stack([each(image) for image in images]))
    query, mask = mt.arange(24.0).reshape(2, 3, 4) / 24, mt.ones(3, 3).tril().bool()
    attend = nn.functional.scaled_dot_product_attention
    equal(
        func.vmap(lambda q: attend(q, q, query[0], mask))(query),
        mt.stack([attend(q, q, query[0], mask) for q in query]),
    )


def test_nothing_is_left_behind_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError):
        func.vmap(lambda row: row / (1 // 0))(X)
    assert mt.randn(2).shape == (2,)
    equal(mt.ones(2) + 1, mt.full((2,), 2.0))
