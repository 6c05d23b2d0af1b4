"""torch's switch for deterministic algorithms."""

from __future__ import annotations

from ..flags import assign, current

_MODES = ("default", "warn", "error")


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Require the same bits for every number of threads. For a fixed number of threads the bits are always the same.

    `warn_only` exists in torch and has no effect here, since every algorithm has a deterministic form. Raises TypeError
    for values other than True and False.
    """
    for name, value in (("mode", mode), ("warn_only", warn_only)):
        if value is not True and value is not False:
            raise TypeError(f"use_deterministic_algorithms(): {name} must be True or False, got {value!r}")
    assign({"deterministic_algorithms": "default" if not mode else "warn" if warn_only else "error"})


def are_deterministic_algorithms_enabled() -> bool:
    """Whether `use_deterministic_algorithms(True)` is set."""
    return current().read("deterministic_algorithms") != "default"


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether it is set with `warn_only`."""
    return current().read("deterministic_algorithms") == "warn"


def get_deterministic_debug_mode() -> int:
    """0 for the default, 1 for `warn_only`, 2 for `use_deterministic_algorithms(True)`."""
    return _MODES.index(current().read("deterministic_algorithms"))


def set_deterministic_debug_mode(debug_mode: str | int) -> None:
    """Set deterministic algorithms by name ("default", "warn", "error") or number (0, 1, 2).

    Raises RuntimeError for another name or number, TypeError for another type.
    """
    if isinstance(debug_mode, bool) or not isinstance(debug_mode, (str, int)):
        raise TypeError(f"set_deterministic_debug_mode(): debug_mode must be a str or an int, got {debug_mode!r}")
    known: dict[str | int, str] = {mode: mode for mode in _MODES} | dict(enumerate(_MODES))
    if debug_mode not in known:
        raise RuntimeError(
            f"set_deterministic_debug_mode(): debug_mode must be one of {', '.join(map(repr, known))}, got "
            f"{debug_mode!r}"
        )
    assign({"deterministic_algorithms": known[debug_mode]})
