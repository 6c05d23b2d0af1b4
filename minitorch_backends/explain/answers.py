"""How a call would run, from the dispatcher itself, without running it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

import numpy as np

from ..autograd.modes import no_grad
from ..backends import precision_policy
from ..backends.operands import Roles
from ..backends.precision_policy import Choice
from ..backends.recipes import RECIPES, ROLES
from ..flags import current
from ..kernels.block.tuning import origin
from ..kernels.precisions import BLOCKS, find_format
from ..kernels.precisions.elements import ELEMENTS
from ..kernels.precisions.products import find_precision
from ..kernels.registry import Call, Planned, plan
from ..kernels.runtime.context import restore_on_failure
from ..ops.creation.factories import from_numpy
from ..ops.einsum.precision_plan import unit_cost
from ..ops.einsum.program import KEPT, plan_for
from ..ops.einsum.user_plan import EinsumPlan, einsum_plan
from ..tensor.call_errors import argument_errors
from ..tensor.registry import registry
from ..tensor.tensor import Tensor
from .product_counts import acted_on, is_by_role
from .records import Record, as_text


class Answer(NamedTuple):
    """How a call would run.

    Attributes:
        kernel: the kernel that would be called.
        precision, decided_by: the precision, and the flag, argument or rule that determines it.
        implementations: the implementations in order of preference; a later one runs if the earlier reject the data.
        refusals: pairs of an implementation and its reason for rejecting the shapes, dtypes or this CPU.
        options: the kernel's other keywords.
        shapes: the shapes of the arguments.
        division: how a matrix product is partitioned among threads if the arrays are contiguous ("unpacked", "brief",
            "batch", "strips", "columns" or "blocks"); None for other kernels.
        tuning: where the thresholds between the ways of a matrix product are from; None for other kernels.
    """

    kernel: str
    precision: str
    decided_by: str | None
    implementations: tuple[str, ...]
    refusals: tuple[tuple[str, str], ...]
    options: tuple[tuple[str, Any], ...]
    shapes: tuple[tuple[int, ...], ...]
    division: str | None = None
    tuning: str | None = None

    def __str__(self) -> str:
        first, *others = self.implementations or ("nothing",)
        reason = f": {self.decided_by}" if self.decided_by else ""
        lines = [f"{self.kernel} of {as_text(self.shapes)} runs by {first} at {self.precision}{reason}"]
        lines += [f"    divided: {self.division}"] if self.division else []
        lines += [f"    thresholds: {self.tuning}"] if self.tuning else []
        lines += [f"    not {name}: {sentence}" for name, sentence in self.refusals]
        lines += [f"    {name}={value!r}" for name, value in self.options]
        return "\n".join([*lines, *(f"    or {name}, if those before it reject the data" for name in others)])

    def _repr_html_(self) -> str:
        from ..display.html import Rows, as_html

        later = "runs if those before it reject the data"
        rows = [(name, later if place else "runs") for place, name in enumerate(self.implementations)]
        rows += [(name, f"does not: {sentence}") for name, sentence in self.refusals]
        return as_html(str(self).partition("\n")[0], Rows([("implementation", ""), *rows], names=2))


@argument_errors
@restore_on_failure
def why(name: str, *arguments: Any, **options: Any) -> Answer:
    """Explain how the first kernel of an op would run for these tensors (or arrays) under the current flags.

    The op is given by its public name ("matmul", "linear", "linalg.solve" or "solve"). It is called without recording
    and stopped at its first kernel call, so the answer comes from the dispatcher itself. Raises ValueError for a name
    that is not an op, and for an op that calls no kernel.
    """
    function = _declaration(name)
    if function is None:
        raise ValueError(f"explain.why(): name must be the name of an op, got {name!r}{_nearest(name)}")
    tensors = [from_numpy(value) if isinstance(value, np.ndarray) else value for value in arguments]
    with no_grad():
        call = plan(lambda: function.public(*tensors, **options))
    if call is None:
        raise ValueError(f"explain.why(): {name!r} calls no kernel for these arguments")
    others = {name: value for name, value in call.keywords.items() if name != "precision"}
    return Answer(
        kernel=call.kernel.name,
        precision=call.keywords.get("precision", "ieee"),
        decided_by=call.decided_by,
        implementations=tuple(each.name for each in call.decision.candidates),
        refusals=call.decision.refusals,
        options=tuple(others.items()),
        shapes=call.shapes,
        division=_division(call, tensors),
        tuning=origin() if call.kernel.name in ("matmul", "addmm", "linear") else None,
    )


def _division(call: Planned, tensors: list[Any]) -> str | None:
    """How the loops of a matrix product of these tensors are partitioned."""
    from ..kernels.gemm.compiled import ISAS, computed_by_panels
    from ..kernels.gemm.divisions import division_of

    first = call.decision.candidates[0].name if call.decision.candidates else ""
    dtype = next((tensor._array.dtype for tensor in tensors if isinstance(tensor, Tensor)), None)
    if call.kernel.name not in ("matmul", "addmm") or first not in ISAS or dtype is None:
        return None
    precision, rounding = call.keywords.get("precision", "ieee"), call.keywords.get("rounding", "rna")
    inner = computed_by_panels(first, dtype, precision)
    return None if inner is None else division_of(first, inner, rounding, dtype, call.shapes[0], call.shapes[1])


@argument_errors
def precision_of(name: str) -> Choice:
    """Return the precision of a float32 or complex64 product under the current flags, and the flag that determines it.

    `name` is a kind of product ("matmul", "conv", "rnn") or the public name of an op as for `why` ("conv2d", "linear",
    "lstm"), whose declaration gives the kind. For a layer whose operands have formats (`backends.operands`) the answer
    names both, "activation x weight". The dispatcher uses the same function. An op without products runs at ieee.
    Raises ValueError for an unknown name.
    """
    if name in precision_policy.KINDS:
        return precision_policy.precision_of(name)
    function = _declaration(name)
    if function is None:
        kinds = ", ".join(precision_policy.KINDS)
        raise ValueError(
            f"no precision flag governs {name!r}; expected one of {kinds}, or the name of an op{_nearest(name)}"
        )
    if function.product is None:
        return Choice("ieee", f"precision flags do not affect {name}")
    return precision_policy.precision_of(function.product, _roles_of(name))


_LAYERS = ("linear", "conv", "lstm", "gru", "rnn", "bilinear")


def _roles_of(name: str) -> Roles | None:
    """The roles of the operands of a layer."""
    last = name.rpartition(".")[2].lower()
    return Roles("activation", "weight") if last.startswith(_LAYERS) else None


def _declaration(name: str) -> Any:
    """Return the op or composite of a public name of a function, layer or cell, or None."""
    last = name.rpartition(".")[2]
    lower = last.lower()
    layer = re.sub(r"_?(cell|tanh|relu)$", "", lower) + "_layer"
    names = name, name.replace(".", "_"), last, f"linalg_{name}", f"fft_{name}", layer, f"scaled_dot_product_{lower}"
    if found := next(filter(None, map(registry.get, names)), None):
        return found
    joined = lower.replace("_", "")  # modules: nn.Linear, nn.ConvTranspose2d, nn.MultiheadAttention
    return next((each for key, each in registry.items() if key.replace("_", "") in (joined, f"{joined}forward")), None)


def _nearest(name: str) -> str:
    near = [each for each in registry if name and each.endswith(f"_{name}")] or get_close_matches(name, registry, n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


class Contractions(NamedTuple):
    """The plan of an einsum, and the plans of the gradients of its operands, which are einsums as well."""

    forward: EinsumPlan
    cotangents: tuple[EinsumPlan, ...]

    def __str__(self) -> str:
        parts = [str(self.forward)]
        parts += [f"Gradient of operand {index}: {plan}" for index, plan in enumerate(self.cotangents)]
        return "\n\n".join(parts)


def einsum(*args: Any, **options: Any) -> Contractions:
    """The plans of an einsum and its gradients; the arguments are those of `einsum_plan`."""
    plan = einsum_plan(*args, **options)
    return Contractions(plan, plan.cotangents())


class EinsumCache(NamedTuple):
    """Statistics of the plan cache, in the terms of `functools`: `hits`, `misses`, `maxsize` and `currsize`."""

    hits: int
    misses: int
    maxsize: int
    currsize: int


def einsum_cache() -> EinsumCache:
    """The plan cache, by equation, shapes and strategy; least recently used entries are dropped first."""
    info = plan_for.cache_info()
    return EinsumCache(info.hits, info.misses, KEPT, info.currsize)


# Levels at which layers are tried: precisions of products, formats of operands by role, and recipes


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

    Raises ValueError for unknown names, for none, and for a precision that is in force: its errors would be 0.
    """
    named = [names] if isinstance(names, str) else list(names)
    of = (roles,) if isinstance(roles, str) else tuple(roles)
    if unknown := [role for role in of if role not in FORWARD_ROLES]:
        raise ValueError(f"{caller}(): roles must be among {', '.join(FORWARD_ROLES)}, got {unknown[0]!r}")
    if not named:
        raise ValueError(f"{caller}(): precisions must name at least one, got none")
    found = list({level.name: level for level in (_level(each, of) for each in named)}.values())
    in_force = precision_of("matmul").precision
    if in_force != "ieee" and any(level.name == in_force and not level.by_role for level in found):
        raise ValueError(
            f"{caller}(): precisions must not be in force, since errors are relative to the current flags, got "
            f"{in_force!r}; call it under backends.flags(fp32_precision='ieee')"
        )
    return found


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
