"""Half types: every result and every gradient is computed in float32, or exactly, and rounded once."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends.tensor.dtypes import DType
from minitorch_backends.tensor.tensor import Tensor, adopt

from ..declared.samples import Sample
from ..support.calls import (
    HALVES,
    OPS,
    UNDERIVABLE,
    arrays_in,
    leaves_of,
    replace_tensors,
    results,
    run,
    samples_of,
    takes,
    tensors,
)

F = mt.nn.functional
every_half = pytest.mark.parametrize("dtype", HALVES, ids=lambda dtype: dtype.name)

# Every op

MOST_SAMPLES = 3
"""Samples of each op that are computed here; all of them are in test_ops.py, with a wider tolerance."""

CHAIN = "a chain of products; each has the dtype of its operands, and uses the kernels of that dtype"
EXCEPTIONS = {
    "attend": "rounds probabilities before they meet the values, as flash attention does",
    "chain_matmul": CHAIN,
    "contraction": CHAIN,
    "ctc_loss": "its samples are normalised first, by log_softmax, which rounds",
    "einsum": CHAIN,
    "embedding_bag": "the gradients of rows are rounded before they are added up; the table is never converted",
    "linalg_matrix_power": CHAIN,
    "matrix_power": CHAIN,
    "multi_dot": CHAIN,
    "multi_head_attention_forward": "layers that each round, as a module of them does",
    "standardize_backward": "is tested about a mean that is computed, and rounded, before",
    "scaled_dot_product_attention": "consists of `attend`",
}
"""What may round more than once, and why."""


@pytest.mark.parametrize("name", OPS)
def test_every_op_and_gradient_rounds_once(name: str) -> None:
    """At most 1 unit in the last place from what float64 makes of the same numbers."""
    if name in EXCEPTIONS:
        return
    for dtype in (each for each in HALVES if takes(name, each)):
        for number, call in enumerate([call for call in samples_of(name) if arrays_in(call)][:MOST_SAMPLES]):
            compare_with_float64(name, call, dtype, f"{name}, sample {number}, {dtype!r}")


def compare_with_float64(name: str, call: Sample, dtype: DType, where: str) -> None:
    made = tensors(call, dtype, requires_grad=True)
    leaves = leaves_of(made)
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    pairs = []
    for one in (made, replace_tensors(made, dict(zip(map(id, leaves), exact, strict=True)))):
        mt.manual_seed(0)
        pairs.append(results(run(name, one)))
    compared = [(out, wanted) for out, wanted in zip(*pairs, strict=True) if out.dtype is dtype]
    for out, wanted in compared:
        assert_one_rounding(out, wanted, where)
    compared = [(out, wanted) for out, wanted in compared if out.requires_grad]
    if not compared or name in UNDERIVABLE:
        return
    weights = [weight_of(out) for out, _ in compared]
    outputs, references = zip(*compared, strict=True)
    grads = mt.autograd.grad(outputs, leaves, weights, allow_unused=True)
    wide = mt.autograd.grad(references, exact, [weight.double() for weight in weights], allow_unused=True)
    for index, (g, wanted) in enumerate(zip(grads, wide, strict=True)):
        assert (g is None) == (wanted is None), f"{where}: the gradient of tensor {index} is {g}, expected {wanted}"
        if g is not None:
            assert_one_rounding(g, wanted, f"{where}, gradient of tensor {index}")


def weight_of(out: Tensor) -> Tensor:
    """Cotangents of a half type that are not all alike."""
    return adopt(np.cos(1 + np.arange(out.numel(), dtype=float)).reshape(out.shape).astype(out._array.dtype))


def assert_one_rounding(got: Tensor, wanted: Tensor, where: str) -> None:
    """Half a unit for the rounding; the rest, and what is relative to the largest value, for float32's."""
    limits = mt.finfo(got.dtype)
    found, true = got.detach().double()._array, wanted.detach()._array
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = true.astype(got._array.dtype).astype(np.float64)
        unit = np.exp2(np.floor(np.log2(np.maximum(np.abs(true), limits.tiny)))) * limits.eps
        scale = np.abs(true[np.isfinite(true)]).max(initial=1)
        wrong = ~(
            (found == rounded) | (np.isnan(found) & np.isnan(true)) | (np.abs(found - true) <= unit + 4e-6 * scale)
        )
    assert not wrong.any(), f"{where}: {found[wrong]}, expected {true[wrong]}"


# Functions that used to round twice, or whose gradients overflowed along the way


@every_half
def test_linear_adds_the_bias_before_it_rounds(dtype: DType) -> None:
    """Rounding before the bias would leave nothing where the two nearly cancel. Rows do not depend on the batch."""
    rng = np.random.default_rng(0)
    x, weight = (mt.tensor(rng.standard_normal(shape)).to(dtype) for shape in ((40, 4), (8, 4)))
    product = x.double() @ weight.double().T
    bias = (-product[0]).to(dtype)
    wanted = product + bias.double()
    for layer in (F.linear, lambda x, weight, bias: F.linear(x, weight[0], bias[0]).unsqueeze(-1).expand(-1, 8)):
        out = layer(x, weight, bias)
        assert_one_rounding(out[:1, :1], wanted[:1, :1], "linear")
        assert mt.equal(layer(x[:1], weight, bias), out[:1])
    assert_one_rounding(F.linear(x, weight, bias), wanted, "linear")
    assert mt.equal(F.linear(x[0], weight, bias), F.linear(x, weight, bias)[0])


@every_half
def test_transposed_convolution_adds_the_bias_before_it_rounds(dtype: DType) -> None:
    rng = np.random.default_rng(1)
    x, weight = (mt.tensor(rng.standard_normal(shape)).to(dtype) for shape in ((1, 3, 2), (3, 1, 2)))
    product = F.conv_transpose1d(x.double(), weight.double())
    bias = (-product[0, 0, :1]).to(dtype)
    out = F.conv_transpose1d(x, weight, bias)
    assert_one_rounding(out, product + bias.double(), "conv_transpose1d")
    assert out[0, 0, 0] != 0


OVERFLOWING: dict[str, tuple[Callable[[Tensor], Tensor], float]] = {
    "2 / x": (lambda x: 2 / x * -0.591, 0.0053),
    "a quotient of tensors": (lambda x: (x * 0 + 0.5) / x * 1e-2, 0.002),
    "reciprocal": (lambda x: x.reciprocal() * 1e-3, 1e-3),
    "rsqrt": (lambda x: x.rsqrt() * 1e-4, 5e-5),
    "pow": (lambda x: x**-2 * 1e-4, 6e-3),
    "pow of tensors": (lambda x: x ** (x * 0 - 2) * 1e-4, 6e-3),
    "norm": (lambda x: x.repeat(4).norm(3.0), 3e-3),
    "tan": (lambda x: x.tan() * 1e-3, 1.567),
    "log": (lambda x: x.log() * 1e-3, 2e-6),
    "logit": (lambda x: x.logit() * 1e-2, 1e-5),
    "addcdiv": (lambda x: mt.addcdiv(x * 0, x * 0 + 1, x) * 1e-3, 1e-3),
    "prod": (lambda x: mt.stack([x * 0 + 300, x * 0 + 300, x]).prod() * 1e-1, 1e-3),
}


@pytest.mark.parametrize("name", OVERFLOWING)
def test_gradients_that_float16_holds_do_not_overflow(name: str) -> None:
    function, at = OVERFLOWING[name]
    x = mt.tensor(at, dtype=mt.float16).requires_grad_()
    exact = x.detach().double().requires_grad_()
    (g,), (wanted,) = (mt.autograd.grad(function(each), each) for each in (x, exact))
    assert 1 < abs(wanted.item()) < 60000
    assert abs(g.item() / wanted.item() - 1) < 4e-3


def test_in_place_forms_keep_what_their_gradients_need() -> None:
    """The gradient of `tanh_` is of the number that was overwritten."""
    x = mt.tensor([4.0], dtype=mt.float16).requires_grad_()
    (x * 1).tanh_().backward(mt.tensor([1.0], dtype=mt.float16))
    assert_one_rounding(x.grad, mt.tensor([4.0], dtype=mt.float64).cosh() ** -2, "tanh_")


def test_writes_to_inputs_whose_results_are_saved_are_allowed() -> None:
    """The gradient is computed from the rounded result, as in float32."""
    x = mt.tensor([1.0, 2.0], dtype=mt.float16).requires_grad_()
    y = x * 1
    out = y.exp()
    y.zero_()
    out.sum().backward()
    assert mt.equal(x.grad, out)


def test_second_gradients_of_half_types() -> None:
    x = mt.tensor([0.7, -1.3], dtype=mt.float16).requires_grad_()
    exact = x.detach().double().requires_grad_()
    found = []
    for each in (x, exact):
        (g,) = mt.autograd.grad(each.tanh().sum(), each, create_graph=True)
        found.append(mt.autograd.grad(g.sum(), each)[0])
    assert_one_rounding(*found, "tanh, twice")


@every_half
@pytest.mark.parametrize("option", ["weight", "pos_weight"])
def test_weights_do_not_change_the_type_of_a_loss(dtype: DType, option: str) -> None:
    x, y = mt.tensor([0.5, -1.0]).to(dtype), mt.tensor([1.0, 0.0]).to(dtype)
    weight = mt.tensor([2.0, 3.0])
    loss = F.binary_cross_entropy_with_logits(x, y, **{option: weight})
    wanted = F.binary_cross_entropy_with_logits(x.double(), y.double(), **{option: weight.double()})
    assert loss.dtype is dtype
    assert_one_rounding(loss, wanted, option)
    assert F.cross_entropy(x[None], mt.tensor([1]), weight).dtype is dtype


PRODUCTS: dict[str, tuple[Callable[..., Tensor], tuple[tuple[int, ...], ...]]] = {
    "bilinear": (F.bilinear, ((4, 6), (4, 5), (3, 6, 5))),
    "cdist": (lambda a, b: mt.cdist(a, b, compute_mode="use_mm_for_euclid_dist"), ((4, 8), (5, 8))),
    "conv_transpose1d": (F.conv_transpose1d, ((2, 3, 5), (3, 2, 2), (2,))),
    "cov": (mt.cov, ((3, 9),)),
    "gru": (lambda x: mt.manual_seed(0) and mt.nn.GRU(4, 4).to(x.dtype)(x)[0], ((3, 2, 4),)),
    "matmul": (mt.matmul, ((2, 1, 3, 8), (3, 8, 3))),
    "multi_head_attention": (
        lambda x: mt.manual_seed(0) and mt.nn.MultiheadAttention(4, 2).to(x.dtype)(x, x, x)[0],
        ((3, 2, 4),),
    ),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_precisions_of_float32_leave_half_types_alone(name: str) -> None:
    """Functions of several ops and gradients too, whose products are in float32."""
    function, shapes = PRODUCTS[name]
    found = []
    for precision in ("ieee", "bf16"):
        rng = np.random.default_rng(0)
        leaves = [mt.tensor(rng.standard_normal(shape)).half().requires_grad_() for shape in shapes]
        with mt.backends.mkldnn.flags(fp32_precision=precision):
            out = function(*leaves)
            found.append((out, *mt.autograd.grad(out, leaves, weight_of(out))))
    assert all(mt.equal(one, other) for one, other in zip(*found, strict=True))


# Casts


def nearest(value: Fraction, dtype: DType) -> float:
    """The number of a half type that is nearest to an exact one, of two the even one."""
    digits, least = (11, -24) if dtype is mt.float16 else (8, -133)
    if not value:
        return 0.0
    exponent = max(math.frexp(float(abs(value)))[1] - digits, least)
    return float(round(value / Fraction(2) ** exponent) * Fraction(2) ** exponent)


def close_to_ties(dtype: DType) -> np.ndarray:
    """Numbers a little above, on and below the middle of two neighbours, and tiny ones."""
    digits, least = (11, -24) if dtype is mt.float16 else (8, -133)
    rng = np.random.default_rng(0)
    middles = (2 * rng.integers(1 << digits - 1, 1 << digits, 200) + 1) * 2.0**-digits
    tiny = (2 * rng.integers(0, 1 << digits - 1, 100) + 1) * 2.0 ** (least - 1)
    numbers = np.concatenate([middles * 2.0 ** rng.integers(-9, 9, 200), tiny])
    return numbers * rng.choice([1, -1], 300) * (1 + rng.choice([0, 1, -1], 300) * 2.0**-40)


@every_half
def test_float64_is_rounded_once(dtype: DType) -> None:
    values = close_to_ties(dtype)
    wanted = [nearest(Fraction(value), dtype) for value in values]
    for layout in (values, np.repeat(values, 2)[::2]):
        assert mt.from_numpy(layout).to(dtype).double().tolist() == wanted
    assert mt.from_numpy(values + 1j).to(dtype).double().tolist() == wanted
    special = mt.tensor([math.inf, -math.inf, 1e300, 1e-300, -0.0, math.nan], dtype=mt.float64).to(dtype)
    assert str(special.tolist()) == "[inf, -inf, inf, 0.0, -0.0, nan]"


@pytest.mark.parametrize("kind", [mt.int64, mt.int32], ids=["int64", "int32"])
def test_integers_are_rounded_once_to_bfloat16(kind: DType) -> None:
    rng, bits = np.random.default_rng(0), 8 * kind.itemsize - 1
    values = (2 * rng.integers(128, 256, 100) + 1) * 2 ** (bits - 9 - rng.integers(0, 5, 100)) + rng.integers(
        -1, 2, 100
    )
    values = np.concatenate([values, -values, [-(2**bits), 2**bits - 1]]).astype(kind.dtype)
    wanted = [nearest(Fraction(int(value)), mt.bfloat16) for value in values]
    assert mt.from_numpy(values).to(mt.bfloat16).double().tolist() == wanted


WAYS: dict[str, Callable[[float, DType], Any]] = {
    "to": lambda value, dtype: mt.tensor([value], dtype=mt.float64).to(dtype),
    "tensor": lambda value, dtype: mt.tensor([value], dtype=dtype),
    "as_tensor": lambda value, dtype: mt.as_tensor(np.array([value]), dtype=dtype),
    "full": lambda value, dtype: mt.full((1,), value, dtype=dtype),
    "fill_": lambda value, dtype: mt.zeros(1, dtype=dtype).fill_(value),
    "copy_": lambda value, dtype: mt.zeros(1, dtype=dtype).copy_(mt.tensor(value, dtype=mt.float64)),
    "masked_fill": lambda value, dtype: mt.zeros(1, dtype=dtype).masked_fill(mt.tensor([True]), value),
    "where": lambda value, dtype: mt.where(mt.tensor([True]), value, mt.zeros(1, dtype=dtype)),
    "arange": lambda value, dtype: mt.arange(value, 9, 9, dtype=dtype),
    "linspace": lambda value, dtype: mt.linspace(value, value, 1, dtype=dtype),
    "out": lambda value, dtype: mt.add(mt.tensor([value], dtype=mt.float64), 0, out=mt.zeros(1, dtype=dtype)),
    "add_": lambda value, dtype: mt.zeros(1, dtype=dtype).add_(mt.tensor([value], dtype=mt.float64)),
    "pad": lambda value, dtype: F.pad(mt.zeros(0, dtype=dtype), (1, 0), value=value),
    "index": lambda value, dtype: mt.zeros(1, dtype=dtype).index_fill(0, mt.tensor([0]), value),
    "gradient": lambda value, dtype: mt.autograd.grad(
        (x := mt.zeros(1, dtype=dtype, requires_grad=True)).double(), x, mt.tensor([value], dtype=mt.float64)
    )[0],
}


@every_half
@pytest.mark.parametrize("way", WAYS)
def test_every_way_into_a_half_type_rounds_once(way: str, dtype: DType) -> None:
    eps = mt.finfo(dtype).eps
    assert WAYS[way](1 + eps / 2 + 2.0**-40, dtype).double().tolist() == [1 + eps]


@pytest.mark.parametrize("dtype", [mt.float16, mt.bfloat16])
def test_repeated_differences_round_once(dtype):
    x = mt.tensor(np.random.default_rng(3).standard_normal((9, 4))).to(dtype)
    exact = np.diff(x.double().numpy(), 3, axis=0)
    found = mt.diff(x, n=3, dim=0).double().numpy()
    assert np.all(np.abs(found - exact) <= np.abs(exact) * mt.finfo(dtype).eps / 2 + 1e-7)


def test_losses_of_half_types_beside_float32_targets():
    """In the input's type; that of several labels in the wider one. As torch has them."""
    F, half, single = mt.nn.functional, mt.ones(2, 3).half(), mt.ones(2, 3)
    narrow = F.hinge_embedding_loss(half, single), F.soft_margin_loss(half, single, reduction="none")
    assert [each.dtype for each in (*narrow, F.cosine_embedding_loss(half, half, mt.ones(2)))] == [mt.float16] * 3
    wide = F.multilabel_soft_margin_loss(half, half, weight=mt.ones(3)), F.soft_margin_loss(single, half)
    assert [each.dtype for each in wide] == [mt.float32] * 2
