"""Pages of docs/: their code runs, and asserts what it says."""

from pathlib import Path

import pytest

from ..readme import code_blocks
from ..support.processes import python

DOCS = Path(__file__).parents[2] / "docs"
NEIGHBOURS = {"array_api": "numpy", "scikit_learn": "sklearn"}
"""The libraries of pages of docs/neighbours that have other names."""


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.stem)
def test_pages_run(page: Path) -> None:
    if page.parent.name == "neighbours":
        library = NEIGHBOURS.get(page.stem, page.stem)
        pytest.importorskip(library, reason=f"{library} is not installed")
    done = python(f"import warnings; warnings.simplefilter('ignore')\n{code_blocks(page.read_text(encoding='utf-8'))}")
    assert not done.error
