"""Hooks on the tensors that the graph saves: store them elsewhere, recompute them, or keep originals across writes.

The hooks belong to the current thread or task. Version checks stay on: a tensor returned by `unpack_hook` is rejected
if it shares memory with the saved tensor and that memory was written to since. (torch does not check this.)
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from ...flags.scopes import Scope
from ...kernels.runtime.context import chain_length, restorable, restore_on_failure
from ...kernels.runtime.locks import lock
from ...tensor import instrumentation
from ...tensor.tensor import Tensor, adopt, kind_of, sharing
from .. import nodes
from ..modes import no_grad
from ..nodes import SELF, Node, Output, Packed, like, stale
from ..versions import cell_of


class _Level:
    """One level of hooks, and the enclosing level. (`Scope` describes how blocks enter and leave levels.)"""

    __slots__ = ("disabled", "pack", "parent", "unpack")

    def __init__(self, parent: _Level | None, pack: Any, unpack: Any, disabled: str | None) -> None:
        self.parent, self.pack, self.unpack, self.disabled = parent, pack, unpack, disabled


_level: ContextVar[_Level | None] = ContextVar("saved_tensors_hooks", default=None)
_lock = lock()
_blocks = 0


def count_blocks(change: int) -> None:
    """Count the active blocks in all threads. Without any, saving and writing skip the hooks."""
    global _blocks
    with _lock:
        if not _blocks + change and nodes.keep_originals is not None:
            nodes.keep_originals = None
            instrumentation.observe_calls(-1)
        _blocks += change
        nodes.pack = _pack if _blocks else None
        nodes.packed_before = True


restorable(_level, chain_length, count_blocks)


class _Hooking(Scope):
    __slots__ = ()

    def _inside(self, outer: _Level | None) -> _Level:
        raise NotImplementedError

    def __enter__(self) -> Any:
        level = self._inside(_level.get())
        count_blocks(1)
        _level.set(level)

    def __exit__(self, *exception: object) -> None:
        level = _level.get()
        if level is not None:
            count_blocks(-1)
            _level.set(level.parent)


class saved_tensors_hooks(_Hooking):
    """Save `pack_hook(tensor)` in place of every tensor that ops save in the block. Backward uses `unpack_hook` of it.

    `pack_hook` is called once per saved tensor, when it is saved. The call is not recorded, and must not write to the
    tensor. Only the innermost of nested blocks is active.
    """

    __slots__ = ("pack_hook", "unpack_hook")

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def _inside(self, outer: _Level | None) -> _Level:
        if outer is not None and outer.disabled is not None:
            raise RuntimeError(outer.disabled)
        return _Level(outer, self.pack_hook, self.unpack_hook, None)


class save_on_cpu(saved_tensors_hooks):
    """`saved_tensors_hooks` that keep saved tensors in CPU memory, where all tensors already are.

    `pin_memory` and `device_type` exist for portable code and have no effect.
    """

    __slots__ = ()

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda tensor: (tensor.device, tensor), lambda packed: packed[1])


class disable_saved_tensors_hooks(_Hooking):
    """Make entering `saved_tensors_hooks` inside the block raise a RuntimeError with this message."""

    __slots__ = ("error_message",)

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message

    def _inside(self, outer: _Level | None) -> _Level:
        return _Level(outer, None, None, self.error_message)


# Packed tensors


def _pack(tensor: Tensor, edge: Any) -> Any:
    """The entry that `nodes.save` stores for a tensor under the innermost hooks; None without hooks."""
    level = _level.get()
    if level is None or level.pack is None:
        return None if instrumentation.duals is None else instrumentation.duals.save(tensor, edge)
    if isinstance(level.pack, _Originals):
        return level.pack.keep(tensor, edge)
    return _PackedTensor(tensor, edge, level.pack, level.unpack)


class _PackedTensor(Packed):
    """The result of a pack hook for a saved tensor."""

    __slots__ = ("cell", "edge", "unpack_hook", "value", "version")

    @restore_on_failure
    def __init__(self, tensor: Tensor, edge: Any, pack_hook: Any, unpack_hook: Any) -> None:
        alias = sharing(tensor, tensor._array)
        self.edge, self.unpack_hook, self.cell, self.version = edge, unpack_hook, alias._cell, version_of(alias)
        self.like = like(tensor._array)
        with no_grad():
            self.value = pack_hook(
                alias if edge is SELF else tensor
            )  # shows the tensor's history, unless it is this node
        if alias._cell[0] != self.version:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place, which later users of the tensor would "
                "see; write to a clone() instead"
            )

    def unpack(self, node: Node, name: str, create_graph: bool, index: int | None) -> Tensor:
        result = self.unpack_hook(self.value)
        if not isinstance(result, Tensor):
            raise TypeError(f"an unpack hook must return a Tensor, got {kind_of(result)}")
        if result._cell is self.cell and self.cell[0] != self.version:
            raise stale(node, name, (result._array, self.edge, self.cell, self.version))
        tensor = adopt(result._array, edge_of(self.edge, node, create_graph, index))
        tensor._cell = result._cell
        return tensor


def version_of(tensor: Tensor) -> int:
    try:
        return tensor._cell[0]
    except RuntimeError:
        raise tensor._cell.refusal(tensor) from None


def edge_of(edge: Any, node: Node, create_graph: bool, index: int | None) -> Any:
    """The node of an unpacked tensor."""
    if not create_graph:
        return None
    if edge is SELF:
        return node if index is None else Output(node, index)
    return edge


class SavedTensor:
    """One saved tensor of a node, `grad_fn._raw_saved_<name>`, on which hooks can be registered."""

    __slots__ = ("name", "node")

    def __init__(self, node: Node, name: str) -> None:
        self.node, self.name = node, name

    def register_hooks(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        """Replace the saved tensor by `pack_hook` of it. Raises RuntimeError on a second call and after release."""
        entry = self.node.saved.get(self.name)
        if isinstance(entry, Packed):
            raise RuntimeError(
                f"hooks on {self.name!r} of {self.node.name()} have already been registered; they "
                "can be registered only once"
            )
        if type(entry) is not tuple:
            raise RuntimeError(
                f"{self.node.name()} does not hold a tensor {self.name!r} (any more), so it cannot be packed"
            )
        array, edge, cell, version = entry
        tensor = adopt(array, None if edge is SELF else edge)
        tensor._cell = cell
        if cell[0] != version:
            raise stale(self.node, self.name, entry)
        nodes.packed_before = True
        self.node.saved[self.name] = _PackedTensor(tensor, edge, pack_hook, unpack_hook)


# Originals of saved tensors, for allow_mutation_on_saved_tensors


class Original(Packed):
    """A saved tensor that is copied before the first write to its memory."""

    __slots__ = ("__weakref__", "array", "cell", "edge", "version")

    def __init__(self, tensor: Tensor, edge: Any) -> None:
        alias = sharing(tensor, tensor._array)
        self.array, self.edge, self.cell, self.version = alias._array, edge, alias._cell, version_of(alias)
        self.like = like(alias._array)

    def unpack(self, node: Node, name: str, create_graph: bool, index: int | None) -> Tensor:
        if self.cell[0] != self.version:
            raise stale(node, name, (self.array, self.edge, self.cell, self.version))
        tensor = adopt(self.array, edge_of(self.edge, node, create_graph, index))
        tensor._cell = self.cell
        return tensor


class _Originals:
    """The saved tensors of one block, by the version counter of their memory."""

    def __init__(self) -> None:
        self.saved: dict[int, weakref.WeakSet[Original]] = {}

    def keep(self, tensor: Tensor, edge: Any) -> Original:
        entry = Original(tensor, edge)
        self.saved.setdefault(id(entry.cell), weakref.WeakSet()).add(entry)
        return entry

    def before_write(self, tensor: Tensor) -> None:
        """Copy the saved tensors on memory that is about to be written to."""
        for entry in self.saved.pop(id(tensor._cell), ()):
            if entry.cell is tensor._cell and entry.cell[0] == entry.version:
                entry.array, entry.cell, entry.version = entry.array.copy("K"), [0], 0

    def clear(self) -> None:
        """Forget the tensors saved so far; writes to them are errors again."""
        self.saved.clear()


def _keep_originals(tensor: Tensor) -> None:
    level = _level.get()
    while level is not None:
        if isinstance(level.pack, _Originals):
            level.pack.before_write(tensor)
        level = level.parent


class allow_mutation_on_saved_tensors(_Hooking):
    """Allow in-place writes to tensors that ops saved inside the block: gradients use the values from before the write.

    Such tensors are copied before the first write. The context's value has a method `clear()`, which ends this for the
    tensors saved so far.
    """

    __slots__ = ()

    def _inside(self, outer: _Level | None) -> _Level:
        if outer is not None and outer.disabled is not None:
            raise RuntimeError(outer.disabled)
        return _Level(outer, _Originals(), None, None)

    def __enter__(self) -> _Originals:
        super().__enter__()
        with _lock:
            if nodes.keep_originals is None:
                nodes.keep_originals = _keep_originals
                instrumentation.observe_calls(1)
        level: Any = _level.get()
        return level.pack


# Writes that version counters do not count


class _unsafe_preserve_version_counter(Scope):
    """Restore the versions of a tensor, or of a tuple of tensors, when the block ends: its writes are not counted.

    The versions are those at construction. Raises AssertionError for other values, RuntimeError for inference tensors.
    """

    __slots__ = ("_versions",)

    def __init__(self, tensors: Tensor | tuple[Tensor, ...]) -> None:
        given = (tensors,) if isinstance(tensors, Tensor) else tensors
        if not isinstance(given, tuple) or not all(isinstance(each, Tensor) for each in given):
            raise AssertionError(f"expected a Tensor or a tuple of Tensors, got {kind_of(tensors)}")
        self._versions = [(cell, cell[0]) for cell in map(cell_of, given)]

    def __call__(self, function: Any) -> Any:
        raise TypeError("_unsafe_preserve_version_counter cannot decorate a function; use it as a context manager")

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        for cell, version in self._versions:
            cell[0] = version
