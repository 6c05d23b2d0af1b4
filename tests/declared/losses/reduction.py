"""Samples and references of `ops/losses/reduction.py`."""

from __future__ import annotations

from typing import Any

import numpy as np


def reduced_array(loss: Any, reduction: str) -> Any:
    """`reduce_loss`, for references."""
    return loss if reduction == "none" else np.mean(loss) if reduction == "mean" else np.sum(loss)
