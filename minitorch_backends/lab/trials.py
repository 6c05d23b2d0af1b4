"""Runs of a model on fixed inputs: one product of one layer at a precision, or the whole model under a policy."""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np

from .. import amp, autograd
from ..autograd.extras.module_scope import current_module
from ..autograd.modes import enable_grad, no_grad
from ..backends import snapshot
from ..backends.precision_policy import FAMILIES, precision_of
from ..explain.answers import Level
from ..explain.product_counts import ProductCounts, is_by_role
from ..explain.records import answers_of, as_array, check_inputs, largest, left_out_of, module_of, record, recording
from ..explain.sensitivity import alone, layers_of
from ..flags import NO_OPINION
from ..kernels.gemm.scaled_operands import counts as counts_with_scales
from ..kernels.precisions.elements import ELEMENTS, RangeCounts, count_range
from ..kernels.precisions.products import is_scaled
from ..kernels.registry import Call, observe
from ..kernels.runtime.context import restore_on_failure
from ..nn.module import Module
from ..nn.utils import run_under
from ..ops.creation.factories import from_numpy
from ..tensor import dtypes
from ..tensor.tensor import Tensor
from .devices import Device, predict_seconds
from .flops import flops_of
from .metrics import Arrays, Metric, check_labels, combine, measures_by, measures_of, squares_of
from .policy import PRODUCTS, Policy, Rule

GRADIENT_ERROR = "gradient_error"
"""The measure of all gradients of parameters: their relative change."""


class Results(NamedTuple):
    """The answer of a call: its arrays by name, and the object itself where a user's metric needs it."""

    arrays: Arrays
    value: Any = None


class Trials:
    """A model, its inputs, and its outputs under the current flags.

    Attributes:
        call: the model, or a method or pipeline of it, which is called.
        runs: the number of these calls so far.
        counts: the products of one call that obey precision flags, and those that do not.
        levels: those that are tried.
        parts: the layers that are tried as one, by their name; each alone under its own unless `group` is called.
            Layers are the modules with products of their own that a level affects, in call order.
        products: the measured ones: "forward", and the two gradients if the model has parameters.
        device: whose times are predicted, or None.
        measures_gradients: whether the measures include the change of the gradients, which takes another call of the
            model.
        ignored: the classes of the parts of an output that are not compared, by name.
        is_exact: whether no product is below ieee under the current flags, to which errors are relative.
    """

    @restore_on_failure
    def __init__(
        self, model: Any, inputs: Any, metric: Metric, levels: Sequence[Level], gradients: bool = False,
        measures_gradients: bool = False, labels: Any = None, parts: Mapping[str, Sequence[str]] | None = None,
        device: Device | None = None,
    ) -> None:  # fmt: skip
        self.model, self.call, self.metric, self.runs = module_of("audit", model), model, metric, 0
        self.levels, self.inputs, self.labels = tuple(levels), inputs, labels
        self.batches = _batches_of(inputs, labels, metric)
        for batch, _ in self.batches:
            check_inputs("audit", self.model, batch)
        self._parameters = {name: each for name, each in self.model.named_parameters() if each.requires_grad}
        gradients = gradients and bool(self._parameters) and not any(level.by_role for level in levels)
        self.products = PRODUCTS if gradients else PRODUCTS[:1]
        self.measures_gradients = measures_gradients and gradients
        self._flags, self.autocast, self.counts, self.device = snapshot(), autocast_types(), ProductCounts(), device
        self.ignored: dict[str, str] = {}
        self._truths: dict[tuple[str, int], Results] = {}
        with record() as log:
            for product, place in itertools.product(self.products[:2], range(len(self.batches))):
                self._truth(product, place)
        counts = log.product_counts
        self.is_exact = not (counts.lowered or counts.by_role)
        self.parts: dict[str, Sequence[str]] = dict(parts or {})
        if parts:  # as another process found them
            return
        found = [] if all(level.by_role for level in levels) else layers_of(self.model, log)
        for level in levels:
            if level.by_role:
                with run_under(self.model, Rule(level.flags).scope()), record() as log:
                    self._results("forward", 0)
                found += layers_of(self.model, log, is_by_role)
        self.parts = {layer: (layer,) for layer in found}

    def group(self, globs: str | Sequence[str]) -> None:
        """Try the layers of each outermost module that matches one of the globs as one, under its name.

        Raises ValueError for a glob that matches no module with layers, TypeError for anything but text.
        """
        globs = [globs] if isinstance(globs, str) else globs
        if not isinstance(globs, Sequence) or not all(isinstance(glob, str) for glob in globs):
            raise TypeError(f"audit(): groups must be a glob of modules or several, got {globs!r}")
        parts: dict[str, list[str]] = {}
        used = set[str]()
        for layer in self.parts:
            ways = [*itertools.accumulate(layer.split("."), "{}.{}".format)]
            hits = [(way, glob) for way in ways for glob in globs if fnmatchcase(way, glob)]
            name = hits[0][0] if hits else layer
            used.update(glob for way, glob in hits if way == name)
            parts.setdefault(name, []).append(layer)
        if unused := [glob for glob in globs if glob not in used]:
            names = ", ".join([*map(repr, filter(None, [*self.parts][:8])), *["..."] * (len(self.parts) > 8)])
            names = names or "the model is a layer itself"
            raise ValueError(f"audit(): groups must match modules that hold layers ({names}), got {unused[0]!r}")
        self.parts = dict(parts)

    @property
    def layers(self) -> list[str]:
        return [*itertools.chain.from_iterable(self.parts.values())]

    def on(self, inputs: Any, labels: Any = None) -> Trials:
        """The same model on other inputs, under the flags of these trials."""
        with self._flags, autocast_as(self.autocast):
            gradients = self.measures_gradients
            return Trials(self.call, inputs, self.metric, self.levels, gradients, gradients, labels, self.parts)

    def is_repeatable(self) -> bool:
        """Whether another call returns the same answers."""
        truth, again = self._truth("forward", 0).arrays, self._results("forward", 0).arrays
        return all(np.array_equal(again[name], value, equal_nan=True) for name, value in truth.items())

    @restore_on_failure
    def row(self, layer: str | None, product: str, level: Level, formats: Sequence[str] = ()) -> dict[str, Any]:
        """The effect of one product of a part at a level (all layers, for None): a row of an audit.

        With `formats`, "operands" counts the effects of their ranges on the factors of the product. The effects of a
        precision with scales are always counted.
        """
        rules = Rule(level.flags), Rule({}, level.name), Rule({}, None, level.name)
        scope = rules[PRODUCTS.index(product)].scope()
        own = None if layer is None else self.parts[layer]
        watch = _Watch(own, level, formats, self.device)
        errors: list[float] = []

        @contextmanager
        def at_level() -> Iterator[None]:
            with (
                alone(self.model, own, self.layers, scope),
                recording(watch.concerns if layer is not None and not level.by_role else lambda call: False) as log,
                observe(watch),
            ):
                yield
            errors.extend(dict(each.options).get("relative_error", 0.0) for each in log)

        measures = self._measures(product, at_level)
        row: dict[str, Any] = {"module": layer, "product": product, "precision": level.name}
        row |= {"calls": watch.calls, "flops": watch.flops, **watch.times}
        row |= {"local_error": None if level.by_role else largest(errors), **measures}
        return row | {"operands": watch.as_dicts()}

    def measures_in_force(self) -> dict[str, float]:
        """The metric's measures of the outputs under the current flags: 0, or a perplexity."""
        truths = [self._truth("forward", place) for place in range(len(self.batches))]
        pairs = [(truth, labels) for truth, (_, labels) in zip(truths, self.batches, strict=True)]
        weights = [_rows_in(truth.arrays, labels) for truth, labels in pairs]
        return combine([self._by_metric(truth, truth, labels) for truth, labels in pairs], weights)

    @restore_on_failure
    def under(self, policy: Policy) -> dict[str, float]:
        """The measures of the outputs under a policy."""
        found = self._measures("forward", lambda: run_under(self.model, policy))
        flags = (each for rule in policy.rules.values() for each in rule.forward.items())
        formats = {value for path, value in flags if path.startswith("operands.")}
        if formats - {NO_OPINION} and not self.counts.obeyed:
            raise ValueError(f"audit(): the policy's formats affect nothing in this model: {self.counts}")
        return found

    @restore_on_failure
    def error_under(self, policy: Policy, product: str) -> float:
        """The relative change of the answers under a policy, or that of all gradients for products of gradients."""
        return self._error(product, lambda: run_under(self.model, policy))[0]

    def _measures(self, product: str, scope: Callable[[], AbstractContextManager[Any]]) -> dict[str, float]:
        """The measures of all batches; each batch runs in the scope."""
        error, found, weights = self._error(product, scope)
        if product != "forward":
            return {"error": error}
        measures = {"error": error, **combine(found, weights)}
        if self.measures_gradients:
            measures[GRADIENT_ERROR] = self._error("input gradient", scope)[0]
        return measures

    def _error(
        self, product: str, scope: Callable[[], AbstractContextManager[Any]]
    ) -> tuple[float, list[dict[str, float]], list[float]]:
        """The relative error over all batches, and for each the metric's measures and the number of its rows."""
        of = product if product == "forward" else "input gradient"
        squares, found, weights = [0.0, 0.0], [], []
        for place, (_, labels) in enumerate(self.batches):
            truth = self._truth(of, place)
            with scope():
                results = self._results(of, place)
            squares = [a + b for a, b in zip(squares, squares_of(results.arrays, truth.arrays), strict=True)]
            if of == "forward":
                found.append(self._by_metric(results, truth, labels))
                weights.append(_rows_in(truth.arrays, labels))
        off, size = squares
        return (off / size) ** 0.5 if size else math.inf if off else 0.0, found, weights

    def _by_metric(self, results: Results, truth: Results, labels: Any) -> dict[str, float]:
        if callable(self.metric):
            return measures_by(self.metric, results.value, truth.value)
        return measures_of(self.metric, results.arrays, truth.arrays, labels)

    def _truth(self, product: str, place: int) -> Results:
        """The results of a batch under the flags of these trials; kept while all together are small."""
        found = self._truths.get((product, place))
        if found is None:
            found = self._results(product, place)
            held = sum(each.nbytes for kept in (*self._truths.values(), found) for each in kept.arrays.values())
            if held <= _MOST_BYTES or len(self.batches) == 1:
                self._truths[product, place] = found
        return found

    @restore_on_failure
    def _results(self, product: str, place: int) -> Results:
        """The outputs, or the gradients of their sum with fixed random weights with respect to all parameters.

        Raises ValueError if no product obeys precision flags where only precisions are tried: the error would be 0
        without having been measured.
        """
        self.runs += 1
        self.counts = ProductCounts()
        with self._flags, self._bridge(), autocast_as(self.autocast), observe(self.counts):
            found = self._outputs(place) if product == "forward" else self._gradients(place)
        if not self.counts.obeyed and not any(level.by_role for level in self.levels):
            half = "; precisions change float32 alone, so name formats and roles, such as roles='weight'"
            raise ValueError(
                f"audit(): precisions affect nothing in this {type(self.model).__name__}: {self.counts}"
                f"{half if self.counts.others else ''}"
            )
        return found

    def _bridge(self) -> AbstractContextManager[Any]:
        """The block in which a model of torch computes by our kernels."""
        if isinstance(self.model, Module):
            return nullcontext()
        from ..interop.torch.experiments import observe_products

        return observe_products(self.counts, grad=False)

    @restore_on_failure
    def _outputs(self, place: int) -> Results:
        with no_grad():
            value = self._call(place)
            self.ignored |= left_out_of(value)
            arrays = {name: each.copy() for name, each in answers_of(value).items()}
            return Results(arrays, value if callable(self.metric) else None)

    @restore_on_failure
    def _gradients(self, place: int) -> Results:
        random = np.random.default_rng(0)
        with enable_grad():
            outputs = [each for each in _tensors_of(self._call(place)) if each.requires_grad]
            weights = [from_numpy(random.standard_normal(each.shape)).to(each.dtype) for each in outputs]
            found = autograd.grad(outputs, list(self._parameters.values()), weights, allow_unused=True)
        pairs = zip(self._parameters, found, strict=True)
        return Results({name: each.detach().numpy() for name, each in pairs if each is not None})

    def _call(self, place: int) -> Any:
        inputs = self.batches[place][0]
        if isinstance(inputs, Mapping):
            return self.call(**inputs)
        return self.call(*inputs) if isinstance(inputs, tuple) else self.call(inputs)


_MOST_BYTES = 1 << 30
"""The size of the true outputs of several batches that stay in memory; beyond it they are computed again."""


def _batches_of(inputs: Any, labels: Any, metric: Metric) -> list[tuple[Any, Any]]:
    """Pairs of inputs and labels. Raises ValueError for no batches, and where a metric's labels are missing."""
    several = isinstance(inputs, list)
    batches = inputs if several else [inputs]
    if not batches or (several and labels is not None and len(labels) != len(batches)):
        got = "none" if not batches else f"{len(batches)} and labels of {len(labels)}"
        raise ValueError(f"audit(): inputs must be one batch, or a list of batches with as many labels, got {got}")
    given = [None] * len(batches) if labels is None else list(labels) if several else [labels]
    if metric == "language":
        given = [_tokens_of(batch) if own is None else own for batch, own in zip(batches, given, strict=True)]
    for each in given:
        check_labels(metric, each)
    return list(zip(batches, given, strict=True))


def _tokens_of(batch: Any) -> Any:
    """The input of token ids: that of the name, or the only one that is a tensor of integers."""
    if isinstance(batch, Mapping) and "input_ids" in batch:
        return batch["input_ids"]
    parts = batch.values() if isinstance(batch, Mapping) else batch if isinstance(batch, tuple) else (batch,)
    found = [each for each in map(as_array, parts) if isinstance(each, np.ndarray) and each.dtype.kind in "iu"]
    return found[0] if len(found) == 1 else None


def _rows_in(arrays: Arrays, labels: Any) -> float:
    """The number of a batch's rows, by which its measures count."""
    if labels is not None:
        return float(np.size(as_array(labels)))
    return float(max((math.prod(each.shape[:-1]) for each in arrays.values()), default=1) or 1)


Autocast = tuple[str | None, str | None]
"""The types of autocast on the CPU, ours and torch's; None where it is off."""


def autocast_types() -> Autocast:
    torch = sys.modules.get("torch")
    names = (
        str(each.get_autocast_dtype("cpu")).rpartition(".")[2] if each and each.is_autocast_enabled("cpu") else None
        for each in (amp, torch)
    )
    return tuple(names)  # type: ignore[return-value]


@contextmanager
def autocast_as(types: Autocast) -> Iterator[None]:
    """Run the block under autocast of these types, as at another time or in another process."""
    ours, of_torch = types
    with ExitStack() as scopes:
        scopes.enter_context(amp.autocast("cpu", dtype=getattr(dtypes, ours)) if ours else nullcontext())
        if of_torch is not None:
            torch = sys.modules["torch"]
            scopes.enter_context(torch.autocast("cpu", dtype=getattr(torch, of_torch)))
        yield


class _Watch:
    """An observer of one product's calls at a precision: counts operations, and the values that formats lose."""

    def __init__(
        self, layers: Sequence[str] | None, level: Level, formats: Sequence[str], device: Device | None
    ) -> None:
        self.device, self.in_force = device, {kind: precision_of(kind).precision for kind in FAMILIES["cuda"]}
        self.times = {} if device is None else dict.fromkeys(("predicted_seconds", "predicted_before"), 0.0)
        self.layers, self.level, self.formats = layers, level, formats
        self.calls = self.flops = 0
        self.counts: dict[tuple[int, str], RangeCounts] = {}

    def concerns(self, call: Call) -> bool:
        return self.level.acts_on(call) and (self.layers is None or current_module() in self.layers)

    def __call__(self, call: Call) -> None:
        if not self.concerns(call):
            return
        self.calls += 1
        self.flops += flops_of(call)
        if self.device is not None:
            before = self.in_force[{"conv": "conv", "recurrence": "rnn"}.get(call.kernel.partition("_")[0], "matmul")]
            self.times["predicted_seconds"] += predict_seconds(self.device, call)
            self.times["predicted_before"] += predict_seconds(self.device, call, before)
        for place, operand in enumerate(_operands(call)):
            for name in self.formats:
                self._add(place, name, count_range(operand, name))
        precision = self.level.name
        if not self.level.by_role and is_scaled(precision) and self.layers is not None:
            name = f"{precision}, scaled" if precision in ELEMENTS else precision
            for place, found in enumerate(counts_with_scales(call.kernel, call.arrays, call.keywords)):
                self._add(place, name, found)

    def _add(self, place: int, name: str, found: RangeCounts) -> None:
        before = self.counts.get((place, name))
        self.counts[place, name] = found if before is None else before + found

    def as_dicts(self) -> list[dict[str, dict[str, int]]]:
        """For each operand, the counts by format, and those of a precision with scales by its name."""
        places = sorted({place for place, _ in self.counts})
        return [{name: found._asdict() for (at, name), found in self.counts.items() if at == place} for place in places]


def _operands(call: Call) -> Iterable[np.ndarray]:
    """The factors of a call: the first two arrays, and the values of attention."""
    arrays = [getattr(each, "array", each) for each in call.arrays[: 3 if call.kernel == "attention" else 2]]
    for each in arrays:
        if each.dtype.kind == "c":
            yield np.ascontiguousarray(each).view(each.real.dtype)
        elif each.dtype.kind not in "biu":
            yield each


def _tensors_of(answer: Any) -> list[Tensor]:
    if isinstance(answer, Tensor):
        return [answer]
    parts = answer.values() if isinstance(answer, Mapping) else answer if isinstance(answer, (tuple, list)) else ()
    return [tensor for part in parts for tensor in _tensors_of(part)]


class Trial(NamedTuple):
    """One row to measure, as a task of an executor: a part (None for all layers), a product, and the name of a level.

    Attributes:
        formats: those whose range its operands are compared with.
    """

    layer: str | None
    product: str
    level: str
    formats: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Identifies the trial in a store."""
        return json.dumps(self)

    def row_of_death(self) -> dict[str, Any]:
        """The row of a trial whose workers died."""
        return {"flags": {}, "exception": "the worker process died"}


def run_trial(trials: Trials, trial: Trial) -> dict[str, Any]:
    """The row of a trial, with what a store's rows have."""
    level = next(each for each in trials.levels if each.name == trial.level)
    row = trials.row(trial.layer, trial.product, level, trial.formats)
    return {"flags": level.flags, "exception": None, **row}


_OF_STORES = frozenset({"flags", "exception", "runs"})
"""Columns that rows have in stores alone."""


def rows_of(
    trials: Trials, formats: Sequence[str], run: Callable[[list[Trial]], Iterator[tuple[Trial, dict[str, Any]]]]
) -> list[dict[str, Any]]:
    """The rows by product and level, starting with that of all layers. Products without calls have no rows."""
    named = [level.name for level in trials.levels]
    measured = next((level.name for level in trials.levels if not level.by_role), None)  # operands are not rounded
    wanted = [
        Trial(layer, product, level, tuple(formats) if level == measured and layer is not None else ())
        for product, level in itertools.product(trials.products, named)
        for layer in (*trials.parts, None)
    ]
    found = {trial: {name: row[name] for name in row if name not in _OF_STORES} for trial, row in run(wanted)}
    ranges = {(trial.product, trial.layer): found[trial]["operands"] for trial in wanted if trial.formats}
    rows: list[dict[str, Any]] = []
    for product, level in itertools.product(trials.products, named):
        own = {trial.layer: found[trial] for trial in wanted if (trial.product, trial.level) == (product, level)}
        layers = [
            {**own[layer], "operands": _join_counts(ranges.get((product, layer), []), own[layer]["operands"])}
            for layer in trials.parts
            if own[layer]["calls"]
        ]
        rows += [_all_of(layers, own[None]), *layers] if layers else []
    return rows


def _join_counts(formats: list[dict[str, Any]], own: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merge the counts of each operand by format, shared by all precisions, with those of one precision."""
    shared = [{name: counts for name, counts in each.items() if name in ELEMENTS} for each in formats]
    nothing: dict[str, Any] = {}
    return [{**each[0], **each[1]} for each in itertools.zip_longest(shared, own, fillvalue=nothing)]


def _all_of(layers: Sequence[dict[str, Any]], row: dict[str, Any]) -> dict[str, Any]:
    """The row of all layers together, with their largest local error and the sums of their counts."""
    counts: dict[str, RangeCounts] = {}
    for operand in itertools.chain.from_iterable(each["operands"] for each in layers):
        for name, values in operand.items():
            found = RangeCounts(**values)
            counts[name] = counts[name] + found if name in counts else found
    known = [each["local_error"] for each in layers if each["local_error"] is not None]
    worst = max(known, default=None)
    return row | {"local_error": worst, "operands": [{name: each._asdict() for name, each in counts.items()}]}
