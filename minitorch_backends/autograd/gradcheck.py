"""Checks of gradients against central differences: `gradcheck` for first derivatives, `gradgradcheck` for second.

They compare Jacobians, by central differences, backward passes and forward mode. Every tensor is treated as a vector of
real coordinates (two per complex element), so one real Jacobian describes the derivative completely. The gradient of a
real function of z = x + iy is df/dx + i df/dy, torch's convention.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from ..kernels.runtime.context import restore_on_failure, warn_caller
from ..tensor.call_errors import argument_errors
from ..tensor.dtypes import FLOATING, dtype_of, float64
from ..tensor.tensor import Tensor, adopt
from .api import grad

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """A gradient disagrees with finite differences, or violates a law of gradients."""


@argument_errors
def gradcheck(  # noqa: PLR0913 (torch's)
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
    """Compare the gradients of `func(*inputs)` with central differences. Return True, or raise `GradcheckError`.

    Arguments:
        func: takes the inputs and returns a tensor or a tuple of tensors. It is called again for each element of the
            inputs, whose memory is modified and restored.
        inputs: a tensor or a sequence. Those that require gradients are checked, and should be float64 or complex128.
        eps: the step of the differences.
        atol, rtol: the tolerance, |analytical - numerical| <= atol + rtol * |numerical|.
        raise_exception: with False, return False in place of raising GradcheckError; other errors are still raised.
        nondet_tol: the largest allowed difference between two backward passes over the same graph.
        check_undefined_grad: also check that an undefined output gradient counts as zero.
        check_grad_dtypes: also check that gradients have the dtypes of their inputs.
        fast_mode: compare one random projection of each Jacobian instead of every element: two calls per input.
        check_batched_grad: also check that a batch of gradients gives the same as its elements.
        check_forward_ad, check_backward_ad: the modes of differentiation to check.
        masked: has no effect; it concerns sparse tensors, which do not exist here.

    Raises ValueError if no input requires gradients, RuntimeError for an input whose elements share memory,
    AssertionError if nothing is left to check, NotImplementedError for `check_batched_forward_grad`.
    """
    _refuse_options(check_backward_ad, check_forward_ad, check_batched_grad, check_batched_forward_grad)
    check = _Check(Jacobians(func, as_sequence(inputs), eps), atol, rtol)
    modes = [mode for mode, wanted in (("backward", check_backward_ad), ("forward mode", check_forward_ad)) if wanted]
    try:
        if not check.point.differentiable:
            check.constant()
            return True
        for mode in modes:
            check.projections(mode) if fast_mode else check.elements(mode)
        if check_backward_ad:
            check.laws(nondet_tol, check_undefined_grad, check_grad_dtypes)
        if check_batched_grad:
            check.batches()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


@argument_errors
def gradgradcheck(  # noqa: PLR0913 (torch's)
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
    """Apply `gradcheck` to the gradients of `func`, with respect to its inputs and its output gradients.

    `grad_outputs` are the gradients of the outputs that require them. The default is fixed numbers in (-1, 1), laid out
    with gaps in memory by `gen_non_contig_grad_outputs`. See `gradcheck` for the other arguments and the errors.
    """
    inputs = as_sequence(inputs)
    if grad_outputs is None:
        grad_outputs = _random_gradients(func(*inputs), gen_non_contig_grad_outputs)
    grad_outputs = as_sequence(grad_outputs)
    wanted = [index for index, value in enumerate(inputs) if needs_grad(value)]

    def gradients(*arguments: Any) -> tuple[Tensor, ...]:
        arguments, weights = arguments[: len(inputs)], arguments[len(inputs) :]
        outputs = [output for output in as_sequence(func(*arguments)) if needs_grad(output)]
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
    """Compares the Jacobians of a function at a point, within tolerances."""

    def __init__(self, point: Jacobians, atol: float, rtol: float) -> None:
        self.point, self.atol, self.rtol = point, atol, rtol

    def constant(self) -> None:
        """Check that outputs without gradients do not depend on the inputs."""
        for index in self.point.wanted:
            for which, jacobian in enumerate(self.point.numerical(index)):
                if not np.all(jacobian == 0):
                    raise GradcheckError(
                        f"output {which} does not require grad, but its numerical gradient for input {index} is up to "
                        f"{np.abs(jacobian).max():.6g}, expected to be zero; was it detached, or made under no_grad?"
                    )

    def elements(self, mode: str) -> None:
        """Compare every element of the Jacobians, by backward or forward mode, with central differences."""
        point = self.point
        by_gradients = point.backward() if mode == "backward" else {}
        for index in point.wanted:
            found = by_gradients[index] if mode == "backward" else point.forward(index)
            for which, (analytical, numerical) in enumerate(zip(found, point.numerical(index), strict=True)):
                self._expect_close(mode, analytical, numerical, which, index)

    def projections(self, mode: str) -> None:
        """Compare v J u for random positive unit vectors u and v. On a mismatch the full comparison reports."""
        point, random = self.point, np.random.default_rng(0)
        ends = [unit(random, height) for height in point.heights]
        pulled = [point.pulled_coordinates([output], [v]) for output, v in zip(point.outputs, ends, strict=True)]
        for place, index in enumerate(point.wanted):
            u = unit(random, point.widths[index])
            pushed = point.push_forward(index, u) if mode == "forward mode" else []
            for which, (v, difference) in enumerate(zip(ends, point.difference(index, u), strict=True)):
                analytical = v @ pushed[which] if pushed else pulled[which][place] @ u
                if not np.isclose(analytical, v @ difference, self.rtol, self.atol * u.sum() * v.sum()):
                    self.elements(mode)
                    raise GradcheckError(
                        f"a random projection of the Jacobian of output {which} by input {index} is {analytical:.9g} "
                        f"by {mode} and {v @ difference:.9g} by differences, though all elements agree; raise atol"
                    )

    def _expect_close(self, mode: str, analytical: np.ndarray, numerical: np.ndarray, which: int, index: int) -> None:
        close = np.isclose(analytical, numerical, self.rtol, self.atol)
        if close.all():
            return
        error = np.where(close, -1.0, np.nan_to_num(np.abs(analytical - numerical), nan=np.inf))
        row, column = np.unravel_index(error.argmax(), error.shape)
        output, input = self.point.outputs[which]._array, self.point.inputs[index]._array
        raise GradcheckError(
            f"Jacobian mismatch for output {which} {list(output.shape)} with respect to input {index} "
            f"{list(input.shape)}: {np.count_nonzero(~close)} of {close.size} derivatives disagree, above all that of "
            f"{element(output, row)} by {element(input, column)}: {analytical[row, column]:.9g} by {mode}, "
            f"{numerical[row, column]:.9g} by differences, where atol={self.atol:g}, rtol={self.rtol:g} allow "
            f"{self.atol + self.rtol * abs(numerical[row, column]):.3g}\n"
            f"numerical (a row for each coordinate of the output):\n{numerical}\nanalytical:\n{analytical}"
        )

    def batches(self) -> None:
        """Check that the gradients of a batch, in one call, equal those of its elements."""
        point, random = self.point, np.random.default_rng(0)
        targets = [point.inputs[index] for index in point.wanted]
        for which, (output, height) in enumerate(zip(point.outputs, point.heights, strict=True)):
            rows = [from_coordinates(unit(random, height), output._array) for _ in range(2)]
            batch = adopt(np.stack(rows))
            together = grad(output, targets, batch, retain_graph=True, allow_unused=True, is_grads_batched=True)
            for position, row in enumerate(rows):
                alone = grad(output, targets, adopt(row), retain_graph=True, allow_unused=True)
                for index, one, other in zip(point.wanted, together, alone, strict=True):
                    if one is not None and not np.allclose(one._array[position], other._array, self.rtol, self.atol):
                        raise GradcheckError(
                            f"while testing batched gradients: the gradient of input {index} for output {which} alone "
                            f"is {np.abs(one._array[position] - other._array).max():.6g} off that in a batch of two"
                        )

    def laws(self, nondet_tol: float, check_undefined_grad: bool, check_grad_dtypes: bool) -> None:
        """Check that backward is repeatable and zero at zero, and treats an undefined gradient as zero."""
        point = self.point
        ones, zeros = [np.ones(height) for height in point.heights], [np.zeros(height) for height in point.heights]
        first = point.pull_back(point.outputs, ones)
        if check_grad_dtypes:
            self._expect_dtypes(first)
        self._expect_repeatable(first, point.pull_back(point.outputs, ones), nondet_tol)
        self._expect_zero(point.pull_back(point.outputs, zeros))
        if check_undefined_grad and len(point.outputs) > 1:
            self._expect_absent_is_zero(ones, zeros)

    def _expect_dtypes(self, gradients: Sequence[Tensor | None]) -> None:
        for index, found in zip(self.point.wanted, gradients, strict=True):
            expected = self.point.inputs[index].dtype
            if found is not None and found.dtype is not expected:
                raise GradcheckError(
                    f"the gradient of input {index} is {found.dtype!r}; expected {expected!r}, as the input"
                )

    def _expect_repeatable(self, first: list[Tensor | None], again: list[Tensor | None], tolerance: float) -> None:
        for index, one, other in zip(self.point.wanted, first, again, strict=True):
            if one is not None and other is not None and not _within(one._array, other._array, tolerance):
                raise GradcheckError(
                    f"Backward is not reentrant: two passes with the same gradients give input {index} gradients that "
                    f"differ by {np.abs(one._array - other._array).max():.6g}, and nondet_tol is {tolerance:g}"
                )

    def _expect_zero(self, gradients: list[Tensor | None]) -> None:
        for index, found in zip(self.point.wanted, gradients, strict=True):
            if found is not None and not np.all(found._array == 0):
                raise GradcheckError(
                    f"backward not multiplied by grad_output: zero gradients of the outputs give input {index} "
                    f"gradients of up to {np.abs(found._array).max():.6g}"
                )

    def _expect_absent_is_zero(self, ones: list[np.ndarray], zeros: list[np.ndarray]) -> None:
        for which, output in enumerate(self.point.outputs):
            alone = self.point.pulled_coordinates([output], [ones[which]])
            among = self.point.pulled_coordinates(
                self.point.outputs, [*zeros[:which], ones[which], *zeros[which + 1 :]]
            )
            for index, one, other in zip(self.point.wanted, alone, among, strict=True):
                if not np.allclose(one, other, self.rtol, self.atol):
                    raise GradcheckError(
                        "Expected backward function to handle undefined output grads: with one for output "
                        f"{which} only, the gradient of input {index} differs by {np.abs(one - other).max():.6g} "
                        "from that with zeros for the others"
                    )


def _refuse_options(backward: bool, forward: bool, batched: bool, batched_forward: bool) -> None:
    if not (forward or backward):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if batched and not backward:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if batched_forward and not forward:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    if batched_forward:
        raise NotImplementedError("batched forward mode does not exist here; omit check_batched_forward_grad")


def _random_gradients(outputs: Any, gaps: bool) -> list[Tensor]:
    random = np.random.default_rng(0)
    made = []
    for output in as_sequence(outputs):
        if needs_grad(output):
            array = from_coordinates(random.uniform(-1, 1, size_of(output)), output._array)
            if gaps and array.ndim:
                array = np.repeat(array, 2, -1)[..., ::2]
            made.append(adopt(array).requires_grad_())
    return made


def _within(first: np.ndarray, second: np.ndarray, tolerance: float) -> bool:
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    return bool(np.all(same | (np.abs(first - second) <= tolerance)))


# Jacobians


class Jacobians:
    """The Jacobians of `func` at `inputs`, for every output and every input that requires gradients.

    Attributes:
        wanted: the positions of those inputs; `widths` has their numbers of coordinates.
        outputs: the differentiable outputs at the point, or all outputs if none is differentiable; `positions` and
            `heights` belong to them.
        differentiable: whether any output is.
    """

    def __init__(self, func: Callable[..., Any], inputs: tuple, eps: float) -> None:
        self.func, self.inputs, self.eps = func, inputs, eps
        self.wanted = _checkable(inputs)
        outputs = as_sequence(func(*inputs))
        positions = [index for index, output in enumerate(outputs) if needs_grad(output)]
        self.differentiable = bool(positions)
        self.positions = positions or [index for index, output in enumerate(outputs) if isinstance(output, Tensor)]
        self.outputs = [outputs[index] for index in self.positions]
        self.widths = {index: size_of(inputs[index]) for index in self.wanted}
        self.heights = [size_of(output) for output in self.outputs]

    # Differences

    def difference(self, index: int, direction: np.ndarray) -> list[np.ndarray]:
        """The central difference of each output along `direction`, in coordinates of the input at `index`."""
        array = self.inputs[index]._array
        before, step = array.copy(), from_coordinates(direction * self.eps, array)
        try:
            array[...] = before + step
            above = self._evaluate()
            array[...] = before - step
            below = self._evaluate()
        finally:
            array[...] = before
        return [(high - low) / (2 * self.eps) for high, low in zip(above, below, strict=True)]

    def _evaluate(self) -> list[np.ndarray]:
        outputs = as_sequence(self.func(*self.inputs))
        return [coordinates(outputs[index]._array) for index in self.positions]

    def numerical(self, index: int) -> list[np.ndarray]:
        """The Jacobian of each output by the input at `index`, from differences."""
        return self._by_columns(index, self.difference)

    def _by_columns(self, index: int, along: Callable[[int, np.ndarray], list[np.ndarray]]) -> list[np.ndarray]:
        """Jacobians from directional derivatives, with one row per coordinate of the output."""
        jacobians = [np.zeros((height, self.widths[index])) for height in self.heights]
        for column, axis in enumerate(np.eye(self.widths[index])):
            for jacobian, derivative in zip(jacobians, along(index, axis), strict=True):
                jacobian[:, column] = derivative
        return jacobians

    # Forward mode

    @restore_on_failure
    def push_forward(self, index: int, direction: np.ndarray) -> list[np.ndarray]:
        """The tangent of each output from the tangent `direction` of the input at `index`."""
        forward_ad = import_module(f"{__package__}.forward_ad")  # at its first use, as `namespaces` does
        moved = self.inputs[index]
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(moved, adopt(from_coordinates(direction, moved._array)))
            outputs = as_sequence(self.func(*[dual if value is moved else value for value in self.inputs]))
            tangents = [forward_ad.unpack_dual(outputs[position]).tangent for position in self.positions]
        return [
            np.zeros(height) if tangent is None else coordinates(tangent._array)
            for height, tangent in zip(self.heights, tangents, strict=True)
        ]

    def forward(self, index: int) -> list[np.ndarray]:
        """The Jacobian of each output by the input at `index`, from tangents."""
        return self._by_columns(index, self.push_forward)

    # Backward passes

    def pull_back(self, outputs: Sequence[Tensor], weights: Sequence[np.ndarray]) -> list[Tensor | None]:
        """The gradients of the checked inputs, from those of `outputs` as coordinates."""
        pairs = zip(outputs, weights, strict=True)
        shaped = [adopt(from_coordinates(weight, output._array)) for output, weight in pairs]
        targets = [self.inputs[index] for index in self.wanted]
        return list(grad(outputs, targets, shaped, retain_graph=True, allow_unused=True))

    def pulled_coordinates(self, outputs: Sequence[Tensor], weights: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The same as coordinates, with zeros for inputs that the outputs do not depend on."""
        found = self.pull_back(outputs, weights)
        return [
            np.zeros(self.widths[index]) if each is None else coordinates(each._array)
            for index, each in zip(self.wanted, found, strict=True)
        ]

    def backward(self) -> dict[int, list[np.ndarray]]:
        """The Jacobians of the outputs by each checked input, from gradients."""
        jacobians = {
            index: [np.zeros((height, self.widths[index])) for height in self.heights] for index in self.wanted
        }
        for which, output in enumerate(self.outputs):
            for row, axis in enumerate(np.eye(self.heights[which])):
                for index, pulled in zip(self.wanted, self.pulled_coordinates([output], [axis]), strict=True):
                    jacobians[index][which][row] = pulled
        return jacobians


def _checkable(inputs: tuple) -> list[int]:
    """The positions of the inputs that require gradients. Raises for inputs that finite differences cannot handle."""
    wanted = []
    for index, value in enumerate(inputs):
        if not needs_grad(value):
            continue
        array = value._array
        if dtype_of(array).to_real() is not float64:
            warn_caller(
                f"input {index} requires gradient and is {value.dtype!r}; the check will likely fail for types of less "
                "precision than mt.float64 and mt.complex128"
            )
        if array.size and any(
            stride == 0 and size > 1 for stride, size in zip(array.strides, array.shape, strict=True)
        ):
            raise RuntimeError(
                f"input {index} of shape {list(array.shape)} has a dimension with stride 0, so its elements "
                "cannot be varied one by one; use contiguous() or clone() first"
            )
        wanted.append(index)
    if not wanted:
        raise ValueError(
            "gradcheck expects at least one input that requires gradient; use requires_grad_() on a tensor"
        )
    return wanted


def as_sequence(values: Any) -> tuple:
    return tuple(values) if isinstance(values, (tuple, list)) else (values,)


def needs_grad(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad and value.dtype.category >= FLOATING


def coordinates(array: np.ndarray) -> np.ndarray:
    """A copy of the elements as float64, real and imaginary parts alternating."""
    if array.dtype.kind == "c":
        return array.astype(np.complex128).ravel().view(np.float64)
    return array.astype(np.float64).ravel()


def size_of(tensor: Tensor) -> int:
    return tensor._array.size * (2 if tensor._array.dtype.kind == "c" else 1)


def from_coordinates(coordinates: np.ndarray, like: np.ndarray) -> np.ndarray:
    values = np.ascontiguousarray(coordinates, np.float64)
    values = values.view(np.complex128) if like.dtype.kind == "c" else values
    return values.reshape(like.shape).astype(like.dtype)


def element(array: np.ndarray, coordinate: Any) -> str:
    parts = 2 if array.dtype.kind == "c" else 1
    place = tuple(map(int, np.unravel_index(int(coordinate) // parts, array.shape)))
    return str(list(place)) + ("" if parts == 1 else (".real", ".imag")[int(coordinate) % 2])


def unit(random: np.random.Generator, size: int) -> np.ndarray:
    vector = random.uniform(0.1, 1.0, size)
    return vector / max(float(np.linalg.norm(vector)), 1e-300)
