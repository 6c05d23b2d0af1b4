"""Grad modes as scopes, decorators and settings, over functions of every kind, threads and tasks."""

import asyncio
import functools
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends.autograd import grad_mode, modes
from minitorch_backends.autograd.forward_ad import dual_level, make_dual, unpack_dual
from minitorch_backends.autograd.grad_mode import _unsafe_preserve_version_counter
from minitorch_backends.autograd.graph import increment_version, saved_tensors_hooks

from ..support.autograd import in_thread, leaf, tensor


def state() -> tuple[bool, ...]:
    """All that a mode can change: recording, inference, multithreading, replay of views, layout."""
    level = modes.grad_mode.get()
    return level.enabled, level.inference, level.multithreading, level.view_replay, level.layout


DEFAULTS = (True, False, True, False, True)


@pytest.fixture(autouse=True)
def defaults() -> Iterator[None]:
    """Each test starts and ends with the defaults."""
    assert state() == DEFAULTS
    level = modes.grad_mode.get()
    yield
    left = state()
    modes.grad_mode.set(level)
    assert left == DEFAULTS, "the test leaked a mode"


def with_fields(**fields: bool) -> tuple[bool, ...]:
    names = ("enabled", "inference", "multithreading", "view_replay", "layout")
    return tuple(fields.get(name, default) for name, default in zip(names, DEFAULTS, strict=True))


FORMS: dict[str, tuple[Callable[[], Any], tuple[bool, ...], bool]] = {
    "no_grad": (mt.no_grad, with_fields(enabled=False), False),
    "enable_grad": (mt.enable_grad, with_fields(), False),
    "set_grad_enabled": (lambda: mt.set_grad_enabled(False), with_fields(enabled=False), True),
    "inference_mode": (mt.inference_mode, with_fields(enabled=False, inference=True), False),
    "inference_mode(False)": (lambda: mt.inference_mode(False), with_fields(), False),
    "multithreading": (lambda: mt.autograd.set_multithreading_enabled(False), with_fields(multithreading=False), True),
    "view_replay": (lambda: grad_mode._force_original_view_tracking(True), with_fields(view_replay=True), True),
    "layout": (lambda: grad_mode.enforce_grad_layout_policy(False), with_fields(layout=False), True),
}
every_form = pytest.mark.parametrize("form", FORMS)
BARE = [mt.no_grad, mt.enable_grad, mt.inference_mode]


# Forms


@every_form
def test_as_a_context(form: str) -> None:
    mode, inside, at_once = FORMS[form]
    context = mode()
    assert state() == (inside if at_once else DEFAULTS)
    with context as entered:
        assert entered is None
        assert state() == inside
    assert state() == DEFAULTS
    with pytest.raises(KeyError), mode():
        raise KeyError
    assert state() == DEFAULTS


@every_form
def test_as_a_decorator_it_acts_inside_calls_only(form: str) -> None:
    """G3, G6, G7, and in place of G14: decorating changes nothing for what comes after it."""
    mode, inside, _ = FORMS[form]

    def original(a: int, *, b: int = 2) -> tuple[Any, int]:
        """What it is for."""
        mt.set_grad_enabled(not mt.is_grad_enabled())
        return before, state(), a + b

    before = None
    function = mode()(original)
    assert state() == DEFAULTS
    assert (function.__name__, function.__doc__, function.__wrapped__) == ("original", "What it is for.", original)
    assert inspect.signature(function) == inspect.signature(original)
    _, seen, total = function(1, b=3)
    assert (seen, total) == ((not inside[0], *inside[1:]), 4)
    assert state() == DEFAULTS


@pytest.mark.parametrize("mode", BARE)
def test_without_parentheses(mode: Any) -> None:
    @mode
    def function() -> Any:
        return state()

    assert function() == (mode is mt.enable_grad, mode is mt.inference_mode, *DEFAULTS[2:])
    with pytest.raises(TypeError), mode:
        pass


SETTINGS = [
    mt.set_grad_enabled,
    mt.autograd.set_multithreading_enabled,
    grad_mode._force_original_view_tracking,
    grad_mode.enforce_grad_layout_policy,
]


@pytest.mark.parametrize("setting", SETTINGS)
def test_settings_take_booleans_only(setting: Any) -> None:
    for bad in (1, None, "x", np.bool_(True), len):
        with pytest.raises(TypeError, match="must be True or False"):
            setting(bad)
    with pytest.raises(TypeError), setting:
        pass
    assert state() == DEFAULTS


@pytest.mark.parametrize("setting", SETTINGS[1:])
def test_settings_as_statements(setting: Any) -> None:
    for mode in (False, True, False, True):
        setting(mode)
        assert state()[SETTINGS.index(setting) + 1] is mode
    setting(DEFAULTS[SETTINGS.index(setting) + 1])


def test_the_same_objects_everywhere() -> None:
    assert mt.no_grad is mt.autograd.no_grad is grad_mode.no_grad
    assert mt.inference_mode is mt.autograd.inference_mode is grad_mode.inference_mode
    names = {"no_grad", "enable_grad", "set_grad_enabled", "inference_mode", "set_multithreading_enabled"}
    assert names | {"enforce_grad_layout_policy"} <= set(grad_mode.__all__)


def test_exit_restores_the_value_at_construction_and_nothing_else() -> None:
    with mt.no_grad():
        context = mt.set_grad_enabled(True)
    mt.autograd.set_multithreading_enabled(False)
    with context:
        assert state() == with_fields(multithreading=False)
    assert state() == with_fields(enabled=False, multithreading=False)
    mt.set_grad_enabled(True)
    mt.autograd.set_multithreading_enabled(True)


@pytest.mark.parametrize("bad", [1, None, "x", np.bool_(True)])
def test_what_is_no_mode_and_no_function_is_refused_at_once(bad: Any) -> None:
    """torch returns a decorated function, which fails when it is called."""
    for mode in BARE:
        if bad is not None or mode is mt.inference_mode:
            with pytest.raises(TypeError, match="must decorate a function"):
                mode(bad)


def test_lambdas_partials_builtins_and_callable_objects() -> None:
    class Thing:
        @mt.inference_mode()
        def method(self) -> Any:
            return state()

        @staticmethod
        @mt.inference_mode
        def static() -> Any:
            return state()

        @property
        @mt.inference_mode()
        def value(self) -> Any:
            return state()

        def __call__(self) -> Any:
            return state()

    thing, inside = Thing(), with_fields(enabled=False, inference=True)
    calls = [
        thing.method,
        Thing.static,
        lambda: thing.value,
        mt.inference_mode(thing),
        mt.inference_mode(lambda *_: state()),
    ]
    assert [call() for call in [*calls, mt.inference_mode()(functools.partial(state))]] == [inside] * 6
    assert mt.inference_mode()(len)([1, 2]) == 2


@every_form
def test_a_decorated_class_is_a_function_that_constructs_in_the_mode(form: str) -> None:
    mode, inside, _ = FORMS[form]

    class Thing:
        """What it is for."""

        def __init__(self, value: int) -> None:
            self.value, self.seen = value, state()

        def method(self) -> Any:
            return state()

    with pytest.warns(FutureWarning, match="class Thing"):
        made: Any = mode()(Thing)
    assert inspect.isfunction(made)
    assert made.__doc__ == "What it is for."
    thing = made(3)
    assert type(thing) is Thing
    assert (thing.value, thing.seen, thing.method()) == (3, inside, DEFAULTS)


@every_form
def test_one_object_entered_again(form: str) -> None:
    """torch leaks the mode of the inner block; here each exit restores what its entry found."""
    mode, inside, _ = FORMS[form]
    context = mode()
    with context:
        with context:
            assert state() == inside
        assert state() == inside
    assert state() == DEFAULTS
    with context:
        assert state() == inside
    assert state() == DEFAULTS


@pytest.mark.parametrize("mode", BARE)
def test_leaving_what_was_not_entered_changes_nothing(mode: Any) -> None:
    mode().__exit__(None, None, None)
    assert state() == DEFAULTS


@every_form
def test_generators(form: str) -> None:
    mode, inside, _ = FORMS[form]
    events: list[Any] = []

    @mode()
    def generator(start: int) -> Iterator[Any]:
        try:
            received = yield start, state()
            try:
                yield received, state()
            except KeyError:
                yield "caught", state()
            mt.set_grad_enabled(not mt.is_grad_enabled())
            yield "changed", state()[0]
            yield "after", state()
        finally:
            events.append(state())
        return "result"

    assert inspect.isgeneratorfunction(generator)
    running: Any = generator(1)
    seen = [next(running), running.send("sent"), running.throw(KeyError()), next(running), next(running)]
    assert state() == DEFAULTS
    assert seen == [(1, inside), ("sent", inside), ("caught", inside), ("changed", not inside[0]), ("after", inside)]
    with pytest.raises(StopIteration) as stopped:
        next(running)
    assert stopped.value.value == "result"
    closed: Any = generator(2)
    next(closed)
    closed.close()
    assert events == [inside, inside]


def test_what_a_decorator_covers_of_generators() -> None:
    def plain() -> Iterator[Any]:
        with mt.inference_mode():
            yield state()

    running = plain()
    assert next(running) == state() == with_fields(enabled=False, inference=True)
    assert list(running) == []
    assert state() == DEFAULTS

    returned = mt.inference_mode(lambda: (state() for _ in range(1)))
    assert list(returned()) == [DEFAULTS]

    def steps(count: int) -> Iterator[Any]:
        for _ in range(count):
            yield state()

    partial: Any = mt.inference_mode(functools.partial(steps, 2))
    assert [seen for seen in partial() if state() == DEFAULTS] == [with_fields(enabled=False, inference=True)] * 2


@every_form
def test_coroutines_and_asynchronous_generators_are_covered(form: str) -> None:
    """Unlike in torch, where only the creation of the coroutine is."""
    mode, inside, _ = FORMS[form]

    @mode()
    async def work() -> Any:
        seen = [state()]
        await asyncio.sleep(0)
        return [*seen, state()]

    @mode()
    async def generator() -> AsyncIterator[Any]:
        yield state()
        await asyncio.sleep(0)
        yield state()

    async def main() -> Any:
        task = asyncio.ensure_future(work())
        others = []
        while not task.done():
            others.append(state())
            await asyncio.sleep(0)
        items = [(item, state()) async for item in generator()]
        return task.result(), set(others), items

    assert inspect.iscoroutinefunction(work)
    assert inspect.isasyncgenfunction(generator)
    seen, others, items = asyncio.run(main())
    assert seen == [inside, inside]
    assert others == {DEFAULTS}
    assert items == [(inside, DEFAULTS)] * 2


def test_a_context_around_an_await_does_not_reach_other_tasks() -> None:
    async def holds(started: asyncio.Event, release: asyncio.Event) -> Any:
        with mt.inference_mode():
            started.set()
            await release.wait()
            return state()

    async def main() -> Any:
        started, release = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(holds(started, release))
        await started.wait()
        here, made = state(), tensor([1.0]).is_inference()
        release.set()
        return here, made, await task

    assert asyncio.run(main()) == (DEFAULTS, False, with_fields(enabled=False, inference=True))


@every_form
def test_a_new_thread_starts_with_the_defaults(form: str) -> None:
    mode, inside, at_once = FORMS[form]
    with mode(), saved_tensors_hooks(lambda x: x, lambda x: pytest.fail("a hook of another thread")):
        assert in_thread(state) == DEFAULTS
        in_thread(lambda: leaf([1.0]).exp().sum().backward())
    if at_once:
        assert in_thread(lambda: (mode(), state())[1]) == inside
    assert state() == DEFAULTS


# One mode inside another, and in several threads


def test_recording_in_a_thread_while_this_one_records_nothing() -> None:
    x = leaf([1.0] * 3)

    def double() -> mt.Tensor:
        return (x * 2).sum()

    with mt.no_grad():
        y = in_thread(double)
        assert y.requires_grad
        y.backward()
    assert x.grad.tolist() == [2.0] * 3


def test_results_under_no_grad_are_leaves_without_history() -> None:
    x = leaf([1.0] * 3)
    with mt.no_grad():
        y = x * 2
        assert (y.requires_grad, y.is_leaf, y.grad_fn) == (False, True, None)
        assert x.requires_grad
        assert y.requires_grad_().requires_grad
        with mt.enable_grad():
            assert (x * 2).requires_grad
    assert (x * 2).requires_grad


def test_tensors_may_be_made_to_require_gradients_under_no_grad() -> None:
    with mt.no_grad():
        assert mt.tensor(np.ones(3), requires_grad=True).requires_grad
        x = mt.tensor(np.ones(3))
        x.requires_grad = True
        assert x.requires_grad


def test_a_mode_changed_inside_is_undone_on_leaving() -> None:
    with mt.no_grad():
        mt.set_grad_enabled(True)
        assert mt.is_grad_enabled()
    assert mt.is_grad_enabled()

    @mt.enable_grad()
    def function() -> None:
        mt.set_grad_enabled(False)

    function()
    assert mt.is_grad_enabled()


def test_statement_takes_effect_at_once() -> None:
    mt.set_grad_enabled(False)
    assert not mt.is_grad_enabled()
    mt.set_grad_enabled(mode=True)
    assert mt.is_grad_enabled()


def test_statement_used_as_a_context_restores_what_was_before_it() -> None:
    context = mt.set_grad_enabled(False)
    assert not mt.is_grad_enabled()
    with context:
        assert not mt.is_grad_enabled()
    assert mt.is_grad_enabled()
    with mt.no_grad(), mt.set_grad_enabled(True):
        assert mt.is_grad_enabled()


def test_decorated_function_may_recurse_and_raise() -> None:
    @mt.no_grad()
    def recurse(depth: int) -> int:
        assert not mt.is_grad_enabled()
        if depth == 0:
            raise KeyError
        return recurse(depth - 1)

    with pytest.raises(KeyError):
        recurse(5)
    assert mt.is_grad_enabled()


def test_the_innermost_decorator_wins() -> None:
    @mt.no_grad()
    @mt.enable_grad()
    def function() -> bool:
        return mt.is_grad_enabled()

    assert function() is True


def test_interleaved_generators_keep_their_own_modes() -> None:
    @mt.no_grad()
    def without() -> Iterator[bool]:
        while True:
            yield mt.is_grad_enabled()

    @mt.enable_grad()
    def with_grad() -> Iterator[bool]:
        while True:
            yield mt.is_grad_enabled()

    pairs = list(zip(without(), with_grad(), range(3), strict=False))
    assert [pair[:2] for pair in pairs] == [(False, True)] * 3


def test_a_generator_under_another_mode_than_it_was_made_in() -> None:
    @mt.enable_grad()
    def generator() -> Iterator[bool]:
        yield mt.is_grad_enabled()
        yield mt.is_grad_enabled()

    with mt.no_grad():
        running = generator()
        assert next(running)
        assert not mt.is_grad_enabled()
    assert next(running)


def test_asynchronous_generator() -> None:
    finished = []

    @mt.no_grad()
    async def generator() -> AsyncIterator[Any]:
        try:
            await asyncio.sleep(0)
            received = yield mt.is_grad_enabled()
            try:
                yield (received, mt.is_grad_enabled())
            except KeyError:
                yield ("caught", mt.is_grad_enabled())
        finally:
            await asyncio.sleep(0)
            finished.append(mt.is_grad_enabled())

    async def main() -> list[Any]:
        running: Any = generator()
        seen = [await anext(running), await running.asend("sent"), await running.athrow(KeyError())]
        assert mt.is_grad_enabled()
        await running.aclose()
        seen += [each async for each in generator()]
        return [*seen, mt.is_grad_enabled()]

    assert inspect.isasyncgenfunction(generator)
    assert asyncio.run(main()) == [False, ("sent", False), ("caught", False), False, (None, False), True]
    assert finished == [False, False]


def test_one_context_object_in_two_threads() -> None:
    context, barrier = mt.no_grad(), threading.Barrier(2)
    results: list[tuple[bool, bool]] = []

    def work() -> None:
        with context:
            barrier.wait(300)
            inside = mt.is_grad_enabled()
            barrier.wait(300)
        results.append((inside, mt.is_grad_enabled()))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [(False, True)] * 2


# Inference mode among the others


def test_inference_mode_off_gives_back_what_was_before_inference() -> None:
    """torch turns recording on even inside no_grad."""
    with mt.no_grad(), mt.inference_mode(False):
        assert state() == with_fields(enabled=False)
    with mt.inference_mode():
        with mt.inference_mode(False):
            assert state() == DEFAULTS
            assert (leaf([1.0]) * 2).requires_grad
            assert not tensor([1.0]).is_inference()
        assert state() == with_fields(enabled=False, inference=True)
    with mt.no_grad(), mt.inference_mode(), mt.enable_grad(), mt.inference_mode(False):
        assert state() == with_fields(enabled=False)


def test_enabling_recording_in_inference_mode_records_nothing() -> None:
    x = leaf([1.0])
    with mt.inference_mode():
        for mode in (mt.enable_grad(), mt.set_grad_enabled(True)):
            with mode:
                y = x * 2
                assert mt.is_grad_enabled()
                assert y.is_inference()
                assert not y.requires_grad


def test_no_grad_and_inference_mode_in_each_other() -> None:
    with mt.no_grad():
        with mt.inference_mode():
            assert state() == with_fields(enabled=False, inference=True)
        assert state() == with_fields(enabled=False)
    with mt.inference_mode(), mt.no_grad():
        assert mt.is_inference_mode_enabled()


def test_inference_mode_switches_forward_mode_off_and_no_grad_does_not() -> None:
    with dual_level():
        dual = make_dual(tensor([2.0]), tensor([1.0]))
        with mt.no_grad():
            assert unpack_dual(dual * dual).tangent.tolist() == [4.0]
        with mt.inference_mode():
            assert unpack_dual(dual * dual).tangent is None


def test_repr() -> None:
    assert repr(mt.inference_mode(False)) == "inference_mode(mode=False)"
    assert repr(mt.autograd.set_multithreading_enabled(True)) == "set_multithreading_enabled(mode=True)"


# Versions


def test_preserving_and_incrementing_versions() -> None:
    x, y = tensor([1.0]), tensor([2.0])
    x.add_(1)
    increment_version(x)
    increment_version([x, y])
    assert (x._version, y._version) == (3, 1)
    with _unsafe_preserve_version_counter((x, y)):
        x.mul_(2)
        y.mul_(2)
        assert (x._version, y._version) == (4, 2)
    with pytest.raises(TypeError), _unsafe_preserve_version_counter(x):
        x.zero_().index_fill_()
    assert (x._version, y._version) == (3, 1)
    for bad in ([x], 3, None, (x, 1)):
        with pytest.raises(AssertionError, match="expected a Tensor"):
            _unsafe_preserve_version_counter(bad)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        _unsafe_preserve_version_counter(x)(len)
    with mt.inference_mode():
        made = tensor([1.0])
    for refuses in (_unsafe_preserve_version_counter, increment_version):
        with pytest.raises(RuntimeError, match="do not track version"):
            refuses(made)


# The layout of gradients


def test_gradients_are_laid_out_as_their_tensors_unless_told_otherwise() -> None:
    transposed = mt.tensor(np.asfortranarray(np.ones((2, 3)))).requires_grad_()
    (transposed * 1.0).sum().backward()
    assert transposed.grad.stride() == transposed.stride()
    transposed.grad = None
    with grad_mode.enforce_grad_layout_policy(False):
        transposed.backward(mt.tensor(np.ones((2, 3))))
    assert transposed.grad.stride() == (3, 1)
