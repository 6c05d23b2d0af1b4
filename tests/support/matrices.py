"""Matrices that are easy, and those that break naive methods."""

import numpy as np


def random(*shape: int, dtype: str = "float64", seed: int = 0) -> np.ndarray:
    numbers = np.random.default_rng([seed, *shape])
    values = numbers.standard_normal(shape) + (1j * numbers.standard_normal(shape) if dtype[0] == "c" else 0)
    return values.astype(dtype)


def adjoint(a: np.ndarray) -> np.ndarray:
    return a.conj().swapaxes(-1, -2)


def with_values(values: np.ndarray, rows: int, dtype: str) -> np.ndarray:
    """A matrix of that many rows with these singular values."""
    kind, n = "complex128" if dtype[0] == "c" else "float64", len(values)
    U, V = (np.linalg.qr(random(size, n, dtype=kind, seed=size))[0] for size in (rows, n))
    return ((U * values) @ adjoint(V)).astype(dtype)


def hard(n: int, dtype: str) -> dict[str, np.ndarray]:
    """Square matrices of every kind."""
    order = np.arange(n)
    return {
        "random": random(n, n, dtype=dtype),
        "graded": (random(n, n, dtype=dtype) * 10.0 ** (-order / 3)[:, None]).astype(dtype),
        "clustered": with_values(1 + 1e-6 * (order % 3), n, dtype),
        "rank-deficient": with_values(np.where(order < n // 2, 1.0, 0.0), n, dtype),
        "Hilbert": (1.0 / (1 + order[:, None] + order)).astype(dtype),
        "identity": np.eye(n, dtype=dtype),
        "zero": np.zeros((n, n), dtype),
    }
