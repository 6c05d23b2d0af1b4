"""Shared by every test: how hypothesis looks for examples, and flags as they are in a fresh process."""

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from minitorch_backends import backends
from minitorch_backends.pytest_plugin import QUIET

from .support import listed

TESTS = Path(__file__).parent

# An example may compile a kernel, so no deadline. CI draws the same examples every time; elsewhere they vary.
settings.register_profile("local", deadline=None, max_examples=50)
if not os.access(TESTS.parent, os.W_OK):  # a checkout of another user
    settings.register_profile("local", deadline=None, max_examples=50, database=None)
settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True, print_blob=True)
os.environ.setdefault("MINITORCH_CONFIG_DIR", "/nonexistent")  # what a user measured is not what is tested
settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_configure(config: pytest.Config) -> None:
    """A warning of NumPy inside the package is an error here; and Ctrl-C interrupts.

    A shell's background, cron and some CI start the suite with SIGINT ignored, which its processes would inherit.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if QUIET in (lines := config.getini("filterwarnings")):
        lines.remove(QUIET)


LONGEST_FILES = (
    "ops/test_ops.py", "bench/test_bench.py", "ops/test_fft.py", "kernels/test_fft.py", "ops/test_conv.py",
    "kernels/conv/test_conv.py", "kernels/gemm/test_gemm.py", "kernels/linalg/test_contract.py", "project/test_docs.py",
)  # fmt: skip
"""Each takes a minute or more where nothing is compiled yet."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark folders; and the longest files first, so that no worker has one of them left when others have nothing."""
    for item in items:
        for folder, mark in (("parity", "parity"), ("kernels", "levels")):
            if TESTS / folder in item.path.parents:
                item.add_marker(mark)
    longest = {TESTS / name for name in LONGEST_FILES}
    items.sort(key=lambda item: item.path not in longest)


def pytest_collection_finish() -> None:
    """All tests live to the end: the collector, which compiling keeps busy, need not walk through them each time."""
    gc.collect()
    gc.freeze()


_set_from_outside = backends.snapshot()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail a test that leaves a flag of the process set, and reset it: later tests would compute something else. And
    one that reaches a compiled function that no wheel carries, unless it names a way that no call takes on this CPU."""
    yield
    if (missing := listed.missing()) and TESTS / "kernels" not in item.path.parents:
        raise AssertionError(f"{item.nodeid} loads what kernels/ahead does not list: {missing}")
    if (left := backends.snapshot()) != _set_from_outside:
        backends.restore(_set_from_outside)
        raise AssertionError(f"{item.nodeid} left flags set: {left.as_dict()}")


@pytest.fixture
def default_flags() -> Iterator[None]:
    """No flag is set during the test, whatever the environment says."""
    before = backends.snapshot()
    backends.restore(backends.Snapshot(()))
    yield
    backends.restore(before)


@pytest.fixture
def without_collector() -> Iterator[None]:
    """Only counts of references free objects during the test."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
