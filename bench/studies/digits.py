"""What precisions do to the answers of two trained classifiers: handwritten digits, real data."""

from __future__ import annotations

import copy
import functools
import gzip
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

import minitorch_backends as mt
from minitorch_backends import lab, nn, optim
from minitorch_backends.backends import Snapshot
from minitorch_backends.display.figures import MARKS
from minitorch_backends.lab.metrics import Arrays, logits

from ..presentation import Table, error, paragraphs, percent, plot, seconds
from ..session import PRECISIONS, Session

TITLE = "Handwritten digits"
DATA = Path(__file__).parent.parent / "data" / "digits.csv.gz"

IMAGES, HELD_OUT = 1797, 599
HIDDEN = 128
CHANNELS = (16, 32)
CLASSES = 10
BATCH = 64
LOWERED = ("tf32", "bf16", "bf16x3")
"""The precisions at which one layer at a time runs."""


def perceptron() -> nn.Sequential:
    """Three linear layers on the 64 pixels."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES)
    )  # fmt: skip


def convolutional() -> nn.Sequential:
    """Two convolutions of 3 x 3 with batch normalisation, a depthwise one, and a linear layer."""
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
        nn.Linear(second * 16, CLASSES),
    )


NETWORKS = {"perceptron": perceptron, "convolutional network": convolutional}
QUICK_EPOCHS = {"perceptron": 10, "convolutional network": 3}
EPOCHS = {"perceptron": 40, "convolutional network": 10}


class Classifier(NamedTuple):
    """A network trained in ieee, the images that it has not seen, (599, 1, 8, 8), and their labels."""

    model: nn.Module
    images: mt.Tensor
    labels: np.ndarray


def load() -> tuple[np.ndarray, np.ndarray]:
    """Images as float32 (1797, 1, 8, 8) from 0 to 1, and labels as int64 (1797,)."""
    with gzip.open(DATA, "rt", encoding="ascii") as lines:
        table = np.loadtxt(lines, delimiter=",", dtype=np.int64)
    return (table[:, :-1] / 16).astype(np.float32).reshape(-1, 1, 8, 8), table[:, -1]


def split(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the images to train with and of the `HELD_OUT` others; the same for the same seed."""
    order = np.random.default_rng(seed).permutation(count)
    return order[HELD_OUT:], order[:HELD_OUT]


@functools.cache
def train_network(network: str, epochs: int, seed: int) -> Classifier:
    """Train a network with Adam and no flags set."""
    images, labels = load()
    training, held_out = split(len(images), seed)
    random = np.random.default_rng([seed, 1])
    with Snapshot(()), mt.enable_grad():
        mt.manual_seed(seed)
        model = NETWORKS[network]()
        optimizer = optim.Adam(model.parameters(), lr=2e-3)
        for _ in range(epochs):
            order = random.permutation(training)
            for start in range(0, len(order), BATCH):
                batch = order[start : start + BATCH]
                found = model(mt.from_numpy(images[batch]))
                loss = nn.functional.cross_entropy(found, mt.from_numpy(labels[batch]))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    return Classifier(model.eval(), mt.from_numpy(images[held_out]), labels[held_out])


def scores(network: str, epochs: int, seed: int) -> mt.Tensor:
    """The logits of the held-out images."""
    found = train_network(network, epochs, seed)
    return found.model(found.images)


@functools.cache
def exact_scores(network: str, epochs: int, seed: int) -> mt.Tensor:
    """The same in float64, from the same weights."""
    found = train_network(network, epochs, seed)
    return copy.deepcopy(found.model).double()(found.images.double())


def run(session: Session) -> dict[str, Any]:
    """Train in ieee, then classify the held-out images once for each precision, and with single layers lowered."""
    networks = []
    for network, epochs in (QUICK_EPOCHS if session.quick else EPOCHS).items():
        found = train_network(network, epochs, session.seed)
        with mt.no_grad():
            rows = session.sweep(
                scores, over=[{"network": network, "epochs": epochs}], flags={"fp32_precision": PRECISIONS},
                seeds=[session.seed], reference=exact_scores, metric=functools.partial(measures, found.labels),
            )  # fmt: skip
            with Snapshot(()):
                audit = lab.audit(found.model, found.images, LOWERED, "logits")
            exact = np.sort(exact_scores(network, epochs, session.seed).numpy(), axis=1)
        networks.append(
            {
                "network": network,
                "epochs": epochs,
                "rows": rows,
                "layers": [
                    {name: row[name] for name in ("precision", "error", "local_error", "flips")}
                    | {"layer": _describe_drift(found.model, row["module"])}
                    for row in audit.rows
                ],
                "margins": np.sort(exact[:, -1] - exact[:, -2]).tolist(),
            }
        )
    return {"trained_with": IMAGES - HELD_OUT, "held_out": HELD_OUT, "networks": networks}


def measures(labels: np.ndarray, answer: Arrays, truth: Arrays) -> dict[str, float]:
    """Those of logits, and the share of answers that are the label."""
    (found,) = answer.values()
    return {**logits(answer, truth), "accuracy": float(np.mean(found.argmax(axis=1) == labels))}


def _describe_drift(model: nn.Module, name: str | None) -> str:
    """A layer's name and kind."""
    return "all of it" if name is None else f"{name} {type(model.get_submodule(name)).__name__}"


# What is shown


def tables(result: dict[str, Any]) -> list[Table]:
    return [make(each) for each in result["networks"] for make in (_precisions, _layers)]


def _precisions(entry: dict[str, Any]) -> Table:
    columns = ("precision", "accuracy", "changed", "least margin", "largest error", "relative error", "nats", "time")
    rows = [
        (
            row["flags"]["fp32_precision"],
            percent(row["accuracy"]),
            str(round(row["flips"] * HELD_OUT)),
            f"{row['margin']:.3g}",
            error(row["max_abs"]),
            error(row["error"]),
            error(row["log_probability_error"]),
            seconds(row["seconds"]),
        )
        for row in entry["rows"]
    ]
    return Table(f"{entry['network']}: {HELD_OUT} held-out digits, once for each precision", columns, rows)


def _layers(entry: dict[str, Any]) -> Table:
    found = {(row["layer"], row["precision"]): row for row in entry["layers"]}
    columns = ("layer", *(f"{precision}, {what}" for precision in LOWERED for what in ("error", "changed")))
    rows = []
    for layer in dict.fromkeys(row["layer"] for row in entry["layers"]):
        cells = [found[layer, precision] for precision in LOWERED]
        rows.append((layer, *(text for row in cells for text in (error(row["error"]), percent(row["flips"])))))
    title = f"{entry['network']}, one layer at a time at a lower precision: relative error, answers changed"
    return Table(title, columns, rows)


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    changed = "; ".join(
        f"{entry['network']} "
        + ", ".join(f"{row['flags']['fp32_precision']} {round(row['flips'] * HELD_OUT)}" for row in entry["rows"])
        for entry in result["networks"]
    )
    return paragraphs(f"""
        Answers of {result["held_out"]} that change: {changed}.

        Two networks, trained in ieee on {result["trained_with"]:,} images, classify {result["held_out"]} others under
        no_grad, with fp32_precision as the only difference: a perceptron of 64-{HIDDEN}-{HIDDEN}-{CLASSES}, and three
        convolutions of {CHANNELS[0]}, {CHANNELS[0]} (depthwise) and {CHANNELS[1]} channels.

        Errors are those of the logits against a float64 run of the same weights, in nats those of log-probabilities.
        The margin of an answer is the difference of its two largest logits over their largest change: an answer can
        change where it is below 2. The other tables have one layer at a time at a lower precision, and the others in
        ieee.
    """)


@plot(
    "digits-margins",
    "Answers in the order of their margin. Only answers below a dashed line can change at that precision.",
    (11, 4.6),
)
def margins_of_answers(figure: Figure, result: dict[str, Any]) -> None:
    for axes, entry in zip(figure.subplots(1, 2, sharey=True), result["networks"], strict=True):
        margins = entry["margins"]
        axes.plot(range(1, len(margins) + 1), margins, color="#555555")
        for row in entry["rows"]:
            precision = row["flags"]["fp32_precision"]
            axes.axhline(2 * row["max_abs"], color=MARKS[precision][0], linestyle="--", label=precision)
        axes.set(title=f"{entry['network']}", xscale="log", yscale="log", xlabel="answers, by margin")
    figure.axes[0].set_ylabel("margin of two largest logits")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(PRECISIONS))


@plot(
    "digits-layers",
    "Which layers make the error of the answers (filled), beside the error of their own results (open).",
    (11, 4.6),
)
def errors_of_layers(figure: Figure, result: dict[str, Any]) -> None:
    for axes, entry in zip(figure.subplots(1, 2, sharey=True), result["networks"], strict=True):
        layers = list(dict.fromkeys(row["layer"] for row in entry["layers"]))
        for precision in LOWERED:
            colour, mark = MARKS[precision]
            rows = [row for row in entry["layers"] if row["precision"] == precision]
            places = [layers.index(row["layer"]) for row in rows]
            axes.semilogy(places, [row["error"] for row in rows], mark, color=colour, markersize=8, label=precision)
            local = [row["local_error"] for row in rows]
            axes.semilogy(places, local, mark, color=colour, markersize=11, fillstyle="none")
        axes.set_xticks(range(len(layers)), layers, rotation=20, ha="right", rotation_mode="anchor")
        axes.set_title(f"{entry['network']}")
    figure.axes[0].set_ylabel("relative error")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(LOWERED))


PLOTS = [margins_of_answers, errors_of_layers]
