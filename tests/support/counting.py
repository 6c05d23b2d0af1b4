"""The cost of a piece of work, counted: times of a shared machine decide nothing."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["functions_called"]


def functions_called(work: Callable[[], Any]) -> list[str]:
    """The names of the functions that are called while `work` runs, Python's and built-in ones, in order."""
    names: list[str] = []

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            names.append(frame.f_code.co_qualname)
        elif event == "c_call":
            names.append(argument.__qualname__)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return names[1:-1]  # without `work` itself, and the call that ends this
