"""`torch.jit`: functions and modules run as written. Functions that make or read compiled programs raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Dict, Final, List, NoReturn, Optional, Tuple  # noqa: UP035, F401  (imported from here)

from ...nn.module import Module as ScriptModule
from .compiler import is_compiling as is_scripting

__all__ = [
    "Attribute", "Error", "Final", "ScriptFunction", "ScriptModule", "annotate", "enable_onednn_fusion", "export",
    "freeze", "ignore", "interface", "is_scripting", "is_tracing", "isinstance", "load", "optimize_for_inference",
    "optimized_execution", "save", "script", "script_if_tracing", "script_method", "trace", "trace_module", "unused",
]  # fmt: skip

_isinstance = isinstance

is_tracing = is_scripting
BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = list


class Error(RuntimeError):
    """An error of a compiled program; nothing raises it."""


class ScriptFunction:
    """The class of compiled functions; no object has it."""


def script(obj: Any, *args: Any, **options: Any) -> Any:
    """Return the function, class or module as it is."""
    return obj


script_method = _overload = _overload_method = export = interface = script_if_tracing = _script_if_tracing = freeze = (
    optimize_for_inference
) = script


def trace(func: Any, example_inputs: Any = None, *args: Any, **options: Any) -> Any:
    """Return the function or module as it is: other inputs than the examples take their own way through it."""
    return func


trace_module = trace


def unused(fn: Any) -> Any:
    """Return `fn`."""
    return fn


def ignore(drop: Any = False, **options: Any) -> Any:
    """Return the function, or the decorator, without effect."""
    return drop if callable(drop) else unused


def annotate(the_type: Any, the_value: Any) -> Any:
    """Return the value."""
    return the_value


def Attribute(value: Any, type: Any) -> Any:
    """Return the value."""
    return value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Python's `isinstance`."""
    return _isinstance(obj, target_type)


def enable_onednn_fusion(enabled: bool) -> None:
    """Without effect: nothing is compiled."""


def optimized_execution(should_optimize: bool) -> Any:
    """A block without effect."""
    from contextlib import nullcontext

    return nullcontext()


def _refusal(name: str, remedy: str) -> Callable[..., NoReturn]:
    def function(*args: Any, **named: Any) -> NoReturn:
        """Raises RuntimeError: compiled programs do not exist here."""
        raise RuntimeError(f"jit.{name}(): programs are not compiled, so nothing can be passed to {name}; {remedy}")

    function.__name__ = function.__qualname__ = name
    return function


save = _refusal("save", "use save(module.state_dict(), f)")
load = _refusal("load", "load the program in torch, and save its state_dict for load()")
