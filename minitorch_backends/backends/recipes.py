"""Recipes: formats of operands under the names of their papers and libraries, each with its source.

    with backends.recipes["te-mxfp8"]:
        ...

A recipe is data: values of the flags of `backends.operands`. It is a scope and a decorator, as what `flags()` returns.
The flag `operands.recipe` sets one by its name, in sweeps, policies, environment variables and on the command line. Its
`without` says what these flags leave out: sums of a device (`backends.profile`), layers that its authors spare (a
policy), scales of earlier steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ..flags import NO_OPINION, State
from ..flags.rows import nearest
from ..flags.scopes import Scope
from ..flags.state import Override, override
from ..flags.writes import expand_paths, leave
from ..kernels.precisions import BLOCKS, find_format

__all__ = ["RECIPES", "ROLES", "Recipe"]

ROLES = {
    "weight": "weights of layers, and parameters in products with other tensors",
    "activation": "what meets a weight in the forward pass",
    "gradient": "gradients of results, in the products of the backward pass",
    "query": "attention's queries, with keys",
    "key": "attention's keys: its cache where queries have no format",
    "value": "attention's values: its cache where probabilities have no format",
    "probability": "attention's probabilities, with values",
    "input_gradient.gradient": "gradients, in products for gradients of inputs",
    "input_gradient.weight": "weights, in products for gradients of inputs",
    "weight_gradient.activation": "activations, in products for gradients of weights",
    "weight_gradient.gradient": "gradients, in products for gradients of weights",
}
"""The meaning of each role of an operand, by its flag below `backends.operands`; with a prefix, in one product of the
backward pass."""


class Recipe(Scope):
    """A named set of formats.

    Attributes:
        name: its key in `backends.recipes`.
        operands: formats by role, below `backends.operands`.
        source: where it is published.
        without: what these flags leave out of it; empty for nothing.
    """

    __slots__ = ("name", "operands", "source", "without")

    def __init__(self, name: str, operands: Mapping[str, str], source: str, without: str = "") -> None:
        self.name, self.operands, self.source, self.without = name, MappingProxyType(dict(operands)), source, without

    @property
    def flags(self) -> dict[str, str]:
        """Values of flags by path, for every role."""
        return {f"operands.{role}": self.operands.get(role, NO_OPINION) for role in ROLES}

    def __enter__(self) -> None:
        override.set(Override(override.get(), expand_paths(self.flags), self))

    def __exit__(self, *exception: object) -> None:
        leave(self)

    def __reduce__(self) -> tuple:
        return Recipe, (self.name, dict(self.operands), self.source, self.without)

    def __repr__(self) -> str:
        """A table of roles and formats, with the source."""
        width = max(map(len, self.operands))
        lines = [f"{self.name} ({self.source})"]
        lines += [f"  {role:<{width}}  {name}: {find_format(name).meaning}" for role, name in self.operands.items()]
        return "\n".join(lines + [f"  without {self.without}"] * bool(self.without))


class _Recipes(dict[str, Recipe]):
    """Recipes by name."""

    def __missing__(self, name: object) -> Recipe:
        raise KeyError(f"backends.recipes has no {name!r}{nearest(name, self)}; it has {', '.join(self)}")

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.values()))


def _all(weight: str, activation: str, gradient: str, **others: str) -> dict[str, str]:
    return {"weight": weight, "activation": activation, "gradient": gradient, **others}


_TE = "TransformerEngine, transformer_engine.common.recipe"
_TORCHAO = "torchao, torchao.float8.config"
_MX = "torchao, prototype.mx_formats"
_NVFP4 = {"weight_gradient.activation": "nvfp4-rotated", "weight_gradient.gradient": "nvfp4-rotated-stochastic"}
_ROWS_HIGH = {
    "input_gradient.weight": "e4m3-pow2",
    "weight_gradient.activation": "ieee",
    "weight_gradient.gradient": "ieee",
}

RECIPES = _Recipes(
    (row.name, row)
    for row in (
        Recipe("te-current", _all("e4m3", "e4m3", "e5m2"), f"{_TE}.Float8CurrentScaling"),
        Recipe(
            "te-delayed", _all("e4m3", "e4m3", "e5m2"), f"{_TE}.DelayedScaling",
            "scales of earlier steps: each tensor has its own",
        ),
        Recipe("te-mxfp8", _all(*("mxfp8-rceil",) * 3), f"{_TE}.MXFP8BlockScaling; arXiv 2506.08027"),
        Recipe(
            "te-nvfp4", _all("nvfp4-2d", "nvfp4", "nvfp4-stochastic", **_NVFP4),
            f"{_TE}.NVFP4BlockScaling; arXiv 2509.25149", "the layers that stay in bfloat16, which a policy can spare",
        ),
        Recipe("torchao-tensorwise", _all("e4m3", "e4m3", "e5m2"), f"{_TORCHAO} TENSORWISE"),
        Recipe("torchao-rowwise", _all(*("e4m3-row-pow2",) * 3), f"{_TORCHAO} ROWWISE"),
        Recipe("torchao-rowwise-gw-hp", _all(*("e4m3-row-pow2",) * 3, **_ROWS_HIGH), f"{_TORCHAO} ROWWISE_WITH_GW_HP"),
        Recipe("torchao-mxfp8", _all(*("mxfp8",) * 3), f"{_MX}, ScaleCalculationMode.FLOOR"),
        Recipe("torchao-mxfp8-rceil", _all(*("mxfp8-rceil",) * 3), f"{_MX}, RCEIL; arXiv 2506.08027"),
        Recipe("torchao-int8", {"weight": "int8-row"}, "torchao, Int8WeightOnlyConfig"),
        Recipe("torchao-int4", {"weight": "int4-128"}, "torchao, Int4WeightOnlyConfig(group_size=128)"),
        Recipe(
            "deepseek-v3", _all("e4m3-128x128", *("e4m3-1x128-promoted",) * 2), "arXiv 2412.19437, section 3.3",
        ),
        Recipe(
            "gpt-oss", {"weight": "mxfp4"}, "arXiv 2508.10925, section 2.1",
            "its limit to experts' weights, which a policy can set",
        ),
        *(Recipe(name, {"weight": name}, "llama.cpp, llama-quantize, of all weights of products") for name in BLOCKS),
        Recipe("q8_0-cache", {"key": "q8_0", "value": "q8_0"}, "llama.cpp, --cache-type-k and -v q8_0"),
        Recipe("q4_0-cache", {"key": "q4_0", "value": "q4_0"}, "llama.cpp, --cache-type-k and -v q4_0"),
    )
)  # fmt: skip
"""Every recipe by name."""


EQUAL = {
    row.name: first.name
    for row in RECIPES.values()
    if (first := next(each for each in RECIPES.values() if each.flags == row.flags)) is not row
}
"""Recipes with the formats of an earlier one, under whose name the flag `operands.recipe` stores them."""


def recipe_in_force(state: State) -> str:
    """The first recipe whose formats are those of the flags, or "none"."""
    formats = {f"operands.{role}": state.stored.get(f"operands.{role}", NO_OPINION) for role in ROLES}
    return next((row.name for row in RECIPES.values() if row.flags == formats), NO_OPINION)


def formats_to_write(name: str) -> dict[str, Any]:
    """Return the formats that a recipe's name stores; "none" clears all formats."""
    return RECIPES[name].flags if name != NO_OPINION else {f"operands.{role}": NO_OPINION for role in ROLES}
