"""Optimisers, with torch's formulas, options and state dicts, and schedules of their learning rates."""

from ..namespaces import serve
from . import lr_scheduler, swa_utils
from .adaptive import Adadelta, Adagrad, Adam, Adamax, AdamW, NAdam, RAdam, RMSprop, Rprop
from .lbfgs import LBFGS
from .matrices import Adafactor, Muon
from .optimizer import Optimizer
from .sgd import ASGD, SGD

__all__ = [
    "ASGD", "LBFGS", "SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Muon", "NAdam", "Optimizer",
    "RAdam", "RMSprop", "Rprop", "lr_scheduler", "swa_utils",
]  # fmt: skip

serve(__name__)
