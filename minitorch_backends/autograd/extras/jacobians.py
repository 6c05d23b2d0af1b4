"""Jacobians of a function at a point, by central differences, backward passes and forward mode.

Every tensor is treated as a vector of real coordinates (two per complex element), so one real Jacobian describes the
derivative completely. The gradient of a real function of z = x + iy is df/dx + i df/dy, torch's convention.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...kernels.runtime.context import restore_on_failure
from ...tensor.dtypes import FLOATING, dtype_of, float64
from ...tensor.tensor import Tensor, adopt
from .. import extras
from ..api import grad


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
        """For each output, the central difference along `direction`, in coordinates of the input at `index`."""
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
        """For each output, its Jacobian by the input at `index`, from differences."""
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
        """For each output, its tangent from the tangent `direction` of the input at `index`."""
        forward_ad, moved = extras.forward_ad, self.inputs[index]
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(moved, adopt(from_coordinates(direction, moved._array)))
            outputs = as_sequence(self.func(*[dual if value is moved else value for value in self.inputs]))
            tangents = [forward_ad.unpack_dual(outputs[position]).tangent for position in self.positions]
        return [
            np.zeros(height) if tangent is None else coordinates(tangent._array)
            for height, tangent in zip(self.heights, tangents, strict=True)
        ]

    def forward(self, index: int) -> list[np.ndarray]:
        """For each output, its Jacobian by the input at `index`, from tangents."""
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
        """For each checked input, the Jacobians of the outputs, from gradients."""
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
            warnings.warn(
                f"input {index} requires gradient and is {value.dtype!r}; the check will likely fail for types of less "
                "precision than mt.float64 and mt.complex128",
                stacklevel=5,
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
