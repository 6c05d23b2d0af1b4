"""`torch._C`: the parts of torch's machinery that libraries use on import. Nothing here has an effect."""

from __future__ import annotations

from typing import Any

from ...tensor.tensor import Tensor as TensorBase

__all__ = ["DispatchKey", "DispatchKeySet", "TensorBase"]


class _Keys:
    """Keys of torch's dispatcher, by any name."""

    def __getattr__(self, name: str) -> str:
        return name


DispatchKey = _Keys()


class DispatchKeySet(frozenset):
    """A set of keys."""

    def __new__(cls, *keys: Any) -> DispatchKeySet:
        return super().__new__(cls, keys)


class _ExcludeDispatchKeyGuard:
    """A block without effect."""

    def __init__(self, keys: Any) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


def _get_tracing_state() -> None:
    """The program that is traced: None."""


def _log_api_usage_once(name: str) -> None:
    """Without effect: nothing is logged."""
