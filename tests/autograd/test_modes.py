"""Grad modes as contexts and decorators, over functions of every kind, threads and tasks."""

import asyncio
import functools
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import enable_grad, is_grad_enabled, no_grad, set_grad_enabled

from ..support.processes import in_thread


@pytest.fixture(autouse=True)
def recording() -> Iterator[None]:
    """Each test starts with recording on, and leaves it on."""
    assert is_grad_enabled()
    yield
    left = is_grad_enabled()
    set_grad_enabled(True)
    assert left, "the test leaked a mode"


def off() -> Any:
    return set_grad_enabled(False)


def set_off(function: Any) -> Any:
    return set_grad_enabled(False)(function)


def leaf() -> mt.Tensor:
    return mt.tensor(np.ones(3)).requires_grad_()


CONTEXTS = [(no_grad, False), (enable_grad, True)]


# Contexts


@pytest.mark.parametrize(("mode", "enabled"), CONTEXTS)
def test_context_sets_and_restores(mode: Callable[[], Any], enabled: bool) -> None:
    for outer in (no_grad, enable_grad):
        with outer():
            before = is_grad_enabled()
            context = mode()
            assert is_grad_enabled() is before, "effective at construction"
            with context as entered:
                assert entered is None
                assert is_grad_enabled() is enabled
            assert is_grad_enabled() is before
            with pytest.raises(KeyError), mode():
                raise KeyError
            assert is_grad_enabled() is before


def test_contexts_nest() -> None:
    with no_grad():
        with enable_grad():
            with no_grad():
                assert not is_grad_enabled()
            assert is_grad_enabled()
        assert not is_grad_enabled()


@pytest.mark.parametrize(("mode", "enabled"), CONTEXTS)
def test_one_object_may_be_entered_again_while_it_is_active(mode: Callable[[], Any], enabled: bool) -> None:
    context = mode()
    for _ in range(2):
        with context:
            with context:
                assert is_grad_enabled() is enabled
            assert is_grad_enabled() is enabled
        assert is_grad_enabled()


def test_a_mode_changed_inside_is_undone_on_leaving() -> None:
    with no_grad():
        set_grad_enabled(True)
        assert is_grad_enabled()
    assert is_grad_enabled()

    @enable_grad()
    def function() -> None:
        set_grad_enabled(False)

    function()
    assert is_grad_enabled()


def test_the_same_names_in_both_modules() -> None:
    assert mt.no_grad is mt.autograd.no_grad
    assert mt.enable_grad is mt.autograd.enable_grad
    assert mt.set_grad_enabled is mt.autograd.set_grad_enabled
    with pytest.raises(TypeError), no_grad:  # type: ignore[attr-defined]
        pass


# set_grad_enabled


def test_statement_takes_effect_at_once() -> None:
    set_grad_enabled(False)
    assert not is_grad_enabled()
    set_grad_enabled(mode=True)
    assert is_grad_enabled()


def test_statement_used_as_a_context_restores_what_was_before_it() -> None:
    context = set_grad_enabled(False)
    assert not is_grad_enabled()
    with context:
        assert not is_grad_enabled()
    assert is_grad_enabled()
    with no_grad(), set_grad_enabled(True):
        assert is_grad_enabled()


def test_set_grad_enabled_as_a_decorator_has_no_effect_before_the_call() -> None:
    @set_grad_enabled(False)
    def function() -> bool:
        return is_grad_enabled()

    assert is_grad_enabled()
    assert function() is False
    assert is_grad_enabled()


def test_set_grad_enabled_object_may_be_entered_again() -> None:
    context = set_grad_enabled(False)
    with context:
        with context:
            assert not is_grad_enabled()
        assert not is_grad_enabled()
    assert is_grad_enabled()


@pytest.mark.parametrize("bad", [1, 0, None, "x", np.bool_(True), len])
def test_set_grad_enabled_takes_booleans_only(bad: Any) -> None:
    with pytest.raises(TypeError, match="must be True or False"):
        set_grad_enabled(bad)
    assert is_grad_enabled()
    with pytest.raises(TypeError):
        set_grad_enabled()  # type: ignore[call-arg]


def test_repr_of_set_grad_enabled() -> None:
    assert repr(set_grad_enabled(True)) == "set_grad_enabled(mode=True)"


# Decorators of functions


@pytest.mark.parametrize(
    "decorate", [no_grad(), no_grad, set_off], ids=["no_grad()", "no_grad", "set_grad_enabled(False)"]
)
def test_decorator(decorate: Callable[..., Any]) -> None:
    def original(a: int, *, b: int = 2) -> tuple[bool, int]:
        """What it is for."""
        return is_grad_enabled(), a + b

    function = decorate(original)
    assert (function.__name__, function.__doc__, function.__wrapped__) == ("original", "What it is for.", original)
    assert inspect.signature(function) == inspect.signature(original)
    assert is_grad_enabled()
    assert function(1) == (False, 3)
    assert function(1, b=5) == (False, 6)
    assert is_grad_enabled()


def test_decorated_function_may_recurse_and_raise() -> None:
    @no_grad()
    def recurse(depth: int) -> int:
        assert not is_grad_enabled()
        if depth == 0:
            raise KeyError
        return recurse(depth - 1)

    with pytest.raises(KeyError):
        recurse(5)
    assert is_grad_enabled()


def test_the_innermost_decorator_wins() -> None:
    @no_grad()
    @enable_grad()
    def function() -> bool:
        return is_grad_enabled()

    assert function() is True


def test_methods_lambdas_partials_and_callable_objects() -> None:
    class Thing:
        @no_grad()
        def method(self) -> bool:
            return is_grad_enabled()

        @classmethod
        @no_grad()
        def of_class(cls) -> bool:
            return is_grad_enabled()

        @staticmethod
        @no_grad()
        def static() -> bool:
            return is_grad_enabled()

        @property
        @no_grad()
        def value(self) -> bool:
            return is_grad_enabled()

        def __call__(self) -> bool:
            return is_grad_enabled()

    thing = Thing()
    found = [thing.method(), Thing.of_class(), Thing.static(), thing.value, no_grad(is_grad_enabled)()]
    found += [no_grad()(functools.partial(Thing.__call__, thing))(), no_grad()(thing)()]
    assert not any(found)
    assert is_grad_enabled()


@pytest.mark.parametrize("bad", [1, "x", True])
def test_decorating_what_cannot_be_called_is_refused(bad: Any) -> None:
    with pytest.raises(TypeError, match="no_grad must decorate a function"):
        no_grad(bad)
    with pytest.raises(TypeError, match="no_grad must decorate a function"):
        no_grad()(bad)


# Generators


def test_generator_runs_its_body_in_the_mode_and_its_caller_not() -> None:
    events = []

    @no_grad()
    def generator(start: int) -> Iterator[Any]:
        try:
            received = yield (start, is_grad_enabled())
            try:
                yield (received, is_grad_enabled())
            except KeyError:
                yield ("caught", is_grad_enabled())
            set_grad_enabled(True)
            yield ("changed", is_grad_enabled())
            yield ("after", is_grad_enabled())
        finally:
            events.append(is_grad_enabled())
        return "result"

    assert inspect.isgeneratorfunction(generator)
    running = generator(1)
    seen = [next(running), running.send("sent"), running.throw(KeyError()), next(running), next(running)]  # type: ignore[attr-defined]
    assert is_grad_enabled()
    assert seen == [(1, False), ("sent", False), ("caught", False), ("changed", True), ("after", False)]
    with pytest.raises(StopIteration) as stopped:
        next(running)
    assert stopped.value.value == "result"
    closed = generator(2)
    next(closed)
    closed.close()  # type: ignore[attr-defined]
    assert events == [False, False]
    assert is_grad_enabled()


def test_interleaved_generators_keep_their_own_modes() -> None:
    @no_grad()
    def without() -> Iterator[bool]:
        while True:
            yield is_grad_enabled()

    @enable_grad()
    def with_grad() -> Iterator[bool]:
        while True:
            yield is_grad_enabled()

    pairs = list(zip(without(), with_grad(), range(3), strict=False))
    assert [pair[:2] for pair in pairs] == [(False, True)] * 3


def test_a_generator_under_another_mode_than_it_was_made_in() -> None:
    @enable_grad()
    def generator() -> Iterator[bool]:
        yield is_grad_enabled()
        yield is_grad_enabled()

    with no_grad():
        running = generator()
        assert next(running)
        assert not is_grad_enabled()
    assert next(running)


# Coroutines and asynchronous generators


def test_coroutine_runs_its_body_in_the_mode() -> None:
    @no_grad()
    async def work(value: int) -> tuple[int, bool, bool]:
        before = is_grad_enabled()
        await asyncio.sleep(0)
        return value, before, is_grad_enabled()

    async def main() -> Any:
        task = asyncio.ensure_future(work(3))
        seen = []
        while not task.done():
            seen.append(is_grad_enabled())
            await asyncio.sleep(0)
        return task.result(), seen, is_grad_enabled()

    assert inspect.iscoroutinefunction(work)
    result, seen, after = asyncio.run(main())
    assert result == (3, False, False)
    assert all(seen)
    assert after


def test_coroutine_awaited_in_place_leaves_its_caller_alone() -> None:
    @no_grad()
    async def fails() -> None:
        await asyncio.sleep(0)
        raise KeyError

    async def main() -> bool:
        with pytest.raises(KeyError):
            await fails()
        return is_grad_enabled()

    assert asyncio.run(main())


def test_asynchronous_generator() -> None:
    finished = []

    @no_grad()
    async def generator() -> AsyncIterator[Any]:
        try:
            await asyncio.sleep(0)
            received = yield is_grad_enabled()
            try:
                yield (received, is_grad_enabled())
            except KeyError:
                yield ("caught", is_grad_enabled())
        finally:
            await asyncio.sleep(0)
            finished.append(is_grad_enabled())

    async def main() -> list[Any]:
        running: Any = generator()
        seen = [await anext(running), await running.asend("sent"), await running.athrow(KeyError())]
        assert is_grad_enabled()
        await running.aclose()
        seen += [each async for each in generator()]
        return [*seen, is_grad_enabled()]

    assert inspect.isasyncgenfunction(generator)
    assert asyncio.run(main()) == [False, ("sent", False), ("caught", False), False, (None, False), True]
    assert finished == [False, False]


def test_a_context_around_an_await_does_not_reach_other_tasks() -> None:
    async def holds(started: asyncio.Event, release: asyncio.Event) -> bool:
        with no_grad():
            started.set()
            await release.wait()
            return is_grad_enabled()

    async def main() -> tuple[bool, bool, bool]:
        started, release = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(holds(started, release))
        await started.wait()
        here = is_grad_enabled()
        other = await asyncio.create_task(asyncio.sleep(0, is_grad_enabled()))
        release.set()
        return await task, here, other

    assert asyncio.run(main()) == (False, True, True)


# Threads


def test_a_new_thread_starts_with_recording_on() -> None:
    with no_grad():
        assert in_thread(is_grad_enabled) is True


def test_a_thread_does_not_change_the_mode_of_others() -> None:
    in_thread(off)
    assert is_grad_enabled()


def test_one_context_object_in_two_threads() -> None:
    context, barrier = no_grad(), threading.Barrier(2)
    results: list[tuple[bool, bool]] = []

    def work() -> None:
        with context:
            barrier.wait(300)
            inside = is_grad_enabled()
            barrier.wait(300)
        results.append((inside, is_grad_enabled()))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [(False, True)] * 2


# What a mode does


def test_results_under_no_grad_are_leaves_without_history() -> None:
    x = leaf()
    with no_grad():
        y = x * 2
        assert (y.requires_grad, y.is_leaf, y.grad_fn) == (False, True, None)
        assert x.requires_grad
        assert y.requires_grad_().requires_grad
        with enable_grad():
            assert (x * 2).requires_grad
    assert (x * 2).requires_grad


def test_tensors_may_be_made_to_require_gradients_under_no_grad() -> None:
    with no_grad():
        assert mt.tensor(np.ones(3), requires_grad=True).requires_grad
        x = mt.tensor(np.ones(3))
        x.requires_grad = True
        assert x.requires_grad


def test_recording_in_a_thread_while_this_one_records_nothing() -> None:
    x = leaf()

    def double() -> mt.Tensor:
        return (x * 2).sum()

    with no_grad():
        y = in_thread(double)
        assert y.requires_grad
        y.backward()
    assert x.grad.tolist() == [2.0] * 3
