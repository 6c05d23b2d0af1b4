"""Checks of gradients under the name of torch's module."""

from .extras.gradcheck import *  # noqa: F403
