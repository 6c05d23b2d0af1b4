"""Tests that compare with torch. Where torch is missing each module is skipped before it is imported."""

import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import pytest

from minitorch_backends.explain.records import align_columns


class WithoutTorch(pytest.Module):
    """A test module whose tests cannot be collected, because collecting would import torch."""

    def collect(self) -> Iterable[pytest.Item]:
        pytest.skip("torch is not installed; its CPU build is enough to compare with", allow_module_level=True)


class WithoutExpecttest(pytest.Module):
    """The module of OpInfo, which imports expecttest."""

    def collect(self) -> Iterable[pytest.Item]:
        pytest.skip("expecttest is not installed, without which torch cannot import OpInfo", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    if find_spec("torch") is None:
        return WithoutTorch.from_parent(parent, path=module_path)
    if module_path.name == "test_opinfo.py" and find_spec("expecttest") is None:
        return WithoutExpecttest.from_parent(parent, path=module_path)
    return None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how much was compared on torch's test databases, where that was done."""
    counts = getattr(sys.modules.get("tests.parity.test_opinfo"), "COUNTS", None)
    if counts:
        terminalreporter.write_line("OpInfo: " + ", ".join(f"{count:,} {what}" for what, count in counts.items()))
    matrix = sys.modules.get("tests.parity.test_bridge_matrix")
    if matrix is not None and matrix.COUNTS:
        rows = dict.fromkeys(key[:3] for key in sorted(matrix.COUNTS))
        cells = [("kind", "type", "mode", *matrix.OUTCOMES)]
        cells += [(*row, *(str(matrix.COUNTS[*row, each]) for each in matrix.OUTCOMES)) for row in rows]
        for line in align_columns(cells):
            terminalreporter.write_line(line)
