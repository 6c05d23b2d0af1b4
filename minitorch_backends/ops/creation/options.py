"""The options that all factories share: `out`, `layout`, `device`, `pin_memory` and `requires_grad`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...dispatch.out_argument import written_out
from ...dispatch.overloads import Overloads
from ...tensor.call_errors import argument_errors
from ...tensor.dtypes import to_dtype
from ...tensor.memory import in_format, preserve_format, refuse_device, strided
from ...tensor.tensor import Tensor, adopt


def finish(array: np.ndarray, device: Any = None, requires_grad: Any = False) -> Tensor:
    """Wrap a new array in a tensor, with the `device` and `requires_grad` that a factory got."""
    if device is not None:
        refuse_device(device)
    result = adopt(array)
    if requires_grad:
        if requires_grad is not True:
            raise TypeError(f"requires_grad must be True, False or None, got {requires_grad!r}")
        result.requires_grad_()
    return result


class Draw(NamedTuple):
    """Random numbers that are drawn only after all arguments of the call have been checked."""

    dtype: np.dtype
    numbers: Callable[[], np.ndarray]


def _array_of(result: np.ndarray | Draw) -> np.ndarray:
    return np.asarray(result.numbers() if isinstance(result, Draw) else result)


def _option_parameters(takes_out: bool, takes_format: bool) -> list[inspect.Parameter]:
    """The parameters that every factory gets in addition to its own."""
    defaults: dict[str, Any] = {"out": None} if takes_out else {}
    defaults |= {"layout": None, "device": None, "pin_memory": False, "requires_grad": False}
    defaults |= {"memory_format": None} if takes_format else {}
    return [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=each) for name, each in defaults.items()]


def factory(
    *, takes_out: bool = True, takes_format: bool = False
) -> Callable[[Callable[..., np.ndarray | Draw]], Callable[..., Tensor]]:
    """Decorate a function that returns an array or a `Draw`, and takes `dtype` last, as a factory that returns a
    tensor.

    A factory also takes `out` (a tensor of the right dtype to write into), `layout` (only strided), `device`,
    `pin_memory` (only False) and `requires_grad`. With `takes_format`, or if the first argument is `input`, it takes
    `memory_format`.
    """

    def declare(make: Callable[..., np.ndarray | Draw]) -> Callable[..., Tensor]:
        own = inspect.signature(make)
        formats = takes_format or next(iter(own.parameters)) == "input"

        @functools.wraps(make)
        def public(
            *args: Any,
            layout: Any = None,
            device: Any = None,
            pin_memory: bool = False,
            requires_grad: bool = False,
            memory_format: Any = None,
            **named: Any,
        ) -> Tensor:
            if layout is not None or pin_memory:
                _refuse_memory(make.__name__, layout, pin_memory)
            if memory_format is not None and not formats:
                raise TypeError(f"{make.__name__}() got an unexpected keyword argument 'memory_format'")
            if takes_out and named.get("out") is not None:
                if requires_grad and isinstance(named["out"], Tensor):
                    finish(np.empty(0, named["out"]._array.dtype), device, requires_grad)
                written = _into(named.pop("out"), functools.partial(make, *args), named)
                return written.requires_grad_() if requires_grad else written
            if takes_out:
                named.pop("out", None)
            result = make(*args, **named)
            if isinstance(result, Draw):
                finish(np.empty(0, result.dtype), device, requires_grad)
            array = _array_of(result)
            if memory_format is not None and memory_format is not preserve_format:
                array = in_format(make.__name__, array, memory_format)
            return finish(array, device, requires_grad)

        parameters = [*own.parameters.values(), *_option_parameters(takes_out, formats)]
        public.__signature__ = own.replace(parameters=parameters, return_annotation=Tensor)  # type: ignore[attr-defined]
        return argument_errors(public)

    return declare


def _refuse_memory(name: str, layout: Any, pin_memory: Any) -> None:
    """Raise RuntimeError for memory of another kind than tensors have here."""
    if layout is not None and layout is not strided and layout != "strided":
        raise RuntimeError(f"{name}(): layout must be strided, got {layout!r}; leave it out")
    if pin_memory:
        raise RuntimeError(f"{name}(): pin_memory must be False, got {pin_memory!r}, since tensors live on the CPU")


def _into(out: Any, make: Any, named: dict[str, Any]) -> Tensor:
    """Write what `make` makes into `out`, whose dtype it gets. Raises RuntimeError for a `dtype` other than that."""
    name = make.func.__name__
    if isinstance(out, Tensor):
        wanted = named.setdefault("dtype", None)
        if wanted is not None and to_dtype(wanted) is not out.dtype:
            raise RuntimeError(
                f"{name}(): dtype must be that of out, {out.dtype!r}, got {to_dtype(wanted)!r}; leave dtype out"
            )
        named["dtype"] = out.dtype
    return written_out(name, lambda: adopt(_array_of(make(**named))), out, ())


def accept_aliases(**aliases: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add overloads to a function that is neither an op nor a composite."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        overloads = Overloads(inspect.signature(function).parameters.values(), aliases, ())

        @functools.wraps(function)
        def public(*args: Any, **named: Any) -> Any:
            if named and not named.keys() <= overloads.known:
                args, named = overloads.resolve(function.__name__, args, named)
            return function(*args, **named)

        public.overloads = overloads  # type: ignore[attr-defined]
        return public

    return declare
