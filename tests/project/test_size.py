"""The size of the project: lines of Python by folder, against the one file of numbers, `lines.toml`."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUDGET = tomllib.loads(Path(__file__).with_name("lines.toml").read_text(encoding="utf-8"))
CORE = ("tensor", "dispatch", "autograd", "flags")
BREADTH = (
    "extras", "anomaly_mode.py", "forward_ad.py", "function.py", "functional.py", "grad_mode.py", "gradcheck.py",
    "graph.py",
)  # fmt: skip
"""Folders and files of autograd/ outside the core: features under the names of torch's modules."""
SLACK = 200
"""A folder may be smaller than its number by one part in this many; then the number is lowered."""
ROWS = 6


def lines_below(folder: Path, *without: str) -> int:
    """Lines of Python below a folder, except in the folders of these names."""
    files = [path for path in folder.rglob("*.py") if not {*without} & {*path.relative_to(folder).parts}]
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)


def test_lines_keep_to_their_numbers() -> None:
    for folder, most in BUDGET["most"].items():
        lines = lines_below(ROOT / folder, *(["kernels"] if folder == "minitorch_backends" else ["declared"]))
        assert lines <= most, f"{folder}/ has {lines:,} lines, {lines - most:,} more than lines.toml allows"
        assert lines >= most - most // SLACK, f"{folder}/ has {lines:,} lines; lower its number, {most:,}, to that"


def test_the_core_is_an_afternoon() -> None:
    lines = sum(lines_below(ROOT / "minitorch_backends" / part, *BREADTH) for part in CORE)
    assert lines <= BUDGET["core"]["most"], f"the core has {lines:,} lines"


def test_numbers_are_raised_for_users_alone() -> None:
    rows = BUDGET.get("raised", [])
    assert len(rows) <= ROWS, f"{len(rows)} rows in one release; remove lines instead"
    assert all(row["folder"] in BUDGET["most"] and row["lines"] > 0 and len(row["why"]) > 20 for row in rows)


def test_architecture_states_the_numbers() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    stated = {folder: int(lines.replace(",", "")) for folder, lines in re.findall(r"`(\w+)/` ([\d,]{5,})", text)}
    assert stated == BUDGET["most"]
