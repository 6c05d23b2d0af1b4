"""CHANGELOG.md: released sections are closed, and the newest is the version of the project."""

import hashlib
import re
import tomllib

from ..support.pages import ROOT

RELEASED = {"1.0.0": "651ec679fdd754a0"}
"""By release the hash of its section, which does not change any more; new lines belong to "Unreleased"."""


def test_released_sections_are_closed() -> None:
    first, *sections = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert first.splitlines()[0] == "Unreleased"
    found = {text.split()[0]: hashlib.sha256(text.strip().encode()).hexdigest()[:16] for text in sections}
    assert found == RELEASED
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == next(iter(found))
    assert f"version: {project['version']}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert all(re.match(r"\d+\.\d+\.\d+ \(\d{4}-\d\d-\d\d\)$", text.splitlines()[0]) for text in sections)
