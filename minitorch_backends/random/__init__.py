"""Random numbers: generators, and the tensors that are drawn from them."""

from .generator import *  # noqa: F403
from .sampling import *  # noqa: F403
