"""MIOpen, AMD's library of convolutions, which is not used: its flag is stored, and changes nothing."""

from __future__ import annotations

import sys

from ..flags import Group
from . import table as _table  # noqa: F401  (declares the flags)

__all__: list[str] = []

Group.install(sys.modules[__name__], "miopen")
