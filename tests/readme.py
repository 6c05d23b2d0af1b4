"""The generated parts of README.md: `python -m tests.readme` rewrites them, and test_readme.py checks them."""

from __future__ import annotations

import re
from pathlib import Path

from minitorch_backends import flags
from minitorch_backends.backends.stacks import STACKS
from minitorch_backends.kernels.precision import PRECISIONS, predicted_error
from minitorch_backends.profiles import PROFILES, Aligned, Exact, Format, Halves, Tree, TwoStage

from .support.departures import AUTOGRAD_DEPARTURES, CALL_DEPARTURES, DEPARTURES, FUNCTION_DEPARTURES

README = Path(__file__).parents[1] / "README.md"


def flag_table() -> str:
    """The table of flags, from their rows, with those that do not act marked."""
    lines = ["| flag | values | default | inherits from | what it acts on |", "|---|---|---|---|---|"]
    for row in flags.rows.values():
        values = re.sub(r"'[^']*'|\b(True|False|None)\b", lambda found: f"`{found[0]}`", row.choices.legal)
        inherits = f"`{row.inherits}`" if row.inherits else ""
        lines.append(f"| `{row.path}` | {values} | `{row.default!r}` | {inherits} | {row.doc}{_inaction(row)} |")
    return "\n".join(lines)


def _inaction(row: flags.Flag) -> str:
    """The remark about a flag that does not act."""
    return f" (**changes nothing**: {row.inert})" if row.inert else ""


def departures() -> str:
    """The departures from torch, from the tables that the tests of flags, of autograd and of calls use."""
    sentences = [*DEPARTURES.values(), *AUTOGRAD_DEPARTURES.values(), *CALL_DEPARTURES, *FUNCTION_DEPARTURES]
    return "\n".join(f"* {sentence}" for sentence in sentences)


_UNITS = {"amx": "AMX", "avx512_bf16": "AVX512_BF16"}


def precision_table() -> str:
    """The table of precisions, from their rows."""
    lines = ["| name | what it means | a part | products | largest error | rms error | faster by |", "|" + "---|" * 7]
    for name, row in PRECISIONS.items():
        error = predicted_error(name, 4096).sigma / 64
        largest = "exact" if row.is_exact else f"{row.product_error:.1e}"
        units = ", ".join(_UNITS[unit] for unit in row.units)
        part = f"{row.significand} bits, {row.rounding}"
        cells = f"`{name}`", row.meaning, part, f"{len(row.terms)}", largest, f"{error:.1e}", units
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def stack_table() -> str:
    """The table of stacks, from their rows."""
    lines = ["| `emulate` | flags of | defaults | profile | source |", "|" + "---|" * 5]
    for name, row in STACKS.items():
        defaults = ", ".join(f"`{path} = {value!r}`" for path, value in row.defaults.items()) or "torch's"
        profile = f"`{row.profile}`" if row.profile else ""
        lines.append(f"| `{name}` | {row.family} | {defaults} | {profile} | {row.source} |")
    return "\n".join(lines)


def device_table() -> str:
    """The table of devices, from the rows of their profiles; formats that a device sums alike share a line."""
    lines = ["| `profile` | formats | how a block is summed | evidence |", "|" + "---|" * 4]
    for name, row in PROFILES.items():
        alike: dict[tuple[str, str], list[str]] = {}
        for operand, ways in row.formats.items():
            for way in ways:
                by = f" ({way.instruction})" if way.instruction else ""
                alike.setdefault((_sums(way), way.evidence), []).append(f"{operand}{by}")
        for (sums, evidence), operands in alike.items():
            lines.append(f"| `{name}` | {', '.join(operands)} | {sums} | {evidence} |")
    return "\n".join(lines)


def _sums(way: Format) -> str:
    """How a unit adds up products, in words."""
    rule = way.rule
    if rule is None:
        return "in an order that is not known: float32 sums"
    sentence = f"{rule.length} products, {_RULES[type(rule)]}"
    if isinstance(rule, Aligned):
        sentence = sentence.format(rule.fraction) + (", kept in 22 bits" if rule.kept == "rz22" else "")
    if way.promote_every:
        sentence += f"; libraries add sums of {way.promote_every} outside"
    return sentence + ("; scales of blocks of 32" if way.scaled_blocks else "")


_RULES = {
    Aligned: "aligned to the greatest and cut to {} fraction bits",
    Halves: "as two halves by the unit of fp16, added to nearest",
    Exact: "exactly, rounded to nearest",
    Tree: "rounded to float32 and added in pairs, to nearest, without subnormal numbers",
    TwoStage: "aligned among themselves, cut, and then added to the sum, to nearest",
}

PARTS = {
    "flags": flag_table,
    "stacks": stack_table,
    "devices": device_table,
    "precisions": precision_table,
    "departures": departures,
}


def generated(text: str) -> str:
    """README.md with its generated parts as they should be."""
    for name, table in PARTS.items():
        begin, end = rf"(<!-- {name}: [^>]*-->\n)", rf"(<!-- end of {name} -->)"
        text, count = re.subn(
            begin + ".*?" + end, lambda m, table=table: m[1] + table() + "\n" + m[2], text, flags=re.DOTALL
        )
        if count != 1:
            raise ValueError(f"README.md has {count} places for {name}; expected one")
    return text


def code_blocks(text: str) -> str:
    """The Python blocks of README.md as one program, at their own line numbers."""
    lines, inside = [], False
    for line in text.splitlines():
        fence = line.startswith("```")
        lines.append("" if fence or not inside else line)
        if fence:
            inside = line == "```python"
    return "\n".join(lines)


if __name__ == "__main__":
    README.write_text(generated(README.read_text(encoding="utf-8")), encoding="utf-8")
