"""What users see of the recorded graph, under the names of torch.autograd.graph."""

from __future__ import annotations

from .engine import GradientEdge, get_gradient_edge
from .growth import GraphStatistics, set_growth_limit, statistics
from .hooks import register_multi_grad_hook
from .nodes import Node
from .saved import (
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    save_on_cpu,
    saved_tensors_hooks,
)
from .versions import increment_version

__all__ = [
    "GradientEdge",
    "GraphStatistics",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
    "set_growth_limit",
    "statistics",
]
