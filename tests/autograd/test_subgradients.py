"""Signatures, and gradients at points without a derivative."""

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import autograd
from minitorch_backends.autograd import functional, graph

from ..support.autograd import leaf, values

SIGNATURES: dict[Callable[..., Any], str] = {
    mt.Tensor.backward: "(self, gradient=None, retain_graph=None, create_graph=False, inputs=None)",
    autograd.backward: (
        "(tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None)"
    ),
    autograd.grad: (
        "(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True, "
        "allow_unused=None, is_grads_batched=False, materialize_grads=False)"
    ),
    autograd.gradcheck: (
        "(func, inputs, *, eps=1e-06, atol=1e-05, rtol=0.001, raise_exception=True, nondet_tol=0.0, "
        "check_undefined_grad=True, check_grad_dtypes=False, check_batched_grad=False, "
        "check_batched_forward_grad=False, check_forward_ad=False, check_backward_ad=True, fast_mode=False, "
        "masked=None)"
    ),
    autograd.gradgradcheck: (
        "(func, inputs, grad_outputs=None, *, eps=1e-06, atol=1e-05, rtol=0.001, gen_non_contig_grad_outputs=False, "
        "raise_exception=True, nondet_tol=0.0, check_undefined_grad=True, check_grad_dtypes=False, "
        "check_batched_grad=False, check_fwd_over_rev=False, check_rev_over_rev=True, fast_mode=False, masked=False)"
    ),
    mt.Tensor.register_hook: "(self, hook)",
    mt.Tensor.register_post_accumulate_grad_hook: "(self, hook)",
    mt.Tensor.retain_grad: "(self)",
    mt.Tensor.requires_grad_: "(self, requires_grad=True)",
    autograd.detect_anomaly: "(check_nan=True)",
    autograd.set_detect_anomaly: "(mode, check_nan=True)",
    graph.saved_tensors_hooks: "(pack_hook, unpack_hook)",
    graph.save_on_cpu: "(pin_memory=False, device_type='cuda')",
    graph.disable_saved_tensors_hooks: "(error_message)",
    graph.register_multi_grad_hook: "(tensors, fn, *, mode='all')",
    graph.allow_mutation_on_saved_tensors: "()",
    functional.jacobian: ("(func, inputs, create_graph=False, strict=False, vectorize=False, strategy='reverse-mode')"),
    functional.hessian: (
        "(func, inputs, create_graph=False, strict=False, vectorize=False, outer_jacobian_strategy='reverse-mode')"
    ),
    functional.vjp: "(func, inputs, v=None, create_graph=False, strict=False)",
    functional.jvp: "(func, inputs, v=None, create_graph=False, strict=False)",
    functional.hvp: "(func, inputs, v=None, create_graph=False, strict=False)",
    functional.vhp: "(func, inputs, v=None, create_graph=False, strict=False)",
}


@pytest.mark.parametrize("function", SIGNATURES, ids=lambda each: each.__name__)
def test_signatures(function: Callable[..., Any]) -> None:
    signature = inspect.signature(function)
    bare = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
    assert str(inspect.Signature(bare)) == SIGNATURES[function]


def gradient(function: Callable[[mt.Tensor], mt.Tensor], at: Any) -> Any:
    x = leaf(at)
    function(x).sum().backward()
    return values(x.grad)


def test_zero_where_there_is_a_kink() -> None:
    for function in (mt.abs, mt.relu, lambda x: x.norm(), mt.sign, mt.round):
        assert gradient(function, [0.0]) == [0.0]


def test_the_root_of_zero() -> None:
    assert gradient(mt.sqrt, [0.0]) == [math.inf]


def test_ties_share() -> None:
    assert gradient(lambda x: x.max(), [2.0, 1.0, 2.0]) == [0.5, 0.0, 0.5]
    assert gradient(lambda x: x.amax(0), [2.0, 1.0, 2.0]) == [0.5, 0.0, 0.5]
    assert gradient(lambda x: x.min(), [1.0, 1.0, 2.0]) == [0.5, 0.5, 0.0]
    assert gradient(lambda x: mt.maximum(x, mt.ones(1, dtype=mt.float64)), [1.0]) == [0.5]
    assert gradient(lambda x: mt.minimum(x, mt.ones(1, dtype=mt.float64)), [1.0]) == [0.5]


def test_the_chosen_element_takes_all() -> None:
    assert gradient(lambda x: x.max(0).values, [2.0, 1.0, 2.0]) == [1.0, 0.0, 0.0]
    assert gradient(lambda x: x.min(0).values, [2.0, 1.0, 1.0]) == [0.0, 1.0, 0.0]
    x = leaf([1.0, 1.0, 1.0])
    chosen = x.median(0)
    chosen.values.backward()
    assert values(x.grad) == np.eye(3)[chosen.indices.item()].tolist()


def test_the_bounds_of_clamp_are_inside() -> None:
    assert gradient(lambda x: x.clamp(0, 1), [-1.0, 0.0, 0.5, 1.0, 2.0]) == [0.0, 1.0, 1.0, 1.0, 0.0]


def test_products_and_powers_at_zero() -> None:
    assert gradient(lambda x: x.prod(), [0.0, 2.0]) == [2.0, 0.0]
    assert gradient(lambda x: x**2, [0.0]) == [0.0]
    assert gradient(lambda x: x**0, [0.0]) == [0.0]
