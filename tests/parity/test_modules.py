"""Modules beside torch's: the same values, and the same repr, from the same arguments."""

from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt

from ..support.module_calls import CALLS, inputs_of
from .peer import torch

OWN_REPR = {"Softshrink", "Hardshrink", "Softmax2d", "TripletMarginWithDistanceLoss", "Unflatten"}
"""torch shows their options without names, or shows one as a list, or a default distance as a module."""


@pytest.mark.parametrize(("name", "args", "options"), CALLS, ids=[str(each) for each in CALLS])
def test_modules(name: str, args: tuple, options: dict[str, Any]) -> None:
    theirs, ours = getattr(torch.nn, name)(*args, **options), getattr(mt.nn, name)(*args, **options)
    arrays = inputs_of(name)
    wanted, found = theirs(*map(torch.tensor, arrays)), ours(*map(mt.tensor, arrays))
    assert np.allclose(wanted.detach().numpy(), found.detach().numpy(), rtol=1e-5, atol=1e-6)
    assert name in OWN_REPR or repr(ours) == repr(theirs)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_transformers(norm_first: bool, activation: str) -> None:
    torch.manual_seed(0)
    options: dict[str, Any] = {"dropout": 0.0, "activation": activation, "norm_first": norm_first, "batch_first": True}
    theirs, ours = torch.nn.Transformer(8, 2, 2, 2, 16, **options), mt.nn.Transformer(8, 2, 2, 2, 16, **options)
    ours.load_state_dict({name: mt.tensor(value.numpy()) for name, value in theirs.state_dict().items()})
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((3, length, 8)).astype(np.float32) for length in (5, 4)]
    results = []
    for module, make in ((theirs, torch.tensor), (ours, mt.tensor)):
        mask = module.generate_square_subsequent_mask(4)
        padding = make(np.arange(5) > np.array([[4], [2], [3]]))
        out = module(*map(make, arrays), tgt_mask=mask, src_key_padding_mask=padding, tgt_is_causal=True)
        (out * out * out).sum().backward()
        results.append([out, *[each.grad for each in module.parameters()]])
    for wanted, found in zip(*results, strict=True):
        assert np.allclose(wanted.detach().numpy(), found.detach().numpy(), rtol=1e-3, atol=1e-4)
