"""Other names of functions: in place, in the package's own namespace, copying; methods made of other methods."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends.nn import functional as F


def image() -> mt.Tensor:
    return mt.arange(24.0, dtype=mt.float64).reshape(2, 3, 4) / 7 - 1


def test_names_of_functions_are_names_of_the_package() -> None:
    assert mt.relu_ is F.relu_
    assert F.max_pool1d_with_indices(image(), 2)[1][0, 0].tolist() == [1, 3]
    assert mt.ones(2).multiply_(3).true_divide_(2).tolist() == [1.5, 1.5]


COPIES: dict[str, tuple[Any, ...]] = {
    "as_strided_copy": ((2, 2), (1, 3)), "diagonal_copy": (1,), "expand_copy": (5, 2, 3, 4), "permute_copy": (2, 0, 1),
    "select_copy": (1, 2), "split_with_sizes_copy": ([1, 2], 1), "squeeze_copy": (), "transpose_copy": (0, 2),
    "unbind_copy": (), "unfold_copy": (2, 3, 1), "unsqueeze_copy": (0,), "view_copy": (6, 4), "narrow_copy": (0, 1, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", COPIES)
def test_copies_of_views_share_no_memory(name: str) -> None:
    x, arguments = image(), COPIES[name]
    views, copies = getattr(x, name.removesuffix("_copy"))(*arguments), getattr(mt, name)(x, *arguments)
    for view, copied in zip(
        *((each,) if isinstance(each, mt.Tensor) else each for each in (views, copies)), strict=True
    ):
        assert mt.equal(copied, view)
        copied.zero_()
    assert mt.equal(x, image())


def test_copies_of_complex_views_share_no_memory() -> None:
    x = image()
    mt.t_copy(x[0]).zero_(), mt.view_as_real_copy(mt.complex(x, x)).zero_()
    pairs = x.reshape(12, 2)
    assert mt.equal(mt.view_as_complex_copy(pairs).mul_(0), mt.zeros(12, dtype=mt.complex128))
    assert mt.equal(x, image())


SYNONYMS = {
    "absolute_": "abs", "arccos_": "acos", "arccosh_": "acosh", "arcsinh_": "asinh", "arctan_": "atan",
    "arctanh_": "atanh", "fix_": "trunc", "negative_": "neg",
    "arctan2_": "atan2", "clip_": "clamp_max", "divide_": "div", "greater_": "gt", "greater_equal_": "ge",
    "less_": "lt", "less_equal_": "le", "not_equal_": "ne", "subtract_": "sub",
}  # fmt: skip


@pytest.mark.parametrize("name", SYNONYMS)
def test_synonyms_write_in_place(name: str) -> None:
    x, expected = image(), getattr(image(), SYNONYMS[name])
    if name == "clip_":
        assert x.clip_(max=0.5) is x
        assert mt.equal(x, expected(0.5))
        return
    other = () if list(SYNONYMS).index(name) < 8 else (0.25 * mt.ones_like(x),)
    assert getattr(x, name)(*other) is x
    np.testing.assert_array_equal(x.numpy(), expected(*other).to(x.dtype).numpy())


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("max_pool1d_with_indices", (2,)),
        ("max_pool2d_with_indices", (2, 1)),
        ("max_pool3d_with_indices", (2,)),
        ("adaptive_max_pool1d_with_indices", (2,)),
        ("adaptive_max_pool2d_with_indices", ((2, 3),)),
        ("adaptive_max_pool3d_with_indices", (1,)),
        ("fractional_max_pool2d_with_indices", (2, 2)),
        ("fractional_max_pool3d_with_indices", (1, 2)),
    ],
)
def test_pools_with_indices_are_pools_that_return_them(name: str, arguments: tuple[Any, ...]) -> None:
    dims = int(name[name.index("pool") + 4])
    x = mt.arange(2.0 * 3**dims).roll(5).reshape(2, *[3] * dims)
    found = []
    for function, options in ((name, {}), (name.removesuffix("_with_indices"), {"return_indices": True})):
        mt.manual_seed(0)
        found.append(getattr(F, function)(x, *arguments, **options))
    for values, places in found:
        assert mt.equal(values, found[0][0])
        assert mt.equal(places, found[0][1])
        assert mt.equal(x.flatten(1).gather(1, places.flatten(1)), values.flatten(1))


def test_other_names_give_the_same() -> None:
    x, y = image(), image()[0]
    assert mt.equal(mt.swapdims(x, 0, 2), x.transpose(0, 2))
    assert mt.equal(x.clone().swapdims_(0, 2), x.swapdims(0, 2))
    assert mt.equal(mt.row_stack((y, y)), mt.vstack((y, y)))
    for split in (mt.unsafe_split(x, 2, 2), mt.unsafe_split_with_sizes(x, [2, 2], 2), mt.unsafe_chunk(x, 2, 2)):
        assert mt.equal(mt.cat(split, 2), x)
        assert [each.shape[2] for each in split] == [2, 2]
    assert mt.equal(F.upsample(x[None], scale_factor=2), F.interpolate(x[None], scale_factor=2))
    assert mt.equal(F.upsample_nearest(x[None], (5, 6)), F.interpolate(x[None], (5, 6)))
    assert mt.equal(F.upsample_bilinear(x[None], (5, 6)), F.interpolate(x[None], (5, 6), None, "bilinear", True))
    points, one = mt.linspace(0.1, 3, 7, dtype=mt.float64), mt.ones(7, dtype=mt.float64)
    mt.testing.assert_close(mt.special.gammaincc(one, points), (-points).exp())
    assert mt.equal(mt.special.modified_bessel_i0(points), mt.special.i0(points))
    assert mt.equal(mt.special.modified_bessel_i1(points), mt.special.i1(points))


def test_what_a_tensor_of_arrays_is_not() -> None:
    x = image()
    for name in (
        "is_ipu", "is_maia", "is_meta", "is_mkldnn", "is_mps", "is_mtia", "is_nested", "is_sparse", "is_sparse_csr",
        "is_vulkan", "is_xla", "is_xpu",
    ):  # fmt: skip
        assert getattr(x, name) is False
    assert not any((x.is_conj(), mt.is_neg(x), x.is_pinned(), x.is_shared()))
    assert mt.is_same_size(x, x + 1)
    assert not x.is_same_size(x[0])


METHODS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "fill_diagonal_": (lambda mt: mt.zeros(5, 2).fill_diagonal_(1, wrap=True)[:, 0].tolist(), [1, 0, 0, 1, 0]),
    "apply_": (lambda mt: mt.ones(2).apply_(lambda value: value + 1).tolist(), [2.0, 2.0]),
    "map_": (lambda mt: mt.ones(2).map_(mt.tensor([2.0, 3.0]), lambda a, b: a - b).tolist(), [-1.0, -2.0]),
    "map2_": (
        lambda mt: mt.ones(2).map2_(mt.tensor([2.0, 3.0]), mt.ones(2), lambda a, b, c: a - b * c).tolist(),
        [-1, -2],
    ),
    "nelement": (lambda mt: mt.ones(2, 3).nelement(), 6),
    "dim_order": (lambda mt: mt.ones(2, 3, 4).permute(2, 0, 1).dim_order(), (1, 2, 0)),
    "char": (lambda mt: (x := mt.tensor([-3.7]).char()).dtype is mt.int8 and x.item(), -3),
    "cfloat": (lambda mt: mt.ones(1).cfloat().dtype is mt.cfloat is mt.complex64, True),
    "cdouble": (lambda mt: mt.ones(1).cdouble().dtype is mt.cdouble is mt.complex128, True),
    "is_set_to": (lambda mt: (x := mt.ones(3)).is_set_to(x[:]) and not x.is_set_to(x[1:]), True),
    "is_signed": (lambda mt: [mt.ones(1, dtype=each).is_signed() for each in (mt.int8, mt.uint8)], [True, False]),
    "empty_strided": (lambda mt: mt.empty_strided((2, 3), (1, 4)).stride(), (1, 4)),
    "empty_permuted": (lambda mt: mt.empty_permuted((2, 3, 4), (0, 2, 1)).stride(), (12, 1, 3)),
    "frombuffer": (lambda mt: mt.frombuffer(b"\x01\x02\x03\x04", dtype=mt.uint8, count=2, offset=1).tolist(), [2, 3]),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_made_of_others(name: str) -> None:
    call, expected = METHODS[name]
    assert call(mt) == expected


def test_low_rank_factors() -> None:
    mt.manual_seed(0)
    exact = mt.randn(7, 2, dtype=mt.float64) @ mt.randn(2, 5, dtype=mt.float64)
    for matrix in (exact, exact.mT):
        u, s, v = mt.svd_lowrank(matrix, 3)
        np.testing.assert_allclose((u * s @ v.mT).numpy(), matrix.numpy(), atol=1e-12)
    _, s, _ = mt.pca_lowrank(exact, 2)
    centered = exact.numpy() - exact.numpy().mean(0)
    np.testing.assert_allclose(s.numpy(), np.linalg.svd(centered, compute_uv=False)[:2], atol=1e-12)


def test_random_numbers_have_their_moments() -> None:
    mt.manual_seed(1)
    count = 20_000
    rates, trials = mt.full((count,), 3.5), mt.full((count,), 10.0)
    log_normal = mt.empty(count, dtype=mt.float64).log_normal_(0.5, 0.25).log()
    cauchy = mt.empty(count, dtype=mt.float64).cauchy_(2.0, 0.5)
    for drawn, mean, variance in (
        (mt.poisson(rates), 3.5, 3.5),
        (mt.binomial(trials, mt.tensor(0.3)), 3.0, 2.1),
        (mt.empty(count).geometric_(0.25), 4.0, 12.0),
        (log_normal, 0.5, 0.0625),
    ):
        assert abs(drawn.mean().item() - mean) < 6 * math.sqrt(variance / count)
        assert abs(drawn.var().item() / variance - 1) < 0.1
    quarters = cauchy.quantile(mt.tensor([0.25, 0.5, 0.75], dtype=mt.float64))
    np.testing.assert_allclose(quarters.numpy(), [1.5, 2.0, 2.5], atol=0.05)
