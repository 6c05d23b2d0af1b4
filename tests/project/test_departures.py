"""Deliberate departures of functions from torch's."""

from typing import Any

import pytest

import minitorch_backends as mt

from ..support.departures import FUNCTION_DEPARTURES


@pytest.mark.filterwarnings("ignore:indexing with dtype:UserWarning")
@pytest.mark.parametrize(("call", "expected"), FUNCTION_DEPARTURES.values(), ids=FUNCTION_DEPARTURES)
def test_functions_do_what_the_table_says(call: Any, expected: Any) -> None:
    if isinstance(expected, type):
        with pytest.raises(expected):
            call(mt)
    else:
        assert call(mt) == expected
