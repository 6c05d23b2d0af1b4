"""User-defined functions, under the name of torch's module."""

from .extras.function import *  # noqa: F403
