"""Distributions beside torch's: densities and their gradients, moments, divergences, transforms."""

from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt

from ..support.distribution_cases import CASES, make_distribution
from .peer import torch

QUANTITIES = ("mean", "mode", "variance", "stddev", "batch_shape", "event_shape", "support", "has_rsample")
CALLS = ("log_prob", "cdf", "icdf", "entropy", "enumerate_support", "perplexity")


def quantities(name: str, module: Any) -> dict[str, Any]:
    """A property of a distribution; None where it has none."""
    distribution, leaves, value = make_distribution(name, module, requires_grad=True)
    found: dict[str, Any] = {}
    for each in (*QUANTITIES, *CALLS):
        arguments = [value] if each in ("log_prob", "cdf") else []
        arguments = [value.clone().clamp(0.1, 0.9)] if each == "icdf" else arguments
        try:
            result = getattr(distribution, each)
            result = result(*arguments) if each in CALLS else result
        except (NotImplementedError, AttributeError, RuntimeError):
            result = None
        if each == "log_prob":
            result.sum().backward()
            gradients = [leaf.grad for leaf in leaves]
            found["gradients"] = [None if leaf is None else leaf.numpy() for leaf in gradients]
        found[each] = result.detach().numpy() if hasattr(result, "detach") else result
    expanded = distribution.expand((2, *distribution.batch_shape))
    found["expanded"] = expanded.log_prob(value).detach().numpy()
    found["shape"] = tuple(expanded.sample((3,)).shape)
    return found


NOT_IN_TORCH = {("Kumaraswamy", "mode"), ("Weibull", "mode")}
"""Modes that are NaN in torch, though there are some."""


REFUSED_BY_TORCH = {"GeneralizedPareto"}
"""Of float64, which it compares with float32. SciPy has the values."""


@pytest.mark.filterwarnings("ignore:Singular sample")
@pytest.mark.parametrize("name", sorted(CASES.keys() - REFUSED_BY_TORCH))
def test_what_distributions_say(name: str) -> None:
    ours, theirs = quantities(name, mt), quantities(name, torch)
    for each, expected in theirs.items():
        if expected is None or (name, each) in NOT_IN_TORCH:
            continue
        if isinstance(expected, np.ndarray):
            np.testing.assert_allclose(ours[each], expected, rtol=1e-7, atol=1e-9, err_msg=each)
        elif each == "gradients":
            for own, other in zip(ours[each], expected, strict=True):
                if other is not None:
                    np.testing.assert_allclose(own, other, rtol=1e-6, atol=1e-8)
        elif each == "support":
            assert (type(ours[each]).__name__, ours[each].event_dim) == (type(expected).__name__, expected.event_dim)
        else:
            assert ours[each] == expected, each


def test_divergences() -> None:
    compared = 0
    for one in CASES:
        for other in CASES:
            try:
                (p, _, _), (q, _, _) = make_distribution(one, torch), make_distribution(other, torch)
                expected = torch.distributions.kl_divergence(p, q)
            except (NotImplementedError, ValueError, RuntimeError):
                continue
            (p, _, _), (q, _, _) = make_distribution(one, mt), make_distribution(other, mt)
            try:
                found = mt.distributions.kl_divergence(p, q)
            except NotImplementedError:
                continue
            compared += 1
            np.testing.assert_allclose(
                np.broadcast_to(found.numpy(), expected.shape), expected.numpy(), rtol=1e-7, err_msg=f"{one} {other}"
            )
    assert compared > 90


TRANSFORMS: dict[str, Any] = {
    "ExpTransform": (), "SigmoidTransform": (), "TanhTransform": (), "SoftplusTransform": (), "AbsTransform": (),
    "StickBreakingTransform": (), "SoftmaxTransform": (), "CorrCholeskyTransform": (), "LowerCholeskyTransform": (),
    "PositiveDefiniteTransform": (), "AffineTransform": (0.5, -2.0), "PowerTransform": (2.0,),
    "ReshapeTransform": ((3,), (3, 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name: str) -> None:
    x = np.array([[0.3, -0.4, 0.9], [0.1, 0.2, -0.3], [1.1, 0.2, -0.3]])
    x = abs(x) if name in ("PowerTransform", "AbsTransform") else x
    found = []
    for module in (mt, torch):
        transform = getattr(module.distributions, name)(*TRANSFORMS[name])
        given = module.tensor(x)
        y = transform(given)
        values = [y, transform.inv(y)]
        if name not in ("AbsTransform", "SoftmaxTransform", "LowerCholeskyTransform", "PositiveDefiniteTransform"):
            values += [transform.log_abs_det_jacobian(given, y), transform.inv.log_abs_det_jacobian(y, given)]
        found.append([each.numpy() for each in values])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_transforms_of_constraints() -> None:
    x = [[0.3, -0.4, 0.9]]
    for name in ("real", "positive", "nonnegative", "unit_interval", "simplex", "real_vector"):
        for registry in ("biject_to", "transform_to"):
            one, other = (
                getattr(module.distributions, registry)(getattr(module.distributions.constraints, name))(
                    module.tensor(x, dtype=module.float64)
                )
                for module in (mt, torch)
            )
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9)
