"""Certificates that bits of a function do not depend on batch, place in it, threads, shards or instructions.

A function is run on a whole batch, on parts of it, with other numbers of threads, with sums in other numbers of parts,
and in processes whose kernels, NumPy and C library use fewer instructions. Results are compared bit for bit, and so are
those of the kernel calls on the way.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from ..backends.invariance import check_value
from ..explain.records import as_array, as_text
from ..flags import Snapshot, current, snapshot
from ..flags.writes import Flags, expand_paths
from ..kernels import partial_sums
from ..kernels.registry import Call, observe
from ..kernels.runtime import cpu
from ..kernels.runtime.context import restore_on_failure
from ..kernels.runtime.threading import get_num_threads, num_threads
from ..random import manual_seed
from ..tensor.tensor import Tensor, is_foreign

_PATIENCE = 1800
"""Seconds until a child counts as hanging; a first call compiles kernels."""

_LOWERED = {
    "portable": {
        "NPY_DISABLE_CPU_FEATURES": ("X86_V3", "X86_V4", "AVX512"), "OPENBLAS_CORETYPE": "Nehalem",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX,-AVX2,-FMA,-FMA4,-AVX512F", "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
    },
    "avx2": {
        "NPY_DISABLE_CPU_FEATURES": ("X86_V4", "AVX512"), "OPENBLAS_CORETYPE": "Haswell",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F", "ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2",
    },
}  # fmt: skip
"""What keeps other libraries to the instructions of a capability; of NumPy's names the beginnings."""


class Check(NamedTuple):
    """One comparison with the whole batch, run here.

    Attributes:
        kind: "batch", "threads", "shards" or "isa".
        setting: what was different, as "rows 3 to 5 of 8", "2 threads", "8 shards" or "capability avx2".
        holds: whether all results have the same bits.
        first_difference: where results differ, the first kernel call with other bits, or by another kernel; else None.
    """

    kind: str
    setting: str
    holds: bool
    first_difference: str | None

    def __str__(self) -> str:
        if self.holds:
            return f"{self.kind}: {self.setting}: the same bits"
        where = self.first_difference or "in no kernel call, so before or between them"
        return f"{self.kind}: {self.setting}: other bits, first {where}"


class Certificate(NamedTuple):
    """What `certificate` found.

    Attributes:
        function: its name.
        invariant: `backends.invariant` meanwhile.
        outputs: a SHA-256 hash of each output of the whole batch, over dtype, shape and bits.
        checks: all comparisons.
        not_in_parts: the outputs without rows of the batch, which checks of kind "batch" leave out.
        not_varied: what checks of kind "threads" could not reach.
    """

    function: str
    invariant: str
    outputs: dict[str, str]
    checks: tuple[Check, ...]
    not_in_parts: tuple[str, ...] = ()
    not_varied: str = ""

    @property
    def holds(self) -> bool:
        """Whether all comparisons found the same bits."""
        return all(check.holds for check in self.checks)

    def to_json(self) -> str:
        """All of it as a JSON object, with `holds`."""
        return json.dumps(
            {**self._asdict(), "holds": self.holds, "checks": [check._asdict() for check in self.checks]}, indent=1
        )

    def __str__(self) -> str:
        failed = [check for check in self.checks if not check.holds]
        kinds = ", ".join(f"{sum(each.kind == kind for each in self.checks)} of {kind}" for kind in self._kinds())
        verdict = f"fails {len(failed)} of" if failed else "holds in"
        lines = [f"{self.function} {verdict} {len(self.checks)} checks ({kinds}); invariant = {self.invariant!r}"]
        lines += [f"    {name}: {digest}" for name, digest in self.outputs.items()]
        if self.not_in_parts:
            lines.append(f"    without rows of the batch, so not compared over parts: {', '.join(self.not_in_parts)}")
        lines += [f"    not varied: {self.not_varied}"] if self.not_varied else []
        return "\n".join([*lines, *(f"    {check}" for check in failed)])

    def _repr_html_(self) -> str:
        from ..display.html import Rows, as_html

        verdict = {True: "the same bits", False: "other bits"}
        checks = ((each.kind, each.setting, verdict[each.holds], each.first_difference or "") for each in self.checks)
        rows = Rows([("kind", "setting", "result", "first difference"), *checks], names=4)
        return as_html(str(self).partition("\n")[0], rows)

    def _kinds(self) -> list[str]:
        return list(dict.fromkeys(check.kind for check in self.checks))


@restore_on_failure
def certificate(
    function: Callable[..., Any],
    inputs: Any,
    *,
    invariant: str | None = None,
    batch_sizes: Sequence[int] = (1, 2, 5),
    positions: Sequence[int] | None = None,
    threads: Sequence[int] = (1, 2),
    shards: Sequence[int] | None = None,
    capabilities: Sequence[str] | None = None,
) -> Certificate:
    """Check that the bits of a function's results depend neither on the batch nor on threads, shards or instructions.

    Arguments:
        function: gives a tensor, or a tuple, list or dict of them. Torch's products run on our kernels, inside
            `interop.torch.emulate`. Child processes import it, so that it must be a function of a module, or a module
            whose class is.
        inputs: a tensor, a tuple of positional arguments or a dict of named ones. The first dimension of the first
            tensor is the batch; parts are taken of all tensors that have that first dimension, and of outputs.
        invariant: `backends.invariant` meanwhile; None takes the flag in force.
        batch_sizes, positions: of the parts, smaller than the batch; () for none. By default each size at the first
            place, in the middle and at the last. Outputs without rows of the batch are not compared.
        threads: numbers of threads to compare.
        shards: values of `backends.partial_sums.parts` to compare, with the order and dtype in force; by default 1, 2,
            4 and 8 where `invariant` has "shards", and none otherwise.
        capabilities: CPU capabilities to compare, each in a process of its own, with NumPy, OpenBLAS, torch and the C
            library kept to it too; () for none, None for all that this CPU has below the one in force.

    Raises TypeError for what cannot be called; ValueError for inputs without a batch, for a comparison that would
    compare nothing (no smaller part, no output with rows, shards that split no sum), for capabilities that the CPU
    lacks, and for functions that no other process can import; RuntimeError for what the function raises in a child.
    """
    if not callable(function):
        raise TypeError(f"certificate(): function must be callable, got {function!r}")
    flag = check_value(current().read("invariant") if invariant is None else invariant)
    chosen = _below() if capabilities is None else tuple(capabilities)
    if missing := [each for each in chosen if each not in (*_below(), cpu.capability())]:
        known = ", ".join(map(repr, (*_below(), cpu.capability())))
        raise ValueError(f"certificate(): capabilities must be among {known}, got {missing[0]!r}")
    size = _batch_of(inputs)
    children = [(level, _start(level, function, inputs, flag)) for level in chosen]
    try:
        with Flags(expand_paths({"invariant": flag})):
            whole = _trace(function, inputs)
            checks = [*_of_parts(function, inputs, whole, size, batch_sizes, positions)]
            apart = tuple(name for name, each in whole.outputs.items() if not _has_rows(each, size)) if checks else ()
            checks += _of_threads(function, inputs, whole, threads)
            if shards is None:
                shards = (1, 2, 4, 8) if "shards" in flag else ()
            checks += _of_shards(function, inputs, whole, shards)
        checks += [_of_child(level, child, whole) for level, child in children]
    finally:
        for _, child in children:
            child.kill()
    if not checks:
        raise ValueError("certificate(): one of batch_sizes, threads, shards and capabilities must be named, got none")
    name = getattr(function, "__qualname__", type(function).__name__)
    outputs = {each: _hash(array) for each, array in whole.outputs.items()}
    others = "the threads of NumPy's BLAS (pip install threadpoolctl)" if threads and not _limits_blas() else ""
    return Certificate(name, flag, outputs, tuple(checks), apart, others)


# A run, with its kernel calls


class _Step(NamedTuple):
    """A kernel call: its kernel, what it was, and its result."""

    kernel: str
    text: str
    result: np.ndarray


class _Trace(NamedTuple):
    outputs: dict[str, np.ndarray]
    steps: list[_Step]


@restore_on_failure
def _trace(function: Callable[..., Any], inputs: Any) -> _Trace:
    steps: list[_Step] = []

    def note(call: Call) -> None:
        found = call.result[0] if isinstance(call.result, tuple) else call.result
        text = f"in call {len(steps)}, {call.kernel} of {as_text(call.shapes)} by {call.implementation}"
        steps.append(_Step(call.kernel, text, np.array(found)))

    manual_seed(0)
    with _bridge(), observe(note):
        found = function(**inputs) if isinstance(inputs, Mapping) else function(*_arguments(inputs))
    return _Trace(dict(_arrays("output", found)), steps)


def _bridge() -> AbstractContextManager[Any]:
    """The block in which torch's tensors are computed by our kernels, where torch is loaded."""
    if "torch" not in sys.modules:
        return nullcontext()
    from ..interop.torch import emulate

    return emulate()


def _arguments(inputs: Any) -> Sequence[Any]:
    return inputs if isinstance(inputs, (tuple, list)) else (inputs,)


def _arrays(name: str, found: Any) -> Iterator[tuple[str, np.ndarray]]:
    if isinstance(array := as_array(found), np.ndarray):
        yield name, array
    elif isinstance(found, Mapping):
        for key, each in found.items():
            yield from _arrays(f"{name}.{key}", each)
    elif isinstance(found, (tuple, list)):
        for place, each in enumerate(found):
            yield from _arrays(f"{name}[{place}]", each)
    else:
        raise TypeError(f"certificate(): the function must return tensors, got {type(found).__name__}")


def _hash(array: np.ndarray) -> str:
    described = f"{array.dtype.name}{list(array.shape)}".encode()
    return hashlib.sha256(described + np.ascontiguousarray(array).tobytes()).hexdigest()


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()


# Parts of the batch


def _batch_of(inputs: Any) -> int:
    values = inputs.values() if isinstance(inputs, Mapping) else _arguments(inputs)
    first = next((each for each in values if _has_shape(each) and each.ndim), None)
    if first is None or not first.shape[0]:
        raise ValueError("certificate(): inputs must hold a tensor whose first dimension is the batch, got none")
    return int(first.shape[0])


def _part(inputs: Any, size: int, rows: slice) -> Any:
    if isinstance(inputs, Mapping):
        return {name: _part(each, size, rows) for name, each in inputs.items()}
    if isinstance(inputs, (tuple, list)):
        return tuple(_part(each, size, rows) for each in inputs)
    return inputs[rows] if _has_shape(inputs) and inputs.ndim and inputs.shape[0] == size else inputs


def _has_shape(value: Any) -> bool:
    return isinstance(value, (Tensor, np.ndarray)) or is_foreign(value)


def _of_parts(
    function: Callable[..., Any], inputs: Any, whole: _Trace, size: int, batch_sizes: Sequence[int],
    positions: Sequence[int] | None,
) -> Iterator[Check]:  # fmt: skip
    parts = [
        slice(first, first + count)
        for count in (each for each in batch_sizes if each < size)
        for first in dict.fromkeys((0, (size - count) // 2, size - count) if positions is None else positions)
        if first + count <= size
    ]
    if batch_sizes and not parts:
        raise ValueError(
            f"certificate(): batch_sizes and positions must name parts of a batch of {size} rows, got "
            f"{tuple(batch_sizes)} and {positions}; pass batch_sizes=() to compare none"
        )
    if parts and not any(_has_rows(each, size) for each in whole.outputs.values()):
        raise ValueError(
            f"certificate(): an output must have rows of the batch of {size}, got the shapes "
            f"{[each.shape for each in whole.outputs.values()]}; pass batch_sizes=() to compare no parts"
        )
    for rows in parts:
        part = _trace(function, _part(inputs, size, rows))
        pairs = [(of_whole, part.outputs[name]) for name, of_whole in whole.outputs.items()]
        holds = all(_matches(*pair, size, rows) is not False for pair in pairs)
        yield _check("batch", f"rows {rows.start} to {rows.stop} of {size}", holds, whole, part, size, rows)


def _has_rows(array: np.ndarray, size: int) -> bool:
    """Whether an output consists of rows of the batch."""
    return bool(array.ndim) and array.shape[0] > 0 and array.shape[0] % size == 0


def _matches(whole: np.ndarray, part: np.ndarray, size: int, rows: slice) -> bool | None:
    """Whether a part's array has the bits of its rows in the whole's, where rows are neighbours along the first
    dimension; None for other arrays."""
    count = rows.stop - rows.start
    if not whole.ndim or not part.ndim or whole.shape[0] % size or part.shape[0] * size != whole.shape[0] * count:
        return None
    each = whole.shape[0] // size
    return _same(whole[rows.start * each : rows.stop * each], part)


def _check(
    kind: str, setting: str, holds: bool, whole: _Trace, other: _Trace, size: int = 1, rows: slice = slice(0, 1)
) -> Check:
    found: list[str] = []
    for a, b in zip(whole.steps, other.steps, strict=False) if not holds else ():
        if a.kernel != b.kernel and not found:
            found.append(f"{b.text}, which {a.kernel} computed before, so that they are not compared")
        elif a.kernel == b.kernel and _matches(a.result, b.result, size, rows) is False:
            found.append(b.text)
            break
    return Check(kind, setting, holds, "; then ".join(found) or None)


def _of_threads(function: Callable[..., Any], inputs: Any, whole: _Trace, threads: Sequence[int]) -> Iterator[Check]:
    if {*threads} == {get_num_threads()}:
        raise ValueError(f"certificate(): threads must name another number than the one in force, got {threads}")
    for count in threads:
        with num_threads(count), _threads_of_others(count):
            other = _trace(function, inputs)
        holds = all(_same(array, other.outputs[name]) for name, array in whole.outputs.items())
        yield _check("threads", f"{count} thread{'s' * (count > 1)}", holds, whole, other)


@contextmanager
def _threads_of_others(count: int) -> Iterator[None]:
    """Run what torch and, with threadpoolctl, NumPy compute themselves on as many threads."""
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else count
    with ExitStack() as limits:
        if torch:
            limits.callback(torch.set_num_threads, before)
            torch.set_num_threads(count)
        if _limits_blas():
            limits.enter_context(importlib.import_module("threadpoolctl").threadpool_limits(count, user_api="blas"))
        yield


def _limits_blas() -> bool:
    return importlib.util.find_spec("threadpoolctl") is not None


def _of_shards(function: Callable[..., Any], inputs: Any, whole: _Trace, shards: Sequence[int]) -> Iterator[Check]:
    before = partial_sums.splits
    if {*shards} == {current().read("partial_sums.parts")}:
        raise ValueError(f"certificate(): shards must name another number than the one in force, got {shards}")
    for count in shards:
        with Flags(expand_paths({"partial_sums.parts": count})):
            other = _trace(function, inputs)
        holds = all(_same(array, other.outputs[name]) for name, array in whole.outputs.items())
        yield _check("shards", f"{count} shard{'s' * (count > 1)}", holds, whole, other)
    if max(shards, default=1) > 1 and partial_sums.splits == before:
        raise ValueError(
            "certificate(): shards must split a sum of this package's kernels, got a function without one; pass "
            "shards=() to compare none"
        )


# Other capabilities


def _below() -> tuple[str, ...]:
    return cpu.LEVELS[: cpu.LEVELS.index(cpu.capability())]


def _environment(level: str) -> dict[str, str]:
    core: Any = importlib.import_module("numpy._core._multiarray_umath")
    named = dict(_LOWERED.get(level, {}))
    beginnings = named.pop("NPY_DISABLE_CPU_FEATURES", ())
    present = [name for name in core.__cpu_dispatch__ if core.__cpu_features__.get(name)]
    off = [name for name in present if any(name.startswith(each) for each in beginnings)]
    numpy_off = {"NPY_DISABLE_CPU_FEATURES": ",".join(off)} if off else {}
    return {**os.environ, **{name: str(value) for name, value in named.items()}, **numpy_off, cpu.VARIABLE: level}


def _start(level: str, function: Callable[..., Any], inputs: Any, flag: str) -> subprocess.Popen:
    """A process that has been sent its task."""
    if getattr(function, "__module__", None) == "__main__" or getattr(type(function), "__module__", "") == "__main__":
        raise ValueError(
            "certificate(): function must be importable by other processes, got one of '__main__'; move it to a file, "
            "or pass capabilities=()"
        )
    try:
        task = pickle.dumps((sys.path, pickle.dumps((function, inputs, snapshot(), flag))))
    except (pickle.PicklingError, AttributeError, TypeError) as problem:
        raise ValueError(
            f"certificate(): function and inputs must be picklable, got {problem}; or pass capabilities=()"
        ) from None
    command = [sys.executable, "-c", f"from {__name__} import _child; _child()"]
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    child = subprocess.Popen(command, env=_environment(level), **pipes)
    assert child.stdin is not None
    child.stdin.write(task)
    child.stdin.close()
    child.stdin = None
    return child


@restore_on_failure
def _child() -> None:
    """The work of a child: run the task from stdin, and write its trace to stdout, where nothing else may write."""
    answers, sys.stdout = sys.stdout.buffer, sys.stderr
    paths, task = pickle.loads(sys.stdin.buffer.read())  # from the parent
    sys.path[:] = paths
    function, inputs, flags, flag = pickle.loads(task)
    assert isinstance(flags, Snapshot)
    with flags, Flags(expand_paths({"invariant": flag})):
        answers.write(pickle.dumps(_trace(function, inputs)))


def _of_child(level: str, child: subprocess.Popen, whole: _Trace) -> Check:
    out, error = child.communicate(timeout=_PATIENCE)
    if child.returncode:
        last = error.decode(errors="replace").strip().rpartition("\n")[2]
        raise RuntimeError(f"certificate(): the function failed at capability {level}: {last}")
    other = pickle.loads(out)
    holds = all(_same(array, other.outputs[name]) for name, array in whole.outputs.items())
    return _check("isa", f"capability {level}", holds, whole, other)
