"""Tests that compare with torch. Where torch is missing each module is skipped before it is imported."""

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import pytest


class WithoutTorch(pytest.Module):
    """A test module whose tests cannot be collected, because collecting would import torch."""

    def collect(self) -> Iterable[pytest.Item]:
        pytest.skip("torch is not installed; its CPU build is enough to compare with", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    return WithoutTorch.from_parent(parent, path=module_path) if find_spec("torch") is None else None
