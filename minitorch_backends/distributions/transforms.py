"""All transforms: of numbers, of vectors and matrices, and their composition."""

# ruff: noqa: F403

from .number_transforms import *
from .transform import *
from .vector_transforms import *
