"""Derivatives of functions under the name of torch's module."""

from .extras.functional import *  # noqa: F403
