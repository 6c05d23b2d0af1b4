"""Context managers that also decorate functions of every kind.

A scope object keeps no state between entering and leaving. The state is a linked list in a `ContextVar`: entering adds
a node, leaving drops it. One scope object can therefore be re-entered, shared between threads, or decorate a recursive
function, and no mode leaks between threads or asyncio tasks.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from ..kernels.runtime.context import restore_on_failure, warn_caller


class Scope:
    """Base of the context managers of this package: `with scope:` and `@scope`.

    A decorated function enters the scope when it is called. Generators, coroutines and async generators run every step
    of their body inside the scope; their callers run outside it.
    """

    __slots__ = ()

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *exception: object) -> None:
        raise NotImplementedError

    def by_module(self, names: Iterable[str]) -> dict[str, Scope]:
        """The scope of each module of a model, by name. The base scope applies to all of it."""
        return {"": self}

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return `function` wrapped so that its body runs inside this scope."""
        if not callable(function):
            raise TypeError(f"{type(self).__name__} must decorate a function, got {function!r}")
        if isinstance(function, type):
            warn_caller(
                f"decorating the class {function.__name__} with {type(self).__name__} makes it a function that "
                "constructs instances inside the scope and leaves its methods outside; decorate the methods",
                FutureWarning,
            )
        if inspect.isasyncgenfunction(function):
            return self._around_async_generator(function)
        if inspect.iscoroutinefunction(function):
            return self._around_coroutine(function)
        if inspect.isgeneratorfunction(function):
            return self._around_generator(function)

        @functools.wraps(function, updated=() if isinstance(function, type) else functools.WRAPPER_UPDATES)
        @restore_on_failure
        def call(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return call

    def _around_generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def generator(*args: Any, **kwargs: Any) -> Any:
            return (yield from _Stepped(self, function(*args, **kwargs)))

        return generator

    def _around_coroutine(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            return await _Stepped(self, function(*args, **kwargs).__await__())

        return coroutine

    def _around_async_generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        async def generator(*args: Any, **kwargs: Any) -> Any:
            inner = function(*args, **kwargs)
            step, argument = inner.asend, None
            try:
                while True:
                    try:
                        item = await _Stepped(self, step(argument).__await__())
                    except StopAsyncIteration:
                        return
                    try:
                        argument = yield item
                        step = inner.asend
                    except GeneratorExit:
                        raise
                    except BaseException as error:
                        step, argument = inner.athrow, error
            finally:
                await _Stepped(self, inner.aclose().__await__())

        return generator


class _Stepped:
    """An iterator over a generator or an awaitable that runs each step inside a scope."""

    __slots__ = ("inner", "scope")

    def __init__(self, scope: Scope, inner: Any) -> None:
        self.scope, self.inner = scope, inner

    def __iter__(self) -> _Stepped:
        return self

    __await__ = __iter__

    def __next__(self) -> Any:
        with self.scope:
            return next(self.inner)

    def send(self, value: Any) -> Any:
        with self.scope:
            return next(self.inner) if value is None else self.inner.send(value)

    def throw(self, *error: Any) -> Any:
        with self.scope:
            return self.inner.throw(*error)

    def close(self) -> None:
        with self.scope:
            self.inner.close()
