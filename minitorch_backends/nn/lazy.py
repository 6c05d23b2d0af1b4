"""Lazy modules: layers that take the number of their input features or channels from the first input.

Until then their parameters are `UninitializedParameter`. The first call draws values as the constructor of
`cls_to_become` does, and the module becomes one. Call a lazy module once before an optimizer is made.
"""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from ..autograd.modes import no_grad
from ..tensor.tensor import Parameter, Tensor
from .convolution import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .layers import Linear
from .normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from .parameter import UninitializedBuffer, UninitializedParameter, is_lazy

__all__ = [
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d", "LazyConv3d",
    "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d",
    "LazyInstanceNorm3d", "LazyLinear",
]  # fmt: skip


class LazyModuleMixin:
    """A base, before `Module`, of modules with uninitialized parameters.

    The first call runs `initialize_parameters` with its arguments, which must materialize all of them, and makes the
    module a `cls_to_become`, unless that is None.
    """

    cls_to_become: ClassVar[type | None] = None

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialize parameters and buffers for these arguments of `forward`; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__} must define initialize_parameters(self, *args, **kwargs)")

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer of the module itself is not initialized."""
        return any(map(is_lazy, self._own_tensors().values()))  # type: ignore[attr-defined]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.cls_to_become is None and not self.has_uninitialized_params():
            return super().__call__(*args, **kwargs)  # type: ignore[misc]
        self.initialize_parameters(*args, **kwargs)
        if self.has_uninitialized_params():
            raise RuntimeError(f"{type(self).__name__}: initialize_parameters() must materialize all parameters")
        if self.cls_to_become is not None:
            self.__class__ = self.cls_to_become
        return self(*args, **kwargs)


class _FromInput(LazyModuleMixin):
    """A layer that is made like `cls_to_become`, without the first argument."""

    _defaults: ClassVar[dict[str, Any]] = {}
    _inferred: ClassVar[str]
    __signature__: ClassVar[inspect.Signature]

    def __init_subclass__(cls, cls_to_become: type | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls_to_become is not None:
            first, *others = inspect.signature(cls_to_become).parameters.values()
            cls.cls_to_become, cls._inferred = cls_to_become, first.name
            cls.__signature__ = inspect.Signature(
                [each.replace(default=cls._defaults.get(each.name, each.default)) for each in others]
            )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        bound = self.__signature__.bind(*args, **kwargs)
        self._options = self._defaults | bound.arguments
        super().__init__(0, **self._options)  # type: ignore[call-arg]
        for name, held in self._own_tensors().items():  # type: ignore[attr-defined]
            if name != "num_batches_tracked":
                kind = UninitializedParameter if isinstance(held, Parameter) else UninitializedBuffer
                setattr(self, name, kind(dtype=held.dtype))

    def _size(self, input: Tensor) -> int:
        return input.shape[1]

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Draw values for the features or channels of this input, where a state dict has given none."""
        size = self._size(input)
        lazy = {name: each for name, each in self._own_tensors().items() if is_lazy(each)}  # type: ignore[attr-defined]
        if lazy:
            dtype = next(iter(lazy.values())).dtype
            drawn = self.cls_to_become(size, **self._options | {"dtype": dtype})  # type: ignore[misc]
            with no_grad():
                for name, each in lazy.items():
                    each.materialize(getattr(drawn, name).shape)
                    each.copy_(getattr(drawn, name))
        setattr(self, self._inferred, size)


class LazyLinear(_FromInput, Linear, cls_to_become=Linear):
    """A `Linear` whose `in_features` is the last size of the first input."""

    def _size(self, input: Tensor) -> int:
        return input.shape[-1]


class _LazyConvolution(_FromInput):
    dims: int

    def _size(self, input: Tensor) -> int:
        if input.ndim not in (self.dims + 1, self.dims + 2):
            raise RuntimeError(
                f"{type(self).__name__}: input must have {self.dims + 1} or {self.dims + 2} dimensions, got shape "
                f"{list(input.shape)}"
            )
        return input.shape[-self.dims - 1]


class _LazyNorm(_FromInput):
    _defaults: ClassVar = {"affine": True, "track_running_stats": True}

    def _size(self, input: Tensor) -> int:
        self._refuse(input)  # type: ignore[attr-defined]
        return input.shape[1]


class LazyConv1d(_LazyConvolution, Conv1d, cls_to_become=Conv1d):
    """A `Conv1d` whose `in_channels` are those of the first input."""


class LazyConv2d(_LazyConvolution, Conv2d, cls_to_become=Conv2d):
    """A `Conv2d` whose `in_channels` are those of the first input."""


class LazyConv3d(_LazyConvolution, Conv3d, cls_to_become=Conv3d):
    """A `Conv3d` whose `in_channels` are those of the first input."""


class LazyConvTranspose1d(_LazyConvolution, ConvTranspose1d, cls_to_become=ConvTranspose1d):
    """A `ConvTranspose1d` whose `in_channels` are those of the first input."""


class LazyConvTranspose2d(_LazyConvolution, ConvTranspose2d, cls_to_become=ConvTranspose2d):
    """A `ConvTranspose2d` whose `in_channels` are those of the first input."""


class LazyConvTranspose3d(_LazyConvolution, ConvTranspose3d, cls_to_become=ConvTranspose3d):
    """A `ConvTranspose3d` whose `in_channels` are those of the first input."""


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d, cls_to_become=BatchNorm1d):
    """A `BatchNorm1d` whose `num_features` are the channels of the first input."""


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d, cls_to_become=BatchNorm2d):
    """A `BatchNorm2d` whose `num_features` are the channels of the first input."""


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d, cls_to_become=BatchNorm3d):
    """A `BatchNorm3d` whose `num_features` are the channels of the first input."""


class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d, cls_to_become=InstanceNorm1d):
    """An `InstanceNorm1d`, with weights and statistics, whose `num_features` are the channels of the first input."""


class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d, cls_to_become=InstanceNorm2d):
    """An `InstanceNorm2d`, with weights and statistics, whose `num_features` are the channels of the first input."""


class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d, cls_to_become=InstanceNorm3d):
    """An `InstanceNorm3d`, with weights and statistics, whose `num_features` are the channels of the first input."""
