"""torch's switch for deterministic algorithms."""

from __future__ import annotations

from ..flags import assign, current

__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_deterministic_debug_mode",
    "is_deterministic_algorithms_warn_only_enabled",
    "set_deterministic_debug_mode",
    "use_deterministic_algorithms",
]

_MODES = ("default", "warn", "error")


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Give the same bits for every number of threads as well; the same number gives the same bits always.

    `warn_only` is torch's, and makes no difference here: no algorithm is without a deterministic form. Raises
    TypeError for anything but True and False.
    """
    for name, value in (("mode", mode), ("warn_only", warn_only)):
        if value is not True and value is not False:
            raise TypeError(f"use_deterministic_algorithms: {name} takes exactly True or False, got {value!r}")
    assign({"deterministic_algorithms": "default" if not mode else "warn" if warn_only else "error"})


def are_deterministic_algorithms_enabled() -> bool:
    """Whether `use_deterministic_algorithms(True)` is in force."""
    return current().read("deterministic_algorithms") != "default"


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether it is in force with `warn_only`."""
    return current().read("deterministic_algorithms") == "warn"


def get_deterministic_debug_mode() -> int:
    """0 for the default, 1 for `warn_only`, 2 for `use_deterministic_algorithms(True)`."""
    return _MODES.index(current().read("deterministic_algorithms"))


def set_deterministic_debug_mode(debug_mode: str | int) -> None:
    """The same switch by name ("default", "warn", "error") or number (0, 1, 2).

    Raises RuntimeError for another name or number, TypeError for another type.
    """
    if isinstance(debug_mode, bool) or not isinstance(debug_mode, (str, int)):
        raise TypeError(f"set_deterministic_debug_mode takes a str or an int, got {debug_mode!r}")
    known: dict[str | int, str] = {mode: mode for mode in _MODES} | dict(enumerate(_MODES))
    if debug_mode not in known:
        raise RuntimeError(
            f"set_deterministic_debug_mode takes one of {', '.join(map(repr, known))}, got {debug_mode!r}"
        )
    assign({"deterministic_algorithms": known[debug_mode]})
