"""Snapshots: the stored values of all flags as one object, to restore, compare, or send to other processes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ..kernels.runtime.files import one_sentence
from .rows import nearest, rows
from .scopes import Scope
from .state import UNSET, Override, current, override, store
from .writes import expand_paths, flags_frozen, leave, refuse_global_writes


class Snapshot(Scope):
    """The stored values of all flags at one moment: hashable, picklable, and JSON by `to_json` and `from_json`.

    `with snapshot:` applies them to the current thread or task, `restore(snapshot)` to the process. Workers need a
    snapshot: a scope holds in the thread or task that entered it, and an assignment in its own process. Send the
    snapshot along with the work.
    """

    __slots__ = ("values",)

    def __init__(self, values: Iterable[tuple[str, Any]]) -> None:
        given = dict(sorted(values))
        for path in given:
            if path not in rows:
                raise ValueError(f"a snapshot names {path!r}, which is not a flag{nearest(path, rows)}")
        stored = expand_paths({path: value for path, value in given.items() if value is not UNSET})
        self.values = tuple(sorted(stored.items()))

    def as_dict(self) -> dict[str, Any]:
        return dict(self.values)

    def to_json(self) -> str:
        """The values as a JSON object. Raises TypeError if a flag holds a function, which JSON cannot represent."""
        for path, value in self.values:
            if callable(value):
                raise TypeError(
                    f"to_json(): {path} must not be a function, got {value!r}; set it to a strategy's name or a "
                    "path, or pickle the snapshot"
                )
        return json.dumps(self.as_dict())

    @classmethod
    def from_json(cls, text: str) -> Snapshot:
        with one_sentence("Snapshot.from_json(): text", "the JSON of Snapshot.to_json()"):
            values = dict(json.loads(text).items())
        return cls(values.items())

    def __enter__(self) -> None:
        unset = {path: UNSET for path, row in rows.items() if row.reads is None}
        override.set(Override(override.get(), {**unset, **self.as_dict()}, self))

    def __exit__(self, *exception: object) -> None:
        leave(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Snapshot) and self.values == other.values

    def __hash__(self) -> int:
        return hash(self.values)

    def __reduce__(self) -> tuple:
        return Snapshot, (self.values,)

    def __repr__(self) -> str:
        values = ", ".join(f"{path}={value!r}" for path, value in self.values)
        return f"Snapshot({values or 'all flags at their defaults'})"

    def _repr_html_(self) -> str:
        from ..display.html import Rows, as_html

        if not self.values:
            return as_html(repr(self))
        return as_html(Rows([("flag", "value"), *((path, repr(value)) for path, value in self.values)], names=2))


def snapshot() -> Snapshot:
    """The current flags, as a Snapshot."""
    return Snapshot(current().stored.items())


def restore(saved: Snapshot) -> None:
    """Restore every flag of the process to its value in `saved`.

    Raises TypeError for values that are not Snapshots, and RuntimeError after `disable_global_flags` or inside `guard`.
    """
    if not isinstance(saved, Snapshot):
        raise TypeError(f"restore(): saved must be a Snapshot, got {type(saved).__name__}")
    if flags_frozen():
        raise RuntimeError("not allowed to restore flags after disable_global_flags; use `with snapshot:` instead")
    refuse_global_writes("to restore a snapshot")
    store(saved.as_dict(), others_stay=False)
