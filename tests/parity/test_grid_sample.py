"""Images at places between their values beside torch's: values and both gradients."""

from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends.nn import functional as F

from .peer import torch


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(
    ("mode", "dims"), [("bilinear", 2), ("nearest", 2), ("bicubic", 2), ("bilinear", 3), ("nearest", 3)]
)
def test_places(mode: str, dims: int, padding_mode: str, align_corners: bool) -> None:
    rng = np.random.default_rng(0)
    image, grid = rng.normal(size=(2, 3, *(5, 6, 4)[:dims])), rng.uniform(-2.5, 2.5, (2, *(4, 5, 3)[:dims], dims))
    found: list[Any] = []
    for module, function in ((mt, F), (torch, torch.nn.functional)):
        leaves = [module.tensor(each, requires_grad=True) for each in (image, grid)]
        out = function.grid_sample(*leaves, mode, padding_mode, align_corners)
        out.sin().sum().backward()
        found.append([out.detach().numpy(), *(each.grad.numpy() for each in leaves)])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 3, 2, 4, 3)])
def test_affine_grids(size: tuple[int, ...], align_corners: bool) -> None:
    dims = len(size) - 2
    theta = np.random.default_rng(0).normal(size=(2, dims, dims + 1))
    theirs = torch.nn.functional.affine_grid(torch.tensor(theta), size, align_corners)
    np.testing.assert_allclose(F.affine_grid(mt.tensor(theta), size, align_corners).numpy(), theirs, atol=1e-12)
