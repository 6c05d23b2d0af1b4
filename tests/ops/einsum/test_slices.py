"""Sliced contractions: equal to whole ones, in the same bits on any workers, within their limits, with gradients."""

from __future__ import annotations

import importlib.util
import itertools
import re
import string
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import opt_einsum
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitorch_backends as mt
from minitorch_backends import backends
from minitorch_backends.autograd.gradcheck import gradcheck

pytestmark = pytest.mark.usefixtures("default_flags")


def normal(*shape: int, seed: int = 0, dtype: Any = np.float64) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def regular(count: int, bond: int, seed: int) -> tuple[str, list[np.ndarray]]:
    """A random 3-regular graph of tensors, whose contraction is one number."""
    random = np.random.default_rng(seed)
    ends = [(0, 0)]
    while any(first == second for first, second in ends):
        ends = random.permutation(np.repeat(np.arange(count), 3)).reshape(-1, 2).tolist()
    terms = [""] * count
    for letter, pair in zip(string.ascii_letters, ends, strict=False):
        for end in pair:
            terms[end] += letter
    arrays = [normal(*(bond for _ in term), seed=index) / bond**0.75 for index, term in enumerate(terms)]
    return ",".join(terms) + "->", arrays


NETWORK, ARRAYS = regular(30, 4, seed=0)


def plans(dtype: Any = mt.float64, part: int = 20) -> tuple[Any, Any, list[mt.Tensor]]:
    """A network, whole and under a limit of a 20th of its peak."""
    tensors = [mt.tensor(array, dtype=dtype) for array in ARRAYS]
    whole = mt.einsum_plan(NETWORK, *tensors, strategy="greedy")
    limit = dtype.itemsize * whole.peak_elements // part
    return whole, mt.einsum_plan(NETWORK, *tensors, strategy=whole.path, memory_limit=limit, slices="auto"), tensors


def test_slices_stay_within_a_twentieth_of_the_peak() -> None:
    whole, sliced, tensors = plans()
    assert sliced.peak_elements <= whole.peak_elements / 20
    assert f"x {sliced.slicing.count} slices" in repr(sliced)
    assert f"peak {whole.peak_elements:,} to {sliced.peak_elements:,} elements" in repr(sliced)
    assert 1 <= sliced.flops / whole.flops < 1.5
    results = [plan.execute(*tensors).item() for plan in (whole, sliced)]
    assert results[0] == pytest.approx(results[1], rel=1e-9)
    for plan in (whole, sliced):
        predicted = 8 * plan.peak_elements
        assert predicted <= plan.measured[-1].peak <= 1.1 * predicted
    assert len(sliced.measured[-1].step_seconds) == len(whole.steps)


class Backwards(Executor):
    """Runs what it is given when a result is asked for, the last first."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future, Any]] = []

    def submit(self, function: Any, /, *args: Any, **named: Any) -> Future:
        future: Future = _Asked(self)
        self.waiting.append((future, lambda: function(*args, **named)))
        return future


class _Asked(Future):
    def __init__(self, owner: Backwards) -> None:
        super().__init__()
        self.owner = owner

    def result(self, timeout: float | None = None) -> Any:
        while self.owner.waiting:
            future, work = self.owner.waiting.pop()
            future.set_result(work())
        return super().result(timeout)


def test_bits_do_not_depend_on_the_workers() -> None:
    _, sliced, tensors = plans(mt.float32, part=8)
    results = {"in turn": sliced.run(*tensors), "backwards": sliced.run(*tensors, executor=Backwards())}
    with ThreadPoolExecutor(3) as threads, ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        results["threads"] = sliced.run(*tensors, executor=threads)
        with backends.flags(fp32_precision="bf16"):
            rough = sliced.run(*tensors)
            results["processes"] = sliced.run(*tensors, executor=processes)  # flags travel along
    assert results.pop("processes").item() == rough.item() != results["in turn"].item()
    assert len({result.item() for result in results.values()}) == 1


def test_threads_of_a_number() -> None:
    a, b = mt.tensor(normal(40, 8)), mt.tensor(normal(8, 30))
    plan = mt.einsum_plan("ij,jk->ik", a, b, slices={"i": 4, "j": 2})
    expected = plan.run(a, b)
    for count in (1, 2, 5):
        np.testing.assert_array_equal(plan.run(a, b, executor=count).numpy(), expected.numpy())
    limited = mt.einsum_plan("ij,jk->ik", a, b, slices={"i": 4}, memory_limit=13_000)
    np.testing.assert_allclose(limited.run(a, b, executor=1).numpy(), a.numpy() @ b.numpy())
    with pytest.raises(RuntimeError, match=r"3 threads would take 16,800 bytes at once, and the .* is 13,000"):
        limited.run(a, b, executor=3)
    for bad in (0, -1, True, "threads"):
        with pytest.raises(TypeError, match="executor must be None, a positive number of threads or"):
            plan.run(a, b, executor=bad)
    with pytest.raises(ValueError, match="this plan has none"):
        mt.einsum_plan("ij,jk->ik", a, b).run(a, b, executor=2)


EQUATIONS = (
    ("ab,bc,cd,de->ae", ((4, 6), (6, 3), (3, 5), (5, 2))),
    ("abc,cd,bde->ea", ((3, 4, 5), (5, 2), (4, 2, 6))),
    ("aab,bc,c->a", ((3, 3, 4), (4, 5), (5,))),
    ("ab,b,c->a", ((3, 4), (4,), (5,))),
    ("...a,ab,b->...", ((2, 3, 4), (4, 5), (5,))),
    ("ab,bc->ac", ((1, 4), (4, 5))),
    ("ab,ab,cb->ca", ((3, 4), (1, 4), (2, 4))),
    ("abc->a", ((3, 4, 5),)),
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(EQUATIONS), st.data())
def test_any_slices(call: tuple[str, tuple], data: Any) -> None:
    """Ragged blocks, several labels, of the result and summed ones, diagonals and sizes of 1."""
    equation, shapes = call
    arrays = [normal(*shape, seed=index) for index, shape in enumerate(shapes)]
    sizes = mt.einsum_plan(equation, *shapes).sizes
    names = [letter for letter in "abcde" if letter in equation]
    ordered = dict(zip(sorted(names), sorted(label for label in sizes if label < 52), strict=True))
    parts = {name: data.draw(st.integers(1, sizes[ordered[name]]), label=name) for name in names}
    plan = mt.einsum_plan(equation, *shapes, slices=parts)
    found = plan.run(*map(mt.tensor, arrays))
    if equation == "ab,ab,cb->ca":  # NumPy does not broadcast sizes of 1 in every path
        arrays[1] = np.broadcast_to(arrays[1], (3, 4))
    expected = np.einsum(equation, *arrays)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10, atol=1e-10)
    assert found.shape == expected.shape


def test_gradients_of_slices() -> None:
    leaves = [mt.tensor(normal(*shape), requires_grad=True) for shape in ((5, 2), (2, 6), (6, 2))]
    path = [(0, 1), (0, 1)]
    for options in ({"slices": {"b": 2, "c": 4, "a": 5}}, {"memory_limit": 200, "slices": "auto"}):
        plan = mt.einsum_plan("ab,bc,cd->ad", *leaves, strategy=path, **options)
        assert plan.slicing is not None
        assert gradcheck(plan.run, leaves)
        results = []
        for run in (plan.run, lambda *xs: mt.einsum("ab,bc,cd->ad", *xs)):
            first = mt.autograd.grad(run(*leaves).square().sum(), leaves, create_graph=True)
            second = mt.autograd.grad(first[0].square().sum(), leaves)
            results.append([each.detach().numpy() for each in (*first, *second)])
        for found, expected in zip(*results, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert all(cotangent.slicing is not None for cotangent in plan.slice_labels({0: 1, 26: 1, 27: 1}).cotangents())


def test_einsum_slices_where_the_flag_says_so() -> None:
    tensors = [mt.tensor(normal(*shape)) for shape in ((30, 40), (40, 50), (50, 3))]
    call = "ab,bc,cd->ad", *tensors
    path = [(0, 1), (0, 1)]
    expected = mt.einsum(*call, strategy=path)
    with pytest.raises(RuntimeError, match=r'take 12,720 bytes at once, .* is 4,000; .* or slices="auto"'):
        mt.einsum(*call, strategy=path, memory_limit=4000)
    with pytest.raises(RuntimeError, match=r"found no slices that fit .*, and the result alone takes 720"):
        mt.einsum(*call, strategy=path, memory_limit=700, slices="auto")
    np.testing.assert_allclose(
        mt.einsum(*call, strategy=path, memory_limit=4000, slices="auto").numpy(), expected.numpy()
    )
    with mt.explain.record() as log, backends.flags(einsum_memory_limit=4000, **{"opt_einsum.slices": "auto"}):
        found = mt.einsum(*call, strategy=path)
    assert len(log) > 2
    np.testing.assert_allclose(found.numpy(), expected.numpy())
    with pytest.raises(
        ValueError, match=r"slices must be None or one of 'auto', 'cotengra', or in einsum_plan a mapping .*, got 'all'"
    ):
        mt.einsum(*call, slices="all")
    with pytest.raises(
        ValueError, match=r"slices must be None or one of 'auto', 'cotengra', or in einsum_plan a mapping .*, got 'all'"
    ):
        backends.opt_einsum.slices = "all"
    with pytest.raises(ValueError, match=r"must name subscripts of the equation \(a, b, c, d\), got 'x'"):
        mt.einsum_plan(*call, slices={"x": 2})
    with pytest.raises(ValueError, match=r"slices\['a'\] must be a number of parts from 1 to 30, got 31"):
        mt.einsum_plan(*call, slices={"a": 31})


@pytest.mark.parametrize("dtype", [mt.int32, mt.float16, mt.bfloat16, mt.complex64, mt.bool])
def test_dtypes_of_slices(dtype: Any) -> None:
    a, b = (mt.tensor(np.round(4 * normal(6, 8, seed=seed))).to(dtype) for seed in (0, 1))
    plans = [mt.einsum_plan("ab,cb->ac", (6, 8), (6, 8), slices=slices) for slices in (None, {"b": 8, "a": 4})]
    if dtype is mt.bool:
        for plan in plans:
            with pytest.raises(NotImplementedError, match="boolean"):
                plan.run(a, b)
        return
    whole, sliced = (plan.run(a, b) for plan in plans)
    assert sliced.dtype is whole.dtype is dtype
    np.testing.assert_array_equal(sliced.to(mt.complex128).numpy(), whole.to(mt.complex128).numpy())


def test_cotengra_finds_slices_and_its_trees_are_taken() -> None:
    cotengra = pytest.importorskip("cotengra", reason="the package cotengra is an extra")
    whole, ours, tensors = plans(part=4)
    limit = 8 * whole.peak_elements // 4
    theirs = mt.einsum_plan(NETWORK, *tensors, strategy=whole.path, memory_limit=limit, slices="cotengra")
    assert theirs.peak_elements <= whole.peak_elements / 4
    assert ours.flops <= theirs.flops
    inputs, output = NETWORK.split("->")
    sizes = dict.fromkeys(string.ascii_letters, 4)
    tree = cotengra.ContractionTree.from_path(inputs.split(","), output, sizes, path=whole.path)
    tree = tree.slice(target_slices=4)
    taken = mt.einsum_plan(NETWORK, *tensors, strategy=tree)
    assert taken.slicing.count == tree.nslices
    expected = whole.run(*tensors).item()
    for plan in (theirs, taken):
        assert plan.run(*tensors).item() == pytest.approx(expected, rel=1e-9)


def test_the_search_is_near_the_best_of_all_slices() -> None:
    """The slices of a chain of small sizes, against every combination of blocks."""
    equation, shapes = "ab,bc,cd,de->ae", ((4, 6), (6, 4), (4, 5), (5, 4))
    whole = mt.einsum_plan(equation, *shapes, strategy=[(0, 1), (0, 2), (0, 1)])
    sizes = whole.sizes
    blocks = itertools.product(*(sorted({-(-size // (1 << power)) for power in range(4)}) for size in sizes.values()))
    tried = [whole.slice_labels(dict(zip(sizes, each, strict=True))) for each in blocks]
    for limit in (30, 36, 44):
        best = min(plan.flops for plan in tried if plan.peak_elements <= limit)
        found = whole.within(limit, "auto")
        assert found.peak_elements <= limit
        assert best <= found.flops <= 1.1 * best


def circuit(qubits: int, depth: int) -> tuple[str, list[tuple[int, ...]]]:
    """The amplitude of zeros of gates on single qubits and on neighbours, as an equation and shapes."""
    letters = map(opt_einsum.get_symbol, itertools.count())
    line = [next(letters) for _ in range(qubits)]
    terms = list(line)
    for layer in range(depth):
        for place in range(qubits):
            new = next(letters)
            terms.append(new + line[place])
            line[place] = new
        for place in range(layer % 2, qubits - 1, 2):
            pair = [next(letters), next(letters)]
            terms.append("".join([*pair, *line[place : place + 2]]))
            line[place : place + 2] = pair
    terms += line
    return f"{','.join(terms)}->", [(2,) * len(term) for term in terms]


@pytest.mark.parametrize(("qubits", "share", "most"), [(10, 2, 3), (12, 2, 8), (14, 2, 2), (14, 4, 3), (18, 4, 1.7)])
def test_circuits_are_sliced_at_a_bounded_overhead(qubits: int, share: int, most: float) -> None:
    """Slices of circuits cost several times the FLOPs, where a search for those of lattices would take 2**50 times."""
    equation, shapes = circuit(qubits, 20 if qubits == 18 else 10)
    whole = mt.einsum_plan(equation, *shapes, strategy="greedy")
    found = whole.within(whole.peak_elements // share, "auto")
    assert found.peak_elements <= whole.peak_elements // share
    assert found.flops <= most * whole.flops
    if importlib.util.find_spec("cotengra"):
        assert found.flops <= whole.within(whole.peak_elements // share, "cotengra").flops


def test_slices_that_cost_too_much_are_refused_with_the_least_memory() -> None:
    equation, shapes = circuit(10, 10)
    whole = mt.einsum_plan(equation, *shapes, strategy="greedy")
    assert whole.within(whole.peak_elements // 4, "auto") is None
    with backends.opt_einsum.flags(slicing_overhead=1000):
        assert 100 * whole.flops < whole.within(whole.peak_elements // 4, "auto").flops <= 1000 * whole.flops
    sentence = (
        r"found no slices that fit within 2 times its FLOPs .*slicing_overhead\); the least memory found is ([\d,]+)"
    )
    limit = whole.peak_elements // 4 * 4
    with backends.opt_einsum.flags(slicing_overhead=2), pytest.raises(RuntimeError, match=sentence) as refused:
        mt.einsum_plan(equation, *shapes, strategy="greedy", memory_limit=limit, slices="auto")
    least = int(re.search(sentence, str(refused.value))[1].replace(",", ""))
    assert limit < least <= whole.peak_elements * 4
    with backends.opt_einsum.flags(slicing_overhead=2):
        found = mt.einsum_plan(equation, *shapes, strategy="greedy", memory_limit=least, slices="auto")
    assert found.flops <= 2 * whole.flops
