"""Samples and references of `ops/elementwise/trigonometric.py`."""

from __future__ import annotations

import math

import numpy as np

from ..samples import pairs, unary_samples
from ..table import declare

declare("sin", np.sin)
declare("cos", np.cos)
declare("tan", np.tan, unary_samples(-1.2, 1.2))
declare("asin", np.arcsin, unary_samples(-0.9, 0.9))
declare("acos", np.arccos, unary_samples(-0.9, 0.9))
declare("atan", np.arctan)
declare("atan2", np.arctan2, pairs(0.2, 2, -2, 2.3, numbers=False))
declare("hypot", lambda input, other: np.sqrt(input * input + other * other), pairs(0.2, 2, numbers=False))
declare("sinh", np.sinh)
declare("cosh", np.cosh)
declare("tanh", np.tanh)
declare("asinh", np.arcsinh)
declare("acosh", np.arccosh, unary_samples(1.2, 4))
declare("atanh", np.arctanh, unary_samples(-0.9, 0.9))
declare("deg2rad", lambda input: input * math.pi / 180, unary_samples(-180, 200))
declare("rad2deg", lambda input: input * 180 / math.pi)
