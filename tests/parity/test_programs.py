"""Random programs of ops, views and writes, beside torch: values, versions, errors, derivatives of two orders."""

import re
import warnings
from typing import Any

import numpy as np
import torch
from hypothesis import given, settings

import minitorch_backends as mt

from ..support.programs import BINARY_WRITES, Instruction, Machine, derivatives, programs, same


def overlaps_itself(machine: Machine, instruction: Instruction) -> bool:
    """Whether a tensor would be written to from another part of its own memory, which torch refuses."""
    if instruction.name not in BINARY_WRITES:
        return False
    count = len(machine.tensors)
    x, y = (np.asarray(machine.tensors[i % count].detach()) for i in (instruction.a, instruction.b))
    same = x.shape == y.shape and x.strides == y.strides and x.ctypes.data == y.ctypes.data
    return bool(np.shares_memory(x, y)) and not same


THEIRS_ONLY = re.compile(
    # A view apart from its base is refused after an unrecorded write, too, which changes no history.
    r"its base or another view of its base has been modified inplace"
    # A view of a plain tensor that was given a history is taken for a leaf.
    r"|^a leaf Variable that requires grad is being used"
)
"""What torch refuses, and is done here."""

OURS_ONLY = re.compile(
    # torch allows it where all elements are given one value.
    r"more than one element of the written-to tensor"
    # Results for expanded tensors are laid out in memory as NumPy does it, and there may be no other shape of that.
    r"|view size .* is not compatible with input tensor's size"
)
"""What is refused here, and torch does."""


def departs(ours: Exception | None, theirs: Exception | None) -> bool:
    """Whether one of the two has refused what the other is meant to do."""
    if type(ours) is not type(theirs) and theirs is not None:
        return bool(THEIRS_ONLY.search(str(theirs)))
    return ours is not None and theirs is None and bool(OURS_ONLY.search(str(ours)))


def attempt(machine: Machine, grad: Any) -> tuple[str, Any]:
    """The derivatives of a machine's loss, or what the attempt raised."""
    try:
        loss, usable = machine.loss()
        return "derivatives", (usable, derivatives(grad, machine.leaves, loss))
    except RuntimeError as error:
        return "error", error


@settings(max_examples=100)
@given(programs)
def test_programs(program: list[Instruction]) -> None:
    ours = Machine(mt, mt.tensor).run(program, overlaps_itself)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch: `.T` of other than matrices
        theirs = Machine(torch, torch.tensor).run(program, overlaps_itself)
        for one, other in zip(ours.log, theirs.log, strict=True):
            if departs(one, other):
                return
            assert type(one) is type(other), (one, other)
        for one, other in zip(ours.tensors, theirs.tensors, strict=True):
            assert np.allclose(one.tolist(), other.tolist(), 1e-12, 1e-12)
            assert (one._version, one.requires_grad, one._is_view()) == (
                other._version,
                other.requires_grad,
                other._is_view(),
            )
            bases = [None if each._base is None else each._base.tolist() for each in (one, other)]
            assert (bases[0] is None) == (bases[1] is None)
        compare(attempt(ours, mt.autograd.grad), attempt(theirs, torch.autograd.grad))


def compare(ours: tuple[str, Any], theirs: tuple[str, Any]) -> None:
    """Check that both attempts gave the same derivatives, or the same error."""
    if theirs[0] == "error" and THEIRS_ONLY.search(str(theirs[1])):
        return
    assert ours[0] == theirs[0], (ours[1], theirs[1])
    if ours[0] == "error":
        assert all("modified by an inplace operation" in str(each[1]) for each in (ours, theirs))
        return
    refused = [one and not other for one, other in zip(ours[1][0], theirs[1][0], strict=True)]
    if not any(refused):  # as THEIRS_ONLY says
        assert ours[1][0] == theirs[1][0]
        assert same(ours[1][1], theirs[1][1])
