"""Random programs of ops, views and writes: values, first and second derivatives are those of a slow replay."""

import re

import numpy as np
from hypothesis import example, given, settings

import minitorch_backends as mt
from minitorch_backends.autograd import grad
from minitorch_backends.autograd.graph import allow_mutation_on_saved_tensors

from ..support.autograd import leaf, tensor
from ..support.programs import LEAVES, Instruction, Machine, Replay, derivatives, programs, same, starting_values

REFUSALS = re.compile(
    r"leaf Variable|is being modified inplace|has been modified inplace|more than one element"
    r"|shape|size|dimension|index|divi|broadcast|modulo"
)


def follow(program: list[Instruction]) -> tuple[Machine, Replay, list[mt.Tensor]]:
    values = starting_values()
    leaves = [leaf(value) for value in values[:LEAVES]]
    machine, replay = Machine(mt, tensor), Replay(leaves, [tensor(value) for value in values[LEAVES:]])
    for instruction in program:
        before = [each.tolist() for each in machine.tensors]
        replay.follow(machine, instruction)
        if machine.log[-1] is not None:
            assert REFUSALS.search(str(machine.log[-1])), machine.log[-1]
            assert [each.tolist() for each in machine.tensors] == before
    return machine, replay, leaves


def ins(name: str, a: int = 0, b: int = 0, number: int = 0, recorded: bool = True) -> Instruction:
    return Instruction(name, a, b, number, recorded)


# An in-place write through a view of a view, seen by a sibling; a write to a detached alias; to a view made unrecorded.
@example([ins("triple"), ins("transposed", 3), ins("row", 4), ins("mul_", 5, 1), ins("flat", 3), ins("sin_", 6)])
@example([ins("triple"), ins("detach", 3), ins("mul_", 4, 1), ins("mul", 3, 4)])
@example([ins("flat", 2, recorded=False), ins("halve_", 3), ins("mul_", 2, 0), ins("sin", 3)])
@example([ins("triple"), ins("row", 3), ins("copy_", 4, 1), ins("set_places", 3), ins("mul", 3, 4)])
@settings(max_examples=100)
@given(programs)
def test_programs_with_saved_tensors_that_may_be_written_to(program: list[Instruction]) -> None:
    with allow_mutation_on_saved_tensors():
        machine, replay, leaves = follow(program)
        loss, usable = machine.loss()
        found = derivatives(grad, machine.leaves, loss)
    for one, slot in zip(machine.tensors, replay.slots, strict=True):
        assert np.allclose(one.tolist(), replay.read(slot).tolist(), 1e-12, 1e-12)
    assert same(found, derivatives(grad, leaves, replay.loss(usable)))


@settings(max_examples=100)
@given(programs)
def test_programs_are_right_or_refused(program: list[Instruction]) -> None:
    """Without copies of what was saved, a program either says that it was written to, or is as right as with them."""
    machine, replay, leaves = follow(program)
    loss, usable = machine.loss()
    refusal = None
    try:
        found = derivatives(grad, machine.leaves, loss)
    except RuntimeError as error:
        refusal = str(error)
    if refusal is not None:
        assert "modified by an inplace operation" in refusal
        assert any(tensor._version for tensor in machine.tensors)
        return
    assert same(found, derivatives(grad, leaves, replay.loss(usable)))
