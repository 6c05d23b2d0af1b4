"""What users see of the recorded graph, under the names of torch.autograd.graph."""

from __future__ import annotations

from .engine import GradientEdge, get_gradient_edge
from .hooks import register_multi_grad_hook
from .nodes import Node
from .versions import increment_version

__all__ = ["GradientEdge", "Node", "get_gradient_edge", "increment_version", "register_multi_grad_hook"]
