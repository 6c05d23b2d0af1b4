"""Attention: time of the flash kernel and of its gradients beside torch's, memory at a great length, errors."""

from __future__ import annotations

import contextlib
import math
import tracemalloc
from collections.abc import Callable, Iterator
from timeit import Timer
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

import minitorch_backends as mt
from minitorch_backends import backends
from minitorch_backends.display.figures import MARKS, SHAPES
from minitorch_backends.kernels.attention import attention
from minitorch_backends.kernels.registry import Refused
from minitorch_backends.kernels.runtime import threading
from minitorch_backends.kernels.runtime.workspace import release
from minitorch_backends.nn.functional import scaled_dot_product_attention

from . import peers
from .presentation import PEERS, Plot, Table, error, number, paragraphs, ratio, seconds, show_names
from .session import Session
from .timing import OPENMP_REST, Timing, time_interleaved

__all__ = ["PLOTS", "TITLE", "run", "summary", "tables"]

TITLE = "Attention"


class Case(NamedTuple):
    """Sizes of one call; `groups` heads of key and value serve `heads` heads of query."""

    batch: int
    heads: int
    groups: int
    length: int
    depth: int
    causal: bool = False

    @property
    def name(self) -> str:
        shared = "" if self.groups == self.heads else f"/{self.groups}"
        return f"{self.batch}x{self.heads}{shared}x{self.length}x{self.depth}{' causal' if self.causal else ''}"

    @property
    def operations(self) -> float:
        """Of the two products, without what a causal call need not do."""
        return 4 * self.batch * self.heads * self.length**2 * self.depth * (0.5 if self.causal else 1)


CASES = (
    Case(1, 8, 8, 128, 64),
    Case(1, 8, 8, 512, 64),
    Case(1, 8, 8, 512, 64, True),
    Case(1, 16, 16, 1024, 64),
    Case(1, 16, 16, 1024, 64, True),
    Case(1, 16, 4, 1024, 64),
    Case(1, 16, 16, 2048, 128),
    Case(1, 16, 16, 2048, 128, True),
    Case(1, 16, 16, 4096, 128),
    Case(1, 16, 16, 4096, 128, True),
)
QUICK_CASES = (Case(1, 8, 8, 128, 64), Case(1, 8, 8, 512, 64), Case(1, 8, 8, 512, 64, True), Case(1, 8, 2, 512, 64))
USUAL_CASES = CASES[:6]
GRADIENT_CASES = (Case(1, 8, 8, 128, 64), Case(1, 8, 8, 512, 64), Case(1, 16, 16, 1024, 64, True))

BARS = {"ieee": 1.0, "tf32": 1.8, "bf16": None, "bf16x3": None, "bfloat16": 1.5, "float64": 1.0}
"""For float32 tensors at each precision, and for tensors of other dtypes: how many times longer torch is to take at
least."""

DTYPES = ("float32", "bfloat16", "float64")
PRECISIONS = tuple(name for name in BARS if name not in DTYPES)

MEMORY_CASE, MEMORY_BAR = Case(1, 2, 2, 8192, 64), 64e6
ERROR_CASE = Case(1, 4, 4, 512, 64)
KERNELS = ("flash", "efficient", "math")
ERROR_BAR = 1.5


def run(session: Session) -> dict[str, Any]:
    """Time every case, forward and then with gradients; then memory, then errors."""
    cases, gradient_cases = session.choose(
        (QUICK_CASES, QUICK_CASES[1:2]), (USUAL_CASES, GRADIENT_CASES[1:2]), (CASES, GRADIENT_CASES)
    )
    total = len(cases) + len(gradient_cases) + 2
    with session.progress(TITLE) as report:
        forward, gradients = [], []
        for done, case in enumerate(cases):
            report(done / total, case.name)
            forward.append(_time_case(session, case, False))
        for done, case in enumerate(gradient_cases, len(cases)):
            report(done / total, f"gradients of {case.name}")
            gradients.append(_time_case(session, case, True))
        report((total - 2) / total, "memory")
        memory = _memory(session)
        report((total - 1) / total, "errors")
        errors = _errors(session)
    compared = peers.torch_is_installed()
    return {
        "compared_with_torch": compared, "forward": forward, "gradients": gradients, "memory": memory, "errors": errors,
    }  # fmt: skip


def _arrays(session: Session, case: Case) -> list[np.ndarray]:
    random = np.random.default_rng([session.seed, *case])
    heads = case.heads, case.groups, case.groups
    return [random.standard_normal((case.batch, each, case.length, case.depth), dtype=np.float32) for each in heads]


@contextlib.contextmanager
def _default_precision() -> Iterator[None]:
    """Put the process-wide precision back, which the timers' setups assign."""
    before = backends.snapshot()
    try:
        yield
    finally:
        backends.restore(before)


def _allow(precision: str) -> None:
    backends.fp32_precision = "none" if precision in DTYPES else precision


def _dtype(precision: str) -> str:
    """Of the tensors."""
    return precision if precision in DTYPES else "float32"


def _time_case(session: Session, case: Case, gradients: bool) -> dict[str, Any]:
    """Median times of one case by precision, those of torch under the dtype of its tensors."""
    arrays = _arrays(session, case)
    timers, rests = {}, {}
    for precision in BARS:
        call = _ours([mt.from_numpy(array).to(getattr(mt, _dtype(precision))) for array in arrays], case, gradients)
        timers[precision] = Timer(call, lambda precision=precision: _allow(precision))
    if (torch := peers.torch_if_installed()) is not None:
        for name in [name for name in DTYPES if name != "bfloat16" or peers.torch_multiplies_bf16()]:
            tensors = [torch.from_numpy(array).to(getattr(torch, name)) for array in arrays]
            timers[f"torch {name}"] = Timer(_theirs(torch, tensors, case, gradients))
            rests[f"torch {name}"] = OPENMP_REST
    rounds, shortest = (3, 5e-3) if session.quick or case.operations > 2e10 else (7, 1e-2)
    with _default_precision():
        timings = time_interleaved(timers, seconds=0.0, shortest=shortest, rounds=rounds, rests=rests)
    return {"case": case.name, "operations": case.operations, **_compare(timings)}


def _compare(timings: dict[str, Timing]) -> dict[str, Any]:
    medians = {name: timing.median for name, timing in timings.items()}
    ratios = {}
    for precision in BARS:
        peer = medians.get(f"torch {_dtype(precision)}")
        ratios[precision] = None if peer is None else peer / medians[precision]
    minima = {name: timing.minimum for name, timing in timings.items()}
    return {"median_seconds": medians, "minimum_seconds": minima, "torch_relative_to_ours": ratios}


def _ours(tensors: list[mt.Tensor], case: Case, gradients: bool) -> Callable[[], Any]:
    options = {"is_causal": case.causal, "enable_gqa": case.groups != case.heads}
    q, k, v = tensors
    if not gradients:
        return lambda: scaled_dot_product_attention(q, k, v, **options)
    inputs, g = [each.requires_grad_() for each in (q, k, v)], mt.ones_like(q)
    return lambda: mt.autograd.grad(scaled_dot_product_attention(*inputs, **options), inputs, g)


def _theirs(torch: Any, tensors: list[Any], case: Case, gradients: bool) -> Callable[[], Any]:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    attend = torch.nn.functional.scaled_dot_product_attention
    options = {"is_causal": case.causal, "enable_gqa": case.groups != case.heads}
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):  # raises where torch's flash kernel does not take the case
        attend(*tensors, **options)
    if not gradients:
        return lambda: attend(*tensors, **options)
    inputs, g = [each.requires_grad_() for each in tensors], torch.ones_like(tensors[0])
    return lambda: torch.autograd.grad(attend(*inputs, **options), inputs, g)


def _memory(session: Session) -> list[dict[str, Any]]:
    """Peak memory of a call besides its result, which tracemalloc sees NumPy take."""
    case = MEMORY_CASE._replace(length=1024) if session.quick else MEMORY_CASE
    threads, rows = threading.pool()[1], []
    for name in PRECISIONS:
        arrays = _arrays(session, case)
        for kernel in ("flash", "efficient"):
            run = attention[kernel]
            run(*[each[:, :, :64] for each in arrays], scale=0.1, precision=name)  # compile
            release()
            tracemalloc.start()
            result = run(*arrays, scale=1 / math.sqrt(case.depth), precision=name)
            peak = tracemalloc.get_traced_memory()[1] - result.out.nbytes - result.statistics.nbytes
            tracemalloc.stop()
            rows.append({"case": case.name, "precision": name, "kernel": kernel, "bytes_per_core": peak / threads})
    return rows


def _errors(session: Session) -> list[dict[str, Any]]:
    """Rms errors of each kernel, relative to the rms of the result in float64."""
    arrays, scale = _arrays(session, ERROR_CASE), 1 / math.sqrt(ERROR_CASE.depth)
    exact = attention.reference(*arrays, scale=scale).out
    rows = []
    for precision in PRECISIONS:
        row: dict[str, Any] = {"precision": precision}
        for kernel in KERNELS:
            try:
                found = attention[kernel](*arrays, scale=scale, precision=precision).out
            except Refused:
                row[kernel] = None
            else:
                row[kernel] = float(np.sqrt(np.mean((found - exact) ** 2) / np.mean(exact**2)))
        row["flash_relative_to_math"] = None if row["flash"] is None else row["flash"] / row["math"]
        rows.append(row)
    return rows


def tables(result: dict[str, Any]) -> list[Table]:
    names = [("forward", "Time of the flash kernel"), ("gradients", "Time with gradients")]
    timed = [_time_table(title, result[key]) for key, title in names]
    memory = [
        (row["case"], row["precision"], row["kernel"], number(row["bytes_per_core"] / 1e6)) for row in result["memory"]
    ]
    errors = [
        (row["precision"], *(error(row[kernel]) for kernel in KERNELS), ratio(row["flash_relative_to_math"]))
        for row in result["errors"]
    ]
    return [
        *timed,
        Table("Memory besides the result", ("case", "precision", "kernel", "MB a core"), memory, names=3),
        Table(f"Error relative to the result, {ERROR_CASE.name}", ("precision", *KERNELS, "flash / math"), errors),
    ]


def _time_table(title: str, measured: list[dict[str, Any]]) -> Table:
    rows = []
    for entry in measured:
        cells = []
        for name, value in entry["median_seconds"].items():
            lead = entry["torch_relative_to_ours"].get(name)
            cells.append(seconds(value) if lead is None else f"{seconds(value)} ({ratio(lead)})")
        rows.append((entry["case"], *cells))
    return Table(f"{title} (and how many times longer torch takes)", ("case", *measured[0]["median_seconds"]), rows)


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    text = """
        Cases are batch x heads (/ heads of key and value) x length x size of a head, of standard normal numbers. ieee,
        tf32, bf16 and bf16x3 are precisions of float32 tensors, set by backends.fp32_precision; bfloat16 and float64
        are tensors of that dtype. torch runs its flash kernel, on tensors of the dtype named, its gradients by
        autograd. Times are medians of interleaved samples of whole calls.
    """
    if result["compared_with_torch"]:
        measured = result["forward"][0]["torch_relative_to_ours"]  # without bfloat16, where torch has no kernel for it
        bars = {name: bar for name, bar in BARS.items() if bar is not None and measured[name] is not None}
        missed = [
            f"{precision} {entry['case']} {entry['torch_relative_to_ours'][precision]:.2f} of {bar}"
            for entry in result["forward"]
            for precision, bar in bars.items()
            if entry["torch_relative_to_ours"][precision] < bar
        ]
        listed = ", ".join(f"{name} {bar:g}" for name, bar in bars.items())
        text += f"""\n
        torch is to take so many times longer: {listed}. {"Missed: " + "; ".join(missed) if missed else "All are met"}.
        """
    else:
        text += "\n\ntorch is not installed here; its CPU build is enough to compare with: pip install torch."
    most = max(row["bytes_per_core"] for row in result["memory"])
    worst = max(row["flash_relative_to_math"] or 0 for row in result["errors"])
    text += f"""\n
        Besides its result a call takes {most / 1e6:.1f} MB a core at most (to be below {MEMORY_BAR / 1e6:.0f}). The
        error of flash is {worst:.2f} times that of math at most, at the same precision (to be {ERROR_BAR} or less).
    """
    return paragraphs(text)


# The picture

TENSORS = {"bfloat16": ("#CC79A7", "P"), "float64": ("#56B4E9", "p")}
"""The marks of ours on tensors of other dtypes than float32."""


def _draw(figure: Figure, result: dict[str, Any]) -> None:
    left, right = figure.subplots(1, 2, width_ratios=(1.7, 1))
    cases = result["forward"]
    for name in cases[0]["median_seconds"]:
        colour, marker = (MARKS | TENSORS | PEERS)[name]
        speeds = [1e-9 * entry["operations"] / entry["median_seconds"][name] for entry in cases]
        label = f"{name} tensors" if name in TENSORS else name
        left.plot(speeds, ":" if name in PEERS else "-", marker=marker, color=colour, markersize=7, label=label)
    left.set(title="Speed of the flash kernel", ylabel="GFLOP/s of the two products", ylim=(0, None))
    show_names(left, [entry["case"] for entry in cases])
    left.legend(ncols=2)
    for place, kernel in enumerate(("flash", "efficient", "math")):
        errors = [row[kernel] for row in result["errors"]]
        size = 8 + 3 * place  # equal errors stand inside each other
        right.plot(errors, SHAPES[place], color="#333333", fillstyle="none", markersize=size, label=kernel)
    right.set(title="Error of each kernel", ylabel="relative to the result, against float64", yscale="log")
    show_names(right, [row["precision"] for row in result["errors"]])
    right.legend()


PLOTS = [
    Plot(
        "attention",
        "Left, up is faster; cases are batch x heads (/ heads of key and value) x length x size of a head.",
        (12, 4.6),
        _draw,
    )
]
