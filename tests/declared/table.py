"""The table of declared samples: what each op is tested with."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .samples import Sample, unary_samples


class Declared(NamedTuple):
    """What an op is tested with."""

    reference: Callable[..., Any]
    """The float64 definition, from arrays to an array."""
    samples: Callable[[], Iterator[Sample]]
    tested_as: Callable[..., Any] | None
    """Transforms the op, its reference and torch's function into the function that the tests compare and differentiate:
    for example on Hermitian matrices only, or up to the signs of vectors."""


TABLE: dict[str, Declared] = {}


def declare(
    name: str,
    reference: Callable[..., Any],
    samples: Callable[[], Iterator[Sample]] = unary_samples(),  # noqa: B008
    tested_as: Callable[..., Any] | None = None,
) -> None:
    """Test the op of this name in the registry by these samples. Raises ValueError for a second declaration."""
    if name in TABLE:
        raise ValueError(f"declare(): {name} must be declared once")
    TABLE[name] = Declared(reference, samples, tested_as)


def load() -> dict[str, Declared]:
    """Import every file of declarations, and return the table."""
    package = __name__.rpartition(".")[0]
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        importlib.import_module(module.name)
    return TABLE
