"""Sequences of several lengths in one tensor, under torch's path of them."""

from ..packed_sequence import *  # noqa: F403
from ..packed_sequence import __all__  # noqa: F401
