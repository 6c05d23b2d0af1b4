"""The language of the project: turns that a reader has to read twice, sentences that are too long, names."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]

TURNS = re.compile(
    r"\b(and got(?! to)|is no(?! longer)|are no(?! longer)|what is (none|no|not)|there is none|nobody|somebody|of which"
    r"|of whose|from 0 on|who|lets|knows|is told)\b".replace(" ", r"\s+"),
    re.IGNORECASE,
)
"""Inverted, headless and personifying turns; `CONTRIBUTING.md` shows what to write instead."""

LONGEST_SENTENCE = 45
"""Words in a sentence of a docstring."""

EXCEPTIONS = {"tests/project/test_language.py": "names the turns", "CHANGELOG.md": "quotes earlier messages"}
"""Files that are not read, with the reason."""


def tracked_files(*patterns: str) -> list[Path]:
    names = subprocess.run(["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [ROOT / name for name in names.stdout.split("\0") if name and name not in EXCEPTIONS]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def prose(source: str) -> Iterator[str]:
    """The comments and the strings of a module, strings of a message joined."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_no_turn_has_to_be_read_twice() -> None:
    found = []
    for path in tracked_files("*.py", "*.md"):
        text = path.read_text(encoding="utf-8")
        if TURNS.search(text):
            parts = prose(text) if path.suffix == ".py" else [text]
            turns = [match.group() for part in parts for match in TURNS.finditer(part)]
            found += [f"{path.relative_to(ROOT)}: {turn!r}" for turn in turns]
    assert not found, "\n".join(found)


def sentences(docstring: str) -> Iterator[str]:
    """The sentences of the paragraphs of a docstring, without code, lists and tables."""
    for paragraph in re.split(r"\n\s*\n", docstring):
        lines = paragraph.splitlines()
        if any(
            line.startswith("        ") or " -> " in line or re.match(r"\s*([*|>+-]|\w[\w, ]*:\s)", line)
            for line in lines
        ):
            continue
        yield from re.split(r"(?<=[.;:?!])\s+", " ".join(paragraph.split()))


def test_sentences_are_short() -> None:
    long = []
    for path in tracked_files("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found = sentences(ast.get_docstring(node) or "")
                long += [f"{path.relative_to(ROOT)}: {each}" for each in found if len(each.split()) > LONGEST_SENTENCE]
    assert not long, "\n".join(long)


PARTICIPLE = re.compile(
    r"_*([a-z]+ed|given|kept|known|written|made|taken|held|found|sent|built|bound|left|lost|met|seen|shown|told|drawn"
    r"|gone|grown|hidden|broken|begun|chosen|done|caught|heard|led)_*"
)
"""A name that is one participle, which says neither what a function does nor what it returns."""

NOT_PARTICIPLES = {"embed", "feed", "need", "seed", "speed"}

NAMED_BY_OTHERS = {"reversed", "cached", "disabled", "searchsorted", "unused"}
"""Names of torch, Python and the array API."""

NAMED_FOR_USERS = {"left"}
"""Public names that scripts rely on: `Emulation.left`."""


def test_no_function_is_called_by_a_bare_participle() -> None:
    allowed = NOT_PARTICIPLES | NAMED_BY_OTHERS | NAMED_FOR_USERS
    found = []
    for path in tracked_files("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.strip("_") in allowed:
                continue
            fixture = any("fixture" in ast.unparse(each) for each in node.decorator_list)
            if not fixture and PARTICIPLE.fullmatch(node.name):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}")
    assert not found, "\n".join(found)
