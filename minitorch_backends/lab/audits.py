"""`audit`: the effect of a lower precision of each layer's products on a model, and the layers that must keep a higher
one."""

from __future__ import annotations

import glob
import itertools
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import backends
from ..autograd.modes import is_grad_enabled
from ..backends.precision_policy import precision_of
from ..explain.records import align_columns
from ..flags.rows import NO_OPINION
from ..kernels.formats import FORMATS, RangeCounts, format_named
from ..kernels.precision import PRECISIONS, find_precision
from ..nn.module import Module
from .frontier import Frontier, predictions, sort_rows
from .machine import machine
from .metrics import Metric, check_metric
from .policy import PRODUCTS, Policy, Rule
from .progress import Progress
from .search import smallest_set
from .trials import GRADIENT_ERROR, Trials

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_Product = tuple[str, str]
"""A layer's name and one of its products."""

_FORMATS = ("bf16", "fp16", "e5m2", "e4m3")
"""The formats whose range the operands are compared with: narrow formats, and those of the precisions."""


class Audit:
    """The effect of each layer at low precision, and a policy.

    Attributes:
        rows: a dict for each layer, product and precision, and for all layers together (whose "module" is None), with
            these keys:
            "product": "forward", "input gradient" or "weight gradient";
            "calls" and "flops" of one run;
            "local_error": the largest relative error of one of its calls against float64 on the same inputs;
            "error": the relative change of the outputs, or of all gradients, that this product alone causes;
            the measures of the metric, in forward rows;
            "operands": for each factor of the product, by format, the number of values that overflow, saturate,
            underflow
            or become subnormal, and the size.
        precisions: those of the rows, fastest first.
        policy: the fastest precision for all layers except those in `kept`. Gradients run under the current flags. If
            `budget` bounds "gradient_error", they run at the fastest precision except those in `kept_gradients`.
        kept: the layers whose forward pass keeps a higher precision, in order of their contribution.
        kept_gradients: the same for "input gradient" and "weight gradient", if `budget` bounds "gradient_error".
        measured: the measures of the outputs under the policy, from a run.
        error: the principal measure, bounded by `budget`; its name is `measure`.
        runs: the number of calls of the model so far.
    """

    def __init__(self, trials: Trials, rows: list[dict[str, Any]], precisions: Sequence[str], measure: str) -> None:
        self.rows, self.precisions, self.measure = rows, tuple(precisions), measure
        self.budget: dict[str, float] = {}
        self.kept: tuple[str, ...] = ()
        self.kept_gradients: dict[str, tuple[str, ...]] = {}
        self.policy, self.measured = Policy(), dict[str, float]()
        self._trials, self._in_force = trials, _in_force()
        self._frontiers: dict[tuple[int, str], Frontier] = {}

    @property
    def error(self) -> float:
        return self.measured[self.measure]

    @property
    def runs(self) -> int:
        return self._trials.runs

    @property
    def products(self) -> tuple[str, ...]:
        """Those that were audited: "forward", and "input gradient" and "weight gradient" where there are any."""
        return tuple(dict.fromkeys(row["product"] for row in self.rows))

    @property
    def name(self) -> str:
        return type(self._trials.model).__name__

    def __repr__(self) -> str:
        return f"<Audit of {self.name}: {len(self.rows)} rows, {len(self.kept)} layers kept, {self.runs} runs>"

    def layers(self, product: str = "forward", precision: str | None = None) -> list[dict[str, Any]]:
        """The rows of layers for one product and precision (None: the fastest), largest error first."""
        precision = self.precisions[0] if precision is None else find_precision(precision).name
        found = [each for each in self.rows if (each["product"], each["precision"]) == (product, precision)]
        return sorted((each for each in found if each["module"] is not None), key=lambda each: -each["error"])

    def whole(self, precision: str, product: str = "forward") -> dict[str, Any]:
        """The row of all layers together at a precision."""
        key = None, product, precision
        return next(each for each in self.rows if (each["module"], each["product"], each["precision"]) == key)

    def frontier(self, verify: int = 3, product: str = "forward") -> Frontier:
        """The error against the share of a product's operations at the fastest precision, from the rows alone.

        It is the error of the outputs for "forward", and that of all parameter gradients for "input gradient" and
        "weight gradient". `verify` of the points, evenly spaced, are also measured, by one run each. Raises ValueError
        for products that were not audited.
        """
        rows = sort_rows(self.layers(product))
        if not rows:
            audited = ", ".join(map(repr, self.products))
            raise ValueError(f"frontier(): product must be one that was audited ({audited}), got {product!r}")
        if (verify, product) not in self._frontiers:
            points = predictions(rows)
            chosen = {round(each * len(rows) / verify) for each in range(1, verify + 1)} if verify else set()
            for place in sorted(chosen):
                kept = frozenset((name, product) for name in points[place].kept)
                policy = self._policy_of(kept, products=(product,))
                points[place] = points[place]._replace(measured=self._trials.error_under(policy, product))
            self._frontiers[verify, product] = Frontier(points, product, self.precisions[0])
        return self._frontiers[verify, product]

    def measure_on(self, inputs: Any) -> dict[str, float]:
        """The measures of the outputs under the policy for other inputs."""
        searched = self._trials.measures_gradients
        return Trials(self._trials.model, inputs, self._trials.metric, searched, searched).under(self.policy)

    def table(self, limit: int | None = None) -> str:
        """The rows as aligned text, sorted by product, precision and error (largest first)."""
        return "\n".join(align_columns([self.header(), *self.cells(limit)]))

    def __str__(self) -> str:
        return f"{self.table(limit=8)}\n\n{self.summary()}\n{self.policy}"

    def summary(self) -> str:
        """A sentence or two: the layers kept at a higher precision, the measures, and the number of runs."""
        count = len(self._trials.layers)
        kept = f"{len(self.kept)} of {count} layers"
        if self.kept_gradients:
            gradients = " and ".join(
                f"the {product}s of {len(names)}" for product, names in self.kept_gradients.items()
            )
            kept = f"The forward pass of {len(self.kept)}, {gradients} of {count} layers"
        bounds = ", ".join(f"{name} at most {bound:.3g}" for name, bound in self.budget.items())
        within = f" within a budget of {bounds}" if bounds else ""
        measures = ", ".join(
            f"{name} is {self.measured[name]:.3g}" for name in dict.fromkeys((self.measure, *self.budget))
        )
        return f"{kept} keep a higher precision{within}: {measures}. {self.runs} runs of the model."

    def header(self) -> tuple[str, ...]:
        return ("module", "product", "precision", "GFLOP", "local error", "error", *self._measures(), "out of range")

    def cells(self, limit: int | None = None) -> Iterable[tuple[str, ...]]:
        """The lines of the table."""
        for product in self.products:
            for precision in self.precisions:
                for row in (self.whole(precision, product), *self.layers(product, precision)[:limit]):
                    yield self._cells(row)

    def _measures(self) -> list[str]:
        """The names of the metric's measures."""
        first = self.whole(self.precisions[0])
        names = list(first)
        return names[names.index("error") + 1 : names.index("operands")]

    def _cells(self, row: dict[str, Any]) -> tuple[str, ...]:
        name = "(all of it)" if row["module"] is None else row["module"] or "(itself)"
        numbers = [row["local_error"], row["error"], *(row.get(each) for each in self._measures())]
        figures = ("" if each is None else f"{each:.2e}" for each in numbers)
        return (name, row["product"], row["precision"], f"{row['flops'] / 1e9:.3g}", *figures, _out_of_range(row))

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw the layers by their errors, and the frontier with its measured points; returns the figure.

        With `path` it is also written, as PNG, PDF or SVG by the end of the name.
        """
        from .plots import audit

        return audit(self, path)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write one HTML page with the picture, the policy, the rows and the ranges. It loads nothing else."""
        from .audit_page import write

        write(self, path)

    def to_json(self) -> str:
        """Everything but the model as JSON."""
        names = ("name", "precisions", "measure", "budget", "kept", "kept_gradients", "measured", "error", "runs")
        found = {name: getattr(self, name) for name in names} | {"policy": json.loads(self.policy.to_json())}
        return json.dumps({**found, **machine(), "rows": self.rows}, indent=1)

    # The search

    def _policy_of(self, kept: Iterable[_Product], higher: str | None = None, products: Sequence[str] = ()) -> Policy:
        """A policy that runs products of all layers at the fastest precision except kept ones, which run at a higher or
        the current one.

        Products outside `products` (by default, the searched ones) keep the current flags.
        """
        products = products or self._policy_products
        by_layer: dict[str, set[str]] = {}
        for name, product in kept:
            by_layer.setdefault(name, set()).add(product)

        def rule(spared: Iterable[str]) -> Rule:
            forward, *gradients = (
                None if product not in products
                else self.precisions[0] if product not in spared
                else higher or self._in_force[product]
                for product in PRODUCTS
            )  # fmt: skip
            return Rule({} if forward is None else {"fp32_precision": forward}, *gradients)

        return Policy({"*": rule(())} | {glob.escape(name): rule(by_layer[name]) for name in sorted(by_layer)})

    @property
    def _policy_products(self) -> Sequence[str]:
        """The products that the policy sets."""
        return PRODUCTS if self._trials.measures_gradients else PRODUCTS[:1]

    def _is_within(self, measured: Mapping[str, float], margin: float) -> bool:
        return all(measured[name] <= bound * (1 - margin) for name, bound in self.budget.items())

    def _settle(self, budget: dict[str, float], margin: float) -> None:
        """Find the layers whose products keep a higher precision, and measure the outputs under the policy."""
        self.budget = budget
        names = [(row["module"], row["product"]) for row in self._by_contribution()]
        found = {frozenset[_Product](): self._trials.under(self._policy_of(()))}
        higher = None
        if not self._is_within(found[frozenset()], margin):
            higher = next((each for each in self.precisions[1:] if self._is_within(self._all_at(each), margin)), None)

        def holds(kept: frozenset[_Product]) -> bool:
            if kept not in found:
                found[kept] = self._trials.under(self._policy_of(kept, higher))
            return self._is_within(found[kept], margin)

        chosen = smallest_set(names, holds)
        kept = frozenset(chosen)
        self.kept, *gradients = (
            tuple(name for name, product in chosen if product == each) for each in self._policy_products
        )
        self.kept_gradients = dict(zip(self._policy_products[1:], gradients, strict=True))
        self.policy = self._policy_of(kept, higher)
        self.measured = found[kept] if kept in found else self._trials.under(self.policy)

    def _all_at(self, precision: str) -> Mapping[str, float]:
        """The measures of the outputs with all searched products at a precision."""
        if self._policy_products == PRODUCTS[:1]:
            return self.whole(precision)
        return self._trials.under(Policy({"*": Rule({"fp32_precision": precision}, precision, precision)}))

    def _by_contribution(self) -> list[dict[str, Any]]:
        """Layers by their contribution to the budget's measures, largest first; ties by error."""
        found = [row for product in self._policy_products for row in self.layers(product)]
        return sorted(found, key=lambda row: (-self._share(row), -row["error"], row["module"], row["product"]))

    def _share(self, row: Mapping[str, Any]) -> float:
        """The largest share of any bound of the budget that a product of a layer uses alone."""
        measures = row if row["product"] == "forward" else {GRADIENT_ERROR: row["error"]}
        taken = ((measures.get(name, 0.0), bound) for name, bound in self.budget.items())
        return max((value / bound if bound else math.inf if value else 0.0 for value, bound in taken), default=0.0)


def _in_force() -> dict[str, str]:
    """The precision of each product under the current flags."""
    forward = precision_of("matmul").precision
    gradients = (backends.input_gradient_precision, backends.weight_gradient_precision)
    return dict(zip(PRODUCTS, (forward, *(forward if each == NO_OPINION else each for each in gradients)), strict=True))


def _out_of_range(row: dict[str, Any]) -> str:
    """The formats in which some of an operand's values are lost or saturate, with the largest share."""
    worst: dict[str, float] = {}
    for operand in row["operands"]:
        for name, counts in operand.items():
            lost = counts["overflow"] + counts["saturated"] + counts["underflow"] + counts["subnormal"]
            worst[name] = max(worst.get(name, 0.0), lost / max(counts["size"], 1))
    return ", ".join(f"{name} {share:.1%}" for name, share in worst.items() if share >= 5e-4)


def audit(
    model: Module,
    inputs: Any,
    precisions: str | Sequence[str] = ("tf32", "bf16"),
    metric: Metric = None,
    budget: float | Mapping[str, float] | None = None,
    *,
    margin: float = 0.1,
    gradients: bool = True,
    formats: Sequence[str] = (),
    progress: bool | None = None,
) -> Audit:
    """Measure the effect of each layer's products at a lower precision on the outputs of a model, one at a time.

    A layer is a module whose own forward or gradients run float32 or complex64 products, convolutions, attention or
    recurrences. All other layers keep the current flags. The model must be in evaluation mode, or otherwise
    deterministic. It is called three times, once for each row, and for the search.

    Arguments:
        inputs: a tensor, a tuple of positional arguments, or a dict of named ones. Outputs may be tensors, arrays and
            numbers, in dicts and sequences.
        precisions: the precisions to measure.
        metric: None for the relative error of the outputs; "logits", "embedding" or "regression" (see `lab.metrics`);
            or a function of (answer, truth), dicts of arrays, that returns a number, or several by name. The truth is
            the
            output under the current flags. The first measure is the principal one.
        budget: bounds the principal measure, or measures by name. The policy keeps the smallest set of layers found by
            the search. They run at the fastest of the other precisions that is within the budget for the whole model,
            or at the current one. Layers are ordered by their contributions alone. A set is accepted only after a run
            within the budget, and no layer of it can be removed. None: all layers run at the fastest precision.
            "gradient_error", the relative change of all parameter gradients under the policy, is also a measure. If it
            is bounded, the policy sets each of a layer's three products, and each forward row and run of the search
            takes two calls of the model.
        margin: the share of the budget to leave unused, since other inputs have other errors.
        gradients: also measure the gradients of inputs and of parameters, for fixed random weights of the outputs.
            Skipped for models without parameters, for torch modules (inside `interop.torch.emulate`), and in
            `no_grad()`.
        formats: further formats whose range the operands are compared with, besides bf16, fp16, e5m2 and e4m3.
        progress: whether to show progress; None: on a terminal.

    Raises ValueError for unknown names and for models without such layers, RuntimeError for outputs that differ between
    calls.
    """
    if not hasattr(model, "named_modules"):
        raise TypeError(f"audit(): model must be a Module, got {type(model).__name__}")
    check_metric("audit", metric)
    known = list(PRECISIONS)
    wanted = {find_precision(each).name for each in ([precisions] if isinstance(precisions, str) else precisions)}
    fastest_first = sorted(wanted, key=known.index)
    formats = tuple(dict.fromkeys((*_FORMATS, *(format_named(each).name for each in formats))))
    gradients = gradients and is_grad_enabled() and isinstance(model, Module)
    trials = Trials(model, inputs, metric, gradients, isinstance(budget, Mapping) and GRADIENT_ERROR in budget)
    if not trials.layers or not fastest_first:
        raise ValueError(f"audit(): precisions affect nothing in this {type(model).__name__} for these inputs")
    if not trials.is_repeatable():
        raise RuntimeError("audit(): two calls of the model gave different outputs; switch it to evaluation mode")
    rows = _rows(trials, fastest_first, formats, progress)
    measures = list(rows[0])
    measure = measures[measures.index("error") + (0 if metric is None else 1)]
    found = Audit(trials, rows, fastest_first, measure)
    found._settle(_budget(budget, measure, rows[0]), margin)
    return found


def _budget(budget: float | Mapping[str, float] | None, measure: str, row: Mapping[str, Any]) -> dict[str, float]:
    if budget is None:
        return {}
    bounds = dict(budget) if isinstance(budget, Mapping) else {measure: float(budget)}
    unknown = [name for name in bounds if not isinstance(row.get(name), float)]
    if unknown or not all(bound >= 0 for bound in bounds.values()):
        raise ValueError(
            f"audit(): budget must be non-negative bounds of measures of the metric, or of {GRADIENT_ERROR!r} where "
            f"gradients are audited, got {budget!r}"
        )
    return bounds


def _rows(
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
    shared = [{name: counts for name, counts in each.items() if name in FORMATS} for each in formats]
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
