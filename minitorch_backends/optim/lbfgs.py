"""L-BFGS: Newton's method with a Hessian from the last steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ..autograd.modes import enable_grad
from ..autograd.mutation import about_to_write, bump
from ..kernels.arrays import updates
from ..kernels.runtime.context import restore_on_failure
from ..ops.creation.factories import as_tensor
from ..tensor.tensor import Tensor, adopt, is_foreign
from .optimizer import Optimizer, options_of

# A line search along a descent direction


_SUFFICIENT, _CURVATURE = 1e-4, 0.9
"""The share of the initial slope by which the function must decrease, and the share to which slopes must flatten."""

_NEAREST, _FARTHEST, _MARGIN = 0.01, 10.0, 0.1
"""Safeguards: the minimum extrapolation as a share of the last interval, the maximum as a multiple, and the minimum
distance from the ends of a bracket as a share of it."""


class Point(NamedTuple):
    """A point on the line: its step length, and the function's value, gradient and directional slope there."""

    step: float
    value: float
    gradient: np.ndarray
    slope: float


def strong_wolfe(
    at: Callable[[float], Point], start: Point, step: float, least: float, most: int = 25
) -> tuple[Point, int]:
    """A point that satisfies the strong Wolfe conditions, and the number of trials.

    If none is found in `most` trials, or brackets shrink below `least`, the lowest point is returned. Starting from the
    trial `step`, a bracket is found and then reduced by cubic interpolation (J. Nocedal and S. Wright, "Numerical
    optimization", 2006, algorithms 3.5 and 3.6). Values that are not finite count as too high.
    """

    def too_high(point: Point, than: Point) -> bool:
        falls = point.value <= start.value + _SUFFICIENT * point.step * start.slope
        return not (falls and math.isfinite(point.value) and (than is start or point.value < than.value))

    def flat(point: Point) -> bool:
        return abs(point.slope) <= -_CURVATURE * start.slope

    before, tried = start, 0
    while tried < most:
        now, tried = at(step), tried + 1
        if too_high(now, before):
            low, high = before, now
            break
        if flat(now):
            return now, tried
        if now.slope >= 0:
            low, high = now, before
            break
        step = _lowest(before, now, now.step + _NEAREST * (now.step - before.step), _FARTHEST * now.step)
        before = now
    else:
        return before, tried

    while tried < most and abs(high.step - low.step) > least:
        margin = _MARGIN * (high.step - low.step)
        now, tried = at(_lowest(low, high, *sorted((low.step + margin, high.step - margin)))), tried + 1
        if too_high(now, low):
            high = now
            continue
        if flat(now):
            return now, tried
        if now.slope * (high.step - low.step) >= 0:
            high = low
        low = now
    return low, tried


def _lowest(a: Point, b: Point, least: float, most: float) -> float:
    """Where between `least` and `most` the cubic through two points, with their slopes, is lowest; the middle where it
    has no such place."""
    distance = b.step - a.step
    first = a.slope + b.slope - 3 * (b.value - a.value) / distance
    square = first * first - a.slope * b.slope
    if square >= 0:  # not of NaN either
        second = math.copysign(math.sqrt(square), distance)
        under = b.slope - a.slope + 2 * second
        if under:
            found = b.step - distance * (b.slope + second - first) / under
            if math.isfinite(found):
                return min(max(found, least), most)
    return (least + most) / 2


_LEAST_CURVATURE = 1e-10
"""Pairs whose product of step and gradient change is at most this are not stored: the Hessian stays positive."""


_REMEMBERED = {"func_evals", "n_iter", "d", "t", "old_dirs", "old_stps", "ro", "H_diag", "prev_flat_grad", "prev_loss"}
"""The state under torch's names: the last direction and step length; the stored changes of gradient and position; the
inverses of their products; the scale of the Hessian; and the last gradient and loss."""


class LBFGS(Optimizer):
    """L-BFGS: steps along -H g, with an inverse Hessian H built from the last `history_size` steps and changes of the
    gradient g (J. Nocedal, "Updating quasi-Newton matrices with limited storage", 1980).

    `step(closure)` makes up to `max_iter` iterations with up to `max_eval` calls of the closure (5/4 of `max_iter`). It
    ends when no element of g is above `tolerance_grad`, or steps or the loss change by less than `tolerance_change`. A
    step is `lr` times the direction, or as long as `line_search_fn` "strong_wolfe" finds. All parameters form one
    group.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        super().__init__(params, options_of(locals()))

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add the only group. Raises ValueError for a second one."""
        if self.param_groups:
            raise ValueError("LBFGS doesn't support per-parameter options; give all parameters as one group")
        super().add_param_group(param_group)

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise ValueError(f"invalid line_search_fn: {group['line_search_fn']!r}; expected 'strong_wolfe' or None")
        if not -math.inf < group["max_iter"] < math.inf:
            raise ValueError(f"invalid max_iter: {group['max_iter']}; expected a finite number")
        if group["history_size"] < 1:
            raise ValueError(f"invalid history_size: {group['history_size']}; expected at least 1")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Up to `max_iter` iterations. The closure clears the gradients, computes the loss, calls its `backward` and
        returns it; the first loss is returned. Raises TypeError without one."""
        if closure is None:
            raise TypeError("LBFGS.step() needs a closure that computes the loss and its gradients, got none")
        self.stepped = True
        [group] = self.param_groups
        parameters = group["params"]
        for parameter in parameters:
            updates.refuse_unfit(parameter._array)
        run = _Run(closure, parameters)
        state = self.state[parameters[0]]
        state.setdefault("n_iter", 0)
        state.setdefault("func_evals", 0)
        loss = run.evaluate()
        try:
            if _largest(run.gradient) > group["tolerance_grad"]:
                _iterate(run, group, state)
        finally:
            state["func_evals"] += run.calls
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over state and options. Tensors are copied. Raises ValueError where sizes differ."""
        parameters = self.param_groups[0]["params"]
        found = state_dict.get("state", {}).get(0, {}) if isinstance(state_dict, dict) else {}
        state = _copy_state(found, parameters)
        super().load_state_dict(state_dict | {"state": {}} if isinstance(state_dict, dict) else state_dict)
        self.state.update({parameters[0]: state} if state else {})


class _Run:
    """A closure and its parameters as a function of one vector.

    Attributes:
        value, gradient: the latest ones, at the current parameters.
        calls: the number of closure calls.
    """

    def __init__(self, closure: Callable[[], Any], parameters: list[Tensor]) -> None:
        self.closure, self.parameters, self.calls = closure, parameters, 0
        self.value, self.gradient = 0.0, np.empty(0)

    @restore_on_failure
    def evaluate(self) -> Any:
        """Call the closure."""
        with enable_grad():
            loss = self.closure()
        self.calls += 1
        self.value = float(loss)
        self.gradient = self._flat([parameter.grad for parameter in self.parameters])
        return loss

    def place(self) -> np.ndarray:
        """A copy of the parameters."""
        return self._flat(self.parameters)

    def move(self, place: np.ndarray) -> None:
        """Write the parameters."""
        for parameter in self.parameters:
            about_to_write(parameter)
        begin = 0
        for parameter in self.parameters:
            array = parameter._array
            count = array.size * (2 if array.dtype.kind == "c" else 1)
            part = place[begin : begin + count]
            array[...] = (part.view(array.dtype) if array.dtype.kind == "c" else part).reshape(array.shape)
            bump(parameter)
            begin += count

    def _flat(self, tensors: Iterable[Any]) -> np.ndarray:
        """Flatten to one vector, complex numbers as pairs; zeros for None."""
        parts = []
        for tensor, parameter in zip(tensors, self.parameters, strict=True):
            array = np.zeros_like(parameter._array) if tensor is None else tensor._array
            array = np.ascontiguousarray(array).reshape(-1)
            array = array.view(array.real.dtype) if array.dtype.kind == "c" else array
            parts.append(array.astype(np.float32) if array.dtype.itemsize == 2 else array)
        return np.concatenate(parts)


@np.errstate(all="ignore")  # steps that diverge end in Inf and NaN, which the conditions below see
def _iterate(run: _Run, group: dict[str, Any], state: dict[str, Any]) -> None:
    """The iterations of a step, from where the gradient is known."""
    least = group["tolerance_change"]
    for left in reversed(range(math.ceil(group["max_iter"]))):
        state["n_iter"] += 1
        direction = _direction(run.gradient, group, state)
        slope, value = float(run.gradient @ direction), run.value
        if slope > -least:
            return
        length = float(group["lr"])
        if state["n_iter"] == 1:
            length *= min(1.0, 1 / float(np.abs(run.gradient).sum()))
        before = run.gradient
        if left or group["line_search_fn"]:
            length = _move(run, direction, slope, length, group)
        else:  # the next step may reuse it
            run.move(run.place() + length * direction)
        state["prev_flat_grad"], state["prev_loss"] = adopt(before), value
        state["d"], state["t"] = adopt(direction), length
        if not left:
            return
        flat = _largest(run.gradient) <= group["tolerance_grad"]
        still = length * _largest(direction) <= least or abs(run.value - value) < least
        if flat or still or run.calls >= group["max_eval"] or not np.isfinite(run.value):
            return


def _move(run: _Run, direction: np.ndarray, slope: float, length: float, group: dict[str, Any]) -> float:
    """The distance that the parameters were moved along the direction."""
    origin = run.place()

    def at(step: float) -> Point:
        run.move(origin + origin.dtype.type(step) * direction)
        run.evaluate()
        return Point(step, run.value, run.gradient, float(run.gradient @ direction))

    if group["line_search_fn"] is None:
        at(length)
        return length
    start = Point(0.0, run.value, run.gradient, slope)
    found, _ = strong_wolfe(at, start, length, group["tolerance_change"] / max(_largest(direction), 1e-300))
    run.move(origin + origin.dtype.type(found.step) * direction)
    run.value, run.gradient = found.value, found.gradient
    return found.step


def _direction(gradient: np.ndarray, group: dict[str, Any], state: dict[str, Any]) -> np.ndarray:
    """-H g by the two-loop recursion over the stored pairs, after appending the last step."""
    steps, changes = state.setdefault("old_stps", []), state.setdefault("old_dirs", [])
    curvatures = state.setdefault("ro", [])
    state.setdefault("H_diag", 1)
    if "d" in state:
        step, change = state["t"] * state["d"]._array, gradient - state["prev_flat_grad"]._array
        curvature = float(step @ change)
        if curvature > _LEAST_CURVATURE:
            steps.append(adopt(step))
            changes.append(adopt(change))
            curvatures.append(1 / curvature)
            state["H_diag"] = curvature / float(change @ change)
            for each in (steps, changes, curvatures):
                del each[: -group["history_size"]]
    pairs = [(step._array, change._array) for step, change in zip(steps, changes, strict=True)]
    direction, shares = -gradient, []
    for step, change in reversed(pairs):
        share = (step @ direction) / (step @ change)
        direction = direction - share * change
        shares.append(share)
    if pairs:
        step, change = pairs[-1]
        direction = direction * ((step @ change) / (change @ change))
    for (step, change), share in zip(pairs, reversed(shares), strict=True):
        direction = direction + (share - (change @ direction) / (step @ change)) * step
    return direction


def _largest(vector: np.ndarray) -> float:
    return float(np.abs(vector).max(initial=0))


def _copy_state(state: dict[str, Any], parameters: list[Tensor]) -> dict[str, Any]:
    """Raises ValueError for vectors of another length than the parameters have numbers."""
    count = sum(each._array.size * (2 if each._array.dtype.kind == "c" else 1) for each in parameters)

    def copy(value: Any) -> Any:
        if isinstance(value, list):
            return [copy(each) for each in value]
        if not isinstance(value, (Tensor, np.ndarray)) and not is_foreign(value):
            return value
        vector = np.array(as_tensor(value)._array)
        if not vector.ndim:
            return vector.item()
        if vector.size != count:
            raise ValueError(
                f"the loaded state has vectors of {vector.size} numbers, and the parameters {count}; load the "
                "state of an optimizer of the same parameters"
            )
        return adopt(vector)

    return {name: copy(value) for name, value in state.items() if name in _REMEMBERED and value is not None}
