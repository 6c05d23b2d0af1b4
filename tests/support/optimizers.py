"""The formulas of optimizers, for one number, and steps by them."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import optim
from minitorch_backends.tensor.tensor import Parameter, Tensor

STEPS = 5


def parameter(values: Any, dtype: Any = np.float64) -> Parameter:
    return Parameter(mt.tensor(np.asarray(values, dtype)))


def sgd(
    p: complex, gradients: list[complex], lr: float, momentum: float = 0, dampening: float = 0, weight_decay: float = 0,
    nesterov: bool = False, maximize: bool = False,
) -> complex:  # fmt: skip
    buffer: complex | None = None
    for g in gradients:
        d = (-g if maximize else g) + weight_decay * p
        if momentum:
            buffer = d if buffer is None else momentum * buffer + (1 - dampening) * d
            d = d + momentum * buffer if nesterov else buffer
        p = p - lr * d
    return p


def adam(
    p: float, gradients: list[float], lr: float, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
    weight_decay: float = 0, amsgrad: bool = False, maximize: bool = False, decoupled: bool = False,
) -> float:  # fmt: skip
    m = v = largest = 0.0
    for step, g in enumerate(gradients, 1):
        g = -g if maximize else g
        if decoupled:
            p *= 1 - lr * weight_decay
        else:
            g += weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        largest = max(largest, v)
        mean, square = m / (1 - betas[0] ** step), (largest if amsgrad else v) / (1 - betas[1] ** step)
        p -= lr * mean / (math.sqrt(square) + eps)
    return p


def adamw(*args: Any, weight_decay: float = 1e-2, **options: Any) -> float:
    return adam(*args, weight_decay=weight_decay, decoupled=True, **options)


def rmsprop(
    p: float, gradients: list[float], lr: float, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0,
    momentum: float = 0, centered: bool = False, maximize: bool = False,
) -> float:  # fmt: skip
    v = mean = buffer = 0.0
    for g in gradients:
        g = (-g if maximize else g) + weight_decay * p
        v, mean = alpha * v + (1 - alpha) * g * g, alpha * mean + (1 - alpha) * g
        buffer = momentum * buffer + g / (math.sqrt(v - mean * mean * centered) + eps)
        p -= lr * buffer
    return p


def adagrad(
    p: float, gradients: list[float], lr: float, lr_decay: float = 0, weight_decay: float = 0,
    initial_accumulator_value: float = 0, eps: float = 1e-10, maximize: bool = False,
) -> float:  # fmt: skip
    s = initial_accumulator_value
    for step, g in enumerate(gradients):
        g = (-g if maximize else g) + weight_decay * p
        s += g * g
        p -= lr / (1 + step * lr_decay) * g / (math.sqrt(s) + eps)
    return p


def adadelta(
    p: float, gradients: list[float], lr: float, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0,
    maximize: bool = False,
) -> float:  # fmt: skip
    v = u = 0.0
    for g in gradients:
        g = (-g if maximize else g) + weight_decay * p
        v = rho * v + (1 - rho) * g * g
        move = math.sqrt(u + eps) / math.sqrt(v + eps) * g
        u = rho * u + (1 - rho) * move * move
        p -= lr * move
    return p


def adamax(
    p: float, gradients: list[float], lr: float, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
    weight_decay: float = 0, maximize: bool = False,
) -> float:  # fmt: skip
    m = u = 0.0
    for step, g in enumerate(gradients, 1):
        g = (-g if maximize else g) + weight_decay * p
        m, u = betas[0] * m + (1 - betas[0]) * g, max(betas[1] * u, abs(g) + eps)
        p -= lr / (1 - betas[0] ** step) * m / u
    return p


def radam(
    p: float, gradients: list[float], lr: float, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
    weight_decay: float = 0, decoupled_weight_decay: bool = False, maximize: bool = False,
) -> float:  # fmt: skip
    m = v = 0.0
    longest = 2 / (1 - betas[1]) - 1
    for step, g in enumerate(gradients, 1):
        g = -g if maximize else g
        if decoupled_weight_decay:
            p *= 1 - lr * weight_decay
        else:
            g += weight_decay * p
        m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g * g
        power = betas[1] ** step
        length = longest - 2 * step * power / (1 - power)
        move = m / (1 - betas[0] ** step)
        if length > 5:
            rest = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
            move *= math.sqrt(rest) * math.sqrt(1 - power) / (math.sqrt(v) + eps)
        p -= lr * move
    return p


def nadam(
    p: float, gradients: list[float], lr: float, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
    weight_decay: float = 0, momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, maximize: bool = False,
) -> float:  # fmt: skip
    m, v, product = 0.0, 0.0, 1.0
    for step, g in enumerate(gradients, 1):
        g = -g if maximize else g
        if decoupled_weight_decay:
            p *= 1 - lr * weight_decay
        else:
            g += weight_decay * p
        mu, after = (betas[0] * (1 - 0.5 * 0.96 ** (each * momentum_decay)) for each in (step, step + 1))
        product *= mu
        m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g * g
        mean = after * m / (1 - product * after) + (1 - mu) * g / (1 - product)
        p -= lr * mean / (math.sqrt(v / (1 - betas[1] ** step)) + eps)
    return p


def rprop(
    p: float, gradients: list[float], lr: float, etas: tuple[float, float] = (0.5, 1.2),
    step_sizes: tuple[float, float] = (1e-6, 50), maximize: bool = False,
) -> float:  # fmt: skip
    before, size = 0.0, lr
    for g in gradients:
        g = -g if maximize else g
        if g * before < 0:
            size, g = max(size * etas[0], step_sizes[0]), 0.0
        elif g * before > 0:
            size = min(size * etas[1], step_sizes[1])
        p -= size * ((g > 0) - (g < 0))
        before = g
    return p


def asgd(
    p: float, gradients: list[float], lr: float, lambd: float = 1e-4, alpha: float = 0.75, t0: float = 1e6,
    weight_decay: float = 0, maximize: bool = False,
) -> float:  # fmt: skip
    for step, g in enumerate(gradients):
        eta = lr / (1 + lambd * lr * step) ** alpha
        p = p * (1 - lambd * eta) - eta * ((-g if maximize else g) + weight_decay * p)
    return p


CASES: list[tuple[type[optim.Optimizer], Callable[..., Any], dict[str, Any]]] = [
    (optim.SGD, sgd, {"lr": 0.1}),
    (optim.SGD, sgd, {"lr": 0.1, "weight_decay": 0.3}),
    (optim.SGD, sgd, {"lr": 0.1, "momentum": 0.9}),
    (optim.SGD, sgd, {"lr": 0.1, "momentum": 0.9, "dampening": 0.4, "weight_decay": 0.2, "maximize": True}),
    (optim.SGD, sgd, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.2}),
    (optim.Adam, adam, {"lr": 0.1}),
    (optim.Adam, adam, {"lr": 0.1, "betas": (0.8, 0.9), "eps": 0.01, "weight_decay": 0.3}),
    (optim.Adam, adam, {"lr": 0.1, "amsgrad": True, "betas": (0.5, 0.5), "maximize": True}),
    (optim.AdamW, adamw, {"lr": 0.1}),
    (optim.AdamW, adamw, {"lr": 0.1, "weight_decay": 0.5, "amsgrad": True}),
    (optim.RMSprop, rmsprop, {"lr": 0.1}),
    (optim.RMSprop, rmsprop, {"lr": 0.1, "alpha": 0.5, "eps": 0.1, "centered": True, "weight_decay": 0.2}),
    (optim.RMSprop, rmsprop, {"lr": 0.1, "momentum": 0.9, "centered": True, "eps": 0.01, "maximize": True}),
    (optim.Adagrad, adagrad, {"lr": 0.1}),
    (optim.Adagrad, adagrad, {"lr": 0.1, "lr_decay": 0.2, "initial_accumulator_value": 0.3, "weight_decay": 0.2}),
    (optim.Adadelta, adadelta, {"lr": 1.0}),
    (optim.Adadelta, adadelta, {"lr": 0.5, "rho": 0.5, "eps": 0.01, "weight_decay": 0.2, "maximize": True}),
    (optim.Adamax, adamax, {"lr": 0.1}),
    (optim.Adamax, adamax, {"lr": 0.1, "betas": (0.5, 0.6), "weight_decay": 0.2, "maximize": True}),
    (optim.RAdam, radam, {"lr": 0.1}),
    (optim.RAdam, radam, {"lr": 0.1, "betas": (0.5, 0.9), "weight_decay": 0.2, "decoupled_weight_decay": True}),
    (optim.RAdam, radam, {"lr": 0.1, "betas": (0.5, 0.99), "weight_decay": 0.2, "maximize": True}),
    (optim.NAdam, nadam, {"lr": 0.1}),
    (optim.NAdam, nadam, {"lr": 0.1, "betas": (0.5, 0.9), "weight_decay": 0.2, "decoupled_weight_decay": True}),
    (optim.Rprop, rprop, {"lr": 0.1}),
    (optim.Rprop, rprop, {"lr": 0.1, "etas": (0.3, 1.5), "step_sizes": (0.05, 0.2), "maximize": True}),
    (optim.ASGD, asgd, {"lr": 0.1}),
    (optim.ASGD, asgd, {"lr": 0.1, "lambd": 0.3, "alpha": 0.5, "t0": 2, "weight_decay": 0.2, "maximize": True}),
]


every_case = pytest.mark.parametrize(
    ("make", "formula", "options"), CASES, ids=[f"{c[0].__name__} {c[2]}" for c in CASES]
)


def gradients_for(values: np.ndarray) -> list[np.ndarray]:
    """Different at every step and element, of both signs, and large first (which amsgrad remembers)."""
    number = np.arange(values.size).reshape(values.shape)
    return [np.cos(1.0 + 3 * step + number).astype(values.dtype) / (1 + step) for step in range(STEPS)]


def train(optimizer: optim.Optimizer, target: Tensor, gradients: list[np.ndarray]) -> np.ndarray:
    for g in gradients:
        target.grad = mt.tensor(g)
        optimizer.step()
    return target.detach()._array


def reference(
    formula: Callable[..., Any], values: np.ndarray, gradients: list[np.ndarray], options: dict[str, Any]
) -> np.ndarray:
    columns = zip(*(g.reshape(-1).tolist() for g in gradients), strict=True)
    results = [
        formula(p, list(column), **options) for p, column in zip(values.reshape(-1).tolist(), columns, strict=True)
    ]
    return np.array(results, values.dtype).reshape(values.shape)
