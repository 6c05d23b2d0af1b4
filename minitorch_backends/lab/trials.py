"""Runs of a model on fixed inputs: one product of one layer at a precision, or the whole model under a policy."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from .. import autograd
from ..autograd.extras.module_scope import current_module
from ..autograd.modes import enable_grad, no_grad
from ..backends import snapshot
from ..backends.precision_policy import FAMILIES, precision_of
from ..explain.outputs import arrays_of, module_of
from ..explain.product_counts import ProductCounts, acted_on
from ..explain.records import record, recording
from ..explain.sensitivity import alone, layers_of
from ..kernels.gemm.scaled_operands import counts as counts_with_scales
from ..kernels.precisions.elements import ELEMENTS, RangeCounts, count_range
from ..kernels.precisions.products import is_scaled
from ..kernels.registry import Call, observe
from ..kernels.runtime.context import restore_on_failure
from ..nn.module import Module
from ..nn.utils import run_under
from ..ops.creation.factories import from_numpy
from ..tensor.tensor import Tensor
from .devices import Device, predict_seconds
from .flops import flops_of
from .measures import relative_error
from .metrics import Arrays, Metric, measures_of
from .policy import PRODUCTS, Policy, Rule
from .progress import Progress

GRADIENT_ERROR = "gradient_error"
"""The measure of all gradients of parameters: their relative change."""


class Trials:
    """A model, its inputs, and its outputs under the current flags.

    Attributes:
        call: the model, or a method or pipeline of it, which is called.
        runs: the number of these calls so far.
        counts: the products of one call that obey precision flags, and those that do not.
        layers: the modules with products of their own, in call order.
        products: the measured ones: "forward", and the two gradients if the model has parameters.
        device: whose times are predicted, or None.
        measures_gradients: whether the measures include the change of the gradients, which takes another call of the
            model.
    """

    @restore_on_failure
    def __init__(
        self, model: Any, inputs: Any, metric: Metric, gradients: bool, measures_gradients: bool = False,
        device: Device | None = None,
    ) -> None:  # fmt: skip
        self.model, self.call, self.metric, self.runs = module_of("audit", model), model, metric, 0
        self._args = () if isinstance(inputs, Mapping) else inputs if isinstance(inputs, (tuple, list)) else (inputs,)
        self._named = inputs if isinstance(inputs, Mapping) else {}
        self._parameters = {name: each for name, each in self.model.named_parameters() if each.requires_grad}
        self.products = PRODUCTS if gradients and self._parameters else PRODUCTS[:1]
        self.measures_gradients = measures_gradients and len(self.products) > 1
        self._flags, self.counts, self.device = snapshot(), ProductCounts(), device
        with record() as log:
            self._truth = {product: self._results(product) for product in self.products[:2]}
        self.layers = layers_of(self.model, log)

    def on(self, inputs: Any) -> Trials:
        """The same model on other inputs, under the flags of these trials."""
        searched = self.measures_gradients
        with self._flags:
            return Trials(self.call, inputs, self.metric, searched, searched)

    def is_repeatable(self) -> bool:
        """Whether another call returns the same answers."""
        again = self._results("forward")
        return all(np.array_equal(again[name], value, equal_nan=True) for name, value in self._truth["forward"].items())

    @restore_on_failure
    def row(self, layer: str | None, product: str, precision: str, formats: Sequence[str] = ()) -> dict[str, Any]:
        """The effect of one product of a layer at a precision (all layers, for None): a row of an audit.

        With `formats`, "operands" counts the effects of their ranges on the factors of the product. The effects of a
        precision with scales are always counted.
        """
        rules = Rule({"fp32_precision": precision}), Rule({}, precision), Rule({}, None, precision)
        rule = rules[PRODUCTS.index(product)]
        watch = _Watch(layer, precision, formats, self.device)
        lowered = alone(self.model, layer, self.layers, rule.scope())
        with lowered:
            with recording(watch.concerns if layer is not None else _nothing) as log, observe(watch):
                results = self._results(product)
            measures = self._measures(product, results)
        errors = (dict(each.options).get("relative_error", 0.0) for each in log)
        row: dict[str, Any] = {"module": layer, "product": product, "precision": precision}
        row |= {"calls": watch.calls, "flops": watch.flops, **watch.times}
        row |= {"local_error": max(errors, default=0.0), **measures}
        return row | {"operands": watch.as_dicts()}

    @restore_on_failure
    def under(self, policy: Policy) -> dict[str, float]:
        """The measures of the outputs under a policy."""
        with run_under(self.model, policy):
            return self._measures("forward", self._results("forward"))

    @restore_on_failure
    def error_under(self, policy: Policy, product: str) -> float:
        """The relative change of the answers under a policy, or that of all gradients for products of gradients."""
        of = product if product == "forward" else "input gradient"
        with run_under(self.model, policy):
            return relative_error(self._results(of), self._truth[of])

    def _measures(self, product: str, results: Arrays) -> dict[str, float]:
        if product != "forward":
            return {"error": relative_error(results, self._truth["input gradient"])}
        truth = self._truth["forward"]
        found = {"error": relative_error(results, truth), **measures_of(self.metric, results, truth)}
        if self.measures_gradients:
            gradients = self._results("input gradient")
            found[GRADIENT_ERROR] = relative_error(gradients, self._truth["input gradient"])
        return found

    @restore_on_failure
    def _results(self, product: str) -> Arrays:
        """The outputs, or the gradients of their sum with fixed random weights with respect to all parameters.

        Raises RuntimeError if no product obeys precision flags: its error would be 0 without having been measured.
        """
        self.runs += 1
        self.counts = ProductCounts()
        with self._flags, self._bridge(), observe(self.counts):
            found = self._outputs() if product == "forward" else self._gradients()
        if not self.counts.obeyed:
            raise ValueError(f"audit(): precisions affect nothing in this {type(self.model).__name__}: {self.counts}")
        return found

    def _bridge(self) -> AbstractContextManager[Any]:
        """The block in which a model of torch computes by our kernels."""
        if isinstance(self.model, Module):
            return nullcontext()
        from ..interop.torch.experiments import observe_products

        return observe_products(self.counts, grad=False)

    @restore_on_failure
    def _outputs(self) -> Arrays:
        with no_grad():
            return {name: each.copy() for name, each in arrays_of(self._call()).items()}

    @restore_on_failure
    def _gradients(self) -> Arrays:
        random = np.random.default_rng(0)
        with enable_grad():
            outputs = [each for each in _tensors_of(self._call()) if each.requires_grad]
            weights = [from_numpy(random.standard_normal(each.shape)).to(each.dtype) for each in outputs]
            found = autograd.grad(outputs, list(self._parameters.values()), weights, allow_unused=True)
        pairs = zip(self._parameters, found, strict=True)
        return {name: each.detach().numpy() for name, each in pairs if each is not None}

    def _call(self) -> Any:
        return self.call(*self._args, **self._named)


class _Watch:
    """An observer of one product's calls at a precision: counts operations, and the values that formats lose."""

    def __init__(self, layer: str | None, precision: str, formats: Sequence[str], device: Device | None) -> None:
        self.device, self.in_force = device, {kind: precision_of(kind).precision for kind in FAMILIES["cuda"]}
        self.times = {} if device is None else dict.fromkeys(("predicted_seconds", "predicted_before"), 0.0)
        self.layer, self.precision, self.formats = layer, precision, formats
        self.calls = self.flops = 0
        self.counts: dict[tuple[int, str], RangeCounts] = {}

    def concerns(self, call: Call) -> bool:
        lowered = call.keywords.get("precision", "ieee") == self.precision and acted_on(call)
        return lowered and (self.layer is None or current_module() == self.layer)

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
        if is_scaled(self.precision) and self.layer is not None:
            name = f"{self.precision}, scaled" if self.precision in ELEMENTS else self.precision
            for place, found in enumerate(counts_with_scales(call.kernel, call.arrays, call.keywords)):
                self._add(place, name, found)

    def _add(self, place: int, name: str, found: RangeCounts) -> None:
        before = self.counts.get((place, name))
        self.counts[place, name] = found if before is None else before + found

    def as_dicts(self) -> list[dict[str, dict[str, int]]]:
        """For each operand, the counts by format, and those of a precision with scales by its name."""
        places = sorted({place for place, _ in self.counts})
        return [{name: found._asdict() for (at, name), found in self.counts.items() if at == place} for place in places]


def _nothing(call: Call) -> bool:
    return False


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


def rows_of(
    trials: Trials, precisions: Sequence[str], formats: Sequence[str], progress: bool | None
) -> list[dict[str, Any]]:
    """The rows by product and precision, starting with that of all layers. Products without calls have no rows."""
    rows: list[dict[str, Any]] = []
    count = len(trials.products) * len(precisions) * (len(trials.layers) + 1)
    with Progress(f"audit of {type(trials.model).__name__}", count, 0, progress) as bar:
        for product, precision in itertools.product(trials.products, precisions):
            ranges = {row["module"]: row["operands"] for row in rows if row["product"] == product}
            found = []
            for layer in trials.layers:
                row = trials.row(layer, product, precision, () if layer in ranges else formats)
                found += (
                    [row | {"operands": _join_counts(ranges.get(layer, []), row["operands"])}] if row["calls"] else []
                )
                bar.advance()
            if found:
                rows += [_all_of(found, trials.row(None, product, precision)), *found]
            bar.advance()
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
    worst = max((each["local_error"] for each in layers), default=0.0)
    return row | {"local_error": worst, "operands": [{name: each._asdict() for name, each in counts.items()}]}
