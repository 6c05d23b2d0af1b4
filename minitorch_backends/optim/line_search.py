"""A line search along a descent direction."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

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
