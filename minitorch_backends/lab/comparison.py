"""`compare`: two captured runs, call by call."""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from ..explain.product_counts import ProductCounts
from ..explain.records import Log, Record, align_columns, as_text, as_words, frobenius_norm
from ..flags import rows
from ..kernels.runtime.context import warn_caller
from .divergence import FACTOR, Divergence, find_divergence
from .metrics import as_reals, ulps
from .runs import Run
from .torch_capture import is_product

_ABOUT = ("precision", "implementation", "dtypes", "options", "decided_by")
"""Attributes of both calls that rows report; the alignment ignores them."""

_SIMILAR = 0.1
"""Results with at most this relative difference count as similar for the alignment."""

_HEADER = ("a", "b", "status", "error", "module", "kernel", "shapes", "direction", "changed")


def compare(first: Any, second: Any) -> Comparison:
    """Align two runs that `capture` wrote, across insertions and removals, and compare the results of each call.

    Calls are aligned by module, direction, kernel and shapes, as many as possible. Instead of the path of a run or a
    `Run`, both may be values: tensors of ours or of torch, arrays and numbers, in dicts, sequences and dataclasses,
    which are compared by name. Raises ValueError for other files, for a run and values, and for two runs without a
    call; TypeError for other objects; OSError if a file does not exist.
    """
    are_runs = [isinstance(each, (str, os.PathLike, Run)) for each in (first, second)]
    if are_runs[0] != are_runs[1]:
        kinds = (type(each).__name__ for each in (first, second))
        raise ValueError(f"compare(): both must be runs, or both values, got {' and '.join(kinds)}")
    if not are_runs[0]:
        return Comparison(Run.of_values(first, "first"), Run.of_values(second, "second"))
    runs = [run if isinstance(run, Run) else Run.read(run) for run in (first, second)]
    if not any(map(len, runs)):
        raise ValueError(
            f"compare(): runs must have calls, got none in {str(runs[0].path)!r} and {str(runs[1].path)!r}; capture "
            "models of torch inside interop.torch.emulate()"
        )
    return Comparison(*runs)


def first_divergence(
    run_a: str | os.PathLike[str] | Run, run_b: str | os.PathLike[str] | Run, *, factor: float = FACTOR
) -> Divergence | None:
    """The first call whose results differ by more than precision explains, or that only one run has; None if
    all are explained.

    Errors of calls add in quadrature along a run. The explained difference at a call is `factor` times the root of the
    sum of squares of the errors of this call and the preceding ones. A call's error is that of its precisions on random
    operands, and 0 if both runs have the same bits. The output of a module counts after its calls, so that a bias, a
    norm or an activation that differs is found there. `factor` allows for layers that amplify errors. Runs of hashes
    detect differences without their size, so the first call that differs is returned.

    Calls of a module that the other run computes by other kernels, because of flags, have no counterpart. They are
    skipped, and comparison continues with the modules after them. A UserWarning names the skipped modules and kernels.
    Calls of the same kernels with other shapes are a divergence.

    The runs are files of `capture`, or results of `Run.read`. Raises ValueError for other files.
    """
    found, skipped = find_divergence(compare(run_a, run_b).calls, factor)
    if skipped:
        message = f"first_divergence(): skipped calls that the two runs compute by different kernels: {skipped}"
        warn_caller(message)
    return found


class Comparison:
    """Two runs, call by call.

    Attributes:
        first, second: the runs.
        calls: a dict for each pair of calls, or for a call of only one run, in order, with these keys:
            "a", "b": its positions in the runs, or None;
            "status": "same" (bit for bit), "differs", "removed" (only in the first) or "inserted" (only in the second);
            "error": the norm of the difference of its results relative to that of the first's, the largest of several;
            None if unknown;
            "error_from": "hash", "sketch" or "values";
            "max_abs": the largest difference of values, "max_ulp" the same in units in the last place of the second's
            dtype, and "at" the index of the former in its array;
            "changed": which of precision, implementation, dtypes, options and decided_by differ; their values have the
            suffixes "_a" and "_b";
            "module", "kernel", "shapes", "direction" and the seconds of both.
    """

    def __init__(self, first: Run, second: Run) -> None:
        self.first, self.second = first, second
        keys, others = ([_key(entry) for entry in run.log] for run in (first, second))
        self.calls = [self._call(a, b) for a, b in align(keys, others, _Similarity(first, second))]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The calls, worst first: differing ones by error, then inserted and removed ones, then equal ones."""
        return sorted(self.calls, key=_badness, reverse=True)

    def counts(self) -> dict[str, int]:
        """The number of calls of each status."""
        found = dict.fromkeys(("same", "differs", "inserted", "removed"), 0)
        for row in self.calls:
            found[row["status"]] += 1
        return found

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {status}" for status, count in self.counts().items())
        return f"<Comparison of {str(self.first.path)!r} and {str(self.second.path)!r}: {counts}>"

    def table(self, limit: int | None = None) -> str:
        """The rows as aligned text, worst first, without equal calls."""
        cells = self.cells(limit)
        text = "\n".join(align_columns(cells)) if len(cells) > 1 else "no call differs"
        return "\n".join([text, *self.remarks()])

    def remarks(self) -> list[str]:
        """A sentence for each run in which no product obeyed precision flags, where the runs' flags differ."""
        flags = [{n: v for n, v in run.about["flags"].items() if n in rows} for run in (self.first, self.second)]
        if flags[0] == flags[1]:
            return []
        counts = {name: _products_of(run) for name, run in (("first", self.first), ("second", self.second))}
        return [
            f"the flags of the runs differ; in the {name}, {each}" for name, each in counts.items() if not each.obeyed
        ]

    def cells(self, limit: int | None = None) -> list[tuple[str, ...]]:
        """The head of the table, and a line for each call that differs, worst first; of values with the largest
        difference."""
        rows = [row for row in self.rows if row["status"] != "same"][:limit]
        if all("max_abs" not in row for row in rows):
            return [_HEADER, *map(_cells, rows)]
        pairs = zip(map(_cells, rows), map(_largest, rows), strict=True)
        return [(*_HEADER[:4], "largest difference", *_HEADER[4:]), *((*c[:4], most, *c[4:]) for c, most in pairs)]

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        from ..display.html import Rows, as_html

        changed = [f"{name}: {a} -> {b}" for name, (a, b) in self.settings().items()]
        return as_html(repr(self)[1:-1], *changed, *self.remarks(), Rows(self.cells(), 3))

    def settings(self) -> dict[str, tuple[Any, Any]]:
        """Differences of machines, versions and flags between the runs: pairs of values by name."""
        sides = [{**run.about, **run.about["flags"]} for run in (self.first, self.second)]
        skipped = {"flags", "started", "seconds", "calls"}
        names = dict.fromkeys(name for side in sides for name in side if name not in skipped)
        pairs = {name: (sides[0].get(name, "unset"), sides[1].get(name, "unset")) for name in names}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}

    def to_json(self) -> str:
        """Counts, settings and rows as JSON; infinite errors as the text "inf"."""
        rows = [{name: "inf" if value == math.inf else value for name, value in row.items()} for row in self.rows]
        found = {"first": str(self.first.path), "second": str(self.second.path), "counts": self.counts()}
        return json.dumps({**found, "settings": self.settings(), "rows": rows}, indent=1)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write a self-contained HTML page with a line for each call, error bars, and filters."""
        from .pages import write_comparison

        write_comparison(self, path)

    def _call(self, a: int | None, b: int | None) -> dict[str, Any]:
        entries = [None if place is None else run.log[place] for run, place in ((self.first, a), (self.second, b))]
        either = entries[0] or entries[1]
        assert either is not None
        row: dict[str, Any] = {"a": a, "b": b, "module": either.module, "kernel": either.kernel}
        row |= {"shapes": either.shapes, "direction": either.direction}
        if a is None or b is None:
            row |= {"status": "inserted" if a is None else "removed", "error": None, "error_from": None}
        else:
            row |= self._difference(a, b)
        for side, entry in zip("ab", entries, strict=True):
            row |= {f"{name}_{side}": getattr(entry, name, None) for name in (*_ABOUT, "seconds")}
        both = None not in entries
        return row | {"changed": [name for name in _ABOUT if both and row[f"{name}_a"] != row[f"{name}_b"]]}

    def _difference(self, a: int, b: int) -> dict[str, Any]:
        """Status and error of two calls with the same key."""
        first, second = self.first.results[a], self.second.results[b]
        if [each["hash"] for each in first] == [each["hash"] for each in second] and _kinds(first) == _kinds(second):
            return {"status": "same", "error": 0.0, "error_from": "hash"}
        row: dict[str, Any] = {"status": "differs", "error": None, "error_from": "hash"}
        if _shapes(first) != _shapes(second):
            return row
        if self.first.about["results"] == self.second.about["results"] == "values":
            pairs = zip(self.first.values(a), self.second.values(b), strict=True)
            errors, *found = zip(*itertools.starmap(_exact, pairs), strict=True)
            largest, ulps, at = max(zip(*found, strict=True))
            return row | {"error": max(errors), "error_from": "values", "max_abs": largest, "max_ulp": ulps, "at": at}
        if self.first.sketches is None or self.second.sketches is None:
            return row
        sketches = zip(first, second, self.first.sketches[a], self.second.sketches[b], strict=True)
        return row | {"error": max(itertools.starmap(_estimate, sketches)), "error_from": "sketch"}


def _products_of(run: Run) -> ProductCounts:
    """The products of a run that obeyed precision flags, also of a torch program's, whose calls name no kernel."""
    found = Log(entry for entry in run.log if entry.implementation).product_counts
    for entry in run.log:
        if not entry.implementation and is_product(entry.kernel) and not entry.kernel.endswith(" operands"):
            is_single = not {"float32", "complex64"}.isdisjoint(entry.dtypes)
            found.obeyed += is_single
            found.others.update([] if is_single else [f"{entry.kernel} of {', '.join(dict.fromkeys(entry.dtypes))}"])
    return found


class _Similarity:
    """Which results are similar: equal hashes, or nearby sketches."""

    def __init__(self, first: Run, second: Run) -> None:
        self._hashes = [np.array([_hashes(each) for each in run.results]) for run in (first, second)]
        self._sketches = None
        if first.sketches is not None and second.sketches is not None:
            self._sketches = [np.array([_summary(each) for each in run.sketches or ()]) for run in (first, second)]

    def __call__(self, i: int, places: np.ndarray) -> np.ndarray:
        (first, second) = self._hashes
        found = second[places] == first[i]
        if self._sketches is not None:
            wanted, others = self._sketches[0][i], self._sketches[1][places]
            distance, size = ((others - wanted) ** 2).sum(-1), (wanted**2).sum() + (others**2).sum(-1)
            found |= distance <= _SIMILAR**2 * size / 2
        return found


def _summary(sketches: np.ndarray) -> np.ndarray:
    """Some sums of the first result, enough to tell results apart."""
    return sketches[0, :16] if len(sketches) else np.zeros(16)


def _key(entry: Record) -> tuple:
    return entry.module, entry.direction, entry.kernel, entry.shapes


def _hashes(results: list[dict[str, Any]]) -> str:
    return " ".join(each["hash"] for each in results)


def _shapes(results: list[dict[str, Any]]) -> list[Any]:
    return [each["shape"] for each in results]


def _kinds(results: list[dict[str, Any]]) -> list[tuple]:
    return [(each["shape"], each["dtype"]) for each in results]


def _exact(x: np.ndarray, y: np.ndarray) -> tuple[float, float, float, tuple[int, ...]]:
    """The relative error, the largest difference, the same in units in the last place of `y`, and its index; infinite
    if NaN or Inf are at different positions."""
    a, b = as_reals(x), as_reals(y)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.where(same, 0.0, b - a)
    width = 1 + (x.dtype.kind == "c")
    sizes = np.where(np.isfinite(difference), np.abs(difference), np.inf)
    worst = int(sizes.argmax()) // width if sizes.size else 0
    at = tuple(map(int, np.unravel_index(worst, x.shape))) if x.size else ()
    if not np.isfinite(difference).all():
        return math.inf, math.inf, math.inf, at
    finite = np.where(np.isfinite(a), a, 0.0)
    error = _ratio(frobenius_norm(difference), frobenius_norm(finite))
    finites = (np.where(np.isfinite(each), each, each.dtype.type(0)) for each in (y, x))
    return error, float(sizes.max(initial=0.0)), ulps(*finites), at


def _estimate(first: dict[str, Any], second: dict[str, Any], x: np.ndarray, y: np.ndarray) -> float:
    if (first["nan"], first["inf"]) != (second["nan"], second["inf"]) or first["norm"] is None:
        return math.inf
    return _ratio(float(np.linalg.norm(y - x)), first["norm"])


def _ratio(distance: float, size: float) -> float:
    return distance / size if size else math.inf if distance else 0.0


def _badness(row: dict[str, Any]) -> tuple[int, float]:
    order = {"differs": 2, "inserted": 1, "removed": 1, "same": 0}
    error = row["error"]
    return order[row["status"]], -1.0 if error is None else error


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    places = ("" if row[side] is None else str(row[side]) for side in "ab")
    error = "" if row["error"] is None else f"{row['error']:.2e}"
    changed = ", ".join(
        f"{name} {as_words(row[f'{name}_a'])} -> {as_words(row[f'{name}_b'])}" for name in row["changed"][:2]
    )
    described = (row["module"] or "", row["kernel"], as_text(row["shapes"]), row["direction"], changed)
    return (*places, row["status"], error, *described)


def _largest(row: dict[str, Any]) -> str:
    if "max_abs" not in row:
        return ""
    place = ", ".join(map(str, row["at"]))
    return f"{row['max_abs']:.3g} at [{place}]; up to {row['max_ulp']:.3g} ulp"


# Alignment of two sequences of calls with insertions and removals: a longest common subsequence.
# Calls match if their keys are equal. Among all longest alignments the one that pairs most similar results is chosen,
# so that an insertion into a row of equal calls does not shift the pairs. Method: D. S. Hirschberg, "A linear space
# algorithm for computing maximal common subsequences", 1975. The first half of one sequence is scored against each
# prefix of the other, the second half against each suffix, and the best cut divides the problem.


Similar = Callable[[int, np.ndarray], np.ndarray]
"""A predicate: which results of the second run, at these positions, are similar to one result of the first."""


def align(
    first: Sequence[Hashable], second: Sequence[Hashable], similar: Similar
) -> list[tuple[int | None, int | None]]:
    """Pairs of positions in both sequences, in order; None marks a call without a counterpart."""
    matches = _Aligner(first, second, similar).matches()
    pairs: list[tuple[int | None, int | None]] = []
    i = j = 0
    for a, b in [*matches, (len(first), len(second))]:
        pairs += [(place, None) for place in range(i, a)]
        pairs += [(None, place) for place in range(j, b)]
        if a < len(first):
            pairs.append((a, b))
        i, j = a + 1, b + 1
    return pairs


class _Aligner:
    """The keys as numbers, and the weights of matches."""

    def __init__(self, first: Sequence[Hashable], second: Sequence[Hashable], similar: Similar) -> None:
        numbers: dict[Hashable, int] = {}
        self._first, self._second = (
            np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64) for keys in (first, second)
        )
        self._similar = similar
        self._match = min(len(first), len(second)) + 1
        """The weight of a match: more than all similarities together."""

    def _weights(self, i: int, low: int, high: int) -> np.ndarray:
        """The weights of matching call i of the first sequence with calls low to high of the second."""
        weights = np.zeros(high - low, np.int64)
        equal = np.flatnonzero(self._second[low:high] == self._first[i])
        if equal.size:
            weights[equal] = self._match + self._similar(i, equal + low)
        return weights

    def _matches_best(self, i: int, j: int) -> bool:
        return self._weights(i, j, j + 1)[0] > self._match

    def matches(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        left = [(0, len(self._first), 0, len(self._second))]
        while left:
            a, a_end, b, b_end = left.pop()
            while a < a_end and b < b_end and self._matches_best(a, b):
                found.append((a, b))
                a, b = a + 1, b + 1
            while a < a_end and b < b_end and self._matches_best(a_end - 1, b_end - 1):
                a_end, b_end = a_end - 1, b_end - 1
                found.append((a_end, b_end))
            if a == a_end or b == b_end:
                continue
            if a_end - a == 1:
                weights = self._weights(a, b, b_end)
                if weights.any():
                    found.append((a, b + int(weights.argmax())))
                continue
            middle = (a + a_end) // 2
            before = self._scores(range(a, middle), b, b_end, 1)
            after = self._scores(range(a_end - 1, middle - 1, -1), b, b_end, -1)
            cut = b + int((before + after[::-1]).argmax())
            left += [(a, middle, b, cut), (middle, a_end, cut, b_end)]
        return sorted(found)

    def _scores(self, rows: range, low: int, high: int, step: int) -> np.ndarray:
        """The greatest weight of an alignment of these rows with each prefix (or suffix, for step -1) of the
        columns."""
        scores = np.zeros(high - low + 1, np.int64)
        for i in rows:
            weights = self._weights(i, low, high)[::step]
            scores[1:] = np.maximum.accumulate(np.maximum(scores[1:], scores[:-1] + weights))
        return scores
