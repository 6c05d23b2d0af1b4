"""Discrete Fourier transforms over some axes of an array; `fft` has the contract.

The modules with the implementations are imported in the order of preference, the one that refuses nothing last.
"""

# ruff: noqa: F401, I001  (the order of the imports is the order in which implementations are asked)

from . import contract
from . import stockham
from . import bluestein
from . import library
from .contract import Call, fft, irfftn, rfftn

__all__ = ["Call", "fft", "irfftn", "rfftn"]
