"""Optimisers, with torch's formulas, options and state dicts, and schedules of their learning rates."""

from . import lr_scheduler
from .algorithms import SGD, Adam, AdamW
from .optimizer import Optimizer

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler"]
