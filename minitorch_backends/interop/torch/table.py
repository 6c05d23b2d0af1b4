"""The table of torch's operators that run on our kernels, with their in-place and `out=` forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from ...lab.torch_capture import is_product


class _Handler(NamedTuple):
    """What computes an operator; whether it takes tensors of ours, or else torch's; whether they may have several
    types, and 8-bit ones; and what computes it again."""

    function: Callable[..., Any]
    converted: bool
    mixed: bool
    narrow: bool
    again: Callable[..., Any] | None


_HANDLERS: dict[str, _Handler] = {}
"""The handlers by operator name, with the overload's name if it is not the default."""


def runs(
    *names: str,
    converted: bool = True,
    mixed: bool = False,
    narrow: bool = False,
    again: Callable[..., Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the function for the operators of these names.

    The function takes our tensors in place of torch's, unless not `converted`, and returns our tensors, in a tuple if
    torch returns several. Operands of several dtypes are left to torch, unless `mixed`; 8-bit floats too, unless
    `narrow`. `again` is the same for arrays, and returns one. It is called for arguments like those of an earlier call,
    and checks nothing.
    """

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            _HANDLERS[name] = _Handler(function, converted, mixed, narrow, again)
        return function

    return declare


class Entry(NamedTuple):
    """The properties of an operator.

    Attributes:
        operator: itself, which lives as long as something refers to its entry.
        function: computes it; None if torch does.
        converted: whether the function takes our tensors.
        mixed: whether these may have several dtypes.
        narrow: whether they may be 8-bit floats.
        outputs: the names of the `out=` arguments.
        in_place: whether the first argument receives the result.
        composite: whether torch decomposes it into operators that can be taken one by one.
        product: whether it multiplies matrices, judged by its name.
        higher_order: whether its arguments are functions, whose operators can be taken.
        plain: whether it is an operator of torch that multiplies no matrices.
        inside: whether the operators that its implementation calls can be taken.
        again: computes arrays of a signature that `function` took before; None if `function` does.
        writes: whether it writes to some of its arguments.
    """

    operator: Any
    function: Callable[..., Any] | None
    converted: bool
    mixed: bool
    narrow: bool
    outputs: tuple[str, ...]
    in_place: bool
    composite: bool
    product: bool
    higher_order: bool
    plain: bool
    inside: bool
    again: Callable[..., Any] | None = None
    writes: bool = False


_INSIDE = {
    "_foreach_mm", "_grouped_mm", "_native_multi_head_attention", "_scaled_grouped_mm", "_scaled_grouped_mm_v2",
    "_transformer_encoder_layer_fwd", "conv_tbc",
}  # fmt: skip
"""Operators of torch that consist of products of the table."""

_TORCHS = frozenset({"aten", "prim", "prims", "_c10d_functional", "c10d", "profiler", "inductor", "debugprims"})
"""Namespaces whose operators call no products unless their name says so."""


def entry_of(operator: Any) -> Entry:
    """The entry of an operator. In-place and `out=` forms are computed as the functional form is, if their other
    arguments are the same. The operators inside a higher-order operator, or inside one that a program or another
    library defines, arrive one by one."""
    if not isinstance(operator, torch._ops.OpOverload):
        return Entry(operator, None, False, False, False, (), False, False, False, True, False, True)
    if operator.namespace == "prim":
        return Entry(operator, None, False, False, False, (), False, False, False, False, True, False)
    schema = operator._schema
    name = schema.name.split("::")[1] if schema.name.startswith("aten::") else schema.name
    written = [each for each in schema.arguments if each.alias_info is not None and each.alias_info.is_write]
    outputs = tuple(each.name for each in written if each.kwarg_only)
    in_place = bool(written) and not outputs
    base = name.removesuffix("_") if in_place else name
    found = _HANDLERS.get(f"{base}.{operator._overloadname}")
    if found is None and base in _HANDLERS and _read(operator) == _read(getattr(torch.ops.aten, base).default):
        found = _HANDLERS[base]
    composite = torch._C._dispatch_has_kernel(operator.name()) and operator.has_kernel_for_dispatch_key(
        torch._C.DispatchKey.CompositeImplicitAutograd
    )
    function, converted, mixed, narrow, again = found or (None, False, False, False, None)
    product = is_product(name.split("::")[-1])
    plain = function is None and not composite and not product and operator.namespace in _TORCHS
    inside = composite or name in _INSIDE or operator.namespace not in _TORCHS
    return Entry(
        operator, function, converted, mixed, narrow, outputs, in_place,
        composite, product, False, plain, inside, again, bool(written),
    )  # fmt: skip


def _read(operator: torch._ops.OpOverload) -> list[tuple[str, str]]:
    """The names and types of the arguments that an operator reads."""
    arguments = operator._schema.arguments
    return [(each.name, str(each.type)) for each in arguments if not (each.kwarg_only and each.alias_info)]
