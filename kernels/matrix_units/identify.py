"""The rule of a matrix unit from its answers to probes: by elimination among the rules that `rules` can describe.

The answers to "order" select the shapes of a rule: how many products are summed at once, in which order, and whether
c is among them. Each parameter is then tried at every value, and those are left whose definition gives all answers.
Nothing is read from an answer by hand, so a rule is found only if it explains every one; "check" decides at last.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..runtime.first_use import load
from .probes import ADDED_TO_NOTHING, DEPTHS, PLACES, RANGES, UNALIGNED, probes
from .products import definition
from .rules import Aligned, Chain, Exact, Halves, Lanes, Rule, Tiles, Tree, TwoStage

_SUMS = {"rounded": (np.float32, np.float16), "float16": (np.float16, np.float32)}
"""In which type results in float16 may be summed."""

_LEAST, _NO_LEAST = (-133, -21), -298
WALKS = (
    ((0, 0),), ((1, 0), (0, 0), (0, 1)), ((1, 1), (1, 0), (0, 0), (0, 1)),
    ((2, 0), (1, 0), (1, 1), (0, 1), (0, 0), (0, 2)),
)  # fmt: skip
"""How parts meet in this package's tiles at bf16, bf16x3, tf32 and fp16, bf16x6."""

_AT_THE_END = 1 << 20
"""The value of `promote` for units that add c to the sum of all products."""


class Found(NamedTuple):
    """A rule that gives all answers.

    Attributes:
        rule: the rule.
        promote: after how many places sums are added to an fp32 number outside of it; 0 for never.
        findings: what each group of probes showed, and which values it could not tell apart.
        depths: start, stop and step of the range of K for which the rule is shown; () if one K was asked.
        halve_to: the multiple at which a rest of less than two times `promote` places is halved; 0 for never.
    """

    rule: Rule
    promote: int
    findings: tuple[str, ...]
    depths: tuple[int, ...] = ()
    halve_to: int = 0


def identify(name: str, answers: dict[str, dict[str, str]]) -> Found:
    """The rule for a format (a key of `RANGES`) from answers to `probes`, by type of results.

    Raises ValueError if no rule gives them, which names the probes that each shape misses.
    """
    main = next(result for result in ("float32", "bfloat16", "rounded", "float16") if result in answers)
    halves = (
        _Asked(name, "float16", answers["float16"], np.float16) if main != "float16" and "float16" in answers else None
    )
    missed = []
    for sums in _SUMS.get(main, (np.float32,)):
        asked = _Asked(name, main, answers[main], sums)
        shapes = list(_shapes(asked))
        for rule, promote in shapes:
            try:
                left = _remaining(asked, halves, rule, promote)
            except _Unexplained as group:
                missed.append(f"{type(rule).__name__} of {rule.length} misses {group}")
                continue
            promote = _restarts(asked, left[0], promote)  # usual values stand first
            found = max(_along_k(asked, left[0], promote), key=lambda each: len(range(*each.depths or (0,))))
            findings = _findings(asked, halves, found, left, shapes)
            return found._replace(findings=(*findings, *found.findings))
    what = f"rule; {', '.join(dict.fromkeys(missed))}" if missed else "kind of sum, got another order"
    raise ValueError(f"identify(): answers for {name} must be those of a known {what}")


class _Unexplained(Exception):
    """No value of a shape's parameters gives the answers to this group of probes."""


class _Asked:
    """Probes of a format with results of a type, and the answers."""

    def __init__(self, name: str, result: str, answers: dict[str, str], sums: Any) -> None:
        self.name, self.result, self.sums = name, result, sums
        self.rows = _rows(name, result)
        self.answers = {
            group: np.frombuffer(bytes.fromhex(text), ">f4").astype(np.float64) for group, text in answers.items()
        }
        sizes = {group: len(rows[2]) for group, rows in self.rows.items()}
        if sizes != {group: len(values) for group, values in self.answers.items()}:
            raise ValueError(f"identify(): answers for {name} must be to {sizes} dot products; measure again")

    def differences(self, rule: Rule, promote: int, group: str, part: slice = slice(None), halve_to: int = 0) -> int:
        """How many answers of a group a rule does not give."""
        a, b, c = (each[part] for each in self.rows[group])
        with np.errstate(over="ignore", invalid="ignore"):
            found = definition(rule, self.name, a, b, c, result=self.sums, promote=promote, halve_to=halve_to)
            if self.result == "bfloat16":
                found = found.astype(load("ml_dtypes").bfloat16)
            elif self.result != "float32":
                found = found.astype(np.float16)
            found = found.astype(np.float64)
        wanted = self.answers[group][part]
        return int(np.count_nonzero((found != wanted) & ~(np.isnan(found) & np.isnan(wanted))))

    def gives(self, rule: Rule, promote: int, group: str, halve_to: int = 0) -> bool:
        """Whether a rule gives all answers of a group; some of them first, as most rules miss those."""
        parts = slice(None, None, 16), slice(None)
        return not any(self.differences(rule, promote, group, part, halve_to) for part in parts)


@functools.lru_cache(8)
def _rows(name: str, result: str) -> dict[str, tuple[np.ndarray, ...]]:
    found = {group.name: tuple(map(np.array, zip(*group.rows, strict=True))) for group in probes(name, result)}
    if result in ADDED_TO_NOTHING:
        found = {group: (a, b, np.zeros_like(c)) for group, (a, b, c) in found.items()}
    return found


# Shapes


def _shapes(asked: _Asked) -> Iterator[tuple[Rule, int]]:
    """Rules with usual parameters that order their terms as the answers say, and where sums leave the unit."""
    lengths = (1, 2, 4, 8, 16, 32, 64)
    rules: list[Rule] = [Chain(order) for order in sorted({*_orders(asked)}, key=len)]
    rules += [Tree(2), Tree(4), *map(Exact, lengths[1:]), *map(Lanes, lengths[1:]), *map(Tiles, lengths[3:])]
    rules += [Aligned(24, length, _LEAST) for length in lengths]
    rules += [Halves(Aligned(25, length, _LEAST)) for length in lengths[1:6]]
    rules += [TwoStage(length) for length in lengths] + [TwoStage(length, apart=True) for length in lengths[1:]]
    for rule in rules:
        yield from ((rule, promote) for promote in (0, _AT_THE_END) if asked.gives(rule, promote, "order"))


def _restarts(asked: _Asked, rule: Rule, promote: int) -> int:
    """After how many places the unit starts anew, by the sums of long rows; where that is not regular, up to where the
    rule holds."""
    if "depth" not in asked.answers:
        return promote
    a, b, _ = asked.rows["depth"]
    pairs, ends = np.split(asked.answers["depth"] / (a[0, -1] * b[0, -1]), [a.shape[1] // 16])
    drops = np.flatnonzero(np.diff(pairs) > 0) * 16 + 16
    if isinstance(rule, Lanes):  # the first place meets those of its lane along it, those of other blocks after all
        steps = np.diff(ends[: a.shape[1] // PLACES - 1], prepend=a.shape[1] - 1)
        drops = np.flatnonzero(steps < -PLACES // 2) * PLACES + PLACES
    first = int(drops[0]) if len(drops) else promote
    periods = dict.fromkeys((promote, first, 128, 64, 256, 512, 1024))
    return next((at for at in periods if asked.gives(rule, at, "depth")), first)


def _along_k(asked: _Asked, rule: Rule, promote: int) -> Iterator[Found]:
    """The ways in which libraries cut the end of K, each with the range of K for which it gives all answers; none after
    one that gives them for all."""
    if isinstance(rule, Lanes):
        short = {f"K = {depth}" for depth in UNALIGNED if depth <= (promote or depth)} & asked.answers.keys()
        unrolled = (rule._replace(unroll=unroll) for unroll in (1, 2, 4, 8))
        rule = next((each for each in unrolled if all(asked.gives(each, promote, group) for group in short)), rule)
    ways = [(rule, 0)]
    if isinstance(rule, Tiles):
        ways.append((rule._replace(even=True), 0))
    elif 1 < promote < _AT_THE_END:
        length = 1 if isinstance(rule, Lanes) else rule.length
        ways += [(rule, multiple) for multiple in (-1, 1, 2, 4, 8, 16, 32, 64) if multiple % length == 0]
    for way, halve_to in ways:
        depths, words = _depths(asked, way, promote, halve_to)
        yield Found(way, promote, tuple(words), depths, halve_to)
        if not depths or depths == (1, DEPTHS[-1] + 1, 1):
            return


def _depths(asked: _Asked, rule: Rule, promote: int, halve_to: int) -> tuple[tuple[int, ...], list[str]]:
    """The range of K for which a rule gives all answers, and in words: from `PLACES` both ways to the first K that it
    misses, in steps of 16 where it misses another K."""
    if f"K = {DEPTHS[0]}" not in asked.answers:
        return (), []

    def gives(depth: int) -> bool:
        return asked.gives(rule, promote, f"K = {depth}", halve_to)

    shorter, longer = ([*itertools.takewhile(gives, side)] for side in (
        [depth for depth in reversed(DEPTHS) if depth < PLACES], [depth for depth in DEPTHS if depth > PLACES]
    ))  # fmt: skip
    first, last = min(shorter, default=PLACES), max(longer, default=PLACES)
    whole = first == DEPTHS[0]
    inside = [depth for depth in UNALIGNED if (whole or depth > first) and depth < last]
    wrong = [depth for depth in inside if f"K = {depth}" not in asked.answers or not gives(depth)]
    step = 1 if {*inside} - {*wrong} and max(wrong, default=0) < first else 16
    first = 1 if whole and inside and not wrong else first
    every = "" if step == 1 or first == last else f" in steps of {step}"
    words = [f"the rule is shown for K = {first}" + (f" to {last}{every}" if first < last else "")]
    if beyond := [depth for depth in DEPTHS if depth > last][:1]:
        words.append(f"sums of K = {beyond[0]} are made otherwise")
    return (first, last + 1, step), words


def _orders(asked: _Asked) -> Iterator[tuple[int, ...]]:
    """The orders of a block's places that a chain would have: by what is lost after c, and between two places."""
    unit = asked.rows["order"][0][0, -1] * asked.rows["order"][1][0, -1]
    lost = PLACES - asked.answers["order"] / unit
    pairs, after_c = lost[:-PLACES], lost[-PLACES:]
    of_pair = np.full((32, 32), np.inf)
    of_pair[np.triu_indices(32, 1)] = pairs
    of_places = np.argsort(np.minimum(of_pair, of_pair.T).min(0), kind="stable")
    swapped = of_places[[1, 0, *range(2, 32)]]  # the sum of the first two is the same in both orders
    for order in (np.argsort(after_c[:32], kind="stable"), of_places, swapped):
        for length in (1, 2, 4, 8, 16, 32):
            blocks = order.reshape(-1, length)
            if np.array_equal(blocks, blocks[0] + length * np.arange(len(blocks))[:, None]):
                yield tuple(map(int, blocks[0]))
                break


# Parameters


def _variants(rule: Rule, name: str) -> list[Rule]:
    """A shape with every value of its parameters but the least exponents, for a format."""
    if isinstance(rule, Aligned):
        kept = ("rz32", "rz22", "rne32")
        fractions = dict.fromkeys((rule.fraction, *range(1, 61)))
        return [rule._replace(fraction=fraction, kept=each) for each in kept for fraction in fractions]
    if isinstance(rule, Halves):
        return [Halves(by) for by in _variants(rule.by, name)]
    if isinstance(rule, TwoStage):
        fractions, joints = (dict.fromkeys((usual, *range(18, 41))) for usual in (rule.fraction, rule.joint))
        return [rule._replace(fraction=fraction, joint=joint) for fraction in fractions for joint in joints]
    if isinstance(rule, Lanes):
        return [rule._replace(by=by) for by in _variants(rule.by, name)]
    if isinstance(rule, Tiles):
        return [rule._replace(walk=walk) for walk in WALKS[: len(WALKS) if RANGES[name].significand > 8 else 1]]
    if isinstance(rule, Chain):
        return [rule._replace(fused=fused, flushes=flushes) for flushes in (False, True) for fused in (True, False)]
    return [rule]


def _remaining(asked: _Asked, halves: _Asked | None, rule: Rule, promote: int) -> list[Rule]:
    """A shape with all values of its parameters that give all answers."""
    left = _eliminate(asked, _variants(rule, asked.name), promote, ("cut", "near", "wide"))
    half = asked.sums is np.float16
    left = _eliminate(
        asked, [each for one in left for each in _with_least(one, half)], promote, ("tiny", "check"),
        forgiven="tiny" * isinstance(rule, Tiles),  # libraries leave products of tiny numbers to vectors
    )  # fmt: skip
    if halves is None:
        return left
    # sums of small numbers lose bits below the least exponent, so that it is tried from the first group on
    both = [each for one in dict.fromkeys(map(_without_least, left)) for each in _with_least(one, True)]
    try:
        both = _eliminate(halves, both, promote, _GROUPS)
    except _Unexplained:  # of a library that rounds sums in float32
        return left
    if not isinstance(rule, Aligned | Halves):
        return both
    pairs = [(one, each) for one in left for each in both if _without_least(one) == _without_least(each)]
    return [_replace_least(one, (_least_of(one)[0], _least_of(each)[1])) for one, each in pairs]


_GROUPS = ("cut", "near", "wide", "tiny", "check")


def _eliminate(
    asked: _Asked, rules: list[Rule], promote: int, groups: tuple[str, ...], forgiven: str = ""
) -> list[Rule]:
    """Those that give all answers of these groups, the one that is forgiven if any does. Raises `_Unexplained` with
    another group that none of them gives."""
    for group in groups:
        left = [rule for rule in rules if asked.gives(rule, promote, group)]
        if not left and group != forgiven:
            raise _Unexplained(f"'{group}' in {asked.result}")
        rules = left or rules
    return rules


def _least_of(rule: Any) -> tuple[int, int]:
    return rule.by.least if isinstance(rule, Halves) else rule.least


def _replace_least(rule: Any, least: tuple[int, int]) -> Any:
    return Halves(rule.by._replace(least=least)) if isinstance(rule, Halves) else rule._replace(least=least)


def _without_least(rule: Rule) -> Rule:
    return _replace_least(rule, _LEAST) if isinstance(rule, Aligned | Halves) else rule


def _with_least(rule: Rule, half: bool) -> list[Rule]:
    """A rule with every least exponent, the usual one first."""
    if not isinstance(rule, Aligned | Halves):
        return [rule]
    usual = _least_of(rule)
    values = [-21, -20, _NO_LEAST, *range(-60, 0)] if half else [-133, -132, _NO_LEAST, *range(-170, -60)]
    return [_replace_least(rule, (usual[0], at) if half else (at, usual[1])) for at in dict.fromkeys(values)]


# In words


def _findings(
    asked: _Asked, halves: _Asked | None, found: Found, left: list[Rule], shapes: list[tuple[Rule, int]]
) -> Iterator[str]:
    chosen, promote, halve_to = found.rule, found.promote, found.halve_to
    counts = ", ".join(f"{name} {len(values)}" for name, values in asked.answers.items() if name[0] != "K")
    wrong = asked.differences(chosen, promote, "tiny")
    but = f" but {wrong} of 'tiny', products of numbers near the least, which are summed otherwise" if wrong else ""
    yield f"all answers{but} are the rule's ({counts})"
    if asked.result in ("float16", "rounded"):
        yield f"sums are made in {np.dtype(asked.sums).name}"
    if halves and not all(halves.gives(chosen, promote, group) for group in _GROUPS):
        halves.sums = np.float32
        same = all(halves.gives(chosen, promote, group) for group in _GROUPS)
        yield f"results in float16 {'are those in float32, rounded' if same else 'follow another rule'}"
    others = {type(rule).__name__ for rule, _ in shapes} - {type(chosen).__name__}
    if others:
        yield f"sums in the order of {', '.join(sorted(others))}, too; other probes tell them apart, or nothing does"
    if promote and promote != _AT_THE_END:
        places = asked.rows["depth"][0].shape[1]
        of_products = slice(places // 16 + places // PLACES - 1)
        halved = f"; less than two times as many are halved, to a multiple of {halve_to}" * (halve_to > 0)
        halved += "; K between one and two times as many makes two equal blocks" * (halve_to < 0)
        yield f"sums start anew after {promote} places{halved}"
        differs = asked.differences(chosen, promote, "depth", of_products, halve_to)
        if not differs and asked.differences(chosen, promote, "depth", halve_to=halve_to):
            yield f"c is added at another time, so that with c the rule holds up to K = {promote}"
    elif "depth" in asked.answers:
        yield f"sums do not start anew up to K = {asked.rows['depth'][0].shape[1]}"
    for field in getattr(chosen, "by", chosen)._fields:
        values = {repr(getattr(getattr(rule, "by", rule), field)) for rule in left}
        if len(values) > 1:
            yield f"{field} is undetermined: {len(values)} values give all answers"
