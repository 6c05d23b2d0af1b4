"""What every test shares: how hypothesis looks for examples, and flags as they are in a fresh process."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from minitorch_backends import backends

# An example may compile a kernel, so no deadline. CI draws the same examples every time; elsewhere they vary.
settings.register_profile("local", deadline=None, max_examples=50)
settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture
def default_flags() -> Iterator[None]:
    """No flag is set during the test, whatever the environment says."""
    before = backends.snapshot()
    backends.restore(backends.Snapshot(()))
    yield
    backends.restore(before)
