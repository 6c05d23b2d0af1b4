"""The rule of permission: which precision a float32 or complex64 product runs at, and which flag decided.

Every family of flags keeps its own tree. A flag is a permission: a product runs at the fastest precision that any
family has been explicitly set to allow, and at ieee when none has. A default that nobody set permits nothing, unless
`backends.emulate` names its family. The answer is a pure function of the flags' values, never of the order in which
they were set.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from ..flags import NO_OPINION, State, current
from ..kernels.precision import PRECISIONS
from .table import XLA_PRECISIONS

__all__ = ["FAMILIES", "KINDS", "Choice", "GradientPrecisions", "Recorded", "chosen", "precision_of", "recorded"]

FAMILIES: dict[str, dict[str, str]] = {
    "cuda": {
        "matmul": "cuda.matmul.fp32_precision",
        "conv": "cudnn.conv.fp32_precision",
        "rnn": "cudnn.rnn.fp32_precision",
    },
    "mkldnn": {kind: f"mkldnn.{kind}.fp32_precision" for kind in ("matmul", "conv", "rnn")},
    "xla": dict.fromkeys(("matmul", "conv", "rnn"), "xla.mat_mul_precision"),
}
"""For each family and kind of product, the flag that speaks for it."""

KINDS = tuple(dict.fromkeys(kind for family in FAMILIES.values() for kind in family))
"""The kinds of products whose precision flags govern."""

in_backward: Callable[[], bool] = lambda: False  # noqa: E731  (autograd puts its own function here)
"""Whether this thread or task is inside a backward pass."""


class Choice(NamedTuple):
    """A precision, and who decided that a product runs at it."""

    precision: str
    decided_by: str


class _ByDirection(NamedTuple):
    """The choices of a kind of product where `backward_precision` names a precision."""

    forward: Choice
    backward: Choice


def precision_of(product: str) -> Choice:
    """The precision at which a float32 or complex64 product ("matmul", "conv", "rnn") runs here and now, and the flag
    that decided.

    The dispatcher calls this very function. Raises ValueError for a product that no family knows.
    """
    state = current()
    choice: Choice | _ByDirection | None = state.derived.get(product)
    if choice is None:
        choice = state.derived[product] = _decide(state, product)
    if type(choice) is _ByDirection:
        return choice.backward if in_backward() else choice.forward
    return choice  # type: ignore[return-value]


def _decide(state: State, product: str) -> Choice | _ByDirection:
    forward = _permitted(state, product)
    backward = state.read("backward_precision")
    if backward in PRECISIONS:
        return _ByDirection(forward, Choice(backward, f"backward_precision = {backward!r}"))
    return forward


def _permitted(state: State, product: str) -> Choice:
    emulated = state.read("emulate")
    families = [emulated] if emulated else list(FAMILIES)
    opinions, vetoes = [], []
    for family in families:
        flags = FAMILIES[family]
        if product not in flags:
            raise ValueError(f"no precision flag governs {product!r}; expected one of {', '.join(KINDS)}")
        opinion = _opinion(state, flags[product], emulated)
        if opinion is None:
            continue
        veto = _veto(state, family, opinion.precision)
        if veto is None:
            opinions.append(opinion)
        else:
            vetoes.append(f"{veto} vetoes {opinion.decided_by}; ")
    if not opinions:
        allows = f"no {emulated + ' ' if emulated else ''}{'other ' if vetoes else ''}flag allows less than ieee"
        return Choice("ieee", "".join(vetoes) + allows + _of_worker())
    fastest_first = list(PRECISIONS)
    return min(opinions, key=lambda opinion: fastest_first.index(opinion.precision))


def _of_worker() -> str:
    """The remark that a worker process has flags of its own; empty in other processes."""
    processes = sys.modules.get("multiprocessing.process")
    if processes is None or processes.parent_process() is None:
        return ""
    return " in this worker process; assignments and scopes of its parent do not travel, a snapshot() does"


def _opinion(state: State, path: str, emulated: str | None) -> Choice | None:
    """What one family allows, or None when nobody has set its flags."""
    value, decided_by = state.resolve(path)
    precision = XLA_PRECISIONS.get(value, value)
    if precision == NO_OPINION or (decided_by is None and not emulated):
        return None
    if decided_by is None:
        return Choice(precision, f"emulate = {emulated!r}, whose default of {path} is {value!r}")
    inherited = "" if decided_by == path else f", inherited by {path}"
    return Choice(precision, f"{decided_by} = {value!r}{inherited}")


def _veto(state: State, family: str, precision: str) -> str | None:
    """What takes a family's permission away, as text, or None."""
    if precision == "ieee":
        return None
    if family == "cuda" and PRECISIONS[precision].operand == "tf32" and state.read("cuda.tf32_veto"):
        return "cuda.tf32_veto = True"
    if family == "mkldnn" and not state.read("mkldnn.enabled"):
        return "mkldnn.enabled = False"
    return None


# The precisions of gradients, kept from the forward pass


class Recorded(str):
    """A precision that a node of the graph has kept for its gradients, with who decided in the forward pass.

    Attributes:
        holds_always: whether it holds whatever `backward_precision` is when the gradients are computed.
    """

    __slots__ = ("decided_by", "holds_always")

    decided_by: str
    holds_always: bool


class GradientPrecisions(NamedTuple):
    """What a node has kept where the gradients of inputs and of parameters differ; None asks the flags."""

    input: Recorded | None
    weight: Recorded | None


def recorded(metadata: dict[str, Any], product: str) -> dict[str, Any]:
    """The metadata that a node keeps of an op with a `precision` that the call did not name.

    The precision becomes that in force, under `backward_precision = "recorded"`, or those of the flags
    `input_gradient_precision` and `weight_gradient_precision`.
    """
    if metadata["precision"] is not None:
        return metadata
    state = current()
    key = "recorded", product
    if key not in state.derived:
        state.derived[key] = _to_record(state, product)
    kept = state.derived[key]
    return metadata if kept is None else {**metadata, "precision": kept}


def _to_record(state: State, product: str) -> Recorded | GradientPrecisions | None:
    of_forward = None
    if state.read("backward_precision") == "recorded":
        of_forward = _recorded(*precision_of(product), holds_always=False)
    named = [state.read(f"{name}_gradient_precision") for name in GradientPrecisions._fields]
    if named == [NO_OPINION, NO_OPINION]:
        return of_forward
    kept = [
        of_forward if value == NO_OPINION
        else _recorded(value, f"{name}_gradient_precision = {value!r} in the forward pass", holds_always=True)
        for name, value in zip(GradientPrecisions._fields, named, strict=True)
    ]  # fmt: skip
    return GradientPrecisions(*kept)


def _recorded(precision: str, decided_by: str, holds_always: bool) -> Recorded:
    kept = Recorded(precision)
    kept.decided_by, kept.holds_always = decided_by, holds_always
    return kept


def chosen(precision: str | GradientPrecisions | None, product: str) -> Choice:
    """The precision of one call: the one that the call names, the recorded one of a gradient, or the flags'.

    A name is returned as it is. A recorded precision of the forward pass holds while `backward_precision` is still
    "recorded". Where the gradients of inputs and parameters differ, but are computed by one call, that of inputs holds.
    """
    if type(precision) is GradientPrecisions:
        precision = precision.input
    if precision is None:
        return precision_of(product)
    if type(precision) is not Recorded:
        return Choice(precision, f"precision={precision!r} of the call")  # type: ignore[arg-type]
    if precision.holds_always:
        return Choice(str(precision), precision.decided_by)
    if current().read("backward_precision") != "recorded":
        return precision_of(product)
    return Choice(str(precision), f"backward_precision = 'recorded': in the forward pass, {precision.decided_by}")
