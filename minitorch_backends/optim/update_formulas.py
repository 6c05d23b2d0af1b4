"""Formulas of optimisers, as `updates` takes them, that NumPy computes for arrays of any size."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


def _direction(p: Any, g: Any, c: Any) -> Any:
    """The gradient, or minus that (`sign` is -1 to ascend), and the share of the parameter that decays by it."""
    d = -g if c.sign < 0 else g
    return d + c.weight_decay * p if c.weight_decay else d


class RMSpropConstants(NamedTuple):
    """`alpha` is the weight of the past."""

    lr: float
    sign: float
    weight_decay: float
    alpha: float
    eps: float
    momentum: float


def rmsprop(p: Any, g: Any, v: Any, b: Any, m: Any, c: RMSpropConstants) -> tuple:
    """v is the mean of squares; b, the momentum, and m, the mean that is subtracted, may be None."""
    d = _direction(p, g, c)
    v = v * c.alpha + (1 - c.alpha) * (d * d)
    spread = v
    if m is not None:
        m = m + (1 - c.alpha) * (d - m)
        spread = v - m * m
    move = d / (np.sqrt(spread) + c.eps)
    if b is not None:
        b = move = b * c.momentum + move
    return p - c.lr * move, v, b, m


class AdagradConstants(NamedTuple):
    """`start` is what the sum of squares begins with, in the first step."""

    lr: float
    sign: float
    weight_decay: float
    eps: float
    start: float


def adagrad(p: Any, g: Any, s: Any, c: AdagradConstants) -> tuple:
    """s is the sum of squares."""
    d = _direction(p, g, c)
    s = s + c.start + d * d
    return p - c.lr * (d / (np.sqrt(s) + c.eps)), s


class AdadeltaConstants(NamedTuple):
    """`rho` is the weight of the past."""

    lr: float
    sign: float
    weight_decay: float
    rho: float
    eps: float


def adadelta(p: Any, g: Any, v: Any, u: Any, c: AdadeltaConstants) -> tuple:
    """v is the mean of squares of gradients, u that of moves."""
    d = _direction(p, g, c)
    v = v * c.rho + (1 - c.rho) * (d * d)
    move = np.sqrt(u + c.eps) / np.sqrt(v + c.eps) * d
    return p - c.lr * move, v, u * c.rho + (1 - c.rho) * (move * move)


class AdamaxConstants(NamedTuple):
    """`size` has the mean's correction for its start at 0."""

    size: float
    sign: float
    weight_decay: float
    rise: float
    beta2: float
    eps: float


def adamax(p: Any, g: Any, m: Any, u: Any, c: AdamaxConstants) -> tuple:
    """m is the mean of gradients, u the largest of them, each by `beta2` less a step later."""
    d = _direction(p, g, c)
    m = m + c.rise * (d - m)
    u = np.maximum(u * c.beta2, np.abs(d) + c.eps)
    return p - c.size * (m / u), m, u


class RAdamConstants(NamedTuple):
    """`size` and `scale` have the means' corrections; `certain` is 0 while the mean of squares is too uncertain to be
    divided by; weights decay by the factor `decay`, or with `weight_decay` by the gradient."""

    size: float
    scale: float
    sign: float
    decay: float
    weight_decay: float
    rise: float
    beta2: float
    eps: float
    certain: float


def radam(p: Any, g: Any, m: Any, v: Any, c: RAdamConstants) -> tuple:
    """m is the mean of gradients, v that of their squares."""
    p = p * c.decay
    d = _direction(p, g, c)
    m = m + c.rise * (d - m)
    v = v * c.beta2 + (1 - c.beta2) * (d * d)
    move = c.scale * (m / (np.sqrt(v) + c.eps)) if c.certain else m
    return p - c.size * move, m, v


class NAdamConstants(NamedTuple):
    """`of_gradient` and `of_mean` are the sizes of the two moves, `scale` corrects the mean of squares; weights decay
    by the factor `decay`, or with `weight_decay` by the gradient."""

    of_gradient: float
    of_mean: float
    scale: float
    sign: float
    decay: float
    weight_decay: float
    rise: float
    beta2: float
    eps: float


def nadam(p: Any, g: Any, m: Any, v: Any, c: NAdamConstants) -> tuple:
    """m is the mean of gradients, v that of their squares."""
    p = p * c.decay
    d = _direction(p, g, c)
    m = m + c.rise * (d - m)
    v = v * c.beta2 + (1 - c.beta2) * (d * d)
    return p - (c.of_gradient * d + c.of_mean * m) / (np.sqrt(v * c.scale) + c.eps), m, v


class ASGDConstants(NamedTuple):
    """`eta` is the rate of this step, `mu` the weight of its result in the average."""

    eta: float
    mu: float
    sign: float
    weight_decay: float
    lambd: float


def asgd(p: Any, g: Any, average: Any, c: ASGDConstants) -> tuple:
    """The parameter decays by `lambd` times the rate, whatever the gradient's own decay is."""
    p = p * (1 - c.lambd * c.eta) - c.eta * _direction(p, g, c)
    return p, p if c.mu == 1 else average + c.mu * (p - average)


class RpropConstants(NamedTuple):
    """`start` is what the sizes of moves begin with, in the first step."""

    sign: float
    weight_decay: float
    shrink: float
    grow: float
    least: float
    most: float
    start: float


def rprop(p: Any, g: Any, before: Any, size: Any, c: RpropConstants) -> tuple:
    """`before` is the last gradient, 0 where its sign changed; `size` the length of the moves."""
    d = _direction(p, g, c)
    turn = np.sign(d * before)
    size = size + c.start
    size = np.clip(np.where(turn > 0, size * c.grow, np.where(turn < 0, size * c.shrink, size)), c.least, c.most)
    d = np.where(turn < 0, 0, d)
    return p - np.sign(d) * size, d, size
