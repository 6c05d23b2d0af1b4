"""The generated parts of docs/reference: `python -m tests.readme` rewrites them, and test_docs.py checks them."""

from __future__ import annotations

import re
from pathlib import Path

from minitorch_backends import flags
from minitorch_backends.backends.profiles import STACKS
from minitorch_backends.kernels.precisions.products import PRECISIONS, predicted_error
from minitorch_backends.profiles import PROFILES, Aligned, Exact, Format, Halves, Tree, TwoStage

from .support.departures import AUTOGRAD_DEPARTURES, CALL_DEPARTURES, DEPARTURES, FUNCTION_DEPARTURES

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"


def flag_list() -> str:
    """The flags, from their rows: a list of definitions for each group, with those that do not act marked."""
    lines: list[str] = []
    group = None
    for row in flags.rows.values():
        first = row.path.partition(".")[0] if "." in row.path else ""
        if first != group:
            group = first
            lines += [f"## {group or 'For every family'}", ""]
        lines += [f"`{row.path}` = `{row.default!r}`", *_definition(row), ""]
    return "\n".join(lines).rstrip()


def _definition(row: flags.Flag) -> list[str]:
    """The effect of a flag, its values and the flag it inherits from, as the lines of a definition."""
    first = row.doc[0].upper() if re.match(r"[a-z]+[ ,]", row.doc) else row.doc[0]
    sentence = f"{first}{row.doc[1:]}{'' if row.doc.endswith('.') else '.'}"
    inaction = f" **Changes nothing**: {row.inert}." if row.inert else ""
    inherits = f" Inherits from `{row.inherits}`." if row.inherits else ""
    return [f": {sentence}{inaction}", f"  Values: {_values(row)}.{inherits}"]


def _values(row: flags.Flag) -> str:
    """The legal values of a flag in words; those of precisions refer to their table."""
    legal = re.sub(r"'[^']*'|\b(True|False|None)\b", lambda found: f"`{found[0]}`", row.choices.legal)
    named = re.findall(r"`'([^']*)'`", legal)
    missing = PRECISIONS.keys() - named
    if len(missing) > 1:
        return legal
    others = [f"`{value!r}`" for value in named if value not in PRECISIONS]
    but = "".join(f" but `{value!r}`" for value in missing)
    return ", ".join([*others, f"every [precision](precisions.md){but}"])


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
    lines = ["| `emulate` | flags of | defaults | profile | source | follows |", "|" + "---|" * 6]
    for name, row in STACKS.items():
        defaults = ", ".join(f"`{path} = {value!r}`" for path, value in row.defaults.items()) or "torch's"
        profile = f"`{row.profile}`" if row.profile else ""
        lines.append(f"| `{name}` | {row.family} | {defaults} | {profile} | {row.source} | {row.follows} |")
    return "\n".join(lines)


def device_table() -> str:
    """The table of devices, from the rows of their profiles; formats that a device sums alike share a line."""
    lines = ["| `profile` | formats | how a block is summed | evidence | follows |", "|" + "---|" * 5]
    for name, row in PROFILES.items():
        alike: dict[tuple[str, str], list[str]] = {}
        for operand, ways in row.formats.items():
            for way in ways:
                by = f" ({way.instruction})" if way.instruction else ""
                alike.setdefault((_sums(way), way.evidence), []).append(f"{operand}{by}")
        for (sums, evidence), operands in alike.items():
            lines.append(f"| `{name}` | {', '.join(operands)} | {sums} | {evidence} | {row.follows} |")
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
    "flags": {"flags": flag_list},
    "precisions": {"precisions": precision_table, "stacks": stack_table},
    "profiles": {"devices": device_table},
    "departures": {"departures": departures},
}
"""The generated parts of each page, by the names that stand in its comments."""


def generate(page: str) -> tuple[str, str]:
    """The text of a page of the reference, and what it should be."""
    text = before = (REFERENCE / f"{page}.md").read_text(encoding="utf-8")
    for name, table in PARTS[page].items():
        begin, end = rf"(<!-- {name}: [^>]*-->\n)", rf"(\n<!-- end of {name} -->)"
        text, count = re.subn(
            begin + ".*?" + end, lambda m, table=table: f"{m[1]}\n{table()}\n{m[2]}", text, flags=re.DOTALL
        )
        if count != 1:
            raise ValueError(f"{page}.md has {count} places for {name}; expected one")
    return before, text


if __name__ == "__main__":
    for page in PARTS:
        (REFERENCE / f"{page}.md").write_text(generate(page)[1], encoding="utf-8")
