"""`torch.ops`: operators of C++ libraries, which cannot be loaded."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["load_library"]

_REASON = "operators of C++ libraries cannot be loaded; use autograd.Function, or what the library has in Python"


def load_library(path: Any) -> NoReturn:
    """Raises OSError: a library's operators are compiled for torch's tensors."""
    raise OSError(f"ops.load_library(): {_REASON}")


class _Namespace:
    """Operators of one library; each raises when called."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Namespace(f"{self._name}.{name}")

    def __call__(self, *args: Any, **named: Any) -> NoReturn:
        raise NotImplementedError(f"ops.{self._name}: {_REASON}")


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _Namespace(name)
