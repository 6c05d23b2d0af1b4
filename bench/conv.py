"""Convolutions: ResNet-50's and MobileNetV3-Large's layers, a depthwise-separable block and a 1-D stack beside torch's,
called as a user calls them; and every algorithm at every precision for one of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

import minitorch_backends as mt
from minitorch_backends import backends
from minitorch_backends.display.figures import MARKS, SHAPES, plain_numbers
from minitorch_backends.kernels.conv import conv, workspace
from minitorch_backends.kernels.registry import ArraySpec, Refused
from minitorch_backends.lab.race import OPENMP_REST, Contestant, race

from . import peers, speed
from .presentation import Table, error, paragraphs, plot, seconds
from .session import PRECISIONS, Session

TITLE = "Convolutions"

DIRECTIONS = ("forward", "input gradient", "weight gradient")
LAYOUTS = ("NCHW", "channels last")
WANTED = {
    "forward": {"ieee, benchmark": 1.0, "tf32": 1.8, "bf16": 4.0, "bfloat16": 1.2},
    "input gradient": {"ieee, benchmark": 1.0, "bf16": 2.0},
    "weight gradient": {"ieee, benchmark": 1.0, "bf16": 2.0},
}
"""How many times as long torch is to take, by the precision of our float32 tensors or by the tensors' dtype."""

WANTED_3X3 = 1.3
"""The same of a forward pass of 3 x 3 without groups at ieee, with the algorithm that cudnn.benchmark finds."""

OURS = ("ieee", "tf32", "bf16", "bfloat16", "ieee, benchmark")


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
    def places(self) -> list[int]:
        """The spatial size of the result."""
        return [(n + 2 * self.padding - k) // self.stride + 1 for n, k in zip(self.size, self.kernel, strict=True)]

    def operations(self, batch: int) -> float:
        depth = self.channels // self.groups * math.prod(self.kernel)
        return 2.0 * batch * self.outputs * math.prod(self.places) * depth


def square(
    channels: int, outputs: int, size: int, kernel: int, stride: int = 1, groups: int = 1, group: str = "ResNet-50"
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
    square(128, 128, 56, 3, 1, 128, "depthwise and 1 x 1"),
    square(128, 128, 56, 1, group="depthwise and 1 x 1"),
    square(128, 128, 56, 3, 2, 128, "depthwise and 1 x 1"),
    square(128, 256, 28, 1, group="depthwise and 1 x 1"),
    Layer("1-D", 64, 128, (2048,), (5,), 1, 2),
    Layer("1-D", 128, 256, (1024,), (5,), 2, 2),
    Layer("1-D", 256, 256, (512,), (3,), 1, 1),
]

_DEPTHWISE = (
    (16, 112, 3, 1), (64, 112, 3, 2), (72, 56, 3, 1), (72, 56, 5, 2), (120, 28, 5, 1), (240, 28, 3, 2),
    (200, 14, 3, 1), (480, 14, 3, 1), (672, 14, 5, 1), (672, 14, 5, 2), (960, 7, 5, 1),
)  # fmt: skip
_POINTWISE = (
    (16, 64, 112), (64, 24, 56), (24, 72, 56), (72, 40, 28), (40, 120, 28), (240, 80, 14), (80, 480, 14),
    (480, 112, 14), (112, 672, 14), (672, 160, 7), (160, 960, 7),
)  # fmt: skip
MOBILENET = [
    layer._replace(group="MobileNetV3")
    for layer in (
        square(3, 16, 224, 3, 2),
        *(square(channels, channels, size, kernel, stride, channels) for channels, size, kernel, stride in _DEPTHWISE),
        *(square(channels, outputs, size, 1) for channels, outputs, size in _POINTWISE),
    )
]
"""The distinct layers of MobileNetV3-Large (A. Howard et al., arXiv 1905.02244)."""

USUAL = [RESNET[2], RESNET[13], OTHERS[0], OTHERS[6]]
QUICK = [
    square(32, 32, 14, 3),
    square(32, 32, 14, 3, 1, 32, "depthwise and 1 x 1"),
    Layer("1-D", 32, 32, (64,), (3,), 1, 1),
]


def _arrays(layer: Layer, batch: int, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng([seed, batch, layer.channels])
    x = random.standard_normal((batch, layer.channels, *layer.size), dtype=np.float32)
    shape = (layer.outputs, layer.channels // layer.groups, *layer.kernel)
    weight = random.standard_normal(shape, dtype=np.float32) / np.float32(math.sqrt(math.prod(shape[1:])))
    g = random.standard_normal((batch, layer.outputs, *layer.places), dtype=np.float32)
    return {"x": x, "weight": weight, "g": g}


def _call(library: Any, tensors: dict[str, Any], layer: Layer, direction: str) -> Callable[[], Any]:
    """A call of torch's or of ours, which has torch's names."""
    function = library.nn.functional.conv1d if len(layer.size) == 1 else library.nn.functional.conv2d
    x, weight, g = (tensors[name] for name in ("x", "weight", "g"))
    keywords = {"stride": layer.stride, "padding": layer.padding, "groups": layer.groups}
    if direction == "forward":

        def forward() -> None:
            with library.no_grad():
                function(x, weight, **keywords)

        return forward
    wanted = (x if direction == "input gradient" else weight).requires_grad_()
    y = function(x, weight, **keywords)
    return partial(library.autograd.grad, y, wanted, g, retain_graph=True)


def _contestants(layer: Layer, batch: int, direction: str, layout: str, seed: int) -> Iterator[Contestant]:
    """Ours at each precision and with the algorithm that cudnn.benchmark finds, and torch's, in one layout."""
    arrays = _arrays(layer, batch, seed)

    def call(library: Any, dtype: str) -> Callable[[], Any]:
        made = {name: library.from_numpy(each).to(getattr(library, dtype)) for name, each in arrays.items()}
        if layout == "channels last":
            made = {name: each.contiguous(memory_format=library.channels_last) for name, each in made.items()}
        return _call(library, made, layer, direction)

    for name in OURS[:-1]:
        dtype, precision = ("bfloat16", "none") if name == "bfloat16" else ("float32", name)
        yield Contestant(name, call(mt, dtype), before=partial(_allow, precision))
    yield Contestant(OURS[-1], call(mt, "float32"), before=partial(_allow, "ieee", True))
    torch = peers.torch_if_installed()
    for dtype in ("float32", "bfloat16") if torch is not None else ():
        if dtype == "float32" or peers.torch_multiplies_bf16():
            yield Contestant(f"torch {dtype}", call(torch, dtype), OPENMP_REST)


def _allow(precision: str, benchmark: bool = False) -> None:
    backends.fp32_precision, backends.cudnn.benchmark = precision, benchmark


def _cell(layer: Layer, batch: int, direction: str, layout: str, seed: int) -> speed.Cell:
    against = {name: f"torch {'bfloat16' if name == 'bfloat16' else 'float32'}" for name in OURS}
    contestants = _contestants(layer, batch, direction, layout, seed)
    least = WANTED[direction]
    if direction == "forward" and layer.kernel == (3, 3) and layer.groups == 1:
        least = least | {"ieee, benchmark": WANTED_3X3}
    wanted = {name: (against[name], each) for name, each in least.items()}
    group = f"{direction.capitalize()}, {layout}, {layer.group}"
    return speed.Cell(group, f"{layer.label}, batch {batch}", contestants, against, wanted, layer.operations(batch))


ALGORITHMS = Layer("algorithms", 64, 64, (28, 28), (3, 3), 1, 1)


def _algorithms(batch: int, seed: int) -> list[dict[str, Any]]:
    """Every algorithm at every precision for one convolution."""
    arrays, keywords = _arrays(ALGORITHMS, batch, seed), {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1)}
    some = arrays["x"], arrays["weight"]
    exact = conv.reference(*some, **keywords)
    specs = [ArraySpec(each.shape, each.dtype) for each in some]
    rows = []
    for name in conv.implementations:
        for precision in PRECISIONS:
            options = keywords | ({} if precision == "ieee" else {"precision": precision})
            run = partial(conv[name], *some, every=True, **options)
            row = {"algorithm": name, "precision": precision}
            try:
                off = float(np.sqrt(np.mean((run() - exact) ** 2) / np.mean(exact**2)))
            except Refused as refused:
                rows.append(row | {"refused": str(refused)})
                continue
            taken = race([Contestant(name, run)], 5, 0.0, 0.0)[name].minimum
            rows.append(row | {"seconds": taken, "error": off, "workspace": workspace(conv, name, *specs, **options)})
    return rows


def run(session: Session) -> dict[str, Any]:
    """Measure the layers, and the algorithms for one of them."""
    every = [*RESNET, *MOBILENET, *OTHERS], (1, 8), DIRECTIONS
    layers, batches, directions = session.choose((QUICK, (1,), DIRECTIONS[:1]), (USUAL, (1,), DIRECTIONS), every)
    jobs = {
        f"{direction}, {layer.label}, {layout}, batch {batch}": partial(
            _cell, layer, batch, direction, layout, session.seed
        )
        for direction in directions
        for layer in layers
        for batch in batches
        for layout in LAYOUTS[: len(layer.size)]
    }
    return speed.run(session, TITLE, jobs) | {"algorithms": _algorithms(session.choose(1, 8, 8), session.seed)}


def tables(result: dict[str, Any]) -> list[Table]:
    lines = [
        (
            row["algorithm"],
            row["precision"],
            seconds(row["seconds"]),
            error(row["error"]),
            f"{row['workspace'] / 1e6:.1f} MB",
        )
        for row in result["algorithms"]
        if "refused" not in row
    ]
    title = f"Algorithms for {ALGORITHMS.label}: error relative to the result"
    columns = ("algorithm", "precision", "time", "rms error", "workspace")
    return [Table(title, columns, lines, names=2), *speed.tables(result)]


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    refused = [row for row in result["algorithms"] if "refused" in row]
    text = f"""
        Activations and weights are packed in every call, and each layout is compared with torch's in the same.
        "benchmark" is the algorithm that cudnn.benchmark = True finds. GFLOP/s counts 2 operations for each product of
        the definition, whatever an algorithm really does.

        {len(refused)} of {len(result["algorithms"])} pairs of an algorithm and a precision refuse; explain has their
        sentences.
    """
    return [*paragraphs(text), *speed.sentences(result)]


# The picture


@plot(
    "conv-algorithms",
    "Down is faster or smaller, left is more accurate; a mark is an algorithm, a colour a precision.",
    (10, 4.8),
)
def by_algorithm(figure: Figure, result: dict[str, Any]) -> None:
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


PLOTS = [speed.plot("conv-speed"), by_algorithm]
