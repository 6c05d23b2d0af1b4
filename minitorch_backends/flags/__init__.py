"""The mechanism of flags: rows, state, scopes, freezing, environment variables, snapshots.

A flag is one row, `Flag(path, default, choices, doc, ...)`. The attributes under torch's names, `flags()` scopes,
freezing, the environment variable, snapshots, the documentation table and the tests are all derived from the rows.

Values live in one immutable `State` for the process, with overrides for the current thread or asyncio task. A write
validates every value and then replaces one reference. A read is a dictionary lookup in the current state.
"""

from .environment import read_environment, set_by
from .groups import Group
from .rows import NO_OPINION, Flag, Names, Order, ReadOnly, Whole, nearest, public_name, read_only, rows
from .snapshots import Snapshot, restore, snapshot
from .state import Resolved, State, current, per_state
from .writes import assign, disable_global_flags, flags_frozen, guard

__all__ = [
    "NO_OPINION", "Flag", "Group", "Names", "Order", "ReadOnly", "Resolved", "Snapshot", "State", "Whole", "assign",
    "current", "disable_global_flags", "flags_frozen", "guard", "nearest", "per_state", "public_name",
    "read_environment", "read_only", "restore", "rows", "set_by", "snapshot",
]  # fmt: skip
