"""gradcheck and gradgradcheck."""

from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import Tensor, no_grad
from minitorch_backends.autograd import Function, GradcheckError, gradcheck, gradgradcheck
from minitorch_backends.autograd.function import once_differentiable

from ..support.autograd import leaf, leaf_of, make_function, tensor

Wrong = make_function(lambda ctx, x: x * 2, lambda ctx, g: g * 3)


def test_what_gradcheck_returns_and_raises() -> None:
    x = leaf([1.0, 2.0])
    assert gradcheck(lambda x: x * x, (x,)) is True
    assert issubclass(GradcheckError, RuntimeError)
    with pytest.raises(GradcheckError):
        gradcheck(Wrong.apply, (x,))
    assert gradcheck(Wrong.apply, (x,), raise_exception=False) is False

    def fails(x: mt.Tensor) -> mt.Tensor:
        raise KeyError

    with pytest.raises(KeyError):
        gradcheck(fails, (x,), raise_exception=False)


def test_inputs_of_gradcheck() -> None:
    with pytest.raises(ValueError, match="at least one input that requires gradient"):
        gradcheck(lambda x: x * 2, (tensor([1.0]),), raise_exception=False)
    with pytest.warns(UserWarning, match="float32"), pytest.raises(GradcheckError):
        gradcheck(lambda x: x * x * x, (leaf([1.1], np.float32),))
    with pytest.raises(RuntimeError, match="stride 0"):
        gradcheck(lambda x: x * 2, (tensor(1.0).expand(2).requires_grad_(),))
    assert gradcheck(lambda x, power, name: x**power, (leaf([1.5]), 3, "text"))
    with pytest.raises(TypeError):
        gradcheck(lambda x: x, (leaf([1.0]),), 1e-6)  # type: ignore[misc]


def test_outputs_of_gradcheck() -> None:
    x = leaf([1.0, 2.0])
    assert gradcheck(lambda x: x.argmax(), (x,))
    assert gradcheck(lambda x: mt.ones(2, dtype=mt.float64), (x,))
    with pytest.raises(GradcheckError):
        gradcheck(lambda x: (x * 2).detach(), (x,))
    with mt.no_grad(), pytest.raises(GradcheckError):
        gradcheck(lambda x: x * 2, (x,))


def test_options_of_gradcheck() -> None:
    x = leaf([1.0, 2.0])
    with pytest.raises(AssertionError):
        gradcheck(lambda x: x, (x,), check_forward_ad=False, check_backward_ad=False)
    with pytest.raises(AssertionError):
        gradcheck(lambda x: x, (x,), check_batched_grad=True, check_backward_ad=False, check_forward_ad=True)
    assert gradcheck(lambda x: x.exp() * x, (x,), fast_mode=True)
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(Wrong.apply, (x,), fast_mode=True)
    assert gradcheck(lambda x: x.exp() * x, (x,), check_forward_ad=True, check_batched_grad=True)
    assert x.grad is None


def test_gradgradcheck() -> None:
    x = leaf([0.5, 1.5])
    assert gradgradcheck(lambda x: x.sin() * x, (x,))
    assert gradgradcheck(lambda x: x.sin() * x, (x,), (leaf([1.0, 2.0]),))

    class Once(Function):
        @staticmethod
        def forward(ctx: Any, x: mt.Tensor) -> mt.Tensor:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, g: mt.Tensor) -> mt.Tensor:
            return 2 * ctx.saved_tensors[0] * g

    with pytest.raises(RuntimeError):
        gradgradcheck(Once.apply, (x,))


def wrong(x: Tensor) -> Tensor:
    """x * x with the gradient of x * constant."""
    return x * x.detach()


def test_gradcheck_accepts_and_refuses() -> None:
    x = leaf_of(3, dtype=np.float64)
    for fast_mode in (False, True):
        assert gradcheck(lambda x: x * x, x, fast_mode=fast_mode)
        with pytest.raises(
            GradcheckError, match=r"Jacobian mismatch for output 0 \[3\].*3 of 9 derivatives.*3 by backward, (6|5\.9)"
        ):
            gradcheck(wrong, (x,), fast_mode=fast_mode)
        assert gradcheck(wrong, x, raise_exception=False, fast_mode=fast_mode) is False
    assert x.grad is None
    assert x.tolist() == [1.0, 2.0, 3.0]


def test_gradcheck_of_complex_functions() -> None:
    z = mt.tensor(np.array([1 + 2j, -0.5j])).requires_grad_()
    assert gradcheck(lambda z: z * z, z)
    assert gradcheck(lambda z: (z * z.conj()).real, z)
    assert gradgradcheck(lambda z: z * z.conj(), z)
    with pytest.raises(GradcheckError, match=r"\.imag by|\.real by"):
        gradcheck(lambda z: z * z.conj().detach(), z)


def test_gradcheck_of_what_is_cut_off() -> None:
    x = leaf_of(2, dtype=np.float64)
    with pytest.raises(GradcheckError, match="expected to be zero; was it detached"):
        gradcheck(lambda x: (x * 2).detach(), x)
    with pytest.raises(GradcheckError, match="no_grad"), no_grad():
        gradcheck(lambda x: x * 2, x)
    assert gradcheck(lambda x: (x * 0).detach(), x)
    assert gradcheck(lambda x: (x * x, x.argmax()), x)


def test_gradcheck_of_several_inputs_and_outputs() -> None:
    x, y = leaf_of(2, dtype=np.float64), leaf_of(2, dtype=np.float64)
    plain = mt.tensor(np.ones(2))
    assert gradcheck(lambda x, y, plain, n: (x * y * plain, x * n), (x, y, plain, 3))
    with pytest.raises(GradcheckError, match=r"output 1 \[2\] with respect to input 1"):
        gradcheck(lambda x, y: (x * y, x * y.detach()), (x, y))


def test_options_of_gradcheck_that_exclude_one_another() -> None:
    x = leaf_of(2, dtype=np.float64)
    with pytest.raises(AssertionError, match="check_backward_ad"):
        gradcheck(lambda x: x, x, check_backward_ad=False)
    with pytest.raises(AssertionError, match="check_forward_ad"):
        gradcheck(lambda x: x, x, check_batched_forward_grad=True)
    with pytest.raises(NotImplementedError, match="check_batched_forward_grad"):
        gradcheck(lambda x: x, x, check_forward_ad=True, check_batched_forward_grad=True)


def test_gradcheck_of_batches_and_dtypes() -> None:
    x, y = leaf_of(2, dtype=np.float64), leaf_of(2, dtype=np.float64)
    assert gradcheck(lambda x, y: (x * y, x.exp()), (x, y), check_batched_grad=True, check_grad_dtypes=True)


def test_gradcheck_of_forward_mode() -> None:
    x, y = leaf_of(2, dtype=np.float64), leaf_of(2, dtype=np.float64)
    for fast_mode in (False, True):
        assert gradcheck(lambda x, y: (x * y, x.exp()), (x, y), check_forward_ad=True, fast_mode=fast_mode)
        assert gradcheck(lambda x: x * x, x, check_forward_ad=True, check_backward_ad=False, fast_mode=fast_mode)
        with pytest.raises(GradcheckError, match="by forward mode"):
            gradcheck(wrong, x, check_forward_ad=True, check_backward_ad=False, fast_mode=fast_mode)


def test_second_derivatives_that_are_cut_off() -> None:
    x, y = leaf_of(2, dtype=np.float64), leaf_of(2, dtype=np.float64)
    for options in ({}, {"fast_mode": True}, {"gen_non_contig_grad_outputs": True}):
        assert gradgradcheck(lambda x, y: x * x * y, (x, y), **options)
    assert gradgradcheck(lambda x: x * x * x, x, mt.tensor(np.ones(2)).requires_grad_())

    def once(x: Tensor) -> Tensor:
        """x * x * x with the right gradient, which is cut off from x."""
        return 3 * (x * x).detach() * x - 2 * (x * x * x).detach()

    assert gradcheck(once, x)
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradgradcheck(once, x)
    assert gradgradcheck(once, x, raise_exception=False) is False
    assert gradgradcheck(lambda x, y: x.exp() * y, (x, y), check_fwd_over_rev=True)
    with pytest.raises(GradcheckError):
        gradgradcheck(once, x, check_fwd_over_rev=True, check_rev_over_rev=False)
