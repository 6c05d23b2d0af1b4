"""Probability distributions, under the names of torch.distributions: samples, densities, moments, divergences.

They use differentiable operations, so gradients reach the parameters; through samples too, if `has_rsample` is True.
"""

# ruff: noqa: F401, F403

from . import constraints, transforms
from .categorical import *
from .combined import *
from .constraint_registry import biject_to, transform_to
from .counts import *
from .distribution import Distribution, ExponentialFamily
from .kl import kl_divergence, register_kl
from .multivariate import *
from .positive import *
from .real_line import *
from .relaxed import *
from .transformed import *
from .transforms import *
