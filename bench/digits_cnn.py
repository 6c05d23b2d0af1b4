"""What the precision flags do to the answers of a small convolutional network: handwritten digits, real data."""

from __future__ import annotations

from typing import Any

from minitorch_backends import nn

from . import digits
from .lab import Lab
from .tables import Table

__all__ = ["EPOCHS", "TITLE", "network", "run", "summary", "tables"]

TITLE = "Handwritten digits, convolutional"

QUICK_EPOCHS, EPOCHS = 3, 15
CHANNELS = (16, 32)


def network() -> nn.Sequential:
    """Two convolutions of 3 x 3 with batch normalisation, a depthwise one, and a linear layer, on images of 8 x 8."""
    first, second = CHANNELS
    return nn.Sequential(
        nn.Conv2d(1, first, 3, padding=1),
        nn.BatchNorm2d(first),
        nn.ReLU(),
        nn.Conv2d(first, first, 3, padding=1, groups=first),
        nn.Conv2d(first, second, 3, padding=1),
        nn.BatchNorm2d(second),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(second * 16, digits.CLASSES),
    )


def run(lab: Lab) -> dict[str, Any]:
    """Train in ieee, then classify the held-out images once for each precision."""
    epochs = QUICK_EPOCHS if lab.quick else EPOCHS
    result = digits.compared(lab, TITLE, network, epochs, (1, 8, 8))
    return result | {"layers": f"{CHANNELS[0]}, {CHANNELS[0]} depthwise and {CHANNELS[1]} channels"}


def tables(result: dict[str, Any]) -> list[Table]:
    return digits.tables(result)


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    return digits.described(result, f"A network of three convolutions ({result['layers']})")
