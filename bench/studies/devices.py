"""The same products on eight devices: errors of the sums of their matrix units, over K and the spread of operands.

Operands are float16 numbers, which all devices multiply exactly, so that all errors are those of the sums; and E4M3 for
the units whose sums of FP8 products have fewer bits. With `--full` two classifiers and a sentence encoder run under the
units of two devices.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

import minitorch_backends as mt
from minitorch_backends.display.figures import show_sizes
from minitorch_backends.kernels.gemm import matmul
from minitorch_backends.kernels.matrix_units import multiply
from minitorch_backends.kernels.precisions.elements import ELEMENTS
from minitorch_backends.kernels.precisions.parts import round_to
from minitorch_backends.profiles import PROFILES

from ..presentation import Table, error, number, paragraphs, percent, plot, seconds
from ..session import Session
from . import digits, minilm, sentences

TITLE = "The same products on eight devices"


class Device(NamedTuple):
    """A line of the tables: a profile and a format; None sums in float32, as this engine does."""

    name: str
    profile: str | None
    operand: str = "fp16"
    promote: int = 0


_DEVICES = (
    Device("float32 sums", None),
    *(Device(name, name.lower()) for name in ("V100", "A100", "Ada", "H100", "B200", "MI100", "MI250", "MI300")),
    Device("H100 fp8", "h100", "e4m3"),
    Device("H100 fp8 by 128", "h100", "e4m3", 128),
)
DEVICES = {device.name: device for device in _DEVICES}
"""Float32 sums, eight devices with float16 operands, and FP8 with and without partial sums outside of the unit."""

ROWS = 12
LENGTHS = {"quick": (64, 1024), "usual": (64, 256, 1024, 4096), "full": (64, 256, 1024, 4096, 16384)}
SPREADS = {"quick": (0, 3), "usual": (0, 1, 2, 3), "full": (0, 1, 2, 3, 4)}
SPREAD_LENGTH = 1024

MODELS = ("tf32", "bf16", "e4m3")
UNITS = (None, "a100", "h100")
SENTENCES = 20


def run(session: Session) -> dict[str, Any]:
    """Dot products of each length and spread on each device; with --full the models."""
    lengths, spreads = LENGTHS[session.extent], SPREADS[session.extent]
    shapes = [(k, 0, magnitudes) for k in lengths for magnitudes in (False, True)]
    shapes += [(SPREAD_LENGTH, spread, False) for spread in spreads]
    points = [
        {"device": name, "k": k, "spread": spread, "magnitudes": magnitudes}
        for name in DEVICES for k, spread, magnitudes in dict.fromkeys(shapes)
    ]  # fmt: skip
    rows = session.sweep(
        sums, over=points, seeds=[session.seed], reference=exact_sums, metric="regression", repeats=0
    )  # fmt: skip
    found = {(row["device"], row["k"], row["spread"], row["magnitudes"]): row for row in rows}
    devices = [
        {
            "device": name,
            "over_length": [
                {"rms_error": found[name, k, 0, False]["rmse"] * 2.0**24,
                 "drift": found[name, k, 0, True]["bias"] * 2.0**24}
                for k in lengths
            ],
            "over_spread": [found[name, SPREAD_LENGTH, spread, False]["rmse"] * 2.0**24 for spread in spreads],
        }
        for name in DEVICES
    ]  # fmt: skip
    models = _models(session) if session.extent == "full" else []
    return {"lengths": list(lengths), "spreads": list(spreads), "devices": devices, "models": models}


def sums(device: str, k: int, spread: int, magnitudes: bool, seed: int) -> np.ndarray:
    """A product of ROWS x k and k x ROWS numbers, or of their magnitudes, relative to that of the magnitudes."""
    a, b = _operands(DEVICES[device].operand, k, spread, seed)
    of_magnitudes = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    return _product(DEVICES[device], *map(np.abs, (a, b)) if magnitudes else (a, b)) / of_magnitudes


def exact_sums(device: str, k: int, spread: int, magnitudes: bool, seed: int) -> np.ndarray:
    """The same in float64."""
    a, b = (each.astype(np.float64) for each in _operands(DEVICES[device].operand, k, spread, seed))
    of_magnitudes = np.abs(a) @ np.abs(b)
    return np.ones_like(of_magnitudes) if magnitudes else a @ b / of_magnitudes


def _operands(operand: str, k: int, spread: int, seed: int) -> tuple[np.ndarray, ...]:
    """Normal numbers of a format, (ROWS, k) and (k, ROWS), times powers of two."""
    random = np.random.default_rng([seed, k, spread])
    shapes = (ROWS, k), (k, ROWS)
    powers = [np.exp2(random.uniform(-2 * spread, 2 * spread, shape)) for shape in shapes]
    normal = [random.standard_normal(shape) * power for shape, power in zip(shapes, powers, strict=True)]
    return tuple(_operand(x.astype(np.float32), operand) for x in normal)


def _operand(x: np.ndarray, operand: str) -> np.ndarray:
    """Numbers of a format, multiplied by the power of two that brings the largest to the end of FP8's range."""
    greatest = ELEMENTS[operand].greatest
    end = np.floor(np.log2(greatest / np.abs(x).max())) if operand == "e4m3" else 0.0
    return round_to((x * np.exp2(end)).astype(np.float32), operand)


def _product(device: Device, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if device.profile is None:
        return matmul(a, b)
    rule = PROFILES[device.profile].format(device.operand).rule
    assert rule is not None, "a device whose order of sums is not known"
    return multiply(rule, device.operand, a, b, promote=device.promote)


# The models


def _models(session: Session) -> list[dict[str, Any]]:
    """What each unit does to the answers of each model, at each precision that it has."""
    flags = [
        {"profile": unit, "fp32_precision": precision}
        for unit in UNITS for precision in MODELS if unit is None or precision in PROFILES[unit].formats
    ]  # fmt: skip
    with mt.no_grad():
        rows = [
            {"model": f"{network} on digits", "changed": row["flips"], **row}
            for network, epochs in digits.EPOCHS.items()
            for row in session.sweep(
                digits.scores, over=[{"network": network, "epochs": epochs}], flags=flags, seeds=[session.seed],
                reference=digits.exact_scores, metric="logits", repeats=1,
            )
        ]  # fmt: skip
        if minilm.find() is not None:
            rows += [
                {"model": "MiniLM", "changed": row["nearest_changed"], **row}
                for row in session.sweep(
                    sentences.vectors, over={"count": [SENTENCES]}, flags=flags, seeds=None,
                    reference=sentences.exact_vectors, metric="embedding", repeats=1,
                )
            ]  # fmt: skip
    return rows


# What is shown


def tables(result: dict[str, Any]) -> list[Table]:
    lengths, spreads = result["lengths"], result["spreads"]
    longest = len(lengths) - 1
    columns = ("sums of", *(f"K {k:,}" for k in lengths), *(f"spread {each}" for each in spreads[1:]), "drift")
    rows = []
    for row in result["devices"]:
        errors = [*(each["rms_error"] for each in row["over_length"]), *row["over_spread"][1:]]
        drift = row["over_length"][longest]["drift"]
        rows.append((row["device"], *map(number, errors), f"{drift:.2g}"))
    title = f"rms error relative to sum |a b| in units of 2^-24, and drift at K = {lengths[longest]:,}"
    found = [Table(title, columns, rows)]
    if result["models"]:
        cells = [
            (
                row["model"], row["flags"]["fp32_precision"], row["flags"]["profile"] or "float32 sums",
                error(row["error"]), percent(row["changed"]), seconds(row["seconds"]),
            )
            for row in result["models"]
        ]  # fmt: skip
        columns = ("model", "precision", "sums of", "error", "answers changed", "time")
        found.append(Table("Models under the units", columns, cells, names=3))
    return found


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    last = {row["device"]: row["over_length"][-1] for row in result["devices"]}
    fewest, most = last["H100 fp8"]["drift"], last["H100 fp8 by 128"]["drift"]
    return paragraphs(f"""
        A product of {ROWS} x K and K x {ROWS} normal numbers, rounded to float16, is summed by the rule of each
        device's matrix unit, and by this engine in float32. All products of operands are exact, so that errors are
        those of the sums. A spread of s multiplies operands by 2^u with u even between -2 s and 2 s, at K =
        {SPREAD_LENGTH:,}.

        Units that cut what they align, NVIDIA's, lose on the same side in every step: their drift, the mean error of
        sums of magnitudes, grows with K, and the error of normal operands hides it. Those that round to nearest do not
        drift. At K = {result["lengths"][-1]:,} an A100 is off by {last["A100"]["drift"]:+,.0f} units of 2^-24, an H100
        by {last["H100"]["drift"]:+,.0f}, and an MI250 by {last["MI250"]["drift"]:+,.1f}.

        The FP8 unit of an H100 keeps 13 bits of a sum: {fewest:.3g} units, or {most:+,.0f} where libraries add
        partial sums outside of the unit after each 128 products.
    """)


_LINES = (
    ("#000000", "o"), ("#882255", "v"), ("#0072B2", "s"), ("#009E73", "D"), ("#E69F00", "P"), ("#56B4E9", "^"),
    ("#D55E00", "X"), ("#AA4499", "*"), ("#5f5f5f", "h"),
)  # fmt: skip


def _alike(devices: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """The devices under one name where their sums have the same errors."""
    found: dict[str, tuple[list[str], dict[str, Any]]] = {}
    for row in devices:
        found.setdefault(str((row["over_length"], row["over_spread"])), ([], row))[0].append(row["device"])
    return [(" and ".join(names), row) for names, row in found.values()]


@plot(
    "devices",
    "The same products, summed by the matrix units of eight devices. Units that cut lose on one side, which errors "
    "of normal operands do not show.",
    (13, 5.0),
)
def by_device(figure: Figure, result: dict[str, Any]) -> None:
    over_length, over_spread, drift = figure.subplots(1, 3)
    lengths, spreads = result["lengths"], result["spreads"]
    for (name, row), (colour, marker) in zip(_alike(result["devices"]), _LINES, strict=False):
        style = {"color": colour, "marker": marker, "markersize": 6, "linewidth": 1.4}
        over_length.plot(lengths, [each["rms_error"] for each in row["over_length"]], label=name, **style)
        over_spread.plot(spreads, row["over_spread"], **style)
        drift.plot(lengths, [-each["drift"] for each in row["over_length"]], **style)
    over_length.set(
        title="Error of normal operands", yscale="log", xlabel="K", ylabel="rms error (2$^{-24}$ of sum |ab|)"
    )
    over_spread.set(
        title="Error over the spread, K = 1,024",
        yscale="log",
        xlabel="spread s: operands times 2$^{u}$, |u| at most 2 s",
    )
    over_spread.set_xticks(spreads)
    drift.set(title="Drift: loss of sums of magnitudes", xlabel="K", ylabel="mean loss (2$^{-24}$ of the sum)")
    drift.set_yscale("symlog", linthresh=1.0)
    for panel in (over_length, drift):
        show_sizes(panel, lengths)
    figure.legend(*over_length.get_legend_handles_labels(), loc="outside lower center", ncols=5)


PLOTS = [by_device]
