"""What ran, at which precision, by which implementation, and who decided; and what would run.

with explain.record() as log:
    loss.backward()
print(log)                               # one line for each kernel call
print(explain.why("matmul", a, b))       # an answer without running anything
print(explain.diff(log, other_log))      # the first call in which two runs differ
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from .autograd.modes import is_in_backward, no_grad
from .backends.permission import Choice, precision_of
from .declared import registry
from .factories import from_numpy
from .kernels.linalg.residuals import residuals as errors_of
from .kernels.registry import Call, kernels, observe, planned
from .ops.einsum import einsum_plan
from .ops.einsum.plan import Plan
from .ops.einsum.programs import KEPT, cache, tally

__all__ = [
    "Answer",
    "Choice",
    "Contractions",
    "Difference",
    "EinsumCache",
    "Log",
    "Record",
    "diff",
    "einsum",
    "einsum_cache",
    "precision_of",
    "record",
    "why",
]


class Record(NamedTuple):
    """One kernel call.

    Attributes:
        kernel: the task, "matmul".
        shapes, dtypes: of the array arguments.
        precision: what the kernel was asked for.
        options: its other keywords, as pairs of a name and a value.
        implementation: which of the kernel's implementations ran.
        refusals: pairs of an implementation that would have been preferred and the sentence with which it refused.
        decided_by: the flag, argument or rule that chose the precision.
        direction: "forward" or "backward".
        seconds: wall time of the implementation.
    """

    kernel: str
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    precision: str
    options: tuple[tuple[str, Any], ...]
    implementation: str
    refusals: tuple[tuple[str, str], ...]
    decided_by: str | None
    direction: str
    seconds: float

    def __str__(self) -> str:
        return "  ".join(filter(None, _cells(self)))


_HEADER = ("kernel", "shapes", "dtype", "precision", "implementation", "direction", "ms", "decided by")


class Log(list[Record]):
    """The records of a block, in the order in which the kernels ran."""

    def table(self, refusals: bool = False) -> str:
        """The records as aligned text, one line each; with `refusals`, each refused candidate below its call."""
        cells = [_HEADER, *map(_cells, self)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = []
        for row, entry in zip(cells, (None, *self), strict=True):
            lines.append("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
            if refusals and entry is not None:
                lines += [f"    not {name}: {sentence}" for name, sentence in entry.refusals]
        return "\n".join(lines)

    __str__ = table

    def to_json(self) -> str:
        """The records as JSON: a list of objects with the attributes of `Record`."""
        return json.dumps([entry._asdict() for entry in self], indent=1)

    @classmethod
    def from_json(cls, text: str) -> Log:
        """What `to_json` wrote, in another process perhaps."""
        return cls(Record(**{name: _tuples(value) for name, value in entry.items()}) for entry in json.loads(text))

    def _repr_html_(self) -> str:
        """The table for a notebook, with the refusals as a tip on the implementation."""
        head = "".join(f"<th>{html.escape(name)}</th>" for name in _HEADER)
        rows = []
        for entry in self:
            tip = html.escape("; ".join(f"not {name}: {sentence}" for name, sentence in entry.refusals))
            cells = [f"<td>{html.escape(cell)}</td>" for cell in _cells(entry)]
            place = _HEADER.index("implementation")
            cells[place] = cells[place].replace("<td>", f'<td title="{tip}">', 1)
            rows.append(f"<tr>{''.join(cells)}</tr>")
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _shapes(shapes: Iterable[tuple[int, ...]]) -> str:
    return " @ ".join("x".join(map(str, shape)) or "scalar" for shape in shapes)


def _cells(entry: Record) -> tuple[str, ...]:
    dtypes = ", ".join(dict.fromkeys(entry.dtypes))
    options = "".join(f" {name}={value}" for name, value in entry.options)
    described = (entry.kernel, _shapes(entry.shapes), dtypes, entry.precision + options, entry.implementation)
    return (*described, entry.direction, f"{entry.seconds * 1e3:.3f}", entry.decided_by or "")


@contextmanager
def record(residuals: bool = False) -> Iterator[Log]:
    """List every kernel call that this thread or task makes while the block runs: `with explain.record() as log:`.

    With `residuals`, the options of factorisations and solutions also have their backward errors, in units of roundoff
    (which takes about as long as to compute them in float64 again).
    """
    log = Log()
    with observe(lambda call: log.append(_record(call, residuals))):
        yield log


def _record(call: Call, residuals: bool) -> Record:
    described = kernels[call.kernel].describe(call)
    if residuals:
        found = errors_of(call.kernel, call.arrays, call.keywords, call.result)
        described = {**described, **{f"{measure}_error": float(f"{units:.3g}") for measure, units in found.items()}}
    options = {name: value for name, value in described.items() if name != "precision"}
    return Record(
        kernel=call.kernel,
        shapes=call.shapes,
        dtypes=call.dtypes,
        precision=call.keywords.get("precision", "ieee"),
        options=tuple(options.items()),
        implementation=call.implementation,
        refusals=call.refusals,
        decided_by=call.decided_by,
        direction="backward" if is_in_backward() else "forward",
        seconds=call.seconds,
    )


# Two runs


class Difference(NamedTuple):
    """Where two recorded runs part.

    Attributes:
        number: of the first call that differs, from 0.
        fields: the attributes in which it differs; none where one run has ended.
        first, second: the two calls; None where a run has ended.
    """

    number: int
    fields: tuple[str, ...]
    first: Record | None
    second: Record | None

    def __str__(self) -> str:
        how = f" differs in {', '.join(self.fields)}" if self.fields else ": one run has ended"
        lines = [f"call {self.number}{how}"]
        for name, entry in (("first", self.first), ("second", self.second)):
            lines.append(f"  {name}: {entry if entry is not None else 'no more calls'}")
            lines += [f"    {field}: {getattr(entry, field)!r}" for field in self.fields]
        return "\n".join(lines)


def diff(first: Sequence[Record], second: Sequence[Record]) -> Difference | None:
    """The first call in which two recorded runs differ in anything but time; None when there is none."""
    for index, (a, b) in enumerate(zip_longest(first, second)):
        if a is None or b is None:
            return Difference(index, (), a, b)
        fields = tuple(name for name in Record._fields if name != "seconds" and getattr(a, name) != getattr(b, name))
        if fields:
            return Difference(index, fields, a, b)
    return None


# An answer without running


class Answer(NamedTuple):
    """How a call would run.

    Attributes:
        kernel: the kernel that would be called.
        precision, decided_by: the precision, and the flag, argument or rule that chose it.
        implementations: those that would run, best first; the later ones if the earlier refuse the data.
        refusals: pairs of an implementation and the sentence with which it refuses shapes, dtypes or this CPU.
        options: the kernel's other keywords.
        shapes: of the arguments.
    """

    kernel: str
    precision: str
    decided_by: str | None
    implementations: tuple[str, ...]
    refusals: tuple[tuple[str, str], ...]
    options: tuple[tuple[str, Any], ...]
    shapes: tuple[tuple[int, ...], ...]

    def __str__(self) -> str:
        first, *others = self.implementations or ("nothing",)
        lines = [f"{self.kernel} of {_shapes(self.shapes)} runs by {first} at {self.precision}: {self.decided_by}"]
        lines += [f"    not {name}: {sentence}" for name, sentence in self.refusals]
        lines += [f"    {name}={value!r}" for name, value in self.options]
        return "\n".join([*lines, *(f"    or {name}, if those before it refuse the data" for name in others)])


def why(name: str, *arguments: Any, **options: Any) -> Answer:
    """How the first kernel that an op calls would run for these tensors (or arrays), here and now.

    The op is called by its public name ("matmul", "linear", "linalg.solve"), without recording, and stopped where it
    calls a kernel, so that the answer is what its dispatcher asks for. Raises ValueError for a name that is no op, and
    for an op that calls no kernel.
    """
    function = registry.get(name) or registry.get(name.replace(".", "_")) or registry.get(name.rpartition(".")[2])
    if function is None:
        raise ValueError(f"explain.why cannot answer for {name!r}, which is not the name of an op{_nearest(name)}")
    tensors = [from_numpy(value) if isinstance(value, np.ndarray) else value for value in arguments]
    with no_grad():
        call = planned(lambda: function.public(*tensors, **options))
    if call is None:
        raise ValueError(f"explain.why has no answer for {name!r}, which calls no kernel for these arguments")
    others = {name: value for name, value in call.keywords.items() if name != "precision"}
    return Answer(
        kernel=call.kernel.name,
        precision=call.keywords.get("precision", "ieee"),
        decided_by=call.decided_by,
        implementations=tuple(each.name for each in call.decision.candidates),
        refusals=call.decision.refusals,
        options=tuple(others.items()),
        shapes=call.shapes,
    )


def _nearest(name: str) -> str:
    near = get_close_matches(name, registry, n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


class Contractions(NamedTuple):
    """The plan of an einsum, and those of the gradients of its operands, which are einsums as well."""

    forward: Plan
    cotangents: tuple[Plan, ...]

    def __str__(self) -> str:
        parts = [str(self.forward)]
        parts += [f"Gradient of operand {index}: {plan}" for index, plan in enumerate(self.cotangents)]
        return "\n\n".join(parts)


def einsum(*args: Any, **options: Any) -> Contractions:
    """How an einsum and its gradients would be contracted; the arguments are those of `einsum_plan`."""
    plan = einsum_plan(*args, **options)
    return Contractions(plan, plan.cotangents())


class EinsumCache(NamedTuple):
    """What is known of earlier einsums, in the terms of `functools`: calls that found their plan, calls that made one,
    how many plans may be kept, and how many are."""

    hits: int
    misses: int
    maxsize: int
    currsize: int


def einsum_cache() -> EinsumCache:
    """The cache of plans, which are kept by equation, shapes, dtypes and strategy; the oldest goes first."""
    return EinsumCache(tally.hits, tally.misses, KEPT, len(cache))
