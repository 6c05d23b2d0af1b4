"""Kernels: ordered lists of implementations that run, or refuse with a sentence.

A `Kernel` is one mathematical task with a contract (`bound`: the error that each precision may have against
`reference`). Its implementations are declared best first, and the last one refuses nothing. A call takes the first
implementation that does not refuse. Two kinds of refusal exist:

* by signature: the instruction set is missing, or `refuses(*specs, **keywords)` answers with a sentence. It sees shapes,
  dtypes and keywords only, so that the verdict is computed once per signature and kept;
* by data: the implementation raises `Refused` while it looks at the values (which it does while packing, at no extra
  pass), and the call falls through to the next one.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from . import cpu

__all__ = ["ArraySpec", "Call", "Decision", "Implementation", "Kernel", "Refused", "kernels", "observe"]

kernels: dict[str, Kernel] = {}
"""Every kernel by name, in the order of declaration."""

DECISIONS_KEPT = 4096
"""Signatures whose verdict one kernel remembers; past it the oldest are forgotten."""


class Refused(Exception):
    """Raised by an implementation that finds, while it reads the data, that it cannot keep the contract."""


class ArraySpec(NamedTuple):
    """What a refusal may know of an array argument."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)


class Implementation(NamedTuple):
    """One way to run a kernel: its name, the instruction set it needs, when it refuses, and the function."""

    name: str
    isa: str | None
    refuses: Callable[..., str | None] | None
    run: Callable[..., Any]

    def refusal(self, specs: tuple[ArraySpec, ...], keywords: Mapping[str, Any]) -> str | None:
        """The sentence with which this implementation declines the signature, or None when it would run."""
        missing = cpu.refusal(self.isa)
        if missing is not None or self.refuses is None:
            return missing
        return self.refuses(*specs, **keywords)


class Decision(NamedTuple):
    """The implementations that may run a signature, best first, and the refusals of those that come before each."""

    candidates: tuple[Implementation, ...]
    refusals: tuple[tuple[str, str], ...]
    """Pairs of an implementation's name and the sentence with which it refused."""


class Call(NamedTuple):
    """What an observer is told after a kernel ran."""

    kernel: str
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    keywords: dict[str, Any]
    implementation: str
    refusals: tuple[tuple[str, str], ...]
    decided_by: str | None
    seconds: float


_observers: ContextVar[tuple[Callable[[Call], None], ...]] = ContextVar("kernel_observers", default=())


@contextmanager
def observe(observer: Callable[[Call], None]) -> Iterator[None]:
    """Tell `observer` of each kernel call made in this thread or task while the block runs."""
    before = _observers.get()
    _observers.set((*before, observer))
    try:
        yield
    finally:
        _observers.set(before)


class Kernel:
    """A task, its contract, and its implementations in the order in which they are preferred.

    Arguments:
        name: the name in traces and errors.
        reference: the same task in float64, the definition of correct.
        bound: for each precision, the largest rms error relative to the rms of the reference's terms (the docstring of
            the kernel's module says how it is measured).
    """

    def __init__(self, name: str, *, reference: Callable[..., Any], bound: Mapping[str, float]) -> None:
        self.name = name
        self.reference = reference
        self.bound = dict(bound)
        self.implementations: dict[str, Implementation] = {}
        self._decisions: dict[tuple, Decision] = {}
        kernels[name] = self

    def impl(
        self, name: str, *, isa: str | None = None, refuses: Callable[..., str | None] | None = None
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Declare the next best implementation. `isa` is the least CPU capability it needs (`cpu.LEVELS`)."""

        def declare(run: Callable[..., Any]) -> Callable[..., Any]:
            self.implementations[name] = Implementation(name, isa, refuses, run)
            self._decisions.clear()
            return run

        return declare

    def decide(self, *arrays: Any, **keywords: Any) -> Decision:
        """Which implementations would run these arrays (or `ArraySpec`s), and who refuses why. Runs nothing."""
        specs = tuple(ArraySpec(a.shape, a.dtype) for a in arrays)
        candidates, refusals = [], []
        for implementation in self.implementations.values():
            sentence = implementation.refusal(specs, keywords)
            if sentence is None:
                candidates.append(implementation)
            else:
                refusals.append((implementation.name, sentence))
        return Decision(tuple(candidates), tuple(refusals))

    def __call__(self, *arrays: np.ndarray, decided_by: str | None = None, **keywords: Any) -> Any:
        """Run the best implementation that does not refuse. `decided_by` only travels to the observers."""
        key = (*[(a.shape, a.dtype) for a in arrays], *keywords.items())
        decision = self._decisions.get(key)
        if decision is None:
            decision = self._remember(key, self.decide(*arrays, **keywords))
        if not _observers.get():
            for implementation in decision.candidates:
                try:
                    return implementation.run(*arrays, **keywords)
                except Refused:
                    continue
            raise self._nothing_ran(arrays, decision)
        return self._observed(arrays, keywords, decision, decided_by)

    def _observed(self, arrays: tuple, keywords: dict, decision: Decision, decided_by: str | None) -> Any:
        refusals = list(decision.refusals)
        for implementation in decision.candidates:
            start = time.perf_counter()
            try:
                result = implementation.run(*arrays, **keywords)
            except Refused as refused:
                refusals.append((implementation.name, str(refused)))
                continue
            call = Call(
                self.name,
                tuple(a.shape for a in arrays),
                tuple(a.dtype.name for a in arrays),
                keywords,
                implementation.name,
                tuple(refusals),
                decided_by,
                time.perf_counter() - start,
            )
            for observer in _observers.get():
                observer(call)
            return result
        raise self._nothing_ran(arrays, decision, refusals)

    def _remember(self, key: tuple, decision: Decision) -> Decision:
        if len(self._decisions) >= DECISIONS_KEPT:
            self._decisions.pop(next(iter(self._decisions), None), None)
        self._decisions[key] = decision
        return decision

    def _nothing_ran(self, arrays: tuple, decision: Decision, refusals: list | None = None) -> RuntimeError:
        shapes = ", ".join(f"{a.dtype}{list(a.shape)}" for a in arrays)
        reasons = "; ".join(f"{name}: {sentence}" for name, sentence in refusals or decision.refusals)
        return RuntimeError(f"no implementation of {self.name} takes ({shapes}): {reasons or 'all refused the data'}")

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """One implementation by name, as tests and benchmarks reach it; it raises `Refused` where it refuses."""
        implementation = self.implementations.get(name)
        if implementation is None:
            known = ", ".join(self.implementations)
            raise KeyError(f"{self.name} has no implementation {name!r}; it has: {known}")

        @functools.wraps(implementation.run)
        def run(*arrays: np.ndarray, **keywords: Any) -> Any:
            specs = tuple(ArraySpec(a.shape, a.dtype) for a in arrays)
            sentence = implementation.refusal(specs, keywords)
            if sentence is not None:
                raise Refused(f"{self.name}[{name!r}] refuses: {sentence}")
            return implementation.run(*arrays, **keywords)

        return run

    def __repr__(self) -> str:
        return f"<kernel {self.name}: {', '.join(self.implementations)}>"
