"""Bytes around each workspace, which no kernel may write."""

import numpy as np
import pytest

from minitorch_backends.kernels.runtime import workspace

GUARD = bytes(range(64, 128)) * 8
AT = len(GUARD)


class _Guarded(list):
    """Workspaces that are not used again, but looked at when they come back."""

    def append(self, memory: np.ndarray) -> None:
        first = workspace.address_of(memory) - workspace.address_of(memory.base) - AT
        around = memory.base[first : first + AT], memory.base[first + AT + memory.size :][:AT]
        assert all(each.tobytes() == GUARD for each in around), "a kernel wrote beside its workspace"


@pytest.fixture(autouse=True)
def _guarded_workspaces(monkeypatch: pytest.MonkeyPatch) -> None:
    def between_guards(count: int) -> np.ndarray:
        count = max(count, 1)  # in NumPy an empty slice begins where its array does
        raw = allocate(count + 2 * AT)
        raw[:AT] = raw[AT + count :] = np.frombuffer(GUARD, np.uint8)
        return raw[AT : AT + count]

    allocate = workspace.aligned_bytes
    monkeypatch.setattr(workspace, "aligned_bytes", between_guards)
    monkeypatch.setattr(workspace, "_workspaces", _Guarded())
