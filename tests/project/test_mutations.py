"""The table of faults that `make mutations` puts into copies: its rows apply, and reach every part of the package."""

import pytest

from ..mutations import MUTATIONS, PACKAGE, ROOT, Mutation, stale


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.file)
def test_rows_apply(mutation: Mutation) -> None:
    assert stale(mutation) is None


def test_every_part_of_the_package_has_a_row() -> None:
    assert len(MUTATIONS) >= 60
    parts = {folder.parent.name for folder in (ROOT / PACKAGE).glob("*/__init__.py")}
    assert parts <= {mutation.file.partition("/")[0] for mutation in MUTATIONS}
