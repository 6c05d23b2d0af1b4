"""Bridges to other libraries, each loaded on first use, or with the library.

* `interop.array_api`: the namespace of the array API standard over tensors.
* `interop.autoray`, `einops`, `opt_einsum`, `tensorly` (extra `neighbours`): tensors in these, quimb and cotengra.
* `interop.gguf`: the files of llama.cpp, with their tokenizer.
* `interop.onnx` (extra `onnx`): ONNX files as modules.
* `interop.safetensors` (extra `safetensors`): checkpoints in that format.
* `interop.torch` (extra `torch`): torch's own models under the flags of this package.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ..dispatch.call_errors import install
from ..tensor.tensor import Tensor
from .neighbours import register

__all__ = ["array_api", "autoray", "einops", "gguf", "onnx", "opt_einsum", "safetensors", "tensorly", "torch"]

_EXTRAS = ("onnx", "safetensors", "torch")
"""Those of the names above that are extras of their own."""


def __getattr__(name: str) -> Any:
    if name in __all__:
        try:
            return import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            extra = name if name in _EXTRAS else "neighbours"
            raise ImportError(f"interop.{name} needs {name}: pip install 'minitorch-backends[{extra}]'") from None
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _array_namespace(self: Tensor, *, api_version: str | None = None) -> Any:
    """The namespace of the array API standard for tensors. Raises ValueError for a version that it does not follow."""
    from . import array_api

    if api_version not in (None, *array_api.VERSIONS):
        expected = ", ".join(array_api.VERSIONS)
        raise ValueError(f"__array_namespace__(): api_version must be one of {expected}, got {api_version!r}")
    return array_api


def _to_device(self: Tensor, device: Any, *, stream: Any = None) -> Tensor:
    """The tensor itself, for the device "cpu". Raises RuntimeError for another one."""
    return self.to(device=device)


register()
install(__array_namespace__=_array_namespace, to_device=_to_device)
