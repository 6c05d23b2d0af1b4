"""Batched tensors: each stands for one sample of a batch, inside a function that `vmap` maps.

A `Batched` has the shape of one sample. Its values are in another tensor, `value`, with the batch as first dimension.
That tensor is recorded, and may be a `Batched` of an outer `vmap`. The array of a `Batched` has a shape and a dtype but
no numbers: reading them raises `ValuesNeeded`, and the innermost public function is then called once per sample. A
function without knowledge of batches is therefore correct, and one with a rule (`rules`) is fast.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np

from ..kernels.runtime.context import restorable, restore_on_failure
from ..kernels.runtime.locks import lock
from ..ops.views.join import stack
from ..tensor import instrumentation
from ..tensor.dtypes import dtype_of
from ..tensor.instrumentation import ValuesNeeded
from ..tensor.registry import registry
from ..tensor.tensor import Tensor

Rebuild = Callable[[Sequence[Any]], Any]


def flat(tree: Any) -> tuple[list[Any], Rebuild]:
    """The tensors in nested tuples, lists and dicts, and a function that puts others in their places."""
    if isinstance(tree, dict):
        leaves, rebuild = flat(list(tree.values()))
        return leaves, lambda new: type(tree)(zip(tree, rebuild(new), strict=True))
    if not isinstance(tree, (tuple, list)):
        return [tree], lambda new: new[0]
    parts = [flat(each) for each in tree]
    ends = np.cumsum([0, *(len(leaves) for leaves, _ in parts)]).tolist()

    def rebuilt(new: Sequence[Any]) -> Any:
        made = [rebuild(new[start:stop]) for (_, rebuild), start, stop in zip(parts, ends[:-1], ends[1:], strict=True)]
        return type(tree)(*made) if hasattr(tree, "_fields") else type(tree)(made)

    return [leaf for leaves, _ in parts for leaf in leaves], rebuilt


class Level:
    """One call of a function that `vmap` has made: the size of its batch, and what becomes of random numbers."""

    def __init__(self, size: int, randomness: str) -> None:
        self.size, self.randomness = size, randomness


_levels: ContextVar[tuple[Level, ...]] = ContextVar("vmap_levels", default=())
_depth: ContextVar[int] = ContextVar("vmap_blocks", default=0)
_lock, _running = lock(), 0


def active_levels() -> tuple[Level, ...]:
    """The calls that are running in this thread or task, the outermost first."""
    return _levels.get()


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise ValuesNeeded(
        "vmap(): the function needs the values of a tensor that differ from sample to sample (item(), a branch or a "
        "conversion to NumPy); use where(), or map a function that does without"
    )


class _Numberless:
    """Takes the place of the array of a `Batched`: a shape and a dtype without numbers."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.shape, self.dtype, self.ndim = shape, dtype, len(shape)
        self.size, self.itemsize = math.prod(shape), dtype.itemsize
        self.nbytes = self.size * self.itemsize
        self.strides = tuple(math.prod(shape[axis + 1 :]) * dtype.itemsize for axis in range(self.ndim))
        self.flags = SimpleNamespace(c_contiguous=True, writeable=True, f_contiguous=self.ndim < 2)

    @property
    def real(self) -> _Numberless:
        return _Numberless(self.shape, dtype_of(self).to_real().dtype)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        _refuse()


_ASKED_FOR_NUMBERS = """
    array getitem setitem len iter bool eq ne lt le gt ge add radd sub rsub mul rmul truediv rtruediv matmul neg abs
    invert and or xor pow mod floordiv contains
"""
for _name in _ASKED_FOR_NUMBERS.split():
    setattr(_Numberless, f"__{_name}__", _refuse)
_Numberless.__hash__ = object.__hash__  # type: ignore[method-assign]


class Batched(Tensor):
    """One sample of a batch, `value`, at a level."""

    __slots__ = ("level", "value")

    level: Level
    value: Tensor

    @classmethod
    def of(cls, value: Tensor, level: Level) -> Batched:
        """The sample of a tensor whose first dimension is the batch."""
        made = object.__new__(cls)
        made._array = _Numberless(tuple(value.shape)[1:], value._array.dtype)  # type: ignore[assignment]
        made._node = made._state = made._cell = None
        made.value, made.level = value, level
        return made

    @property  # type: ignore[misc]
    def requires_grad(self) -> bool:
        return self.value.requires_grad

    @property
    def is_leaf(self) -> bool:
        return self.value.is_leaf

    @property
    def grad_fn(self) -> Any:
        return self.value.grad_fn

    @property  # type: ignore[misc]
    def data(self) -> Tensor:
        return self.detach()

    def detach(self) -> Tensor:
        return Batched.of(self.value.detach(), self.level)

    def contiguous(self, memory_format: Any = None) -> Tensor:  # type: ignore[override]
        return Batched.of(self.value.contiguous(), self.level)

    def copy_(self, other: Any, non_blocking: bool = False) -> Tensor:
        return registry["copy"].apply((self, other), {}, self)

    def fill_(self, value: Any) -> Tensor:
        self.value.fill_(value) if not isinstance(value, Batched) else registry["fill"].apply((self, value), {}, self)
        return self

    def __iter__(self) -> Iterator[Tensor]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d tensor; expected at least one dimension")
        return iter(self.unbind(0))

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of a 0-d tensor; expected at least one dimension")
        return self.shape[0]

    def __getitem__(self, key: Any) -> Tensor:
        if _reads_by_position(key):
            return Batched.of(self.value[(slice(None), *(key if isinstance(key, tuple) else (key,)))], self.level)
        return loop_samples(self.level, operator.getitem, (self, key), {})

    def __setitem__(self, key: Any, value: Any) -> None:
        held = key if isinstance(key, tuple) else (key,)
        if not _reads_by_position(key) or (isinstance(value, Batched) and value.level is not self.level):
            loop_samples(self.level, operator.setitem, (self, key, value), {})
            return
        place = self.value[(slice(None), *held)]
        if isinstance(value, Batched):
            missing = place.ndim - value.value.ndim
            value = value.value.reshape((value.level.size, *(1,) * max(missing, 0), *value.shape))
        self.value[(slice(None), *held)] = value

    def __repr__(self) -> str:
        return f"Batched(shape={list(self.shape)}, dtype={self.dtype!r}, batch of {self.level.size})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return Batched.of(self.value.clone(), self.level)


def _reads_by_position(key: Any) -> bool:
    """Whether an index after the batch dimension means the same as for one sample.

    It may contain ints, slices, None and Ellipsis, and at most one tensor of indices, equal for all samples, beside
    slices only.
    """
    held = key if isinstance(key, tuple) else (key,)
    others = [each for each in held if not isinstance(each, (int, slice, type(None), type(Ellipsis))) or each is True]
    if not others:
        return not any(isinstance(each, bool) for each in held)
    first: Any = others[0]
    plain = len(others) == 1 and isinstance(first, Tensor) and not isinstance(first, Batched)
    return plain and first.dtype.category == 1 and not any(isinstance(each, int) for each in held)


def highest_level(*values: Any) -> Level | None:
    """The innermost level that has a `Batched` in nested values."""
    found: set[Level] = set()
    for each in values:
        if isinstance(each, Batched):
            found.add(each.level)
        elif isinstance(each, (tuple, list)):
            level = highest_level(*each)
            found |= {level} if level is not None else set()
        elif isinstance(each, dict):
            level = highest_level(*each.values())
            found |= {level} if level is not None else set()
    return next((level for level in reversed(active_levels()) if level in found), None)


def physical(value: Tensor, level: Level) -> Tensor:
    """A tensor with the batch of a level as first dimension, repeated where it is the same for all."""
    if isinstance(value, Batched) and value.level is level:
        return value.value
    return value.expand((level.size, *value.shape))


def lower(tensor: Tensor, levels: tuple[Level, ...]) -> Tensor:
    """A tensor with the batches of all levels as first dimensions, the outermost first."""
    for level in reversed(levels):
        tensor = physical(tensor, level)
    return tensor


def lift(tensor: Tensor, levels: tuple[Level, ...]) -> Tensor:
    """The inverse of `lower`."""
    for level in levels:
        tensor = Batched.of(tensor, level)
    return tensor


class enter:
    """Run the block at these levels; while any runs, every call looks for batched operands."""

    __slots__ = ("_levels", "_outer")

    def __init__(self, levels: tuple[Level, ...]) -> None:
        self._levels = levels

    def __enter__(self) -> None:
        self._outer = _levels.get(), _depth.get()
        _count(1)
        _depth.set(self._outer[1] + 1)
        _levels.set(self._levels)

    def __exit__(self, *exception: object) -> None:
        _count(-1)
        _depth.set(self._outer[1])
        _levels.set(self._outer[0])


def _count(change: int) -> None:
    global _running
    with _lock:
        _running += change
        instrumentation.batching, instrumentation.drawing = (
            (_dispatch_batched, _before_drawing) if _running else (None, None)
        )


restorable(_levels)
restorable(_depth, int, _count)


def _sample(value: Any, level: Level, index: int) -> Any:
    """The arguments of one sample."""
    if isinstance(value, Batched) and value.level is level:
        return value.value[index]
    if isinstance(value, (tuple, list)):
        made = [_sample(each, level, index) for each in value]
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    if isinstance(value, dict):
        return {name: _sample(each, level, index) for name, each in value.items()}
    return value


@restore_on_failure
def loop_samples(level: Level, function: Callable[..., Any], args: tuple, named: dict[str, Any]) -> Any:
    """Call a function once per sample, and stack the returned tensors. A sample is a view of the batch, and may be
    written to."""
    levels = active_levels()
    with enter(tuple(each for each in levels if each is not level)):
        found = [function(*_sample(args, level, index), **_sample(named, level, index)) for index in range(level.size)]
    return _stack(found, level)


def _stack(results: list[Any], level: Level) -> Any:
    first = results[0]
    if isinstance(first, Tensor):
        if len({tuple(each.shape) for each in results}) > 1:
            _refuse()
        return Batched.of(stack(results), level)
    if isinstance(first, (tuple, list)):
        parts = [_stack(list(each), level) for each in zip(*results, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
    if any(each != first for each in results[1:]):
        _refuse()
    return first


apply: Any = None
"""Calls a function with batched operands of a level by its rule: `rules`, which stands on this module, puts it here."""


def _dispatch_batched(function: Any, args: tuple, named: dict[str, Any], into: Tensor | None = None) -> Any:
    """The result of a call with batched operands; NotImplemented without any, or if it runs unchanged."""
    level = highest_level(args, named)
    if level is None:
        return NotImplemented
    return apply(level, function, args, named, into)


def _loop_for_values(error: ValuesNeeded, function: Callable[..., Any], args: tuple, named: dict[str, Any]) -> Any:
    """Call a function once per sample, since it needs numbers. Raises the error if nothing is batched."""
    level = highest_level(args, named)
    if level is None and error.level in active_levels():
        level = error.level
    if level is None or getattr(function, "__module__", "").startswith("minitorch_backends.func"):
        raise error
    result = loop_samples(level, function, args, named)
    return args[0] if function.__name__.endswith("_") and args else result


instrumentation.values_needed = _loop_for_values


def _before_drawing() -> None:
    """Called before random numbers are drawn."""
    for level in reversed(active_levels()):
        if level.randomness == "error":
            raise RuntimeError(
                "vmap(): the function draws random numbers; pass randomness='different' for others in each sample, or "
                "'same' for the same in all"
            )
        if level.randomness == "different":
            error = ValuesNeeded("vmap(): random numbers are drawn outside of a function of this package")
            error.level = level
            raise error
