"""Experiments of the laboratory on torch's models and functions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ...explain.product_counts import ProductCounts
from .mode import emulate


@contextmanager
def observe_products(counts: ProductCounts, grad: bool) -> Iterator[None]:
    """Run the block inside `emulate` under the current flags, and count the products that torch computes itself."""
    with torch.set_grad_enabled(grad), emulate() as mode:
        yield
    counts.others.update({f"{each.op} of torch ({each.why})": each.count for each in mode.left})
