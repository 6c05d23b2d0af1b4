"""Counts of products: those that ran on our kernels, and those that torch computed itself."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from ...kernels.registry import Call, observe
from ...kernels.runtime.locks import lock
from ...lab.flops import flops_of


class LeftProductWarning(UserWarning):
    """Torch computed products itself, at its own precision, inside `emulate`."""


@dataclass(frozen=True)
class Product:
    """Products that ran on our kernels.

    Attributes:
        kernel: the task, "matmul".
        precision: the requested precision, "tf32".
        calls: the number of kernel calls.
        flops: their operations, two for each multiplication whose product is added up.
    """

    kernel: str
    precision: str
    calls: int
    flops: int


@dataclass(frozen=True)
class Left:
    """Products that stayed with torch.

    Attributes:
        op: the operator, "aten.linalg_eig.default".
        count: the number of calls.
        why: the reason.
        flops: their operations; estimated from shapes for operators whose algorithm torch does not document.
    """

    op: str
    count: int
    why: str
    flops: int

    def __str__(self) -> str:
        return f"{self.op} ({self.count}): {self.why}"


_SIGNATURES_KEPT = 4096
"""The number of signatures whose kernel calls are remembered. Past it all are forgotten."""


Again = Callable[[tuple, dict], Any]
"""A call prepared for a signature. It takes the arguments."""


class Signature:
    """A kind of call: how often it ran, its kernel calls, and the prepared call."""

    __slots__ = ("again", "calls", "times")

    def __init__(self, calls: list[tuple[str, str, int]], again: Again) -> None:
        self.calls, self.again, self.times = calls, again, 0


class Counts:
    """The products of a block. Safe to update from several threads; picklable, so that a worker process can send its
    counts to be merged."""

    def __init__(self) -> None:
        self._lock = lock()
        self._ran: dict[tuple[str, str], tuple[int, int]] = {}
        self._left: dict[tuple[str, str], tuple[int, int]] = {}
        self._signatures: dict[Hashable, Signature] = {}

    def first(self, signature: Hashable, compute: Callable[[], tuple[Any, Again]]) -> Any:
        """Count the kernel calls of a computation, which follow from its signature. `compute` returns the result and
        the call that `repeat` makes. Only the first call is observed, since kernels run a longer way for observers."""
        calls: list[tuple[str, str, int]] = []
        with observe(lambda call: calls.append(_row_of(call))):
            found, again = compute()
        seen = Signature(calls, again)
        with self._lock:
            if len(self._signatures) >= _SIGNATURES_KEPT:
                self._add_up()
            seen = self._signatures.setdefault(signature, seen)
        self._count(seen)
        return found

    def repeat(self, signature: Hashable, args: tuple, kwargs: dict) -> Any:
        """Make and count the prepared call of a signature; NotImplemented where it has none."""
        seen = self._signatures.get(signature)
        if seen is None:
            return NotImplemented
        found = seen.again(args, kwargs)
        self._count(seen)
        return found

    def _count(self, seen: Signature) -> None:
        with self._lock:
            seen.times += 1

    def observe(self, call: Call) -> None:
        """Count one kernel call."""
        kernel, precision, flops = _row_of(call)
        with self._lock:
            _add(self._ran, (kernel, precision), 1, flops)

    def leave(self, op: str, why: str, flops: int) -> None:
        """Count one operator that stayed with torch."""
        with self._lock:
            _add(self._left, (op, why), 1, flops)

    def _add_up(self) -> None:
        for each in self._signatures.values():
            for kernel, precision, flops in each.calls:
                _add(self._ran, (kernel, precision), each.times, each.times * flops)
            each.times = 0
        if len(self._signatures) >= _SIGNATURES_KEPT:
            self._signatures = {}

    @property
    def products(self) -> list[Product]:
        """The products that ran on our kernels, most operations first."""
        with self._lock:
            self._add_up()
            rows = [Product(*key, *numbers) for key, numbers in self._ran.items()]
        return sorted(rows, key=lambda row: (-row.flops, row.kernel, row.precision))

    @property
    def left(self) -> list[Left]:
        """The operators that torch computed itself, in order of the first calls."""
        with self._lock:
            return [Left(op, count, why, flops) for (op, why), (count, flops) in self._left.items()]

    def merge(self, other: Counts) -> None:
        """Add the counts of another block, thread or process."""
        products, left = other.products, other.left
        with self._lock:
            for each in products:
                _add(self._ran, (each.kernel, each.precision), each.calls, each.flops)
            for one in left:
                _add(self._left, (one.op, one.why), one.count, one.flops)

    def clear(self) -> None:
        """Forget everything, as a forked process does that counts its own products."""
        with self._lock:
            self._ran, self._left, self._signatures = {}, {}, {}

    def as_dict(self) -> dict[str, list[dict[str, Any]]]:
        """Plain data, for JSON: `products` and `left`, lists of the attributes of `Product` and `Left`."""
        return {"products": [asdict(each) for each in self.products], "left": [asdict(each) for each in self.left]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Iterable[Mapping[str, Any]]]) -> Counts:
        """Read the output of `as_dict`."""
        counts = cls()
        for each in data["products"]:
            _add(counts._ran, (each["kernel"], each["precision"]), each["calls"], each["flops"])
        for each in data["left"]:
            _add(counts._left, (each["op"], each["why"]), each["count"], each["flops"])
        return counts

    def __reduce__(self) -> tuple[Any, ...]:
        return Counts.from_dict, (self.as_dict(),)


def _add(counts: dict[tuple[str, str], tuple[int, int]], key: tuple[str, str], calls: int, flops: int) -> None:
    before = counts.get(key, (0, 0))
    counts[key] = before[0] + calls, before[1] + flops


def _row_of(call: Call) -> tuple[str, str, int]:
    return call.kernel, call.keywords.get("precision", "ieee"), flops_of(call)


current_counts: ContextVar[Counts | None] = ContextVar("counts_of_torch_products", default=None)
"""The counts of the innermost call that torch would decompose, or `counting`."""


@contextmanager
def counting(counts: Counts | None) -> Iterator[None]:
    """Count every kernel call of this block by observing it."""
    token = current_counts.set(counts)
    try:
        if counts is None:
            yield
        else:
            with observe(counts.observe):
                yield
    finally:
        current_counts.reset(token)


_LINEAR_ALGEBRA: dict[str, Callable[[int, int, int], float]] = {
    "cholesky|_ldl": lambda m, n, k: n**3 / 3,
    "lu_factor|_lu$|_det|slogdet": lambda m, n, k: m * n**2 - n**3 / 3,
    "solve_triangular|triangular_solve": lambda m, n, k: n**2 * k,
    "lu_solve|cholesky_solve|ldl_solve": lambda m, n, k: 2 * n**2 * k,
    "solve": lambda m, n, k: 2 * n**3 / 3 + 2 * n**2 * k,
    "inv": lambda m, n, k: 2 * n**3,
    "lstsq|qr": lambda m, n, k: 4 * m * n**2 - 4 * n**3 / 3,
    "svd|eig": lambda m, n, k: 10 * m * n**2,
    "matrix_exp": lambda m, n, k: 20 * n**3,
}
"""Counts by rows, columns and right sides (LAPACK Working Note 41), for the first pattern in the operator's name."""


def flops_of_operator(func: Any, args: tuple, kwargs: Mapping[str, Any], result: Any) -> int:
    """The operations of one of torch's operators, from its shapes. torch's own formulas come first. Of sparse tensors
    the values that are stored count. 0 for what multiplies nothing with a shape."""
    tensors = [each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor)]
    counted = flop_registry.get(getattr(func, "_overloadpacket", func))
    try:
        if counted is not None:
            return round(counted(*args, **kwargs, out_val=result) * _density(tensors))
        return round(_estimate(str(func), tensors, result) * _density(tensors))
    except (RuntimeError, TypeError, ValueError, AssertionError, IndexError, NotImplementedError):
        return 0  # nested sizes, or operands that torch's formula does not know


def _density(tensors: Iterable[torch.Tensor]) -> float:
    """The share of the values that sparse operands store."""
    return math.prod(
        each._nnz() / max(each.numel(), 1) if each.layout in (torch.sparse_coo, torch.sparse_csr) else 1.0
        for each in tensors
    )


def _estimate(name: str, tensors: list[torch.Tensor], result: Any) -> float:
    shapes = [each.shape for each in tensors if each.ndim]
    if re.search(r"linalg_|cholesky|lu_solve|triangular_solve|geqrf|ormqr", name) and len(shapes[0]) > 1:
        (*batch, m, n), sides = shapes[0], shapes[1][-1] if len(shapes) > 1 and len(shapes[1]) > 1 else 1
        count = next((count for words, count in _LINEAR_ALGEBRA.items() if re.search(words, name)), None)
        return math.prod(batch) * (count(m, n, sides) if count is not None else 2 * m * n * min(m, n))
    results = result if isinstance(result, (tuple, list)) else (result,)
    size = max((each.numel() for each in results if isinstance(each, torch.Tensor)), default=0)
    if "rnn" in name or "lstm" in name or "gru" in name:
        steps = tensors[0].numel() // max(tensors[0].shape[-1], 1)
        return 2 * steps * sum(each.numel() for each in tensors if each.ndim == 2)
    if "conv" in name:
        weight = next((each for each in tensors[1:] if each.ndim > 2), tensors[0])  # packed weights have no shape
        return 2 * size * weight.numel() / max(weight.shape[0], 1)
    return 2 * size * (shapes["add" in name][-1] if shapes else 0)
