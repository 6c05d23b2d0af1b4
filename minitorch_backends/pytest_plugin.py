"""A plugin of pytest: no test leaves a flag changed, and a suite runs as on a GPU, a TPU or oneDNN.

    pytest --minitorch-emulate=cuda

It is active wherever this package is installed. A test that ends with other flags than it began with is an error at
its teardown, and the flags are put back. What fixtures of a wider scope set counts as the beginning, and what a test's
own fixtures set and put back is no change. NumPy's floating-point warnings in this package are ignored, as they are
where it is imported. `pytest -p no:minitorch_backends` switches it off.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from minitorch_backends import backends
from minitorch_backends.flags import Snapshot, assign, rows
from minitorch_backends.flags.state import override

__all__ = ["QUIET"]


def pytest_addoption(parser: pytest.Parser) -> None:
    families = [family for family in rows["emulate"].choices.examples if family]
    parser.getgroup("minitorch-backends").addoption(
        "--minitorch-emulate",
        choices=families,
        default=None,
        help="run with minitorch_backends.backends.emulate set to this family of flags",
    )


QUIET = "ignore::RuntimeWarning:minitorch_backends"
"""Sums that overflow give Inf without a word, also where a suite takes warnings for errors and drops other filters."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", QUIET)
    family = config.getoption("--minitorch-emulate")
    if family is None:
        return
    variable = rows["emulate"].environment
    before, text = backends.snapshot(), os.environ.get(variable)
    assign({"emulate": family})
    os.environ[variable] = family  # for the processes that tests start

    def put_back() -> None:
        backends.restore(before)
        os.environ.pop(variable)
        os.environ.update({variable: text} if text is not None else {})

    config.add_cleanup(put_back)


def pytest_report_header(config: pytest.Config) -> str | None:
    family = config.getoption("--minitorch-emulate")
    return f"minitorch-backends: emulates {family}" if family is not None else None


def _set(saved: Snapshot) -> dict[str, Any]:
    """What is set to something else than being unset, for which a default that is set stands mostly too."""
    return {path: value for path, value in saved.values if rows[path].permits or value != rows[path].default}


@pytest.fixture(autouse=True)
def _minitorch_flags_stay_as_they_were() -> Iterator[None]:
    before, level, frozen = backends.snapshot(), override.get(), backends.flags_frozen()
    yield
    was, now = _set(before), _set(backends.snapshot())
    if backends.flags_frozen() and not frozen:
        pytest.fail("the test froze the flags with disable_global_flags(), which has no way back", pytrace=False)
    if was == now:
        return
    override.set(level)
    if not frozen:
        backends.restore(before)
    changes = ", ".join(
        f"{path} from {was.get(path, 'unset')!r} to {now.get(path, 'unset')!r}"
        for path in sorted({*was, *now})
        if was.get(path, "unset") != now.get(path, "unset")
    )
    pytest.fail(
        f"the test left flags changed: {changes}; use `with backends.flags(...)`, or restore a snapshot", pytrace=False
    )
