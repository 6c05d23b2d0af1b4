"""Autograd attributes of `Tensor`: requires_grad, is_leaf, grad, backward, detach."""

from __future__ import annotations

from typing import Any

from ..kernels.runtime.context import warn_caller
from ..tensor.call_errors import install
from ..tensor.dtypes import FLOATING
from ..tensor.tensor import Tensor, kind_of, sharing
from .api import backward
from .inference import InferenceCell, refuse_inference
from .nodes import DEAD_END, Leaf, Node, history, owner, place
from .versions import DataCell
from .views import STALE, Former, View


def _not_a_leaf(tensor: Tensor) -> RuntimeError:
    node: Any = history(tensor)
    return RuntimeError(
        "you can only change requires_grad flags of leaf variables, and this tensor is the result of "
        f"{node.name()}; use tensor.detach()"
    )


def _requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Set whether this leaf requires gradients. Raises RuntimeError for results of operations, for integers, and for
    inference tensors outside inference mode."""
    if requires_grad is not True and requires_grad is not False:
        raise RuntimeError(f"requires_grad_(): requires_grad must be True or False, got {requires_grad!r}")
    node = history(self)
    if node is not None and type(node) is not Leaf:
        if requires_grad:
            return self
        raise _not_a_leaf(self)
    if requires_grad:
        if self.dtype.category < FLOATING:
            raise RuntimeError(
                f"only Tensors of floating point and complex dtype can require gradients, got {self.dtype!r}; "
                "cast with .to(mt.float32) first"
            )
        refuse_inference(self, "Setting requires_grad=True on inference tensor")
        if node is None or node is DEAD_END:
            self._node = getattr(self._state, "hooked_leaf", None) or Leaf(self)
            if self._cell is not None:  # existing views of it follow from now on
                self.state.rewrites += 1
    else:
        if node is not None and node is not DEAD_END and node.hooks is not None:
            self.state.hooked_leaf = node
        self._node = STALE if type(self._state) is View else None
    return self


def _requires_grad(self: Tensor) -> bool:
    node = self._node
    if node is None or type(node) is Leaf or type(self._state) is not View:
        return node is not None
    return self._state.requires_grad()


def _set_requires_grad(self: Tensor, requires_grad: bool) -> None:
    if not _is_leaf(self):
        raise _not_a_leaf(self)
    _requires_grad_(self, requires_grad)


def _delete_requires_grad(self: Tensor) -> None:
    raise RuntimeError("requires_grad cannot be deleted; set it to False")


def _is_leaf(self: Tensor) -> bool:
    node = history(self)
    return node is None or type(node) is Leaf


def _grad_fn(self: Tensor) -> Node | None:
    node = history(self)
    return None if node is None or type(node) is Leaf else owner(node)


def _output_nr(self: Tensor) -> int:
    node = history(self)
    return 0 if node is None else place(node)[1]


def _base(self: Tensor) -> Tensor | None:
    base = None if self._state is None else self._state.base
    if type(base) is Former:
        base = base.successor()
    return None if base is self else base


def _is_view(self: Tensor) -> bool:
    """Whether this tensor is a view: it shares the memory of a base and follows its history."""
    return _base(self) is not None


def _grad(self: Tensor) -> Tensor | None:
    state = self._state
    if state is not None and state.grad is not None:
        return state.grad
    if self._node is not None and not (_is_leaf(self) or self.retains_grad):
        warn_caller(
            "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed, and backward does not fill "
            "it; call retain_grad() on it before backward, or use autograd.grad"
        )
    return None


def _set_grad(self: Tensor, value: Tensor | None) -> None:
    if value is not None:
        if not isinstance(value, Tensor):
            raise TypeError(f"grad must be a Tensor or None, got {kind_of(value)}")
        if value is self:
            raise RuntimeError("a tensor can't be its own grad; assign a clone()")
        if value._array.shape != self._array.shape or value._array.dtype != self._array.dtype:
            raise RuntimeError(
                f"assigned grad must be {self.dtype!r}{list(self.shape)} like the tensor, got "
                f"{value.dtype!r}{list(value.shape)}"
            )
    self.state.grad = value


def _delete_grad(self: Tensor) -> None:
    self.state.grad = None


_pass = backward.__wrapped__  # type: ignore[attr-defined]  # errors are named once, for the method


def _backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradients of this tensor to `.grad` of the leaves that it depends on; see `autograd.backward`."""
    _pass(self, gradient, retain_graph, create_graph, inputs=inputs)


def _detach(self: Tensor) -> Tensor:
    """A tensor that shares this one's memory and version counter, without its history."""
    return sharing(self, self._array)


def _detach_(self: Tensor) -> Tensor:
    """Drop this tensor's history: it becomes a leaf that does not require a gradient. Raises RuntimeError for a
    view."""
    if self._is_view():
        raise RuntimeError("can't detach views in-place, since the base would keep its history; use detach()")
    self._node = None
    return self


def _data(self: Tensor) -> Tensor:
    alias = sharing(self, self._array)
    if type(self._cell) is not InferenceCell:
        alias._cell = DataCell(self)
    return alias


def _set_data(self: Tensor, value: Tensor) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"data must be a Tensor, got {kind_of(value)}")
    if self.requires_grad and value.dtype.category < FLOATING:
        raise RuntimeError(
            f"data set to a tensor that requires gradients must be floating point or complex, got {value.dtype!r}"
        )
    self._array = value._array


def _version(self: Tensor) -> int:
    if type(self._cell) is InferenceCell:
        raise RuntimeError("Inference tensors do not track version counter; use clone() outside inference mode")
    return 0 if self._cell is None else self._cell[0]


_methods: dict[str, Any] = {
    "requires_grad_": _requires_grad_,
    "requires_grad": property(
        _requires_grad, _set_requires_grad, _delete_requires_grad, doc="Whether operations on this tensor are recorded."
    ),
    "is_leaf": property(_is_leaf, doc="Whether this tensor is not the result of a recorded operation."),
    "grad_fn": property(_grad_fn, doc="The node of the operation that made this tensor, or None for a leaf."),
    "output_nr": property(_output_nr, doc="The index of this tensor among the results of `grad_fn`."),
    "_base": property(_base, doc="The tensor that this one is a view of, or None."),
    "_is_view": _is_view,
    "grad": property(_grad, _set_grad, _delete_grad, doc="The gradient accumulated by backward passes, or None."),
    "detach": _detach,
    "detach_": _detach_,
    "_version": property(_version, doc="The number of in-place writes to this tensor's memory."),
    "data": property(
        _data, _set_data, doc="This tensor's memory, without history and with a version counter of its own."
    ),
}
for _name, _method in _methods.items():
    setattr(Tensor, _name, _method)
install(backward=_backward)
