"""Transformer encoders of torch pad as they do without modes.

In inference `nn.TransformerEncoder` computes padded batches as nested tensors, and fills padded rows with zeros. It
does not under function modes, for which it takes the way through modules. Both are the same up to the padding.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch.overrides import _get_current_function_mode_stack

from .operands import PLAIN_TYPES
from .shared_blocks import shared_block


def _has_torch_function(tensors: Any) -> bool:
    """torch's answer; False where only our modes are the reason, and the encoder's choice of its way depends on it."""
    if not torch._C._has_torch_function(tensors):
        return False
    if not all(each is None or type(each) in PLAIN_TYPES for each in tensors):
        return True
    if any(type(mode).__module__.rpartition(".")[0] != __package__ for mode in _get_current_function_mode_stack()):
        return True
    is_encoder = sys._getframe(1).f_code is torch.nn.TransformerEncoder.forward.__code__
    return not is_encoder and not any(each is not None and each.is_nested for each in tensors)


@shared_block
def pad_as_torch() -> Iterator[None]:
    """Let encoders compute padded batches as nested tensors while the block runs."""
    before = torch.overrides.has_torch_function
    torch.overrides.has_torch_function = _has_torch_function
    yield
    torch.overrides.has_torch_function = before
