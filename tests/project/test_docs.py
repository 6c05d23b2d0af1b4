"""README.md and docs/: code runs and prints what pages show, generated parts are current, and links lead somewhere."""

import importlib.util
import re
from pathlib import Path

import pytest

from .. import readme
from ..support.pages import ROOT, read
from ..support.processes import run_script
from .test_language import tracked_files

DOCS = ROOT / "docs"
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if page.parent.name not in ("api", "_build")]
PROGRAMS = [
    pytest.param(page, id=f"{page.parent.name}-{page.stem}", marks=[pytest.mark.levels] * read(page).shows_numbers())
    for page in PAGES
    if read(page).shown
]
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]*)(?:#([^)\s]+))?[^)]*\)|\{doc\}`(?:[^`<]*<)?([^`>]+)>?`")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
LATE = """Future exception was never retrieved
future: <Future finished exception=TimeoutError('Timeout')>
TimeoutError: Timeout
"""
"""The event loop of dask's cluster may say this as it closes on a busy machine, when all results are there."""


@pytest.mark.parametrize("path", PROGRAMS)
def test_pages_run_and_print_what_they_show(path: Path, tmp_path: Path) -> None:
    page = read(path)
    for module in page.requires:
        if importlib.util.find_spec(module) is None:  # data packages need not be importable
            pytest.skip(f"{module} is not installed")
    quiet = "import warnings; warnings.simplefilter('ignore')\n" if path.parent.name == "neighbours" else "\n"
    script = tmp_path / "page.py"
    script.write_text(quiet + page.program, encoding="utf-8")
    done = run_script(script)
    assert not done.error.replace(LATE, "")
    assert not page.differences(done.out)


def test_comparison_of_outputs_finds_differences(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1)\n```\n\n```text\n2.0e-3 ok\n...\nend\n```\n")
    found = read(page)
    assert not found.differences("2.2e-03 ok\nany line\nend\n\x1e\n")
    for wrong in (
        "5.0e-03 ok\nend\n", "-2.0e-3 ok\nend\n", "2.0e-3 no\nend\n", "2.0e-3 ok\n", "2.0e-3 ok\nend\nmore\n",
    ):  # fmt: skip
        assert found.differences(f"{wrong}\x1e\n"), wrong


@pytest.mark.parametrize("page", readme.PARTS)
def test_generated_parts_are_current(page: str) -> None:
    text, current = readme.generate(page)
    assert text == current, f"docs/reference/{page}.md is out of date: run `make readme`"


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub and Sphinx give to the headings of a page."""
    headings = HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_links_between_pages_lead_somewhere() -> None:
    """Links to files and to headings; `make links` looks at other sites."""
    generated, broken, found = DOCS / "reference" / "command_line.md", [], 0
    for page in tracked_files("*.md"):
        for link, anchor, doc in LINK.findall(page.read_text(encoding="utf-8")):
            target = (page.parent / (f"{doc}.md" if doc else link)).resolve() if link or doc else page
            there = target.exists() and (not anchor or anchor in anchors(target))
            if not there and target != generated and target.parent.name != "api":
                broken.append(f"{page.relative_to(ROOT)}: {link or doc}#{anchor}")
            found += 1
    assert found > 50
    assert not broken
