"""`python -m bench.layers`: the convolutions of ResNet-50 and MobileNetV3, called as a user calls them, beside torch's.

Each layout is compared with torch in the same layout, weights are packed in every call by both, and precisions of
float32 other than ieee are compared with torch's float32. `--dtype bfloat16` compares tensors of bfloat16. The layers
of MobileNetV3-Large: A. Howard et al., arXiv 1905.02244.
"""

from __future__ import annotations

import argparse
import functools
import math
from collections.abc import Callable, Sequence
from timeit import Timer
from typing import Any

import numpy as np

import minitorch_backends as mt

from . import peers
from .conv import RESNET, Layer, square
from .fair import restart_where_held
from .presentation import Table, number, ratio
from .session import PRECISIONS, Session
from .timing import OPENMP_REST, time_interleaved

__all__ = ["MOBILENET", "main", "measure", "tables"]

DIRECTIONS = ("forward", "input gradient", "weight gradient")
LAYOUTS = {"NCHW": "contiguous_format", "channels last": "channels_last"}
SHORTEST = 4e-3


_DEPTHWISE = (
    (16, 112, 3, 1), (64, 112, 3, 2), (72, 56, 3, 1), (72, 56, 5, 2), (120, 28, 5, 1), (240, 28, 3, 2),
    (200, 14, 3, 1), (480, 14, 3, 1), (672, 14, 5, 1), (672, 14, 5, 2), (960, 7, 5, 1),
)  # fmt: skip
_POINTWISE = (
    (16, 64, 112), (64, 24, 56), (24, 72, 56), (72, 40, 28), (40, 120, 28), (240, 80, 14), (80, 480, 14),
    (480, 112, 14), (112, 672, 14), (672, 160, 7), (160, 960, 7),
)  # fmt: skip
MOBILENET = [
    layer._replace(group="mobilenet")
    for layer in (
        square(3, 16, 224, 3, 2),
        *(square(channels, channels, size, kernel, stride, channels) for channels, size, kernel, stride in _DEPTHWISE),
        *(square(channels, outputs, size, 1) for channels, outputs, size in _POINTWISE),
    )
]


def _calls(package: Any, arrays: dict[str, Any], layer: Layer, direction: str) -> Callable[[], Any]:
    """A call of torch's or of ours, which has torch's names."""
    keywords = {"stride": layer.stride, "padding": layer.padding, "groups": layer.groups}
    x, weight, g = (arrays[name] for name in ("x", "weight", "g"))
    if direction == "forward":

        def forward() -> None:
            with package.no_grad():
                package.nn.functional.conv2d(x, weight, **keywords)

        return forward
    wanted = (x if direction == "input gradient" else weight).requires_grad_()
    y = package.nn.functional.conv2d(x, weight, **keywords)
    return functools.partial(package.autograd.grad, y, wanted, g, retain_graph=True)


def measure(layer: Layer, batch: int, direction: str, dtype: str, rounds: int) -> dict[str, Any]:
    """Median seconds of both in each layout, of tensors of a dtype that both have."""
    torch = peers.torch_if_installed()
    random, places = np.random.default_rng(0), (layer.size[0] + 2 * layer.padding - layer.kernel[0]) // layer.stride + 1
    shapes = {
        "x": (batch, layer.channels, *layer.size),
        "weight": (layer.outputs, layer.channels // layer.groups, *layer.kernel),
        "g": (batch, layer.outputs, places, places),
    }
    arrays = {name: random.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}
    runs, rests = {}, {}
    for layout, memory in LAYOUTS.items():
        for name, package in (("ours", mt), ("torch", torch)):
            if package is not None:
                tensors = {
                    key: package.from_numpy(array.copy())
                    .to(getattr(package, dtype))
                    .contiguous(memory_format=getattr(package, memory))
                    for key, array in arrays.items()
                }
                runs[f"{name}, {layout}"] = _calls(package, tensors, layer, direction)
        rests[f"torch, {layout}"] = OPENMP_REST
    timings = time_interleaved(
        {name: Timer(each) for name, each in runs.items()}, seconds=0.0, shortest=SHORTEST, rounds=rounds, rests=rests
    )
    operations = layer.operations(batch)
    return {"layer": layer.label, "batch": batch, "direction": direction, "operations": operations} | {
        name: each.median for name, each in timings.items()
    }


def _ratio(row: dict[str, Any], layout: str) -> float:
    return row[f"torch, {layout}"] / row[f"ours, {layout}"]


def tables(rows: list[dict[str, Any]], precision: str) -> list[Table]:
    """GFLOP/s of each layer, and geometric means of the speeds."""
    with_torch = f"torch, {next(iter(LAYOUTS))}" in rows[0]
    names = [f"{name}, {layout}" for layout in LAYOUTS for name in ("ours", "torch") if f"{name}, {layout}" in rows[0]]
    speeds = [
        (
            row["layer"],
            str(row["batch"]),
            row["direction"],
            *(number(1e-9 * row["operations"] / row[name]) for name in names),
        )
        for row in rows
    ]
    found = [Table(f"GFLOP/s at {precision}", ("layer", "batch", "direction", *names), speeds, names=3)]
    if with_torch:
        means = []
        for direction in dict.fromkeys(row["direction"] for row in rows):
            for layout in LAYOUTS:
                ratios = [_ratio(row, layout) for row in rows if row["direction"] == direction]
                mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
                means.append(
                    (direction, layout, ratio(mean), f"{sum(each < 0.85 for each in ratios)} of {len(ratios)}")
                )
        columns = ("direction", "layout", "geometric mean", "below 0.85")
        found.append(Table("Speed relative to torch", columns, means, names=2))
    return found


def main(words: Sequence[str] | None = None) -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, action="append", help="may be repeated (1 and 8)")
    parser.add_argument("--direction", choices=DIRECTIONS, action="append", help="may be repeated (all)")
    parser.add_argument("--precision", choices=PRECISIONS, default="ieee")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--only", default="", help="layers whose label has this")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(words)
    layers = [layer for layer in (*RESNET, *MOBILENET) if options.only in layer.label]
    if not layers:
        parser.error(f"argument --only: no layer's label has {options.only!r}")
    session, rows = Session(), []
    with mt.backends.flags(fp32_precision=options.precision):
        for direction in options.direction or DIRECTIONS:
            for batch in options.batch or (1, 8):
                rows += [measure(layer, batch, direction, options.dtype, options.rounds) for layer in layers]
    for table in tables(rows, options.precision if options.dtype == "float32" else options.dtype):
        session.show(table)


if __name__ == "__main__":
    restart_where_held()
    main()
