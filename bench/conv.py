"""Convolutions: ResNet-50's layers, a depthwise-separable block and a 1-D stack beside torch's, and every algorithm at
every precision for one of them.

`python -m bench --full --only conv` measures everything; `python -m bench.conv --batch 8 --direction forward`
the layers alone, with the targets of their kernels.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from timeit import Timer
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from minitorch_backends.display.figures import MARKS, SHAPES, plain_numbers
from minitorch_backends.kernels.conv import (
    Kept,
    benchmark_cache,
    conv,
    conv_input_gradient,
    conv_weight_gradient,
    workspace,
)
from minitorch_backends.kernels.registry import ArraySpec, Kernel, Refused
from minitorch_backends.kernels.runtime.workspace import empty

from . import peers
from .fair import restart_where_held
from .presentation import Plot, Table, error, number, paragraphs, ratio, seconds
from .session import PRECISIONS, Session
from .timing import OPENMP_REST, time_interleaved

__all__ = ["PLOTS", "TITLE", "run", "summary", "tables"]

TITLE = "Convolutions"

DIRECTIONS = {"forward": conv, "input gradient": conv_input_gradient, "weight gradient": conv_weight_gradient}
MEASURED = ("bf16", "tf32", "ieee")
"""The precisions of the layers; the table of algorithms has more."""

SHORTEST = 1e-3
ROUNDS = 5


class Layer(NamedTuple):
    """One layer: group, channels, outputs, spatial size, kernel, stride, padding, groups."""

    group: str
    channels: int
    outputs: int
    size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: int = 1
    padding: int = 0
    groups: int = 1

    @property
    def label(self) -> str:
        taps, sizes = ("x".join(map(str, each)) for each in (self.kernel, self.size))
        grouped = f", {self.groups} groups" if self.groups > 1 else ""
        strided = f"/{self.stride}" if self.stride > 1 else ""
        return f"{self.channels}-{self.outputs} {taps}{strided} at {sizes}{grouped}"

    @property
    def keywords(self) -> dict[str, Any]:
        rank = len(self.size)
        steps = {"stride": (self.stride,) * rank, "padding": (self.padding,) * rank, "dilation": (1,) * rank}
        return steps | ({"groups": self.groups} if self.groups > 1 else {})

    def operations(self, batch: int) -> float:
        places = [(n + 2 * self.padding - k) // self.stride + 1 for n, k in zip(self.size, self.kernel, strict=True)]
        depth = self.channels // self.groups * math.prod(self.kernel)
        return 2.0 * batch * self.outputs * math.prod(places) * depth


def square(
    channels: int, outputs: int, size: int, kernel: int, stride: int = 1, groups: int = 1, group: str = "resnet"
) -> Layer:
    return Layer(group, channels, outputs, (size, size), (kernel, kernel), stride, kernel // 2, groups)


RESNET = [
    square(*layer)
    for layer in (
        (3, 64, 224, 7, 2), (64, 64, 56, 1), (64, 64, 56, 3), (64, 256, 56, 1), (256, 64, 56, 1), (256, 128, 56, 1),
        (128, 128, 56, 3, 2), (128, 512, 28, 1), (256, 512, 56, 1, 2), (512, 128, 28, 1), (128, 128, 28, 3),
        (512, 256, 28, 1), (256, 256, 28, 3, 2), (256, 1024, 14, 1), (512, 1024, 28, 1, 2), (1024, 256, 14, 1),
        (256, 256, 14, 3), (1024, 512, 14, 1), (512, 512, 14, 3, 2), (512, 2048, 7, 1), (1024, 2048, 14, 1, 2),
        (2048, 512, 7, 1), (512, 512, 7, 3),
    )
]  # fmt: skip
"""The distinct layers of ResNet-50 for images of 224 x 224 (K. He et al., arXiv 1512.03385; the stride of a block is in
its 3 x 3 layer)."""

OTHERS = [
    square(128, 128, 56, 3, 1, 128, "separable"),
    square(128, 128, 56, 1, group="separable"),
    square(128, 128, 56, 3, 2, 128, "separable"),
    square(128, 256, 28, 1, group="separable"),
    Layer("1-D", 64, 128, (2048,), (5,), 1, 2),
    Layer("1-D", 128, 256, (1024,), (5,), 2, 2),
    Layer("1-D", 256, 256, (512,), (3,), 1, 1),
]

USUAL = [RESNET[2], RESNET[13], OTHERS[0], OTHERS[6]]
QUICK = [
    square(32, 32, 14, 3),
    square(64, 32, 14, 1),
    square(32, 32, 14, 3, 1, 32, "separable"),
    Layer("1-D", 32, 32, (64,), (3,), 1, 1),
]


def _align(x: np.ndarray) -> np.ndarray:
    """A copy that begins on a cache line, as results of the kernels and torch's tensors do."""
    found = empty(x.shape, x.dtype)
    found[...] = x
    return found


def _last(x: np.ndarray) -> np.ndarray:
    """A copy with the channels last in memory."""
    return np.moveaxis(_align(np.moveaxis(x, 1, -1)), -1, 1)


def _arrays(layer: Layer, batch: int, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng([seed, batch, layer.channels])
    x = random.standard_normal((batch, layer.channels, *layer.size), dtype=np.float32)
    shape = (layer.outputs, layer.channels // layer.groups, *layer.kernel)
    weight = random.standard_normal(shape, dtype=np.float32) / np.float32(math.sqrt(math.prod(shape[1:])))
    places = [(n + 2 * layer.padding - k) // layer.stride + 1 for n, k in zip(layer.size, layer.kernel, strict=True)]
    g = random.standard_normal((batch, layer.outputs, *places), dtype=np.float32)
    return {"x": x, "weight": weight, "g": g}


def _call(direction: str, layer: Layer, x: np.ndarray, weight: Any, g: np.ndarray) -> tuple[tuple, dict[str, Any]]:
    """The arrays and keywords of a kernel's call."""
    if direction == "forward":
        return (x, weight), layer.keywords
    if direction == "input gradient":
        return (g, weight), layer.keywords | {"input_size": layer.size}
    return (x, g), layer.keywords | {"kernel_size": layer.kernel}


def _fastest(kernel: Kernel, arrays: tuple, keywords: dict[str, Any]) -> Callable[[], Any]:
    """By the algorithm that `benchmark = True` finds."""
    keywords = keywords | {"every": True}
    prefer = benchmark_cache.fastest(kernel, arrays, keywords, None)
    return functools.partial(kernel, *arrays, prefer=prefer, **keywords)


def _ours(direction: str, layer: Layer, arrays: dict[str, np.ndarray]) -> dict[str, Callable[[], Any]]:
    import ml_dtypes

    kernel, found = DIRECTIONS[direction], {}
    half = {name: each.astype(ml_dtypes.bfloat16) for name, each in arrays.items()}
    for where, place in (("", _align), (", channels last", _last)):
        if where and len(layer.size) == 1:
            continue
        x, g, weight = place(arrays["x"]), place(arrays["g"]), Kept(arrays["weight"])
        for precision in MEASURED:
            some, keywords = _call(direction, layer, x, weight, g)
            keywords = keywords if precision == "ieee" else keywords | {"precision": precision}
            found[f"{precision}{where}"] = functools.partial(kernel, *some, **keywords)
        some, keywords = _call(direction, layer, x, weight, g)
        found[f"ieee, fastest{where}"] = _fastest(kernel, some, keywords)
        some, keywords = _call(direction, layer, place(half["x"]), Kept(half["weight"]), place(half["g"]))
        found[f"bf16 tensors{where}"] = functools.partial(kernel, *some, **keywords)
    return found


def _torchs(direction: str, layer: Layer, arrays: dict[str, np.ndarray]) -> dict[str, Callable[[], Any]]:
    """torch's, in both layouts where there are two; none where it is not installed."""
    torch = peers.torch_if_installed()
    if torch is None:
        return {}
    rank, found = len(layer.size), {}
    mask = [direction == "input gradient", direction == "weight gradient", False]
    steps = [layer.stride] * rank, [layer.padding] * rank, [1] * rank, False, [0] * rank, layer.groups
    dtypes = {"torch fp32": torch.float32}
    if peers.torch_multiplies_bf16():
        dtypes["torch bf16 tensors"] = torch.bfloat16
    for name, dtype in dtypes.items():
        for where, memory in (("", torch.contiguous_format), (", channels last", torch.channels_last)):
            if where and rank == 1:
                continue
            x, weight, g = (
                torch.from_numpy(arrays[each]).to(dtype).contiguous(memory_format=memory)
                for each in ("x", "weight", "g")
            )
            if direction == "forward":
                run = functools.partial(torch.ops.aten.convolution, x, weight, None, *steps)
            else:
                run = functools.partial(torch.ops.aten.convolution_backward, g, x, weight, None, *steps, mask)
            found[f"{name}{where}"] = run
    return found


def measure(layer: Layer, batch: int, direction: str, seed: int, rounds: int = ROUNDS) -> dict[str, Any]:
    """The median time of everyone for one layer."""
    arrays = _arrays(layer, batch, seed)
    theirs = _torchs(direction, layer, arrays)
    runs = _ours(direction, layer, arrays) | theirs
    for each in runs.values():
        each()
    timings = time_interleaved(
        {name: Timer(each, each) for name, each in runs.items()},  # each sample after a call that is not timed
        seconds=0.0,
        shortest=SHORTEST,
        rounds=rounds,
        rests=dict.fromkeys(theirs, OPENMP_REST),
    )
    return {
        "layer": layer.label, "group": layer.group, "kernel": layer.kernel, "batch": batch, "direction": direction,
        "operations": layer.operations(batch), "seconds": {name: each.median for name, each in timings.items()},
    }  # fmt: skip


def _best(row: dict[str, Any], name: str) -> float | None:
    """The time of a name in the better of its layouts."""
    taken = [row["seconds"][each] for each in (name, f"{name}, channels last") if each in row["seconds"]]
    return min(taken, default=None)


def mean_ratio(rows: Iterable[dict[str, Any]], ours: str, theirs: str) -> float | None:
    """The geometric mean of the speeds of `ours` relative to `theirs`, each in its better layout."""
    ratios = []
    for row in rows:
        mine, other = _best(row, ours), _best(row, theirs)
        if mine is None or other is None:
            return None
        ratios.append(other / mine)
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


TARGETS = [
    ("forward", None, "bf16", "torch fp32", 4.0),
    ("forward", None, "bf16 tensors", "torch bf16 tensors", 1.2),
    ("forward", None, "tf32", "torch fp32", 1.8),
    ("forward", None, "ieee, fastest", "torch fp32", 1.0),
    ("forward", (3, 3), "ieee, fastest", "torch fp32", 1.3),
    ("input gradient", None, "ieee, fastest", "torch fp32", 1.0),
    ("input gradient", None, "bf16", "torch fp32", 2.0),
    ("weight gradient", None, "ieee, fastest", "torch fp32", 1.0),
    ("weight gradient", None, "bf16", "torch fp32", 2.0),
]
"""(direction, kernel size, ours, peer, least geometric mean of the speeds)."""


def targets(rows: list[dict[str, Any]]) -> Table:
    """The geometric means beside what they should be."""
    lines: list[tuple[str, ...]] = []
    for direction, kernel, ours, theirs, least in TARGETS:
        groups = list(dict.fromkeys(row["group"] for row in rows))
        for group in [*groups, "all"] if len(groups) > 1 else groups:
            some = [
                row
                for row in rows
                if row["direction"] == direction
                and group in ("all", row["group"])
                and kernel in (None, tuple(row["kernel"]))
            ]
            mean = mean_ratio(some, ours, theirs)
            if mean is not None:
                size = "all" if kernel is None else "x".join(map(str, kernel))
                lines.append((direction, group, size, ours, theirs, f"{least:g}", ratio(mean)))
    columns = ("direction", "layers", "kernels", "ours", "peer", "target", "speed")
    return Table("Speed relative to torch, geometric means, each in its better layout", columns, lines, names=5)


def speeds(rows: list[dict[str, Any]]) -> list[Table]:
    """GFLOP/s of every layer."""
    found = []
    for direction in dict.fromkeys(row["direction"] for row in rows):
        some = [row for row in rows if row["direction"] == direction]
        names = list(dict.fromkeys(name.removesuffix(", channels last") for row in some for name in row["seconds"]))
        lines = []
        for row in some:
            times = [_best(row, name) for name in names]
            cells = ["" if each is None else number(1e-9 * row["operations"] / each) for each in times]
            lines.append((row["layer"], str(row["batch"]), *cells))
        title = f"GFLOP/s, {direction}, the better layout"
        found.append(Table(title, ("layer", "batch", *names), lines, names=1))
    return found


ALGORITHMS = Layer("algorithms", 64, 64, (28, 28), (3, 3), 1, 1)


def _algorithms(batch: int, seed: int) -> list[dict[str, Any]]:
    """Every algorithm at every precision for one convolution."""
    arrays = _arrays(ALGORITHMS, batch, seed)
    some, keywords = _call("forward", ALGORITHMS, arrays["x"], arrays["weight"], arrays["g"])
    exact = conv.reference(*some, **keywords)
    specs = [ArraySpec(each.shape, each.dtype) for each in some]
    rows = []
    for name in conv.implementations:
        for precision in PRECISIONS:
            options = keywords | ({} if precision == "ieee" else {"precision": precision})
            run = functools.partial(conv[name], *some, every=True, **options)
            try:
                result = run()
            except Refused as refused:
                rows.append({"algorithm": name, "precision": precision, "refused": str(refused)})
                continue
            off = float(np.sqrt(np.mean((result - exact) ** 2) / np.mean(exact**2)))
            taken = min(Timer(run).repeat(5, 1))
            space = workspace(conv, name, *specs, **options)
            rows.append({"algorithm": name, "precision": precision, "seconds": taken, "error": off, "workspace": space})
    return rows


def run(session: Session) -> dict[str, Any]:
    """Measure the layers, and the algorithms for one of them."""
    every = RESNET + OTHERS, (1, 8), tuple(DIRECTIONS)
    layers, batches, directions = session.choose((QUICK, (1,), ("forward",)), (USUAL, (1,), tuple(DIRECTIONS)), every)
    jobs = [(layer, batch, direction) for layer in layers for batch in batches for direction in directions]
    rows: list[dict[str, Any]] = []
    with session.progress(TITLE) as report:
        for done, (layer, batch, direction) in enumerate(jobs):
            report(done / len(jobs), f"{direction}, {layer.label}")
            rows.append(measure(layer, batch, direction, session.seed, 3 if session.quick else ROUNDS))
        report(1, "algorithms")
        algorithms = _algorithms(session.choose(1, 8, 8), session.seed)
    return {"layers": rows, "algorithms": algorithms}


def _algorithms_table(rows: list[dict[str, Any]]) -> Table:
    lines = []
    for row in rows:
        if "refused" not in row:
            space = f"{row['workspace'] / 1e6:.1f} MB"
            lines.append((row["algorithm"], row["precision"], seconds(row["seconds"]), error(row["error"]), space))
    title = f"Algorithms for {ALGORITHMS.label}: weights packed in every call, error relative to the result"
    return Table(title, ("algorithm", "precision", "time", "rms error", "workspace"), lines, names=2)


def tables(result: dict[str, Any]) -> list[Table]:
    found = [_algorithms_table(result["algorithms"]), *speeds(result["layers"])]
    means = targets(result["layers"])
    return [*found, means] if means.rows else found


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    refused = [row for row in result["algorithms"] if "refused" in row]
    text = f"""
        Activations are packed in every call and weights once, as layers under no_grad do. Each library is shown in the
        better of its layouts, NCHW and channels last; medians of interleaved samples. "fastest" is the algorithm that
        cudnn.benchmark = True finds. GFLOP/s counts 2 operations for each product of the definition, whatever an
        algorithm really does.

        {len(refused)} of {len(result["algorithms"])} pairs of an algorithm and a precision refuse; explain has their
        sentences.
    """
    return paragraphs(text)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--batch", type=int, default=8)
    arguments.add_argument("--direction", choices=DIRECTIONS, default="forward")
    arguments.add_argument("--others", action="store_true", help="the layers that are not ResNet-50's")
    arguments.add_argument("--rounds", type=int, default=ROUNDS)
    arguments.add_argument("--out", type=Path, help="a file for the times, as JSON")
    chosen = arguments.parse_args()
    session = Session()
    layers = OTHERS if chosen.others else RESNET
    rows = [measure(layer, chosen.batch, chosen.direction, 0, chosen.rounds) for layer in layers]
    for table in (*speeds(rows), targets(rows)):
        session.show(table)
    if chosen.out:
        chosen.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    restart_where_held()
    main()


# The picture


def _draw(figure: Figure, result: dict[str, Any]) -> None:
    left, right = figure.subplots(1, 2)
    rows = [row for row in result["algorithms"] if "refused" not in row]
    shapes = dict(zip(dict.fromkeys(row["algorithm"] for row in rows), SHAPES, strict=False))
    for axes, key, factor in ((left, "seconds", 1e3), (right, "workspace", 1e-6)):
        for row in rows:
            axes.plot(row["error"], factor * row[key], shapes[row["algorithm"]], color=MARKS[row["precision"]][0], ms=8)
        axes.set(xscale="log", xlabel="rms error relative to the result")
        plain_numbers(axes)
    left.set(title="Time of each algorithm", ylabel="ms")
    right.set(title="Memory it takes meanwhile", ylabel="MB")
    used = [name for name in MARKS if any(row["precision"] == name for row in rows)]
    handles = [Line2D([], [], color="#555555", marker=shape, ls="", label=name) for name, shape in shapes.items()]
    handles += [Line2D([], [], color=MARKS[name][0], lw=4, label=name) for name in used]
    figure.legend(handles=handles, loc="outside lower center", ncols=(len(handles) + 1) // 2)


PLOTS = [
    Plot(
        "conv-algorithms",
        "Down is faster or smaller, left is more accurate; a mark is an algorithm, a colour a precision.",
        (10, 4.8),
        _draw,
    )
]
