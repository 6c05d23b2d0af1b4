"""Rules of matrix units from their answers: each profile's, random ones, and those of this CPU's libraries."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from minitorch_backends.kernels.block import tiles
from minitorch_backends.kernels.matrix_units import (
    OPERANDS,
    Aligned,
    Chain,
    Exact,
    Halves,
    Lanes,
    Tiles,
    Tree,
    TwoStage,
    definition,
    probes,
)  # fmt: skip
from minitorch_backends.kernels.matrix_units.identify import WALKS, identify
from minitorch_backends.profiles import PROFILES

from .test_matrix_units import VECTORS, operands

KINDS: dict[str, Any] = {"float32": np.float32, "float16": np.float16}


def answers(rule: Any, operand: str, promote: int = 0, results: tuple[str, ...] = ("float32",)) -> dict[str, Any]:
    """Those of a rule as a black box."""

    def ask(result: str) -> dict[str, str]:
        def product(a: list, b: list, c: list) -> list[float]:
            rows = map(np.array, (a, b, c))
            return definition(rule, operand, *rows, result=KINDS[result], promote=promote).astype(float).tolist()

        return probes.ask(product, operand, result)

    return {result: ask(result) for result in results}


def results_of(rule: Any, operand: str) -> tuple[str, ...]:
    return probes.RESULTS[operand][: 2 if isinstance(rule, Aligned | Halves) and operand != "bf16" else 1]


def assert_same_bits(rule: Any, promote: int, found: Any, operand: str, seed: int, more: Any = ()) -> None:
    """With all types of results, on random inputs and on others."""
    random = np.random.default_rng(seed)
    for kind in (KINDS[result] for result in results_of(rule, operand)):
        for spread in (1, 8, 40):
            a, b = (operands(random, operand, (400, 96), spread) for _ in "ab")
            more = [*more, (a, b, operands(random, "fp16" if kind is np.float16 else "fp32", (400,), min(spread, 12)))]
        for rows in more:
            wanted = definition(rule, operand, *rows, result=kind, promote=promote)
            got = definition(found.rule, operand, *rows, result=kind, promote=found.promote)
            np.testing.assert_array_equal(got, wanted)


OF_EACH_KIND = (
    "v100 fp16", "a100 bf16", "ada e4m3", "h100 tf32", "h100 e5m2", "mi250 bf16", "mi300 bf16", "mi300 e4m3fnuz",
)  # fmt: skip
"""All profiles and formats are found, as a loop over `PROFILES` shows in two minutes."""

UNITS = [
    (name, operand, way)
    for name, operand in sorted(map(str.split, OF_EACH_KIND), key=lambda each: each[1])  # whose probes are made once
    for way in PROFILES[name].formats[operand]
]


@pytest.mark.parametrize(("name", "operand", "way"), UNITS, ids=[f"{n} {o} {w.instruction}" for n, o, w in UNITS])
def test_the_rule_of_each_profile_is_found(name: str, operand: str, way: Any) -> None:
    """With the same bits on the published inputs of that format, and on random ones."""
    found = identify(operand, answers(way.rule, operand, way.promote_every, results_of(way.rule, operand)))
    assert type(found.rule) is type(way.rule)
    assert found.rule.length == way.rule.length
    assert_same_bits(way.rule, way.promote_every, found, operand, 1, published_inputs(operand))


def published_inputs(operand: str) -> list[tuple[np.ndarray, ...]]:
    """The inputs of published outputs, where they are beside this checkout."""
    if not Path(VECTORS).exists():
        return []
    data = np.load(VECTORS)
    keys = [key for key in data.files if key.startswith("a/") and key.split("/")[2] == operand]
    named = {tuple(str(data[key.replace("a/", f"{each}/", 1)]) for each in "abc") for key in keys}
    return [tuple(data[each].view(np.float32)[:600] for each in names) for names in sorted(named)]


def rules() -> st.SearchStrategy[Any]:
    least = st.tuples(st.integers(-150, -100), st.integers(-30, -14))
    kept, lengths = st.sampled_from(["rz32", "rz22", "rne32"]), st.sampled_from([1, 2, 4, 8, 16, 32])
    aligned = st.builds(Aligned, st.integers(8, 28), lengths, least, kept)
    halves = st.builds(Halves, st.builds(Aligned, st.integers(12, 28), st.sampled_from([4, 8, 16]), least, kept))
    order = st.sampled_from([1, 2, 4, 8]).flatmap(lambda n: st.permutations(range(n))).map(tuple)
    of_two = st.sampled_from([2, 4, 8, 16]), st.booleans(), st.integers(20, 28), st.integers(28, 36)
    two_stage = st.builds(TwoStage, *of_two)
    trees = st.builds(Tree, st.sampled_from([2, 4]))
    return st.one_of(
        aligned, halves, two_stage, trees, st.builds(Chain, order, st.booleans(), st.just(False)), st.just(Exact(2))
    )


@pytest.mark.slow
@seed(2)
@settings(max_examples=20, database=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(rules(), st.sampled_from(sorted(probes.RESULTS)), st.sampled_from([0, 0, 128]), st.integers(0, 2**32 - 1))
def test_random_rules_are_found(rule: Any, operand: str, promote: int, source: int) -> None:
    """With another seed and 200 examples in ten minutes: all of them."""
    found = identify(operand, answers(rule, operand, promote, results_of(rule, operand)))
    assert_same_bits(rule, promote, found, operand, source)


@pytest.mark.parametrize(
    ("rule", "operand", "promote"),
    [
        (TwoStage(2, fraction=20, joint=28), "bf16", 0),  # c is cut to 20 bits by each block: the last one decides
        (TwoStage(4, fraction=28, joint=28), "e4m3", 128),  # c is added outside: sums of the unit itself decide
        (TwoStage(2, apart=True, fraction=20, joint=35), "e5m2fnuz", 0),  # the first that remains misses "check"
        (Chain((1, 0)), "bf16", 0),
        (Chain((1, 0), flushes=True), "bf16", 0),  # subnormal numbers are zero
        (Aligned(8, 1, (-100, -14), "rz32"), "fp16", 0),  # float16 sums lose bits below the least exponent early
    ],
)
def test_rules_that_few_probes_tell_apart_are_found(rule: Any, operand: str, promote: int) -> None:
    found = identify(operand, answers(rule, operand, promote, results_of(rule, operand)))
    assert (found.rule, found.promote) == (rule, promote)


@pytest.mark.parametrize("rule", [Lanes(4), Lanes(8, Chain(fused=False)), Chain()])
def test_sums_in_float32_are_found_behind_results_in_float16(rule: Any) -> None:
    """Of a product that gives nothing else, and of one that gives float32 too."""

    def ask(result: str, kind: Any) -> dict[str, str]:
        def product(a: list, b: list, c: list) -> list[float]:
            found = definition(rule, "fp16", *map(np.array, (a, b, c)), promote=0)
            with np.errstate(over="ignore"):
                return found.astype(kind).astype(float).tolist()

        return probes.ask(product, "fp16", result)

    alone = identify("fp16", {"rounded": ask("rounded", np.float16)})
    both = identify("fp16", {each: ask(each, KINDS[each]) for each in KINDS})
    for found in (alone, both):
        assert type(found.rule) is type(rule)
        assert found.rule.length == rule.length
    assert "sums are made in float32" in alone.findings
    rounded = "results in float16 are those in float32, rounded" in both.findings
    assert rounded == isinstance(rule, Chain)  # lanes are always summed in float32


@pytest.mark.parametrize(
    ("rule", "operand"),
    [(Tiles(32, even=True), "bf16"), (Tiles(16), "bf16"), (Tiles(32, walk=((1, 1), (1, 0), (0, 0), (0, 1))), "tf32")],
)
def test_sums_of_tiles_are_found(rule: Any, operand: str) -> None:
    """AMX, as oneDNN and this package use it; a library that leaves tiny numbers to vectors is not refused for them."""
    right = answers(rule, operand)["float32"]
    found = identify(operand, {"float32": right})
    assert (found.rule, found.depths) == (rule, (1, 2065, 1))
    assert not any("walk" in each for each in found.findings)
    found = identify(operand, {"float32": {**right, "tiny": right["tiny"][:-8] + "40400000"}})
    assert found.rule == rule
    assert found.findings[0].startswith("all answers but 1 of 'tiny', ")


def test_parts_meet_as_in_this_package() -> None:
    assert [(each.walk) for each in (tiles.Tiles1, tiles.Tiles3, tiles.Tiles4, tiles.Tiles6)] == list(WALKS)


def test_what_no_rule_explains_is_refused() -> None:
    """Of an order that one kind of sum has: others would be searched for the parameters that explain the rest."""
    right = answers(Chain((1, 0)), "bf16")["float32"]
    for group, text, message in (
        ("order", right["order"][:-8] + "40400000", "must be those of a known kind of sum, got another order"),
        ("check", right["check"][:-8] + "40400000", "of a known rule; Chain of 2 misses 'check' in float32"),
        ("check", "", r"answers for bf16 must be to .* dot products; measure again"),
    ):
        with pytest.raises(ValueError, match=message):
            identify("bf16", {"float32": {**right, group: text}})


def test_ranges_are_those_of_the_formats() -> None:
    for name, of in probes.RANGES.items():
        format = OPERANDS[name]
        assert (of.significand, of.least) == (format.significand, format.least)
        last = of.last if of.last < 2 else 2 - 2.0 ** (1 - of.significand)
        assert last * 2.0**of.greatest == format.greatest
