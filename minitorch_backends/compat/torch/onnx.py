"""`torch.onnx`: programs are not traced."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["export", "is_in_onnx_export"]


def is_in_onnx_export() -> bool:
    """Whether a model is exported at present: False."""
    return False


def export(*args: Any, **named: Any) -> NoReturn:
    """Raises RuntimeError: load the state_dict in torch to export a model."""
    raise RuntimeError("onnx.export(): programs are not traced; save(module.state_dict(), f), and export it in torch")
