"""Recipes against torchao: formats to the bit, and its float8 training layer, forward and backward."""

from typing import Any

import numpy as np
import pytest
import torch

import minitorch_backends as mt
from minitorch_backends import backends
from minitorch_backends.kernels.precisions.rounding import round_operand

pytest.importorskip("torchao", reason="torchao is the reference")
pytestmark = pytest.mark.filterwarnings("ignore")
X = (np.random.default_rng(0).standard_normal((64, 512)) * 3).astype(np.float32)


@pytest.mark.parametrize("rule", ["FLOOR", "RCEIL", "CEIL", "EVEN"])
@pytest.mark.parametrize(
    ("name", "dtype"),
    [("mxfp8", torch.float8_e4m3fn), ("mxfp8-e5m2", torch.float8_e5m2), ("mxfp4", torch.float4_e2m1fn_x2)],
)
def test_mx(name: str, dtype: torch.dtype, rule: str) -> None:
    from torchao.prototype.mx_formats.mx_tensor import MXTensor, ScaleCalculationMode

    found = MXTensor.to_mx(torch.from_numpy(X), dtype, 32, getattr(ScaleCalculationMode, rule))
    own = name if rule == "FLOOR" else f"{name}-{rule.lower()}"
    np.testing.assert_array_equal(round_operand(X, own), found.dequantize(torch.float32).numpy())


def test_nvfp4() -> None:
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor, per_tensor_amax_to_scale

    x = torch.from_numpy(X)
    found = NVFP4Tensor.to_nvfp4(x, per_tensor_scale=per_tensor_amax_to_scale(x.abs().max()))
    np.testing.assert_allclose(round_operand(X, "nvfp4"), found.dequantize(torch.float32).numpy(), rtol=3e-7)


def test_integers() -> None:
    from torchao.quantization import quant_primitives as ao

    x = torch.from_numpy(X)
    symmetric = {"mapping_type": ao.MappingType.SYMMETRIC, "eps": torch.finfo(torch.float32).eps}
    for name, block, limits in (("int8-row", (1, 512), (-128, 127)), ("int4-symmetric-32", (1, 32), (-8, 7))):
        scale, zero = ao.choose_qparams_affine(
            x, block_size=block, target_dtype=torch.int8, quant_min=limits[0], quant_max=limits[1], **symmetric
        )
        codes = ao.quantize_affine(x, block, scale, zero, torch.int8, *limits)
        found = ao.dequantize_affine(codes, block, scale, zero, torch.int8, *limits, output_dtype=torch.float32)
        np.testing.assert_array_equal(round_operand(X, name), found.numpy())
    block, half = (1, 128), {"scale_dtype": torch.bfloat16, "zero_point_dtype": torch.bfloat16}
    given = (ao.MappingType.ASYMMETRIC, block, torch.int32, 0, 15)
    scale, zero = ao._choose_qparams_affine_tinygemm(x, *given, eps=1e-6, **half)
    codes = ao._quantize_affine_tinygemm(x, block, scale, zero, torch.int32, 0, 15)
    values = ao._dequantize_affine_tinygemm(codes, block, scale, zero, torch.int32, 0, 15, output_dtype=torch.float32)
    np.testing.assert_array_equal(round_operand(X, "int4-128"), values.numpy())


@pytest.mark.parametrize(
    ("recipe", "name"),
    [
        ("torchao-tensorwise", "tensorwise"),
        ("torchao-rowwise", "rowwise"),
        ("torchao-rowwise-gw-hp", "rowwise_with_gw_hp"),
    ],
)
def test_float8_training(recipe: str, name: str) -> None:
    """torchao's layer, emulated in float32, forward and both gradients."""
    import dataclasses

    from torchao.float8.config import Float8LinearConfig
    from torchao.float8.float8_linear import Float8Linear

    torch.manual_seed(0)
    layer, x, g = torch.nn.Linear(64, 48, bias=False), torch.randn(32, 64), torch.randn(32, 48)
    config = dataclasses.replace(Float8LinearConfig.from_recipe_name(name), emulate=True)
    theirs = Float8Linear.from_float(layer, config)
    leaf = x.clone().requires_grad_()
    expected = theirs(leaf)
    expected.backward(g)
    own, weight = mt.tensor(x.numpy()).requires_grad_(), mt.nn.Parameter(mt.tensor(layer.weight.detach().numpy()))
    with backends.recipes[recipe]:
        out = mt.nn.functional.linear(own, weight)
        out.backward(mt.tensor(g.numpy()))
    pairs: list[tuple[Any, Any]] = [(out, expected), (own.grad, leaf.grad), (weight.grad, theirs.weight.grad)]
    for found, wanted in pairs:
        scale = float(wanted.abs().max())
        np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), rtol=0, atol=3e-6 * scale)
