"""Schedules of learning rates, with torch's names, options and formulas.

Each acts on the groups of an optimiser: its `step()`, after the optimiser's, sets their "lr" for the next epoch, or
batch. All of them but those that set rates of their own (`LambdaLR`, `OneCycleLR`, `CyclicLR`,
`CosineAnnealingWarmRestarts`) change the rate that they find by a factor, so that several may act on one optimiser.
"""

from .base import LRScheduler as LRScheduler
from .compound import *  # noqa: F403
from .cycles import *  # noqa: F403
from .factors import *  # noqa: F403
from .plateau import *  # noqa: F403
