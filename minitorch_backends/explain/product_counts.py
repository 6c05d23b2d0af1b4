"""Counts of the products that precision flags affected, and of those that they did not."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ..autograd.modes import is_in_backward
from ..backends.precision_policy import EXACT, IDLE, NO_EFFECT
from ..kernels.precisions.products import is_emulated
from ..kernels.registry import Call, kernels

if TYPE_CHECKING:
    from .records import Record


def is_by_role(call: Record | Call) -> bool:
    """Whether an operand of a call has a format by its role. Remarks on formats without effect do not count."""
    parts = (call.decided_by or "").split("; ")
    return any(each.startswith("operands.") and IDLE not in each for each in parts) and _multiplies(call)


def acted_on(call: Record | Call) -> bool:
    """Whether a precision affects a call: not where half types are multiplied as float32."""
    if NO_EFFECT in (call.decided_by or "") or EXACT.decided_by in (call.decided_by or ""):
        return False
    precision = call.keywords.get("precision", "ieee") if isinstance(call, Call) else call.precision
    affected = not {"float32", "complex64"}.isdisjoint(call.dtypes) or is_emulated(str(precision))
    return affected and _multiplies(call)


def sums_by_flag(call: Record | Call) -> bool:
    """Whether a flag chose how the sums of a product are rounded."""
    names = call.keywords if isinstance(call, Call) else dict(call.options)
    return any(names.get(name) is not None for name in ("unit", "sums", "partial")) and _multiplies(call)


def _multiplies(call: Record | Call) -> bool:
    kernel = kernels.get(call.kernel)
    return kernel is not None and kernel.bound.keys() != {"ieee"}


class ProductCounts:
    """Counts of products, as an observer of kernel calls.

    Attributes:
        obeyed: the number of products that ran at the precision of the flags, or whose sums follow a flag (a device's
            matrix unit, sums of half types, sums in parts).
        lowered: the number of those below ieee; `by_role`: of those with an operand in a format of its
            role; `in_backward`: of those that were counted while gradients were computed.
        others: the number of those that no flag affects, by kernel and dtype, or by torch's operator and the reason.
    """

    def __init__(self) -> None:
        self.obeyed = self.lowered = self.by_role = self.in_backward = 0
        self.others = Counter[str]()

    def __call__(self, call: Record | Call) -> None:
        by_role = is_by_role(call)
        if acted_on(call) or by_role or sums_by_flag(call):
            precision = call.keywords.get("precision", "ieee") if isinstance(call, Call) else call.precision
            self.obeyed, self.lowered = self.obeyed + 1, self.lowered + (precision != "ieee")
            self.by_role += by_role
            self.in_backward += is_in_backward()
        elif _multiplies(call):
            named = (call.decided_by or "").partition(f"{NO_EFFECT} ")[2].replace(",", " ").split(" ")[0]
            dtypes = named or ", ".join(dict.fromkeys(call.dtypes))
            self.others[f"{call.kernel} of {'half types' if not named and dtypes == 'float32' else dtypes}"] += 1

    def __str__(self) -> str:
        head = f"{self.obeyed or 'no'} product{'s' * (self.obeyed > 1)} obeyed precision flags"
        if not self.others:
            return head
        listed = "; ".join(f"{count} {what}" for what, count in self.others.most_common())
        return f"{head}, {self.others.total()} did not: {listed}"
