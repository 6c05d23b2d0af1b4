"""The mode of one thread of a torch program. It imports torch."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from typing import Any

from ...kernels.registry import Call
from ...kernels.runtime.first_use import stopwatch
from ...lab.flops import flops_of
from ..torch.counts import Again, Counts, Signature
from ..torch.mode import Emulation


class _ThreadCounts(Counts):
    """Counts of a thread, which `add` also gets at once, with the nanoseconds of compiling or loading kernels."""

    def __init__(self, add: Callable[..., None]) -> None:
        super().__init__()
        self._add = add
        self._elapsed: Callable[[], tuple[float, float]] | None = None

    def first(self, signature: Hashable, compute: Callable[[], tuple[Any, Again]]) -> Any:
        self._elapsed = stopwatch()
        return super().first(signature, compute)

    def _count(self, seen: Signature) -> None:
        super()._count(seen)
        elapsed, self._elapsed = self._elapsed, None
        compiling = 0 if elapsed is None else int(elapsed()[1] * 1e9)
        for kernel, precision, flops in seen.calls:
            self._add(("product", kernel, precision), 1, flops, compiling)
            compiling = 0

    def observe(self, call: Call) -> None:
        super().observe(call)
        key = ("product", call.kernel, call.keywords.get("precision", "ieee"))
        self._add(key, 1, flops_of(call), int(call.compiled * 1e9))

    def leave(self, op: str, why: str, flops: int) -> None:
        super().leave(op, why, flops)
        self._add(("left", op, why), 1, flops)


def mode_of_thread(add: Callable[..., None]) -> AbstractContextManager[None]:
    """Emulate while the block runs. What stays with torch is counted, and no warning names it at the end."""
    return Emulation(_ThreadCounts(add)).scope()
