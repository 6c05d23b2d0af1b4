"""Matrices for the samples of linear algebra, and the comparable parts of functions with non-unique results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..samples import Sample, between, sample


def eye_plus(*shape: int, shift: float = 2.0, seed: int = 0) -> np.ndarray:
    """Values in (-1, 1.3), and `shift` more on the diagonal: invertible matrices, also once they are made complex."""
    return between(-1, 1.3, *shape, seed=seed) + shift * np.eye(shape[-2], shape[-1])


def symmetric(*shape: int, seed: int = 0) -> np.ndarray:
    """Symmetric matrices with well separated eigenvalues."""
    a = between(-1, 1.3, *shape, seed=seed)
    return (a + a.mT) / 2 + np.diag(2.0 * np.arange(shape[-1]))


def definite(*shape: int, seed: int = 0) -> np.ndarray:
    """Symmetric matrices that are positive definite, also once they are made complex."""
    a = between(-1, 1, *shape, seed=seed)
    return (a + a.mT) / 2 + 3.0 * np.eye(shape[-1])


def squares(make: Callable[..., np.ndarray], **options: Any) -> Callable[[], Iterator[Sample]]:
    """Samples of a function of square matrices: one, a batch, one that is not contiguous, none, and of size 0."""

    def samples() -> Iterator[Sample]:
        yield sample(make(3, 3), **options)
        yield sample(make(2, 1, 2, 2, seed=1), **options)
        yield sample(make(3, 3, seed=2).T, **options)
        yield sample(make(1, 1), **options)
        yield sample(make(0, 2, 2), **options)
        yield sample(make(0, 0), **options)

    return samples


invertible = squares(eye_plus)


def of_hermitian(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of the Hermitian part, for functions that read one triangle only."""

    def of_part(A: Any, *args: Any, **named: Any) -> Any:
        return function((A + A.conj().mT) / 2 if is_floating(A) else A, *args, **named)

    return of_part


def of_factor(place: int) -> Callable[..., Any]:
    """The function of the triangle that it reads of the argument at a place, with a real diagonal."""

    def wrapper(function: Callable[..., Any]) -> Callable[..., Any]:
        def of_triangle(*args: Any, upper: bool = False, **named: Any) -> Any:
            args = (*args[: place + 1], upper, *args[place + 1 :]) if len(args) == place + 1 else args
            factor, upper = args[place], args[place + 1]
            if is_floating(factor):
                above, below = (np.triu(factor), np.tril(factor)) if isinstance(factor, np.ndarray) else (
                    factor.triu(), factor.tril())  # fmt: skip
                diagonal = above + below - factor
                factor = (above if upper else below) - diagonal + (diagonal.real + 0 * diagonal)
            return function(*args[:place], factor, *args[place + 1 :], **named)

        return of_triangle

    return wrapper


def is_floating(A: Any) -> bool:
    """Of an array or of a tensor of any library."""
    return "float" in str(A.dtype) or "complex" in str(A.dtype)


def leading(count: int) -> Callable[..., Any]:
    """A function with its first results only: the others have no gradients."""

    def wrapper(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **named: tuple(function(*args, **named))[:count]

    return wrapper


def absolute_results(*which: int, of: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """A function with the absolute values of these results, that is without signs and phases of vectors."""

    def wrapper(function: Callable[..., Any]) -> Callable[..., Any]:
        function = function if of is None else of(function)

        def absolute(*args: Any, **named: Any) -> Any:
            found = tuple(function(*args, **named))
            return tuple(abs(each) if index in which else each for index, each in enumerate(found))

        return absolute

    return wrapper
