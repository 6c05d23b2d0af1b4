"""`torch.onnx`: programs are not traced. Registrations for the export have no effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

__all__ = ["export", "is_in_onnx_export", "parse_args", "register_custom_op_symbolic"]


def is_in_onnx_export() -> bool:
    """Whether a model is exported at present: False."""
    return False


def export(*args: Any, **named: Any) -> NoReturn:
    """Raises RuntimeError: load the state_dict in torch to export a model."""
    raise RuntimeError("onnx.export(): programs are not traced; save(module.state_dict(), f), and export it in torch")


def parse_args(*kinds: str) -> Callable[[Any], Any]:
    """A decorator without effect."""
    return lambda function: function


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Any, opset_version: int, **options: Any) -> None:
    """Without effect."""
