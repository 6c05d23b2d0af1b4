"""Kernels: ordered lists of implementations that run, or refuse with a sentence.

A `Kernel` is one mathematical task with a contract (`bound`: the error that each precision may have against
`reference`). Its implementations are declared best first, and the last one refuses nothing. A call runs the first
implementation that does not refuse. There are two kinds of refusal:

* by signature: the instruction set is missing, or `refuses(*specs, **keywords)` returns a sentence. It depends on
  shapes, dtypes and keywords only, so the verdict is computed once per signature and cached;
* by data: the implementation raises `Refused` while it reads the values (during packing, without an extra pass), and
  the call falls through to the next one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from .precisions.products import ALIASES, is_emulated, is_scaled, without_alias
from .runtime import cpu, invariance, threading
from .runtime.context import Binding, restorable, restore_on_failure, with_reason
from .runtime.first_use import stopwatch
from .runtime.locks import lock

_MODULES = "attention", "conv", "fft.contract", "gemm", "gemm.half", "gemm.linear", "gemm.scaled", "recurrence"
"""The modules that declare kernels."""


class _Kernels(dict[str, "Kernel"]):
    """Kernels by name, those of modules that are not loaded yet too: a log of another process may name one."""

    def load(self) -> _Kernels:
        """All kernels: load the modules that declare them."""
        for module in _MODULES:
            import_module(f".{module}", __package__)
        return self

    def __missing__(self, name: str) -> Kernel:
        return dict(self.load())[name]

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name) or super(_Kernels, self.load()).get(name, default)


kernels = _Kernels()


class Refused(Exception):
    """Raised by an implementation that finds, while it reads the data, that it cannot keep the contract."""


class ArraySpec(NamedTuple):
    """The information about an array argument that a refusal may use."""

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
    specialise: Callable[..., Callable[..., Any] | None] | None = None
    """Sees what `refuses` sees; for one signature a shorter way to the same bits, or None."""
    by_unit: bool = False
    """Whether its products may be summed by the rule of a device's matrix unit, which a keyword `unit` describes."""
    in_parts: bool = False
    """Whether it adds parts of K as a keyword `partial` describes."""
    scales: bool = False
    """Whether it takes precisions that scale or emulate operands, or passes them on to products that do."""
    keeps: invariance.Demand = invariance.Demand()
    """Which invariances its bits have; kernels that it calls answer for themselves."""

    def refusal(self, specs: tuple[ArraySpec, ...], keywords: Mapping[str, Any]) -> str | None:
        """The sentence with which this implementation declines the signature, or None when it would run."""
        if "unit" in keywords and not self.by_unit:
            return "sums by a rule of its own, not by that of a device's matrix unit"
        if "partial" in keywords and not self.in_parts:
            return "sums all of K, and backends.partial_sums splits it"
        if not self.scales and is_scaled(keywords.get("precision", "")) and specs[0].dtype.char in "fF":
            return "multiplies operands without scales"
        if not self.scales and is_emulated(keywords.get("precision", "")) and specs[0].dtype.char in "dD":
            return "multiplies float64 by the instructions of the CPU"
        missing = cpu.refusal(self.isa) or invariance.refusal(self.keeps)
        return missing if missing is not None or self.refuses is None else self.refuses(*specs, **keywords)


class Decision(NamedTuple):
    """The implementations that may run a signature, best first, and the refusals of those that come before each."""

    candidates: tuple[Implementation, ...]
    refusals: tuple[tuple[str, str], ...]
    """Pairs of an implementation's name and the sentence with which it refused."""


class Call(NamedTuple):
    """The report that an observer receives after a kernel ran."""

    kernel: str
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    keywords: dict[str, Any]
    implementation: str
    refusals: tuple[tuple[str, str], ...]
    decided_by: str | None
    seconds: float
    compiled: float
    """Seconds spent on compiling or loading loops and on importing libraries; `seconds` excludes them."""
    arrays: tuple[Any, ...]
    """The arguments themselves, for traces of layouts and addresses; observers must not keep them."""
    result: Any
    prefer: str | None


class Planned(NamedTuple):
    """How a kernel would be called: the shapes of the arrays, the keywords, the verdicts of the implementations, and
    the origin of the precision."""

    kernel: Kernel
    shapes: tuple[tuple[int, ...], ...]
    keywords: dict[str, Any]
    decision: Decision
    decided_by: str | None


Observer = Callable[[Call], None]

_everywhere: list[Observer] = []
_observers: ContextVar[tuple[Observer, ...]] = ContextVar("kernel_observers", default=())
_hidden: ContextVar[bool] = ContextVar("kernel_calls_hidden", default=False)


observing = 0
"""The number of observers in all threads. Reading it takes 5 ns; looking for this thread's observers takes 60."""

_lock = lock()


def _count_observers(change: int) -> None:
    global observing
    with _lock:
        observing += change


restorable(_observers, len, _count_observers)
restorable(_hidden)


def observe_everywhere(observer: Observer) -> None:
    """Tell `observer` of each kernel call of the process from now on."""
    _everywhere.append(observer)
    _count_observers(1)


def start_observing(observer: Observer) -> None:
    """Tell `observer` of each kernel call made in this thread or task from now on."""
    _count_observers(1)
    _observers.set((*_observers.get(), observer))


def stop_observing(observer: Observer) -> None:
    """Undo the last `start_observing` of an observer in this thread or task, if it is in force."""
    observers = _observers.get()
    places = [place for place, each in enumerate(observers) if each is observer]
    if places:
        _count_observers(-1)
        _observers.set(observers[: places[-1]] + observers[places[-1] + 1 :])


class observe:
    """Tell `observer` of each kernel call made in this thread or task while the block runs."""

    __slots__ = ("_observer",)

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def __enter__(self) -> None:
        start_observing(self._observer)

    def __exit__(self, *exception: object) -> None:
        stop_observing(self._observer)


class _Stopped(BaseException):  # which nothing but `plan` catches
    def __init__(self, planned: Planned) -> None:
        self.planned = planned


def _stop(call: Call) -> None:
    """The observer of computations that are not to run: a kernel that sees it stops before it starts."""


def planning() -> bool:
    """Whether this runs inside `plan`: nothing is to be done but what leads to the first kernel call."""
    return _stop in _observers.get()


@restore_on_failure
def plan(compute: Callable[[], Any]) -> Planned | None:
    """The first kernel call that `compute` makes, without running it or anything after it; None if it makes none."""
    try:
        with observe(_stop):
            compute()
    except _Stopped as stopped:
        return stopped.planned
    return None


def without_observers() -> Binding:
    """Hide the kernel calls of this thread or task from observers while the block runs: for an implementation that
    makes many, and is itself reported."""
    return Binding(_hidden, True)


def _options(call: Call) -> dict[str, Any]:
    return call.keywords if call.prefer is None else {**call.keywords, "prefer": call.prefer}


_WARNINGS = (FloatingPointError, RuntimeWarning)
"""What NumPy raises where the caller has made errors of its warnings."""


def _first(
    specs: Sequence[ArraySpec], decision: Decision, keywords: dict[str, Any]
) -> tuple[Callable[..., Any] | None, bool]:
    """The function that runs unless the data is refused, and whether it takes the keywords."""
    best = decision.candidates[0] if decision.candidates else None
    if best is None:
        return None, False
    short = None if best.specialise is None else best.specialise(*specs, **keywords)
    return short or best.run, bool(keywords) and short is None


def _find(name: str) -> Kernel:
    return kernels[name]


class Kernel:
    """A task, its contract, and its implementations in order of preference.

    Arguments:
        name: the name in traces and errors.
        reference: the same task in float64, the definition of correct.
        bound: for each precision, the largest error of a result relative to the sum of the magnitudes of the
            reference's terms, without accumulation (the docstring of the kernel's module defines a term).

    `describe` returns what traces show of a call besides the arrays: its keywords, and the kernel's own additions.
    The verdicts of `decisions_kept` signatures are remembered; past it the oldest are forgotten.
    """

    decisions_kept = 4096

    def __init__(self, name: str, *, reference: Callable[..., Any], bound: Mapping[str, float]) -> None:
        self.name = name
        self.reference = reference
        self.bound = bound
        self.describe: Callable[[Call], dict[str, Any]] = _options
        self.implementations: dict[str, Implementation] = {}
        self._decisions: dict[tuple, tuple[Callable[..., Any] | None, bool, Decision]] = {}
        self._lock = lock()
        kernels[name] = self

    def __reduce__(self) -> tuple:
        return _find, (self.name,)  # there is one kernel of a name: copies and pickles are it

    def impl(
        self, name: str, *, isa: str | None = None, refuses: Callable[..., str | None] | None = None, **options: Any
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Declare the next best implementation. `isa` is the least CPU capability that it needs (`cpu.LEVELS`);
        `options` are further fields of `Implementation`."""
        if name in self.implementations:
            raise ValueError(f"{self.name} has an implementation {name!r} already; give the new one another name")
        if isa is not None and isa not in cpu.LEVELS:
            raise ValueError(f"{isa!r} is not a CPU capability; expected None or one of {', '.join(cpu.LEVELS)}")

        def declare(run: Callable[..., Any]) -> Callable[..., Any]:
            self.implementations[name] = Implementation(name, isa, refuses, run, **options)
            self.forget()
            return run

        return declare

    def forget(self) -> None:
        """Decide anew from now on."""
        with self._lock:
            self._decisions.clear()

    def decide(self, *arrays: Any, prefer: str | None = None, **keywords: Any) -> Decision:
        """The implementations for these arrays (or `ArraySpec`s), and the refusals. Runs nothing.

        `prefer` names an implementation to try before the others.
        """
        specs = tuple(ArraySpec(a.shape, a.dtype) for a in arrays)
        keywords, candidates, refusals = without_alias(keywords), [], []
        for implementation in sorted(self.implementations.values(), key=lambda each: each.name != prefer):
            sentence = implementation.refusal(specs, keywords)
            if sentence is None:
                candidates.append(implementation)
            else:
                refusals.append((implementation.name, sentence))
        return Decision(tuple(candidates), tuple(refusals))

    def __call__(
        self, a: Any, /, *others: Any, decided_by: str | None = None, prefer: str | None = None, **keywords: Any
    ) -> Any:
        """Run the best implementation that does not refuse, trying `prefer` first; `decided_by` is for observers."""
        if not others:
            key: tuple = (a.shape, a.dtype)
        elif len(others) == 1:  # the general form takes 0.2 us longer
            b = others[0]
            key = (a.shape, b.shape, a.dtype, b.dtype)
        else:
            key = tuple([(x.shape, x.dtype) for x in (a, *others)])
        if keywords:
            key = (*key, *keywords, *keywords.values())
        if prefer is not None:
            key += (prefer,)
        if invariance.possible:
            key += (invariance.current_demand(),)
        known = self._decisions.get(key)
        if known is None:
            if keywords.get("precision") in ALIASES:
                return self(a, *others, decided_by=decided_by, prefer=prefer, **without_alias(keywords))
            known = self._remember(key, (a, *others), self.decide(a, *others, prefer=prefer, **keywords), keywords)
        first, with_keywords, decision = known
        refusals: tuple[tuple[str, str], ...] = ()
        if first is not None and not (_everywhere or _observers.get()):
            try:
                return first(a, *others, **keywords) if with_keywords else first(a, *others)
            except Refused as refused:
                refusals = ((decision.candidates[0].name, str(refused)),)
            except _WARNINGS:  # a short way does not silence NumPy, which would take a third as long as a small product
                pass
        return self._run((a, *others), keywords, decision, refusals, decided_by, prefer)

    def first(self, *specs: ArraySpec, prefer: str | None = None, **keywords: Any) -> Callable[..., Any] | None:
        """The function of the arrays alone that a call would run first without observers; None if nothing takes them.
        It raises `Refused` where the call would go on to the next implementation."""
        keywords = without_alias(keywords)
        run, with_keywords = _first(specs, self.decide(*specs, prefer=prefer, **keywords), keywords)
        return functools.partial(run, **keywords) if run is not None and with_keywords else run

    def prepare(
        self, a: ArraySpec, b: ArraySpec, decided_by: str | None = None, **keywords: Any
    ) -> Callable[[np.ndarray, np.ndarray], Any]:
        """The function (a, b) that does the same as a call for two arrays of known shapes and dtypes, without looking
        up the decision each time, which takes half a microsecond."""
        first = self.first(a, b, **keywords)

        def call(a: np.ndarray, b: np.ndarray) -> Any:
            if not observing and first is not None:
                try:
                    return first(a, b)
                except (Refused, *_WARNINGS):  # which the general way finds again, and goes on from there
                    pass
            return self(a, b, decided_by=decided_by, **keywords)

        return call

    def _run(
        self, arrays: tuple, keywords: dict[str, Any], decision: Decision,
        data_refusals: tuple[tuple[str, str], ...], decided_by: str | None, prefer: str | None,
    ) -> Any:  # fmt: skip
        """Run the first candidate that accepts the data, except those that already refused it, and notify the
        observers."""
        if planning():
            raise _Stopped(Planned(self, tuple(a.shape for a in arrays), keywords, decision, decided_by))
        refusals = [*decision.refusals, *data_refusals]
        for implementation in decision.candidates[len(data_refusals) :]:
            elapsed = stopwatch()
            try:
                result = implementation.run(*arrays, **keywords)
            except Refused as refused:
                refusals.append((implementation.name, str(refused)))
                continue
            seconds, compiled = elapsed()
            observers = () if _hidden.get() else (*_everywhere, *_observers.get())
            if observers:
                shapes, dtypes = tuple(a.shape for a in arrays), tuple(a.dtype.name for a in arrays)
                signature = (self.name, shapes, dtypes, keywords, implementation.name, tuple(refusals))
                call = Call(*signature, with_reason(decided_by), seconds, compiled, arrays, result, prefer)
                for observer in observers:
                    observer(call)
            return result
        taken = ", ".join(f"{a.dtype}{list(a.shape)}" for a in arrays)
        reasons = "; ".join(f"{name}: {sentence}" for name, sentence in refusals)
        raise RuntimeError(f"no implementation of {self.name} takes ({taken}): {reasons}")

    def _remember(
        self, key: tuple, arrays: tuple, decision: Decision, keywords: dict[str, Any]
    ) -> tuple[Callable[..., Any] | None, bool, Decision]:
        """Keep a decision with the function that runs unless the data is refused, and whether it takes the keywords."""
        known = (*_first([ArraySpec(x.shape, x.dtype) for x in arrays], decision, keywords), decision)
        with self._lock:
            if len(self._decisions) >= self.decisions_kept:
                self._decisions.pop(next(iter(self._decisions)))
            self._decisions[key] = known
        return known

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """One implementation by name, for tests and benchmarks; it raises `Refused` if it refuses."""
        implementation = self.implementations.get(name)
        if implementation is None:
            known = ", ".join(self.implementations)
            raise KeyError(f"{self.name} has no implementation {name!r}; it has: {known}")

        @functools.wraps(implementation.run)
        def run(*arrays: np.ndarray, **keywords: Any) -> Any:
            specs, keywords = tuple(ArraySpec(a.shape, a.dtype) for a in arrays), without_alias(keywords)
            sentence = implementation.refusal(specs, keywords)
            if sentence is not None:
                raise Refused(f"{self.name}[{name!r}] refuses: {sentence}")
            return implementation.run(*arrays, **keywords)

        return run

    def __repr__(self) -> str:
        return f"<kernel {self.name}: {', '.join(self.implementations)}>"


def forget_decisions() -> None:
    """Decide anew in all kernels: thresholds or the number of threads have changed."""
    for kernel in kernels.values():
        kernel.forget()


threading.when_changed.append(forget_decisions)
