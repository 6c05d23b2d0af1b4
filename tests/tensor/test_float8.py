"""8-bit floating types, and pairs of 4-bit ones: conversion, what may be done with them, and what is refused."""

import copy
import io
import pickle
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt

FLOAT8 = [mt.float8_e4m3fn, mt.float8_e4m3fnuz, mt.float8_e5m2, mt.float8_e5m2fnuz, mt.float8_e8m0fnu]
NARROW = [*FLOAT8, mt.float4_e2m1fn_x2]
inf, nan = float("inf"), float("nan")


def every(dtype: Any) -> mt.Tensor:
    """All 256 bytes as elements of a type."""
    return mt.arange(256).to(mt.uint8).view(dtype)


def codes(values: list[float], dtype: Any, source: Any = mt.float32) -> list[int]:
    return mt.tensor(values, dtype=source).to(dtype).view(mt.uint8).tolist()


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        # ties to even, subnormals, the largest number and what saturates, NaN with its sign
        (mt.float8_e4m3fn, [1.0, 1.0625, 1.1875, 2.0**-9, 2.0**-10, 448.0, 464.0], [56, 56, 58, 1, 0, 0x7E, 0x7E]),
        (mt.float8_e4m3fn, [480.0, 1e30, inf, -inf, nan, -nan, -0.0], [0x7E, 0x7E, 0x7E, 0xFE, 0x7F, 0xFF, 0x80]),
        (mt.float8_e5m2, [1.0, 1.125, 57344.0, 61439.0, 61440.0, inf, -inf], [60, 60, 0x7B, 0x7B, 0x7C, 0x7C, 0xFC]),
        (mt.float8_e5m2, [nan, 2.0**-16, 2.0**-17], [0x7F, 1, 0]),
        (mt.float8_e4m3fnuz, [1.0, 240.0, 247.9, 248.0, inf, nan, -0.0], [64, 0x7F, 0x7F, 0x80, 0x80, 0x80, 0]),
        (mt.float8_e5m2fnuz, [1.0, 57344.0, 61440.0, -inf, nan, -0.0], [64, 0x7F, 0x80, 0x80, 0x80, 0]),
        # no sign, no zero; up from 1.5 times a power of two
        (mt.float8_e8m0fnu, [1.0, 1.49, 1.5, -3.0, 0.0, 2.0**-127, 6e-39], [127, 127, 128, 129, 0, 0, 1]),
        (mt.float8_e8m0fnu, [2.0**127, 3e38, inf, nan], [254, 255, 255, 255]),
    ],
    ids=str,
)
def test_conversion_to_8_bits(dtype: Any, values: list[float], expected: list[int]) -> None:
    """One number and many, by every way that makes a tensor of the type."""
    assert codes(values, dtype) == expected
    for value, code in zip(values, expected, strict=True):
        assert codes([value] * 3, dtype) == [code] * 3
        made = [mt.tensor([value], dtype=dtype), mt.zeros(1, dtype=dtype).copy_(mt.tensor([value]))]
        target = mt.zeros(2, dtype=dtype)
        target[1:] = mt.tensor([value])
        made += [mt.add(mt.tensor([value]), -0.0, out=mt.zeros(1, dtype=dtype)), target[1:]]
        assert [each.view(mt.uint8).item() for each in made] == [code] * 4


def test_lists_of_tensors_and_arrays_of_ml_dtypes() -> None:
    import ml_dtypes

    for dtype in FLOAT8:
        array = np.array([1, 2], getattr(ml_dtypes, dtype.name))
        made = mt.tensor([mt.tensor(array)[0], mt.from_numpy(array)[1]])
        assert made.dtype is dtype
        assert made.tolist() == [1.0, 2.0]


def test_float64_and_integers_are_rounded_once() -> None:
    """Just above the middle of two neighbours, by less than float32 shows."""
    above = 1 + 2.0**-4 + 2.0**-40
    assert codes([above], mt.float8_e4m3fn, mt.float64) == [57]
    assert codes([above], mt.float8_e4m3fn) == [56]
    assert codes([300, -7, 2**60], mt.float8_e4m3fn, mt.int64) == [0x79, 0xCE, 0x7E]
    assert codes([1 + 2j], mt.float8_e5m2, mt.complex64) == [60]
    assert codes([True, False], mt.float8_e5m2, mt.bool) == [60, 0]


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_every_value_comes_back(dtype: Any) -> None:
    every8 = every(dtype)
    for wide in (mt.float32, mt.float64, mt.bfloat16):
        again = every8.to(wide).to(dtype)
        number = ~every8.isnan()
        assert again.view(mt.uint8)[number].tolist() == every8.view(mt.uint8)[number].tolist()
        assert again.isnan().tolist() == every8.isnan().tolist()
    finite = every8.float()[every8.isfinite()]
    limits = mt.finfo(dtype)
    assert (limits.bits, limits.max, limits.resolution) == (8, finite.max().item(), 1.0)
    assert limits.min == finite.min().item()
    one = every8.float()
    assert (one[one > 1].min() - 1).item() == limits.eps


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_elements_are_moved(dtype: Any) -> None:
    """Bits are kept by views, copies and lookups, through files and other libraries."""
    a = every(dtype).view(16, 16)
    b = a.view(mt.uint8)
    mask, places = b > 100, mt.tensor([3, 0, 3])
    for move in (
        lambda x: x[2:9, ::3].t().contiguous(),
        lambda x: mt.cat([x, x.clone()], 1),
        lambda x: mt.stack([x[0], x[1]]),
        lambda x: x[places],
        lambda x: x[mask],
        lambda x: x[0].expand(2, 16).reshape(-1),
        lambda x: mt.where(mask, x, x.t()),
        lambda x: x.clone().copy_(x.t()),
        lambda x: x.roll(1, 0),
        lambda x: mt.nn.functional.embedding(places, x),
        lambda x: x.index_select(1, places),
        lambda x: x.gather(1, b.long() % 16),
        lambda x: x.flip(0),
        copy.deepcopy,
        lambda x: pickle.loads(pickle.dumps(x)),
        mt.from_dlpack,
        lambda x: x[:0].t(),
        lambda x: x[1, 2],
    ):
        moved = move(a)
        assert moved.dtype is dtype
        assert moved.view(mt.uint8).tolist() == move(b).tolist()
    file = io.BytesIO()
    mt.save({"a": a, "rows": a[::2]}, file)
    file.seek(0)
    found = mt.load(file)
    found["a"][2] = a[0]
    assert found["rows"].dtype is dtype
    assert found["rows"][1].view(mt.uint8).tolist() == list(range(16))


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_what_is_computed(dtype: Any) -> None:
    """Comparisons, products of two tensors, sums in a wider type: what torch has."""
    a = mt.tensor([1.0, 2.0, 0.5, 4.0]).to(dtype)
    assert (a == a).tolist() == [True] * 4
    assert (a != 2).tolist() == [True, False, True, True]
    assert (a * a).dtype is dtype
    assert (a * a).tolist() == [1.0, 4.0, 0.25, 16.0]
    assert abs(a).tolist() == a.tolist()
    assert a.sum(dtype=mt.float32).item() == 7.5
    assert a.all().item()
    assert mt.equal(a, a.clone())
    assert mt.result_type(a, 1.0) is dtype
    leaf = mt.tensor([1.0, 3.0], requires_grad=True)
    (leaf.to(dtype).float() * 2).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize(
    "call",
    [
        lambda a: a + a, lambda a: a + 1, lambda a: a * 2, lambda a: a / a, lambda a: -a, lambda a: a.add_(a),
        lambda a: a.sum(), lambda a: a.mean(), lambda a: a.max(), lambda a: a < a, lambda a: a.sort(),
        lambda a: a.cumsum(0), lambda a: a.exp(), lambda a: a.relu(), lambda a: a.softmax(0), lambda a: a.norm(),
        lambda a: mt.einsum("i,i->", a, a), lambda a: mt.isin(a, a), lambda a: a.index_add(0, mt.tensor([0]), a[:1]),
        lambda a: mt.allclose(a, a), lambda a: mt.arange(3, dtype=a.dtype), lambda a: mt.rand(3, dtype=a.dtype),
        lambda a: mt.randint(0, 3, (3,), dtype=a.dtype), lambda a: a.clone().normal_(),
        lambda a: mt.nn.functional.conv1d(a.view(1, 1, 4), a.view(1, 1, 4)),
    ],
)  # fmt: skip
def test_arithmetic_is_refused(dtype: Any, call: Any) -> None:
    with pytest.raises(NotImplementedError, match=rf"{dtype!r}(;|,).*(use|pass|expected) "):
        call(every(dtype)[1:5])


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_no_type_is_promoted_with_them(dtype: Any) -> None:
    a = every(dtype)[1:3]
    for other in (mt.float32, mt.int64, mt.bool, next(each for each in NARROW if each is not dtype)):
        with pytest.raises(RuntimeError, match=rf"promote_types\(\): types must have .* got .*{dtype.name}"):
            mt.promote_types(other, dtype)
        if other.letter != "p":
            with pytest.raises(RuntimeError, match=r"cat\(\): types must have a common type"):
                mt.cat([a, mt.ones(2, dtype=other)])
    with pytest.raises(TypeError, match="default"):
        mt.set_default_dtype(dtype)
    with pytest.raises(RuntimeError, match="complex"):
        dtype.to_complex()
    assert mt.promote_types(dtype, dtype) is dtype


def test_pairs_of_4_bits_are_never_converted() -> None:
    a = every(mt.float4_e2m1fn_x2)
    for call in (a.float, a.tolist, lambda: mt.ones(2).to(a.dtype), lambda: mt.ones(2, dtype=a.dtype)):
        with pytest.raises(NotImplementedError, match=r"float4_e2m1fn_x2.*view"):
            call()
    assert a.zero_().view(mt.uint8).tolist() == [0] * 256
    assert repr(mt.tensor([33, 67], dtype=mt.uint8).view(a.dtype)) == "tensor([33., 67.], dtype=mt.float4_e2m1fn_x2)"


def test_text() -> None:
    a = mt.tensor([[1.0, -448.0], [0.015625, nan]]).to(mt.float8_e4m3fn)
    assert repr(a).replace("mt.", "torch.") == (
        "tensor([[ 1.0000e+00, -4.4800e+02],\n        [ 1.5625e-02,         nan]], dtype=torch.float8_e4m3fn)"
    )
    assert repr(mt.zeros(2, dtype=mt.float8_e8m0fnu)) == "tensor([0., 0.], dtype=mt.float8_e8m0fnu)"
    assert a.type() == "torch.Float8_e4m3fnTensor"
    assert mt.ones(2).type("torch.Float8_e5m2Tensor").dtype is mt.float8_e5m2
