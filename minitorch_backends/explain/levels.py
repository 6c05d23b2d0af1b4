"""Levels at which layers are tried: precisions of products, formats of operands by role, and recipes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..backends.recipes import RECIPES, ROLES
from ..flags import current
from ..kernels.precisions import BLOCKS, find_format
from ..kernels.precisions.elements import ELEMENTS
from ..kernels.precisions.products import find_precision
from ..kernels.registry import Call
from ..ops.einsum.precision_plan import unit_cost
from .product_counts import acted_on, is_by_role
from .records import Record

FORWARD_ROLES = tuple(name for name in ROLES if "gradient" not in name)
"""The roles of operands in the forward pass."""


class Level(NamedTuple):
    """A way in which a layer's products are computed.

    Attributes:
        name: of the precision, the format or the recipe.
        flags: the flags that set it, by path.
        by_role: whether it is formats of operands.
        cost: the time of a multiplication and addition: by `unit_cost` for precisions, and for formats, whose products
            wait for memory, the bits of a value.
    """

    name: str
    flags: dict[str, Any]
    by_role: bool
    cost: float

    def acts_on(self, call: Call | Record) -> bool:
        """Whether a kernel call ran at this level."""
        if self.by_role:
            return is_by_role(call)
        precision = call.keywords.get("precision", "ieee") if isinstance(call, Call) else call.precision
        return precision == self.name and acted_on(call)

    def in_force(self) -> dict[str, Any]:
        """The values of its flags under the current ones."""
        return {path: current().read(path) for path in self.flags}


def find_levels(caller: str, names: str | Sequence[str], roles: str | Sequence[str] = ()) -> list[Level]:
    """The levels of these names: precisions or recipes; formats of operands where there are `roles`.

    Raises ValueError for unknown names, and for none.
    """
    named = [names] if isinstance(names, str) else list(names)
    of = (roles,) if isinstance(roles, str) else tuple(roles)
    if unknown := [role for role in of if role not in FORWARD_ROLES]:
        raise ValueError(f"{caller}(): roles must be among {', '.join(FORWARD_ROLES)}, got {unknown[0]!r}")
    if not named:
        raise ValueError(f"{caller}(): precisions must name at least one, got none")
    return list({level.name: level for level in (_level(each, of) for each in named)}.values())


def _level(name: str, roles: tuple[str, ...]) -> Level:
    if roles:
        return Level(name, {f"operands.{role}": find_format(name).name for role in roles}, True, bits_of(name))
    if name in RECIPES:
        recipe = RECIPES[name]
        bits = [bits_of(recipe.operands[role]) for role in FORWARD_ROLES if role in recipe.operands]
        return Level(name, {"operands.recipe": name}, True, max(bits, default=32.0))
    found = find_precision(name).name
    return Level(found, {"fp32_precision": found}, False, unit_cost(found))


def bits_of(name: str) -> float:
    """The bits that a value takes in a format, without scales."""
    row = find_format(name)
    if row.packed:
        return 8 * BLOCKS[row.packed].size / BLOCKS[row.packed].length
    if row.element.startswith("int"):
        return float(row.element.removeprefix("int"))
    element = ELEMENTS[row.element]
    exponents = math.frexp(element.greatest)[1] - element.least + 1  # normal ones, and that of subnormals
    return element.significand + math.ceil(math.log2(exponents))
