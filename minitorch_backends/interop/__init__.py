"""Bridges to other libraries, each loaded when it is first asked for.

* `interop.onnx` (extra `onnx`): ONNX files as modules.
* `interop.safetensors` (extra `safetensors`): checkpoints in that format.
* `interop.torch` (extra `torch`): torch's own models under the flags of this package.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["onnx", "safetensors", "torch"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
