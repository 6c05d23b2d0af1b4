"""Forward mode under the name of torch's module."""

from .extras.forward_ad import *  # noqa: F403
