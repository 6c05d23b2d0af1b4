"""Optimisers, with torch's formulas, options and state dicts, and schedules of their learning rates."""

from . import lr_scheduler
from .adaptive import Adadelta, Adagrad, Adamax, RAdam, RMSprop
from .algorithms import SGD, Adam, AdamW
from .lbfgs import LBFGS
from .optimizer import Optimizer

__all__ = [
    "LBFGS", "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Optimizer", "RAdam", "RMSprop", "lr_scheduler",
]  # fmt: skip
