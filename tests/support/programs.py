"""Random programs of ops, views and writes, and a slow replay of them without views and writes.

A program is a list of instructions (name, a, b, number) on a growing list of tensors; `a` and `b` are indices into it.
`Machine` runs it with a library, this package or torch. `Replay` follows what the machine did, on flat values that
are never written to: a tensor is a set of places in one, and a write makes a new value. Detached tensors share a memory
with others and not a history, so that each memory has several lanes, one for each history.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

import minitorch_backends as mt

SHAPE = (2, 3)
LEAVES, PLAIN = 2, 1

UNARY: dict[str, Callable[[Any], Any]] = {
    "sin": lambda x: x.sin(), "tanh": lambda x: x.tanh(), "triple": lambda x: x * 3.0, "neg": lambda x: -x,
    "clone": lambda x: x.clone(), "sum": lambda x: x.sum(),
}  # fmt: skip
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y, "mul": lambda x, y: x * y, "sub": lambda x, y: x - y,
}  # fmt: skip
VIEWS: dict[str, Callable[[Any, int], Any]] = {
    "row": lambda x, n: x[n % x.shape[0]],
    "rest": lambda x, n: x[n % (x.shape[0] + 1) :],
    "column": lambda x, n: x[..., n % x.shape[-1]],
    "transposed": lambda x, n: x.T,
    "flat": lambda x, n: x.view(-1),
    "lifted": lambda x, n: x[None],
    "wide": lambda x, n: x.expand(2, *x.shape),
    "part": lambda x, n: x.unbind()[n % x.shape[0]],
    "piece": lambda x, n: x.split(1)[n % x.shape[0]],
}
"""Names in the order of declaration; those of the last two come from functions that return several views."""
UNARY_WRITES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "sin_": (lambda x: x.sin_(), lambda x: x.sin()),
    "tanh_": (lambda x: x.tanh_(), lambda x: x.tanh()),
    "halve_": (lambda x: x.mul_(0.5), lambda x: x * 0.5),
    "zero_": (lambda x: x.zero_(), lambda x: x * 0.0),
    "neg_": (lambda x: x.neg_(), lambda x: -x),
}
"""How a tensor is written to, and the value that it has then."""
BINARY_WRITES: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "add_": (lambda x, y: x.add_(y), lambda x, y: x + y),
    "mul_": (lambda x, y: x.mul_(y), lambda x, y: x * y),
    "copy_": (lambda x, y: x.copy_(y), lambda x, y: x * 0.0 + y),
    "assign": (lambda x, y: x.__setitem__(Ellipsis, y), lambda x, y: x * 0.0 + y),
}
NAMES = [*UNARY, *BINARY, *VIEWS, *UNARY_WRITES, *BINARY_WRITES, "detach", "set_places"]


class Instruction(NamedTuple):
    name: str
    a: int
    b: int
    number: int
    recorded: bool


instructions = st.builds(
    Instruction,
    st.sampled_from(NAMES),
    st.integers(0, 11),
    st.integers(0, 11),
    st.integers(0, 3),
    st.sampled_from([True, True, True, False]),
)
programs = st.lists(instructions, min_size=1, max_size=14)


def starting_values() -> list[np.ndarray]:
    return [np.linspace(0.2, 1.3, 6).reshape(SHAPE) * (1 + 0.3 * i) for i in range(LEAVES + PLAIN)]


class Machine:
    """Runs a program with a library; what raises is noted, and leaves no trace.

    Attributes:
        tensors: the leaves, a plain tensor, and what instructions made.
        log: for each instruction, None or the exception that it raised.
    """

    def __init__(self, library: Any, new: Callable[[np.ndarray], Any]) -> None:
        self.library, self.tensors = library, [new(value) for value in starting_values()]
        self.leaves = [tensor.requires_grad_() for tensor in self.tensors[:LEAVES]]
        self.log: list[Exception | None] = []

    def run(self, program: list[Instruction], skipped: Callable[[Machine, Instruction], bool] | None = None) -> Machine:
        for instruction in program:
            self.step(instruction, skipped)
        return self

    def step(self, instruction: Instruction, skipped: Callable[[Machine, Instruction], bool] | None = None) -> Any:
        """Do one thing; returns the tensor that was made or written to, None when it was skipped or raised."""
        name, a, b, number, recorded = instruction
        x, y = self.tensors[a % len(self.tensors)], self.tensors[b % len(self.tensors)]
        if skipped is not None and skipped(self, instruction):
            self.log.append(None)
            return None
        try:
            with self.library.enable_grad() if recorded else self.library.no_grad():
                result = self._do(name, x, y, number)
        except (RuntimeError, IndexError, ZeroDivisionError, ValueError) as error:
            self.log.append(error)
            return None
        self.log.append(None)
        if result is not x:
            self.tensors.append(result)
        return result

    def _do(self, name: str, x: Any, y: Any, number: int) -> Any:
        if name in UNARY:
            return UNARY[name](x)
        if name in BINARY:
            return BINARY[name](x, y)
        if name in VIEWS:
            return VIEWS[name](x, number)
        if name == "detach":
            return x.detach()
        if name in UNARY_WRITES:
            UNARY_WRITES[name][0](x)
        elif name == "set_places":
            x[[0, -1]] = 0.5
        else:
            BINARY_WRITES[name][0](x, y)
        return x

    def loss(self) -> tuple[Any, list[bool]]:
        """A weighted sum of all tensors that require gradients and may be used, and which may."""
        total, usable = None, []
        for index, tensor in enumerate(self.tensors):
            try:
                term = (tensor * (0.7 + 0.1 * index)).sum()
            except RuntimeError:
                usable.append(False)
                continue
            usable.append(True)
            if term.requires_grad:
                total = term if total is None else total + term
        return total, usable


def derivatives(grad: Callable[..., Any], leaves: list[Any], loss: Any) -> list[list[Any]]:
    """First derivatives of a loss by its leaves, and those of a weighted sum of their squares."""
    if loss is None or not loss.requires_grad:
        return []
    first = grad(loss, leaves, create_graph=True, allow_unused=True)
    terms = [(g * g * (1.0 + 0.5 * i)).sum() for i, g in enumerate(first) if g is not None and g.requires_grad]
    found = [[None if g is None else np.array(g.tolist()) for g in first]]
    if terms:
        second = grad(sum(terms[1:], terms[0]), leaves, allow_unused=True)
        found.append([None if g is None else np.array(g.tolist()) for g in second])
    return found


def same(found: list[list[Any]], wanted: list[list[Any]]) -> bool:
    """Whether derivatives agree; None and a missing order of derivatives are zeros."""
    for order in range(2):
        for index in range(LEAVES):
            one, other = (
                np.zeros(1) if len(each) <= order or each[order][index] is None else each[order][index]
                for each in (found, wanted)
            )
            if not np.allclose(one, other, 1e-9, 1e-9):
                return False
    return True


# The replay


class Slot(NamedTuple):
    """A tensor of the replay: which memory, whose history, which places, and whether its gradient leads nowhere."""

    memory: int
    lane: int
    places: np.ndarray
    dead: bool


class Replay:
    """Does to values what a machine did to memory.

    Attributes:
        memories: for each memory its lanes, flat values that are equal and have different histories.
        slots: for each tensor of the machine, where it is.
    """

    def __init__(self, leaves: list[mt.Tensor], plain: list[mt.Tensor]) -> None:
        self.memories = [[each.reshape(-1) * 1.0] for each in (*leaves, *plain)]
        places = np.arange(6).reshape(SHAPE)
        self.slots = [Slot(index, 0, places, False) for index in range(len(self.memories))]

    def follow(self, machine: Machine, instruction: Instruction) -> None:
        """Do what the machine is about to do, when it does it without an error."""
        count = len(machine.tensors)
        name, a, b, number, recorded = instruction
        x, y = self.slots[a % count], self.slots[b % count]
        if machine.step(instruction) is None:
            return
        with mt.enable_grad():
            if name in UNARY:
                self._put(self._keep(UNARY[name](self.read(x)), recorded))
            elif name in BINARY:
                self._put(self._keep(BINARY[name](self.read(x), self.read(y)), recorded))
            elif name in VIEWS:
                self._view(x, name, number, recorded)
            elif name == "detach":
                self._detach(x)
            elif name in UNARY_WRITES:
                self._write(x, UNARY_WRITES[name][1](self.read(x)), recorded)
            elif name == "set_places":
                self._write(x._replace(places=x.places[[0, -1]]), mt.tensor(0.5, dtype=mt.float64), recorded)
            else:
                self._write(x, BINARY_WRITES[name][1](self.read(x), self.read(y)), recorded)

    def read(self, slot: Slot) -> mt.Tensor:
        """The value of a tensor."""
        flat = self.memories[slot.memory][slot.lane]
        value = flat[slot.places.reshape(-1)].reshape(slot.places.shape)
        return value.detach() if slot.dead else value

    @staticmethod
    def _keep(value: mt.Tensor, recorded: bool) -> mt.Tensor:
        return value if recorded else value.detach()

    def _put(self, value: mt.Tensor) -> None:
        self.memories.append([value.reshape(-1) * 1.0])
        places = np.arange(value.numel()).reshape(value.shape)
        self.slots.append(Slot(len(self.memories) - 1, 0, places, False))

    def _view(self, x: Slot, name: str, number: int, recorded: bool) -> None:
        places = {
            "flat": lambda: x.places.reshape(-1),
            "wide": lambda: np.broadcast_to(x.places, (2, *x.places.shape)),
            "part": lambda: x.places[number % x.places.shape[0]],
            "piece": lambda: x.places[(n := number % x.places.shape[0]) : n + 1],
        }.get(name, lambda: VIEWS[name](x.places, number))()
        dead = x.dead or (not recorded and self.memories[x.memory][x.lane].requires_grad)
        self.slots.append(Slot(x.memory, x.lane, np.asarray(places), dead))

    def _detach(self, x: Slot) -> None:
        lanes = self.memories[x.memory]
        lanes.append(lanes[x.lane].detach())
        self.slots.append(Slot(x.memory, len(lanes) - 1, x.places, False))

    def _write(self, x: Slot, value: mt.Tensor, recorded: bool) -> None:
        """Every lane has the new values from now on; the written one has their history, too, if that was recorded."""
        places, lanes = x.places.reshape(-1), self.memories[x.memory]
        value = value.reshape(
            value.shape[max(value.ndim - x.places.ndim, 0) :]
        )  # x[...] = y drops dimensions of size 1
        values = value.expand(x.places.shape).reshape(-1)
        for lane, flat in enumerate(lanes):
            changed = flat.index_put((mt.tensor(places),), values)
            if lane == x.lane and recorded:
                lanes[lane] = changed
            else:
                lanes[lane] = flat + (changed - flat).detach()

    def loss(self, usable: list[bool]) -> mt.Tensor | None:
        """The loss of the machine, of the tensors that it could use."""
        total: Any = None
        for index, (slot, used) in enumerate(zip(self.slots, usable, strict=True)):
            if used:
                term = (self.read(slot) * (0.7 + 0.1 * index)).sum()
                total = term if total is None else total + term
        return total
