"""What `minitorch-backends tune` measured on this machine: a file of the user's configuration, one for each CPU.

It is read once per process, and only from a folder that no other user can write to, as compiled code is: it decides
which way a product takes. A file that cannot be used is passed over with one warning.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from ..runtime import cpu, machine
from ..runtime.context import warn_caller
from ..runtime.files import DAMAGE, open_trusted, refuse_what_others_can_write, write_file

FOLDER_VARIABLE = "MINITORCH_CONFIG_DIR"
"""Environment variable that names the folder of the user's configuration, in the place of one in ~/.config."""


MEASURED = (
    "exact_products", "exact_small_products", "outer_products", "exact_row_bytes", "exact_split_products",
    "integer_products", "rows_most", "rows_across_most", "columns_most", "split_results_most",
    "vector_products_beside_pairs_most", "spread_microseconds",
)  # fmt: skip
"""The fields that `minitorch-backends tune` measures."""


class Measured(NamedTuple):
    """Values by instruction set and field, and where they are from."""

    values: dict[str, dict[str, float]]
    origin: str


def path() -> Path:
    """The file of this CPU. Raises OSError for a user without a home folder."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    try:
        folder = Path(chosen).expanduser().absolute() if chosen else Path(base) / "minitorch_backends"
    except RuntimeError:  # the home folder of an unknown user
        raise OSError(f"{FOLDER_VARIABLE} must be a folder, got {chosen!r}") from None
    if not folder.is_absolute():  # a user id without a home folder, as containers have
        raise OSError(f"this user has no configuration folder; set {FOLDER_VARIABLE}")
    return folder / f"tuning-{machine.identity()}.json"


def read() -> Measured | None:
    """What was measured on a CPU like this one; None without a usable file."""
    file: Any = "its file"
    try:
        file = path()
        refuse_what_others_can_write(file.parent)
        found = load(file)
        return Measured(_check_values(found), f"measured by minitorch-backends tune on {found['date']} ({file})")
    except FileNotFoundError:
        return None
    except DAMAGE as problem:
        warn_caller(
            f"the thresholds of this CPU's products are the built-in ones, since {file} cannot be used: {problem}; "
            "run minitorch-backends tune again, or remove the file",
            RuntimeWarning,
        )
        return None


def load(file: Path) -> Any:
    """The JSON of a file that no other user could write to. Raises one of `DAMAGE`, also for one that is too long."""
    with open_trusted(file) as opened:
        return json.loads(opened.read(1 << 20))  # twenty times what `minitorch-backends tune` writes


def _check_values(found: Any) -> dict[str, dict[str, float]]:
    """The values of a file's content. Raises ValueError where a name or a value is none."""
    parts = isinstance(found, dict) and isinstance(found.get("date"), str) and isinstance(found.get("rows"), dict)
    if not parts or not re.fullmatch(r"\d{4}-\d\d-\d\d", found["date"], re.ASCII):
        raise ValueError("it must hold an object with a date and rows")
    model = machine.microarchitecture()
    if (other := found.get("microarchitecture", model)) != model:
        raise ValueError(f"it must be of this CPU's microarchitecture, {model!r}, got {other!r:.60}")
    for isa, row in found["rows"].items():
        if isa not in cpu.LEVELS or not isinstance(row, dict):
            raise ValueError(f"rows must be objects by instruction set, got {isa!r:.60}")
        for name, value in row.items():
            if name not in MEASURED or isinstance(value, bool) or not isinstance(value, (int, float)):
                raise ValueError(f"{isa} must have numbers by field, got {name!r:.60}: {value!r:.60}")
            if not 0 <= value <= 1e15:
                raise ValueError(f"{isa}.{name} must lie from 0 to 1e15, got {value!r:.60}")
    return found["rows"]


def writable() -> Path:
    """The file of this CPU, in a folder that is created if needed. Raises OSError where that is not possible, or other
    users can write to the folder."""
    file = path()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    refuse_what_others_can_write(file.parent)
    return file


def write(content: dict[str, Any]) -> Path:
    """Write this CPU's file, whole or not at all. Raises OSError as `writable` does."""
    file = writable()
    write_file(file, json.dumps(content, indent=1) + "\n", 0o600)
    return file
