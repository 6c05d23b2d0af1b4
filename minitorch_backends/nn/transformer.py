"""Transformers (A. Vaswani et al., "Attention is all you need", 2017): layers, stacks, and both as one model."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ..ops.creation.factories import full
from ..tensor.tensor import Tensor
from . import functional as F
from . import init
from .container import ModuleList
from .dropout import Dropout
from .layers import Linear
from .module import Module
from .module_internals import refuse_beyond_memory
from .multihead import MultiheadAttention
from .normalization import LayerNorm

__all__ = [
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer",
]  # fmt: skip

Activation = Callable[[Tensor], Tensor]

_ACTIVATIONS: dict[str, Activation] = {"relu": F.relu, "gelu": F.gelu}


def _activation_of(given: str | Activation) -> Activation:
    if not isinstance(given, str):
        return given
    if given not in _ACTIVATIONS:
        raise RuntimeError(f"activation should be relu/gelu, or a function of a tensor, not {given}")
    return _ACTIVATIONS[given]


# Layers


class _Layer(Module):
    """Common base: attention, two linear layers with an activation between them, and a normalisation before each part
    (`norm_first`) or after its residual sum."""

    _parts = 2

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        def attention() -> MultiheadAttention:
            return MultiheadAttention(
                d_model, nhead, dropout, bias, batch_first=batch_first, device=device, dtype=dtype
            )

        self.self_attn = attention()
        if self._parts == 3:
            self.multihead_attn = attention()
        self.linear1 = Linear(d_model, dim_feedforward, bias, device, dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, device, dtype)
        self.norm_first = norm_first
        for number in range(1, self._parts + 1):
            setattr(self, f"norm{number}", LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype))
        for number in range(1, self._parts + 1):
            setattr(self, f"dropout{number}", Dropout(dropout))
        self.activation = _activation_of(activation)

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def _through(self, x: Tensor, *parts: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply the parts one after another, each with a residual connection."""
        for number, part in enumerate(parts, 1):
            norm, dropout = getattr(self, f"norm{number}"), getattr(self, f"dropout{number}")
            x = x + dropout(part(norm(x))) if self.norm_first else norm(x + dropout(part(x)))
        return x


class TransformerEncoderLayer(_Layer):
    """Self-attention of a sequence, and two linear layers.

    Call it with a sequence (L, N, d_model), with N first if `batch_first`, or without N. `src_mask` and
    `src_key_padding_mask` are the masks of `MultiheadAttention`; `activation` is "relu", "gelu" or a function.
    """

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            return self.self_attn(
                x, x, x, src_key_padding_mask, need_weights=False, attn_mask=src_mask, is_causal=is_causal
            )[0]

        return self._through(src, attend, self._feed_forward)


class TransformerDecoderLayer(_Layer):
    """Attention of a sequence to itself, then to `memory`, and two linear layers; called as `TransformerEncoderLayer`
    is, with the memory second and with masks of its own."""

    _parts = 3

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            return self.self_attn(
                x, x, x, tgt_key_padding_mask, need_weights=False, attn_mask=tgt_mask, is_causal=tgt_is_causal
            )[0]

        def attend_to_memory(x: Tensor) -> Tensor:
            return self.multihead_attn(
                x, memory, memory, memory_key_padding_mask, need_weights=False, attn_mask=memory_mask,
                is_causal=memory_is_causal,
            )[0]  # fmt: skip

        return self._through(tgt, attend, attend_to_memory, self._feed_forward)


# Stacks


class _Stack(Module):
    """Copies of a layer, one after the other, and a normalisation behind the last one."""

    def _stack(self, layer: Module, num_layers: int, norm: Module | None) -> None:
        size = sum(each._array.nbytes for each in layer.parameters())
        refuse_beyond_memory(type(self).__name__, "num_layers", num_layers, size)
        self.layers = ModuleList([copy.deepcopy(layer) for _ in range(num_layers)])
        self.num_layers, self.norm = num_layers, norm

    def _run(self, x: Tensor, *memory: Tensor, **masks: Any) -> Tensor:
        for layer in self.layers:
            x = layer(x, *memory, **masks)
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(_Stack):
    """A stack of `num_layers` copies of a `TransformerEncoderLayer`. Tensors that are nested do not exist here: the two
    last arguments change nothing."""

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        self._stack(encoder_layer, num_layers, norm)

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        return self._run(src, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=bool(is_causal))


class TransformerDecoder(_Stack):
    """A stack of `num_layers` copies of a `TransformerDecoderLayer`."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        self._stack(decoder_layer, num_layers, norm)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        return self._run(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=bool(tgt_is_causal),
            memory_is_causal=memory_is_causal,
        )


# Both


class Transformer(Module):
    """An encoder of `src`, and a decoder of `tgt` that attends to it. Weights with several dimensions start
    Xavier-uniform, as in torch."""

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        sizes = d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps
        options = batch_first, norm_first, bias, device, dtype

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)

        self.encoder, self.decoder = custom_encoder, custom_decoder
        if custom_encoder is None:
            layer = TransformerEncoderLayer(*sizes, *options)
            self.encoder = TransformerEncoder(layer, num_encoder_layers, norm())
        if custom_decoder is None:
            last = TransformerDecoderLayer(*sizes, *options)
            self.decoder = TransformerDecoder(last, num_decoder_layers, norm())
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        batch = 0 if self.batch_first else 1
        if src.ndim == 3 and src.shape[batch] != tgt.shape[batch]:
            raise RuntimeError(f"the batch number of src and tgt must be equal, got {src.shape} and {tgt.shape}")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError(
                f"the feature number of src and tgt must be equal to d_model={self.d_model}, got {src.shape} and "
                f"{tgt.shape}"
            )
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """A mask (sz, sz) that keeps each place from what comes after it: -inf above the diagonal, else 0."""
        return full((sz, sz), float("-inf"), dtype=dtype, device=device).triu(1)
