"""The types of exceptions against torch's, over the calls that must be refused."""

import pytest
import torch

from ..support.bad_calls import BAD_CALLS, BadCall

OTHERWISE = {"a tensor of text": "ValueError in torch, which looks into the text for elements"}
"""Calls that torch refuses with another type of exception, by what is behind that."""


@pytest.mark.parametrize("bad", [bad for bad in BAD_CALLS if bad.name not in OTHERWISE], ids=lambda bad: bad.name)
def test_torch_raises_the_same(bad: BadCall) -> None:
    with pytest.raises(bad.error):
        bad.call(torch)


@pytest.mark.parametrize("name", OTHERWISE)
def test_torch_still_raises_another(name: str) -> None:
    bad = next(bad for bad in BAD_CALLS if bad.name == name)
    with pytest.raises((RuntimeError, TypeError, ValueError, IndexError)) as raised:
        bad.call(torch)
    assert not isinstance(raised.value, bad.error)
