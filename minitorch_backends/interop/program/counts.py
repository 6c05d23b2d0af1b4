"""Counts of the products of a program's processes, in files that are complete however a process ends.

A process that counts has two files in the folder of the program: `NAME.keys`, a JSON list on each line, and
`NAME.counts`, which holds the amounts of FIELDS for each line as unsigned 64-bit integers. The latter is mapped into
memory: the system keeps what was written when a process is killed.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import tempfile
import threading
from collections import defaultdict
from pathlib import Path
from typing import Any, TextIO

from ...explain.records import align_columns

FIELDS = ("calls", "flops", "compile_nanoseconds")
_KEYS = 1 << 14
"""The number of different keys of a process; the files are sparse."""

Key = tuple[str, str, str]
"""("product", kernel, precision) or ("left", operator, reason)."""


class Counts:
    """The counts of this process. Its files are created by the first `add`."""

    def __init__(self, folder: str) -> None:
        self.folder, self._lock = folder, threading.Lock()
        self._places: dict[Key, int] = {}
        self._keys: TextIO | None = None
        self._amounts: Any = None

    def add(self, key: Key, *amounts: int) -> None:
        with self._lock:
            place = self._places.get(key)
            if place is None:
                place = self._place_of_new(key)
            for field, amount in enumerate(amounts, len(FIELDS) * place):
                self._amounts[field] += amount

    def _place_of_new(self, key: Key) -> int:
        if self._keys is None:
            descriptor, name = tempfile.mkstemp(".counts", f"{os.getpid()}-", self.folder)
            size = 8 * len(FIELDS) * _KEYS
            os.truncate(descriptor, size)
            self._amounts = memoryview(mmap.mmap(descriptor, size)).cast("Q")
            os.close(descriptor)
            self._keys = open(Path(name).with_suffix(".keys"), "w", encoding="utf-8")  # noqa: SIM115  (until the end)
        self._keys.write(json.dumps(key) + "\n")
        self._keys.flush()
        place = self._places[key] = len(self._places)
        return place


def read_counts(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The sums over the processes of a folder.

    Returns a dict: "products", a list of {"kernel", "precision", "calls", "flops"}; "left", a list of
    {"operator", "calls", "flops", "why"}, both with the largest FLOPs first; "compile_seconds"; "processes"; and
    "problems", sentences on the policy.
    """
    sums: dict[Key, list[int]] = defaultdict(lambda: [0] * len(FIELDS))
    files = list(Path(folder).glob("*.keys"))
    for file in files:
        amounts = memoryview(file.with_suffix(".counts").read_bytes()).cast("Q").tolist()
        lines = [line for line in file.read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("\n")]
        for place, line in enumerate(lines):
            here = amounts[place * len(FIELDS) : (place + 1) * len(FIELDS)]
            key: Key = tuple(json.loads(line))
            sums[key] = [a + b for a, b in zip(sums[key], here, strict=True)]
    ordered = sorted(sums.items(), key=lambda item: (-item[1][1], -item[1][0], item[0]))
    return {
        "products": [
            {"kernel": key[1], "precision": key[2], "calls": calls, "flops": flops}
            for key, (calls, flops, _) in ordered
            if key[0] == "product"
        ],
        "left": [
            {"operator": key[1], "calls": calls, "flops": flops, "why": key[2]}
            for key, (calls, flops, *_) in ordered
            if key[0] == "left"
        ],
        "compile_seconds": sum(each[2] for each in sums.values()) / 1e9,
        "processes": len(files),
        "problems": _problems(folder),
    }


def note_policy(folder: str, problem: str) -> None:
    """Write for the report what is wrong with this process's policy; nothing where it acted."""
    if Path(folder).is_dir():
        Path(folder, f"{os.getpid()}.policy").write_text(problem, encoding="utf-8")


def _problems(folder: str | os.PathLike[str]) -> list[str]:
    """The problems of policies; processes that call no module are none where the policy acted in another."""
    texts = {file.read_text(encoding="utf-8") for file in Path(folder).glob("*.policy")}
    return sorted(text for text in texts if text and not ("" in texts and "called no module" in text))


def text_of(found: dict[str, Any]) -> str:
    """A report for a terminal: what ran at what precision, and what was left to torch."""
    head = f"{found['seconds']:.1f} s, {found['compile_seconds']:.1f} s of it loading or compiling kernels"
    lines = [f"minitorch-backends torch: {head}; processes with products: {found['processes']}"]
    if found["products"]:
        cells = [("kernel", "precision", "calls", "FLOPs")]
        cells += [
            (row["kernel"], row["precision"], str(row["calls"]), f"{row['flops']:.3g}") for row in found["products"]
        ]
        lines += [f"  {line}" for line in align_columns(cells)]
        if all(row["precision"] == "ieee" for row in found["products"]):
            lines.append("  fp32_precision flags acted on none of them")
    else:
        lines.append("  no product of torch ran here: no flag acted")
    for row in found["left"]:
        flops = f", {row['flops']:.3g} FLOPs" if row["flops"] else ""
        lines.append(f"  left to torch: {row['operator']}, {row['calls']} calls{flops}: {row['why']}")
    if found["products"] and not found["left"]:
        lines.append("  left to torch: nothing")
    lines += [f"  {problem}" for problem in found["problems"]]
    return "\n".join(lines)


def report(folder: str | os.PathLike[str], seconds: float, exit: int | None, path: str | None) -> dict[str, Any]:
    """Print what the processes of a folder counted on stderr, write it to the JSON file `path`, and return it."""
    found = {**read_counts(folder), "seconds": seconds, "exit": exit}
    if path is not None:
        Path(path).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    sys.stderr.write(text_of(found) + "\n")
    sys.stderr.flush()
    return found
