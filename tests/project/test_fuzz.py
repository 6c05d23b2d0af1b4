"""Hostile calls of the whole public surface: `tests.fuzz`, a few for each function."""

import json
import math
import sys
from collections.abc import Callable
from typing import Any

import pytest

import minitorch_backends as mt

from ..fuzz.cases import draw, targets
from ..fuzz.supervisor import Find, fuzz, watch
from ..fuzz.worker import is_sentence

CASES = 2500
"""One for each function and constructor, and two for most."""


def test_hostile_calls_are_refused_in_sentences_and_change_nothing() -> None:
    finds = [each for each in fuzz(seed=0, count=CASES) if isinstance(each, Find)]
    assert not finds, "\n".join(f"{find.code}\n    {find.fault}" for find in finds)


@pytest.mark.parametrize(
    ("error", "is_meant"),
    [
        (lambda: mt.ones(2).sum(2), True),
        (mt.eye, True),
        (lambda: mt.ones(2)._array.reshape(3), False),
        (lambda: math.factorial("x"), False),
        (lambda: [][mt.tensor(1)], False),
    ],
)
def test_sentences_are_told_from_errors_that_leak(error: Callable[[], Any], is_meant: bool) -> None:
    with pytest.raises(Exception) as raised:  # noqa: PT011  (of any type)
        error()
    assert is_sentence(raised.value) is is_meant


@pytest.mark.parametrize(
    ("end", "fault"),
    [("os.abort()", "killed the process"), ("faulthandler.dump_traceback_later(1, exit=True)", "took more")],
)
def test_a_worker_that_dies_or_hangs_is_a_find(end: str, fault: str) -> None:
    says = json.dumps({"number": 0, "code": "f(x)"})
    code = f"import faulthandler, os, time; print({says!r}, flush=True); {end}; time.sleep(60)"
    find, count = watch([sys.executable, "-c", code])
    assert find.code == "f(x)"
    assert find.fault.startswith(fault)
    assert count == 1


def test_cases_are_made_from_their_number_alone() -> None:
    chosen = targets()
    for code in ("mt.sum", "mt.Tensor.add_", "registry['scatter_flat'].public"):
        cases = [draw(chosen[code], 1, number) for number in range(3)]
        assert cases == [draw(chosen[code], 1, number) for number in range(3)]
        assert len({case.code for case in cases}) == 3
        for case in cases:
            compile(case.code, "case", "eval")
