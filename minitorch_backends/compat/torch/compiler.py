"""`torch.compile` and `torch.compiler`: functions run as they are written, kernels are compiled at their first use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable", "is_compiling",
    "is_dynamo_compiling", "is_exporting", "list_backends", "reset", "set_stance", "substitute_in_graph",
]  # fmt: skip


def compile(
    model: Any = None, *, fullgraph: bool = False, dynamic: bool | None = None, backend: Any = None,
    mode: str | None = None, options: Any = None, name: str | None = None, disable: bool = False,
    recompile_limit: int | None = None, isolate_recompiles: bool = False, shapes_spec: Any = None,
) -> Any:  # fmt: skip
    """Return `model`, a function or a module, unchanged: kernels are compiled at first use.

    Without `model` return the decorator. Modules get no wrapper, so that state dicts keep their names.
    """
    return model if model is not None else lambda model: model


def disable(fn: Any = None, recursive: bool = True, **options: Any) -> Any:
    """Return `fn`, or the decorator, without effect."""
    return fn if fn is not None else lambda fn: fn


def allow_in_graph(fn: Any) -> Any:
    """Return `fn`."""
    return fn


assume_constant_result = allow_in_graph


def substitute_in_graph(original_fn: Any, **options: Any) -> Callable[[Any], Any]:
    """A decorator without effect."""
    return allow_in_graph


def is_compiling() -> bool:
    """Whether a compiler traces the program: False."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


def is_compile_supported(device_type: Any) -> bool:
    """Whether programs can be compiled for a type of device: False."""
    return False


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """The compilers: the one that leaves functions as they are."""
    return ["eager"]


def reset() -> None:
    """Without effect: nothing was traced."""


cudagraph_mark_step_begin = reset


class set_stance:
    """A function, block or decorator without effect."""

    def __init__(self, stance: str = "default", **options: Any) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass

    def __call__(self, fn: Any) -> Any:
        return fn


class _Options:
    """Options of torch's compilers, which take any value and have no effect."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None

    def __iter__(self) -> Iterator[str]:
        return iter(vars(self))


config = _Options()
