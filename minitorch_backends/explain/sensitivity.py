"""Which layers of a model bear a lower precision: one of them at a time runs at it, and the answers are compared."""

from __future__ import annotations

import glob
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import numpy as np

from ..autograd.extras.module_scope import current_module
from ..autograd.modes import no_grad
from ..backends import Snapshot, snapshot
from ..backends.precision_policy import FAMILIES
from ..flags import rows
from ..flags.scopes import Scope
from ..kernels.precision import named as known_precision
from ..kernels.registry import Call, kernels
from ..nn.module import Module
from ..nn.utils import run_under
from .records import Log, Record, aligned, record, recording

__all__ = ["PRECISION_FLAGS", "LayerError", "Sensitivity", "acted_on", "alone", "layers_of", "sensitivity"]

PRECISION_FLAGS = {path for path in rows if path.endswith("fp32_precision")} | {*FAMILIES["xla"].values(), "emulate"}
"""The flags that have a say in the precision of a product, of which `fp32_precision` alone is set here."""

_HEADER = ("module", "precision", "calls", "local error", "error of answers", "flips")


class LayerError(NamedTuple):
    """What one layer does to the answers of a model.

    Attributes:
        module: its dotted name; "" stands for what the model computes outside of its parts, None for all of it at once.
        precision: at which its products ran.
        calls: how many of its kernel calls ran at that precision.
        local: the largest error of one of those calls, against float64 on its own arguments.
        error: of the answers, relative to those without the change, both by their Frobenius norms.
        flips: the share of rows whose largest entry is another; NaN where the answers are not rows of several.
    """

    module: str | None
    precision: str
    calls: int
    local: float
    error: float
    flips: float

    def _cells(self) -> tuple[str, ...]:
        name = "(all of it)" if self.module is None else self.module or "(itself)"
        return (name, self.precision, str(self.calls), f"{self.local:.1e}", f"{self.error:.1e}", f"{self.flips:.2%}")


class Sensitivity(list[LayerError]):
    """The layers of a model in the order of their first call, at one precision after another."""

    def worst_first(self) -> Sensitivity:
        """The same with the largest error of the answers first."""
        return Sensitivity(sorted(self, key=lambda each: -each.error))

    def __str__(self) -> str:
        return "\n".join(aligned([_HEADER, *(each._cells() for each in self)]))

    def to_json(self) -> str:
        """The rows as JSON: a list of objects with the attributes of `LayerError`."""
        return json.dumps([each._asdict() for each in self], indent=1)


@no_grad()
def sensitivity(
    model: Module,
    *inputs: Any,
    precisions: str | Sequence[str] = ("tf32", "bf16"),
    progress: Callable[[str], None] | None = None,
    **named: Any,
) -> Sensitivity:
    """Measure how each layer of `model`, alone at each of `precisions`, changes `model(*inputs, **named)`.

    A layer is a module in whose own forward products, convolutions, attention, recurrences or factorisations of float32
    or complex64 tensors run. The rest of the model keeps the flags in force. A last row for each precision has all of
    the model at it. Answers are a tensor, or several in a tuple, list or mapping. The model is called twice, and once
    for each row, in which the products of that layer alone are also done in float64. `progress`, if there is one, is
    called with a line of text before each. `model` may also be a module of torch, inside `interop.torch.emulate`.

    Raises ValueError for unknown precisions and for a model without such layers, RuntimeError for answers that are not
    tensors, or differ from one call to the next (put the model in evaluation mode).
    """
    if not hasattr(model, "named_modules"):
        raise TypeError(f"sensitivity expects a Module, whose parts have names, got {type(model).__name__}")
    wanted = [known_precision(each).name for each in ([precisions] if isinstance(precisions, str) else precisions)]
    with record() as log:
        answers = _answers(model(*inputs, **named))
    layers = layers_of(model, log)
    if not layers:
        remedy = "" if isinstance(model, Module) else "; call it inside interop.torch.emulate()"
        raise ValueError(f"sensitivity: no precision acts in this {type(model).__name__} for these inputs{remedy}")
    again = _answers(model(*inputs, **named))
    if not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(answers, again, strict=True)):
        raise RuntimeError("sensitivity: two calls of the model give different answers; put it in evaluation mode")
    found = Sensitivity()
    for precision in wanted:
        for layer in (*layers, None):
            if progress is not None:
                progress(f"{'all of it' if layer is None else layer or type(model).__name__} at {precision}")
            lowered = alone(model, layer, layers, _at(precision))
            with lowered, recording(_measures(layer, precision)) as log:
                changed = _answers(model(*inputs, **named))
            found.append(_row(layer, precision, log, answers, changed))
    return found


def layers_of(model: Module, log: Log) -> list[str]:
    """The names of the modules that made the recorded calls on which precisions act, in the order of these calls."""
    held = {name for name, _ in model.named_modules()}
    return list(dict.fromkeys(each.module for each in log if each.module in held and acted_on(each)))


def acted_on(call: Record | Call) -> bool:
    """Whether a precision acts on a call."""
    return not {"float32", "complex64"}.isdisjoint(call.dtypes) and kernels[call.kernel].bound.keys() != {"ieee"}


def _measures(layer: str | None, precision: str) -> Callable[[Call], bool]:
    """Which calls are compared with float64: those of the layer, or of all layers for None, at the precision."""

    def measured(call: Call) -> bool:
        lowered = call.keywords.get("precision", "ieee") == precision and acted_on(call)
        return lowered and (layer is None or current_module() == layer)

    return measured


def _at(precision: str) -> Snapshot:
    """The flags in force, with one precision for all products."""
    kept = [(path, value) for path, value in snapshot().values if path not in PRECISION_FLAGS]
    return Snapshot([*kept, ("fp32_precision", precision)])


@contextmanager
def alone(model: Module, layer: str | None, layers: Iterable[str], scope: Scope) -> Iterator[None]:
    """Have one layer run in a scope, and the layers inside it as they did; or the whole model, for None."""
    before = snapshot()
    with ExitStack() as scopes:
        scopes.enter_context(run_under(model, scope, *([glob.escape(layer)] if layer else [])))
        for other in layers if layer is not None else ():
            if other and other != layer and other.startswith(f"{layer}." if layer else ""):
                scopes.enter_context(run_under(model, before, glob.escape(other)))
        yield


def _answers(result: Any) -> list[np.ndarray]:
    """Copies of the tensors that a model returned."""
    values = result.values() if isinstance(result, Mapping) else result
    several = (values,) if hasattr(values, "detach") else values
    tensors = [each.detach() for each in several if hasattr(each, "detach")] if isinstance(several, Iterable) else []
    if not tensors:
        raise RuntimeError(f"sensitivity expects a model that returns tensors, got {type(result).__name__}")
    return [
        each.resolve_conj().numpy().astype(complex) if each.is_complex() else each.double().numpy().copy()
        for each in tensors
    ]


def _row(
    layer: str | None, precision: str, log: Log, answers: Sequence[np.ndarray], changed: Sequence[np.ndarray]
) -> LayerError:
    own = [each for each in log if layer is None or each.module == layer]
    lowered = [dict(each.options) for each in own if each.precision == precision and acted_on(each)]
    local = max((options.get("relative_error", 0.0) for options in lowered), default=0.0)
    distance, size = (
        float(np.sqrt(sum(np.linalg.norm(each) ** 2 for each in arrays)))
        for arrays in ([b - a for a, b in zip(answers, changed, strict=True)], answers)
    )
    error = distance / size if size else float("inf") if distance else 0.0
    return LayerError(layer, precision, len(lowered), local, error, _flips(answers[0], changed[0]))


def _flips(answer: np.ndarray, changed: np.ndarray) -> float:
    if answer.ndim < 2 or answer.shape[-1] < 2 or not answer.size or answer.dtype.kind == "c":
        return float("nan")
    return float(np.mean(answer.argmax(-1) != changed.argmax(-1)))
