"""Formats of operands by their role in a product: a group of flags, and the one function that reads it for a product.

A product has two operands, each with a role: a layer's `weight` and the `activation` that meets it; in the backward
pass the `gradient` with either; in attention `query` and `key`, `probability` and `value`. Ops declare the roles of
their operands. `matmul` and `einsum` find them by which operand is a parameter; products of two other tensors have
none.

* Both operands have a format: their rounded values are multiplied exactly and summed in float32, or by the unit of
  `backends.profile`. Blocks follow the product's own K, so that each product of the backward pass rounds its operands
  anew from the unrounded tensors, as TransformerEngine and torchao do.
* One operand has a format: it is kept in it, and converted to its tensor's dtype before the product, which then obeys
  the other flags. Blocks lie where the tensor is stored: along a weight's K of the forward pass in every product, along
  the head dimension of keys and values.

"none" states no opinion: a role of a gradient's product then has the format of its role in the forward pass. "ieee"
leaves an operand as it is.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from ..flags import NO_OPINION, Group, State, current, per_state
from ..kernels.precisions import find_format
from . import table as _table

__all__: list[str] = []

input_gradient, weight_gradient = Group("operands.input_gradient"), Group("operands.weight_gradient")

DTYPES = ("float32", "bfloat16", "float16")
"""Names of the dtypes whose operands have formats."""


LAYER_ROLES = ("weight", "activation", "gradient")
ATTENTION_ROLES = ("query", "key", "value", "probability", "gradient")
ROLES = tuple(dict.fromkeys(LAYER_ROLES + ATTENTION_ROLES))


class Roles(NamedTuple):
    """The roles of the operands of a product, left and right; `gradient_of` is "input" or "weight" for that of a
    gradient, and "" in the forward pass. `recorded` is the precision that a node recorded, where no role has a
    format; `forward` the flags of the forward pass under `backward_precision = "recorded"`."""

    left: str
    right: str
    gradient_of: str = ""
    recorded: Any = None
    forward: State | None = None

    @property
    def otherwise(self) -> Any:
        """The precision where no role has a format: the recorded one in gradients, that of the flags (None) before."""
        return self.recorded if self.gradient_of else None


class Operands(NamedTuple):
    """The formats of a product's operands; None for one that stays as it is. `stored_across` says that a weight's
    blocks do not follow the K of this product but its other dimension."""

    left: str | None
    right: str | None
    decided_by: str
    rounding: str
    stored_across: bool = False

    @property
    def is_pair(self) -> bool:
        return self.left is not None and self.right is not None

    def draws(self, side: int) -> bool:
        """Whether an operand's rounding is random, so that each call rounds anew."""
        name = (self.left, self.right)[side]
        return name is not None and "stochastic" in (self.rounding, find_format(name).rounding)


def by_formats(precision: Any) -> bool:
    """Whether a precision is roles, or a pair of formats."""
    return type(precision) in (Roles, tuple)


def of_gradient(precision: Any, position: int) -> Any:
    """Return the precision of the product for an operand's gradient: g times the right operand for position 0, the
    left one times g for 1.
    A pair of formats of a call keeps its sides."""
    if type(precision) is not Roles:
        return precision
    of = "weight" if precision[position] == "weight" else "input"
    recorded = precision.recorded
    recorded = getattr(recorded, of) if hasattr(recorded, "_fields") else recorded
    roles = (precision.left, "gradient") if position else ("gradient", precision.right)
    return Roles(*roles, of, recorded, precision.forward)


def swap(precision: Any) -> Any:
    """The same for the product with its operands exchanged."""
    if type(precision) is Roles:
        return precision._replace(left=precision.right, right=precision.left)
    return precision[::-1] if type(precision) is tuple else precision


@per_state()
def formats_of(state: State, precision: Roles | tuple[str, str], dtype: str) -> Operands | None:
    """The formats of a product by roles, or named by a call; None where no operand is rounded.

    Raises ValueError for a pair that does not name two formats.
    """
    recorded = None
    if isinstance(precision, Roles) and precision.gradient_of and state.read("backward_precision") == "recorded":
        recorded = precision.forward
    state = recorded or state
    rounding = state.read("scaled_rounding")
    if not isinstance(precision, Roles):
        left, right = _names_of(precision)
        decided_by = f"precision={precision!r} of the call"
        across = False
    else:
        found = [_of_role(state, role, precision.gradient_of) for role in precision[:2]]
        (left, by_left), (right, by_right) = found
        decided_by = "; ".join(dict.fromkeys(each for each in (by_left, by_right) if each))
        weight = precision.right if left is None else precision.left
        across = precision.gradient_of == "input" and None in (left, right) and weight == "weight"
    if dtype not in DTYPES or left is right is None:
        return None
    if recorded is not None:
        decided_by = f"backward_precision = 'recorded': in the forward pass, {decided_by}"
    return Operands(left, right, decided_by, rounding, across)


def _names_of(pair: tuple[str, str]) -> list[str | None]:
    if len(pair) != 2:
        raise ValueError(
            f"precision must be a name or a pair of formats, for the left and the right operand, got {pair!r}"
        )
    return [None if find_format(name).is_exact else name for name in pair]


def _of_role(state: State, role: str, gradient_of: str) -> tuple[str | None, str]:
    path = f"operands.{gradient_of}_gradient.{role}" if gradient_of else f"operands.{role}"
    if path not in _table.OPERAND_PATHS:
        path = f"operands.{role}"
    value, decided_by = state.resolve(path)
    if value == NO_OPINION:
        return None, ""
    return (None if find_format(value).is_exact else value), f"{decided_by} = {value!r}"


def recorded_state() -> State | None:
    """The flags that `Roles.forward` keeps: those of now where gradients run under the flags of the forward pass."""
    state = current()
    return state if state.read("backward_precision") == "recorded" else None


@per_state()
def act_on(state: State, roles: tuple[str, ...]) -> bool:
    """Whether a format is set for one of these roles, in any product."""
    paths = (path for path in _table.OPERAND_PATHS if path.rpartition(".")[2] in roles)
    return any(state.read(path) not in (NO_OPINION, "ieee") for path in paths)


Group.install(sys.modules[__name__], "operands")
