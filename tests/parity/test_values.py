"""Every op against torch over its samples: values, dtypes, shapes, structure, gradients, and what is refused."""

from typing import Any

import numpy as np
import pytest
import torch

import minitorch_backends as mt
from minitorch_backends.dispatch.promotion import EVERY_CATEGORY
from minitorch_backends.tensor.dtypes import FLOATING, DType
from minitorch_backends.tensor.registry import registry
from minitorch_backends.tensor.tensor import Tensor, adopt

from ..declared.samples import Sample
from ..support.calls import (
    ARITHMETIC,
    HALVES,
    NO_HALVES,
    OPS,
    UNDERIVABLE,
    arrays_in,
    is_composite,
    leaves_of,
    results,
    run,
    samples_of,
    tensors,
)  # fmt: skip
from .peer import (
    KINDS,
    array_of,
    is_missing,
    is_public,
    name_of,
    torch_call,
    torch_functions,
    torch_outcome,
    torch_tensors,
    widen,
)

EPSILON = {
    "float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 4e-6, "complex64": 8e-6, "float64": 1e-11, "complex128": 1e-11,
}  # fmt: skip
"""Relative to the largest value: a rounding or two of the type, and series in special functions."""

ROUGH_IN_TORCH = {
    "celu": "its float64 kernel has a constant in float32",
    "hardsigmoid": "its float64 kernel has a constant in float32",
    "cosine_similarity": "its eps is a float32 constant",
    "polygamma": "a series cut off at float32 accuracy",
    "digamma": "its gradient is polygamma",
    **dict.fromkeys(("bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1"), "rational functions of float32 accuracy"),
}
"""Functions whose float64 kernel in torch is less precise than that, and why."""

PRODUCTS = """matmul mm bmm mv addmm baddbmm addmv addbmm inner tensordot multi_dot chain_matmul
    linear bilinear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d fold"""
FLOATING_ONLY = """softmax log_softmax softmin batch_norm instance_norm rms_norm silu softsign tanhshrink
    threshold smooth_l1_loss soft_margin_loss poisson_nll_loss hinge_embedding_loss multi_margin_loss
    multilabel_margin_loss"""
EMPTY_IN_LINALG = """lu_unpack matrix_power linalg_matrix_power linalg_lu_factor_ex linalg_lu_factor linalg_lu lu
    cholesky linalg_eigh linalg_eigvalsh linalg_cond linalg_cholesky linalg_cholesky_ex"""
"""Functions for which torch rejects integers only if there is a matrix."""
REFUSED_HERE = {
    **dict.fromkeys(PRODUCTS.split(), "b"),
    **dict.fromkeys(FLOATING_ONLY.split(), "bic"),
    **dict.fromkeys(("adaptive_avg_pool1d", "adaptive_avg_pool2d"), "bi"),
    "interpolate": "bic",
    **dict.fromkeys(("lp_pool1d", "lp_pool2d", "lp_pool3d"), "bic"),
    "grid_sample": "bic",
    "local_response_norm": "b",
    "scaled_dot_product_attention": "bic",
    **dict.fromkeys(("kthvalue", "cummax", "cummin"), "c"),
    "einsum": "b",
    **dict.fromkeys(("searchsorted", "bucketize"), "c"),
    "median": "bic",
    "nanmedian": "bic",
    **dict.fromkeys(("fractional_max_pool2d", "fractional_max_pool3d"), "bc"),
    "scatter_reduce": "c",
    "index_reduce": "bc",
    "mode": "c",
    "gradient": "b",
    "triplet_margin_with_distance_loss": "bi",
    **dict.fromkeys(EMPTY_IN_LINALG.split(), "bi"),
}
"""Categories of dtypes, as in an op's `takes`, that are refused here, and that torch takes in some sample."""

HALVES_IN_LINALG = """linalg_inv_ex linalg_inv linalg_solve_ex linalg_solve linalg_tensorinv linalg_tensorsolve
    linalg_pinv linalg_matrix_rank linalg_lstsq linalg_matrix_norm linalg_norm norm linalg_cond linalg_slogdet
    logdet inverse pinverse slogdet linalg_vander matrix_power linalg_matrix_power"""
ACCEPTED_HERE = {
    **dict.fromkeys(NO_HALVES, "batches of no transforms, at which MKL fails"),
    "complex": "bfloat16, without a complex type in torch",
    "polar": "bfloat16, without a complex type in torch",
    "view_as_complex": "bfloat16, without a complex type in torch",
    "sub": "a boolean tensor and a number, which are brought to the number's type",
    "rsub": "a boolean tensor and a number, which are brought to the number's type",
    "affine_grid": "no images",
    "hardtanh": "unsigned integers and negative limits",
    "gradient": "unsigned integers, whose differences wrap around",
    **dict.fromkeys(("quantile", "nanquantile"), "half types"),
    "scatter": "a negative number for unsigned integers, which wraps around",
    "linalg_svd": "a driver, which torch takes on GPUs only",
    **dict.fromkeys(HALVES_IN_LINALG.split(), "half types, whose matrices are factored in float32"),
}
"""What torch refuses and is accepted here."""

VALUE_ERRORS = {"affine_grid"}
"""Which refuse dtypes by a ValueError in torch, and here as all do."""

WRONG_IN_TORCH: dict[tuple[str, Any], str] = {
    ("airy_ai", "float64"): "a rational function of six digits",
    ("grid_sample", "bfloat16"): "places are rounded to eight bits",
    ("grid_sample", "float16"): "places are rounded to eleven bits",
    ("pixel_unshuffle", 2): "an empty batch keeps its sizes",
    ("matrix_exp", "float16"): "coefficients beyond the range of the type make everything infinite",
    ("matrix_exp", "bfloat16"): "coefficients are rounded to eight bits",
    ("linalg_cond", 10): "the result for no matrices requires no gradient",
    **{
        ("as_strided_scatter", n): "the gradient of the input is that of the places that were overwritten"
        for n in (0, 1, 2)
    },
    ("local_response_norm", "int64"): "means of squares are rounded down",
    ("interpolate", "uint8"): "rounds after each dimension",
    ("addmv", 3): "an empty product with a 0-dim input has the shape of the input",
    ("pdist", 6): "the gradient of no rows ends the process",
    ("std", 8): "the gradient takes dim=() for one element",
    ("std_mean", 8): "the gradient takes dim=() for one element",
    ("var", 8): "the gradient takes dim=() for one element",
    ("var_mean", 8): "the gradient takes dim=() for one element",
}
"""Samples, by name and number (or dtype), that are not compared, and what torch does with them."""

NOT_COMPARED = {"round_to", "scaled_mm", "_scaled_mm"}
"""Ops of the laboratory, and those of 8-bit operands, which NumPy does not hand to torch: `test_scaled_mm.py`."""

compared = pytest.mark.parametrize("name", [name for name in OPS if is_public(name) and name not in NOT_COMPARED])


@compared
def test_torch_has_the_name(name: str) -> None:
    assert torch_functions(name), f"torch has no {name}; is the name right, and ought it to be public?"


@compared
def test_values_dtypes_and_shapes(name: str) -> None:
    for number, call in compared_samples(name):
        for dtype in ARITHMETIC if arrays_in(call) else [mt.float32]:
            if (name, dtype.name) in WRONG_IN_TORCH:
                continue
            where = f"{name}, sample {number}, {dtype!r}"
            wanted = torch_outcome(name, torch_call(call, dtype))
            if isinstance(wanted, Exception):
                assert_refused(name, call, dtype, wanted, where)
            elif not refused_here(name, call, dtype):
                assert_like(run(name, tensors(call, dtype)), wanted, where, is_composite(name))


def refused_here(name: str, call: Sample, dtype: DType) -> bool:
    """Whether the op refuses a dtype that it is known to refuse."""
    if EVERY_CATEGORY[dtype.category] not in REFUSED_HERE.get(name, ""):
        return False
    try:
        run(name, tensors(call, dtype))
    except RuntimeError as error:
        return "not implemented for" in str(error)
    return False


def test_tables_are_current() -> None:
    """Every entry still says something of a public op."""
    names = {*ROUGH_IN_TORCH, *REFUSED_HERE, *ACCEPTED_HERE}
    assert not [name for name in names if name not in OPS or not is_public(name)]
    for name, letters in REFUSED_HERE.items():
        categories = {
            EVERY_CATEGORY[dtype.category]
            for dtype in ARITHMETIC
            for call in samples_of(name)
            if refused_here(name, call, dtype)
        }
        assert categories <= set(letters), name
        assert categories, f"{name} refuses nothing; take it off the list"


def assert_refused(name: str, call: Sample, dtype: DType, error: Exception, where: str) -> None:
    """The kind of torch's error is ours, unless torch merely has no kernel or no promotion for the dtype."""
    try:
        out = run(name, tensors(call, dtype))
    except KINDS as ours:
        raised: Exception = ours
    else:
        assert is_missing(error) or name in ACCEPTED_HERE, f"{where}: {out!r}, and torch raises {error!r}"
        return
    same = isinstance(error, type(raised)) or isinstance(raised, type(error))
    same = same or (name in VALUE_ERRORS and type(error) is ValueError and "not implemented for" in str(raised))
    assert same, f"{where}: {raised!r}, and torch raises {error!r}"


def assert_like(out: Any, wanted: Any, where: str, composite: bool) -> None:
    if isinstance(wanted, (tuple, list)):
        assert isinstance(out, type(wanted) if type(wanted) in (tuple, list) else tuple), (
            f"{where}: {type(out)}, and torch {type(wanted)}"
        )
        assert len(out) == len(wanted), f"{where}: {len(out)} results, and torch has {len(wanted)}"
        fields = [
            field for field in dir(wanted) if not field.startswith(("_", "n_")) and field not in ("count", "index")
        ]
        if hasattr(wanted, "n_fields"):
            assert sorted(out._fields) == sorted(fields), f"{where}: fields {out._fields}, and torch {fields}"
        for one, other in zip(out, wanted, strict=True):
            assert_like(one, other, where, composite)
    elif isinstance(wanted, torch.Tensor):
        assert isinstance(out, Tensor), f"{where}: {out!r}, and torch {wanted!r}"
        assert out.dtype.name == name_of(wanted.dtype), f"{where}: {out.dtype!r}, and torch {wanted.dtype}"
        assert out.shape == wanted.shape, f"{where}: {out.shape}, and torch {wanted.shape}"
        assert_close(out, array_of(wanted), where, composite, half=wanted.dtype is torch.complex32)
    else:
        assert out == wanted, f"{where}: {out!r}, and torch {wanted!r}"


def assert_close(out: Tensor, wanted: np.ndarray, where: str, composite: bool, half: bool = False) -> None:
    got = widen(out)
    if out.dtype.category < FLOATING:
        assert np.array_equal(got, wanted), f"{where}: {got.tolist()}, and torch {wanted.tolist()}"
        return
    scale = np.abs(wanted[np.isfinite(wanted)].astype(complex)).max(initial=1.0)
    tolerance = EPSILON["float16" if half else out.dtype.name] * (4 if composite and out.dtype in HALVES else 1)
    if where.split(",", 1)[0] in ROUGH_IN_TORCH:
        tolerance = max(tolerance, 1e-6)
    close = np.isclose(got, wanted, tolerance, tolerance * scale, equal_nan=True)
    assert close.all(), f"{where}: {got[~close]}, and torch {wanted[~close]}"


@compared
def test_gradients(name: str) -> None:
    for dtype in (mt.float64, mt.complex128):
        for number, call in compared_samples(name):
            where = f"{name}, sample {number}, {dtype!r}"
            peers = torch_call(call, dtype, requires_grad=True)
            wanted = torch_outcome(name, peers)
            if not arrays_in(call) or isinstance(wanted, Exception) or refused_here(name, call, dtype):
                continue
            made = tensors(call, dtype, requires_grad=True)
            outputs, peer_outputs = results(run(name, made)), torch_tensors(wanted)
            needed = [out.requires_grad for out in outputs]
            assert needed == [out.requires_grad for out in peer_outputs], (
                f"{where}: requires_grad is {needed}, and in torch not"
            )
            if any(needed) and name not in UNDERIVABLE:
                assert_same_gradients(made, outputs, peers, peer_outputs, where)


def assert_same_gradients(
    made: Sample, outputs: list[Tensor], peers: Sample, peer_outputs: list[torch.Tensor], where: str
) -> None:
    outputs = [out for out in outputs if out.requires_grad]
    peer_outputs = [out for out in peer_outputs if out.requires_grad]
    weights = [np.cos(np.arange(out.numel()) + 1.0).reshape(out.shape).astype(out._array.dtype) for out in outputs]
    mt.autograd.backward(outputs, [adopt(weight) for weight in weights])
    try:
        torch.autograd.backward(peer_outputs, [torch.from_numpy(weight) for weight in weights])
    except RuntimeError:
        return  # no gradient in torch: none is written, or it does not fit
    for leaf, peer in zip(leaves_of(made), torch_leaves(peers), strict=True):
        if peer.grad is None or leaf.grad is None:
            assert leaf.grad is None or not leaf.grad._array.any(), f"{where}: a gradient, and in torch none"
            assert peer.grad is None or not peer.grad.any(), f"{where}: no gradient, and in torch {peer.grad}"
            continue
        assert_close(leaf.grad, array_of(peer.grad), f"{where}, gradient", composite=False)


def compared_samples(name: str) -> list[tuple[int, Sample]]:
    return [(number, call) for number, call in enumerate(samples_of(name)) if (name, number) not in WRONG_IN_TORCH]


def torch_leaves(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value] if value.requires_grad else []
    if isinstance(value, dict):
        value = tuple(value.values())
    return [leaf for each in value for leaf in torch_leaves(each)] if isinstance(value, (list, tuple)) else []


@pytest.mark.parametrize("name", [name for name in OPS if name + "_" in vars(Tensor) and is_public(name)])
def test_inplace_forms_exist_in_torch(name: str) -> None:
    assert hasattr(torch.Tensor, name + "_") or hasattr(torch.nn.functional, name + "_")


def test_methods_exist_in_torch() -> None:
    installed = [name for name in OPS if name in vars(Tensor) and getattr(Tensor, name) is registry[name].public]
    extra = [name for name in installed if not hasattr(torch.Tensor, name)]
    assert not extra, f"methods that torch does not have: {extra}"


@pytest.mark.parametrize("size", [1, 70_000])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_signs_of_zeros(dtype: str, size: int) -> None:
    names = "relu relu6 elu celu selu gelu silu mish hardtanh hardswish leaky_relu softsign tanhshrink"
    for name in [*names.split(), "erf", "erfinv", "sin", "tan", "asin", "sinh", "tanh", "expm1", "log1p", "sqrt"]:
        for sign in (1.0, -1.0):
            peer = torch.full((size,), sign * 0.0, dtype=getattr(torch, dtype))
            modules = (torch, mt) if hasattr(torch.Tensor, name) else (torch.nn.functional, mt.nn.functional)
            expected, found = (getattr(module, name) for module in modules)
            zeros = mt.full((size,), sign * 0.0, dtype=getattr(mt, dtype))
            assert np.array_equal(torch.signbit(expected(peer)).numpy(), mt.signbit(found(zeros)).numpy()), name
