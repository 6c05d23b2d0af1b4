"""The same products on eight devices: errors of the sums of their matrix units, over K and the spread of operands.

Operands are float16 numbers, which all devices multiply exactly, so that all errors are those of the sums; and E4M3 for
the units whose sums of FP8 products have fewer bits. With `--full` two classifiers and a sentence encoder run under the
units of two devices.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import minitorch_backends as mt
from minitorch_backends.flags import Snapshot
from minitorch_backends.kernels.gemm import matmul
from minitorch_backends.kernels.matrix_units import multiply
from minitorch_backends.kernels.precision import OPERANDS
from minitorch_backends.kernels.rounding import round_to
from minitorch_backends.lab.measures import relative_error
from minitorch_backends.lab.metrics import measures_of
from minitorch_backends.profiles import PROFILES

from . import digits, digits_cnn, minilm
from .lab import Lab
from .tables import Table, error, number, paragraphs, percent, seconds

__all__ = ["DEVICES", "TITLE", "run", "summary", "tables"]

TITLE = "The same products on eight devices"


class Device(NamedTuple):
    """A line of the tables: a profile and a format; None sums in float32, as this engine does."""

    name: str
    profile: str | None
    operand: str = "fp16"
    promote: int = 0


DEVICES = (
    Device("float32 sums", None),
    *(Device(name, name.lower()) for name in ("V100", "A100", "Ada", "H100", "B200", "MI100", "MI250", "MI300")),
    Device("H100 fp8", "h100", "e4m3"),
    Device("H100 fp8 by 128", "h100", "e4m3", 128),
)
"""Float32 sums, eight devices with float16 operands, and FP8 with and without partial sums outside of the unit."""

ROWS = 12
LENGTHS = {"quick": (64, 1024), "usual": (64, 256, 1024, 4096), "full": (64, 256, 1024, 4096, 16384)}
SPREADS = {"quick": (0, 3), "usual": (0, 1, 2, 3), "full": (0, 1, 2, 3, 4)}
SPREAD_LENGTH = 1024

MODELS = ("tf32", "bf16", "e4m3")
UNITS = (None, "a100", "h100")
SENTENCES = 20


def run(lab: Lab) -> dict[str, Any]:
    """Dot products of each length and spread on each device; with --full the models."""
    lengths, spreads, rows = LENGTHS[lab.extent], SPREADS[lab.extent], []
    with Snapshot(()), lab.progress(TITLE) as report:
        for done, device in enumerate(DEVICES):
            report(done / len(DEVICES), f"{device.name} (the first may compile)")
            rows.append(
                {
                    "device": device.name,
                    "over_length": [_errors(lab, device, k, 0) for k in lengths],
                    "over_spread": [_errors(lab, device, SPREAD_LENGTH, spread) for spread in spreads],
                }
            )
        models = [] if lab.extent != "full" else _models(lab, report)
    return {"lengths": list(lengths), "spreads": list(spreads), "devices": rows, "models": models}


def _errors(lab: Lab, device: Device, k: int, spread: int) -> dict[str, float]:
    """Of sums of k products: the rms error of normal operands, and the mean error of their magnitudes, both relative to
    the sum of the magnitudes of the products, in units of 2**-24."""
    random = np.random.default_rng([lab.seed, k, spread])
    shapes = (ROWS, k), (k, ROWS)
    powers = [np.exp2(random.uniform(-2 * spread, 2 * spread, shape)) for shape in shapes]
    normal = [random.standard_normal(shape) * power for shape, power in zip(shapes, powers, strict=True)]
    a, b = (_operand(x.astype(np.float32), device.operand) for x in normal)
    sums = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    difference = _product(device, a, b) - a.astype(np.float64) @ b.astype(np.float64)
    drift = _product(device, np.abs(a), np.abs(b)) / sums - 1
    rms = float(np.sqrt(np.mean((difference / sums) ** 2)))
    return {"rms_error": rms * 2.0**24, "drift": float(np.mean(drift)) * 2.0**24}


def _operand(x: np.ndarray, operand: str) -> np.ndarray:
    """Numbers of a format, multiplied by the power of two that brings the largest to the end of FP8's range."""
    greatest = OPERANDS[operand].greatest
    end = np.floor(np.log2(greatest / np.abs(x).max())) if operand == "e4m3" else 0.0
    return round_to((x * np.exp2(end)).astype(np.float32), operand)


def _product(device: Device, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if device.profile is None:
        return matmul(a, b)
    rule = PROFILES[device.profile].format(device.operand).rule
    assert rule is not None, "a device whose order of sums is not known"
    return multiply(rule, device.operand, a, b, promote=device.promote)


# The models


def _models(lab: Lab, report: Callable[[float, str], None]) -> list[dict[str, Any]]:
    """What each unit does to the answers of each model, at each precision that it has."""
    found = []
    for name, answer, exact, metric in _subjects(lab, report):
        for unit in UNITS:
            for precision in MODELS:
                if unit is not None and precision not in PROFILES[unit].formats:
                    continue
                report(0.6, f"{name} at {precision} on {unit or 'float32 sums'}")
                start = time.perf_counter()
                with mt.no_grad(), mt.backends.flags(profile=unit, fp32_precision=precision):
                    answers = {"": answer().numpy()}
                row = {"model": name, "unit": unit, "precision": precision, "seconds": time.perf_counter() - start}
                measures = measures_of(metric, answers, exact)
                changed = measures["flips" if metric == "logits" else "nearest_changed"]
                found.append(row | {"error": relative_error(answers, exact), "changed": changed})
    return found


Subject = tuple[str, Callable[[], mt.Tensor], dict[str, np.ndarray], str]


def _subjects(lab: Lab, report: Callable[[float, str], None]) -> Iterator[Subject]:
    """The models: a name, what computes the answers, those in float64, and the metric."""
    networks = (
        ("perceptron on digits", digits.perceptron, digits.EPOCHS, (64,)),
        ("CNN on digits", digits_cnn.network, digits_cnn.EPOCHS, (1, 8, 8)),
    )
    for name, network, epochs, shape in networks:
        model, inputs, exact, _ = digits.trained(lab, network, epochs, shape, report)
        yield name, functools.partial(model, inputs), {"": exact}, "logits"
    if minilm.find() is not None:
        encoder = minilm.load()
        tokens = encoder.inputs(minilm.sentences()[:SENTENCES])
        with mt.no_grad():
            vectors = minilm.load().double()(*tokens).numpy()
        yield "MiniLM", functools.partial(encoder, *tokens), {"": vectors}, "embedding"


# What is shown


def tables(result: dict[str, Any]) -> list[Table]:
    lengths, spreads = result["lengths"], result["spreads"]
    longest = len(lengths) - 1
    columns = ("sums of", *(f"K {k:,}" for k in lengths), *(f"spread {each}" for each in spreads[1:]), "drift")
    rows = []
    for row in result["devices"]:
        errors = [*row["over_length"], *row["over_spread"][1:]]
        drift = row["over_length"][longest]["drift"]
        rows.append((row["device"], *(number(each["rms_error"]) for each in errors), f"{drift:.2g}"))
    title = f"rms error relative to sum |a b| in units of 2^-24, and drift at K = {lengths[longest]:,}"
    found = [Table(title, columns, rows)]
    if result["models"]:
        cells = [
            (
                row["model"], row["precision"], row["unit"] or "float32 sums", error(row["error"]),
                percent(row["changed"]), seconds(row["seconds"]),
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
