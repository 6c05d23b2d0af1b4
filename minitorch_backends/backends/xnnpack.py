"""XNNPACK, a library of kernels for phones, which is not used."""

from __future__ import annotations

import sys

from ..flags import Group, ReadOnly

__all__: list[str] = []

ReadOnly("xnnpack.enabled", lambda state: False, "XNNPACK is not used", RuntimeError)

Group.install(sys.modules[__name__], "xnnpack")
