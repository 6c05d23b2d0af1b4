"""Sensitivity of a model to lower precision: one layer at a time runs at it, and the outputs are compared."""

from __future__ import annotations

import glob
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import numpy as np

from .. import backends
from ..autograd.extras.module_scope import current_module, named_parts
from ..autograd.modes import no_grad
from ..backends import Snapshot, snapshot
from ..backends.precision_policy import FAMILIES
from ..flags import rows
from ..flags.scopes import Scope
from ..kernels.registry import Call
from ..kernels.runtime.context import restore_on_failure
from ..nn.module import Module
from ..nn.utils import run_under
from . import records
from .answers import Level, find_levels
from .product_counts import acted_on, is_by_role
from .records import Log, Record, align_columns, answers_of, check_inputs, frobenius_norm, module_of, record, recording

PRECISION_FLAGS = {path for path in rows if path.endswith("fp32_precision")} | {*FAMILIES["xla"].values(), "emulate"}
"""The flags that influence the precision of a product. Only `fp32_precision` is set here, the others are cleared."""

_HEADER = ("module", "precision", "calls", "local error", "error of answers", "flips")


class LayerError(NamedTuple):
    """The effect of one layer on the outputs of a model.

    Attributes:
        module: the dotted name of the layer; "" for the computations of the model outside its submodules, None for the
            whole model.
        precision: the precision of the layer's products.
        calls: the number of its kernel calls at that precision.
        local: the largest error of one of those calls, against float64 on the same arguments.
        error: the error of the outputs relative to the unchanged model, both in the Frobenius norm.
        flips: the share of rows whose largest entry moved; NaN if the outputs are not rows of several entries.
    """

    module: str | None
    precision: str
    calls: int
    local: float
    error: float
    flips: float

    def _cells(self) -> tuple[str, ...]:
        name = "(all of it)" if self.module is None else self.module or "(itself)"
        local = f"{self.local:.1e}" if self.local == self.local else ""
        return (name, self.precision, str(self.calls), local, f"{self.error:.1e}", f"{self.flips:.2%}")


class Sensitivity(list[LayerError]):
    """The layers of a model in the order of their first call, one precision after another."""

    def worst_first(self) -> Sensitivity:
        """The same, sorted by error of the outputs, largest first."""
        return Sensitivity(sorted(self, key=lambda each: -each.error))

    def __str__(self) -> str:
        return "\n".join(align_columns([_HEADER, *(each._cells() for each in self)]))

    def _repr_html_(self) -> str:
        from ..display.html import Rows, as_html

        return as_html(Rows([_HEADER, *(each._cells() for each in self)], names=2))

    def to_json(self) -> str:
        """The rows as JSON: a list of objects with the attributes of `LayerError`."""
        return json.dumps([each._asdict() for each in self], indent=1)


@no_grad()
@restore_on_failure
def sensitivity(
    model: Module,
    *inputs: Any,
    precisions: str | Sequence[str] = ("tf32", "bf16"),
    roles: str | Sequence[str] = (),
    progress: Callable[[str], None] | None = None,
    **named: Any,
) -> Sensitivity:
    """Measure how each layer of `model`, alone at each of `precisions`, changes `model(*inputs, **named)`.

    A layer is a module whose own forward runs float32 or complex64 products, convolutions, attention, recurrences or
    factorisations. The rest of the model keeps the current flags. For each precision a last row has the whole model at
    it. Outputs are a tensor, or several in a tuple, list, mapping or dataclass; other objects in them are left out.

    `precisions` may also be names of `backends.recipes`; with `roles` ("weight", "activation", "key" ...) they are
    formats of these operands. Both act on bfloat16 and float16 too; their rows have no local error (NaN).

    The model is called twice, and once more per row; the products of that row's layer are then also computed in
    float64. `progress`, if given, is called with a line of text before each call. `model` may also be a torch module,
    inside `interop.torch.emulate`, a method of one (`model.generate`), or a pipeline of transformers.

    Raises ValueError for unknown precisions and for a model without such layers. Raises RuntimeError for outputs that
    are not tensors, or that differ between calls (switch the model to evaluation mode).
    """
    call, model = model, module_of("sensitivity", model)
    check_inputs("sensitivity", model, (*inputs, *named.values()))
    levels = find_levels("sensitivity", precisions, roles)
    with record() as log:
        answers = _answers(call(*inputs, **named))
    layers = [] if all(level.by_role for level in levels) else layers_of(model, log)
    for level in levels:
        if level.by_role:
            with run_under(model, _at(level)), record() as log:
                call(*inputs, **named)
            layers = list(dict.fromkeys([*layers, *layers_of(model, log, is_by_role)]))
    if not layers:
        counts = log.product_counts
        remedy = "" if counts.others or isinstance(model, Module) else "; call it inside interop.torch.emulate()"
        raise ValueError(
            f"sensitivity(): precision affects nothing in this {type(model).__name__} for these inputs: "
            f"{counts}{remedy}"
        )
    again = _answers(call(*inputs, **named))
    if not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(answers, again, strict=True)):
        raise RuntimeError("sensitivity(): two calls of the model gave different outputs; switch it to evaluation mode")
    found = Sensitivity()
    for level in levels:
        for layer in (*layers, None):
            if progress is not None:
                progress(f"{'all of it' if layer is None else layer or type(model).__name__} at {level.name}")
            with (
                alone(model, None if layer is None else [layer], layers, _at(level)),
                recording(_measures(layer, level)) as log,
            ):
                changed = _answers(call(*inputs, **named))
            found.append(_row(layer, level, log, answers, changed))
    return found


def layers_of(model: Module, log: Log, acts: Callable[[Record], bool] = acted_on) -> list[str]:
    """The names of the modules with recorded calls on which precisions act, or formats, in call order."""
    held = {name for name, _ in named_parts(model)}
    return list(dict.fromkeys(each.module for each in log if each.module in held and acts(each)))


def _measures(layer: str | None, level: Level) -> Callable[[Call], bool]:
    """Which calls to compare with float64: those of the layer (all, for None) at a precision."""
    return lambda call: not level.by_role and level.acts_on(call) and (layer is None or current_module() == layer)


def _at(level: Level) -> Scope:
    """The current flags, with one precision for all products, or formats of operands."""
    if level.by_role:
        return backends.flags(**level.flags)
    kept = [(path, value) for path, value in snapshot().values if path not in PRECISION_FLAGS]
    return Snapshot([*kept, *level.flags.items()])


@contextmanager
def alone(model: Module, chosen: Sequence[str] | None, layers: Iterable[str], scope: Scope) -> Iterator[None]:
    """Run the chosen of all layers, without their sublayers, in a scope; for None, the whole model."""
    before = snapshot()
    with ExitStack() as scopes:
        for layer in [""] if chosen is None else chosen:
            scopes.enter_context(run_under(model, scope, *([glob.escape(layer)] if layer else [])))
        if chosen is not None:
            inside = tuple(f"{layer}." if layer else "" for layer in chosen)
            for other in layers:
                if other not in chosen and other.startswith(inside):
                    scopes.enter_context(run_under(model, before, glob.escape(other)))
        yield


def _answers(result: Any) -> list[np.ndarray]:
    """Copies of the tensors that a model returned."""
    try:
        arrays = answers_of(result).values()
    except TypeError:
        raise RuntimeError(f"sensitivity(): model must return tensors, got {type(result).__name__}") from None
    return [each.astype(complex if each.dtype.kind == "c" else float) for each in arrays]


def _row(
    layer: str | None, level: Level, log: Log, answers: Sequence[np.ndarray], changed: Sequence[np.ndarray]
) -> LayerError:
    own = [each for each in log if layer is None or each.module == layer]
    lowered = [dict(each.options) for each in own if level.acts_on(each)]
    local = math.nan if level.by_role else records.largest(options.get("relative_error", 0.0) for options in lowered)
    distance, size = (
        math.hypot(*map(frobenius_norm, arrays))
        for arrays in ([b - a for a, b in zip(answers, changed, strict=True)], answers)
    )
    error = distance / size if size else float("inf") if distance else 0.0
    return LayerError(layer, level.name, len(lowered), local, error, _flips(answers[0], changed[0]))


def _flips(answer: np.ndarray, changed: np.ndarray) -> float:
    if answer.ndim < 2 or answer.shape[-1] < 2 or not answer.size or answer.dtype.kind == "c":
        return float("nan")
    return float(np.mean(answer.argmax(-1) != changed.argmax(-1)))
