"""Checks of gradients against central differences: `gradcheck` for first derivatives, `gradgradcheck` for second ones.

Every tensor is taken as a vector of real coordinates (a complex element is two of them), so that one real Jacobian says
all there is to say. The gradient of a real function of z = x + iy is df/dx + i df/dy, which is torch's convention.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..dtypes import FLOATING, dtype_of, float64
from ..tensor import Tensor, adopt
from .engine import grad

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """A gradient that disagrees with finite differences, or that breaks a rule that gradients obey."""


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the gradients of `func(*inputs)` with central differences; True, or a `GradcheckError` with the numbers.

    Arguments:
        func: takes the inputs; gives a tensor or a tuple of tensors. It is called again for each element of the inputs,
            whose memory is changed and put back meanwhile.
        inputs: a tensor or a sequence. Those that require gradients are checked, and should be float64 or complex128.
        eps: the step of the differences.
        atol, rtol: the tolerance, |analytical - numerical| <= atol + rtol * |numerical|.
        raise_exception: False returns False in place of a GradcheckError; other errors are raised all the same.
        nondet_tol: how much two backward passes over the same graph may differ.
        check_undefined_grad: also check that an output without a gradient counts as one whose gradient is zero.
        check_grad_dtypes: also check that gradients have the dtypes of their inputs.
        fast_mode: compare one random projection of each Jacobian, not every element: two calls for each input.
        masked: no effect; it is about sparse tensors, of which there are none here.

    Raises ValueError when no input requires gradients, RuntimeError for an input whose elements share memory,
    AssertionError when nothing is left to check, NotImplementedError for the options of forward mode and batching.
    """
    _refuse_options(check_backward_ad, check_forward_ad, check_batched_grad, check_batched_forward_grad)
    check = _Check(func, _sequence(inputs), eps, atol, rtol)
    try:
        check.run(fast_mode)
        check.laws(nondet_tol, check_undefined_grad, check_grad_dtypes)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """`gradcheck` of the gradients of `func`, with respect to its inputs and to the gradients of its outputs.

    `grad_outputs` are the gradients of the outputs that require them; by default numbers in (-1, 1), the same in every
    call, which `gen_non_contig_grad_outputs` lays out in memory with gaps. See `gradcheck` for the rest and the errors.
    """
    inputs = _sequence(inputs)
    if grad_outputs is None:
        grad_outputs = _random_gradients(func(*inputs), gen_non_contig_grad_outputs)
    grad_outputs = _sequence(grad_outputs)
    wanted = [index for index, value in enumerate(inputs) if _requires_grad(value)]

    def gradients(*arguments: Any) -> tuple[Tensor, ...]:
        arguments, weights = arguments[: len(inputs)], arguments[len(inputs) :]
        outputs = [output for output in _sequence(func(*arguments)) if _requires_grad(output)]
        found = grad(outputs, [arguments[index] for index in wanted], weights, create_graph=True, allow_unused=True)
        return tuple(each for each in found if each is not None)

    return gradcheck(
        gradients,
        (*inputs, *grad_outputs),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )


class _Check:
    """One function at one point: its Jacobians by differences and by backward passes.

    Attributes:
        wanted: the positions of the inputs to check; `widths` has their numbers of coordinates.
        outputs: the differentiable outputs at the point, or all when none is, with `positions` and `heights` alike.
        differentiable: whether any output is.
    """

    def __init__(self, func: Callable[..., Any], inputs: tuple, eps: float, atol: float, rtol: float) -> None:
        self.func, self.inputs, self.eps, self.atol, self.rtol = func, inputs, eps, atol, rtol
        self.wanted = _checkable(inputs)
        outputs = _sequence(func(*inputs))
        positions = [index for index, output in enumerate(outputs) if _requires_grad(output)]
        self.differentiable = bool(positions)
        self.positions = positions or [index for index, output in enumerate(outputs) if isinstance(output, Tensor)]
        self.outputs = [outputs[index] for index in self.positions]
        self.widths = {index: _size(inputs[index]) for index in self.wanted}
        self.heights = [_size(output) for output in self.outputs]

    def run(self, fast_mode: bool) -> None:
        """Compare the two Jacobians of every output with respect to every checked input."""
        if not self.differentiable:
            self._expect_constant()
        elif fast_mode:
            self._compare_projections()
        else:
            self._compare_jacobians()

    # Differences

    def difference(self, index: int, direction: np.ndarray) -> list[np.ndarray]:
        """For each output the central difference along `direction`, coordinates of the input at `index`."""
        array = self.inputs[index]._array
        before, step = array.copy(), _from_coordinates(direction * self.eps, array)
        try:
            array[...] = before + step
            above = self._evaluated()
            array[...] = before - step
            below = self._evaluated()
        finally:
            array[...] = before
        return [(high - low) / (2 * self.eps) for high, low in zip(above, below, strict=True)]

    def _evaluated(self) -> list[np.ndarray]:
        outputs = _sequence(self.func(*self.inputs))
        return [_coordinates(outputs[index]._array) for index in self.positions]

    def numerical(self, index: int) -> list[np.ndarray]:
        """For each output the Jacobian by the input at `index`: a row for each coordinate of the output."""
        jacobians = [np.zeros((height, self.widths[index])) for height in self.heights]
        for column, axis in enumerate(np.eye(self.widths[index])):
            for jacobian, difference in zip(jacobians, self.difference(index, axis), strict=True):
                jacobian[:, column] = difference
        return jacobians

    # Backward passes

    def pulled(self, outputs: Sequence[Tensor], weights: Sequence[np.ndarray]) -> list[Tensor | None]:
        """The gradients of the checked inputs, from those of `outputs` given as coordinates."""
        pairs = zip(outputs, weights, strict=True)
        shaped = [adopt(_from_coordinates(weight, output._array)) for output, weight in pairs]
        targets = [self.inputs[index] for index in self.wanted]
        return list(grad(outputs, targets, shaped, retain_graph=True, allow_unused=True))

    def pulled_coordinates(self, outputs: Sequence[Tensor], weights: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The same as coordinates, with zeros for an input that the outputs do not depend on."""
        found = self.pulled(outputs, weights)
        return [
            np.zeros(self.widths[index]) if each is None else _coordinates(each._array)
            for index, each in zip(self.wanted, found, strict=True)
        ]

    def analytical(self, which: int) -> list[np.ndarray]:
        """For each checked input the Jacobian of one output: a row for each coordinate of the output."""
        height = self.heights[which]
        jacobians = [np.zeros((height, self.widths[index])) for index in self.wanted]
        for row, axis in enumerate(np.eye(height)):
            for jacobian, pulled in zip(jacobians, self.pulled_coordinates([self.outputs[which]], [axis]), strict=True):
                jacobian[row] = pulled
        return jacobians

    # Comparisons

    def _expect_constant(self) -> None:
        for index in self.wanted:
            for which, jacobian in enumerate(self.numerical(index)):
                if not np.all(jacobian == 0):
                    raise GradcheckError(
                        f"output {which} does not require grad, but its numerical gradient for input {index} is up to "
                        f"{np.abs(jacobian).max():.6g}, expected to be zero; was it detached, or made under no_grad?"
                    )

    def _compare_jacobians(self) -> None:
        analytical = [self.analytical(which) for which in range(len(self.outputs))]
        for place, index in enumerate(self.wanted):
            for which, numerical in enumerate(self.numerical(index)):
                self._expect_close(analytical[which][place], numerical, which, index)

    def _compare_projections(self) -> None:
        """Compare v J u for random positive unit vectors u and v; a mismatch is reported by the full comparison."""
        random = np.random.default_rng(0)
        projections = [_unit(random, height) for height in self.heights]
        pulled = [self.pulled_coordinates([output], [v]) for output, v in zip(self.outputs, projections, strict=True)]
        for place, index in enumerate(self.wanted):
            u = _unit(random, self.widths[index])
            for which, (v, pushed) in enumerate(zip(projections, self.difference(index, u), strict=True)):
                analytical, numerical = pulled[which][place] @ u, v @ pushed
                if not np.isclose(analytical, numerical, self.rtol, self.atol * u.sum() * v.sum()):
                    self._compare_jacobians()
                    raise GradcheckError(
                        f"a random projection of the Jacobian of output {which} by input {index} is {analytical:.9g} "
                        f"by backward and {numerical:.9g} by differences, though all elements agree; raise atol"
                    )

    def _expect_close(self, analytical: np.ndarray, numerical: np.ndarray, which: int, index: int) -> None:
        close = np.isclose(analytical, numerical, self.rtol, self.atol)
        if close.all():
            return
        error = np.where(close, -1.0, np.nan_to_num(np.abs(analytical - numerical), nan=np.inf))
        row, column = np.unravel_index(error.argmax(), error.shape)
        output, input = self.outputs[which]._array, self.inputs[index]._array
        raise GradcheckError(
            f"Jacobian mismatch for output {which} {list(output.shape)} with respect to input {index} "
            f"{list(input.shape)}: {np.count_nonzero(~close)} of {close.size} derivatives disagree, most of all that "
            "of "
            f"{_element(output, row)} by {_element(input, column)}: {analytical[row, column]:.9g} by backward, "
            f"{numerical[row, column]:.9g} by differences, where atol={self.atol:g}, rtol={self.rtol:g} allow "
            f"{self.atol + self.rtol * abs(numerical[row, column]):.3g}\n"
            f"numerical (a row for each coordinate of the output):\n{numerical}\nanalytical:\n{analytical}"
        )

    # Laws

    def laws(self, nondet_tol: float, check_undefined_grad: bool, check_grad_dtypes: bool) -> None:
        """Check that backward is repeatable, zero at zero, and treats an absent gradient as zero."""
        if not self.differentiable:
            return
        ones, zeros = [np.ones(height) for height in self.heights], [np.zeros(height) for height in self.heights]
        first = self.pulled(self.outputs, ones)
        if check_grad_dtypes:
            self._expect_dtypes(first)
        self._expect_repeatable(first, self.pulled(self.outputs, ones), nondet_tol)
        self._expect_zero(self.pulled(self.outputs, zeros))
        if check_undefined_grad and len(self.outputs) > 1:
            self._expect_absent_is_zero(ones, zeros)

    def _expect_dtypes(self, gradients: Sequence[Tensor | None]) -> None:
        for index, found in zip(self.wanted, gradients, strict=True):
            expected = self.inputs[index].dtype
            if found is not None and found.dtype is not expected:
                raise GradcheckError(
                    f"the gradient of input {index} is {found.dtype!r}; expected {expected!r}, as the input"
                )

    def _expect_repeatable(self, first: list[Tensor | None], again: list[Tensor | None], tolerance: float) -> None:
        for index, one, other in zip(self.wanted, first, again, strict=True):
            if one is not None and other is not None and not _within(one._array, other._array, tolerance):
                raise GradcheckError(
                    f"Backward is not reentrant: two passes with the same gradients give input {index} gradients that "
                    f"differ by {np.abs(one._array - other._array).max():.6g}, and nondet_tol is {tolerance:g}"
                )

    def _expect_zero(self, gradients: list[Tensor | None]) -> None:
        for index, found in zip(self.wanted, gradients, strict=True):
            if found is not None and not np.all(found._array == 0):
                raise GradcheckError(
                    f"backward not multiplied by grad_output: zero gradients of the outputs give input {index} "
                    f"gradients of up to {np.abs(found._array).max():.6g}"
                )

    def _expect_absent_is_zero(self, ones: list[np.ndarray], zeros: list[np.ndarray]) -> None:
        for which, output in enumerate(self.outputs):
            alone = self.pulled_coordinates([output], [ones[which]])
            among = self.pulled_coordinates(self.outputs, [*zeros[:which], ones[which], *zeros[which + 1 :]])
            for index, one, other in zip(self.wanted, alone, among, strict=True):
                if not np.allclose(one, other, self.rtol, self.atol):
                    raise GradcheckError(
                        "Expected backward function to handle undefined output grads: with one for output "
                        f"{which} only, the gradient of input {index} is {np.abs(one - other).max():.6g} off what "
                        "zeros for the others give"
                    )


def _refuse_options(backward: bool, forward: bool, batched: bool, batched_forward: bool) -> None:
    if not (forward or backward):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if batched and not backward:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if batched_forward and not forward:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    if forward:
        raise NotImplementedError("there is no forward-mode differentiation to check; leave check_forward_ad out")
    if batched:
        raise NotImplementedError("there are no batched backward passes to check; leave out check_batched_grad")


def _checkable(inputs: tuple) -> list[int]:
    """The positions of the inputs that require gradients; raises for what differences cannot be taken of."""
    wanted = []
    for index, value in enumerate(inputs):
        if not _requires_grad(value):
            continue
        array = value._array
        if dtype_of(array).to_real() is not float64:
            warnings.warn(
                f"input {index} requires gradient and is {value.dtype!r}; the check will likely fail for types of less "
                "precision than mt.float64 and mt.complex128",
                stacklevel=4,
            )
        if array.size and any(
            stride == 0 and size > 1 for stride, size in zip(array.strides, array.shape, strict=True)
        ):
            raise RuntimeError(
                f"input {index} of shape {list(array.shape)} has a dimension with stride 0, so that its elements "
                "cannot be moved one by one; use contiguous() or clone() first"
            )
        wanted.append(index)
    if not wanted:
        raise ValueError(
            "gradcheck expects at least one input that requires gradient; use requires_grad_() on a tensor"
        )
    return wanted


def _random_gradients(outputs: Any, gaps: bool) -> list[Tensor]:
    random = np.random.default_rng(0)
    made = []
    for output in _sequence(outputs):
        if _requires_grad(output):
            array = _from_coordinates(random.uniform(-1, 1, _size(output)), output._array)
            if gaps and array.ndim:
                array = np.repeat(array, 2, -1)[..., ::2]
            made.append(adopt(array).requires_grad_())  # type: ignore[attr-defined]
    return made


def _sequence(values: Any) -> tuple:
    return tuple(values) if isinstance(values, (tuple, list)) else (values,)


def _requires_grad(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad and value.dtype.category >= FLOATING  # type: ignore[attr-defined]


def _coordinates(array: np.ndarray) -> np.ndarray:
    """A copy of the elements as float64, real and imaginary parts in turn."""
    if array.dtype.kind == "c":
        return array.astype(np.complex128).ravel().view(np.float64)
    return array.astype(np.float64).ravel()


def _size(tensor: Tensor) -> int:
    return tensor._array.size * (2 if tensor._array.dtype.kind == "c" else 1)


def _from_coordinates(coordinates: np.ndarray, like: np.ndarray) -> np.ndarray:
    values = np.ascontiguousarray(coordinates, np.float64)
    values = values.view(np.complex128) if like.dtype.kind == "c" else values
    return values.reshape(like.shape).astype(like.dtype)


def _element(array: np.ndarray, coordinate: Any) -> str:
    parts = 2 if array.dtype.kind == "c" else 1
    place = tuple(map(int, np.unravel_index(int(coordinate) // parts, array.shape)))
    return str(list(place)) + ("" if parts == 1 else (".real", ".imag")[int(coordinate) % 2])


def _unit(random: np.random.Generator, size: int) -> np.ndarray:
    vector = random.uniform(0.1, 1.0, size)
    return vector / max(np.linalg.norm(vector), 1e-300)


def _within(first: np.ndarray, second: np.ndarray, tolerance: float) -> bool:
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    return bool(np.all(same | (np.abs(first - second) <= tolerance)))
