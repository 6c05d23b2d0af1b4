"""Flags from environment variables: `MINITORCH_` with the flag's path, and the variables of other libraries."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from .rows import nearest, rows
from .writes import assign, expand_paths

set_by: dict[str, str] = {}
"""For each flag that an environment variable set, the variable and its text."""


def read_environment(others: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
    """Set each flag whose environment variable is present and not empty; called once, after the table is complete.

    `others` maps each variable of another library to the flags that each of its texts sets. This project's own
    variables take precedence. Raises ValueError, naming the variable, for an invalid text.
    """
    for variable, meanings in others.items():
        text = os.environ.get(variable, "").strip()
        if text and text not in meanings:
            legal = ", ".join(map(repr, meanings))
            raise ValueError(
                f"the environment variable {variable}={text!r} is not understood{nearest(text, meanings)}; "
                f"expected one of {legal}"
            )
        if text:
            _set(meanings[text], f"{variable}={text}")
    for path, row in rows.items():
        text = os.environ.get(row.environment, "").strip()
        if text:
            try:
                value = row.parse(text)
            except (RuntimeError, TypeError, ValueError) as error:
                raise ValueError(
                    f"the environment variable {row.environment}={text!r} is not understood: {error}"
                ) from None
            _set({path: value}, f"{row.environment}={text}")


def _set(values: Mapping[str, Any], variable: str) -> None:
    assign(values)
    set_by.update(dict.fromkeys(expand_paths(values), variable))


def parse_assignments(texts: Iterable[str]) -> dict[str, Any]:
    """The values by path of texts like "fp32_precision=tf32". Raises ValueError for another text, flag or value."""
    found = {}
    for text in texts:
        path, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"a flag must be given as NAME=VALUE, got {text!r}")
        if path not in rows:
            raise ValueError(f"NAME=VALUE must name a flag, got {path!r}{nearest(path, rows)}")
        try:
            found[path] = rows[path].parse(value)
        except (RuntimeError, TypeError) as error:
            raise ValueError(str(error)) from None
    return found
