"""Bridges to other libraries, each loaded on first use, or with the library.

* `interop.array_api`: the namespace of the array API standard over tensors.
* `interop.autoray`, `einops`, `opt_einsum`, `tensorly` (extra `neighbours`): tensors in these, quimb and cotengra.
* `interop.gguf`: the files of llama.cpp, with their tokenizer.
* `interop.onnx` (extra `onnx`): ONNX files as modules.
* `interop.safetensors` (extra `safetensors`): checkpoints in that format.
* `interop.threadpoolctl` (extra `lab`): the kernels' threads in `threadpool_info` and `threadpool_limits`.
* `interop.torch` (extra `torch`): torch's own models under the flags of this package.

Autoray, einops, opt_einsum, TensorLy and threadpoolctl have a table of backends or pools. They may be imported before
or after this package, and neither imports the other: `register`, which is called once, registers with the imported
ones, and installs a finder on `sys.meta_path` for the others.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from ..kernels.runtime.context import warn_caller
from ..tensor.call_errors import install
from ..tensor.tensor import Tensor

__all__ = [
    "array_api",
    "autoray",
    "einops",
    "gguf",
    "onnx",
    "opt_einsum",
    "safetensors",
    "tensorly",
    "threadpoolctl",
    "torch",
]

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


LIBRARIES = ("autoray", "einops", "opt_einsum", "tensorly", "threadpoolctl")
"""The libraries that a module of this folder under the same name registers with when it is imported."""


class _Finder:
    """Finds modules as the other finders do, and has those of `LIBRARIES` register after they have been run."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname not in LIBRARIES:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, (finder.find_spec(fullname, path, target) for finder in others)), None)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            run(module)
            _register_with(fullname)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _register_with(library: str) -> None:
    try:
        import_module(f"{__name__}.{library}")
    except (ImportError, AttributeError, TypeError) as error:  # of a version that is made otherwise
        warn_caller(f"{__name__}: this version of {library} cannot be registered with: {error}")


def register() -> None:
    """Register with the libraries, now or when they are imported."""
    sys.meta_path.insert(0, _Finder())
    for library in LIBRARIES:
        if library in sys.modules:
            _register_with(library)


register()
install(__array_namespace__=_array_namespace, to_device=_to_device)
