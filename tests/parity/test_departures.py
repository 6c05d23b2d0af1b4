"""The departures of functions are departures."""

from typing import Any

import pytest
import torch

from ..support.departures import FUNCTION_DEPARTURES


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("call", "here"), FUNCTION_DEPARTURES.values(), ids=FUNCTION_DEPARTURES)
def test_torch_does_otherwise(call: Any, here: Any) -> None:
    try:
        found = call(torch)
    except Exception as error:
        found = type(error)
    assert found != here
