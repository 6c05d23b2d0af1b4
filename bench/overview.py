"""The first screen: what each precision does to the answers of the models, in one paragraph and one picture."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["MODELS", "TITLE", "effects", "summary"]

TITLE = "What each precision does to the answers"

MODELS = {
    "digits": "perceptron on digits",
    "digits-cnn": "convolutional network on digits",
    "minilm": "sentence encoder MiniLM",
}
"""The parts that compare answers, and the models."""


class Effect(NamedTuple):
    """What a precision does to a model.

    Attributes:
        error: of its outputs against float64, relative to their size.
        changed, answers: how many of how many answers are others than at ieee, or in float64 for sentences.
    """

    model: str
    precision: str
    error: float
    changed: int
    answers: int


def effects(parts: dict[str, Any]) -> list[Effect]:
    """The effects that the parts of a run have measured; none where no such part ran."""
    return [
        _of_sentences(result, row) if part == "minilm" else _of_digits(part, result, row)
        for part, result in ((part, parts[part]) for part in MODELS if part in parts)
        for row in result.get("precisions", ())
    ]


def _of_digits(part: str, result: dict[str, Any], row: dict[str, Any]) -> Effect:
    relative = row["rms_error"] / result["rms_of_logits"]
    return Effect(MODELS[part], row["precision"], relative, row["changed_answers"], result["held_out"])


def _of_sentences(result: dict[str, Any], row: dict[str, Any]) -> Effect:
    changed = round(row["nearest_changed"] * result["sentences"])
    return Effect(MODELS["minilm"], row["precision"], row["error"], changed, result["sentences"])


def summary(found: list[Effect]) -> list[str]:
    """One paragraph of a sentence for each precision below ieee; nothing where nothing was measured."""
    sentences = []
    for precision in dict.fromkeys(each.precision for each in found if each.precision != "ieee"):
        own = [each for each in found if each.precision == precision]
        least, most = min(each.error for each in own), max(each.error for each in own)
        changed = ", ".join(f"{each.changed} of the {each.model}" for each in own if each.changed)
        total, answers = sum(each.changed for each in own), sum(each.answers for each in own)
        sentences.append(
            f"{precision} has relative errors of {least:.1e} to {most:.1e}, and changes {total or 'none'} of "
            f"{answers:,} answers{f': {changed}' if changed else ''}."
        )
    return [" ".join(sentences)] if sentences else []
