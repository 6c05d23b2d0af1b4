"""Names of `torch.nn.init` from before those of functions that write ended in an underscore."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...dispatch.call_errors import warn_caller
from ...nn import init

NAMES = [
    "constant", "dirac", "eye", "kaiming_normal", "kaiming_uniform", "normal", "orthogonal", "sparse", "uniform",
    "xavier_normal", "xavier_uniform",
]  # fmt: skip


def _old(name: str) -> Callable[..., Any]:
    new = getattr(init, f"{name}_")

    @functools.wraps(new)
    def function(*args: Any, **named: Any) -> Any:
        warn_caller(f"nn.init.{name} is deprecated; use nn.init.{name}_", FutureWarning)
        return new(*args, **named)

    function.__name__ = function.__qualname__ = name
    return function


globals().update({_name: _old(_name) for _name in NAMES})
