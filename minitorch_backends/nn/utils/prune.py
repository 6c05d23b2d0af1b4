"""Pruning: masking of parameters, by element or by slice, before each forward.

A pruned parameter `weight` is `weight_orig`, with the buffer `weight_mask`; `weight` is their product.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...dispatch.call_errors import argument_errors
from ...ops.creation.factories import ones_like
from ...ops.creation.sampling import rand_like
from ...ops.views.join import cat
from ...tensor.tensor import Tensor
from ..module import Module

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer",
    "RandomStructured", "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity", "is_pruned",
    "l1_unstructured", "ln_structured", "random_structured", "random_unstructured", "remove",
]  # fmt: skip


def _methods(module: Module) -> dict[str, Any]:
    """For each pruned tensor the method, and the handle of its hook."""
    return vars(module).setdefault("_pruned", {})


class BasePruningMethod:
    """The base of all methods: a subclass defines `compute_mask`, and `PRUNING_TYPE`.

    With "unstructured" it sees the numbers that are not masked yet, with "structured" the slices along its attribute
    `dim` that are not, with "global" all.
    """

    PRUNING_TYPE = "unstructured"
    _tensor_name: str = ""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask of a tensor by its importance `t`, with 0 for pruned elements. `default_mask` is the previous
        mask."""
        raise NotImplementedError(f"{type(self).__name__} has no compute_mask; define it")

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    def apply_mask(self, module: Module) -> Tensor:
        """The tensor times its mask."""
        original = getattr(module, f"{self._tensor_name}_orig")
        return getattr(module, f"{self._tensor_name}_mask").to(original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune the parameter `name` of a module, once more if it is pruned; returns the method."""
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        value = getattr(module, name)
        scores = value if importance_scores is None else importance_scores
        if scores.shape != value.shape:
            raise AssertionError(
                f"importance_scores must have the shape of {name!r}, {list(value.shape)}, got {list(scores.shape)}"
            )
        held = _methods(module).get(name)
        if held is None:
            mask = method.compute_mask(scores.detach(), ones_like(value).detach())
            delattr(module, name)
            setattr(module, f"{name}_orig", value)
        else:
            before, handle = held
            container = before if isinstance(before, PruningContainer) else PruningContainer(before)
            container.add_pruning_method(method)
            mask, method = container.compute_mask(scores.detach(), getattr(module, f"{name}_mask")), container
            handle.remove()
        module.register_buffer(f"{name}_mask", mask)
        _methods(module)[name] = method, module.register_forward_pre_hook(method)
        method(module, ())
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """The tensor with a mask by `importance_scores`, by default itself."""
        scores = t if importance_scores is None else importance_scores
        return t * self.compute_mask(scores, ones_like(t) if default_mask is None else default_mask)

    def remove(self, module: Module) -> None:
        """Make the masked tensor the parameter again, for good."""
        name = self._tensor_name
        _methods(module).pop(name)[1].remove()
        original, value = getattr(module, f"{name}_orig"), self.apply_mask(module).detach()
        for each in (name, f"{name}_orig", f"{name}_mask"):
            delattr(module, each)
        original.data = value
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Several methods that were applied to one parameter, in their order."""

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Put a method of the same tensor behind the others."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        self._tensor_name = self._tensor_name or method._tensor_name
        if method._tensor_name != self._tensor_name:
            raise ValueError(
                f"a PruningContainer of {self._tensor_name!r} must have methods of it, got {method._tensor_name!r}"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> BasePruningMethod:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        method, mask = self._pruning_methods[-1], default_mask.clone()
        left: Any = slice(None)
        if method.PRUNING_TYPE == "unstructured":
            left = mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = method.dim % t.ndim  # type: ignore[attr-defined]
            kept = mask.sum([axis for axis in range(t.ndim) if axis != dim]) != 0
            left = (slice(None),) * dim + (kept,)
        elif method.PRUNING_TYPE != "global":
            raise ValueError(f"PRUNING_TYPE must be unstructured, structured or global, got {method.PRUNING_TYPE!r}")
        mask[left] = method.compute_mask(t[left], mask[left]).to(mask.dtype)
        return mask


def _count(amount: float, size: int) -> int:
    """The number of pruned elements among `size`: `amount`, a count or a share. Raises ValueError for other amounts."""
    if isinstance(amount, bool) or not isinstance(amount, (int, float)):
        raise TypeError(f"amount must be a number, got {amount!r}")
    if amount < 0 or (isinstance(amount, float) and amount > 1) or amount > max(size, 1):
        raise ValueError(f"amount must be a share from 0 to 1, or a number up to {size}, got {amount}")
    return amount if isinstance(amount, int) else round(amount * size)


class Identity(BasePruningMethod):
    """Prunes nothing, which gives a parameter its mask."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class _Scored(BasePruningMethod):
    """Prunes the `amount` of lowest scores: of numbers, or of slices along `dim`."""

    def __init__(self, amount: float) -> None:
        _count(amount, 2**62)
        self.amount = amount

    def _scores(self, t: Tensor) -> Tensor:
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        scores = self._scores(t)
        lowest = scores.reshape(-1).topk(_count(self.amount, scores.numel()), largest=False).indices
        kept = ones_like(scores).reshape(-1)
        kept[lowest] = 0
        return default_mask * kept.reshape(scores.shape).to(default_mask.dtype)


class RandomUnstructured(_Scored):
    """Prunes numbers at random."""

    def _scores(self, t: Tensor) -> Tensor:
        return rand_like(t)


class L1Unstructured(_Scored):
    """Prunes the numbers of the smallest magnitude."""

    def _scores(self, t: Tensor) -> Tensor:
        return t.abs()


class _OfSlices(_Scored):
    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def _norms(self, t: Tensor, n: Any) -> Tensor:
        if not -t.ndim <= self.dim < t.ndim:
            raise IndexError(f"dim must name one of {t.ndim} dimensions, got {self.dim}")
        others = [axis for axis in range(t.ndim) if axis != self.dim % t.ndim]
        return t.norm(n, others, True) if others else t.abs()


class RandomStructured(_OfSlices):
    """Prunes slices along `dim` at random."""

    def _scores(self, t: Tensor) -> Tensor:
        return rand_like(self._norms(t, 2))


class LnStructured(_OfSlices):
    """Prunes the slices along `dim` of the smallest norm of order `n`."""

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _scores(self, t: Tensor) -> Tensor:
        return self._norms(t, self.n)


class CustomFromMask(BasePruningMethod):
    """Prunes the elements where a mask is zero."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask * self.mask.to(default_mask.dtype)


@argument_errors
def identity(module: Module, name: str) -> Module:
    """Give a parameter a mask that prunes nothing."""
    Identity.apply(module, name)
    return module


@argument_errors
def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prune numbers of a parameter at random: `amount`, or that share."""
    RandomUnstructured.apply(module, name, amount)
    return module


@argument_errors
def l1_unstructured(module: Module, name: str, amount: float, importance_scores: Tensor | None = None) -> Module:
    """Prune the numbers of the smallest magnitude, of a parameter or of `importance_scores`: `amount` of them, or that
    share."""
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


@argument_errors
def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prune slices along `dim` at random: `amount`, or that share."""
    RandomStructured.apply(module, name, amount, dim)
    return module


@argument_errors
def ln_structured(
    module: Module, name: str, amount: float, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Prune the slices along `dim` of the smallest norm of order `n`: `amount`, or that share."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


@argument_errors
def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune the elements where a mask is zero."""
    CustomFromMask.apply(module, name, mask)
    return module


@argument_errors
def global_unstructured(
    parameters: Any, pruning_method: type[BasePruningMethod], importance_scores: Any = None, **kwargs: Any
) -> None:
    """Prune several parameters, pairs of a module and a name, as if they were one vector.

    `importance_scores` is a dict from such pairs to tensors; others stand for themselves.
    """
    pairs, given = list(parameters), importance_scores or {}
    if pruning_method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f"global_unstructured(): pruning_method must be unstructured, got one that is {pruning_method.PRUNING_TYPE}"
        )
    scores = [given.get(pair, getattr(*pair)).detach().reshape(-1) for pair in pairs]
    found = [getattr(module, f"{name}_mask", None) for module, name in pairs]
    masks = [ones_like(score) if mask is None else mask.reshape(-1) for mask, score in zip(found, scores, strict=True)]
    vector = PruningContainer(pruning_method(**kwargs)).compute_mask(cat(scores), cat(masks))
    for (module, name), part in zip(pairs, vector.split([each.numel() for each in scores]), strict=True):
        custom_from_mask(module, name, part.reshape(getattr(module, name).shape))


@argument_errors
def remove(module: Module, name: str) -> Module:
    """Make a pruned tensor a parameter again, with zeros for good. Raises ValueError for one that is not pruned."""
    if name not in _methods(module):
        raise ValueError(f"Parameter {name!r} of module {module} has to be pruned before pruning can be removed")
    _methods(module)[name][0].remove(module)
    return module


def is_pruned(module: Module) -> bool:
    """Whether a parameter of the module, or of one below it, is pruned."""
    return any(vars(each).get("_pruned") for each in module.modules())
