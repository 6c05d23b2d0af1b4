"""Snapshots: the stored values of all flags as one object, to put back, to compare, and to send to other processes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from .rows import nearest, rows
from .scopes import Scope
from .state import UNSET, Override, current, override, store
from .writes import expanded, flags_frozen, leave, refuse_global_writes

__all__ = ["Snapshot", "restore", "snapshot"]


class Snapshot(Scope):
    """The stored values of all flags at one moment: hashable, picklable, and JSON by `to_json` and `from_json`.

    `with snapshot:` puts them in force for the current thread or task; `restore(snapshot)` for the process. This is
    how flags travel to workers. A scope holds in the thread or task that entered it, and an assignment in its process:
    neither reaches a worker process, and a scope reaches no other thread. Pass a snapshot along with the work.
    """

    __slots__ = ("values",)

    def __init__(self, values: Iterable[tuple[str, Any]]) -> None:
        given = dict(sorted(values))
        for path in given:
            if path not in rows:
                raise ValueError(f"a snapshot names {path!r}, which is not a flag{nearest(path, rows)}")
        stored = expanded({path: value for path, value in given.items() if value is not UNSET})
        self.values = tuple(sorted(stored.items()))

    def as_dict(self) -> dict[str, Any]:
        return dict(self.values)

    def to_json(self) -> str:
        """The values as a JSON object. Raises TypeError, naming the flag, for a function, which JSON cannot hold."""
        for path, value in self.values:
            if callable(value):
                raise TypeError(
                    f"a snapshot with {path} = {value!r} has no JSON, which cannot hold functions; name a strategy or "
                    "give a path in its place, or pickle the snapshot"
                )
        return json.dumps(self.as_dict())

    @classmethod
    def from_json(cls, text: str) -> Snapshot:
        try:
            values = json.loads(text)
        except (TypeError, ValueError) as error:
            raise ValueError(f"expected the JSON that Snapshot.to_json() makes, got {text!r}: {error}") from None
        if not isinstance(values, dict):
            raise ValueError(f"expected a JSON object of flags and values, as of Snapshot.to_json(), got {text!r}")
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


def snapshot() -> Snapshot:
    """The flags as they are in force here and now."""
    return Snapshot(current().stored.items())


def restore(saved: Snapshot) -> None:
    """Put every flag of the process back to what `saved` holds."""
    if not isinstance(saved, Snapshot):
        raise TypeError(f"restore takes a Snapshot, got {type(saved).__name__}")
    if flags_frozen():
        raise RuntimeError("not allowed to restore flags after disable_global_flags; use `with snapshot:` instead")
    refuse_global_writes("to restore a snapshot")
    store(saved.as_dict(), others_stay=False)
