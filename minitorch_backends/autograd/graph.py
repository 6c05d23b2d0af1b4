"""The public view of the recorded graph, under the names of torch.autograd.graph."""

from __future__ import annotations

from .api import GradientEdge, get_gradient_edge
from .extras.graph_stats import GraphStatistics, set_growth_limit, statistics
from .extras.multi_grad_hooks import register_multi_grad_hook
from .extras.saved_tensors import (
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    save_on_cpu,
    saved_tensors_hooks,
)
from .nodes import Node
from .versions import increment_version

__all__ = [
    "GradientEdge", "GraphStatistics", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks",
    "get_gradient_edge", "increment_version", "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks",
    "set_growth_limit", "statistics",
]  # fmt: skip
