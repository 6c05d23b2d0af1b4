"""8-bit floating types against torch's: every rounding, and what is taken and refused."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch

import minitorch_backends as mt

FLOAT8 = ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]


def float32_patterns() -> np.ndarray:
    """All bfloat16, each with its neighbours in float32 and the middle to the next one, and random bits."""
    leading = np.arange(1 << 16, dtype=np.uint32) << 16
    patterns = [leading + offset for offset in np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)]
    patterns.append(np.random.default_rng(0).integers(0, 1 << 32, 1 << 16, np.uint32))
    return np.concatenate(patterns).view(np.float32)


@pytest.mark.parametrize("name", FLOAT8)
def test_every_conversion_has_torch_bits(name: str) -> None:
    ours, theirs = getattr(mt, name), getattr(torch, name)
    halves = torch.arange(1 << 16, dtype=torch.int32).to(torch.uint16)
    sources = [halves.view(torch.float16), halves.view(torch.bfloat16), torch.from_numpy(float32_patterns())]
    sources += [torch.arange(-300, 300), torch.tensor([True, False])]
    for source in sources:
        expected = source.to(theirs).view(torch.uint8).numpy()
        found = mt.as_tensor(source).to(ours).view(mt.uint8).numpy()
        assert np.array_equal(found, expected), source.dtype
    bytes8 = torch.arange(256).to(torch.uint8)
    for wide in ("float32", "float64", "float16", "bfloat16", "bool", "complex64"):
        expected = bytes8.view(theirs).to(getattr(torch, wide))
        found = torch.from_dlpack(mt.as_tensor(bytes8).view(ours).to(getattr(mt, wide)))
        assert torch.equal(found.nan_to_num(7.0), expected.nan_to_num(7.0)), wide
        assert torch.equal(found.isnan(), expected.isnan()), wide


def _gradient(m: Any, x: Any) -> Any:
    leaf = m.ones(4, requires_grad=True)
    ((leaf * 3).to(x.dtype) * x).float().sum().backward()
    return leaf.grad


def _gradient_of(step: Any) -> Any:
    """The gradient of an 8-bit leaf through a step."""

    def call(m: Any, x: Any) -> Any:
        leaf = x.clone().requires_grad_()
        step(m, leaf).float().sum().backward()
        return leaf.grad.float()

    return call


def _twice(m: Any, x: Any) -> Any:
    leaf = x.clone().requires_grad_()
    (leaf.float() + leaf.float()).sum().backward()
    return leaf.grad


def _descend(m: Any, x: Any) -> Any:
    leaf = m.nn.Parameter(x)
    leaf.grad = x
    m.optim.SGD([leaf], lr=0.5).step()
    return leaf


def _assign(x: Any, index: Any, value: Any) -> Any:
    x[index] = value
    return x.float()


CALLS = {
    "add": lambda m, x: x + x, "add a number": lambda m, x: x + 1, "add float32": lambda m, x: x + m.ones(4),
    "mul": lambda m, x: x * x, "mul by a number": lambda m, x: x * 2,
    "mul by a wide 0-dim tensor": lambda m, x: m.tensor([1.0, 2.0]) * x[0], "mul_": lambda m, x: x.mul_(x),
    "div": lambda m, x: x / x, "neg": lambda m, x: -x, "eq": lambda m, x: x == x.clone(),
    "eq a number": lambda m, x: x == 0.507, "eq float32": lambda m, x: x == m.ones(4),
    "eq a wide 0-dim tensor": lambda m, x: x == m.tensor(0.507), "ne": lambda m, x: x != 2, "lt": lambda m, x: x < x,
    "equal": lambda m, x: m.equal(x, x.clone()), "isclose": lambda m, x: m.isclose(x, x),
    "isnan": lambda m, x: x.isnan(), "sum": lambda m, x: x.sum(), "sum in float32": lambda m, x: x.sum(dtype=m.float32),
    "mean": lambda m, x: x.mean(), "max": lambda m, x: x.max(), "any": lambda m, x: x.any(),
    "cumsum": lambda m, x: x.cumsum(0), "sort": lambda m, x: x.sort(), "exp": lambda m, x: x.exp(),
    "clamp": lambda m, x: x.clamp(0, 1), "cat": lambda m, x: m.cat([x, x]),
    "cat with float32": lambda m, x: m.cat([x, m.ones(4)]), "where": lambda m, x: m.where(x != 2, x, x.roll(1)),
    "where with a number": lambda m, x: m.where(x != 2, x, 3.0), "index": lambda m, x: x[m.tensor([1, 1])],
    "mask": lambda m, x: x[x != 2],
    "write": lambda m, x: x.copy_(m.tensor([500.0, -500.0, 0.3, float("nan")])).float().nan_to_num(7.0),
    "fill_": lambda m, x: x.fill_(3), "out": lambda m, x: m.mul(m.ones(4), 300.0, out=x),
    "pad": lambda m, x: m.nn.functional.pad(x, (1, 1), value=1.0).tolist(),
    "full": lambda m, x: m.full((2,), 2.9, dtype=x.dtype), "eye": lambda m, x: m.eye(2, dtype=x.dtype),
    "arange": lambda m, x: m.arange(3, dtype=x.dtype), "rand": lambda m, x: m.rand(3, dtype=x.dtype),
    "to int": lambda m, x: x.to(m.int32), "view": lambda m, x: x.view(m.int16),
    "promote_types": lambda m, x: m.promote_types(x.dtype, m.float32),
    "result_type": lambda m, x: m.result_type(x, 2.5), "can_cast": lambda m, x: m.can_cast(x.dtype, m.int32),
    "type": lambda m, x: x.type(), "repr": lambda m, x: repr(x), "gradient": _gradient,
    "gradient of a lookup": _gradient_of(lambda m, x: x[m.tensor([1, 1, 2])]),
    "gradient of a slice": _gradient_of(lambda m, x: x[1:3]),
    "gradient of cat": _gradient_of(lambda m, x: m.cat([x, x.detach()])),
    "gradient of expand": _gradient_of(lambda m, x: x.expand(3, 4)), "gradients that meet": _twice, "SGD": _descend,
    "addmm": lambda m, x: m.addmm(x[:2], x.view(2, 2), x.view(2, 2), beta=0.5, alpha=2).float(),
    "linear": lambda m, x: m.nn.functional.linear(x.view(2, 2), x.view(2, 2), x[:2]).float(),
    "mm": lambda m, x: (x.view(2, 2) @ x.view(2, 2)).float(),
    "attention": lambda m, x: m.nn.functional.scaled_dot_product_attention(*[x.view(1, 2, 2)] * 3),
    "dropout": lambda m, x: m.nn.functional.dropout(x, 0.5), "fft": lambda m, x: m.fft.fft(x),
    "unfold": lambda m, x: x.unfold(0, 2, 1).float(), "as_strided": lambda m, x: x.as_strided((2, 2), (1, 1)).float(),
    "fill_ beyond": lambda m, x: x.fill_(1e39), "fill_ with infinity": lambda m, x: x.fill_(float("inf")).float(),
    "fill_ below": lambda m, x: x.fill_(-1.0).float(),
    "full beyond": lambda m, x: m.full((2,), 300.0, dtype=x.dtype).float(),
    "pad with 0": lambda m, x: m.nn.functional.pad(x, (1, 1)).tolist(), "zero_": lambda m, x: x.zero_().view(m.uint8),
    "a number beyond at a place": lambda m, x: _assign(x, 0, 1e39),
    "where with a number beyond": lambda m, x: m.where(x == 2, 1e39, x).tolist(),
    "text of one": lambda m, x: f"{x[2]:.3f}",
}  # fmt: skip
"""Calls of a module and an 8-bit tensor [1, 2, 0.5, 4]."""


def outcome(m: Any, call: Any, name: str) -> str:
    try:
        result = call(m, m.tensor([1.0, 2.0, 0.5, 4.0]).to(getattr(m, name)))
    except (RuntimeError, TypeError) as error:
        return type(error).__name__
    return str(result).replace("torch.", "").replace("mt.", "")


TAKEN_HERE = {("gradient of a lookup", "float8_e8m0fnu")}
"""Calls that torch has no kernel for."""


@pytest.mark.parametrize(
    ("call", "name"), [each for each in itertools.product(CALLS, FLOAT8) if each not in TAKEN_HERE]
)
def test_taken_and_refused_as_by_torch(call: str, name: str) -> None:
    assert outcome(mt, CALLS[call], name) == outcome(torch, CALLS[call], name)
