"""Plans beside contracting: precisions of steps, their errors, objectives, other packages' paths, files."""

from __future__ import annotations

import itertools
import json
import math
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import opt_einsum
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitorch_backends as mt
from minitorch_backends import backends
from minitorch_backends.backends.strategies import STRATEGIES
from minitorch_backends.kernels.precisions.products import PRECISIONS
from minitorch_backends.ops.einsum import paths as einsum_paths

CHAIN = "ab,bc,cd,de->ae"
SHAPES = ((60, 50), (50, 80), (80, 40), (40, 70))
LATTICE = "ab,bcd,ce,afg,dghi,ehj,fk,ikl,jl->"


pytestmark = pytest.mark.usefixtures("default_flags")


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def chain() -> list[mt.Tensor]:
    return [mt.tensor(normal(*shape, seed=index)) for index, shape in enumerate(SHAPES)]


def error(plan: Any, tensors: list[mt.Tensor], precision: Any) -> float:
    exact = plan.run(*(tensor.double() for tensor in tensors)).numpy()
    found = plan.run(*tensors, precision=precision).numpy()
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


# Precisions


def test_each_step_runs_at_its_precision() -> None:
    tensors, plan = chain(), mt.einsum_plan(CHAIN, *SHAPES, strategy=[(0, 1)] * 3)
    with mt.explain.record() as log:
        found = plan.run(*tensors, precision=["bf16", None, "tf32"])
    assert [entry.precision for entry in log] == ["bf16", "ieee", "tf32"]
    first = mt.einsum("ab,bc->ac", *tensors[:2], precision="bf16")
    second = mt.einsum("cd,de->ce", *tensors[2:])
    np.testing.assert_array_equal(found.numpy(), mt.einsum("ac,ce->ae", first, second, precision="tf32").numpy())
    with mt.explain.record() as log, backends.flags(fp32_precision="bf16x3"):
        plan.run(*tensors, precision=["ieee", None, "tf32"])
    assert [entry.precision for entry in log] == ["ieee", "bf16x3", "tf32"]
    sliced = plan.slice_labels({26: 30, 28: 80, 30: 40})  # a in 2; c stays; e in 2
    with mt.explain.record() as log:
        again = sliced.run(*tensors, precision=["bf16", None, "tf32"])
    assert [entry.precision for entry in log] == ["bf16", "ieee", "tf32"] * sliced.slicing.count
    np.testing.assert_allclose(again.numpy(), found.numpy(), rtol=1e-3, atol=1e-2)
    assert plan.execute(*tensors, precision=["bf16", None, "tf32"]).numpy().tobytes() == found.numpy().tobytes()
    for wrong, message in ((["tf32"], "one entry for each of the 3 steps, got 1"), ("fp8", "'fp8' is not a precision")):
        with pytest.raises(ValueError, match=message):
            plan.run(*tensors, precision=wrong)


def test_gradients_after_a_precision_per_step_follow_the_flags() -> None:
    tensors, plan = chain(), mt.einsum_plan(CHAIN, *SHAPES)
    tensors[0].requires_grad_()
    loss = plan.run(*tensors, precision=["bf16"] * 3).sum()
    with mt.explain.record() as log, backends.flags(fp32_precision="tf32"):
        loss.backward()
    assert {entry.precision for entry in log} == {"tf32"}


@pytest.mark.parametrize("slices", [None, {"a": 3, "c": 4}])
def test_estimates_are_near_measured_errors(slices: Any) -> None:
    tensors, plan = chain(), mt.einsum_plan(CHAIN, *SHAPES, slices=slices)
    names = ["bf16", "tf32", "bf16x3"]
    mixed = itertools.product(names, repeat=3)
    for precision in (*names, *mixed):
        assert error(plan, tensors, precision) == pytest.approx(plan.error_estimate(precision), rel=0.08)
    for precision in ("ieee", "bf16x9"):  # which depend on how kernels add
        assert 0.3 < error(plan, tensors, precision) / plan.error_estimate(precision) < 1.5
    with backends.flags(fp32_precision="tf32"):
        assert plan.error_estimate() == plan.error_estimate([None] * 3) == plan.error_estimate("tf32")
        tf32 = plan.error_estimate()
        backends.tf32_rounding = "rz"
        assert plan.error_estimate() > 1.5 * tf32


def test_lower_within_is_the_cheapest_choice() -> None:
    from minitorch_backends.ops.einsum.precision_plan import step_error, unit_cost

    tensors, plan = chain(), mt.einsum_plan(CHAIN, *SHAPES)
    names = ["bf16", "tf32", "bf16x3", "ieee"]
    costs = {"bf16": 1.0, "tf32": 2.5, "bf16x3": 3.5, "ieee": 4.0}
    for weights, budget in itertools.product((None, costs), (5e-3, 2.5e-3, 5e-4, 1e-5, 1e-6)):
        weight = unit_cost if weights is None else weights.__getitem__
        choices = {}
        for choice in itertools.product(names, repeat=3):
            pairs = list(zip(plan.steps, choice, strict=True))
            if math.hypot(*(step_error(step, name) for step, name in pairs)) <= budget:
                choices[choice] = sum(step.flops * weight(name) for step, name in pairs)
        found = plan.lower_within(budget, names, weights)
        assert choices[found] == min(choices.values())
        assert error(plan, tensors, found) <= 1.08 * budget
    assert set(plan.lower_within(1.0)) == {"bf16"}
    assert set(plan.lower_within(1.0, [*PRECISIONS])) != {"bf16"}  # narrower ones, whose range is smaller
    with pytest.raises(ValueError, match=r"budget must be at least 0.00407, the least error .*, got 0.001"):
        plan.lower_within(1e-3, ["bf16"])
    for wrong in (-1.0, math.nan):
        with pytest.raises(ValueError, match=r"budget must be a non-negative relative error, got (-1\.0|nan)"):
            plan.lower_within(wrong)


def test_lower_within_of_many_steps() -> None:
    sizes = [20 + 3 * (index % 7) for index in range(27)]
    equation = ",".join(f"{chr(97 + i)}{chr(98 + i)}" for i in range(25)) + "->az"
    plan = mt.einsum_plan(equation, *itertools.pairwise(sizes[:26]), strategy="greedy")
    found = plan.lower_within(6e-3)
    assert plan.error_estimate(found) <= 6e-3
    assert len(set(found)) > 1


# Objectives


def test_objectives() -> None:
    shapes = [(6,) * len(term) for term in LATTICE.removesuffix("->").split(",")]
    aims = "flops", "size", "write", "combo"
    plans = {aim: mt.einsum_plan(LATTICE, *shapes, strategy="dp", minimize=aim) for aim in aims}
    costs = {
        "flops": lambda plan: plan.flops,
        "size": lambda plan: plan.largest_intermediate,
        "write": lambda plan: plan.writes,
        "combo": lambda plan: plan.flops + 64 * plan.writes,
    }
    for aim, cost in costs.items():
        least = min(map(cost, plans.values()))
        assert least <= cost(plans[aim]) <= (1.1 if aim in ("flops", "combo") else 1) * least  # dp counts products once
        assert "minimizing" in repr(plans[aim]) or aim == "flops"
    for strategy in ("dp", "random-greedy", "auto-hq"):
        assert costs["write"](mt.einsum_plan(LATTICE, *shapes, strategy=strategy, minimize="write")) > 0
    step = mt.einsum_plan("ij,jk->ik", (np.int64(8), 9), (9, 10)).steps[0]
    assert step.intensity == 2 * 8 * 9 * 10 / (8 * 9 + 9 * 10 + 8 * 10)
    assert mt.einsum_plan("ij,jk,k->i", (8, 9), (9, 10), (10,), strategy=[(0, 1), (0, 1)]).writes == 80 + 8
    with pytest.raises(ValueError, match="minimize must be one of 'flops', 'size', 'write', 'combo', got 'time'"):
        mt.einsum_plan(LATTICE, *shapes, minimize="time")
    for strategy in ("greedy", None, [(0, 1)]):
        with pytest.raises(ValueError, match="minimize='size' needs a strategy that can minimize it"):
            mt.einsum_plan(LATTICE, *shapes, strategy=strategy, minimize="size")


# Paths of others


def test_paths_of_opt_einsum_and_cotengra_are_taken() -> None:
    tensors = [tensor.double() for tensor in chain()]
    path, info = opt_einsum.contract_path(CHAIN, *SHAPES, shapes=True)
    expected = mt.einsum(CHAIN, *tensors)
    assert mt.einsum_plan(CHAIN, *SHAPES, strategy=info).path == tuple(path)
    np.testing.assert_allclose(mt.einsum(CHAIN, *tensors, strategy=info).numpy(), expected.numpy())
    cotengra = pytest.importorskip("cotengra", reason="the package cotengra is an extra")
    tree = cotengra.array_contract_tree(CHAIN[:11].split(","), "ae", shapes=SHAPES)
    backends.opt_einsum.strategy = tree
    assert mt.einsum_plan(CHAIN, *SHAPES).path == tuple(tree.get_path())
    np.testing.assert_allclose(mt.einsum(CHAIN, *tensors).numpy(), expected.numpy())


def test_plans_take_letters_beyond_ascii() -> None:
    a, b = mt.tensor(normal(3, 4)), mt.tensor(normal(4, 5))
    plan = mt.einsum_plan("éλ,λŋ->ŋé", a, b, slices={"λ": 2})
    np.testing.assert_allclose(plan.run(a, b).numpy(), (a.numpy() @ b.numpy()).T, rtol=1e-5, atol=1e-6)
    assert "éλ,λŋ->ŋé" in repr(plan)
    count = 200  # more labels than letters of ASCII
    equation = ",".join(chr(192 + i) + chr(193 + i) for i in range(count)) + "->" + chr(192) + chr(192 + count)
    matrices = [mt.tensor(normal(2, 2, seed=i, dtype=np.float64)) for i in range(count)]
    found = mt.einsum_plan(equation, *matrices, strategy="greedy").run(*matrices)
    np.testing.assert_allclose(found.numpy(), np.linalg.multi_dot([each.numpy() for each in matrices]), rtol=1e-8)
    with pytest.raises(RuntimeError, match="'1' at index 1"):
        mt.einsum_plan("é1", a)


# Files


@pytest.mark.parametrize("options", [{}, {"slices": {"a": 3}}, {"memory_limit": 30_000, "slices": "auto"}])
def test_plans_are_kept_as_json_and_pickled(options: dict[str, Any], tmp_path: Path) -> None:
    tensors = chain()
    plan = mt.einsum_plan(CHAIN, *SHAPES, strategy="dp", **options)
    expected = plan.run(*tensors).numpy()
    for again in (type(plan).from_json(plan.to_json()), pickle.loads(pickle.dumps(plan))):
        assert again.run(*tensors).numpy().tobytes() == expected.tobytes()
        names = ("path", "strategy", "flops", "writes", "peak_elements", "memory_limit", "slices")
        assert all(getattr(again, name) == getattr(plan, name) for name in names)
        assert again.to_json() == plan.to_json()


def test_json_of_others_is_refused() -> None:
    written = json.loads(mt.einsum_plan(CHAIN, *SHAPES, slices={"a": 3}).to_json())
    changes = [
        {"format": 2}, {"path": [[0, 1]]}, {"path": [[0, "1"]]}, {"shapes": [[2]]}, {"output": [7]}, {"minimize": "x"},
        {"memory_limit": "1"}, {"slices": "x"}, {"blocks": [[1]]}, {"inputs": None}, {"strategy": "x"},
        {"inputs": [[-1, 2], [2, 3], [3, 4], [4, 5]]},
    ]  # fmt: skip
    texts = [json.dumps({**written, **change}) for change in changes]
    for text in (*texts, "", "[]", "{}", "null", written):
        with pytest.raises(ValueError, match=r"Plan.from_json\(\): text must be what Plan.to_json\(\) writes, got "):
            type(mt.einsum_plan(CHAIN, *SHAPES)).from_json(text)


def test_plot(tmp_path: Path) -> None:
    image = pytest.importorskip("matplotlib.image", reason="pictures need matplotlib, an extra")
    for equation, shapes, slices in (
        (CHAIN, SHAPES, None),
        (CHAIN, SHAPES, {"a": 3}),
        ("ij,jk->ik", SHAPES[:2], None),
        ("ij->j", SHAPES[:1], None),
    ):
        mt.einsum_plan(equation, *shapes, slices=slices).plot(tmp_path / "plan.png")
        picture = image.imread(tmp_path / "plan.png")
        assert picture.shape[0] > 300
        assert picture[..., :3].std() > 0.02


def cheapest(terms, output, sizes):
    """The FLOPs of the cheapest pairwise order, by trying all of them."""

    def after(rest):
        if len(rest) == 1:
            return 0
        least = float("inf")
        for i, j in itertools.combinations(range(len(rest)), 2):
            others = [term for place, term in enumerate(rest) if place not in (i, j)]
            both = rest[i] | rest[j]
            kept = both & frozenset(output).union(*others)
            least = min(least, math.prod(sizes[c] for c in both) * (1 + (kept != both)) + after([*others, kept]))
        return least

    return after(list(map(frozenset, terms)))


@st.composite
def networks(draw, most=5):
    """Terms in which labels occur in any number, twice in a term and in the output included."""
    terms = draw(st.lists(st.text("abcde", min_size=1, max_size=3), min_size=3, max_size=most))
    labels = sorted(set("".join(terms)))
    output = "".join(draw(st.lists(st.sampled_from(labels), max_size=2, unique=True)))
    sizes = {label: draw(st.integers(2, 9)) for label in labels}
    return terms, output, sizes


@settings(max_examples=150, deadline=None)
@given(networks())
def test_optimal_is_the_cheapest_pairwise_order(network):
    terms, output, sizes = network
    once = [  # labels of one term that the output lacks are summed first, and cost what that sum reads
        frozenset(c for c in term if c in output or any(c in other for other in (*terms[:place], *terms[place + 1 :])))
        for place, term in enumerate(terms)
    ]
    shapes = [tuple(sizes[c] for c in term) for term in terms]
    plans = {
        name: mt.einsum_plan(f"{','.join(terms)}->{output}", *shapes, strategy=name)
        for name in ("optimal", "auto", "auto-hq", "greedy")
    }
    sums = sum(
        math.prod(sizes[c] for c in set(term)) for term, kept in zip(terms, once, strict=True) if kept != set(term)
    )
    assert plans["optimal"].flops == cheapest(once, output, sizes) + sums
    assert plans["auto"].flops == plans["auto-hq"].flops == plans["optimal"].flops <= plans["greedy"].flops


@settings(max_examples=40, deadline=None)
@given(networks(most=14), st.sampled_from(sorted(set(STRATEGIES) - {"optimal"})))
def test_no_strategy_is_dearer_than_greedy(network, strategy):
    terms, output, sizes = network
    shapes = [tuple(sizes[c] for c in term) for term in terms]
    equation = f"{','.join(terms)}->{output}"
    greedy = mt.einsum_plan(equation, *shapes, strategy="greedy")
    with mock.patch.object(einsum_paths, "MOST_CANDIDATES", 20_000), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*' stopped after")
        assert mt.einsum_plan(equation, *shapes, strategy=strategy).flops <= greedy.flops


RING = ",".join(f"{chr(97 + n)}{chr(97 + (n + 1) % 24)}{chr(97 + (n * 7 + 3) % 24)}" for n in range(24)) + "->"


def test_a_search_that_stops_early_says_so(monkeypatch):
    monkeypatch.setattr(einsum_paths, "MOST_PAIRS", 1000)
    shapes = [(3,) * 3] * 24
    with pytest.warns(UserWarning, match="'optimal' stopped after .* pairs of sets of 24 operands"):
        plan = mt.einsum_plan(RING, *shapes, strategy="optimal")
    assert plan.flops <= mt.einsum_plan(RING, *shapes, strategy="greedy").flops


@pytest.mark.parametrize("candidates", [0, 2000])
@pytest.mark.parametrize("strategy", ["branch-all", "branch-2", "dp", "dynamic-programming"])
def test_an_exhaustive_search_ends_and_says_so(monkeypatch, strategy, candidates):
    """Among 14 operands of five labels 'branch-all' would search for hours; at 0 candidates it has no order yet."""
    monkeypatch.setattr(einsum_paths, "MOST_CANDIDATES", candidates)
    equation = "abc,bcd,cde,dea,eab,acd,bde,ace,abd,bce,ade,bcd,abe,cde->"
    with pytest.warns(UserWarning, match=f"'{strategy}' stopped after [0-9,]+ candidates of 14 operands"):
        plan = mt.einsum_plan(equation, *shapes_of(equation), strategy=strategy)
    assert plan.flops <= mt.einsum_plan(equation, *shapes_of(equation), strategy="greedy").flops


@pytest.mark.parametrize("strategy", ["branch-all", "branch-2", "branch-1", "dp"])
def test_exhaustive_searches_that_end_by_themselves_are_those_of_opt_einsum(strategy):
    equation = "ab,bc,cd,de,ea,ac->bd"
    shapes = shapes_of(equation)
    path, _ = opt_einsum.contract_path(equation, *shapes, shapes=True, optimize=strategy)
    given = mt.einsum_plan(equation, *shapes, strategy=[tuple(step) for step in path])
    greedy = mt.einsum_plan(equation, *shapes, strategy="greedy")
    assert mt.einsum_plan(equation, *shapes, strategy=strategy).flops == min(given.flops, greedy.flops)


def shapes_of(equation):
    """Shapes with another size for each label."""
    return [tuple(ord(label) - ord("a") + 2 for label in term) for term in equation.partition("->")[0].split(",")]


def test_searches_find_the_same_order_in_every_process():
    code = f"""
import random, sys
import minitorch_backends as mt
random.seed(int(sys.argv[1]))
names = ["auto-hq", "random-greedy", "random-greedy-128", "greedy", "branch-1"]
before = random.getstate()
print([mt.einsum_plan({RING!r}, *[(3,) * 3] * 24, strategy=name).path for name in names], before == random.getstate())
"""
    found = {
        subprocess.run(
            [sys.executable, "-c", code, seed], env={**os.environ, "PYTHONHASHSEED": seed}, text=True,
            capture_output=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(found) == 1
    assert found.pop().endswith("True\n")
