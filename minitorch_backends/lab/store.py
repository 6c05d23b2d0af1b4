"""The rows of a sweep on disk: append-only files of lines, one file per writing process.

Several processes, on several hosts, may write to one store at once. A manifest identifies the function.
"""

from __future__ import annotations

import json
import os
import platform
import secrets
from pathlib import Path
from typing import Any, TextIO

from ..kernels.runtime.files import one_sentence, write_file

_VERSION = 2


def read_rows(folder: Path) -> dict[str, dict[str, Any]]:
    """The complete rows of a store by key. If a cell has several, the row in the first file by name counts."""
    rows: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("rows-*.jsonl")):
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            try:
                entry = json.loads(line)
                key, row = str(entry["key"]), dict(entry["row"])
            except (ValueError, KeyError, TypeError, RecursionError):
                continue  # its writer died in the middle of the line
            if not _is_row(row):
                raise ValueError(
                    f"line {number} of {str(path)!r} must be a row with flags and an exception, got {line[:60]!r}; "
                    "remove the line, and its cell is computed again"
                )
            rows.setdefault(key, row)
    return rows


def _is_row(row: dict[str, Any]) -> bool:
    """Whether what tables read of every row is there."""
    failed = row.get("exception", 0)
    return isinstance(row.get("flags"), dict) and (failed is None or isinstance(failed, (str, dict)))


class Store:
    """Rows by the keys of their cells, in a folder.

    `manifest` is what the rows depend on: values by name, or such dicts. If the folder holds rows of another one,
    `reuse` decides: True keeps them, False discards them; None raises ValueError, which names what changed. False
    discards rows of the same manifest too. `caller` is named in errors.
    """

    def __init__(
        self, folder: str | os.PathLike[str], manifest: dict[str, Any], reuse: bool | None = None, caller: str = "sweep"
    ) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._file: TextIO | None = None
        path, wanted = self.folder / "manifest.json", {"version": _VERSION, **manifest}
        if reuse is False:
            for old in (path, *self.folder.glob("rows-*.jsonl")):
                old.unlink(missing_ok=True)
        found = self._manifest(path)
        if found == wanted:
            return
        if found is not None and not reuse:
            raise ValueError(
                f"{caller}(): store {str(self.folder)!r} holds rows of another run ({_changes(found, wanted)}); pass "
                "reuse=True to keep them, reuse=False to discard them, or name another folder"
            )
        write_file(path, json.dumps(wanted, indent=1) + "\n")

    def _manifest(self, path: Path) -> dict[str, Any] | None:
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            return None
        with one_sentence(repr(str(path)), "the manifest of a sweep's store"):
            found = json.loads(text)
            if not isinstance(found, dict):
                raise ValueError("it must hold an object")
            return found

    def read(self) -> dict[str, dict[str, Any]]:
        """All complete rows."""
        return read_rows(self.folder)

    def add(self, key: str, row: dict[str, Any]) -> None:
        """Append a row. It is in the file when this returns, even if the process dies."""
        if self._file is None:
            name = f"rows-{platform.node()}-{os.getpid()}-{secrets.token_hex(4)}.jsonl"
            self._file = (self.folder / name).open("a", encoding="utf-8")
        self._file.write(json.dumps({"key": key, "row": row}) + "\n")
        self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _changes(found: dict[str, Any], wanted: dict[str, Any]) -> str:
    """Return the differences between two manifests, by name."""
    before, after = ({**each, **each.get("functions", {}), "functions": None} for each in (found, wanted))
    names = [name for name in sorted(before.keys() | after.keys()) if before.get(name, ...) != after.get(name, ...)]
    words = ("new" if name not in before else "gone" if name not in after else "changed" for name in names)
    listed = [f"{name} {word}" for name, word in zip(names, words, strict=True)]
    return ", ".join([*listed[:8], *(["..."] if len(listed) > 8 else [])])
