"""`audit`: the effect of a lower precision of each layer's products on a model, and the layers that must keep a higher
one."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from .. import backends
from ..autograd.modes import is_grad_enabled
from ..backends.precision_policy import precision_of
from ..explain.answers import Level, find_levels
from ..explain.records import align_columns, module_of
from ..flags.rows import NO_OPINION
from ..kernels.precisions.elements import find_element
from ..kernels.precisions.products import PRECISIONS
from ..nn.module import Module
from ..ops.einsum.precision_plan import unit_cost
from .devices import Device, find_device
from .executors import check_executor
from .frontier import Frontier, predictions, sort_rows
from .machine import machine
from .metrics import Metric, check_metric
from .policy import PRODUCTS, Policy, Rule, with_few_globs
from .search import Levels, Option, cheapest_levels, option
from .trial_runner import Runner
from .trials import GRADIENT_ERROR, Trials, rows_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_Product = tuple[str, str]
"""A layer's name and one of its products."""

MOST_LISTED = 8
"""Layers at each precision in a short table."""

_EXACT = "current flags"
"""The level at which a product's outputs are the truth."""

_BITS = 32.0
"""The bits of a value without a format, in the cost of formats."""

_FORMATS = ("bf16", "fp16", "e5m2", "e4m3")
"""The formats whose range the operands are compared with: narrow formats, and those of the precisions."""


class Audit:
    """The effect of each layer at low precision, and a policy.

    Attributes:
        rows: a dict for each layer, product and precision, and for all layers together (whose "module" is None), with
            these keys:
            "module": the name of the layer, or of its group;
            "product": "forward", "input gradient" or "weight gradient";
            "calls" and "flops" of a run of all batches; with a device, "predicted_seconds" and, at the current flags,
            "predicted_before", the least that these take on it (`lab.devices`);
            "local_error": the largest relative error of one of its calls against float64 on the same inputs; None for
            formats of operands;
            "error": the relative change of the outputs, or of all gradients, that this product alone causes;
            the measures of the metric, in forward rows;
            "operands": for each factor of the product, by format, the number of values that overflow, saturate,
            underflow or become subnormal, and the size.
        precisions: those of the rows, fastest first; or formats of operands, and recipes.
        parts: the layers of each group by its name; without groups each layer alone.
        ignored: the classes of parts of an output that are not compared (caches, text), by name.
        policy: the precision of each layer, in few globs. Gradients run under the current flags, unless `budget` bounds
            "gradient_error".
        is_met: whether the policy is within the budget; `least`: the least value of each bounded measure of any run.
        levels: for each product that the policy sets, the precision of each layer.
        shares: the share of the operations of these products at each precision.
        predicted: the least seconds of these products on the device at the current flags, and under the policy; None
            without a device.
        kept: the layers whose forward pass keeps a higher precision than the fastest, in order of their contribution.
        kept_gradients: the same for "input gradient" and "weight gradient", if `budget` bounds "gradient_error".
        measured: the measures of the outputs under the policy, from a run.
        error: the principal measure, bounded by `budget`; its name is `measure`.
        runs: the number of calls of the model so far.
    """

    label: str = ""
    """The name of the model in titles; that of its class if empty."""

    def __init__(self, trials: Trials, rows: list[dict[str, Any]], precisions: Sequence[str], measure: str) -> None:
        self.rows, self.precisions, self.measure = rows, tuple(precisions), measure
        self.budget, self._unchanged = dict[str, float](), dict[str, float]()
        self.is_met, self.least = True, dict[str, float]()
        self.kept: tuple[str, ...] = ()
        self.kept_gradients: dict[str, tuple[str, ...]] = {}
        self.levels, self.shares = dict[str, dict[str, str]](), dict[str, float]()
        self.predicted: tuple[float, float] | None = None
        self.policy, self.measured = Policy(), dict[str, float]()
        self.ignored = trials.ignored
        self.parts = trials.parts
        self._trials, self._levels = trials, {level.name: level for level in trials.levels}
        self._in_force = _in_force(trials.levels)
        self._exact = {path: value for level in trials.levels for path, value in level.in_force().items()}
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
        return self.label or type(self._trials.model).__name__

    @property
    def is_onnx(self) -> bool:
        """Whether the model is that of an ONNX file."""
        return type(self._trials.model).__module__.startswith(f"{__name__.partition('.')[0]}.interop.onnx.")

    def __repr__(self) -> str:
        return f"<Audit of {self.name}: {len(self.rows)} rows, {len(self.kept)} layers kept, {self.runs} runs>"

    def layers(self, product: str = "forward", precision: str | None = None) -> list[dict[str, Any]]:
        """The rows of layers for one product and precision (None: the fastest), largest error first.

        Raises ValueError for products and precisions that were not audited.
        """
        rows = self._rows("layers", product, precision)
        return sorted((each for each in rows if each["module"] is not None), key=lambda each: -each["error"])

    def whole(self, precision: str, product: str = "forward") -> dict[str, Any]:
        """The row of all layers together at a precision. Raises the errors of `layers`."""
        return next(each for each in self._rows("whole", product, precision) if each["module"] is None)

    def _rows(self, caller: str, product: str, precision: str | None) -> list[dict[str, Any]]:
        name = self.precisions[0] if precision is None else precision
        name = PRECISIONS[name].name if name in PRECISIONS and name not in self.precisions else name
        rows = [each for each in self.rows if (each["product"], each["precision"]) == (product, name)]
        if not rows:
            wrong, value, known = "precision", precision, self.precisions
            if product not in self.products:
                wrong, value, known = "product", product, self.products
            audited = ", ".join(map(repr, known))
            raise ValueError(f"{caller}(): {wrong} must be one that was audited ({audited}), got {value!r}")
        return rows

    def frontier(self, verify: int = 3, product: str = "forward") -> Frontier:
        """The error against the share of a product's operations at the fastest precision, from the rows alone.

        It is the error of the outputs for "forward", and that of all parameter gradients for "input gradient" and
        "weight gradient". `verify` of the points, evenly spaced, are also measured, by one run each. Raises ValueError
        for products that were not audited, and RuntimeError if the model was changed since.
        """
        rows = sort_rows(row for row in self._rows("frontier", product, None) if row["module"] is not None)
        if (verify, product) not in self._frontiers:
            points = predictions(rows)
            chosen = {round(each * len(rows) / verify) for each in range(1, verify + 1)} if verify else set()
            if chosen and not self._trials.is_repeatable():
                raise RuntimeError("frontier(): the model must be that of the audit, got other outputs; audit it again")
            for place in sorted(chosen):
                kept = dict.fromkeys(((name, product) for name in points[place].kept), self._in_force[product])
                policy = self._policy_of(kept, (product,))
                points[place] = points[place]._replace(measured=self._trials.error_under(policy, product))
            device = self._trials.device
            name = "" if device is None else device.name
            self._frontiers[verify, product] = Frontier(points, product, self.precisions[0], name)
        return self._frontiers[verify, product]

    def measure_on(self, inputs: Any, labels: Any = None) -> dict[str, float]:
        """The measures of the outputs under the policy for other inputs, a batch or a list, under the flags of the
        audit."""
        return self._trials.on(inputs, labels).under(self.policy)

    def table(self, limit: int | None = None) -> str:
        """The rows as aligned text, sorted by product, precision and error (largest first)."""
        return "\n".join(align_columns([self.header(), *self.cells(limit)]))

    def __str__(self) -> str:
        return f"{self.table(MOST_LISTED)}\n\n{self.omission()}{self.summary()}\n{self.policy}"

    def omission(self) -> str:
        """The sentence that tells how many layers a short table leaves out, or nothing."""
        count = len(self.parts)
        return f"The table has the {MOST_LISTED} worst of {count} layers. " if count > MOST_LISTED else ""

    def _repr_html_(self) -> str:
        from ..display.html import Lines, Rows, as_html

        rows = Rows([self.header(), *self.cells(MOST_LISTED)], names=3)
        return as_html(repr(self)[1:-1], rows, f"{self.omission()}{self.summary()}", Lines(self.policy))

    def summary(self) -> str:
        """Sentences: the layers kept at a higher precision, the measures, the share of operations at each precision,
        the products that no flag affects, a reference that is below ieee, and the number of runs."""
        named = dict.fromkeys((self.measure, *self.budget))
        measures = ", ".join(f"{name} is {self.measured[name]:.3g}" for name in named)
        bounds = ", ".join(f"{name} at most {bound:.3g}" for name, bound in self.budget.items())
        shares = ", ".join(f"{share:.1%} at {name}" for name, share in self.shares.items())
        found = f"{self._kept_layers()}{f' within a budget of {bounds}' if bounds else ''}: {measures}"
        if not self.is_met:
            least = ", ".join(f"{name} {value:.3g}" for name, value in self.least.items())
            found = f"A budget of {bounds} cannot be met: the least is {least}. The policy changes nothing: {measures}"
        if self.predicted is not None and self._trials.device is not None:
            before, after = (f"{1e3 * each:.3g} ms" for each in self.predicted)
            found += f". Products take at least {after} on {self._trials.device.name}, {before} at the current flags"
        others = f" {str(self._trials.counts).capitalize()}." if self._trials.counts.others else ""
        others += " Errors are relative to flags at which products are below ieee." * (not self._trials.is_exact)
        listed = ", ".join(f"{name} ({kind})" for name, kind in list(self.ignored.items())[:4])
        ignored = f" Not compared: {listed}{', ...' * (len(self.ignored) > 4)}." if listed else ""
        return f"{found}. Operations: {shares}.{others}{ignored} {self.runs} runs of the model."

    def _kept_layers(self) -> str:
        count, layers = len(self.parts), len(self._trials.layers)
        of = f"{count} layers" if count == layers else f"{count} groups of {layers} layers"
        kept = f"{len(self.kept)} of {of}"
        if self.kept_gradients:
            counts = (f"the {product}s of {len(names)}" for product, names in self.kept_gradients.items())
            kept = f"The forward pass of {len(self.kept)}, {' and '.join(counts)} of {of}"
        return f"{kept} keep a higher precision than {self.precisions[0]}"

    def header(self) -> tuple[str, ...]:
        device = self._trials.device
        times = () if device is None else (f"ms at least, {device.name}",)
        of_products = "module", "product", "precision", "GFLOP", *times, "local error", "error"
        return (*of_products, *self._measures(), "out of range")

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
        times = (f"{1e3 * row['predicted_seconds']:.3g}",) if "predicted_seconds" in row else ()
        described = name, row["product"], row["precision"], f"{row['flops'] / 1e9:.3g}"
        return (*described, *times, *figures, _out_of_range(row))

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw the layers by their errors, and the frontier with its measured points; returns the figure.

        With `path` it is also written, as PNG, PDF or SVG by the end of the name.
        """
        from .plots import audit

        return audit(self, path)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write one HTML page with the picture, the policy, the rows and the ranges. It loads nothing else."""
        from .pages import write_audit

        write_audit(self, path)

    def to_json(self) -> str:
        """Everything but the model as JSON."""
        names = ("name", "precisions", "ignored", "measure", "budget", "is_met", "least", "kept", "kept_gradients",
                 "levels", "shares", "predicted", "measured", "error", "runs")  # fmt: skip
        found = {name: getattr(self, name) for name in names} | {"policy": json.loads(self.policy.to_json())}
        return json.dumps({**found, **machine(), "rows": self.rows}, indent=1)

    # The search

    def _policy_of(self, levels: Mapping[_Product, str], products: Sequence[str] = ()) -> Policy:
        """A policy that runs products of layers at `levels`, or at the fastest precision.

        Products outside `products` (by default, the searched ones) keep the current flags.
        """
        products = products or self._policy_products

        def rule(name: str) -> Rule:
            forward, *gradients = (
                levels.get((name, product), self.precisions[0]) if product in products else None for product in PRODUCTS
            )
            return Rule({} if forward is None else self._flags_at(forward), *gradients)

        rules = {name: rule(name) for name in self.parts}
        return Policy(with_few_globs({layer: rules[name] for name, part in self.parts.items() for layer in part}))

    def _flags_at(self, name: str) -> dict[str, Any]:
        """The flags of a forward pass at a level, or at what is in force."""
        if all(not level.by_role for level in self._levels.values()):
            return {"fp32_precision": name}
        return {**self._exact, **(self._levels[name].flags if name in self._levels else {})}

    @property
    def _policy_products(self) -> Sequence[str]:
        """The products that the policy sets."""
        return PRODUCTS if self._trials.measures_gradients else PRODUCTS[:1]

    def _settle(self, budget: dict[str, float], margin: float) -> None:
        """Find the cheapest precision of each layer's products within the budget, and measure the outputs under it."""
        self.budget, self._unchanged = budget, self._trials.measures_in_force() if budget else {}
        rows = [row for row in self.rows if row["module"] is not None and row["product"] in self._policy_products]
        options: dict[_Product, dict[str, Option]] = {}
        for row in rows:
            name, flops = (row["module"], row["product"]), max(row["flops"], 1)
            exact = self._in_force[row["product"]]
            cost = unit_cost(exact) if exact in PRECISIONS else _BITS
            each = options.setdefault(name, {_EXACT: option(cost * flops, 0.0)})
            each[row["precision"]] = option(self._levels[row["precision"]].cost * flops, self._share(row))
        found: dict[frozenset[tuple[_Product, str]], Mapping[str, float]] = {}

        def measures_at(levels: Levels) -> Mapping[str, float]:
            key = frozenset(levels.items())
            if key not in found:
                found[key] = self._trials.under(self._policy_of(self._with_names(levels)))
            return found[key]

        def holds(levels: Levels, margin: float = margin) -> bool:
            values = measures_at(levels)
            spare = {name: margin * max(bound - self._unchanged.get(name, 0.0), 0) for name, bound in budget.items()}
            return all(values[name] <= bound - spare[name] for name, bound in budget.items())

        nothing: Levels = dict.fromkeys(options, _EXACT)
        fastest = {name: self.precisions[0] for name, each in options.items() if self.precisions[0] in each}
        levels = cheapest_levels(options, _EXACT, holds) if budget else {**nothing, **fastest}
        self.is_met = levels is not None or holds(nothing, 0.0)
        levels = nothing if levels is None else levels
        self.measured = dict(measures_at(levels))
        self.least = {name: min(values[name] for values in found.values()) for name in budget}
        self._describe(self._with_names(levels), rows)

    def _with_names(self, levels: Levels) -> dict[_Product, str]:
        """The levels with the name of the precision in force in place of `_EXACT`."""
        return {(name, of): self._in_force[of] if level == _EXACT else level for (name, of), level in levels.items()}

    def _describe(self, levels: Mapping[_Product, str], rows: Sequence[Mapping[str, Any]]) -> None:
        """Set the attributes that follow from the level of each product."""
        self.policy = self._policy_of(levels)
        self.levels = {
            of: {name: at for (name, each), at in levels.items() if each == of} for of in self._policy_products
        }
        order = sorted(rows, key=lambda row: (-self._share(row), -row["error"], row["module"], row["product"]))
        kept = {
            of: tuple(
                row["module"]
                for row in order
                if (row["product"], row["precision"]) == (of, self.precisions[0])
                and levels[row["module"], of] != self.precisions[0]
            )
            for of in self._policy_products
        }
        self.kept = kept.pop(PRODUCTS[0])
        self.kept_gradients = kept
        flops = Counter[str]()
        for row in rows:
            if row["precision"] == self.precisions[0]:
                flops[levels[row["module"], row["product"]]] += row["flops"]
        if rows and "predicted_seconds" in rows[0]:
            after, before = dict[_Product, float](), dict[_Product, float]()
            for row in rows:
                key = row["module"], row["product"]
                before[key] = row["predicted_before"]
                if levels[key] == row["precision"]:
                    after[key] = row["predicted_seconds"]
            self.predicted = sum(before.values()), sum((before | after).values())
        total = flops.total() or 1
        self.shares = {name: count / total for name, count in sorted(flops.items(), key=lambda each: -each[1])}

    def _share(self, row: Mapping[str, Any]) -> float:
        """The largest share of what any bound leaves above the unchanged model that a product of a layer uses alone."""
        measures = row if row["product"] == "forward" else {GRADIENT_ERROR: row["error"]}
        shares = [0.0]
        for name, bound in self.budget.items():
            least = self._unchanged.get(name, 0.0)
            more, left = measures.get(name, least) - least, bound - least
            shares.append(0.0 if more <= 0 else more / left if left > 0 and more == more else math.inf)
        return max(shares)


def _in_force(levels: Sequence[Level]) -> dict[str, str]:
    """The precision of each product under the current flags, or the formats of the operands."""
    if any(level.by_role for level in levels):
        values = {value for level in levels for value in level.in_force().values()} - {NO_OPINION}
        return dict.fromkeys(PRODUCTS, " and ".join(sorted(map(str, values))) or "no format")
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


def audit(  # noqa: PLR0913 (one each for what an audit can vary)
    model: Module,
    inputs: Any,
    precisions: str | Sequence[str] = ("tf32", "bf16"),
    metric: Metric = None,
    budget: float | Mapping[str, float] | None = None,
    *,
    roles: str | Sequence[str] = (),
    groups: str | Sequence[str] = (),
    labels: Any = None,
    executor: Executor | int | None = None,
    store: str | os.PathLike[str] | None = None,
    reuse: bool | None = None,
    margin: float = 0.1,
    gradients: bool = True,
    formats: Sequence[str] = (),
    device: str | os.PathLike[str] | Device | None = None,
    progress: bool | None = None,
) -> Audit:
    """Measure the effect of each layer's products at a lower precision on the outputs of a model, one at a time.

    A layer is a module whose own forward or gradients run float32 or complex64 products, convolutions, attention or
    recurrences. All other layers keep the current flags. The model must be in evaluation mode, or otherwise
    deterministic. It is called three times for each batch, once for each row, and for the search. A model of torch runs
    inside `interop.torch.emulate`, also when the audit is asked later; so do flags and autocast of the audit.

    Arguments:
        model: a module, a method of one (`model.generate`), or a pipeline of transformers.
        inputs: a tensor, a tuple of positional arguments, or a dict of named ones; or a list of such batches, which run
            one after another. Outputs may be tensors, arrays and numbers, in dicts, sequences and dataclasses; other
            objects in them, such as caches and text, are not compared, and `ignored` names them.
        precisions: the precisions to measure, or names of `backends.recipes`.
        metric: None for the relative error of the outputs; "logits", "language", "embedding" or "regression" (see
            `lab.metrics`); or a function of (answer, truth), as the model returned them, that returns a number, or
            several by name. The truth is the output under the current flags. The first measure is the principal one.
            Of several batches, measures are means over their rows, or the largest.
        roles: roles of operands ("weight", "activation", "query", "key", "probability", "value"). `precisions` are then
            formats of these operands alone (`backends.operands`), which act on bfloat16 and float16 too; roles that are
            not named keep the current flags. `("key", "value")` are the cache of attention.
        groups: globs of modules whose layers are tried and set as one, under the name of the outermost module that
            matches: "blk.*" has one row for each block, where each layer of a large model would take too long.
        labels: classes for "logits", which adds the measures "wrong" and "loss"; for "language" token ids, by default
            the input "input_ids" or the only one of integers; a list of these for a list of batches.
        executor: None for this process, a number of processes, or any executor of `concurrent.futures`, for the rows.
        store: a folder for the rows; those found there are not run again. A large model is written there for the
            executor's processes, otherwise to a temporary folder.
        reuse: whether to keep rows of a store that depend on other sources, weights, inputs or flags: None raises
            ValueError, which names what changed; False discards all rows.
        budget: bounds the principal measure, or measures by name. Each layer runs at the cheapest of the precisions, or
            at the current one, that the search finds within the budget, by operations and
            `einsum.precision_plan.unit_cost`. A policy is accepted only after a run within the budget, and a further
            precision never makes it more expensive. If the current flags exceed the budget, `is_met` is False and the
            policy changes nothing. None: all layers run at the fastest precision. "gradient_error", the relative change
            of all parameter gradients under the policy, is also a measure. If it is bounded, the policy sets each of a
            layer's three products, and each forward row and run of the search takes two calls of the model.
        margin: the share to leave unused of what the budget allows above the unchanged model, since other inputs have
            other errors.
        gradients: also measure the gradients of inputs and of parameters, for fixed random weights of the outputs.
            Skipped for models without parameters, for torch modules, for formats of operands, and in `no_grad()`.
        formats: further formats whose range the operands are compared with, besides bf16, fp16, e5m2 and e4m3.
        device: a name in `lab.devices.DEVICES`, or a file of measured speeds: rows, the frontier and the summary then
            have the least time of the products on it beside each error.
        progress: whether to show progress; None: on a terminal.

    Raises ValueError for unknown names and for models without such layers, RuntimeError for outputs that differ between
    calls.
    """
    module = module_of("audit", model)
    check_metric("audit", metric)
    check_executor("audit", executor)
    known = list(PRECISIONS)
    levels = find_levels("audit", precisions, roles)
    levels.sort(key=lambda level: (level.by_role, level.cost if level.by_role else known.index(level.name)))
    for each in formats:
        find_element(each)
    formats = tuple(dict.fromkeys((*_FORMATS, *formats)))
    gradients = gradients and is_grad_enabled() and model is module and isinstance(model, Module)
    searched, at = isinstance(budget, Mapping) and GRADIENT_ERROR in budget, None
    if device is not None:
        at = find_device(device)
        if any(level.by_role for level in levels):
            raise ValueError("audit(): device must be None for formats of operands, whose products it does not predict")
    trials = Trials(model, inputs, metric, levels, gradients, searched, labels, device=at)
    trials.group(groups)
    if not trials.is_repeatable():
        raise RuntimeError("audit(): two calls of the model gave different outputs; switch it to evaluation mode")
    rows = rows_of(trials, formats, Runner(trials, executor, store, reuse, progress).run)
    named = [level.name for level in levels]
    if not rows:
        of = f" of {roles}" if roles else ""
        raise ValueError(f"audit(): {named}{of} affect nothing in this {type(model).__name__}: {trials.counts}")
    measures = list(rows[0])
    measure = measures[measures.index("error") + (0 if metric is None else 1)]
    found = Audit(trials, rows, named, measure)
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
