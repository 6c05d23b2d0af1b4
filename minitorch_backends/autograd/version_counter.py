"""The version cell of a tensor: a list with the number of writes to its memory, and on demand details of these
writes."""

from __future__ import annotations

from typing import Any


class Writes:
    """Details of the writes to a tensor's memory.

    Attributes:
        through_data: the number of writes through `data`, which the version excludes.
        sites: the version and the line of each write made while anomaly detection was on.
    """

    __slots__ = ("__weakref__", "sites", "through_data")

    def __init__(self) -> None:
        self.through_data = 0
        self.sites: list[tuple[int, str]] = []


def details(cell: list[Any]) -> Writes:
    """The details of a cell, created on first use."""
    if len(cell) == 1:
        cell.append(Writes())
    return cell[1]
