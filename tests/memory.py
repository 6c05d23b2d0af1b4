"""Whether memory stays bounded: `python -m tests.memory shapes 5000` and `python -m tests.memory calls 20000`.

The first convolves and transforms random shapes, forward and backward; the second repeats each of 30 common calls. Both
print what the process holds as they go on: resident memory, compiled code, and entries of caches without a bound.
"""

from __future__ import annotations

import functools
import gc
import os
import random
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import minitorch_backends as mt
import minitorch_backends.nn.functional as F
from minitorch_backends.kernels.runtime.store import activity

CACHE = type(functools.cache(len))
TRANSFORMS = ("fft", "ifft", "rfft", "hfft", "fft2", "rfft2", "fftn")


def unbounded_caches() -> Counter[str]:
    """The entries of every `functools.cache` of the package."""
    modules = [module for name, module in sys.modules.items() if name.startswith("minitorch_backends.")]
    of_modules = [(module.__name__, each) for module in modules for each in vars(module).items()]
    caches = {f"{module}.{name}": value for module, (name, value) in of_modules if isinstance(value, CACHE)}
    found = {name: value.cache_info() for name, value in caches.items()}
    return Counter({name: info.currsize for name, info in found.items() if info.maxsize is None})


def codes() -> int:
    """The functions whose machine code this process holds."""
    return activity.compiled + activity.loaded


def resident() -> int:
    """Bytes of the process that are in memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def convolve(draw: random.Random) -> None:
    """A convolution of a random shape, window and layout, and its gradients."""
    dims, groups = draw.choice((1, 2, 2, 2, 3)), draw.choice((1, 1, 1, 2, 4))
    kernel = [draw.choice((1, 2, 3, 3, 5, 7)) for _ in range(dims)]
    most = {1: 200, 2: 24, 3: 8}[dims]
    image = [draw.randint(size, size + most) for size in kernel]
    inputs, outputs, batch = groups * draw.randint(1, 12), groups * draw.randint(1, 12), draw.randint(1, 3)
    dtype = draw.choice((mt.float32, mt.float32, mt.float32, mt.float64, mt.bfloat16))
    transposed = draw.random() < 0.2
    named = {"stride": draw.choice((1, 1, 2, 3)), "padding": 0 if transposed else draw.choice((0, 1)), "groups": groups}
    x = mt.ones(batch, inputs, *image, dtype=dtype, requires_grad=True)
    if dims == 2 and draw.random() < 0.3:
        x = x.to(memory_format=mt.channels_last)
    sizes = (inputs, outputs // groups) if transposed else (outputs, inputs // groups)
    weight = mt.ones(*sizes, *kernel, dtype=dtype, requires_grad=True)
    getattr(F, f"conv{'_transpose' * transposed}{dims}d")(x, weight, **named).sum().backward()


def transform(draw: random.Random) -> None:
    """A transform of a random kind and lengths, and its gradient."""
    name = draw.choice(TRANSFORMS)
    shape = draw.randint(1, 4), draw.randint(2, 60), draw.randint(2, draw.choice((60, 600, 6000)))
    x = mt.ones(*shape, dtype=draw.choice((mt.float32, mt.float64)), requires_grad=True)
    getattr(mt.fft, name)(x).abs().sum().backward()


def common_calls() -> dict[str, Callable[[], Any]]:
    """Calls by name; those that return a tensor are differentiated."""
    mt.manual_seed(0)
    x, w, b = mt.randn(4, 8, requires_grad=True), mt.randn(8, 8, requires_grad=True), mt.randn(8, requires_grad=True)
    image, kernel = mt.randn(1, 2, 6, 6, requires_grad=True), mt.randn(3, 2, 3, 3, requires_grad=True)
    heads, labels = mt.randn(1, 2, 5, 4, requires_grad=True), mt.tensor([1, 0, 3, 2])
    lstm, model = mt.nn.LSTM(8, 4), mt.nn.Linear(8, 8)
    optimizer = mt.optim.Adam(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    def under_flags() -> mt.Tensor:
        with mt.backends.flags(fp32_precision="bf16"):
            return x @ w

    return {
        "add": lambda: x + b, "mul": lambda: x * x, "div": lambda: x / (b * b + 1), "exp": x.exp,
        "matmul": lambda: x @ w, "linear": lambda: F.linear(x, w, b), "einsum": lambda: mt.einsum("ij,jk->ik", x, w),
        "conv2d": lambda: F.conv2d(image, kernel, padding=1), "max_pool2d": lambda: F.max_pool2d(image, 2),
        "batch_norm": lambda: F.batch_norm(image, None, None, training=True), "relu": x.relu,
        "layer_norm": lambda: F.layer_norm(x, (8,)), "gelu": lambda: F.gelu(x), "softmax": lambda: x.softmax(-1),
        "cross_entropy": lambda: F.cross_entropy(x, labels), "mse_loss": lambda: F.mse_loss(x, w[:4]),
        "attention": lambda: F.scaled_dot_product_attention(heads, heads, heads), "dropout": lambda: F.dropout(x),
        "embedding": lambda: F.embedding(labels, w), "sum": lambda: x.sum(0), "mean": x.mean,
        "std": lambda: x.std(1), "max": lambda: x.max(1).values, "sort": lambda: x.sort(-1).values,
        "cat": lambda: mt.cat([x, w]), "index": lambda: x[labels], "where": lambda: mt.where(x > 0, x, b),
        "transpose": lambda: x.mT.reshape(-1)[1:].view(-1), "rfft": lambda: mt.fft.rfft(x).abs(),
        "in place": lambda: x.clone().mul_(2).add_(b), "lstm": lambda: lstm(x)[0], "step": step, "flags": under_flags,
    }  # fmt: skip


def repeat(call: Callable[[], Any], times: int) -> None:
    """Call and differentiate."""
    for _ in range(times):
        if (out := call()) is not None:
            out.sum().backward()


def main(what: str, count: int) -> None:
    """Print what is held, ten times over the shapes or once for each call."""
    draw, caches = random.Random(0), unbounded_caches()
    if what == "shapes":
        for done in range(1, count + 1):
            draw.choice((convolve, transform))(draw)
            if done % max(1, count // 10) == 0:
                gc.collect()
                write(f"{done:6} shapes {resident() >> 20:6} MiB {codes():5} codes, {activity.compiled} compiled")
        for name, entries in (unbounded_caches() - caches).most_common(8):
            write(f"{entries:6} {name}")
        return
    for name, call in common_calls().items():
        repeat(call, count // 10)
        gc.collect()
        before, objects = resident(), len(gc.get_objects())
        repeat(call, count - count // 10)
        gc.collect()
        write(f"{name:14} {resident() - before >> 10:7} KiB {len(gc.get_objects()) - objects:5} objects")


def write(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
