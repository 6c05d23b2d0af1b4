"""The definition of recurrences, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np


def _logistic(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _lstm(x: np.ndarray, product: np.ndarray, cell: np.ndarray) -> tuple[np.ndarray, ...]:
    i, f, g, o = np.split(x + product, 4, -1)
    i, f, g, o = _logistic(i), _logistic(f), np.tanh(g), _logistic(o)
    cell = f * cell + i * g
    return o * np.tanh(cell), cell, np.concatenate([i, f, g, o], -1)


def _gru(x: np.ndarray, product: np.ndarray, before: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, ...]:
    (xr, xz, xn), (hr, hz, hn) = np.split(x, 3, -1), np.split(product + bias, 3, -1)
    r, z = _logistic(xr + hr), _logistic(xz + hz)
    n = np.tanh(xn + r * hn)
    return n + z * (before - n), np.concatenate([r, z, n, hn], -1)


def recurrence(*arrays: np.ndarray, cell: str, **_: Any) -> tuple[np.ndarray, ...]:
    projected, weight, hidden, *others = (each.astype(np.float64) for each in arrays)
    steps: list[tuple[np.ndarray, ...]] = []
    for x in projected:
        product = hidden @ weight.T
        if cell == "lstm":
            steps.append(_lstm(x, product, steps[-1][1] if steps else others[0]))
        elif cell == "gru":
            steps.append(_gru(x, product, hidden, others[0]))
        else:
            steps.append((np.tanh(x + product) if cell == "rnn_tanh" else np.maximum(x + product, 0),))
        hidden = steps[-1][0]
    if steps:
        return tuple(map(np.array, zip(*steps, strict=True)))
    counts = {"lstm": (1, 1, 4), "gru": (1, 4)}.get(cell, (1,))
    return tuple(np.zeros((0, len(hidden), count * hidden.shape[1])) for count in counts)


def gradient(*arrays: np.ndarray, cell: str, **_: Any) -> tuple[np.ndarray, ...]:
    g, weight, output, *others = (each.astype(np.float64) for each in arrays)
    rows, size = output.shape[1:]
    of_hidden, of_cell = (np.zeros((rows, size)) for _ in range(2))
    of_products, of_sums = [], []
    for step in reversed(range(len(g))):
        of_hidden = of_hidden + g[step]
        if cell == "lstm":
            of_cells, first, cells, gates = others
            i, f, n, o = np.split(gates[step], 4, -1)
            bent, before = np.tanh(cells[step]), cells[step - 1] if step else first
            of_cell = of_cell + of_cells[step] + of_hidden * o * (1 - bent * bent)
            parts = of_cell * n * i * (1 - i), of_cell * before * f * (1 - f), of_cell * i * (1 - n * n)
            of_products.append(np.concatenate([*parts, of_hidden * bent * o * (1 - o)], -1))
            of_cell, beside = of_cell * f, 0
        elif cell == "gru":
            hidden, gates = others
            r, z, n, given = np.split(gates[step], 4, -1)
            before = output[step - 1] if step else hidden
            of_new = of_hidden * (1 - z) * (1 - n * n)
            of_both = [of_new * given * r * (1 - r), of_hidden * (before - n) * z * (1 - z)]
            of_sums.append(np.concatenate([*of_both, of_new], -1))
            of_products.append(np.concatenate([*of_both, of_new * r], -1))
            beside = of_hidden * z
        else:
            slope = 1 - output[step] ** 2 if cell == "rnn_tanh" else output[step] > 0
            of_products.append(of_hidden * slope)
            beside = 0
        of_hidden = of_products[-1] @ weight + beside
    of_steps = (np.array(each[::-1]).reshape(len(g), rows, len(weight)) for each in (of_products, of_sums))
    found, sums = of_steps if cell == "gru" else (next(of_steps), None)
    return found, of_hidden, *({"lstm": (of_cell,), "gru": (sums,)}.get(cell, ()))
