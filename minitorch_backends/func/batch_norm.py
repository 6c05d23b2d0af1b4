"""Batch normalisation under transforms, which reject writes of a mapped batch to running statistics."""

from __future__ import annotations

from typing import Any

from ..nn.module import Module
from ..nn.normalization import _BatchNorm


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Let all batch normalizations of a module use the statistics of each batch, and forget the running ones.

    Returns `root`. Raises TypeError if it is not a module.
    """
    if not isinstance(root, Module):
        raise TypeError(f"replace_all_batch_norm_modules_(): root must be a Module, got {type(root).__name__}")
    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
