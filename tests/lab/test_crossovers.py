"""Measured crossovers of products: the threshold of known times, what noise leaves, and runs that are interrupted."""

import json
import math

import pytest

from minitorch_backends.kernels.block import tuning, tuning_file
from minitorch_backends.kernels.gemm import compiled
from minitorch_backends.kernels.runtime import cpu
from minitorch_backends.lab import crossovers as module
from minitorch_backends.lab.crossovers import Crossover, Point, crossovers, fit, measure

VALUES = (10_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
PATH = tuple(Point(value, value, 1, 1) for value in VALUES)
FIRST = Crossover("avx2", "exact_products", "blas", "avx2", False, ("float32", "ieee"), PATH)


def points(ratio, path=PATH):
    """Times of a way below that is `ratio(value)` times as fast as the one above."""
    return [(point, 1.0, ratio(point.value)) for point in path]


def test_the_threshold_lies_where_the_faster_way_changes():
    found = fit(FIRST, points(lambda value: 2.0 if value < 200_000 else 0.5))
    assert found.value == round(math.sqrt(100_000 * 300_000), -3)
    assert found.gain == pytest.approx(2 ** (1 / 6))
    rows = FIRST._replace(field="rows_most", last=True, path=tuple(Point(m, m, 9, 9) for m in (8, 16, 32, 64)))
    assert fit(rows, points(lambda m: 2.0 if m <= 16 else 0.5, rows.path)).value == round(math.sqrt(16 * 32))


def test_noise_leaves_the_built_in_threshold():
    noisy = dict(zip(VALUES, (3.0, 2.0, 0.97, 1.04, 0.5, 0.4), strict=True))
    found = fit(FIRST, points(noisy.get))
    assert (found.value, found.gain) == (tuning.default("avx2").exact_products, 1.0)


def test_a_way_that_always_wins_moves_the_threshold_to_an_end_of_the_path():
    assert fit(FIRST, points(lambda value: 0.5)).value == VALUES[0]
    assert fit(FIRST, points(lambda value: 2.0)).value == VALUES[-1] + 1
    beyond = FIRST._replace(field="narrow_products")  # 16,000,000, outside of the path: nothing is known of it there
    assert fit(beyond, points(lambda value: 2.0)).value == tuning.default("avx2").narrow_products
    assert fit(FIRST, []).value == tuning.default("avx2").exact_products


def test_an_interrupted_run_goes_on(tmp_path, monkeypatch):
    raced = []

    def race(crossover, point, rounds):
        if len(raced) == 4:
            raise KeyboardInterrupt
        raced.append(point)
        return [1.0, 2.0]

    monkeypatch.setattr(module, "_race", race)
    partial = tmp_path / "some" / "tuning.partial"
    with pytest.raises(KeyboardInterrupt):
        measure([FIRST], partial, 3)
    monkeypatch.setattr(module, "_race", lambda crossover, point, rounds: raced.append(point) or [1.0, 2.0])
    told = []
    (found,) = measure([FIRST], partial, 3, told.append)
    assert raced == list(PATH)
    assert told == ["avx2.exact_products"] * len(PATH)
    assert found.points == tuple((point, 1.0, 2.0) for point in PATH)
    key = f"{FIRST.name} {PATH[0].value} 3"
    damaged = ["{", "[]", "[" * 100_000, " " * (2 << 20) + "{}"]
    damaged += [json.dumps({key: times}) for times in ([1.0], "no", 3, [0, 1])]
    for number, text in enumerate(damaged, 2):
        partial.write_text(text)
        measure([FIRST], partial, 3)
        assert raced == list(PATH) * number


def test_all_that_can_be_measured_is_in_the_table():
    found = crossovers()
    assert {each.field for each in found} <= set(tuning_file.MEASURED)
    assert len({each.name for each in found}) == len(found)
    for each in found:
        values = [point.value for point in module.path_of(each)]
        assert values == sorted(set(values))


@pytest.mark.skipif(cpu.refusal("avx2") is not None, reason="no loops here beside those of any CPU")
def test_ways_race_whatever_they_refuse():
    isa = compiled.vector_isa()
    small = Point(512, 8, 8, 8)
    of_threads = Crossover(isa, "spread_microseconds", "1 thread", "all threads", False, ("float32", "ieee"), ())
    before = tuning.tuning(isa)
    for below, above in (("blas", "small"), ("blas", isa)):
        each = Crossover(isa, "exact_products", below, above, False, ("float32", "ieee"), (small,))
        assert all(0 < time < 1e6 for time in module._race(each, small, 1))
    assert len(module._race(of_threads, Point(3, 48, 48, 48), 1)) == 2
    assert tuning.tuning(isa) is before
