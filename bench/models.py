"""Networks as they are used: inference, and training steps, beside torch's where it is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import minitorch_backends as mt
from minitorch_backends.lab.race import Contestant

from . import peers, speed
from .presentation import paragraphs
from .session import Session

TITLE = "Networks"

WANTED = {"inference": 1.0, "training": 1 / 1.2}
"""How many times as long torch is to take."""


class Network(NamedTuple):
    """What is timed. `forward` takes what `inputs` gives and returns what the loss is of; `parameters` are trained."""

    forward: Callable[..., Any]
    loss: Callable[..., Any]
    parameters: list[Any]
    modules: list[Any]


def _block(nn: Any, width: int) -> tuple[list[Any], Callable[..., Any]]:
    """A block of a transformer: causal attention with heads of 64, and a layer of four times the width with gelu."""
    functional, heads = nn.functional, max(1, width // 64)
    modules = [nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)]
    modules += [nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)]
    first, to_heads, from_heads, second, up, down = modules

    def forward(x: Any) -> Any:
        batch, length, _ = x.shape
        heads_of = [
            each.reshape(batch, length, heads, width // heads).transpose(1, 2)
            for each in to_heads(first(x)).chunk(3, -1)
        ]
        seen = functional.scaled_dot_product_attention(*heads_of, is_causal=True)
        x = x + from_heads(seen.transpose(1, 2).reshape(batch, length, width))
        return x + down(functional.gelu(up(second(x))))

    return modules, forward


def _transformer_block(library: Any, width: int, length: int) -> Network:
    modules, forward = _block(library.nn, width)
    return _network(modules, forward, lambda out, target: (out * target).sum())


def _language_model(library: Any, width: int, words: int) -> Network:
    nn = library.nn
    embedding, head = nn.Embedding(words, width), nn.Linear(width, words, bias=False)
    blocks = [_block(nn, width) for _ in range(2)]

    def forward(tokens: Any) -> Any:
        x = embedding(tokens)
        for _, block in blocks:
            x = block(x)
        return head(x).reshape(-1, words)

    modules = [embedding, head, *(module for own, _ in blocks for module in own)]
    return _network(modules, forward, nn.functional.cross_entropy)


def _residual_network(library: Any, channels: int, size: int) -> Network:
    nn, functional = library.nn, library.nn.functional
    stem, first, second = (nn.Conv2d(i, channels, 3, padding=1, bias=False) for i in (3, channels, channels))
    norms, head = [nn.BatchNorm2d(channels) for _ in range(3)], nn.Linear(channels, 10)

    def forward(images: Any) -> Any:
        x = functional.max_pool2d(functional.relu(norms[0](stem(images))), 2)
        x = functional.relu(x + norms[2](second(functional.relu(norms[1](first(x))))))
        return head(x.mean((2, 3)))

    return _network([stem, first, second, *norms, head], forward, functional.cross_entropy)


def _network(modules: list[Any], forward: Callable[..., Any], loss: Callable[..., Any]) -> Network:
    return Network(forward, loss, [each for module in modules for each in module.parameters()], modules)


def _cases(session: Session) -> Iterator[tuple[str, str, Callable[[Any], Network], tuple[np.ndarray, np.ndarray]]]:
    """Each network's name and sizes, what makes it, and its input with its target."""
    random = np.random.default_rng(session.seed)
    width, length = session.choose((64, 32), (768, 512), (768, 512))
    x = random.standard_normal((1, length, width)).astype(np.float32)
    yield (
        "transformer block", f"{length} x {width}",
        lambda library: _transformer_block(library, width, length), (x, np.ones_like(x)),
    )  # fmt: skip
    inner, words, batch, tokens = session.choose((64, 100, 2, 16), (256, 8000, 4, 128), (256, 8000, 4, 128))
    text = random.integers(0, words, (batch, tokens))
    yield (
        "language model", f"{batch} x {tokens} tokens of {inner}, {words} words",
        lambda library: _language_model(library, inner, words), (text, random.integers(0, words, text.size)),
    )  # fmt: skip
    channels, size, images = session.choose((8, 8, 4), (64, 32, 16), (64, 32, 16))
    pictures = random.standard_normal((images, 3, size, size)).astype(np.float32)
    yield (
        "residual block", f"{images} x {channels} x {size} x {size}",
        lambda library: _residual_network(library, channels, size), (pictures, random.integers(0, 10, images)),
    )  # fmt: skip


def _statement(
    make: Callable[[Any], Network], data: tuple[np.ndarray, np.ndarray], way: str, library: Any
) -> Callable[[], Any]:
    network, (given, target) = make(library), map(library.tensor, data)
    for module in network.modules:
        module.train(way == "training")
    if way == "inference":

        def infer() -> None:
            with library.no_grad():
                network.forward(given)

        return infer
    optimizer = library.optim.AdamW(network.parameters, lr=1e-4)

    def train() -> None:
        optimizer.zero_grad()
        network.loss(network.forward(given), target).backward()
        optimizer.step()

    return train


def _cell(way: str, name: str, sizes: str, make: Any, data: Any) -> speed.Cell:
    statement = partial(_statement, make, data, way)
    contestants = [Contestant("mt", statement(mt)), *peers.by_torch(statement)]
    facts = {"sizes": sizes}
    return speed.Cell(f"Time of {way}", name, contestants, {"mt": "torch"}, {"mt": ("torch", WANTED[way])}, facts=facts)


def run(session: Session) -> dict[str, Any]:
    """Time each network with both libraries."""
    jobs = {f"{case[0]}, {way}": partial(_cell, way, *case) for case in _cases(session) for way in WANTED}
    return speed.run(session, TITLE, jobs)


tables = speed.tables


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    text = """
        The block is of a transformer: causal attention with heads of 64, a layer of four times the width with gelu, and
        two layer norms. The language model is an embedding, two such blocks and a head, and its loss the cross entropy.
        The residual block is a convolution, pooling, and two more around which the input is added, with batch norm.
        Inference is without gradients; training is forward, backward and a step of AdamW. All in float32.
    """
    return [*paragraphs(text), *speed.sentences(result)]
