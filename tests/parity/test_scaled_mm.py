"""Scaled products of 8-bit floats against torch's on the CPU, and torch's own on our kernels."""

from typing import Any

import numpy as np
import pytest
import torch

import minitorch_backends as mt
from minitorch_backends.interop.torch import emulate
from minitorch_backends.interop.torch.memory import to_ours, to_torch

TF, F = torch.nn.functional, mt.nn.functional
M, K, N = 33, 160, 24
PAIRS = [
    ("float8_e4m3fn", "float8_e4m3fn"),
    ("float8_e4m3fn", "float8_e5m2"),
    ("float8_e5m2", "float8_e4m3fn"),
    ("float8_e5m2", "float8_e5m2"),
    ("float8_e4m3fnuz", "float8_e4m3fnuz"),
]


def operands(*dtypes: str) -> list[torch.Tensor]:
    """A (M, K) and b (K, N) in columns, and scales of one number and of rows."""
    torch.manual_seed(0)
    a, b = torch.randn(M, K).to(getattr(torch, dtypes[0])), torch.randn(N, K).to(getattr(torch, dtypes[1]))
    return [a, b.t(), torch.tensor(0.7), torch.tensor(3.0), torch.rand(M, 1) + 0.5, torch.rand(1, N) + 0.5]


def assert_near(found: Any, expected: torch.Tensor) -> None:
    """To one unit of the type in the last place, and to float32's rounding of sums."""
    assert found.dtype.name == str(expected.dtype).removeprefix("torch.")
    one, other = (each.float().numpy() for each in (to_torch(found), expected))
    unit = max(mt.finfo(found.dtype).eps, 4e-7)
    np.testing.assert_allclose(one, other, rtol=unit, atol=4e-7 * np.abs(other).max())


@pytest.mark.parametrize("dtypes", PAIRS, ids="-".join)
@pytest.mark.parametrize("out", ["float32", "bfloat16", "float16", "float64", "float8_e4m3fn", "float8_e5m2", None])
def test_values(dtypes: tuple[str, str], out: str | None) -> None:
    a, b, one, other, rows, columns = operands(*dtypes)
    wanted, ours = (None if out is None else getattr(library, out) for library in (torch, mt))
    for first, second in ((one, other), (rows, columns)):
        for bias in (None, torch.linspace(-9, 9, N, dtype=torch.bfloat16)):
            for result in (None, torch.tensor(2.0)):
                expected = torch._scaled_mm(a, b, first, second, bias, result, wanted)
                given = [None if each is None else to_ours(each) for each in (a, b, first, second, bias, result)]
                assert_near(mt._scaled_mm(*given, ours), expected)


REFUSED = {
    "wide operands": lambda m, a, b, one: m._scaled_mm(a.float(), b, one, one),
    "wide scales": lambda m, a, b, one: m._scaled_mm(a, b, one.double(), one),
    "scales without a dimension": lambda m, a, b, one: m._scaled_mm(a, b, m.ones(M), m.ones(N)),
    "one scale and rows": lambda m, a, b, one: m._scaled_mm(a, b, one, m.ones(1, N)),
    "rows of another size": lambda m, a, b, one: m._scaled_mm(a, b, m.ones(M - 1, 1), m.ones(1, N)),
    "sizes": lambda m, a, b, one: m._scaled_mm(a, b.t(), one, one),
    "batches": lambda m, a, b, one: m._scaled_mm(a[None], b[None], one, one),
    "bias": lambda m, a, b, one: m._scaled_mm(a, b, one, one, bias=m.ones(N + 1)),
    "recipes": lambda m, a, b, one: _scaled_product(m, a, b, one, m.ones(1, N), "TensorWise", "RowWise"),
    "rows turned": lambda m, a, b, one: _scaled_product(m, a, b, m.ones(M, 1), m.ones(N, 1), "RowWise", "RowWise"),
}


def _scaled_product(
    m: Any, a: Any, b: Any, first: Any, second: Any, recipe_a: str, recipe_b: str, **options: Any
) -> Any:
    kinds = m.nn.functional.ScalingType
    return m.nn.functional.scaled_mm(a, b, first, getattr(kinds, recipe_a), second, getattr(kinds, recipe_b), **options)


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    a, b, one, *_ = operands(*PAIRS[0])
    for library, given in ((torch, (a, b, one)), (mt, tuple(map(to_ours, (a, b, one))))):
        with pytest.raises((ValueError, RuntimeError)):
            REFUSED[name](library, *given)


def test_torch_has_the_same_names() -> None:
    for name in ("ScalingType", "SwizzleType"):
        ours, theirs = getattr(F, name), getattr(TF, name)
        assert {each.name: each.value for each in ours} == {k: v.value for k, v in theirs.__members__.items()}


def test_torch_calls_run_on_our_kernels() -> None:
    """Errors that torch has for GPUs alone are included."""
    a, b, one, other, rows, columns = operands(*PAIRS[0])
    powers = [(torch.rand(size, 5) + 0.5).to(torch.float8_e8m0fnu) for size in (M, N)]
    with emulate(profile="b200") as emulation:
        found = [
            torch._scaled_mm(a, b, one, other, out_dtype=torch.float32),
            _scaled_product(torch, a, b, rows, columns, "RowWise", "RowWise", bias=torch.ones(N, dtype=torch.bfloat16)),
            _scaled_product(torch, a, b, *powers, "BlockWise1x32", "BlockWise1x32", output_dtype=torch.float32),
            torch.mm(a.half(), b.half(), out_dtype=torch.float32),
            torch.bmm(a.half()[None], b.half()[None], out_dtype=torch.float32),
            torch.addmm(torch.ones(N), a.half(), b.half(), out_dtype=torch.float32, beta=2),
            torch.baddbmm(torch.ones(N).half(), a.half()[None], b.half()[None], out_dtype=torch.float32),
            (a @ b).float(),
        ]
        torch._scaled_mm(a, b, one, other, out_dtype=torch.float32, out=(out := torch.empty(M, N)))
    assert not emulation.left
    assert sum(emulation.ran.values()) == 9
    with mt.backends.flags(profile="b200"):
        x, y, bias = to_ours(a), to_ours(b), mt.ones(N, dtype=mt.bfloat16)
        scales, of_rows = [[to_ours(each) for each in pair] for pair in ((one, other), (rows, columns))]
        wanted = [
            mt._scaled_mm(x, y, *scales, out_dtype=mt.float32),
            _scaled_product(mt, x, y, *of_rows, "RowWise", "RowWise", bias=bias),
            _scaled_product(mt, x, y, *map(to_ours, powers), "BlockWise1x32", "BlockWise1x32", output_dtype=mt.float32),
            mt.mm(x.half(), y.half(), mt.float32),
            mt.bmm(x.half()[None], y.half()[None], mt.float32),
            mt.addmm(mt.ones(N), x.half(), y.half(), out_dtype=mt.float32, beta=2),
            mt.baddbmm(mt.ones(N).half(), x.half()[None], y.half()[None], out_dtype=mt.float32),
            (x @ y).float(),
        ]
    for one_found, one_wanted in zip([*found, out], [*wanted, wanted[0]], strict=True):
        assert torch.equal(one_found, to_torch(one_wanted))


def test_fast_accumulation_of_torch_calls() -> None:
    a, b, one, *_ = operands(*PAIRS[0])
    with emulate(profile="h100"):
        slow, fast = (
            torch._scaled_mm(a, b, one, one, out_dtype=torch.float32, use_fast_accum=x) for x in (False, True)
        )
    assert not torch.equal(slow, fast)
    exact = a.double() @ b.double() * one.double() ** 2
    for found in (slow, fast):
        assert 2.0**-22 < (found - exact).abs().max() / exact.abs().max() < 2.0**-9
