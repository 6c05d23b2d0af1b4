"""Names of torch's modules while kernel calls are recorded, in forward and backward passes.

torch numbers the nodes of its graph in order of creation. A list of the numbers at which the current module or flags
changed therefore determines both for every node.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from torch.autograd import _get_sequence_nr as next_node_number
from torch.nn.modules import module as torch_module

from ...autograd.extras import module_scope


class Timeline:
    """Values, each with the number of the first node that was made while it held."""

    __slots__ = ("numbers", "values")

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.values: list[Any] = []

    def note(self, number: int, value: Any) -> None:
        self.numbers.append(number)
        self.values.append(value)

    def forget(self, most: int) -> None:
        """Drop the older half of more than `most` values."""
        if len(self.numbers) > most:
            del self.numbers[: most // 2], self.values[: most // 2]

    def at(self, number: int) -> Any:
        """The value that held when the node of this number was made; None before the first."""
        place = bisect_right(self.numbers, number)
        return self.values[place - 1] if place else None


_following: dict[int, list[Timeline]] = {}
"""The threads that run blocks that follow modules, with the names that each block stores."""


@contextmanager
def enter_part(program: Any, path: str) -> Iterator[None]:
    """Attribute the block to a part of a program, as if it was called."""
    names = _following.get(threading.get_ident(), ()) if module_scope.following else ()
    with module_scope.enter(program, path):
        for each in names:
            each.note(next_node_number(), module_scope.current_module())
        yield
    for each in names:
        each.note(next_node_number(), module_scope.current_module())


@contextmanager
def follow_torch_modules(names: Timeline) -> Iterator[None]:
    """Make torch's modules that this thread calls visible to `explain` and to policies, and store the module of each
    node of torch's graph in `names`.

    Hooks for all modules are process-wide. They are installed only while some block follows modules, and do nothing in
    other threads. Torch calls the hooks of an outer block first, also when a module returns. An inner block of the same
    thread therefore enters no modules, whose scopes would end in the wrong order, but reads the outer block's.
    """
    thread = threading.get_ident()
    is_inner = thread in _following
    running: list[tuple[Any, AbstractContextManager[None]]] = []

    def enter(module: Any, _: Any) -> None:
        if module_scope.following and threading.get_ident() == thread:
            if not is_inner:
                scope = module_scope.enter(module)
                scope.__enter__()
                running.append((module, scope))
            names.note(next_node_number(), module_scope.current_module())

    def leave(module: Any, _: Any, output: Any) -> None:
        if threading.get_ident() != thread:
            return
        if running and running[-1][0] is module:
            module_scope.note_output(module, output)
            running.pop()[1].__exit__(None, None, None)
        if module_scope.following:
            names.note(next_node_number(), module_scope.current_module())

    hooks: list[Any] = []

    def hook() -> None:
        if module_scope.following and not hooks:
            hooks.append(torch_module.register_module_forward_pre_hook(enter))
            hooks.append(torch_module.register_module_forward_hook(leave, always_call=True))
        elif not module_scope.following:
            while hooks:
                hooks.pop().remove()

    hook()
    _following.setdefault(thread, []).append(names)
    module_scope.following_changed.append(hook)
    try:
        yield
    finally:
        _following[thread].remove(names)
        if not _following[thread]:
            del _following[thread]
        module_scope.following_changed.remove(hook)
        while hooks:
            hooks.pop().remove()
