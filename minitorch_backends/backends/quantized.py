"""Quantised tensors, which this engine does not have: there is one engine for them, "none"."""

from __future__ import annotations

import sys

from ..flags import Group, ReadOnly

__all__: list[str] = []

_REASON = "this engine has no quantised types"

ReadOnly("quantized.engine", lambda state: "none", _REASON, RuntimeError)
ReadOnly("quantized.supported_engines", lambda state: ["none"], _REASON, RuntimeError)

Group.install(sys.modules[__name__], "quantized")
