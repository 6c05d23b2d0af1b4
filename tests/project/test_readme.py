"""README.md: its first code runs in a new process, shows precisions and their flags, and prints what the page says."""

from pathlib import Path

import pytest

from ..support.pages import ROOT, read
from ..support.processes import run_script


@pytest.mark.levels
def test_code_runs_and_prints_what_the_page_shows(tmp_path: Path):
    page = read(ROOT / "README.md")
    assert page.program.count("import minitorch_backends") == 1
    assert all(page.shown)

    script = tmp_path / "readme.py"
    script.write_text(page.program, encoding="utf-8")
    printed = run_script(script)

    assert not printed.error
    assert "tf32" in printed.out
    assert "allow_tf32" in page.program
    assert not page.differences(printed.out)


def test_readme_is_a_screen_and_a_half():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 90
    assert "```python" in lines[:20]
