"""einsum: forms of calls, values under every strategy, views, gradients, plans, errors, and the flags that act."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import itertools
from typing import Any

import numpy as np
import opt_einsum
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitorch_backends as mt
from minitorch_backends import backends
from minitorch_backends.autograd.gradcheck import gradcheck, gradgradcheck
from minitorch_backends.backends.strategies import STRATEGIES
from minitorch_backends.kernels.registry import observe
from minitorch_backends.ops.einsum import program
from minitorch_backends.ops.einsum.program import plan_for

from ...support.einsum_equations import MALFORMED, OPT_EINSUM, SIZES

CHAIN = ((4, 6), (6, 3), (3, 5), (5, 2))
CHAIN_EQUATION = "ab,bc,cd,de->ae"


pytestmark = pytest.mark.usefixtures("default_flags")


def normal(*shape: int, seed: int = 0, dtype: Any = np.float64) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def operands(equation: str, sizes: dict[str, int] = SIZES) -> list[np.ndarray]:
    terms = equation.partition("->")[0].split(",")
    return [normal(*(sizes[letter] for letter in term), seed=index) for index, term in enumerate(terms)]


def chain(dtype: Any = np.float64, **options: Any) -> list[mt.Tensor]:
    return [mt.tensor(normal(*shape, dtype=dtype), **options) for shape in CHAIN]


# Values


@pytest.mark.parametrize("strategy", [None, *STRATEGIES])
def test_equations_of_opt_einsum(strategy: str | None) -> None:
    backends.opt_einsum.strategy = strategy
    for equation in OPT_EINSUM:
        arrays = operands(equation)
        outs = [mt.einsum(equation, *map(mt.tensor, arrays)).numpy() for _ in range(2)]
        np.testing.assert_allclose(outs[0], np.einsum(equation, *arrays, optimize=True), rtol=1e-9, atol=1e-9)
        for out in outs[1:]:
            np.testing.assert_array_equal(out, outs[0])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_contracts_a_chain(strategy: str) -> None:
    tensors = chain()
    with backends.opt_einsum.flags(strategy=strategy):
        out = mt.einsum(CHAIN_EQUATION, *tensors)
    expected = np.linalg.multi_dot([each.numpy() for each in tensors])
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-12)


@st.composite
def random_calls(draw: Any) -> tuple[str, list[np.ndarray]]:
    """An equation of one to four operands with repeats, ellipses, sizes of 0 and 1 that broadcast, and their arrays."""
    letters = "abCDe"
    sizes = {letter: draw(st.sampled_from((0, 1, 2, 3, 3, 4)), label=letter) for letter in letters}
    covered = [draw(st.integers(1, 3)) for _ in range(2)]
    terms, arrays = [], []
    for index in range(draw(st.integers(1, 4))):
        term = draw(st.lists(st.sampled_from(letters), max_size=4))
        shrunk = [letter for letter in dict.fromkeys(term) if draw(st.integers(0, 9)) == 0]
        shape = [1 if letter in shrunk else sizes[letter] for letter in term]
        if draw(st.integers(0, 3)) == 0:
            place, count = draw(st.integers(0, len(term))), draw(st.integers(0, 2))
            shape[place:place] = [1 if draw(st.integers(0, 4)) == 0 else size for size in covered[2 - count :]]
            term.insert(place, "...")
        terms.append("".join(term))
        arrays.append(normal(*shape, seed=index))
    equation = ",".join(terms)
    if draw(st.booleans()):
        used = sorted(set(equation) - set(".,"))
        output = draw(st.lists(st.sampled_from(used), unique=True)) if used else []
        output.insert(draw(st.integers(0, len(output))), "...")
        equation += "->" + "".join(output)
    return equation, arrays


@settings(max_examples=400, deadline=None)
@given(random_calls())
def test_random_equations(call: tuple[str, list[np.ndarray]]) -> None:
    """By every strategy, each twice: planned, and from the plan that was kept."""
    equation, arrays = call
    expected = np.einsum(equation.replace(" ", ""), *_numpy_broadcast(equation, arrays))
    tensors = [*map(mt.tensor, arrays)]
    for strategy in (None, "auto", "greedy", "dp"):
        with backends.opt_einsum.flags(strategy=strategy):
            first, again = (mt.einsum(equation, *tensors) for _ in range(2))
        assert first.shape == expected.shape
        np.testing.assert_allclose(first.numpy(), expected, rtol=1e-10, atol=1e-10)
        assert np.array_equal(again.numpy(), first.numpy(), equal_nan=True)


def _numpy_broadcast(equation: str, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The operands with sizes of 1 repeated, which NumPy does not do for a letter that one operand has twice."""
    sizes: dict[str, int] = {}
    terms = equation.partition("->")[0].split(",")
    letters = []
    for term, array in zip(terms, arrays, strict=True):
        named = len(term.replace("...", ""))
        dims = list(term.replace("...", "." * (array.ndim - named))) if "..." in term else list(term)
        letters.append(dims)
        for letter, size in zip(dims, array.shape, strict=True):
            if letter != "." and sizes.get(letter, 1) == 1:
                sizes[letter] = size
    return [
        np.broadcast_to(array, [size if x == "." else sizes[x] for x, size in zip(dims, array.shape, strict=True)])
        if len(set(dims) - {"."}) == len([x for x in dims if x != "."])
        else array
        for dims, array in zip(letters, arrays, strict=True)
    ]


def test_forms_of_calls() -> None:
    a, b = mt.tensor(normal(2, 3)), mt.tensor(normal(3, 4))
    expected = a.numpy() @ b.numpy()
    for out in (
        mt.einsum("ij,jk", a, b),
        mt.einsum(" i j , jk -> ik ", a, b),
        mt.einsum(b"ij,jk->ik", a, b),
        mt.einsum("ij,jk->ik", [a, b]),
        mt.einsum("ij,jk->ik", (a, b)),
        mt.einsum(a, [0, 1], b, [1, 2]),
        mt.einsum(a, (0, 51), b, range(51, 49, -1), [0, 50]),
        mt.einsum(a, mt.tensor([0, 1]), b, [True, 2], [0, 2]),
        mt.einsum(a, [..., 1], b, [1, 2], [..., 2]),
    ):
        np.testing.assert_allclose(out.numpy(), expected)
    assert mt.einsum(a, [0, 1], []).item() == pytest.approx(a.numpy().sum())
    assert mt.einsum("aB", a).shape == (3, 2)
    assert mt.einsum("a...b", mt.zeros(2, 3, 4, 5)).shape == (3, 4, 2, 5)
    assert mt.einsum(",", mt.tensor(2.0), mt.tensor(3.0)).item() == 6


@pytest.mark.parametrize(
    ("equation", "shape", "view"),
    [
        ("ij->ji", (2, 3), lambda x: x.T),
        ("ij", (2, 3), lambda x: x),
        ("ii->i", (3, 3), np.diagonal),
        ("iji->ji", (3, 2, 3), lambda x: x.diagonal(0, 0, 2)),
        ("iii->i", (3, 3, 3), lambda x: x.diagonal().diagonal()),
        ("", (), lambda x: x),
        ("...j->j...", (2, 3, 4), lambda x: np.moveaxis(x, -1, 0)),
    ],
)
def test_views(equation: str, shape: tuple[int, ...], view: Any) -> None:
    x = mt.tensor(normal(*shape))
    out = mt.einsum(equation, x)
    assert out is not x
    np.testing.assert_array_equal(out.numpy(), view(x.numpy()))
    out.fill_(7.0)
    assert (view(x.numpy()) == 7).all()
    leaf = mt.tensor(normal(*shape), requires_grad=True)
    base = leaf * 2
    mt.einsum(equation, base).mul_(3.0)
    base.sum().backward()
    expected = np.full(shape, 2.0)
    marked = np.zeros(shape)
    marked[...] = 1
    seen = view(np.arange(marked.size).reshape(shape))
    expected.flat[np.ravel(seen)] = 6.0
    np.testing.assert_array_equal(leaf.grad.numpy(), expected)


def test_dtypes() -> None:
    integers, floats = mt.tensor([[1, 2], [3, 4]], dtype=mt.int32), mt.ones(2, 2)
    assert mt.einsum("ij,jk->ik", integers, integers).dtype is mt.int32
    assert mt.einsum("ij->j", integers).dtype is mt.int64
    assert mt.einsum("i,j->i", integers[0], integers[0]).dtype is mt.int64
    assert mt.einsum("ij,ij->ij", integers, floats).dtype is mt.float32
    with pytest.raises(RuntimeError, match="same dtype"):
        mt.einsum("ij,jk->ik", integers, floats)
    with pytest.raises(NotImplementedError, match="boolean"):
        mt.einsum("ij,jk->ik", floats > 0, floats > 0)
    assert mt.einsum("i,i->i", floats[0] > 0, floats[0] > 0).dtype is mt.bool
    for dtype in (mt.float16, mt.bfloat16, mt.complex64):
        a = mt.tensor(normal(3, 4)).to(dtype)
        out = mt.einsum("ij,kj->ik", a, a)
        assert out.dtype is dtype
        wide = a.to(mt.complex128).numpy()
        np.testing.assert_allclose(out.to(mt.complex128).numpy(), wide @ wide.T, rtol=2e-2, atol=2e-2)


# Gradients


@pytest.mark.parametrize(("equation", "shapes"), [
    ("ij,jk,kl->il", ((2, 3), (3, 2), (2, 4))), ("iij,j,jk->ki", ((2, 2, 3), (3,), (3, 2))),
    ("ij,jk->k", ((2, 1), (3, 2))), ("ij,kj->", ((2, 3), (1, 3))), ("...i,...i->...", ((2, 1, 3), (4, 3))),
    ("i,i,i->", ((3,), (3,), (3,))), ("ij,k->ik", ((2, 3), (2,))), ("iii,i->", ((2, 2, 2), (2,))),
    ("ij,jk", ((2, 0), (0, 3))), ("ia,ab,bj,b,cj->ci", ((2, 3), (3, 2), (2, 2), (2,), (1, 2))),
])  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_gradients(equation: str, shapes: tuple, dtype: Any) -> None:
    leaves = []
    for index, shape in enumerate(shapes):
        array = normal(*shape, seed=index).astype(dtype)
        array = array + 1j * normal(*shape, seed=index + 9) if dtype is np.complex128 else array
        leaves.append(mt.tensor(array, requires_grad=True))
    assert gradcheck(lambda *xs: mt.einsum(equation, *xs), leaves)
    assert gradgradcheck(lambda *xs: mt.einsum(equation, *xs), leaves)


def test_gradients_of_the_third_order() -> None:
    x = mt.tensor(normal(3), requires_grad=True)
    cube = mt.einsum("i,i,i->", x, x, x)
    (first,) = mt.autograd.grad(cube, x, create_graph=True)
    (second,) = mt.autograd.grad(first.sum(), x, create_graph=True)
    (third,) = mt.autograd.grad(second.sum(), x)
    np.testing.assert_allclose(third.numpy(), np.full(3, 6.0))


def test_mixed_dtypes_have_gradients() -> None:
    real, complex_ = mt.tensor(normal(3), requires_grad=True), mt.tensor(normal(2) + 1j, requires_grad=True)
    mt.einsum("i,j->ij", real, complex_).abs().sum().backward()
    assert real.grad.dtype is mt.float64
    assert complex_.grad.dtype is mt.complex128


def test_gradients_are_contracted_along_planned_paths() -> None:
    """The cotangent of the first factor of a chain that ends in a vector is cheap only from the right."""
    shapes = ((40, 41), (41, 42), (42, 43), (43,))
    tensors = [mt.tensor(normal(*shape), requires_grad=True) for shape in shapes]
    plan = mt.einsum_plan("ij,jk,kl,l->i", *shapes, strategy="optimal")
    backends.opt_einsum.strategy = "optimal"
    out = mt.einsum("ij,jk,kl,l->i", *tensors)
    with mt.explain.record() as log:
        out.sum().backward()
    ran = sum(2 * np.prod(entry.shapes[0]) * entry.shapes[1][-1] for entry in log)
    planned = sum(step.flops for each in plan.cotangents() for step in each.steps if step.pair.summed)
    assert ran == planned
    text = str(mt.explain.einsum("ij,jk,kl,l->i", *shapes, strategy="optimal"))
    assert text.count("Gradient of operand") == 4
    assert all(step.equation in text for each in plan.cotangents() for step in each.steps)
    assert {entry.direction for entry in log} == {"backward"}
    assert all(each.search_seconds is None and each.flops <= 2 * plan.flops for each in plan.cotangents())


def test_gradients_are_searched_for_only_where_the_flags_changed() -> None:
    leaves, searched = [mt.tensor(normal(*shape), requires_grad=True) for shape in ((2, 3), (3, 4), (4, 5))], []
    with backends.opt_einsum.flags(strategy=lambda *given: searched.append(len(given[0])) or [(1, 2), (0, 1)]):
        out = mt.einsum("ij,jk,kl", *leaves).sum()
        mt.autograd.grad(out, leaves, retain_graph=True)
        assert searched == [3]
    with backends.opt_einsum.flags(strategy=lambda *given: searched.append(len(given[0])) or [(0, 1), (0, 1)]):
        out.backward()
    assert searched == [3] * 4


def test_gradients_run_at_the_recorded_precision() -> None:
    a, b = mt.tensor(normal(4, 5, dtype=np.float32)), mt.tensor(normal(5, 6, dtype=np.float32), requires_grad=True)
    with backends.flags(backward_precision="recorded"):
        with backends.flags(fp32_precision="bf16"):
            loss = mt.einsum("ij,jk->ik", a, b).sum()
        with mt.explain.record() as log:
            loss.backward()
    assert [entry.precision for entry in log] == ["bf16"]


def test_forward_mode() -> None:
    tensors, tangents = chain(), [mt.ones(*shape, dtype=mt.float64) for shape in CHAIN]
    _, out = mt.func.jvp(lambda *xs: mt.einsum(CHAIN_EQUATION, *xs), tuple(tensors), tuple(tangents))
    step = 1e-6
    ahead, behind = (
        mt.einsum(CHAIN_EQUATION, *(x + sign * step * t for x, t in zip(tensors, tangents, strict=True)))
        for sign in (1, -1)
    )
    np.testing.assert_allclose(out.numpy(), (ahead - behind).numpy() / (2 * step), rtol=1e-7)


# Plans


def test_plan_is_what_runs() -> None:
    calls_made: list[Any] = []
    tensors = chain(np.float32)
    plan = mt.einsum_plan(CHAIN_EQUATION, *CHAIN, strategy="optimal")
    with observe(calls_made.append), backends.opt_einsum.flags(strategy="optimal"):
        mt.einsum(CHAIN_EQUATION, *tensors)
    assert sum(2 * np.prod(call.shapes[0]) * call.shapes[1][-1] for call in calls_made) == plan.flops
    assert len(calls_made) == len(plan.steps) == 3
    assert plan.flops < mt.einsum_plan(CHAIN_EQUATION, *CHAIN, strategy=((2, 3), (1, 2), (0, 1))).naive_flops


def test_plan_text_and_measurement() -> None:
    tensors = [mt.tensor(normal(60, 70)), mt.tensor(normal(70, 80)), mt.tensor(normal(80, 50))]
    plan = mt.einsum_plan("ij,jk,kl->li", *tensors, strategy=[(1, 2), (0, 1)])
    text = repr(plan)
    for part in ("jk,kl->jl", "GEMM", f"{2 * 70 * 80 * 50:,}", "peak 6,500 elements", "[(1, 2), (0, 1)]"):
        assert part in text
    assert "measured" not in text
    out = plan.execute(*tensors)
    np.testing.assert_allclose(out.numpy(), mt.einsum("ij,jk,kl->li", *tensors).numpy(), rtol=1e-12, atol=1e-12)
    seconds, step_seconds, peak = plan.measured[-1]
    assert 0 < sum(step_seconds) < seconds
    assert 8 * plan.peak_elements <= peak < 3 * 8 * plan.peak_elements
    assert "measured" in repr(plan)
    large = [mt.ones(700, 900), mt.ones(900, 800), mt.ones(800, 2)]
    plan = mt.einsum_plan("ij,jk,kl->il", *large, strategy=None)
    for _ in range(3):  # in memory of earlier results, the second time
        plan.execute(*large)
        assert 4 * plan.peak_elements <= plan.measured[-1].peak
    with pytest.raises(RuntimeError, match="make a plan"):
        plan.execute(*tensors[:2], tensors[0])
    path, described = mt.einsum_path("ij,jk,kl->li", *tensors, strategy=[(1, 2), (0, 1)])
    assert path == ["einsum_path", (1, 2), (0, 1)]
    assert "GEMM" in described


@pytest.mark.parametrize(
    ("equation", "shapes", "kernel"),
    [
        ("ij,jk->ik", ((2, 3), (3, 4)), "GEMM"),
        ("bij,bjk->bik", ((5, 2, 3), (5, 3, 4)), "batched GEMM"),
        ("ij,j->i", ((2, 3), (3,)), "GEMV"),
        ("ij,ij->", ((2, 3), (2, 3)), "dot"),
        ("i,j->ij", ((2,), (3,)), "outer"),
        ("ij,j->ij", ((2, 3), (3,)), "multiply"),
        ("ijk,jl->ikl", ((2, 3, 4), (3, 5)), "GEMM, 1 transposed"),
    ],
)
def test_kernels_of_steps(equation: str, shapes: tuple, kernel: str) -> None:
    assert [step.kernel for step in mt.einsum_plan(equation, *shapes).steps] == [kernel]


def test_intermediate_results_are_made_in_the_order_that_the_next_step_reads() -> None:
    equation, shapes = "pi,qj,pqrs,rk,sl->ijkl", ((4, 2), (4, 2), (4, 4, 4, 4), (4, 3), (4, 3))
    for path in (((0, 2), (0, 3), (0, 2), (0, 1)), ((2, 4), (2, 3), (1, 2), (0, 1))):
        plan = mt.einsum_plan(equation, *shapes, strategy=path)
        assert [step.kernel for step in plan.steps] == ["GEMM"] * 4, plan
        operands = [normal(*shape, seed=place) for place, shape in enumerate(shapes)]
        result = plan.execute(*map(mt.tensor, operands))
        np.testing.assert_allclose(result.numpy(), np.einsum(equation, *operands), rtol=1e-12, atol=1e-12)
        assert result.is_contiguous()


def test_last_result_is_made_in_the_order_that_is_wanted() -> None:
    a, b = mt.tensor(normal(4, 5)), mt.tensor(normal(5, 6))
    assert mt.einsum("ij,jk->ki", a, b).is_contiguous()
    assert mt.einsum("ij,jk->ik", a, b).is_contiguous()


def test_cache_counts() -> None:
    """Plans are kept by equation, shapes and strategy."""
    plan_for.cache_clear()
    a, b = mt.tensor(normal(3, 5)), mt.tensor(normal(5, 7))
    for _ in range(5):
        mt.einsum("ij,jk->ik", a, b)
    assert mt.explain.einsum_cache()[:2] == (4, 1)
    mt.einsum("ij,jk->ik", a.float(), b.float())
    mt.einsum("ij,jk->ik", a[:2], b)
    assert mt.explain.einsum_cache()[:2] == (5, 2)
    tensors = chain()
    for strategy in ("greedy", "dp", "greedy"):
        backends.opt_einsum.strategy = strategy
        mt.einsum(CHAIN_EQUATION, *tensors)
    counted = mt.explain.einsum_cache()
    assert counted == (6, 4, counted.maxsize, 4)
    assert counted.maxsize >= 1000


def test_cache_is_bounded() -> None:
    a, kept = mt.ones(2), mt.explain.einsum_cache().maxsize
    for length in range(1, kept + 3):
        mt.einsum(" " * length + "a,a->", a, a)
    assert mt.explain.einsum_cache().currsize == kept


# Strategies and flags


def test_strategies_that_can_be_set() -> None:
    path = [(2, 3), (1, 2), (0, 1)]
    backends.opt_einsum.strategy = path
    assert backends.opt_einsum.strategy == tuple(path)
    assert mt.einsum_plan(CHAIN_EQUATION, *CHAIN).path == tuple(path)
    seen: list[Any] = []

    def first_two(inputs: Any, output: Any, sizes: Any, memory_limit: Any) -> list[tuple[int, int]]:
        seen.append((len(inputs), len(output), sorted(sizes.values())))
        return [(0, 1)] * (len(inputs) - 1)

    backends.opt_einsum.strategy = first_two
    out = mt.einsum(CHAIN_EQUATION, *chain())
    np.testing.assert_allclose(out.numpy(), np.linalg.multi_dot([each.numpy() for each in chain()]))
    assert seen == [(4, 2, [2, 3, 4, 5, 6])]
    for bad in ("bogus", "AUTO", 3, [], [(0, "1")], [(0, 0), (0, 1)], [(-1, 0)], False, object()):
        with pytest.raises(ValueError, match=r"opt_einsum.strategy = .* is unknown.* steps name different places"):
            backends.opt_einsum.strategy = bad

    @dataclasses.dataclass
    class Finder:
        def __call__(self, *of: Any) -> list[tuple[int, int]]:
            return first_two(*of)

    with pytest.raises(TypeError, match=r"Finder\(\) cannot be hashed.*eq=False"):
        backends.opt_einsum.strategy = Finder()
    assert backends.opt_einsum.strategy is first_two


def test_left_to_right() -> None:
    backends.opt_einsum.strategy = None
    expected = mt.einsum_plan(CHAIN_EQUATION, *CHAIN)
    assert [step.equation for step in expected.steps] == ["ab,bc->ac", "cd,ac->da", "de,da->ae"]
    backends.opt_einsum.strategy = "greedy"
    assert mt.einsum_plan(CHAIN_EQUATION, *CHAIN).path != expected.path
    backends.opt_einsum.enabled = False
    assert mt.einsum_plan(CHAIN_EQUATION, *CHAIN).path == expected.path


@pytest.mark.parametrize(
    ("path", "text"), [([(0, 1)], "leaves 3 of 4"), ([(0, 4), (0, 1), (0, 1)], "different places")]
)
def test_paths_that_do_not_contract(path: Any, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        mt.einsum(CHAIN_EQUATION, *chain(), strategy=path)


def test_precision_acts_on_every_product() -> None:
    tensors = chain(np.float32)
    exact = mt.einsum(CHAIN_EQUATION, *tensors)
    with mt.explain.record() as log, backends.flags(fp32_precision="bf16"):
        rough = mt.einsum(CHAIN_EQUATION, *tensors)
    assert [entry.precision for entry in log] == ["bf16"] * 3
    difference = (rough - exact).abs().max().item() / exact.abs().max().item()
    assert 1e-4 < difference < 3e-2
    named = mt.einsum(CHAIN_EQUATION, *tensors, precision="bf16")
    np.testing.assert_array_equal(named.numpy(), rough.numpy())


# Memory and sharing


def test_memory_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = chain()
    needed = 8 * mt.einsum_plan(CHAIN_EQUATION, *tensors).peak_elements
    mt.einsum(CHAIN_EQUATION, *tensors, memory_limit=needed)
    with pytest.raises(RuntimeError, match=rf"take {needed:,} bytes at once, and memory_limit is {needed - 1:,}"):
        mt.einsum(CHAIN_EQUATION, *tensors, memory_limit=needed - 1)
    a, b = mt.ones(4, 30, requires_grad=True), mt.ones(30)
    mt.einsum("ij,j->i", a, b, memory_limit=480).sum().backward()  # as many bytes as the gradient has
    with pytest.raises(RuntimeError, match="take 480 bytes at once, and memory_limit is 479"):
        mt.einsum("ij,j->i", a, b, memory_limit=479).sum().backward()
    monkeypatch.setattr(program, "free_bytes", lambda: 1 << 30)
    ones = mt.ones(1 << 15)
    with pytest.raises(RuntimeError, match=r"4,294,967,296 bytes at once, but only 80% of the 1,073,741,824 free"):
        mt.einsum("i,j->ij", ones, ones)


def test_sharing_computes_once() -> None:
    a, b = mt.tensor(normal(4, 5)), mt.tensor(normal(5, 4))
    made: dict[bool, int] = {}
    results = []
    for share in (False, True):
        calls_made: list[Any] = []
        with observe(calls_made.append):
            results.append(mt.einsum("ij,jk,kl,lm->im", a, b, a, b, strategy=[(0, 1), (0, 1), (0, 1)], share=share))
        made[share] = len(calls_made)
    assert made == {False: 3, True: 2}
    np.testing.assert_array_equal(results[0].numpy(), results[1].numpy())


def test_constants_are_contracted_once() -> None:
    weights = chain()[1:]
    inputs = [mt.tensor(normal(4, 6, seed=seed)) for seed in range(3)]
    path = ((1, 2), (1, 2), (0, 1))
    made: list[int] = []
    for number, x in enumerate([*inputs, inputs[0], inputs[1]]):
        if number == 2:
            weights[0].mul_(2.0)
        if number == 4:
            weights[1].data.mul_(2.0)
        calls_made: list[Any] = []
        with mt.no_grad(), observe(calls_made.append):
            out = mt.einsum(CHAIN_EQUATION, x, *weights, strategy=path, share=True)
        made.append(len(calls_made))
        expected = np.linalg.multi_dot([x.numpy(), *(each.numpy() for each in weights)])
        np.testing.assert_allclose(out.numpy(), expected)
    assert made == [3, 1, 3, 1, 3]
    with mt.no_grad(), backends.flags(fp32_precision="bf16"), observe(calls_made.append):
        mt.einsum(CHAIN_EQUATION, inputs[0], *weights, strategy=path, share=True)
    assert len(calls_made) == 3 + 3
    with mt.autograd.inference_mode():
        made_here = mt.ones(4, 6, dtype=mt.float64)
        mt.einsum(CHAIN_EQUATION, made_here, *weights, strategy=path, share=True)
    x = mt.tensor(inputs[0].numpy(), requires_grad=True)
    assert mt.einsum(CHAIN_EQUATION, x, *weights, strategy=path, share=True).requires_grad


@pytest.mark.parametrize("equation", ["ij,jk->ik", "ij,jk,kl,lm->im"])
def test_a_result_of_one_shared_tensor_is_the_callers(equation: str) -> None:
    w = mt.tensor(np.random.default_rng(0).standard_normal((5, 5)))
    operands = [w] * (equation.count(",") + 1)
    with mt.no_grad():
        first = mt.einsum(equation, *operands, share=True)
        kept = first.numpy().copy()
        first.mul_(2)
        assert np.array_equal(mt.einsum(equation, *operands, share=True).numpy(), kept)


# Errors


@pytest.mark.parametrize(("equation", "shapes", "kind", "text"), MALFORMED)
def test_malformed(equation: str, shapes: tuple, kind: type[Exception], text: str) -> None:
    tensors = [mt.zeros(*shape) for shape in shapes]
    with pytest.raises(kind) as raised:
        mt.einsum(equation, *tensors)
    assert text in str(raised.value)


def test_arguments_that_are_none() -> None:
    a = mt.zeros(2, 2)
    for arguments in ((), ("ij",), ("ij", [])):
        with pytest.raises(ValueError, match=r"must (specify|provide)"):
            mt.einsum(*arguments)
    for bad in (None, 3, np.zeros((2, 2)), "a", [1]):
        with pytest.raises(TypeError, match="expected Tensor as element 1"):
            mt.einsum("ij,jk", a, bad)
    for bad in (None, 3, ["ij"], np.zeros(2)):
        with pytest.raises(TypeError, match="must be str"):
            mt.einsum(bad, a)
    for sublist, kind in (([0, 52], ValueError), ([-1, 0], ValueError), ([0, 1.0], TypeError), ("ij", TypeError)):
        with pytest.raises(kind):
            mt.einsum(a, sublist)
    keywords = {"strategy", "precision", "memory_limit", "slices", "share", "out"}
    assert inspect.signature(mt.einsum).parameters.keys() == {"equation", "operands", *keywords}
    with pytest.raises(TypeError, match=r"einsum\(\) got an unexpected keyword argument 'optimize'"):
        mt.einsum("ij", a, optimize=True)
    for bound in ("1 GB", -1, True, [1]):
        for called, contract in (("einsum", mt.einsum), ("einsum_plan", mt.einsum_plan)):
            with pytest.raises(ValueError, match=rf"^{called}\(\): memory_limit must be None or a non-negative number"):
                contract("ij,jk", a, a, memory_limit=bound)


@settings(max_examples=300, deadline=None)
@given(st.text("ab.,-> 1", max_size=8))
def test_malformed_text_raises_before_anything_runs(text: str) -> None:
    made: list[Any] = []
    with observe(made.append), contextlib.suppress(RuntimeError):
        out = mt.einsum(text, mt.ones(2, 2), mt.ones(2, 2))
        assert set(text) <= set("ab.,-> ")
        assert out.ndim <= 4
        return
    assert not made


def test_results_never_share_memory_with_operands_they_were_computed_from() -> None:
    x = mt.ones(3, 1)
    for out in (mt.einsum("ij->i", x), mt.einsum("ij,->ij", x, mt.tensor(1.0)), mt.einsum("ij,ij->ij", x, x)):
        out.fill_(5.0)
        assert (x.numpy() == 1).all()


def test_strategies_and_dtypes_do_not_mix_in_the_cache() -> None:
    tensors = chain()
    for strategy, dtype in itertools.product((None, "optimal"), (mt.float64, mt.float32)):
        backends.opt_einsum.strategy = strategy
        assert mt.einsum(CHAIN_EQUATION, *(each.to(dtype) for each in tensors)).dtype is dtype


def test_opt_einsum_contracts_tensors() -> None:
    a, b, c = mt.randn(3, 4), mt.randn(4, 5), mt.randn(5, 6)
    a.requires_grad_()
    found = opt_einsum.contract("ij,jk,kl->li", a, b, c)
    want = (a.detach().numpy() @ b.numpy() @ c.numpy()).T
    assert np.abs(found.detach().numpy() - want).max() < 1e-4
    found.sum().backward()
    assert a.grad is not None
    assert mt.transpose(mt.ones(2, 3, 4), (2, 0, 1)).shape == (4, 2, 3)
