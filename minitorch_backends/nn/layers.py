"""Layers: linear ones, embeddings, and changes of shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ..autograd.modes import derives
from ..ops.creation.factories import empty
from ..ops.matmul.linear import PackedWeight
from ..tensor.tensor import Parameter, Tensor
from . import functional as F
from . import init
from .module import Module

__all__ = ["Bilinear", "Embedding", "EmbeddingBag", "Flatten", "Identity", "Linear", "Unflatten"]


# With parameters


def _draw(weight: Tensor, bias: Tensor | None, inputs: int) -> None:
    """Numbers uniform within 1 / sqrt(inputs)."""
    bound = 1 / math.sqrt(inputs) if inputs else 0.0
    for each in (weight, bias):
        if each is not None:
            init.uniform_(each, -bound, bound)


class Linear(Module):
    """input @ weight.T + bias, for inputs (..., in_features).

    Weights and biases start uniform within 1 / sqrt(in_features), as in torch.
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(empty(out_features, in_features, device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(empty(out_features, device=device, dtype=dtype)) if bias else None)
        self._packed = PackedWeight()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialise weights and biases."""
        _draw(self.weight, self.bias, self.in_features)

    def forward(self, input: Tensor) -> Tensor:
        if derives():
            return F.linear(input, self.weight, self.bias)
        return self._packed.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """The sums of input1[..., i] * weight[o, i, j] * input2[..., j] over i and j, plus a bias.

    Inputs are (..., in1_features) and (..., in2_features). Weights and biases start uniform within 1 /
    sqrt(in1_features), as in torch.
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if in1_features < 1:
            raise ValueError(f"in1_features must be > 0, but got {in1_features}")
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = Parameter(empty(out_features, in1_features, in2_features, device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(empty(out_features, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialise weights and biases."""
        _draw(self.weight, self.bias, self.in1_features)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        sizes = f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}"
        return f"{sizes}, bias={self.bias is not None}"


class Embedding(Module):
    """The rows of `weight`, (num_embeddings, embedding_dim), that integers name.

    Rows start as normal numbers, and the row `padding_idx` as zeros; or `_weight` is used, without a copy. With
    `_freeze` they do not require gradients. The other options are those of `functional.embedding`.
    """

    weight: Parameter
    _OPTIONS: ClassVar = {"max_norm": None, "norm_type": 2.0, "scale_grad_by_freq": False, "sparse": False}

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError(f"padding_idx={padding_idx} must be within num_embeddings={num_embeddings}")
            padding_idx = padding_idx % num_embeddings  # a copy: the caller owns an index tensor
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        if _weight is not None and tuple(_weight.shape) != (num_embeddings, embedding_dim):
            raise AssertionError(
                f"Embedding(): _weight must have shape {[num_embeddings, embedding_dim]}, got {list(_weight.shape)}; "
                "transpose it"
            )
        drawn = empty(num_embeddings, embedding_dim, device=device, dtype=dtype) if _weight is None else _weight
        self.weight = Parameter(drawn, not _freeze)
        if _weight is None:
            self.reset_parameters()

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """An embedding of given rows, without a copy, which do not require gradients if `freeze`."""
        rows, columns = _matrix(cls.__name__, embeddings)
        return cls(
            rows, columns, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, embeddings, _freeze=freeze
        )  # fmt: skip

    def reset_parameters(self) -> None:
        """Reinitialise the rows."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            init.zeros_(self.weight.detach()[self.padding_idx])

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(input, self.weight, self.padding_idx, *(getattr(self, name) for name in self._OPTIONS))

    def extra_repr(self) -> str:
        options = {"padding_idx": None} | self._OPTIONS
        changed = [f", {name}={getattr(self, name)}" for name in options if getattr(self, name) != options[name]]
        return f"{self.num_embeddings}, {self.embedding_dim}{''.join(changed)}"


def _matrix(name: str, embeddings: Tensor) -> tuple[int, int]:
    """The sizes of given rows. Raises AssertionError for inputs that are not matrices."""
    if embeddings.ndim != 2:
        raise AssertionError(f"{name}.from_pretrained(): embeddings must be 2-dimensional, got {embeddings.ndim}-D")
    return embeddings.shape[0], embeddings.shape[1]


class EmbeddingBag(Module):
    """Sums, means or largest values of the rows of `weight`, (num_embeddings, embedding_dim), that bags of integers
    name.

    Rows start as those of `Embedding`, or as `_weight`. The options are those of `functional.embedding_bag`.
    """

    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        rows = Embedding(num_embeddings, embedding_dim, padding_idx, device=device, dtype=dtype)
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, rows.padding_idx
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self.mode, self.sparse, self.include_last_offset = mode, sparse, include_last_offset
        if _weight is not None and _weight.shape != rows.weight.shape:
            raise AssertionError(
                f"EmbeddingBag(): _weight must have shape {list(rows.weight.shape)}, got {list(_weight.shape)}"
            )
        self.weight = rows.weight if _weight is None else Parameter(_weight)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """As `Embedding.from_pretrained`."""
        rows, columns = _matrix(cls.__name__, embeddings)
        made = cls(
            rows, columns, max_norm, norm_type, scale_grad_by_freq, mode, sparse, embeddings, include_last_offset,
            padding_idx,
        )  # fmt: skip
        made.weight.requires_grad_(not freeze)
        return made

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode, self.sparse,
            per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        defaults = {"max_norm": None, "norm_type": 2, "scale_grad_by_freq": False, "mode": None, "padding_idx": None}
        shown = [f", {name}={getattr(self, name)!r}" for name in defaults if getattr(self, name) != defaults[name]]
        return f"{self.num_embeddings}, {self.embedding_dim}{''.join(shown)}"


class Identity(Module):
    """Its input; takes any arguments and ignores them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def forward(self, input: Any) -> Any:
        return input


class Flatten(Module):
    """Dimensions `start_dim` to `end_dim` as one; by default all but the batch."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Split the dimension `dim` into the sizes `unflattened_size`; one may be -1."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
