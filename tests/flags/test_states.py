"""Flags under load: random programs of writes, scopes, exceptions and threads against a simple model; and products at
several precisions at once, compared bit for bit."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import minitorch_backends as mt
from minitorch_backends import backends
from minitorch_backends.flags import NO_OPINION, Snapshot, rows

from ..support.processes import python

# The model: a dictionary for the process, and for each thread a stack of overrides and guards.

GUARD = {"guard": True}
UNSET = object()
STORED = [path for path, row in rows.items() if row.reads is None]


class Model:
    def __init__(self) -> None:
        self.process: dict[str, Any] = {}

    def stored_values(self, stack: list[dict[str, Any]]) -> dict[str, Any]:
        found = dict(self.process)
        for level in stack:
            found.update({} if level is GUARD else level)
        return {path: value for path, value in found.items() if value is not UNSET}

    def read(self, stack: list[dict[str, Any]], path: str) -> Any:
        stored, row = self.stored_values(stack), rows[path]
        own = stored.get(path)
        if row.inherits is None:
            return row.default if path not in stored else own
        holder: str | None = path
        while holder is not None:
            value = stored.get(holder, NO_OPINION)
            if value != NO_OPINION:
                return value if value in row.choices.examples else NO_OPINION
            holder = rows[holder].inherits
        return row.default if path not in stored else NO_OPINION

    def write(self, stack: list[dict[str, Any]], values: dict[str, Any]) -> bool:
        """Whether the write is legal; it is made if so."""
        targets = {}
        for path in values:
            targets[path] = self.process
            for level in reversed(stack):
                if level is GUARD:
                    return False
                if path in level:
                    targets[path] = level
                    break
        for path, value in values.items():
            targets[path][path] = value
        return True


class Actor:
    """A thread that executes submitted functions, one at a time."""

    def __init__(self) -> None:
        self.stack: list[dict[str, Any]] = []
        self.scopes: list[Any] = []
        self.thread = ThreadPoolExecutor(1)

    def do(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self.thread.submit(function, *arguments).result()


def group_of(path: str) -> tuple[Any, str]:
    *groups, name = path.split(".")
    found: Any = backends
    for each in groups:
        found = getattr(found, each)
    return found, name


def read_all() -> dict[str, Any]:
    return {path: getattr(*group_of(path)) for path in STORED}


def values_of(path: str) -> st.SearchStrategy[tuple[str, Any]]:
    return st.tuples(st.just(path), st.sampled_from(rows[path].choices.examples))


assignments = st.one_of(*map(values_of, STORED))
several = st.dictionaries(st.sampled_from(STORED), st.integers(0, 20), min_size=1, max_size=3).map(
    lambda chosen: {p: rows[p].choices.examples[i % len(rows[p].choices.examples)] for p, i in chosen.items()}
)


class Flags(RuleBasedStateMachine):
    """Two threads that set, override, guard, fail, snapshot and leave."""

    @initialize()
    def start(self) -> None:
        backends.restore(Snapshot(()))
        self.model, self.actors = Model(), [Actor(), Actor()]

    who = st.integers(0, 1)

    @rule(who=who, assignment=assignments)
    def assign(self, who: int, assignment: tuple[str, Any]) -> None:
        actor, (path, value) = self.actors[who], assignment
        legal = self.model.write(actor.stack, {path: value})
        if legal:
            actor.do(lambda: setattr(*group_of(path), value))
        else:
            with pytest.raises(RuntimeError, match="guard"):
                actor.do(lambda: setattr(*group_of(path), value))

    @rule(who=who, path=st.sampled_from(STORED))
    def assign_nonsense(self, who: int, path: str) -> None:
        with pytest.raises((RuntimeError, TypeError, ValueError)):
            self.actors[who].do(lambda: setattr(*group_of(path), object()))

    @rule(who=who, values=several)
    def enter(self, who: int, values: dict[str, Any]) -> None:
        actor = self.actors[who]
        for path, value in values.items():
            group, name = group_of(path)
            scope = group.flags(**{name: value})
            actor.do(scope.__enter__)
            actor.scopes.append(scope)
            actor.stack.append({path: value})

    @rule(who=who)
    def enter_guard(self, who: int) -> None:
        actor, scope = self.actors[who], backends.guard()
        actor.do(scope.__enter__)
        actor.scopes.append(scope)
        actor.stack.append(GUARD)

    @rule(who=who)
    def enter_snapshot(self, who: int) -> None:
        """Flags in force in one thread and in another."""
        saved = self.actors[1 - who].do(backends.snapshot)
        stored = self.model.stored_values(self.actors[1 - who].stack)
        actor = self.actors[who]
        assert saved.as_dict() == stored
        actor.do(saved.__enter__)
        actor.scopes.append(saved)
        actor.stack.append({path: stored.get(path, UNSET) for path in STORED})

    @precondition(lambda self: any(actor.scopes for actor in self.actors))
    @rule(who=who, fails=st.booleans())
    def leave(self, who: int, fails: bool) -> None:
        actor = self.actors[who] if self.actors[who].scopes else self.actors[1 - who]
        error = KeyError("from the body") if fails else None
        actor.do(actor.scopes.pop().__exit__, type(error) if error else None, error, None)
        actor.stack.pop()

    @rule(who=who, values=several)
    def restore(self, who: int, values: dict[str, Any]) -> None:
        actor, saved = self.actors[who], Snapshot(values.items())
        if GUARD in actor.stack:
            with pytest.raises(RuntimeError, match="guard"):
                actor.do(backends.restore, saved)
        else:
            actor.do(backends.restore, saved)
            self.model.process = dict(values)

    @invariant()
    def both_threads_read_what_the_model_reads(self) -> None:
        for actor in getattr(self, "actors", ()):
            expected = {path: self.model.read(actor.stack, path) for path in STORED}
            assert actor.do(read_all) == expected

    def teardown(self) -> None:
        for actor in getattr(self, "actors", ()):
            while actor.scopes:
                actor.do(actor.scopes.pop().__exit__, None, None, None)
            actor.thread.shutdown()
        backends.restore(Snapshot(()))


TestFlags = Flags.TestCase
TestFlags.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def test_the_model_is_frozen_as_the_flags_are() -> None:
    """A freeze has no way back, so it has a process of its own: random writes after it all raise, and scopes work."""
    printed = python(
        "import random\n"
        "from minitorch_backends import backends as b\n"
        "from minitorch_backends.flags import rows\n"
        "b.cudnn.benchmark = True\n"
        "b.disable_global_flags()\n"
        "chosen, before = random.Random(0), b.snapshot()\n"
        "for _ in range(300):\n"
        "    path = chosen.choice(list(rows)); value = chosen.choice(rows[path].choices.examples)\n"
        "    *groups, name = path.split('.'); group = b\n"
        "    for each in groups: group = getattr(group, each)\n"
        "    with group.flags(**{name: value}):\n"
        "        try: setattr(group, name, chosen.choice([value, object()]))\n"
        "        except RuntimeError as error: assert 'disable_global_flags' in str(error)\n"
        "        else: raise AssertionError(path)\n"
        "    assert b.snapshot() == before\n"
        "print(b.cudnn.benchmark)\n"
    )
    assert printed.out == "True\n", printed.error


# Products at several precisions at once

PRECISIONS = ("ieee", "tf32", "bf16", "bf16x3")


def factors() -> tuple[Any, Any]:
    mt.manual_seed(7)
    return mt.randn(40, 70), mt.randn(70, 30)


def alone(a: Any, b: Any) -> dict[str, bytes]:
    found = {}
    for precision in PRECISIONS:
        with backends.flags(fp32_precision=precision):
            found[precision] = (a @ b).numpy().tobytes()
    assert len(set(found.values())) == len(PRECISIONS)
    return found


def test_threads_multiply_at_their_own_precisions() -> None:
    a, b = factors()
    expected, wrong, started = alone(a, b), [], threading.Barrier(2 * len(PRECISIONS))

    def work(precision: str) -> None:
        started.wait()
        for step in range(60):
            with backends.flags(fp32_precision=precision):
                if (a @ b).numpy().tobytes() != expected[precision]:
                    wrong.append((precision, step))
            if (a @ b).numpy().tobytes() != expected["ieee"]:
                wrong.append(("ieee", step))

    threads = [threading.Thread(target=work, args=(precision,)) for precision in PRECISIONS * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_tasks_multiply_at_their_own_precisions() -> None:
    a, b = factors()
    expected = alone(a, b)

    async def work(precision: str) -> list[bool]:
        found = []
        for _ in range(30):
            with backends.flags(fp32_precision=precision):
                await asyncio.sleep(0)
                found.append((a @ b).numpy().tobytes() == expected[precision])
            await asyncio.sleep(0)
            found.append((a @ b).numpy().tobytes() == expected["ieee"])
        return found

    async def main() -> list[list[bool]]:
        return list(await asyncio.gather(*(work(precision) for precision in PRECISIONS * 2)))

    assert all(all(found) for found in asyncio.run(main()))


def test_a_process_wide_write_reaches_threads_at_work() -> None:
    """Every product is one of the two, whole, and the last one is what was set last."""
    a, b = factors()
    expected, seen, stop = alone(a, b), set(), threading.Event()

    def work() -> None:
        while not stop.is_set():
            seen.add((a @ b).numpy().tobytes())

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for step in range(40):
        backends.fp32_precision = ("bf16", "tf32")[step % 2]
        a @ b
    stop.set()
    for thread in threads:
        thread.join()
    assert (a @ b).numpy().tobytes() == expected["tf32"]
    backends.restore(Snapshot(()))
    assert seen <= {expected["tf32"], expected["bf16"], expected["ieee"]}
