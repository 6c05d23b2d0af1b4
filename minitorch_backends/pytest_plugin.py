"""A pytest plugin: tests must not leak flags, and a suite can run as on a GPU, a TPU or oneDNN.

    pytest --minitorch-emulate=cuda --minitorch-profile=a100
    pytest --minitorch-torch --minitorch-emulate=ort-cuda
    pytest --minitorch-closest=20

The plugin is active wherever this package is installed; `pytest -p no:minitorch_backends` switches it off. A test that
ends with other flags than it began with is an error at its teardown, and the plugin restores the flags. Flags set by
fixtures of a wider scope belong to the beginning. A test's own fixtures may set flags if they restore them.

`--minitorch-emulate` and `--minitorch-profile` set the flags of these names for the whole suite and for the processes
that it starts. `--minitorch-torch` runs each test inside `interop.torch.emulate`, so that products of torch obey them
as well; fixtures and collection run outside. With any of the three, a suite in which no product obeyed the flags
fails, and the summary counts those that did not. `--minitorch-closest` lists the calls of `testing.assert_close` that
came closest to failing. They fail first at a lower precision or on another CPU. With any of the other options the
plugin lists ten of them. JUnit files have the closest call of each test as a property, and GitHub Actions show the
listed calls at their lines.

NumPy's floating-point warnings from this package are ignored, as they are on import.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import sys
import warnings
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from minitorch_backends import backends, testing
from minitorch_backends.explain.product_counts import ProductCounts
from minitorch_backends.flags import Snapshot, assign, rows
from minitorch_backends.flags.rows import Names
from minitorch_backends.flags.state import override
from minitorch_backends.kernels.registry import observe

__all__ = ["QUIET"]

_OPTIONS = {
    "emulate": "run with minitorch_backends.backends.emulate set to this family of flags",
    "profile": "run with minitorch_backends.backends.profile set to this device, whose matrix unit sums products",
}
"""The flags that each option sets for the whole suite, with the option's help text."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("minitorch-backends")
    group.addoption(
        "--minitorch-closest",
        type=int,
        metavar="N",
        default=None,
        help="list the N calls of assert_close that came closest to failing (default: 10 with the options below, "
        "otherwise 0)",
    )
    group.addoption(
        "--minitorch-torch", action="store_true", help="run each test's torch products on minitorch_backends' kernels"
    )
    for flag, text in _OPTIONS.items():
        known = Names(tuple(name for name in rows[flag].choices.examples if name is not None), any_case=True)
        group.addoption(f"--minitorch-{flag}", type=known.canonical, choices=known.names, help=text)


QUIET = "ignore::RuntimeWarning:minitorch_backends"
"""Warning filters: sums that overflow to Inf stay silent, even if a suite turns warnings into errors and drops other
filters."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", QUIET)
    wanted, count = _requested_flags(config), config.getoption("--minitorch-closest")
    in_torch = config.getoption("--minitorch-torch")
    if in_torch and importlib.util.find_spec("torch") is None:
        raise pytest.UsageError("--minitorch-torch needs torch: pip install 'minitorch-backends[torch]'")
    if count is None:
        count = 10 if wanted or in_torch else 0
    if count > 0:
        config.pluginmanager.register(_Closest(count, config.rootpath))
    if wanted or in_torch:
        config.pluginmanager.register(_Products(in_torch))
    if not wanted:
        return
    before = backends.snapshot()
    assign(wanted)
    variables = {rows[flag].environment: value for flag, value in wanted.items()}
    texts = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)  # for the processes that tests start

    def put_back() -> None:
        backends.restore(before)
        for name, text in texts.items():
            os.environ.pop(name)
            os.environ.update({name: text} if text is not None else {})

    config.add_cleanup(put_back)


def _requested_flags(config: pytest.Config) -> dict[str, str]:
    """The flags set on the command line, with their values."""
    values = {flag: config.getoption(f"--minitorch-{flag}") for flag in _OPTIONS}
    return {flag: value for flag, value in values.items() if value is not None}


def pytest_report_header(config: pytest.Config) -> str | None:
    wanted = [f"backends.{flag} = {value!r}" for flag, value in _requested_flags(config).items()]
    wanted += ["torch's products obey the flags"] if config.getoption("--minitorch-torch") else []
    return f"minitorch-backends: {', '.join(wanted)}" if wanted else None


def _set(saved: Snapshot) -> dict[str, Any]:
    """The stored flags that differ from "unset". A flag explicitly set to its default usually counts as unset."""
    return {path: value for path, value in saved.values if rows[path].permits or value != rows[path].default}


@pytest.fixture(autouse=True)
def _minitorch_flags_stay_as_they_were() -> Iterator[None]:
    before, level, frozen = backends.snapshot(), override.get(), backends.flags_frozen()
    yield
    was, now = _set(before), _set(backends.snapshot())
    if backends.flags_frozen() and not frozen:
        pytest.fail("the test froze the flags with disable_global_flags(), which cannot be undone", pytrace=False)
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


class _Closest:
    """Collects the share of its tolerance that each `assert_close` uses, also from workers of pytest-xdist."""

    def __init__(self, count: int, root: Path) -> None:
        self._count, self._root = count, root
        self._found: dict[str, tuple[float, str]] = {}
        self._all: list[tuple[float, str, str, str]] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, Any, Any]:
        self._found = {}
        testing.observers.append(self._observe)
        try:
            return (yield)
        finally:
            testing.observers.remove(self._observe)

    def _observe(self, share: float, rule: str) -> None:
        frame = sys._getframe()
        while frame.f_back is not None and frame.f_globals["__name__"].startswith(f"{testing.__package__}."):
            frame = frame.f_back
        place = f"{os.path.relpath(frame.f_code.co_filename, self._root)}:{frame.f_lineno}"
        if share > self._found.get(place, (0.0, ""))[0]:
            self._found[place] = share, rule.removeprefix(", ")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
        if call.when == "call" and self._found:
            place, (share, rule) = max(self._found.items(), key=lambda each: each[1])
            item.user_properties.append(("minitorch_closest", _line(share, place, rule)))
        report = yield
        if call.when == "call":
            report.minitorch_closest = [[share, place, rule] for place, (share, rule) in self._found.items()]
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for share, place, rule in getattr(report, "minitorch_closest", ()):
            self._all.append((share, place, report.nodeid.rpartition("::")[2], rule))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        worst = sorted(self._all, key=lambda each: -each[0])[: self._count]
        if worst:
            terminalreporter.section(
                "calls of assert_close that came closest to failing, with the share of the tolerance that they used"
            )
        for share, place, test, rule in worst:
            terminalreporter.line(_line(share, place, test, rule))
        if os.environ.get("GITHUB_ACTIONS") == "true":
            for share, place, test, rule in worst:
                file, _, line = place.rpartition(":")
                kind = "error" if share > 1 else "notice"
                terminalreporter.line(f"::{kind} file={file},line={line}::{_line(share, test, rule).strip()}")


def _line(share: float, *texts: str) -> str:
    """A share of a tolerance, and what it is of."""
    return "  ".join(filter(None, (f"{share:8.1%}" if math.isfinite(share) else "     inf", *texts)))


class _Products:
    """Counts the products of each test that obeyed the flags, and those that did not, also those of xdist's workers.

    With `in_torch`, tests run inside `interop.torch.emulate`.
    """

    def __init__(self, in_torch: bool) -> None:
        self._in_torch, self._tests = in_torch, 0
        self._counts, self._all = ProductCounts(), ProductCounts()
        self._has_torch = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, Any, Any]:
        self._counts = ProductCounts()
        with observe(self._counts), _bridge(self._counts) if self._in_torch else contextlib.nullcontext():
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
        report = yield
        if call.when == "call":
            has_torch = not self._in_torch and "torch" in sys.modules
            report.minitorch_products = [self._counts.obeyed, dict(self._counts.others), has_torch]
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if found := getattr(report, "minitorch_products", None):
            self._tests += 1
            self._all.obeyed += found[0]
            self._all.others.update(found[1])
            self._has_torch |= found[2]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._tests and not self._all.obeyed and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self._tests:
            return
        terminalreporter.section("products and the flags of minitorch-backends")
        terminalreporter.line(f"{self._all}, in {self._tests} tests")
        if self._has_torch:
            terminalreporter.line("torch was imported, and its products were not counted: --minitorch-torch runs them")
        if not self._all.obeyed:
            terminalreporter.line("the run fails, since it says nothing about the flags", red=True)


@contextlib.contextmanager
def _bridge(counts: ProductCounts) -> Iterator[None]:
    """Run the block inside `interop.torch.emulate`, and count what torch computes itself."""
    from minitorch_backends.interop.torch import LeftProductWarning, emulate

    with contextlib.ExitStack() as scopes:
        mode = scopes.enter_context(emulate())
        try:
            yield
        finally:
            counts.others.update({f"{each.op} of torch ({each.why})": each.count for each in mode.left})
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", LeftProductWarning)  # the summary names them
                scopes.close()
