"""Schedules of learning rates, with torch's names, options and formulas.

Each acts on the groups of an optimiser: its `step()`, after the optimiser's, sets their "lr" for the next epoch, or
batch. All of them but those that set rates of their own (`LambdaLR`, `OneCycleLR`, `CyclicLR`,
`CosineAnnealingWarmRestarts`) change the rate that they find by a factor, so that several may act on one optimiser.
"""

from .base import LRScheduler
from .compound import ChainedScheduler, SequentialLR
from .cycles import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from .factors import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from .plateau import ReduceLROnPlateau

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]
