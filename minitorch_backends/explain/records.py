"""Records of every kernel call of a block, as a table or as JSON, and the first difference of two runs."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from ..autograd.extras.module_scope import current_module, follow_modules
from ..autograd.modes import is_in_backward
from ..kernels.gemm.scaled_operands import counts
from ..kernels.linalg.residuals import residuals
from ..kernels.precisions.products import is_scaled
from ..kernels.registry import Call, kernels, observe, without_observers
from ..kernels.runtime.context import restore_on_failure
from ..kernels.runtime.files import one_sentence
from ..kernels.runtime.first_use import load
from .product_counts import ProductCounts

# The outputs of models and functions as NumPy arrays


def arrays_of(answer: Any, name: str = "") -> dict[str, np.ndarray]:
    """A function's results as arrays by name: a tensor, an array, a number, or dicts, sequences and dataclasses of
    these. None, text and objects of other classes (caches) are left out of them.

    Raises TypeError where nothing is left.
    """
    found = dict(_arrays(answer, name))
    if not found:
        raise TypeError(f"expected tensors, arrays or numbers as answers, got {type(answer).__name__}")
    return found


def answers_of(answer: Any) -> dict[str, np.ndarray]:
    """`arrays_of`, for answers that are compared. Raises ValueError where none has elements: the error would be 0."""
    found = arrays_of(answer)
    if not any(each.size for each in found.values()):
        raise ValueError(f"expected answers with elements, got the shapes {[each.shape for each in found.values()]}")
    return found


def left_out_of(answer: Any, name: str = "") -> dict[str, str]:
    """Parts of an answer that `arrays_of` leaves out: their classes by name, without None."""
    parts = _parts_of(answer)
    if parts is None:
        value = as_array(answer)
        is_kept = value is None or isinstance(value, _NUMBERS)
        return {} if is_kept else {name or "(the whole)": type(answer).__name__}
    found = (left_out_of(part, f"{name}.{key}" if name else str(key)) for key, part in parts)
    return {path: kind for each in found for path, kind in each.items()}


_NUMBERS = (np.ndarray, np.generic, bool, int, float, complex)


def _parts_of(answer: Any) -> list[tuple[Any, Any]] | None:
    """The parts of a container by name or place; None for anything else."""
    if isinstance(answer, Mapping):
        return list(answer.items())
    if isinstance(answer, (tuple, list)):
        return list(enumerate(answer))
    if dataclasses.is_dataclass(answer) and not isinstance(answer, type):
        return [(each.name, getattr(answer, each.name)) for each in dataclasses.fields(answer)]
    return None


def _arrays(answer: Any, name: str) -> list[tuple[str, np.ndarray]]:
    parts = _parts_of(answer)
    if parts is None:
        value = as_array(answer)
        return [(name, np.asarray(value))] if isinstance(value, _NUMBERS) else []
    return [each for key, part in parts for each in _arrays(part, f"{name}.{key}" if name else str(key))]


def as_array(value: Any) -> Any:
    """A tensor of ours or of torch as an array; anything else unchanged."""
    if not hasattr(value, "detach"):
        return value
    value = value.detach()
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return value.numpy()
    value = value.cpu().resolve_conj().resolve_neg()
    try:
        return value.numpy()
    except TypeError:  # NumPy lacks the type; ml_dtypes may have it
        name = str(value.dtype).removeprefix("torch.")
        dtype = np.dtype(getattr(load("ml_dtypes"), name))
        return value.view(torch.int16 if dtype.itemsize == 2 else torch.uint8).numpy().view(dtype)


def check_inputs(caller: str, model: Any, inputs: Any) -> None:
    """Raise TypeError for tensors of torch as inputs of our modules, and for others than torch's for its modules."""
    of_torch = any(each.__module__.partition(".")[0] == "torch" for each in type(model).__mro__)
    foreign = ("numpy", "minitorch_backends") if of_torch else ("torch",)
    for _, part in _parts_of(inputs) or [("", inputs)]:
        library = type(part).__module__.partition(".")[0]
        if library in foreign and hasattr(part, "shape"):
            own = "torch" if of_torch else "minitorch_backends"
            raise TypeError(f"{caller}(): inputs must be tensors of {own}, as its model is, got one of {library}")


def module_of(caller: str, model: Any) -> Any:
    """The module that a model is, or whose method (`model.generate`) or pipeline it is. Raises TypeError for others."""
    for each in (model, getattr(model, "__self__", None), getattr(model, "model", None)):
        if hasattr(each, "named_modules"):
            return each
    raise TypeError(f"{caller}(): model must be a Module, a method of one or a pipeline, got {type(model).__name__}")


# The error of the result of a kernel call


_SAME_PRODUCT = {"linear": "matmul", "half_matmul": "matmul"}
"""Kernels whose operands are kept or whose sums are rounded, and the one that multiplies the same arrays."""

_OF_LOWER_PRECISION = frozenset({"precision", "rounding", "halves", "sums", "unit"})
"""Keywords that do not act on float64."""


@restore_on_failure
def errors_of(call: Call) -> dict[str, float]:
    """The errors of one call by measure; empty for calls without a measure.

    "backward" (and others) belongs to factorisations and solutions, in units of the dtype's roundoff. "relative"
    belongs to kernels with a precision: the largest error of its results against float64, in the Frobenius norm.
    """
    kernel = kernels[call.kernel]
    found = residuals(call.kernel, call.arrays, call.keywords, call.result)
    if found or kernel.bound.keys() == {"ieee"}:
        return found
    with without_observers():
        exact = _in_double(call)
    pairs = zip(_arrays_of_call(call.result), _arrays_of_call(exact), strict=True)
    return {"relative": largest(_relative(value, wanted) for value, wanted in pairs)}


def _in_double(call: Call) -> Any:
    """The results in float64 or complex128: by the kernel itself, which is far quicker than its definition, unless the
    arguments have these types already."""
    arrays = [getattr(each, "array", each) for each in call.arrays]  # of weights that are kept
    wide = [each if each.dtype.kind in "biu" else each.astype(_double(each.dtype)) for each in arrays]
    if any(each.dtype == _double(each.dtype) for each in arrays):
        return kernels[call.kernel].reference(*call.arrays, **call.keywords)
    kernel = kernels[_SAME_PRODUCT.get(call.kernel, call.kernel)]
    keywords = {name: value for name, value in call.keywords.items() if name not in _OF_LOWER_PRECISION}
    if kernel.name != "matmul":
        return kernel(*wide, **keywords)
    a, b, *addend = wide
    return np.add(kernel(a, b, **keywords), *addend) if addend else kernel(a, b, **keywords)


def _double(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.complex128 if dtype.kind == "c" else np.float64)


def _arrays_of_call(result: Any) -> list[np.ndarray]:
    """The floating results, of one array or several."""
    several = result if isinstance(result, tuple) else (result,)
    return [each for each in several if isinstance(each, np.ndarray) and each.dtype.kind not in "biu"]


def _relative(value: np.ndarray, wanted: np.ndarray) -> float:
    """Where the definition is finite, and NaN where it nowhere is. Differences to a result of zeros are infinite, and
    so are those of a result that is not finite there."""
    difference, size = value.astype(wanted.dtype) - wanted, frobenius_norm(wanted)
    if not math.isfinite(size):
        finite = np.isfinite(wanted)
        if not finite.any():
            return math.nan
        difference, size = difference[finite], frobenius_norm(wanted[finite])
    error = frobenius_norm(difference)
    return math.inf if math.isnan(error) else error / size if size else math.inf if error else 0.0


def largest(errors: Iterable[float]) -> float:
    """The largest error, 0 of none; NaN if one is NaN, which `max` may drop, and none is infinite."""
    found = [0.0, *errors]
    return math.inf if math.inf in found else float(np.max(found))


def frobenius_norm(values: np.ndarray) -> float:
    """The root of the sum of squares of float64 or complex128. NumPy's own calls BLAS, whose threads wait for busy
    cores: on a machine with other work that takes longer than the product which is measured."""
    flat = values.ravel()
    flat = flat.view(np.float64) if flat.dtype.kind == "c" else flat
    return math.sqrt(np.einsum("i,i->", flat, flat))


OUTPUT = "output"
"""The `kernel` of an entry for the output of a module, in runs of the laboratory."""


class Record(NamedTuple):
    """One kernel call.

    Attributes:
        kernel: the task, "matmul".
        shapes, dtypes: of the array arguments.
        precision: the requested precision. Solvers that contained no product at this precision have `computed_at` among
            the options.
        options: the other keywords, as pairs of a name and a value. For precisions with scales also the number of
            operand values that were `saturated` at the end of the format, or became zero (`underflow`).
        implementation: the implementation that ran.
        refusals: pairs of a preferred implementation and its reason for rejecting the call.
        decided_by: the flag, argument or rule that determined the precision.
        direction: "forward" or "backward".
        seconds: wall time of the implementation, without `compiled`.
        module: the dotted name of the `nn.Module` whose forward or gradients made the call, relative to the outermost
            module that was called ("" for that module itself); None outside of modules.
        compiled: seconds spent on compiling loops, loading them from files, and importing libraries; 0 after the first
            call of a kind.
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
    module: str | None = None
    compiled: float = 0.0

    def __str__(self) -> str:
        return "  ".join(filter(None, _cells(self)))


_COMPARED = tuple(name for name in Record._fields if name not in ("seconds", "compiled"))
_HEADER = ("kernel", "shapes", "dtype", "precision", "implementation", "direction", "ms", "module", "decided by")


class Log(list[Record]):
    """The records of a block, in execution order."""

    def table(self, refusals: bool = False) -> str:
        """The records as aligned text, one line each; with `refusals`, each rejected candidate below its call."""
        lines = []
        for line, entry in zip(align_columns(self._cells()), (None, *self), strict=True):
            lines.append(line)
            if refusals and entry is not None:
                lines += [f"    not {name}: {sentence}" for name, sentence in entry.refusals]
        return "\n".join(lines)

    @property
    def product_counts(self) -> ProductCounts:
        """How many products obeyed precision flags, and how many did not."""
        found = ProductCounts()
        for entry in self:
            found(entry)
        return found

    def __str__(self) -> str:
        counts = self.product_counts
        if counts.obeyed and not counts.others:
            return self.table()
        outside = "" if self else "; torch models run inside interop.torch.emulate(), and NumPy obeys no flag"
        return f"{self.table()}\n{counts}{outside}"

    def _cells(self) -> list[tuple[str, ...]]:
        """The head of the table and its rows; without a module column if no call has a module."""
        cells, place = [_HEADER, *map(_cells, self)], _HEADER.index("module")
        named = any(entry.module is not None for entry in self)
        return cells if named else [(*row[:place], *row[place + 1 :]) for row in cells]

    def to_json(self) -> str:
        """The records as JSON: a list of objects with the attributes of `Record`."""
        return json.dumps([entry._asdict() for entry in self], indent=1)

    @classmethod
    def from_json(cls, text: str) -> Log:
        """Read the output of `to_json`, possibly from another process. Raises ValueError for other text."""
        with one_sentence("Log.from_json(): text", "JSON from to_json()"):
            return cls.from_entries(json.loads(text))

    @classmethod
    def from_entries(cls, entries: Iterable[Mapping[str, Any]]) -> Log:
        """Records from parsed JSON. Raises TypeError for missing or unknown attributes."""
        return cls(Record(**{name: _tuples(value) for name, value in entry.items()}) for entry in entries)

    def _repr_html_(self) -> str:
        """The table for a notebook, with the refusals as a tooltip on the implementation."""
        from ..display.html import Rows, as_html

        rows = self._cells()
        tips = ["; ".join(f"not {name}: {sentence}" for name, sentence in entry.refusals) for entry in self]
        return as_html(Rows(rows, 4, rows[0].index("implementation"), tips))


def align_columns(cells: Sequence[Sequence[str]]) -> list[str]:
    """The rows of a table as lines, with columns as wide as their longest cell."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def as_text(shapes: Iterable[tuple[int, ...]]) -> str:
    return " @ ".join("x".join(map(str, shape)) or "scalar" for shape in shapes)


def as_words(value: Any) -> str:
    """Options, dtypes or another attribute of a record as text."""
    if isinstance(value, tuple):
        value = ", ".join(f"{each[0]}={each[1]}" if isinstance(each, tuple) else str(each) for each in value)
    return str(value)


def _cells(entry: Record) -> tuple[str, ...]:
    dtypes = ", ".join(dict.fromkeys(entry.dtypes))
    options = "".join(f" {name}={value}" for name, value in entry.options)
    described = (entry.kernel, as_text(entry.shapes), dtypes, entry.precision + options, entry.implementation)
    return (*described, entry.direction, f"{entry.seconds * 1e3:.3f}", entry.module or "", entry.decided_by or "")


@contextmanager
def record(residuals: bool = False) -> Iterator[Log]:
    """Record every kernel call of this thread or task while the block runs: `with explain.record() as log:`.

    With `residuals`, the options of a call include its error. For products, convolutions, attention and recurrences it
    is `relative_error`, in the Frobenius norm, against float64 on the same arguments. For factorisations and solvers it
    is the backward error, in units of roundoff. This takes the time of the same calls in float64, and the memory of
    one.

    A worker records its own calls under its own flags. Scopes do not reach other threads and processes, and assignments
    do not reach other processes. Pass a snapshot (`backends.snapshot()`, then `with saved:` in the worker). In a worker
    process without any flag set, `decided_by` says so.
    """
    with recording(lambda call: residuals) as log:
        yield log


@contextmanager
def recording(measured: Callable[[Call], bool]) -> Iterator[Log]:
    """`record`, with residuals only of the calls that `measured` accepts."""
    log = Log()
    with follow_modules(), observe(lambda call: log.append(record_of(call, measured(call)))):
        yield log


def record_of(call: Call, residuals: bool = False) -> Record:
    """Describe the call that an observer received; direction and module are the current ones."""
    described = kernels[call.kernel].describe(call)
    if residuals:
        errors = {f"{measure}_error": float(f"{error:.3g}") for measure, error in errors_of(call).items()}
        described = {**described, **errors}
    options = {name: value for name, value in described.items() if name != "precision"} | _out_of_range(call)
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
        module=current_module(),
        compiled=call.compiled,
    )


def _out_of_range(call: Call) -> dict[str, Any]:
    """For a precision with scales, the number of values of each operand that saturate, and that become zero."""
    if not is_scaled(call.keywords.get("precision", "")):
        return {}
    found = counts(call.kernel, call.arrays, call.keywords)
    return {name: tuple(getattr(each, name) for each in found) for name in ("saturated", "underflow") if found}


class Difference(NamedTuple):
    """The first difference between two recorded runs.

    Attributes:
        number: the index of the first call that differs.
        fields: the attributes that differ; empty if one run has ended.
        first, second: the two calls; None if a run has ended.
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
    """The first difference (except for time) between two recorded runs; None if they agree.

    Raises ValueError for two runs without a call.
    """
    if not first and not second:
        raise ValueError(
            "diff(): runs must have calls, got none in both; models of torch run inside interop.torch.emulate()"
        )
    for index, (a, b) in enumerate(zip_longest(first, second)):
        if a is None or b is None:
            return Difference(index, (), a, b)
        fields = tuple(name for name in _COMPARED if getattr(a, name) != getattr(b, name))
        if fields:
            return Difference(index, fields, a, b)
    return None
