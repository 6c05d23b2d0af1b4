"""One cell of a sweep, runnable in any process: it takes flags, grad mode, threads and seeds along, and returns a
row."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import statistics
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .. import backends
from ..autograd.modes import set_grad_enabled
from ..backends.precision_policy import precision_of
from ..explain.product_counts import ProductCounts
from ..explain.records import answers_of
from ..explain.sensitivity import PRECISION_FLAGS
from ..flags import NO_OPINION
from ..kernels.precisions.products import PRECISIONS
from ..kernels.registry import Call, observe
from ..kernels.runtime import store, threading
from ..kernels.runtime.context import restore_on_failure
from ..random import drawn_as, manual_seed
from ..tensor import dtypes
from ..tensor.dtypes import float64, get_default_dtype, set_default_dtype
from .devices import Device, predict_seconds
from .flops import flops_of
from .grid import Cell
from .machine import machine
from .metrics import distances, measures_of
from .trials import Autocast, autocast_as

_REFERENCES_KEPT = 8

_PRODUCT_FLAGS = PRECISION_FLAGS | {"profile"}
"""Flags that act on products alone."""


class Settings(NamedTuple):
    """Settings shared by all cells of a sweep.

    Attributes:
        function: pickled.
        reference: "float64", "ieee", None for no reference, or a pickled function.
        metric: None, the name of a metric, or a pickled function of (answer, truth).
        entropy: the source of all seeds.
        repeats: the number of timed calls, after an untimed one.
        threads: per process; None for the process's own number.
        grad: whether grad mode is enabled.
        exclusive: time one cell of this host at a time.
        device: whose times are predicted, or None.
        dtype: the name of the default dtype.
        autocast: its types, ours and torch's.
    """

    function: bytes
    reference: str | bytes | None
    metric: str | bytes | None
    entropy: int
    repeats: int
    threads: int | None
    grad: bool
    exclusive: bool
    device: Device | None = None
    dtype: str = "float32"
    autocast: Autocast = (None, None)


@restore_on_failure
def run(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return the row of a cell; an error of its function is recorded in the row as "exception"."""
    row = {**cell.parameters, "flags": cell.given, "effective": {}, "seed": cell.seed}
    before = threading.get_num_threads()
    try:
        if settings.threads is not None:
            threading.set_num_threads(settings.threads)
        with _conditions(settings, cell):
            row["effective"] = {kind: precision_of(kind).precision for kind in ("matmul", "conv", "rnn")}
            answer, measured, counts = _measure(settings, cell)
        _check_products(cell, row["effective"], counts)
        row |= {"error": None, **_errors(settings, cell, answer), "exception": None, **measured}
    except Exception as error:
        row |= {"error": None, "exception": f"{type(error).__name__}: {error}"}
    finally:
        threads = threading.get_num_threads()
        threading.set_num_threads(before)
    return row | {"threads": threads, **machine()}


@restore_on_failure
def replay(settings: Settings, cell: Cell) -> Any:
    """The result of the function for one cell, with torch's products on our kernels as in the sweep."""
    with _conditions(settings, cell), _bridge(settings, ProductCounts()):
        return _call(_unpickle(settings.function), settings, cell)


@contextlib.contextmanager
def _conditions(settings: Settings, cell: Cell) -> Iterator[None]:
    """Run the block as the sweep was called: under the cell's flags, its grad mode, default dtype and autocast."""
    default = get_default_dtype()
    set_default_dtype(getattr(dtypes, settings.dtype))
    try:
        with cell.flags, set_grad_enabled(settings.grad), autocast_as(settings.autocast):
            yield
    finally:
        set_default_dtype(default)


def _check_products(cell: Cell, effective: dict[str, str], counts: ProductCounts) -> None:
    """Raise RuntimeError if the cell's flags choose a precision and no product obeyed it."""
    chosen = _PRODUCT_FLAGS & cell.given.keys() or (cell.given and set(effective.values()) != {"ieee"})
    chosen = chosen or cell.given.get("fp64_precision", "ieee") != "ieee"
    if chosen and not counts.obeyed:
        outside = "" if counts.others else "; functions of NumPy obey no flag, and those of torch run on CPU tensors"
        raise RuntimeError(f"no flag of precision acted: {counts}{outside}")
    lowered = [f"{kind} to {precision}" for kind, precision in effective.items() if precision != "ieee"]
    if lowered and not counts.lowered and any("precision" in path or "allow_tf32" in path for path in cell.given):
        raise RuntimeError(f"no flag of precision acted: {counts}, all of them at ieee; the flags lower {lowered[0]}")
    given = [path for path, value in cell.given.items() if value not in (None, NO_OPINION)]
    formats = [path for path in given if path.startswith("operands.")]
    if formats and not counts.by_role:
        raise RuntimeError(f"no format acted: no product has an operand of the role that {formats[0]} names")
    gradients = [path for path in given if path.startswith("backward") or path.endswith("gradient_precision")]
    if gradients and not counts.in_backward:
        raise RuntimeError(f"{gradients[0]} did not act: no product obeyed precision flags in a backward pass")


@functools.lru_cache(maxsize=16)
def _unpickle(pickled: bytes) -> Callable[..., Any]:
    import cloudpickle

    return cloudpickle.loads(pickled)


def _call(function: Callable[..., Any], settings: Settings, cell: Cell) -> Any:
    """The function's result, with all generators seeded for the cell."""
    draw = np.random.SeedSequence([settings.entropy, int(cell.draw, 16)]).generate_state(4, np.uint32)
    manual_seed(int(draw[0]) << 32 | int(draw[1]))
    np.random.seed(draw)  # noqa: NPY002  (for functions that use NumPy's global state)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(int(draw[2]) << 32 | int(draw[3]))
    named = {} if cell.seed is None or not _takes_seed(function) else {"seed": cell.seed}
    return function(**cell.parameters, **named)


def _takes_seed(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(each.name == "seed" or each.kind is each.VAR_KEYWORD for each in parameters)


@contextlib.contextmanager
def _bridge(settings: Settings, counts: ProductCounts, wanted: bool = True) -> Iterator[list[bool]]:
    """Run the block inside torch's bridge if torch is loaded; the value becomes whether the block called torch."""
    calls_torch = [False]
    if not wanted or "torch" not in sys.modules:
        yield calls_torch
        return
    from ..interop.torch.experiments import observe_products

    with observe_products(counts, settings.grad) as uses:
        yield calls_torch
        calls_torch[0] = uses.used


@restore_on_failure
def _measure(settings: Settings, cell: Cell) -> tuple[dict[str, np.ndarray], dict[str, Any], ProductCounts]:
    """The answer, and the cost of a call: the first call compiles, the second is counted, the others are timed."""
    function, calls, counts = _unpickle(settings.function), Counter[str](), ProductCounts()
    flops: Counter[str] = Counter()
    predicted = [0.0]

    def note(call: Call) -> None:
        calls[f"{call.kernel}: {call.implementation}"] += 1
        flops[str(call.keywords.get("precision", "ieee"))] += flops_of(call)
        if settings.device is not None:
            predicted[0] += predict_seconds(settings.device, call)

    loads_torch = "torch" not in sys.modules
    start = time.perf_counter()
    with _bridge(settings, ProductCounts()) as by_torch:
        answer = answers_of(_call(function, settings, cell))
    first = time.perf_counter() - start
    if loads_torch and "torch" in sys.modules:
        with _bridge(settings, ProductCounts()) as by_torch:
            answer = answers_of(_call(function, settings, cell))
    with _bridge(settings, counts, by_torch[0]), observe(note), observe(counts), _peak() as peak:
        _call(function, settings, cell)
    taken = []
    with _alone() if settings.exclusive else contextlib.nullcontext(), _bridge(settings, ProductCounts(), by_torch[0]):
        for _ in range(settings.repeats):
            start = time.perf_counter()
            _call(function, settings, cell)
            taken.append(time.perf_counter() - start)
    passes = {name: count * len(PRECISIONS[name].terms) for name, count in flops.items() if name in PRECISIONS}
    return (
        answer,
        {
            "seconds": statistics.median(taken) if taken else None,
            "first_seconds": first,
            "timing": "exclusive" if settings.exclusive else "shared",
            "peak_bytes": peak[0],
            "kernels": dict(sorted(calls.items())),
            "flops": {name: count for name, count in sorted(flops.items()) if count},
            "passes": {name: count for name, count in sorted(passes.items()) if count},
            **({} if settings.device is None else {"predicted_seconds": predicted[0]}),
            "products": {"obeyed": counts.obeyed, **counts.others},
        },
        counts,
    )


@contextlib.contextmanager
def _peak() -> Iterator[list[int]]:
    """Measure the peak of the bytes that the block allocates, as NumPy reports them to tracemalloc."""
    found, tracing = [0], tracemalloc.is_tracing()
    if tracing:
        tracemalloc.reset_peak()
    else:
        tracemalloc.start()
    held = tracemalloc.get_traced_memory()[0]
    try:
        yield found
        found[0] = tracemalloc.get_traced_memory()[1] - held
    finally:
        if not tracing:
            tracemalloc.stop()


def _errors(settings: Settings, cell: Cell, answer: dict[str, np.ndarray]) -> dict[str, Any]:
    if settings.reference is None:
        return {"reference": None}
    truth, why_none = _truth(settings, cell)
    if why_none is not None:
        return {"reference": f"none: {why_none}"}
    metric = _unpickle(settings.metric) if isinstance(settings.metric, bytes) else settings.metric
    name = settings.reference if isinstance(settings.reference, str) else "function"
    return distances(answer, truth) | measures_of(metric, answer, truth) | {"reference": name}


_Truth = tuple[dict[str, np.ndarray], str | None]
"""The reference's answer, and why it is not the truth, or None."""

_truths: dict[tuple[str, str], _Truth] = {}


@restore_on_failure
def _truth(settings: Settings, cell: Cell) -> _Truth:
    """The reference's answer, shared by all flags, and cached for the last few parameters and seeds."""
    sources = repr((settings.function, settings.reference, settings.entropy, settings.grad, settings.dtype,
                    settings.autocast))  # fmt: skip
    key = hashlib.sha256(sources.encode()).hexdigest(), cell.draw
    if key not in _truths:
        function, counts = (
            _unpickle(settings.function if isinstance(settings.reference, str) else settings.reference),
            ProductCounts(),
        )
        wide = settings.reference == "float64"
        with _conditions(settings, cell), backends.Snapshot(()), _in_float64(wide, counts), observe(counts):
            found = answers_of(_call(function, settings, cell))
        while len(_truths) >= _REFERENCES_KEPT:
            del _truths[next(iter(_truths))]
        _truths[key] = found, _why_not_float64(found, counts) if wide else None
    return _truths[key]


_HALVES = ("half types", "bfloat16", "float16")


def _why_not_float64(found: dict[str, np.ndarray], counts: ProductCounts) -> str | None:
    """Why the answers with float64 as default dtype are not those of float64, or None."""
    remedy = "make its tensors of the default dtype, or pass a function as reference"
    if counts.obeyed:
        return f"with float64 as default dtype it computes {counts.obeyed} products of float32 or complex64; {remedy}"
    halves = [kind for kind in counts.others if kind.endswith(_HALVES)]
    if halves:
        return f"with float64 as default dtype it computes {', '.join(halves)}; {remedy}"
    single = () if counts.others else ("float32", "complex64")  # float64 products, rounded at the end
    narrow = {each.dtype.name for each in found.values() if each.dtype.name in (*_HALVES, *single)}
    if narrow:
        return f"with float64 as default dtype it returns {', '.join(sorted(narrow))}; {remedy}"
    return None


@contextlib.contextmanager
def _in_float64(wanted: bool, counts: ProductCounts) -> Iterator[None]:
    """Run the block with float64 as the default dtype, drawing the random numbers of float32. Count torch's products
    of half types."""
    default = get_default_dtype()
    if not wanted:
        yield
        return
    set_default_dtype(float64)
    torch_in_float64: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
    if "torch" in sys.modules:
        from ..interop.torch.experiments import InFloat64

        torch_in_float64 = InFloat64(counts)
    try:
        with drawn_as(default), torch_in_float64:
            yield
    finally:
        set_default_dtype(default)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Run the block while no other process of this user on this host runs one."""
    try:
        import fcntl
    except ImportError:  # no file locks on this platform
        yield
        return
    with (store.cache_folder() / "exclusive.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
