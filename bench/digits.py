"""What the precision flags do to the answers of a trained classifier: handwritten digits, real data."""

from __future__ import annotations

import copy
import gzip
from collections.abc import Callable
from pathlib import Path
from timeit import Timer
from typing import Any

import numpy as np

import minitorch_backends as mt
from minitorch_backends import nn, optim
from minitorch_backends.flags import Snapshot

from .lab import PRECISIONS, Lab
from .tables import Table, error, paragraphs, percent, seconds
from .timing import interleaved

__all__ = [
    "CLASSES", "DATA", "EPOCHS", "TITLE", "compared", "described", "load", "perceptron", "run", "split", "summary",
    "tables", "trained",
]  # fmt: skip

TITLE = "Handwritten digits"
DATA = Path(__file__).parent / "data" / "digits.csv.gz"

IMAGES, HELD_OUT = 1797, 599
HIDDEN = 128
CLASSES = 10
BATCH = 64
EPOCHS, QUICK_EPOCHS = 40, 10
LOWERED = ("tf32", "bf16", "bf16x3")
"""The precisions at which one layer at a time runs."""

DEFAULT_FLAGS = Snapshot(())
"""In force while this part runs, so that a flag of the user's (an environment variable) does not widen a permission."""


def load() -> tuple[np.ndarray, np.ndarray]:
    """Images as float32 (1797, 64) from 0 to 1, and labels as int64 (1797,)."""
    with gzip.open(DATA, "rt", encoding="ascii") as lines:
        table = np.loadtxt(lines, delimiter=",", dtype=np.int64)
    return (table[:, :-1] / 16).astype(np.float32), table[:, -1]


def split(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the images to train with and of the `HELD_OUT` others; the same for the same seed."""
    order = np.random.default_rng(seed).permutation(count)
    return order[HELD_OUT:], order[:HELD_OUT]


def run(lab: Lab) -> dict[str, Any]:
    """Train in ieee, then classify the held-out images once for each precision."""
    result = compared(lab, TITLE, perceptron, QUICK_EPOCHS if lab.quick else EPOCHS)
    return result | {"layers": [64, HIDDEN, HIDDEN, CLASSES]}


def perceptron() -> nn.Module:
    return nn.Sequential(
        nn.Linear(64, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES)
    )  # fmt: skip


def compared(
    lab: Lab, title: str, network: Callable[[], nn.Module], epochs: int, shape: tuple[int, ...] = (64,)
) -> dict[str, Any]:
    """Train a network on images of this shape, in ieee, and classify the held-out ones once for each precision."""
    with DEFAULT_FLAGS, lab.progress(title) as report:
        model, inputs, exact, labels = trained(lab, network, epochs, shape, report)
        logits, rows = {}, []
        for done, precision in enumerate(PRECISIONS):
            report(0.7 + 0.04 * done, f"{precision} (the first call may compile)")
            logits[precision], how = _classify(model, inputs, precision)
            rows.append(_compare(precision, logits[precision], logits["ieee"], exact, labels) | how)
        report(0.88, "layer by layer")
        alone = mt.explain.sensitivity(model, inputs, precisions=LOWERED)
        report(0.92, "timing")
        timings = interleaved(
            {precision: Timer(lambda p=precision: _forward(model, inputs, p)) for precision in PRECISIONS},
            seconds=0.3 if lab.quick else 2.0,
            shortest=1e-3,
        )
    for row in rows:
        timing = timings[row["precision"]]
        row |= {"median_seconds": timing.median, "minimum_seconds": timing.minimum, "samples": timing.samples}
    ordered = np.sort(exact, axis=1)
    return {
        "trained_with": IMAGES - HELD_OUT,
        "held_out": HELD_OUT,
        "epochs": epochs,
        "rms_of_logits": float(np.sqrt(np.mean(exact**2))),
        "margins": np.sort(ordered[:, -1] - ordered[:, -2]).tolist(),
        "precisions": rows,
        "layers_alone": [each._asdict() | {"layer": _described(model, each.module)} for each in alone],
    }


def trained(
    lab: Lab,
    network: Callable[[], nn.Module],
    epochs: int,
    shape: tuple[int, ...],
    report: Callable[[float, str], None],
) -> tuple[nn.Module, mt.Tensor, np.ndarray, np.ndarray]:
    """A network trained in ieee on images of this shape, the held-out images, its logits of them in float64, and their
    labels."""
    images, labels = load()
    images = images.reshape(-1, *shape)
    training, held_out = split(len(images), lab.seed)
    data = mt.from_numpy(images[training]), mt.from_numpy(labels[training])
    model = _trained(lab, network, *data, epochs, report)
    inputs = mt.from_numpy(images[held_out])
    model.eval()
    with mt.no_grad():
        exact = copy.deepcopy(model).double()(inputs.double()).numpy()
    return model, inputs, exact, labels[held_out]


def _described(model: nn.Module, name: str | None) -> str:
    """A layer's name and kind."""
    return "all of it" if name is None else f"{name} {type(model.get_submodule(name)).__name__}"


def _trained(
    lab: Lab, network: Callable[[], nn.Module], images: mt.Tensor, labels: mt.Tensor, epochs: int, report: Any
) -> nn.Module:
    mt.manual_seed(lab.seed)
    random = np.random.default_rng([lab.seed, 1])
    model = network()
    optimizer = optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(epochs):
        report(0.7 * epoch / epochs, f"training, epoch {epoch + 1} of {epochs}")
        order = random.permutation(len(labels))
        for start in range(0, len(order), BATCH):
            batch = mt.from_numpy(order[start : start + BATCH])
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model


def _forward(model: nn.Module, inputs: mt.Tensor, precision: str) -> mt.Tensor:
    with mt.no_grad(), mt.backends.flags(fp32_precision=precision):
        return model(inputs)


def _classify(model: nn.Module, inputs: mt.Tensor, precision: str) -> tuple[np.ndarray, dict[str, Any]]:
    """The logits, and how their products ran. Raises RuntimeError if one did not run at `precision`."""
    with mt.explain.record() as log:
        logits = _forward(model, inputs, precision).numpy()
    ran = sorted({entry.precision for entry in log})
    if ran != [precision]:
        raise RuntimeError(f"fp32_precision = {precision!r} was set, and products ran at {ran}")
    how = {
        "products": len(log),
        "implementation": ", ".join(sorted({entry.implementation for entry in log})),
        "decided_by": log[0].decided_by,
    }
    return logits, how


def _compare(
    precision: str, logits: np.ndarray, ieee: np.ndarray, exact: np.ndarray, labels: np.ndarray
) -> dict[str, Any]:
    difference = logits - exact
    ordered = np.sort(exact, axis=1)
    largest = float(np.abs(difference).max())
    reach = 2 * max(largest, float(np.abs(ieee - exact).max()))
    return {
        "precision": precision,
        "accuracy": float(np.mean(logits.argmax(axis=1) == labels)),
        "changed_answers": int(np.sum(logits.argmax(axis=1) != ieee.argmax(axis=1))),
        "reach": reach,
        "within_reach": int(np.sum(ordered[:, -1] - ordered[:, -2] <= reach)),
        "largest_error": largest,
        "rms_error": float(np.sqrt(np.mean(difference**2))),
    }


def tables(result: dict[str, Any]) -> list[Table]:
    columns = ("precision", "accuracy", "changed", "within reach", "largest error", "rms error", "time")
    rows = [
        (
            row["precision"],
            percent(row["accuracy"]),
            str(row["changed_answers"]),
            str(row["within_reach"]),
            error(row["largest_error"]),
            error(row["rms_error"]),
            seconds(row["median_seconds"]),
        )
        for row in result["precisions"]
    ]
    return [
        Table(f"{result['held_out']} held-out digits, once for each precision", columns, rows),
        _layers(result["layers_alone"]),
    ]


def _layers(alone: list[dict[str, Any]]) -> Table:
    found = {(row["layer"], row["precision"]): row for row in alone}
    columns = ("layer", *(f"{precision}, {what}" for precision in LOWERED for what in ("error", "changed")))
    rows = []
    for layer in dict.fromkeys(row["layer"] for row in alone):
        cells = [found[layer, precision] for precision in LOWERED]
        rows.append((layer, *(text for row in cells for text in (error(row["error"]), percent(row["flips"])))))
    return Table(
        "One layer at a time at a lower precision: relative error of the logits, answers changed", columns, rows
    )


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    return described(result, f"A {'-'.join(map(str, result['layers']))} perceptron")


def described(result: dict[str, Any], network: str) -> list[str]:
    """The same of any network."""
    implementations = ", ".join(sorted({row["implementation"] for row in result["precisions"]}))
    changed = ", ".join(f"{row['precision']} changes {row['changed_answers']}" for row in result["precisions"][1:])
    return paragraphs(f"""
        Of {result["held_out"]} answers, {changed}.

        {network}, trained in ieee on {result["trained_with"]:,} images for {result["epochs"]} epochs,
        classifies {result["held_out"]} others under no_grad, with backends.flags(fp32_precision=...) as the only
        difference. Implementation of its products: {implementations}.

        Changed answers are counted against ieee. Errors are those of the logits against a float64 run of the same
        weights; the logits' own rms is {result["rms_of_logits"]:.1f}. An answer is within reach of a precision when the
        margin between its two largest logits is at most twice the largest error (of that precision or of ieee): no
        other answer can change.

        The last table has one layer at a time at a lower precision, and the others in ieee.
    """)
