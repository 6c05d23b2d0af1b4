"""The first screen: what each precision does to the answers of the models, in one paragraph and one picture."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from minitorch_backends.display.figures import MARKS

from ..presentation import plot
from . import language

TITLE = "What each precision does to the answers"


class Effect(NamedTuple):
    """What a precision does to a model.

    Attributes:
        error: of its outputs against float64, relative to their size.
        changed, answers: how many of how many answers are others than in float64.
    """

    model: str
    precision: str
    error: float
    changed: int
    answers: int


def effects(parts: dict[str, Any]) -> list[Effect]:
    """The effects that the parts of a run have measured; none where no such part ran."""
    found = [*_of_digits(parts.get("digits", {})), *_of_sentences(parts.get("minilm", {}))]
    return [*found, *_of_language(parts.get("smollm2", {}))]


def _of_language(result: dict[str, Any]) -> Iterator[Effect]:
    for row in result.get("rows", ()):
        if row["on"] == "both operands" and row["format"] in ("tf32", "bf16"):
            changed = round(row["flips"] * result["tokens"])
            yield Effect("language model SmolLM2", row["format"], row["error"], changed, result["tokens"])


def _of_digits(result: dict[str, Any]) -> Iterator[Effect]:
    for entry in result.get("networks", ()):
        yield from _of_rows(f"{entry['network']} on digits", entry["rows"], "flips", result["held_out"])


def _of_sentences(result: dict[str, Any]) -> Iterator[Effect]:
    yield from _of_rows("sentence encoder MiniLM", result.get("rows", ()), "nearest_changed", result.get("sentences"))


def _of_rows(model: str, rows: Any, share: str, answers: Any) -> Iterator[Effect]:
    for row in rows:
        yield Effect(model, row["flags"]["fp32_precision"], row["error"], round(row[share] * answers), answers)


def summary(found: list[Effect], parts: dict[str, Any] = MappingProxyType({})) -> list[str]:  # type: ignore[assignment]
    """One paragraph of a sentence for each precision below ieee, nothing where nothing was measured; and one on the
    formats of the language model, if it was among the parts."""
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
    language_model = parts.get("smollm2", {"installed": False})
    return [" ".join(sentences)] * bool(sentences) + (
        [language.sentence(language_model)] if language_model["installed"] else []
    )


@plot(
    "overview",
    "Outputs against a float64 run of the same weights (float32 for the language model); answers are classes, the "
    "nearest other sentence, or the most likely next token.",
    (11, 3.8),
)
def overview(figure: Figure, found: list[Effect]) -> None:
    left, right = figure.subplots(1, 2, sharey=True)
    models = list(dict.fromkeys(each.model for each in found))
    precisions = list(dict.fromkeys(each.precision for each in found))
    for each in found:
        colour, mark = MARKS[each.precision]
        shift = 0.13 * (precisions.index(each.precision) - (len(precisions) - 1) / 2)
        place, share = models.index(each.model) + shift, 100 * each.changed / each.answers
        left.plot(each.error, place, mark, color=colour, markersize=9)
        right.barh(place, share, 0.11, color=colour)
        text = f"{each.changed} of {each.answers}" if each.changed else "none"
        right.annotate(text, (share, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8)
    for precision in precisions:
        colour, mark = MARKS[precision]
        left.plot([], [], mark, color=colour, markersize=9, label=precision)
    left.set(title="Error of the outputs against float64", xlabel="relative error", xscale="log")
    left.set_yticks(range(len(models)), models)
    left.invert_yaxis()
    right.set(title="Answers that change", xlabel="share of the answers (%)")
    right.set_xlim(0, 1.3 * max(1.0, *(100 * each.changed / each.answers for each in found)))
    for axes in (left, right):
        axes.grid(visible=False, axis="y")
    figure.legend(loc="outside lower center", ncols=len(precisions))
