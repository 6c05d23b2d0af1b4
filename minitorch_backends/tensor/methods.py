"""The empty base class of `Tensor`: ops install their methods on it when they are declared.

Its stub lists these methods for type checkers and editors; `python -m tests.stubs` generates it from the declarations.
"""

from __future__ import annotations


class Methods:
    """Methods that ops and autograd install on `Tensor`."""

    __slots__ = ()
