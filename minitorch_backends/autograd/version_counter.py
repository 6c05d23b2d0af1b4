"""What the version cell of a tensor holds: a list of how often its memory was written to, and, once somebody asks for
more, what else is known of these writes."""

from __future__ import annotations

from typing import Any

__all__ = ["Writes", "details"]


class Writes:
    """What is known of the writes to a tensor's memory besides their number.

    Attributes:
        through_data: how many there were through `data`, which the number leaves out.
        sites: of those that were made while diagnosis was on, the number that they had, and the line that wrote.
    """

    __slots__ = ("__weakref__", "sites", "through_data")

    def __init__(self) -> None:
        self.through_data = 0
        self.sites: list[tuple[int, str]] = []


def details(cell: list[Any]) -> Writes:
    """What else is known of the writes that a cell counts, made when it is asked for first."""
    if len(cell) == 1:
        cell.append(Writes())
    return cell[1]
