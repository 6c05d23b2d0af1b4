"""Hostile values, and tensors in hostile layouts, as source code."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from minitorch_backends.dispatch.op import Op

__all__ = ["NAMESPACE", "expression", "hostile", "laid_out"]

NUMBERS = (
    "0", "-1", "1", "2", "3", "7", "True", "1.5", "-0.0", "1e300", "math.nan", "math.inf", "-math.inf", "2j",
    "2**31", "-2**31", "2**31 - 1", "2**40", "-2**40", "2**62", "2**63 - 1", "-2**63", "2**63", "2**64", "-10**30",
    "np.int64(2)", "np.float32(2)", "mt.tensor(2)", "mt.tensor(1.5)",
)  # fmt: skip

SEQUENCES = (
    "()", "[]", "(0,)", "(-1,)", "(1, 1)", "(0, 1)", "[0, 0]", "(2, 2, 2)", "(2**40,)", "(2**62, 4)",
    "(2**63 - 1,) * 2", "(-2**63, 1)", "(2**64, 0)", "[None]", "((1, 2), 3)", "('a', 'b')", "(1.5, math.nan)",
    "range(3)", "(0,) * 70", "[mt.ones(2), mt.ones(2)]", "[mt.ones(0), 3]",
)  # fmt: skip

OTHERS = ("None", "'text'", "''", "b'x'", "{}", "object()", "slice(None)", "...", "mt.float32", "mt.int8", "mt.Tensor")

TENSORS = (
    "mt.ones(())", "mt.ones(0)", "mt.ones(3)", "mt.ones(2, 3)", "mt.ones(2, 0, 3)", "mt.ones((1,) * 20)",
    "mt.ones((1,) * 60)", "mt.ones(1).expand(4)", "mt.ones(2, 3, dtype=mt.float64)",
    "mt.ones(2, 3, dtype=mt.float16)", "mt.ones(2, 3, dtype=mt.bfloat16)", "mt.ones(2, 3, dtype=mt.complex64)",
    "mt.ones(2, 3, dtype=mt.uint8)", "mt.ones(2, 3, requires_grad=True)", "mt.tensor([math.nan, math.inf, -math.inf])",
    "mt.tensor([0, 1, 2])", "mt.tensor([-1, 5])", "mt.tensor([[2, 0], [1, 1]])", "mt.tensor([True, False, True])",
    "mt.tensor([2**63 - 1, -2**63, 0])", "mt.tensor([2**62] * 4)", "mt.from_numpy(np.ones((2, 3), 'f4')[::-1, ::-1])",
    "mt.from_numpy(np.broadcast_to(np.float32(1), (2, 3)))",
    "mt.from_numpy(np.lib.stride_tricks.as_strided(np.ones(4, 'f4'), (3, 2), (4, 4)))",
)  # fmt: skip

NAMESPACE = """
import math
import numpy as np
import minitorch_backends as mt
from pydoc import locate
from minitorch_backends.tensor.registry import registry
"""
"""What the source code of a case needs to be run."""

LAYOUTS = (
    "mt.from_numpy({0}.numpy()[::-1])", "mt.stack([{0}, {0}], -1)[..., 0]", "{0}[:1].expand(4, *[-1] * ({0}.ndim - 1))",
    "{0}.mT.contiguous().mT", "{0}.requires_grad_()", "{0}.double()", "{0}.half()", "{0}.to(mt.complex64)",
    "{0}.long()", "{0}[:0]", "{0}.bool()",
)  # fmt: skip
"""Other layouts and dtypes of a tensor."""

MOST_WRITTEN = 40
"""Numbers of an array that are written out one by one."""


def hostile(choice: random.Random) -> str:
    """Any hostile value."""
    pool = choice.choices((NUMBERS, SEQUENCES, OTHERS, TENSORS), (5, 2, 1, 3))[0]
    return choice.choice(pool)


def laid_out(choice: random.Random, tensor: str) -> str:
    """The tensor in another layout or dtype."""
    return choice.choice(LAYOUTS).format(tensor)


def expression(value: Any) -> str:
    """Source code of a sample's argument."""
    if isinstance(value, (np.ndarray, np.float64)) and np.ndim(value) + np.size(value) > 0:
        return _tensor(np.asarray(value))
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        inside = ", ".join(map(expression, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' * (len(value) == 1)})"
    if hasattr(value, "_fields"):
        return f"locate('{type(value).__module__}.{type(value).__qualname__}')({', '.join(map(expression, value))})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {expression(each)}" for key, each in value.items()) + "}"
    if isinstance(value, Op):
        return f"registry[{value.name!r}]"
    if isinstance(value, float):
        return repr(value) if np.isfinite(value) else f"float('{value}')"
    if value is Ellipsis:
        return "..."
    if isinstance(value, slice):
        return f"slice({value.start}, {value.stop}, {value.step})"
    if isinstance(value, Sequence | int | complex | None):
        return repr(value)
    name = getattr(value, "name", None)
    return f"mt.{name}" if name else "None"


def _tensor(array: np.ndarray) -> str:
    if array.dtype.kind == "V":  # a type of ml_dtypes
        return f"{_tensor(array.astype(np.float32))}.to(mt.{array.dtype.name})"
    dtype = {"f": "float32", "c": "complex64", "b": "bool", "i": "int64", "u": "uint8"}[array.dtype.kind]
    if array.size == 0:
        return f"mt.zeros({array.shape}, dtype=mt.{dtype})"
    if array.size <= MOST_WRITTEN:
        values = array.round(3) if dtype == "float32" else array
        text = repr(values.tolist()).replace("nan", "math.nan").replace("inf", "math.inf")
        return f"mt.tensor({text}, dtype=mt.{dtype})"
    start, end = (-2, 2) if dtype in ("float32", "complex64") else (0, 1)
    return f"mt.linspace({start}, {end}, {array.size}).reshape{array.shape}.to(mt.{dtype})"
